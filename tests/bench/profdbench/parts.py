"""`bench parts`: what single parts of profd cost.

  sample    a sampled thread, at a tick every 10 ms with nothing given up: profd's CPU time, less
            that of a bare wake-up for each tick, for each time that a tick found a thread waiting.
            Under pgbench, redis and a small node of 55 threads
  resting   a tick that finds only threads that rest, less a bare wake-up
  rules     reading the unwind rules of rustc's library, and what they take in the kernel
  start     until profd is ready, and until it samples, on a machine with 200 more processes, all of
            them targets
  self      what the CPU time of profd consists of under the loads of `sample` and `resting`: a second
            profd watches it for ten spans
  self-start  what the CPU time of a start consists of, in the same way

A bare wake-up is a program that sleeps until random instants and does nothing else; it runs at the
same time. Rows go to stdout as lines of JSON, and with --results FILE also into that file. Progress
goes to stderr.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import tempfile
import time

from profdbench import lines, names, overhead, own_time, process, stats
from profdbench.process import Failed, Unavailable
from profdbench.progress import log
from profdbench.scale_point import MIB, Daemon, Load, fetch_json, spawn
from profdbench.workloads import WORKLOADS

INTERVAL_MS = 10
SETTLE_SECONDS = 4
IDLE_THREADS = 100
PROCESSES = 200
SELF_SPANS = 10
STARTS = 20
SELF_RATE = "1000"
ALL_ON = ["--budget", "off"]
EPILOG = """examples:
  bench parts
  bench parts --part rules --part start --results docs/performance/results.jsonl

