"""What profd's own CPU time consists of, as a second profd sees it."""

# A stack belongs to the first stage that it fits. A stage has its name on the page, functions of which the stack has one, and
# functions that it must have besides. Kernel programs are known by the end of their names. Ticks come first, from the inside
# out.
TICK = "visit_entry"
STAGES = (
    ("sleeping and waking", ("__new_sem_wait_slow64", "__x64_sys_futex")),
    ("ticks: what is waited on", ("describe_object", "describe_cpu_wait"), TICK),
    ("ticks: kernel stacks", ("bpf_get_task_stack", "__bpf_get_task_stack"), TICK),
    ("ticks: memory of user stacks", ("bpf_copy_from_user_task",), TICK),
    ("ticks: unwinding user stacks", ("walk_frame_outside",), TICK),
    ("ticks: finding and judging threads", (TICK,)),
    ("ticks: the system call", ("profd::BpfKernel::Visit",)),
    ("ticks: keeping what was found", ("profd::Sampler::Tick",)),
    ("drains", ("profd::Engine::Drain",)),
    ("steps of sources, targets, governing", ("profd::Engine::Round", "profd::Collector::Drain")),
    ("memory timeline", ("profd::MemoryWatch::Work",)),
    ("measuring its own probes", ("profd::MallocBursts::Work",)),
)
# Of a start. What comes first is of the end.
END = "the end"
START_STAGES = (
    (END, ("profd::Engine::~Engine", "uprobe_unregister_nosync")),
    ("the kernel's verifier", ("bpf_check",)),
    ("reading the kernel's symbols", ("profd::FindKernelCode", "profd::KernelSymbolTable::Read")),
    ("the rest of loading programs", ("profd::LoadWhatGoes",)),
    ("putting probes in", ("profd::Reconciler::Work",)),
    ("attaching programs, measuring their entry", ("profd::Engine::AttachSources", "profd::FaultSource::Attach",
                                                  "profd::CpuSource::Attach", "profd::SwitchSource::Calibrate", "profd::BpfKernel::MeasureCpuInterrupt")),
    ("finding processes, modules and their sizes", ("profd::Engine::Discover", "profd::MemoryWatch::Work", "profd::Targets::MarkRunning")),
)
REST = "the rest"


def _has(functions, name):
    return any(function == name or function.startswith("bpf_prog_") and function.endswith("_" + name) for function in functions)


def stage_of(functions, stages=STAGES):
    """The stage of a stack: function names, innermost first, in any form."""
    for stage, some, *every in stages:
        if any(_has(functions, name) for name in some) and all(_has(functions, name) for name in every):
            return stage
    return REST


def shares(profile, stages=STAGES, keep=None):
    """{stage: (share, standard error)} of a profile of CPU time, as tests.harness.answer reads it, of the threads
    for which `keep` is true, by default of all."""
    sums, variances = {}, {}
    for sample in profile["samples"]:
        if keep and not keep(profile["threads"][sample["thread"]]):
            continue
        stack = [] if sample["stack"] is None else [profile["frames"][frame]["function"]
                                                    for frame in profile["stacks"][sample["stack"]]["frames"]]
        stage = stage_of(stack, stages)
        sums[stage] = sums.get(stage, 0) + sample["time_ns"]
        variances[stage] = variances.get(stage, 0) + sample["error_ns"] ** 2
    total = sum(sums.values())
    if not total:
        return {}
    order = [stage for stage, *_ in stages] + [REST]
    return {stage: (sums[stage] / total, variances[stage] ** 0.5 / total) for stage in order if stage in sums}
