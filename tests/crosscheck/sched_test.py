#!/usr/bin/env python3
"""Where the time of threads went, and who ended their waits, beside `perf sched timehist` of the same run: PostgreSQL at a
fixed rate, its client, and a busy loop on each CPU.

usage: sched_test.py BUILD, as root. Prints what each said of every thread, as tables for docs/accuracy.md.
"""

import bisect
import math
import os
import re
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests/bench")]

# pylint: disable=wrong-import-position
from profdbench import process
from profdbench.workloads.postgres import Pgbench
from tests.crosscheck import peer
from tests.harness import tolerance
from tests.harness.answer import off
from tests.harness.daemon import Daemon, instant
from tests.harness.process import Process

SECONDS = 20
SETTLE_SECONDS = 3
BUSY = "while :; do :; done"
CLIENTS = 8
# perf prints times in steps of a microsecond.
ROUNDED = 2e-6
# A wake-up that preempts a thread takes effect within this time; in a virtual machine, with both tools, mostly 10 to 30 us.
PREEMPTED = 50e-6
# Waits that begin at an edge of the window, by the clock of either.
EDGE_WAITS = 2
# Wakers with less are not compared. Waits that last at the window's end have none.
LEAST_SHARE = 0.01
MOST_UNKNOWN = 0.05
# Nor are wakers of threads with fewer waits: one at an edge of the window is too much.
LEAST_WAITS = 1000
UNKNOWN = "[waker unknown]"
# 1.234567 [0001]  postgres[123/120]    0.001   0.002   0.003   S
SWITCH = re.compile(r"^\s*(\d+\.\d+) \[\d+\]\s+(.+?)\s+(-?\d+\.\d+)\s+(-?\d+\.\d+)\s+(-?\d+\.\d+)\s+(\S+)\s*$")
THREAD = re.compile(r"\[(\d+)(?:/\d+)?\]$")
# Who wakes in such a function is interrupted: the wake-up is not that thread's.
INTERRUPT = re.compile(r"\b(asm_sysvec_|asm_common_interrupt|sysvec_|common_interrupt)")


class PacedPgbench(Pgbench):
    """So many transactions a second that they leave the CPUs some time."""
    client_options = ["-S", "-R", "1000"]


@dataclass
class Times:
    """Of a thread in a window, s."""
    ran: float = 0.0
    queued: float = 0.0
    blocked: float = 0.0
    charged: float = 0.0  # on a CPU by the kernel's books, of sched_stat_runtime
    # From a wake-up until the thread is in the run queue of its CPU: perf counts it as queued, the kernel's books do not.
    woken: float = 0.0
    # Of a thread that preempts another, what the books count as its run and perf as its wait for the CPU; and, with the
    # sign changed, of the other. They use the run queue's clock as of the wake-up; perf that of the switch.
    early: float = 0.0
    late: float = 0.0
    waits: int = 0
    by_waker: dict = field(default_factory=lambda: defaultdict(float))


def switches_of(recording):
    """{tid: [(left its CPU before, got it, left it again, delay after a wake-up, whether it could run meanwhile)]}."""
    found, could_run = defaultdict(list), {}
    for line in recording.lines("sched", "timehist", "--state", "--no-call-graph"):
        switch = SWITCH.match(line)
        thread = THREAD.search(switch[2]) if switch else None
        if not thread:
            continue
        tid, end = int(thread[1]), float(switch[1])
        wait, delay, ran = (float(switch[index]) / 1e3 for index in (3, 4, 5))
        if tid in could_run:  # before its first switch it may have been anywhere
            found[tid].append((end - ran - wait, end - ran, end, delay, could_run[tid]))
        # A thread that is preempted has a state that this perf does not know.
        could_run[tid] = switch[6] in ("R", "R+", "?")
    return found


@dataclass
class Events:
    """Of a thread, in the order of time."""
    wakers: list = field(default_factory=list)   # (instant of a wake-up, tid of the waker or "interrupt")
    queued: list = field(default_factory=list)   # instant at which it came into a run queue
    charged: list = field(default_factory=list)  # (instant, s on a CPU that the kernel adds to its books)


