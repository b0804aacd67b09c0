#!/usr/bin/env python3
"""What backends of PostgreSQL wait for, beside `pg_stat_activity` of the same run: its column wait_event says what the server
itself holds to be the reason. It is read at random instants while pgbench commits at a fixed rate.

usage: pg_events_test.py BUILD, as root. Prints the shares of the events by both, and next to them what `--by object` says was
waited on, as tables for docs/accuracy.md.
"""

import math
import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests/bench")]

# pylint: disable=wrong-import-position
from profdbench import process
from profdbench.workloads.postgres import PgbenchWrite
from tests.crosscheck import peer
from tests.harness import tolerance
from tests.harness.daemon import Daemon, instant
from tests.harness.process import Process

SECONDS = 60
SETTLE_SECONDS = 3
ANSWER_SECONDS = 30
# Mean time between two looks at the server.
PAUSE_SECONDS = 0.01
LEAST_LOOKS = 1000
# Events with less are not compared.
LEAST_SHARE = 0.005
QUERY = """
create temp table looks (at bigint, pid int, kind text, event text);
do $$
declare
  ends timestamptz := clock_timestamp() + interval '{seconds} s';
  at bigint;
begin
  while clock_timestamp() < ends loop
    perform pg_sleep(-ln(1 - random()) * {pause});
    perform pg_stat_clear_snapshot();
    at := extract(epoch from clock_timestamp()) * 1000000000;
    insert into looks select at, pid, coalesce(wait_event_type, ''), coalesce(wait_event, '') from pg_stat_activity
      where backend_type = 'client backend' and pid <> pg_backend_pid();
  end loop;
end $$;
select 'look', * from looks;
select 'all read';
"""
PRIORITY = 1
NONE = "none"
# An event lasts from before its call until after it. So it is known by its call and by the function of the server that sets
# it; those that are static have no name in a stripped server.
CLIENT = "Client: ClientRead"
SYNC = "IO: WALSync"
SEMAPHORE = "LWLock, and IPC: group updates"
LOCK = "Lock"
EVENTS = (CLIENT, SYNC, SEMAPHORE, LOCK, NONE)
OBJECTS = {CLIENT: "Unix socket", SYNC: "pg_wal", SEMAPHORE: "futex"}
GROUP_UPDATES = ("procarraygroupupdate", "xactgroupupdate")


class PacedPgbench(PgbenchWrite):
    """So many transactions a second that backends wait for their clients, too."""
    client_options = ["-R", "600"]


def event_of(kind, event):
    """What the server says, in the words of the comparison; short writes of files count as none, as they hardly wait."""
    if kind == "LWLock" or event.lower() in GROUP_UPDATES:
        return SEMAPHORE
    if kind == "Lock":
        return LOCK
    # Later versions write WalSync.
    return {each.lower(): each for each in (CLIENT, SYNC)}.get(f"{kind}: {event}".lower(), NONE)


def event_in(stack):
    """The same of a stack."""
    names = stack.names() if stack else set()
    if "WaitEventSetWait" in names:
        return CLIENT if "secure_read" in names else LOCK if "ProcSleep" in names else NONE
    if "PGSemaphoreLock" in names:
        return SEMAPHORE
    return SYNC if "fdatasync" in names else NONE


class Looks:
    """A backend that reads pg_stat_activity at random instants. It has a real-time priority, and sleeps and reads by itself.
    If it waited for a CPU, or for somebody who asks it each time, backends that wait for a CPU would get one before it looks."""

    def __init__(self, workload):
        self._psql = Process([os.path.join(workload.bin, "psql"), *workload.connection, "-XqAt", "-d", "postgres"])
        self._psql.write("select 'backend ' || pg_backend_pid();\n")
        self.backend = int(self._psql.line_with("backend", ANSWER_SECONDS).split()[1])
        os.sched_setscheduler(self.backend, os.SCHED_FIFO, os.sched_param(PRIORITY))

    def clients(self):
        """PIDs of the other clients' backends."""
        self._psql.write("select 'client', pid from pg_stat_activity where backend_type = 'client backend' "
                         "and pid <> pg_backend_pid(); select 'all told';\n")
        found = set()
        while (line := self._psql.line(ANSWER_SECONDS)) != "all told":
            found.add(int(line.split("|")[1]))
        return found

    def begin(self, seconds):
        self._psql.write(QUERY.format(seconds=seconds, pause=PAUSE_SECONDS))

    def read(self):
        """[(instant, ns since 1970, {pid: event})], when the time is over."""
        found = defaultdict(dict)
        while (line := self._psql.line(SECONDS + ANSWER_SECONDS)) != "all read":
            _, at, pid, kind, event = line.split("|")
            found[int(at)][int(pid)] = event_of(kind, event)
        return sorted(found.items())

    def kill(self):
        self._psql.kill()


def their_shares(looks, pids):
    """{event: Share} of the time of these backends. Looks are at random instants, so the shares at each are independent."""
    by_event = defaultdict(list)
    for _, events in looks:
        for event in EVENTS:
            by_event[event].append(sum(events.get(pid) == event for pid in pids) / len(pids))
    return {event: peer.Share(statistics.fmean(shares), statistics.stdev(shares) / len(shares) ** 0.5)
            for event, shares in by_event.items()}


def our_shares(answer, pids):
    """{event: Share} of the same by stacks of all of the time; and {event: {state: share}} of its parts."""
    sums, variances, parts, every = defaultdict(float), defaultdict(float), defaultdict(lambda: defaultdict(float)), 0.0
    for sample in answer.samples:
        if sample.thread["pid"] not in pids:
            continue
        event = event_in(sample.stack)
        every += sample.value
        sums[event] += sample.value
        variances[event] += sample.error ** 2
        parts[event][sample.reason] += sample.value
    return ({event: peer.Share(sums[event] / every, variances[event] ** 0.5 / every) for event in EVENTS},
            {event: {state: value / every for state, value in states.items()} for event, states in parts.items()}, every)