exit status: 0 done, 1 something failed, 2 the command line is wrong"""


@contextlib.contextmanager
def node(build, directory):
    """The PID of a small node under requests."""
    program = os.path.join(build, "standin")
    if not os.path.exists(program):
        raise Unavailable(f"{program} is not built: it needs cargo and crates")
    path = os.path.join(directory, "node.log")
    with open(path, "wb") as output:
        child = process.spawn([program, "node", directory], stdin=subprocess.PIPE, stdout=output,
                              stderr=subprocess.STDOUT)
    try:
        process.wait_for_line(child, path, "^ready")
        yield child.pid
    finally:
        process.stop(child)


@contextlib.contextmanager
def idle(build, directory):
    """The PID of a process whose threads are blocked for good."""
    load = Load(build, directory, ["--threads", str(IDLE_THREADS)])
    try:
        yield load.process.pid
    finally:
        load.stop()


@contextlib.contextmanager
def server(name, directory):
    with WORKLOADS[name](directory) as workload:
        yield workload.pids()[0]


def loads(build, directory):
    return {"pgbench": lambda: server("pgbench", directory),
            "redis": lambda: server("redis", directory), "node": lambda: node(build, directory)}


def span(options, daemon):
    """What profd did in a span, and what a bare wake-up cost meanwhile."""
    bare = process.spawn([os.path.join(options.build, "bench_wakeups"), "--interval-ms",
                          str(INTERVAL_MS), "--seconds", str(options.seconds)],
                         stdout=subprocess.PIPE, text=True)
    before, _ = daemon.status_after_drain()
    cpu, began = process.task_cpu_ns(daemon.pid), time.monotonic()
    time.sleep(options.seconds)
    cpu, seconds = process.task_cpu_ns(daemon.pid) - cpu, time.monotonic() - began
    after, _ = daemon.status_after_drain()
    said, _ = bare.communicate(timeout=60)
    if bare.returncode != 0:
        raise Failed(f"bench_wakeups ended with {bare.returncode}")
    bare = json.loads(said)
    found = fetch_json(daemon, f"{options.seconds:g}s")
    header, trailer = found["header"], found["trailer"]
    covered = (header["end_ns"] - header["begin_ns"]) / 1e9
    tick_ns = int(after["cost"]["tick_cpu_ns"]) - int(before["cost"]["tick_cpu_ns"])
    duration_ns = int(after["cost"]["duration_ns"]) - int(before["cost"]["duration_ns"])
    return {"tick_ms": trailer["tick_interval_ns"] / 1e6,
            "ticks_per_s": trailer["ticks"] / covered,
            "samples_per_s": sum(sample["ticks"] for sample in found["samples"]) / covered,
            "walks_per_s": trailer["walks"] / covered,
            "threads": len(found["threads"]),
            "cpu_us_per_s": cpu / 1000 / seconds, "tick_us_per_s": tick_ns * 1e6 / duration_ns,
            "bare_us": bare["cpu_ns"] / 1000 / bare["wakeups"]}


def watch(options, directory, pid):
    """The spans of one daemon that watches a target."""
    daemon = Daemon(options.build, directory, pid, ALL_ON)
    try:
        time.sleep(SETTLE_SECONDS)
        return [span(options, daemon) for _ in range(options.turns)]
    finally:
        daemon.stop()


def per_sample(found):
    """(by all of profd's CPU time, by that of ticks alone), µs for each sample of a thread."""
    bare = found["ticks_per_s"] * found["bare_us"]
    return tuple((found[name] - bare) / found["samples_per_s"]
                 for name in ("cpu_us_per_s", "tick_us_per_s"))


def per_tick(found):
    """µs of ticks' CPU time beyond a bare wake-up, for each tick."""
    return found["tick_us_per_s"] / found["ticks_per_s"] - found["bare_us"]


def row_of_spans(options, spans):
    means = {name: statistics.fmean(one[name] for one in spans) for name in spans[0]}
    whole, ticks = zip(*map(per_sample, spans))
    return {"turns": len(spans), "seconds": options.seconds, **means,
            "sample_us": stats.mean(whole).as_list(), "tick_sample_us": stats.mean(ticks).as_list(),
            "beyond_us": stats.mean([per_tick(one) for one in spans]).as_list()}


def measure_sample(options):
    with tempfile.TemporaryDirectory(prefix="profd-parts.", dir="/var/tmp") as directory:
        os.chmod(directory, 0o711)  # PostgreSQL's user must reach its part
        for name, start in loads(options.build, directory).items():
            where = lines.here()
            try:
                with start() as pid:
                    row = row_of_spans(options, watch(options, directory, pid))
            except Unavailable as why:
                log(f"parts: {name}: left out: {why}")
                continue
            log(f"parts: a sample of {name}: {row['sample_us'][0]:.1f} µs, "
                f"{row['tick_sample_us'][0]:.1f} µs of them in ticks")
            yield {"part": "sample", "load": name, **where, **row}


def measure_resting(options):
    where = lines.here()
    with tempfile.TemporaryDirectory(prefix="profd-parts.", dir="/var/tmp") as directory:
        with idle(options.build, directory) as pid:
            row = row_of_spans(options, watch(options, directory, pid))
    log(f"parts: a tick that finds {IDLE_THREADS} resting threads: {row['beyond_us'][0]:.1f} µs "
        f"beyond a wake-up of {row['bare_us']:.1f} µs")
    yield {"part": "resting", "load": f"{IDLE_THREADS} threads", **where, **row}


def measure_rules(options):
    where, path = lines.here(), names.library()
    read = [json.loads(process.output_of([os.path.join(options.build, "bench_rules"), path]))
            for _ in range(options.turns)]
    cpu = stats.mean([one["cpu_s"] for one in read])
    log(f"parts: rules of {os.path.basename(path)}: {read[0]['rows']:,} rows in {cpu.value:.3f} s")
    yield {"part": "rules", "load": os.path.basename(path).split("-")[0], **where,
           "turns": options.turns, "mib": os.path.getsize(path) / MIB, "rows": read[0]["rows"],
           "functions": read[0]["functions"], "cpu_s": cpu.as_list(),
           "bytes_per_row": read[0]["bytes"] / read[0]["rows"]}


@contextlib.contextmanager
def processes(directory):
    """The PID of a process with many children that sleep."""
    log_file = os.path.join(directory, "sleepers.log")
    sleepers = spawn(["sh", "-c", f"for i in $(seq {PROCESSES}); do sleep 100000 & done; "
                      "echo ready; wait"], log_file)
    try:
        process.wait_for_line(sleepers, log_file, "^ready")
        yield sleepers.pid
    finally:
        process.stop(sleepers)


def measure_start(options):
    where, ready, attached, cpu = lines.here(), [], [], []
    with tempfile.TemporaryDirectory(prefix="profd-parts.", dir="/var/tmp") as directory:
        with processes(directory) as pid:
            for _ in range(options.turns):
                daemon = Daemon(options.build, directory, pid, [])
                try:
                    if "still to come" in process.read_text(daemon.log):
                        raise process.Failed("profd did not wait for the files of its targets")
                    ready.append(daemon.ready_s)
                    attached.append(daemon.startup_s)
                    cpu.append(process.task_cpu_ns(daemon.pid) / 1e9)
                finally:
                    daemon.stop()
    start, begin = stats.mean(ready), stats.mean(attached)
    log(f"parts: ready after {start.value:.2f} s, {max(ready):.2f} s at most; attached after {begin.value:.2f} s")
    yield {"part": "start", "load": f"{PROCESSES} processes", **where, "turns": options.turns,
           "start_s": start.as_list(), "start_most_s": max(ready), "attached_s": begin.as_list(),
           "cpu_s": stats.mean(cpu).as_list()}


@contextlib.contextmanager
def watcher_of(options, directory, pid):
    """A profd beside the one in `directory` that looks at CPU time closely, and has settled."""
    beside = os.path.join(directory, "beside")
    os.makedirs(beside, exist_ok=True)
    watcher = Daemon(options.build, beside, pid, [*ALL_ON, "--cpu-rate", SELF_RATE])
    try:
        time.sleep(SETTLE_SECONDS)
        yield watcher
    finally:
        watcher.stop()


def cpu_time(watcher, seconds):
    """The profile of the last seconds."""
    return fetch_json(watcher, f"{seconds:.1f}s", "--kind", "cpu", "--no-inlines")


def watch_self(options, directory, pid):
    """A profile of the CPU time of a profd that watches a target."""
    watched = Daemon(options.build, directory, pid, ALL_ON)
    try:
        with watcher_of(options, directory, watched.pid) as watcher:
            seconds = SELF_SPANS * options.seconds
            time.sleep(seconds)
            watched.check_alive()
            return cpu_time(watcher, seconds)
    finally:
        watched.stop()


def measure_self(options):
    with tempfile.TemporaryDirectory(prefix="profd-parts.", dir="/var/tmp") as directory:
        os.chmod(directory, 0o711)
        rest = {f"{IDLE_THREADS} threads": lambda: idle(options.build, directory)}
        for name, start in {**loads(options.build, directory), **rest}.items():
            where = lines.here()
            try:
                with start() as pid:
                    profile = watch_self(options, directory, pid)
            except Unavailable as why:
                log(f"parts: {name}: left out: {why}")
                continue
            seconds = (profile["header"]["end_ns"] - profile["header"]["begin_ns"]) / 1e9
            cpu = sum(thread["on_cpu_ns"] for thread in profile["threads"]) / 1e9
            log(f"parts: profd used {cpu / seconds:.2%} of a CPU under {name}")
            yield {"part": "self", "load": name, **where, "seconds": seconds, "cpu": cpu / seconds,
                   "stages": own_time.shares(profile)}


def watch_starts(options, directory):
    """(a profile of the CPU time of profds that start and end, the PID of the one that watched)."""
    # Children of this process are targets: all that it starts.
    with processes(directory) as pid, watcher_of(options, directory, os.getpid()) as watcher:
        began = time.monotonic()
        for _ in range(STARTS):
            Daemon(options.build, directory, pid, []).stop()
        return cpu_time(watcher, time.monotonic() - began), watcher.pid


def measure_own_start(options):
    with tempfile.TemporaryDirectory(prefix="profd-parts.", dir="/var/tmp") as directory:
        where = lines.here()
        profile, watcher = watch_starts(options, directory)

    def started(thread):
        return thread["process"] == "profd" and thread["pid"] != watcher

    cpu = sum(thread["on_cpu_ns"] for thread in profile["threads"] if started(thread)) / 1e9 / STARTS
    stages = own_time.shares(profile, own_time.START_STAGES, started)
    end, _ = stages.pop(own_time.END, (0, 0))
    log(f"parts: profd used {cpu * (1 - end):.2f} s of CPU time for a start, and {cpu * end:.2f} s for an end")
    yield {"part": "self-start", "load": f"{PROCESSES} processes", **where, "starts": STARTS, "cpu_s": cpu * (1 - end),
           "end_cpu_s": cpu * end, "stages": {name: [each / (1 - end) for each in found] for name, found in stages.items()}}


MEASURES = {"sample": measure_sample, "resting": measure_resting, "rules": measure_rules,
            "start": measure_start, "self": measure_self, "self-start": measure_own_start}


def add_arguments(subparsers):
    parser = subparsers.add_parser(
        "parts", help="what single parts of profd cost: a sample, a tick, rules, the start; and what it spends its time on",
        description=__doc__, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", action="append", choices=list(MEASURES), metavar="NAME",
                        help="only this one; may be repeated: " + ", ".join(MEASURES))
    parser.add_argument("--seconds", type=overhead.positive(float), default=5,
                        help="length of a span in which samples and ticks are counted (default 5)")
    parser.add_argument("--turns", type=overhead.positive(int), default=5,
                        help="spans, files read and starts (default 5)")
    overhead.add_common_options(parser)
    parser.set_defaults(main=main)


def main(options):
    process.require_root()
    overhead.catch_signals()
    process.require_built(options.build, "profd", "profctl", "bench_load", "bench_rules",
                          "bench_wakeups")
    sink = overhead.Sink(options.results)
    overhead.warn_if_busy()
    for part in options.part or MEASURES:
        try:
            for row in MEASURES[part](options):
                sink.add({"kind": "part", "protocol": "parts", **row})
        except Unavailable as why:
            log(f"parts: {part}: left out: {why}")
    return 0 if sink.count else 1
