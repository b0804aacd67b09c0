#!/usr/bin/env python3
"""What runs, beside `perf record -e cpu-clock` of the same run: PostgreSQL, redis and rustc.

usage: oncpu_test.py BUILD, as root. Prints the shares of the functions that ran most by both tools, as tables for
docs/accuracy.md. Two families of comparisons for each program, of functions and of threads: each fails by chance once in
500 runs.
"""

import re
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests/bench")]

# pylint: disable=wrong-import-position
from profdbench.workloads.postgres import Pgbench
from profdbench.workloads.redis import Redis
from profdbench.workloads.runs import Rustc
from tests.crosscheck import peer
from tests.crosscheck.functions import Functions, Mappings, is_one_of
from tests.harness.daemon import Daemon, instant

SECONDS = 30
SETTLE_SECONDS = 3
# perf's period is fixed. It must not be in step with the scheduler's clock of 100, 250 or 1,000 Hz, by which threads change:
# its samples would be seen at one phase for long, and not be independent.
RATE = 904
# Functions with less are not compared, nor is a total error of more than this worth a comparison.
LEAST_SHARE = 0.01
LARGEST_ERROR = 0.01
# Of the time, what may have no sample: that of threads that hardly ran.
MOST_UNSAMPLED = 0.01
SAMPLE = re.compile(r"^\s*(\d+)/(\d+)\s+(\d+\.\d+):\s+([0-9a-f]+) ")


class LongRustc(Rustc):
    """One compilation takes about as long as the windows of the others."""
    run_seconds = 20


def perf_samples(recording, window, pids):
    """(pid, tid, path, offset) of each sample of these processes in the window; path "" in the kernel."""
    mappings, found = Mappings(), []
    for line in recording.lines("script", "--ns", "--show-mmap-events", "-F", "pid,tid,time,ip"):
        if mappings.read(line):
            continue
        sample = SAMPLE.match(line + " ")
        if not sample:
            continue
        pid, tid, address = int(sample[1]), int(sample[2]), int(sample[4], 16)
        if pid in pids and window.has(float(sample[3])):
            path, offset = ("", address) if address >> 63 else mappings.place(pid, address) or ("[unknown]", 0)
            found.append((pid, tid, path, offset))
    return found


def check(name, recording, answer, pids):
    functions, window = Functions(), peer.Window.of(answer)
    samples = perf_samples(recording, window, pids)
    assert len(samples) >= 1000, f"{name}: perf has only {len(samples)} samples"
    paths = {Path(path).name: path for _, _, path, _ in samples}
    said = {}  # what profd calls each function

    def function_of(sample):
        if sample.stack is None:
            return "[unsampled]"
        frame = sample.stack.frames[0]
        if frame["kind"] == "kernel":
            found = functions.in_kernel(frame["address"])
        else:
            found = functions.in_file(paths.get(Path(frame["module"]).name, frame["module"]), frame["address"])
        said.setdefault(found, set()).add(frame["function"])
        return found
    threads = [thread for thread in answer.threads if thread["pid"] in pids]
    ours = peer.estimated(answer, function_of, threads)
    theirs = peer.counted(Counter(functions.in_file(path, offset) if path else functions.in_kernel(offset)
                                  for _, _, path, offset in samples))
    nothing = peer.Share(0.0)
    unsampled = ours.get("[unsampled]", nothing).value
    assert unsampled <= MOST_UNSAMPLED, f"{name}: {unsampled:.1%} has no sample"
    ran_ns = sum(thread["on_cpu_ns"] for thread in threads)
    print(f"\n## {name}: perf has {len(samples)} samples, or {len(samples) / RATE:.2f} s; profd has "
          f"{sum(sample.raw['ticks'] for thread in threads for sample in answer.samples_of(thread))} of {ran_ns / 1e9:.2f} s")
    top = sorted((each for each in {*ours, *theirs} - {"[unsampled]"} if
                  max(ours.get(each, nothing).value, theirs.get(each, nothing).value) >= LEAST_SHARE),
                 key=lambda each: -theirs.get(each, nothing).value)
    rows = {each.label(): (theirs.get(each, nothing), ours.get(each, nothing)) for each in top}
    failures = peer.compare(f"{name}: functions with {LEAST_SHARE:.0%} or more", rows)
    for each, (_, share) in rows.items():
        if share.error > LARGEST_ERROR:
            failures.append(f"{name}: {each}: profd states an error of {share.error:.2%}, more than {LARGEST_ERROR:.0%}")
    for each in top:
        wrong = [word for word in said.get(each, ()) if each.names and not is_one_of(word, each.names)]
        if wrong:
            failures.append(f"{name}: profd calls {each.label()} {', '.join(wrong)}; its symbols are {', '.join(each.names)}")
    # profd's times of threads are exact, so only perf has an error.
    by_thread = peer.counted(Counter(tid for _, tid, _, _ in samples))
    exact = {thread["tid"]: thread["on_cpu_ns"] / ran_ns for thread in threads}
    rows = {f"{thread['process']}/{thread['name']} ({thread['tid']})": (by_thread.get(thread["tid"], nothing),
                                                                      peer.Share(exact[thread["tid"]]))
            for thread in threads if exact[thread["tid"]] >= LEAST_SHARE}
    return failures + peer.compare(f"{name}: threads with {LEAST_SHARE:.0%} or more", rows)


def measured(place, workload, rustc):
    """Failures of one program, whose load is on."""
    pids = set(workload.pids())
    daemon = Daemon(place, ["--budget", "off"], sorted(pids))
    recording = None
    try:
        time.sleep(SETTLE_SECONDS)
        recording = peer.Recording(workload.directory, "record", "-e", "cpu-clock", "-F", str(RATE))
        begin = daemon.fetch("--kind", "cpu", "--since", "1s").end_ns
        if rustc:
            workload.slice(None)
        else:
            time.sleep(SECONDS)
        answer = daemon.fetch("--kind", "cpu", "--no-inlines", "--from", instant(begin))
        recording.stop()
        return check(workload.name, recording, answer, pids)
    finally:
        if recording:
            recording.kill()
        daemon.stop()
        daemon.kill()


def test(place):
    failures = []
    for kind in (Pgbench, Redis, LongRustc):
        with tempfile.TemporaryDirectory(prefix="profd-crosscheck.", dir="/var/tmp") as folder:
            Path(folder).chmod(0o755)
            with kind(folder) as workload:
                failures += measured(place, workload, kind is LongRustc)
    peer.require(failures)


if __name__ == "__main__":
    sys.exit(peer.main(test, "kernel.kallsyms"))
