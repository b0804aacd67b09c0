"""The jobs of tests/run: what each does, what it needs first, and how much of the machine it takes."""

import json
import os
import subprocess
from pathlib import Path

from . import outcome
from .jobs import Failed, Job

# One more than there are: jobs that mostly wait run beside those that compute.
CPUS = len(os.sched_getaffinity(0)) + 1
# Four of them leave room for a compilation.
WAITS = 0.25
# Compilations and tests in user space wait for those that compare times. An emulated CPU waits for nobody: it tells
# odd times where it does.
CAN_WAIT = 5
CANNOT_WAIT = -15
# The address sanitizer walks the stack at each allocation. For whole stacks in its reports, run the program yourself.
SHORT_REPORTS = f"malloc_context_size=4:{os.environ.get('ASAN_OPTIONS', '')}"
# Name of the job, guest of tests/vm/run, left to --all, setting of its scenarios. The oldest kernel lacks most.
GUESTS = (("guest-6.1", "6.1", False, "linux-6.1"), ("guest-6.12", "6.12", True, "linux-6.12"),
          ("guest-6.1-scaled", "6.1", True, "linux-6.1-scaled"), ("guest-6.12-scaled", "6.12", True, "linux-6.12-scaled"),
          ("guest-6.12x16", "6.12x16", True, "cpus-16"))
# In --all alone: servers without budgets and in a PID namespace, and heaptrack, which needs a minute of a CPU.
LONG_SYSTEM_TESTS = "ServersTest.*/BudgetsOff:ServersTest.PostgresInAPidNamespace/*:HeapPeers.Heaptrack*"
# Programs of tests/crosscheck.
CROSSCHECKS = ("disk", "oncpu", "sched", "futex", "pg_events")
# These of the thread sanitizer's tests take half of its time, and have one thread. The job `unit` has them.
ONE_THREAD = ":".join(f"MemoryStoreTest.{name}" for name in (
    "AFloodOfStacksStaysWithinTheLimit", "AnHourOfIdleThreads", "DropsByBytesAndSaysSo"))


def build(preset, *targets):
    """Configures and builds a preset; of it all, or some targets."""
    def run(context):
        context.command(["cmake", "--preset", preset])
        words = ["--target", *targets] if targets else []
        context.command(["cmake", "--build", f"build/{preset}", "-j", os.cpu_count(), *words])
        return [outcome.Outcome(f"build {preset}", "passed")]
    return run