def run_delay_s(pids):
    """How long these waited for a CPU in all, by the kernel's account."""
    return sum(int(process.read_text(f"/proc/{pid}/schedstat").split()[1]) for pid in pids) / 1e9


def may_differ(share, sigmas, *others, delayed):
    """By how much an event's share may be off. Where a backend waits for a CPU, a look, which needs one itself, may not find it
    as it was: beside two busy loops looks missed an eighth of the time without an event, by the account of perf sched. So all
    time that backends waited for a CPU may be another event's, but no more than half of this one's."""
    return sigmas * math.hypot(share.error, *others) + min(delayed, share.value / 2)


def check_events(theirs, ours, delayed, every):
    rows = [event for event in EVENTS if max(theirs[event].value, ours[event].value) >= LEAST_SHARE]
    assert {CLIENT, SYNC, NONE} <= set(rows), rows
    sigmas, failures = peer.sigmas_for(len(rows)), []
    print("| event | pg_stat_activity | profd | may differ by |\n|---|--:|--:|--:|")
    for event in rows:
        error = may_differ(theirs[event], sigmas, ours[event].error, delayed=delayed)
        print(f"| {event} | {theirs[event].value:.2%} ± {theirs[event].error:.2%} | {ours[event].value:.2%} ± "
              f"{ours[event].error:.2%} | {error:.2%} |")
        failures += [failure.text for failure in tolerance.between(
            event, (theirs[event].value - error) * every, ours[event].value * every, (theirs[event].value + error) * every)]
    return failures


def object_of(sample):
    """What was waited on, in a few words."""
    waited_on = str(sample.raw["argument"] or "nothing known")
    if "/pg_wal/" in waited_on:
        return "a file in pg_wal"
    if waited_on.startswith("0x"):
        return "a futex"
    return waited_on


def check_objects(answer, pids, every, theirs, parts, delayed):
    """The objects of blocked time are those of the events. An event goes on in the run queue, and for a moment on a CPU."""
    objects, variances = defaultdict(float), defaultdict(float)
    for sample in answer.samples:
        if sample.thread["pid"] in pids and sample.reason != "runqueue":
            key = (event_in(sample.stack), object_of(sample))
            objects[key] += sample.value / every
            variances[key] += (sample.error / every) ** 2
    print("\n| event | waited on (`--by object`) | blocked on it | in a run queue or on a CPU | pg_stat_activity |"
          "\n|---|---|--:|--:|--:|")
    failures, sigmas = [], peer.sigmas_for(2 * len(OBJECTS))
    for event, words in OBJECTS.items():
        of_event = {waited_on: share for (of, waited_on), share in objects.items() if of == event}
        if theirs[event].value < LEAST_SHARE:
            continue
        assert of_event, f"profd has no blocked time of {event}"
        what = max(of_event, key=of_event.get)
        right = {waited_on for waited_on in of_event if words in waited_on}
        blocked = sum(of_event[waited_on] for waited_on in right)
        besides = sum(share for state, share in parts[event].items() if state in ("runqueue", "on_cpu"))
        print(f"| {event} | {what} | {blocked:.2%} | {besides:.2%} | {theirs[event].value:.2%} ± {theirs[event].error:.2%} |")
        error = may_differ(theirs[event], sigmas, *(variances[event, waited_on] ** 0.5 for waited_on in right), delayed=delayed)
        failures += [failure.text for failure in tolerance.between(
            f"{event}, blocked on a {words}", (theirs[event].value - besides - error) * every, blocked * every,
            (theirs[event].value + error) * every)]
    return failures


def test(place):
    with tempfile.TemporaryDirectory(prefix="profd-crosscheck.", dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        with PacedPgbench(folder) as workload:
            daemon, looks = Daemon(place, ["--budget", "off"], sorted(workload.pids())), Looks(workload)
            try:
                time.sleep(SETTLE_SECONDS)
                pids = looks.clients()
                looks.begin(SECONDS)
                begin = daemon.fetch("--since", "1s").end_ns
                delays = run_delay_s(pids)
                time.sleep(SECONDS)
                delays = run_delay_s(pids) - delays
                answer = daemon.fetch("--kind", "wall", "--idle", "--from", instant(begin))
                window = ("--from", instant(begin), "--to", instant(answer.end_ns))
                objects = daemon.fetch("--kind", "offcpu", "--by", "thread,object", "--idle", *window)
                syncs = daemon.fetch("--kind", "fsync", *window)
                seen = [look for look in looks.read() if answer.begin_ns <= look[0] < answer.end_ns]
            finally:
                looks.kill()
                daemon.stop()
                daemon.kill()
    assert len(seen) >= LEAST_LOOKS, f"only {len(seen)} looks at pg_stat_activity"
    assert pids and pids <= {thread["pid"] for thread in answer.threads}, pids
    theirs, (ours, parts, every) = their_shares(seen, pids), our_shares(answer, pids)
    delayed = delays * 1e9 / every
    calls = sum(sample.value for sample in syncs.samples if sample.thread["pid"] in pids) / every
    print(f"{len(pids)} backends, {every / 1e9:.0f} s of their time, {len(seen)} looks. They waited for a CPU for {delayed:.2%} of it. "
          f"Their file syncs, each measured by profd, took {calls:.2%}.\n")
    failures = check_events(theirs, ours, delayed, every)
    failures += check_objects(objects, pids, every, theirs, parts, delayed)
    peer.require(failures)


if __name__ == "__main__":
    sys.exit(peer.main(test))
