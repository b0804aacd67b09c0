"""Storms of processes and threads: fork, exec, clone ... as fast as the machine goes.

For each stressor: profd survives, ends with 0, answers during the storm, loses no exit, holds no more than its
bounds, also while it answers, and leaves no program in the kernel. With --watch all it watches every process of the machine; with
--watch storm only the storm, and then the CPU time that it tells of all threads must be the kernel's own account,
which is the storm's cgroup (cpuacct), or what wait4 says where there is none.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "bench"))

# pylint: disable=wrong-import-position
from profdbench import lines, report_storms
from tests.endurance import watch
from tests.harness.daemon import Daemon, Host, eventually, instant
from tests.harness.process import Gone

STRESSORS = ("fork", "vfork", "exec", "clone", "pthread", "unshare", "shellscript")
PEAK_BYTES = report_storms.PEAK_MIB << 20
REST_BYTES = report_storms.REST_MIB << 20
# An answer may take this while the storm goes on, and what the storm itself brings meanwhile is counted with it.
FETCH_BYTES = PEAK_BYTES - REST_BYTES
REST_SECONDS = 60
# Losses that mean that something of an exit is missing.
EXIT_LOSSES = ("exit_ring_full", "thread_vanished", "thread_storage", "drain_failed", "store_dropped")
CPUACCT = Path("/sys/fs/cgroup/cpuacct")
# Waits until it is let go, and becomes the storm: it is known to profd before.
# stress-ng does not run some storms as root.
GATE = 'read line && exec setpriv --reuid 65534 --regid 65534 --clear-groups "$@"'
# Where stress-ng is too old for it.
SHELLS = 'end=$(($(date +%s) + $2)); for i in $(seq $1); do while [ $(date +%s) -lt $end ]; do sh -c "true | cat"; done & done; wait'


class Load:
    """The storm, which begins at go()."""

    def __init__(self, argv):
        self._group = CPUACCT / f"profd-storm-{os.getpid()}"
        try:
            self._group.mkdir()
        except OSError:
            self._group = None
        self.process = subprocess.Popen(["sh", "-c", GATE, "storm", *argv], stdin=subprocess.PIPE, cwd="/tmp",
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if self._group:
            (self._group / "tasks").write_text(str(self.process.pid))
        self._before = self._children_ns()

    @staticmethod
    def _children_ns():
        use = resource.getrusage(resource.RUSAGE_CHILDREN)
        return round((use.ru_utime + use.ru_stime) * 1e9)

    def go(self):
        self.process.stdin.write(b"go\n")
        self.process.stdin.close()

    def end(self, seconds):
        """CPU time of all its processes by the kernel's account, ns."""
        self.process.wait(seconds)
        if not self._group:
            return self._children_ns() - self._before
        return int((self._group / "cpuacct.usage").read_text())

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self._group:
            try:
                self._group.rmdir()
            except OSError as error:
                print(f"storm: {self._group} is left: {error.strerror}", file=sys.stderr)


def argv_of(stressor, workers, seconds):
    if stressor == "shellscript":
        return ["sh", "-c", SHELLS, "shellscript", str(workers), str(round(seconds))]
    return ["stress-ng", f"--{stressor}", str(workers), "--timeout", f"{seconds:g}s", "--temp-path", "/tmp", "--quiet"]


def cpu_ns(threads):
    return sum(thread["on_cpu_ns"] for thread in threads)


def mib(size):
    """Rounded up: what is over a bound shows."""
    return -(-size >> 20)