def gtest(job, program, *, shards=1, environment=None, timeout=600, arguments=()):
    """Runs a GoogleTest program, in several parts side by side where it may."""
    def run(context):
        import threading  # pylint: disable=import-outside-toplevel
        outcomes, errors = [], []

        def part(index):
            xml = context.logs / f"{context.name}.{Path(program).name}.{index}.xml"
            code = context.command([context.root / program, f"--gtest_output=xml:{xml}", *arguments], check=False,
                                   timeout=timeout,
                                   environment={**(environment or {}), "GTEST_TOTAL_SHARDS": str(shards),
                                                "GTEST_SHARD_INDEX": str(index)})
            try:
                found = outcome.from_gtest(job, xml)
            except (OSError, SyntaxError):
                errors.append(f"{program} ended with {code} and no results:\n{context.tail()}")
                return
            outcomes.extend(found)
            if code != 0 and not any(each.result == "failed" for each in found):
                errors.append(f"{program} ended with {code} after its tests:\n{context.tail()}")

        threads = [threading.Thread(target=part, args=(index,)) for index in range(shards)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if not outcomes and not errors:
            errors.append(f"{program} ran no test")
        outcomes += [outcome.Outcome(f"{job} {program}", "failed", error) for error in errors]
        return outcomes
    return run


def gtest_suites(context, program):
    """The names of a program's suites."""
    listed = subprocess.run([context.root / program, "--gtest_list_tests"], cwd=context.root, capture_output=True,
                            text=True, check=True).stdout
    return [line.split()[0].removesuffix(".") for line in listed.splitlines() if line[:1].strip() and line.split()[0].endswith(".")]


def together(*runs):
    """One job of several, one after another."""
    def run(context):
        return [each for part in runs for each in part(context)]
    return run


def script(name, *argv, timeout=1800, environment=None):
    """A command that is one test: 0 passed, 77 with "skipped: FACT: reason" skipped."""
    def run(context):
        code = context.command(argv, check=False, timeout=timeout, environment=environment)
        if code == 0:
            return [outcome.Outcome(name, "passed")]
        text = context.log_path.read_text(errors="replace")
        if code == 77:
            return [outcome.Outcome(name, "skipped", text[-500:], outcome.fact_of(text))]
        return [outcome.Outcome(name, "failed", context.tail())]
    return run


def scenarios(*words, timeout=3600):
    """The scenario runner, with these arguments."""
    def run(context):
        results = context.logs / f"{context.name}.jsonl"
        matrix = "full" if context.options.all else "cover"
        code = context.command(["python3", "-m", "tests.harness", "--matrix", matrix, "--build", "build/tests", "--facts",
                                context.logs / "facts.json", "--results", results, *words], check=False,
                               timeout=timeout)
        return results_in(context, results, code)
    return run


def results_in(context, results, code):
    if not results.exists():
        raise Failed(f"no scenario ran (exit status {code}):\n{context.tail()}")
    outcomes = [outcome.from_scenario(json.loads(line)) for line in results.read_text().splitlines()]
    if code != 0 and not any(each.result == "failed" for each in outcomes):
        raise Failed(f"the scenario runner ended with {code}:\n{context.tail()}")
    return outcomes


def guest(version, *words):
    def run(context):
        results = context.logs / f"{context.name}.jsonl"
        code = context.command(["tests/vm/run", "--build", "build/tests", "--results", results, "--scenarios",
                                "full" if context.options.all else "cover", *words, version], check=False,
                               timeout=3600)
        if code == 77:
            text = context.log_path.read_text(errors="replace")
            return [outcome.Outcome(f"guest {version}", "skipped", text[-500:], outcome.fact_of(text))]
        outcomes = results_in(context, results, 0) if results.exists() else []
        outcomes.append(outcome.Outcome(f"guest {version}", "passed" if code == 0 else "failed", context.tail()))
        return outcomes
    return run


def python_tests(*paths):
    """Files of unittest's, or folders with test_*.py, one outcome a file: the log has the rest."""
    def run(context):
        outcomes = []
        for path in paths:
            path = Path(context.root, path)
            files = sorted(path.glob("test_*.py")) if path.is_dir() else [path]
            if not files:
                raise Failed(f"no test_*.py in {path}")
            for file in files:
                code = context.command(["python3", file], check=False)
                outcomes.append(outcome.Outcome(f"python {file.relative_to(context.root)}",
                                                "passed" if code == 0 else "failed", context.tail()))
        return outcomes
    return run


def replay(context):
    """Each fuzzer once over its seeds, which hold every input that once failed."""
    outcomes = []
    for seeds in sorted(Path(context.root, "tests/fuzz/corpus").iterdir()):
        code = context.command([f"build/asan/{seeds.name}", "-runs=0", seeds], check=False, timeout=300)
        outcomes.append(outcome.Outcome(f"replay {seeds.name}", "passed" if code == 0 else "failed", context.tail()))
    if not outcomes:
        raise Failed("there are no seeds in tests/fuzz/corpus")
    return outcomes


def kernels_page(context):
    """The table of docs/kernels.md against the guests of this run, and the machine itself."""
    results = [path for path in (context.logs / f"{name}.jsonl" for name, *_ in (("scenarios",), *GUESTS))
               if path.exists()]
    if not results:
        return []
    asked = [setting for name, _, _, setting in GUESTS if (context.logs / f"{name}.jsonl").exists()]
    return script("kernels page", "python3", "tests/vm/table.py", "--check", "--asked", ",".join(asked), *results)(context)


FUZZ_SECONDS = 600


def fuzz(context):
    """Each fuzzer beyond its seeds, on a copy of them; what fails is left in build/fuzz/findings."""
    findings = Path(context.root, "build/fuzz/findings")
    findings.mkdir(parents=True, exist_ok=True)
    outcomes = []
    for seeds in sorted(Path(context.root, "tests/fuzz/corpus").iterdir()):
        work = context.logs / f"corpus.{seeds.name}"
        work.mkdir()
        code = context.command([f"build/fuzz/{seeds.name}", f"-max_total_time={FUZZ_SECONDS}",
                                f"-artifact_prefix={findings}/", work, seeds], check=False,
                               timeout=FUZZ_SECONDS + 300)
        outcomes.append(outcome.Outcome(f"fuzz {seeds.name}", "passed" if code == 0 else "failed", context.tail()))
    # DWARF is read by a library, in a process that may die of it.
    code = context.command(["build/asan/unit_tests", "--gtest_filter=LineReaderTest.SurvivesDamagedFiles"],
                           environment={"PROFD_DAMAGE_SECONDS": str(FUZZ_SECONDS)}, check=False,
                           timeout=FUZZ_SECONDS + 300)
    outcomes.append(outcome.Outcome("fuzz DWARF", "passed" if code == 0 else "failed", context.tail()))
    return outcomes


# Suites of tests/system by the job that runs them; `system` runs all others. Those of one job come one after another,
# as they choose targets by name and look for probes that others might have put in. None meets another job's.
SYSTEM_JOBS = {"servers": ("Compiles", "HeapPeers", "HeapTest", "KnownArithmetic", "ServersTest"),
               "losses": ("EndingsTest", "LossesTest", "Ways")}
SYSTEM_TESTS = "build/tests/system_tests"


def system(job):
    """Runs the suites of a job, which the program of tests/system has."""
    def run(context):
        suites = gtest_suites(context, SYSTEM_TESTS)
        # Those with parameters have another name before theirs.
        job_of = {suite: other for other, named in SYSTEM_JOBS.items() for suite in named}
        if missing := set(job_of) - {suite.rpartition("/")[2] for suite in suites}:
            raise Failed(f"{SYSTEM_TESTS} has no {', '.join(sorted(missing))}")
        chosen = [f"{suite}.*" for suite in suites if job_of.get(suite.rpartition("/")[2], "system") == job]
        without = "" if context.options.all else f"-{LONG_SYSTEM_TESTS}"
        return gtest("system", SYSTEM_TESTS, timeout=3600,
                     arguments=[f"--gtest_filter={':'.join(chosen)}{without}"])(context)
    return run


def jobs():
    return [
        Job("style", script("style", "python3", "-m", "tests.suite.hygiene", "--format", "--spelling", "--structure"),
            about="clang-format, spelling, structure"),
        Job("python", python_tests("tests/suite", "tests/harness", "tests/vm", "tests/bench"),
            about="the test system's own tests, the benchmarks' arithmetic"),
        Job("build", build("tests", "profd", "profctl", "kernel_test", "deploy/all", "tests/targets/all"), cpus=2,
            about="the product, targets, tests of the kernel programs"),
        Job("system-build", build("tests", "tests_system"), after=("build",), cpus=2, about="system tests"),
        Job("bench-build", build("tests"), after=("system-build",), cpus=2, long=True, about="programs of the benchmarks"),
        Job("asan-build", build("asan"), follows=("system-build",), cpus=2,
            nice=CAN_WAIT, about="unit tests and fuzzers, with the address and UB sanitizers"),
        Job("tsan-build", build("tsan", "tests_unit"), follows=("asan-build",), cpus=2,
            nice=CAN_WAIT, about="tests that use threads, with the thread sanitizer"),
        Job("tidy", script("tidy", "python3", "-m", "tests.suite.hygiene", "--tidy", "build/asan"), after=("asan-build",),
            follows=("tsan-build",), cpus=2, nice=CAN_WAIT, about="clang-tidy"),
        Job("kernel", gtest("kernel", "build/tests/kernel_test"), after=("build",), cpus=WAITS,
            about="the kernel programs, loaded and attached"),
        Job("scenarios", scenarios("--inside", "host"), after=("build",), cpus=WAITS,
            about="real targets, as shipped and in other settings"),
        Job("pidns", scenarios("--inside", "pidns"), after=("build",), follows=("scenarios",), cpus=WAITS,
            about="scenarios in a PID namespace"),
        Job("containers", together(script("containers", "tests/containers/check", "build/tests"),
                                   script("pod", "tests/containers/pod", "build/tests"),
                                   script("needs", "tests/containers/needs", "build/tests"),
                                   scenarios("--inside", "container")), after=("build",), follows=("kernel",), cpus=WAITS,
            about="scenarios in containers, as users deploy it"),
        Job("losses", system("losses"), after=("system-build",), follows=("kernel",), cpus=WAITS,
            about="every loss, provoked"),
        Job("system", system("system"), after=("system-build",), follows=("kernel",), cpus=WAITS,
            about="what needs more than a scenario file can say"),
        # These compute, and would shed what scenarios look for.
        Job("servers", system("servers"), after=("system-build",), follows=("kernel", "scenarios", "containers"),
            cpus=WAITS,
            about="the same, of allocators, real servers and compilers"),
        Job("configure", script("configure", "cmake", "--preset", "debug"), after=("build",), cpus=1,
            about="configures a build that compiles each source alone"),
        Job("hardening", script("hardening", "python3", "tests/hardening/hardening_test.py", "build/tests/profd",
                                "build/tests/profctl"), after=("build",), cpus=0.5, about="flags of the programs"),
        Job("browser", script("browser", "python3", "tests/browser/flamegraph_test.py", "tests/golden"), cpus=1,
            follows=("build",), about="the flame graph in headless Chromium"),
        Job("readers", script("readers", "python3", "tests/readers/readers_test.py", "build/tests"), after=("build",),
            follows=("scenarios",), cpus=0.5, about="Go's pprof, speedscope and grpcurl on a real server's answers"),
        Job("crosscheck", together(*(script(f"crosscheck {name}", "python3", f"tests/crosscheck/{name}_test.py", "build/tests")
                                     for name in CROSSCHECKS)), after=("build",),
            follows=("system",), cpus=1, long=True, about="the same run beside fio, perf, strace and pg_stat_activity"),
        Job("names", together(*(script(name, "python3", f"tests/crosscheck/{name}_test.py", "build/tests")
                                for name in ("names", "walks"))), after=("build",),
            follows=("crosscheck",), cpus=2, long=True,
            about="frames of real servers and compilers: those without a function, and each beside eu-stack"),
        Job("lto-build", build("tests", "standin_lto", "bench_infer"), after=("bench-build",), cpus=2, long=True,
            about="the stand-in with link-time optimisation"),
        Job("standin", script("standin", "python3", "tests/crosscheck/standin_test.py", "build/tests"),
            after=("build", "lto-build"), follows=("names",), cpus=1, long=True,
            about="names and idle time of the stand-in without symbols, against its symbols"),
        Job("terminal", script("terminal", "python3", "tests/terminal/top_test.py", "build/tests"), after=("build",),
            follows=("scenarios",), cpus=WAITS, about="profctl top in a terminal"),
        Job("diff", script("diff", "python3", "-m", "tests.endurance.phases", "--rounds", "10"), after=("build",),
            follows=("scenarios",), cpus=0.5, about="what diff says of two phases of known difference"),
        Job("diffs", script("diffs", "python3", "-m", "tests.endurance.phases"), after=("build",), follows=("system",),
            cpus=0.5, long=True, about="the same in 100 rounds"),
        Job("guest-kernels", script("guest kernels", "tests/vm/run", "--fetch"), cpus=0.5,
            about="fetches Debian's kernels for the guests"),
        # Beside none that loads programs into the kernel, where it is not interrupted. The unit tests are left for its time.
        *(Job(name, guest(version, *(("--scaled",) if setting.endswith("-scaled") else ())), after=("build",), cpus=CPUS if long else CPUS - 1, nice=CANNOT_WAIT, long=long,
              follows=("guest-kernels", "scenarios", "pidns", "containers", "system", "losses", "servers", "readers",
                       "terminal", "diff", "tidy", "threads", "storms", *(("unit",) if long else ())),
              about=f"scenarios on Linux {version}, emulated, {setting}") for name, version, long, setting in GUESTS),
        Job("unit", gtest("unit", "build/asan/unit_tests", shards=2, environment={"ASAN_OPTIONS": SHORT_REPORTS}), after=("asan-build",), follows=("storms", "threads"),
            cpus=1, nice=CAN_WAIT, about="unit tests, under address and UB sanitizers"),
        Job("replay", replay, after=("asan-build",), cpus=1, about="fuzzers over their seeds"),
        Job("threads", gtest("threads", "build/tsan/thread_tests", environment={
            "TSAN_OPTIONS": "suppressions=tests/tsan.supp"}, arguments=[f"--gtest_filter=-{ONE_THREAD}"]), after=("tsan-build",), cpus=1,
            nice=CAN_WAIT, about="tests that use threads, under the thread sanitizer"),
        Job("fuzz-build", build("fuzz", "tests_fuzz"), cpus=2, long=True, follows=("tidy",), about="the fuzzers"),
        Job("fuzz", fuzz, after=("fuzz-build", "asan-build"), cpus=1, long=True,
            about=f"each fuzzer for {FUZZ_SECONDS // 60} minutes"),
        Job("calibration", gtest("system", "build/tests/calibration_test"), after=("system-build",), follows=("system",),
            cpus=0.5, long=True, about="stated intervals against the truth, in 100 windows"),
        Job("storms", script("storms", "python3", "-m", "tests.endurance.storm", "fork", "pthread", "shellscript",
                             "--watch", "storm", "--seconds", "2", "--rest", "0"),
            after=("build",), follows=("system", "losses", "servers"), cpus=2, about="short storms, and the CPU time in them"),
        Job("storm", script("storm", "python3", "-m", "tests.endurance.storm", "--rounds", "7", timeout=7200),
            after=("build",), follows=("system", "guest-6.12"), cpus=3, long=True, about="storms of processes and threads"),
        Job("image", script("image", "tests/containers/image", timeout=7200), follows=("system",), cpus=2, long=True,
            about="the container image from source"),
        Job("soak", script("soak", "python3", "-m", "tests.endurance.soak", timeout=7200), after=("build",),
            follows=("storm",), cpus=3, long=True, about="targets that come and go for 20 minutes"),
        Job("mutations", script("mutations", "python3", "-m", "tests.suite.mutate", timeout=4 * 3600),
            after=("build", "asan-build"), follows=("soak",), cpus=3, long=True,
            about="breaks the product, and shows that a test notices"),
        Job("claims", together(script("claims", "python3", "-m", "tests.suite.check_docs"), kernels_page),
            follows=("kernel", "scenarios", "pidns", "containers", "system", "losses", "servers", "unit",
                     *(guest[0] for guest in GUESTS)), cpus=0.5,
            about="docs against the code and what the tests observed"),
    ]


def describe():
    lines = ["jobs (those marked * run with --all alone):"]
    lines += [f"  {'*' if job.long else ' '} {job.name:12} {job.about}" for job in jobs()]
    return "\n".join(lines)
