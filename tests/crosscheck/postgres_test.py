#!/usr/bin/env python3
"""What PostgreSQL's backends wait for, beside their own pg_stat_activity, sampled in the same run.

usage: postgres_test.py BUILD, as root. Prints the shares of the kinds of waits by both, as a table for docs/accuracy.md. A
right profd fails by chance once in 500 runs.
"""

import math
import os
import random
import re
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests/bench")]

# pylint: disable=wrong-import-position
from profdbench import process
from profdbench.workloads.postgres import PgbenchWrite
from tests.crosscheck import peer
from tests.harness.daemon import Daemon, instant
from tests.harness.process import Process

SECONDS = 60
CLIENTS = 8
# Kinds with less are not compared.
LEAST_SHARE = 0.005
MOST_OBJECTS = 20
SETTLE_SECONDS = 3
ANSWER_SECONDS = 30
# Mean and spread of the time between two samples, s: the phase is random.
PAUSE, SPREAD = 0.05, 0.025
QUERY = """select pid, coalesce(wait_event_type || '/' || wait_event, 'none') from pg_stat_activity where pid = any('{%s}');
\\echo end
"""
END = "end"
# What is in the object of a wait for the client. The set of a wait for another backend has no connection.
CLIENT = "socket"
FILE_CALLS = tuple(f"__x64_sys_{call}" for call in ("fdatasync", "fsync", "pwrite64", "pread64", "read", "write", "openat", "lseek"))


class Contended(PgbenchWrite):
    """Transactions that update the same row: they wait for each other, for the log and for the disk."""
    scale = 1

    def backends(self):
        """PIDs of pgbench's sessions."""
        text = process.output_of([os.path.join(self.bin, "psql"), *self.connection, "-d", "postgres", "-XAtc",
                                  "select pid from pg_stat_activity where application_name = 'pgbench'"])
        return sorted(map(int, text.split()))


class Activity:
    """A session that asks pg_stat_activity."""

    def __init__(self, workload, pids):
        self._psql = Process([os.path.join(workload.bin, "psql"), *workload.connection, "-d", "postgres", "-XAtq", "-F", " "])
        self._query = QUERY % ",".join(map(str, pids))
        self.samples = []  # (instant, {pid: event})
        self.backend = int(self._ask("select pg_backend_pid();\n\\echo end\n")[0])
        # Who waits for a CPU gets it as a backend blocks: the sample would not be at a random instant.
        for pid in (os.getpid(), self._psql.pid, self.backend):
            os.sched_setscheduler(pid, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))

    def _ask(self, text):
        self._psql.write(text)
        lines = []
        while (line := self._psql.line(ANSWER_SECONDS)) != END:
            lines.append(line)
        return lines

    def sample(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(random.uniform(PAUSE - SPREAD, PAUSE + SPREAD))
            lines = self._ask(self._query)
            self.samples.append((time.time_ns(), {int(pid): event for pid, event in (line.split(" ", 1) for line in lines)}))

    def close(self):
        self._psql.kill()


def kind_of(sample):
    """What pg_stat_activity calls it: by the object if it is a wait, else by the call in which the backend ran or was queued.
    The backend keeps the event from before the call until it runs after it."""
    if sample.stack is None:
        return "none"
    functions = sample.stack.functions()
    if sample.reason in ("poll", "net"):
        return "Client" if CLIENT in str(sample.raw["argument"]) else "Lock"
    if any(name.startswith("__x64_sys_epoll_wait") for name in functions):
        return "Client" if "secure_read" in functions else "Lock"
    if any(name.startswith("__x64_sys_futex") for name in functions):
        return "LWLock"
    return "IO" if any(name.startswith(FILE_CALLS) for name in functions) else "none"


def show_objects(answer, threads):
    """The time of waits by reason and object."""
    times = Counter()
    for thread in threads:
        for sample in answer.samples_of(thread):
            end = sample.stack.end() if sample.stack else "[unsampled]"
            text = re.sub(r"0x[0-9a-f]+", "0x...", str(sample.raw["argument"])) if sample.reason else ""
            times[(kind_of(sample), sample.reason, text, end)] += sample.value
    print("| kind | reason | object | stack ends with | s |\n|---|---|---|---|--:|")
    for (kind, reason, text, end), time_ns in times.most_common(MOST_OBJECTS):
        print(f"| {kind} | {reason or 'on CPU'} | {text} | {end} | {time_ns / 1e9:.2f} |")


def sampled(activity, window_ns):
    """{kind: Share} of the samples of a window. At one instant backends are not independent: the error is that of the mean of
    the instants."""
    instants = [[event.split("/")[0] for event in events.values()] for instant, events in activity.samples
                if window_ns[0] <= instant < window_ns[1]]
    shares = {}
    for kind in {kind for events in instants for kind in events}:
        each = [events.count(kind) / len(events) for events in instants]
        shares[kind] = peer.Share(statistics.fmean(each), statistics.stdev(each) / math.sqrt(len(each)))
    return shares, len(instants)


def test(place):
    with tempfile.TemporaryDirectory(prefix="profd-crosscheck.", dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        with Contended(folder) as workload:
            daemon = activity = None
            try:
                backends = workload.backends()
                daemon = Daemon(place, ["--budget", "off"], backends)
                activity = Activity(workload, backends)
                time.sleep(SETTLE_SECONDS)
                begin = daemon.fetch("--since", "1s").end_ns
                activity.sample(SECONDS)
                answer = daemon.fetch("--kind", "wall", "--idle", "--no-inlines", "--from", instant(begin))
            finally:
                if activity:
                    activity.close()
                if daemon:
                    daemon.stop()
                    daemon.kill()
    threads = [thread for thread in answer.threads if thread["pid"] in backends]
    show_objects(answer, threads)
    assert len(threads) == CLIENTS, threads
    theirs, instants = sampled(activity, (answer.begin_ns, answer.end_ns))
    ours = peer.estimated(answer, kind_of, threads, in_step=True)
    nothing = peer.Share(0.0)
    rows = {kind: (theirs.get(kind, nothing), ours.get(kind, nothing)) for kind in sorted({*theirs, *ours})
            if max(theirs.get(kind, nothing).value, ours.get(kind, nothing).value) >= LEAST_SHARE}
    print(f"{instants} samples of {CLIENTS} backends")
    peer.require(peer.compare("kinds of waits", rows))


if __name__ == "__main__":
    sys.exit(peer.main(test))
