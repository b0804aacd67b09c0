#!/usr/bin/env python3
"""Waits for locks, beside `strace -f -C -w -T -e trace=futex` of the same run. strace slows the threads down, and so they are
traced while profd watches: what strace does to them is in profd's ledger, under the reason `traced`.

usage: futex_test.py BUILD, as root. Prints the calls and times of each thread, as a table for docs/accuracy.md.
"""

import re
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

# pylint: disable=wrong-import-position
from tests.crosscheck import peer
from tests.harness import tolerance
from tests.harness.answer import off, waits
from tests.harness.daemon import Daemon, instant

START_SECONDS = 60
RUN_SECONDS = 300
ROUNDS = 100
CASES = (("locks", str(ROUNDS)), ("mutex", str(ROUNDS)))
# 123 1700000000.000001 futex(0x7f, FUTEX_WAIT_PRIVATE, 2, NULL) = 0 <0.020100>
CALL = re.compile(r"^(\d+)\s+(\d+\.\d+) futex\(\S+ (FUTEX_\w+)")
RESULT = re.compile(r"^(\d+)\s+(\d+\.\d+) .*futex.* = (-?\d+)(?: (E\w+))?.* <(\d+\.\d+)>$")
SUMMARY = re.compile(r"^\s*100\.00\s+(\d+\.\d+)\s+\d+\s+(\d+)\s+(?:(\d+)\s+)?futex$")
WAITS = ("FUTEX_WAIT", "FUTEX_LOCK_PI")
# Calls that return before the thread sleeps, as a share: the lock was given back meanwhile.
MOST_WITHOUT_WAIT = 0.1


@dataclass
class Calls:
    """Of a thread, that may wait."""
    number: int = 0
    refused: int = 0  # the futex had another value: no wait
    seconds: float = 0.0


def calls_of(lines, begin):
    """{tid: Calls} of what began after an instant, s since 1970; and the line of strace's summary."""
    found, open_calls, summary = defaultdict(Calls), {}, None
    for line in lines:
        summary = SUMMARY.match(line) or summary
        call = CALL.match(line)
        if call:
            open_calls[call[1]] = (float(call[2]), call[3])
        result = RESULT.match(line)
        if not result or result[1] not in open_calls:
            continue
        began, operation = open_calls.pop(result[1])
        if began >= begin and operation.startswith(WAITS):
            calls = found[int(result[1])]
            calls.number += 1
            calls.refused += result[4] == "EAGAIN"
            calls.seconds += float(result[5])
    return found, summary


def check(case, answer, calls):
    failures, compared = [], 0
    for thread in answer.threads:
        theirs = calls.get(thread["tid"])
        if not theirs:
            continue
        blocked = off(thread, "lock") / 1e9
        besides = (off(thread, "traced") + off(thread, "runqueue")) / 1e9
        told, name = waits(thread, "lock"), f"{thread['name']} ({thread['tid']})"
        print(f"| {case}: {name} | {theirs.number} | {theirs.refused} | {told} | {theirs.seconds:.4f} | {blocked:.4f} | "
              f"{besides:.4f} |")
        # strace's time ends when strace has seen the end of the call: until then the thread is traced, or has no CPU.
        failures += [failure.text for failure in tolerance.between(
            f"{name}: futex", blocked * 1e9, theirs.seconds * 1e9, (blocked + besides) * 1e9)]
        may_wait = theirs.number - theirs.refused
        if not (1 - MOST_WITHOUT_WAIT) * may_wait <= told <= theirs.number:
            failures.append(f"{name}: {told} waits of {theirs.number} calls, {theirs.refused} of which were refused")
        compared += 1
    if compared < 2:
        failures.append(f"{case}: {compared} threads could be compared, should be 2 at least")
    return failures


def measured(place, folder, case):
    """Failures of a program that takes locks a known number of times."""
    trace = Path(folder, f"{case[0]}.strace")
    target = place.target(["strace", "-f", "-C", "-w", "-T", "-ttt", "--seccomp-bpf", "-e", "trace=futex", "-o", str(trace),
                           place.program("waiter"), *case], {})
    daemon = None
    try:
        pid = int(target.line_with("ready", START_SECONDS).split()[1])
        daemon = Daemon(place, ["--budget", "off"], [pid])
        begin = daemon.fetch("--since", "1s").end_ns
        target.write("go\n" * 4)  # it stops where a scenario asks
        target.line_with('"threads"', RUN_SECONDS)
        answer = daemon.fetch("--from", instant(begin), "--idle")
        if target.end(START_SECONDS) != 0:
            raise AssertionError(f"{' '.join(case)} failed\n{target.said()}")
    finally:
        target.kill()
        if daemon:
            daemon.stop()
            daemon.kill()
    calls, summary = calls_of(trace.read_text().splitlines(), answer.begin_ns / 1e9)
    assert summary, f"strace printed no summary:\n{trace.read_text()[-1000:]}"
    failures = check(case[0], answer, calls)
    print(f"| {case[0]}: strace -c, all calls | {summary[2]} | {summary[3] or 0} | | {float(summary[1]):.4f} | | |")
    return failures


def test(place):
    failures = []
    print("| thread | calls that may wait | refused | waits: profd | futex, s: strace | profd | traced or no CPU, s |\n"
          "|---|--:|--:|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory(prefix="profd-crosscheck.") as folder:
        for case in CASES:
            failures += measured(place, folder, case)
    peer.require(failures)


if __name__ == "__main__":
    sys.exit(peer.main(test))