def events_of(recording):
    """{tid: Events}."""
    found, event = defaultdict(Events), None
    for line in recording.lines("script", "--ns", "-F", "tid,time,event,trace,ip,sym"):
        head = re.match(r"^\s*(-?\d+)\s+(\d+\.\d+):\s+sched:(\w+):(.*)", line)
        if head:
            event, instant = None, float(head[2])
            whose = re.search(r"\bpid=(\d+) (?:prio|runtime=(\d+))", head[4])
            if not whose:
                continue
            events = found[int(whose[1])]
            if head[3] == "sched_waking":
                event = events.wakers
                event.append((instant, int(head[1])))
            elif head[3] == "sched_stat_runtime":
                events.charged.append((instant, int(whose[2]) / 1e9))
            elif head[3] in ("sched_wakeup", "sched_wakeup_new"):
                events.queued.append(instant)
        elif event and INTERRUPT.search(line):
            event[-1] = (event[-1][0], "interrupt")
            event = None
    return found


def first_between(events, begin, end, instant_of=lambda event: event):
    """The first event of an ascending list in an interval; times are rounded to a microsecond."""
    index = bisect.bisect_left(events, begin - ROUNDED, key=instant_of)
    return events[index] if index < len(events) and instant_of(events[index]) <= end + ROUNDED else None


def times_of(switches, events, window):
    """What perf saw of a thread in a window; None unless it saw it from the window's begin to its end."""
    if not switches or switches[0][0] > window.begin or switches[-1][2] < window.end:
        return None
    times = Times(charged=sum(seconds for instant, seconds in events.charged if window.has(instant)))
    for left, got, end, delay, could_run in switches:
        times.ran += window.part(got, end)
        times.waits += window.has(left)
        woken = left if could_run else got - delay
        times.queued += window.part(woken, got)
        times.blocked += window.part(left, woken)
        if could_run:
            times.late += PREEMPTED * window.has(left)
            continue
        if not window.part(left, got):
            continue
        arrived = first_between(events.queued, woken, got) or got
        times.woken += window.part(woken, arrived)
        times.early += min(window.part(arrived, got), PREEMPTED)
        waker = first_between(events.wakers, left, got, lambda event: event[0])
        times.by_waker[waker[1] if waker else None] += window.part(left, woken)
    return times


def stolen_s():
    """Time that interrupts and the hypervisor took from all CPUs, by the kernel's account."""
    fields = process.read_text("/proc/stat").split("\n", 1)[0].split()[1:]
    return sum(int(fields[index]) for index in (5, 6, 7)) / os.sysconf("SC_CLK_TCK")


def within(what, low, value, high):
    return [failure.text for failure in tolerance.between(what, low * 1e9, value * 1e9, high * 1e9)]