def storm(place, stressor, arguments):
    """What is wrong, in words, empty when all held; and what was measured."""
    wrong, measured = [], {"stressor": stressor, "watch": arguments.watch, "survived": False}
    broken = []  # what is worse than too much or too little: profd did not survive, or there was no storm
    load = Load(argv_of(stressor, arguments.workers, arguments.seconds))
    daemon = None
    try:
        began = time.time_ns()
        daemon = Daemon(place, [], [load.process.pid] if arguments.watch == "storm" else [])
        pid = daemon.process.pid
        programs = watch.bpf_programs(pid)
        measured["before_mib"] = mib(watch.held(pid).rss_bytes)
        load.go()
        time.sleep(arguments.seconds / 2)
        peak, before = watch.held(pid).peak_bytes, watch.held_anew(pid)
        code, _, error = daemon.profctl("fetch", "--since", "60s", "--format", "json", "-o", "-")
        after = watch.held(pid)
        # Without the pages of the program that are mapped again.
        added = after.peak_bytes - after.file_bytes - before.own_bytes
        measured["fetch_mib"] = round(added / (1 << 20), 1)
        if added > FETCH_BYTES:
            wrong.append(f"the fetch added {measured['fetch_mib']} MiB, bound {FETCH_BYTES >> 20}")
        if code != 0:
            broken.append(f"no answer during the storm: {error.strip()}")
        kernel_ns = load.end(arguments.seconds + 60)
        # Without the per-switch layer accounts are closed when the kernel frees the threads.
        time.sleep(1)
        answer = daemon.json("fetch", "--from", instant(began), "-o", "-")
        threads = answer["threads"]
        measured["rows"] = len(threads)
        measured["folded_s"] = round(cpu_ns(t for t in threads if t["name"] == "[exited threads]") / 1e9, 3)
        if not kernel_ns > arguments.seconds * 1e8:
            broken.append(f"the storm did not begin: {kernel_ns / 1e9:.3f} s of CPU time")
        if arguments.watch == "storm":
            ratio = cpu_ns(threads) / max(kernel_ns, 1)
            measured.update(cpu_s=round(kernel_ns / 1e9, 3), cpu_ratio=round(ratio, 5))
            if abs(ratio - 1) > report_storms.CPU_SHARE:
                wrong.append(f"threads have {cpu_ns(threads) / 1e9:.3f} s of CPU time, the kernel says {kernel_ns / 1e9:.3f} s")
        off = [t for t in threads if abs(t["on_cpu_ns"] + sum(r["time_ns"] for r in t["off"]) +
                                         t.get("unattributed_ns", 0) - t["wall_ns"]) > 0.01 * t["wall_ns"] + 2_000_000]
        measured["not_closing"] = len(off)
        peak = max(peak, watch.held(pid).peak_bytes)
        measured["peak_mib"] = mib(peak)
        if peak > PEAK_BYTES:
            wrong.append(f"peak of {measured['peak_mib']} MiB, bound {PEAK_BYTES >> 20}")
        time.sleep(arguments.rest)
        measured["rest_mib"] = mib(watch.held(pid).rss_bytes)
        if arguments.rest and watch.held(pid).rss_bytes > REST_BYTES:
            wrong.append(f"{measured['rest_mib']} MiB {arguments.rest:.0f} s later, bound {REST_BYTES >> 20}")
        lost = {loss["cause"]: loss["count"] for loss in daemon.status()["losses"]}
        measured["losses"] = lost
        wrong += [f"{cause}: {lost[cause]}" for cause in EXIT_LOSSES if lost.get(cause)]
        end = daemon.stop()
        if end:
            broken.append(end)
        # The kernel frees them a while after the last one who held them.
        if not eventually(30, lambda: not watch.loaded(programs)):
            broken.append(f"{len(watch.loaded(programs))} kernel programs are left")
        measured["survived"] = not broken
    except (Gone, FileNotFoundError) as error:
        broken.append(f"profd is gone: {error}\n{daemon.process.said() if daemon else ''}")
    finally:
        if daemon:
            daemon.kill()
        load.close()
    return broken + wrong, measured


def row_of(arguments, where, runs):
    """A row of docs/performance.md for the runs of one stressor, of which the worst counts."""
    def worst(name):
        return max((run[name] for run in runs if name in run), default=0)
    ratios = [run["cpu_ratio"] for run in runs if "cpu_ratio" in run]
    return {"kind": "storm", "protocol": "storm", "stressor": runs[0]["stressor"], "watch": arguments.watch, **where,
            "workers": arguments.workers, "seconds": arguments.seconds, "rest_s": arguments.rest, "runs": len(runs),
            "survived": sum(run["survived"] for run in runs), "peak_mib": worst("peak_mib"), "rest_mib": worst("rest_mib"),
            "fetch_mib": worst("fetch_mib"), "lost_exits": sum(run.get("losses", {}).get(cause, 0) for run in runs
                                                               for cause in EXIT_LOSSES),
            **({"cpu_ratio": [min(ratios), max(ratios)]} if ratios else {})}


def main():
    parser = argparse.ArgumentParser(prog="python3 -m tests.endurance.storm", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stressor", nargs="*", help=f"default: {' '.join(STRESSORS)}")
    parser.add_argument("--build", type=Path, default=Path("build/tests"))
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--rest", type=float, default=REST_SECONDS, help="seconds between the storm and the last look")
    parser.add_argument("--watch", choices=("all", "storm"), default="all")
    parser.add_argument("--results", metavar="FILE.jsonl", help="put the worst run of each stressor into this file, for bench report")
    arguments = parser.parse_args()
    if arguments.results:
        lines.check_writable(arguments.results)
    place = Host(arguments.build)
    failed, where, runs = 0, lines.here() if arguments.results else None, {}
    try:
        for _ in range(arguments.rounds):
            for stressor in arguments.stressor or STRESSORS:
                wrong, measured = storm(place, stressor, arguments)
                failed += bool(wrong)
                runs.setdefault(stressor, []).append(measured)
                print(f"{'FAIL' if wrong else 'ok  '} {json.dumps(measured)}" + "".join(f"\n     {text}" for text in wrong),
                      flush=True)
        if arguments.results:
            lines.save(arguments.results, [row_of(arguments, where, each) for each in runs.values()])
    finally:
        place.close()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