def check_ledger(threads, seen, stolen):
    print("\n| thread | on CPU: charged | timehist | profd | run queue: timehist | profd | blocked: timehist | profd | "
          "waits: timehist | profd |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    failures = []
    for thread in threads:
        times = seen[thread["tid"]]
        queued = off(thread, "runqueue") / 1e9
        ran, blocked = thread["on_cpu_ns"] / 1e9, off(thread) / 1e9 - queued
        waits = sum(entry["waits"] for entry in thread["off"])
        name = f"{thread['name']} ({thread['tid']})"
        print(f"| {name} | {times.charged:.3f} | {times.ran:.3f} | {ran:.3f} | {times.queued:.3f} | {queued:.3f} | {times.blocked:.3f} | "
              f"{blocked:.3f} | {times.waits} | {waits} |")
        # Books charge no time that interrupts or the hypervisor took, and begin to wait for a CPU in its run queue.
        failures += within(f"{name}: on CPU, charged", times.charged, ran, times.charged)
        failures += within(f"{name}: on CPU", times.ran - stolen - times.late, ran, times.ran + times.early)
        failures += within(f"{name}: run queue", times.queued - times.woken - times.early, queued,
                           times.queued + stolen + times.late)
        failures += within(f"{name}: blocked", times.blocked, blocked, times.blocked + times.woken)
        if abs(waits - times.waits) > EDGE_WAITS:
            failures.append(f"{name}: {waits} waits, should be {times.waits} to within {EDGE_WAITS}")
    return failures


def check_wakers(what, answer, threads, seen, names):
    """Time blocked of threads together, by who ended it."""
    truth, sums, variances, edges, unknown = defaultdict(float), defaultdict(float), defaultdict(float), 0.0, 0.0
    for thread in threads:
        times = seen[thread["tid"]]
        # A wait that is open at an edge of the window has no waker in one account, and may have one in the other.
        edges += (times.blocked / max(1, times.waits)) ** 2
        for tid, seconds in times.by_waker.items():
            if tid is not None:
                truth[names.get(tid, "another thread")] += seconds
        for sample in answer.samples_of(answer.thread(thread["pid"], thread["tid"])):
            if sample.reason == "runqueue":
                continue
            waker = waker_of(sample)
            if waker is None:
                unknown += sample.value
                continue
            sums[waker] += sample.value
            variances[waker] += sample.error ** 2
    known, every = sum(sums.values()), sum(truth.values())
    assert unknown <= MOST_UNKNOWN * (known + unknown), (
        f"{what}: {unknown / 1e9:.2f} s of {(known + unknown) / 1e9:.2f} s have no waker")
    rows = {name: (peer.Share(truth.get(name, 0.0) / every, math.sqrt(edges) / every),
                   peer.Share(sums.get(name, 0.0) / known, math.sqrt(variances.get(name, 0.0)) / known))
            for name in sorted({*truth, *sums}) if max(truth.get(name, 0.0) / every, sums.get(name, 0.0) / known) >= LEAST_SHARE}
    return peer.compare(f"{what}: who ended their waits ({known / 1e9:.2f} s)", rows)


def waker_of(sample):
    """The name of who ended a wait, "interrupt", or None."""
    name = sample.stack.functions()[0] if sample.stack else UNKNOWN
    if name == UNKNOWN:
        return None
    return "interrupt" if name.startswith("[") else name


def names_of(threads):
    """{tid: name as profd has it of wakers}, of all that can wake."""
    found = {"interrupt": "interrupt"}
    for thread in threads:
        process_name, name = thread["process"], thread["name"]
        found[thread["tid"]] = process_name if name == process_name else f"{process_name}/{name}"
    return found


def measured(place, workload, loops):
    pids = {*workload.pids(), workload.client.pid, *(loop.pid for loop in loops)}
    daemon, recording = Daemon(place, ["--budget", "off"], sorted(pids)), None
    try:
        time.sleep(SETTLE_SECONDS)
        # perf has wake-ups; also when the woken thread came into its run queue, and which function woke it.
        recording = peer.Recording(workload.directory, "sched", "record", "-e", "sched:sched_wakeup", "-e",
                                   "sched:sched_waking/call-graph=fp/", "--kernel-callchains", "-m", "16M")
        time.sleep(1)
        stolen = -stolen_s()
        begin = daemon.fetch("--since", "1s").end_ns
        time.sleep(SECONDS)
        ledger = daemon.fetch("--from", instant(begin), "--idle")
        stolen += stolen_s()
        wakers = daemon.fetch("--kind", "wakers", "--from", instant(begin), "--to", instant(ledger.end_ns), "--idle")
        time.sleep(1)
        recording.stop()
    finally:
        if recording:
            recording.kill()
        daemon.stop()
        daemon.kill()
    return recording, ledger, wakers, stolen


def test(place):
    process.require_tracefs("perf")
    with tempfile.TemporaryDirectory(prefix="profd-crosscheck.", dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        with PacedPgbench(folder) as workload:
            loops = [Process(["sh", "-c", BUSY]) for _ in os.sched_getaffinity(0)]
            try:
                recording, ledger, wakers, stolen = measured(place, workload, loops)
            finally:
                for loop in loops:
                    loop.kill()
        switches, events = switches_of(recording), events_of(recording)
        window, seen = peer.Window.of(ledger), {}
        for thread in ledger.threads:
            tid = thread["tid"]
            times = times_of(switches.get(tid), events[tid], window)
            if times:
                seen[tid] = times
        threads = [thread for thread in ledger.threads if thread["tid"] in seen]
        assert len(threads) > CLIENTS + len(loops), [thread["name"] for thread in threads]
        print(f"interrupts and the hypervisor took {stolen:.2f} s from all CPUs in {SECONDS} s")
        failures = check_ledger(threads, seen, stolen)
        names = names_of(ledger.threads)
        for who in ("postgres", "pgbench"):
            mine = [thread for thread in threads if thread["name"] == who and seen[thread["tid"]].waits >= LEAST_WAITS]
            failures += check_wakers(who, wakers, mine, seen, names)
            mean = sum(seen[thread["tid"]].blocked for thread in mine) / sum(seen[thread["tid"]].waits for thread in mine)
            print(f"mean wait: {1e3 * mean:.2f} ms")
    peer.require(failures)


if __name__ == "__main__":
    try:
        STATUS = peer.main(test, "kernel.tracefs")
    finally:
        process.release_tracefs()
    sys.exit(STATUS)
