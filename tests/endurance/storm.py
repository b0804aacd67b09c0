"""Storms of processes and threads, with profd watching every process of the machine.

For each stressor: profd survives, ends with 0, answers during the storm, holds no more than its bound a
minute later, and leaves no program in the kernel.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

from tests.endurance import watch
from tests.harness.daemon import Daemon, Host
from tests.harness.process import Gone

STRESSORS = ("fork", "vfork", "exec", "clone", "pthread", "unshare", "shellscript")
PEAK_BYTES = 96 << 20
REST_BYTES = 64 << 20
REST_SECONDS = 60


def storm(place, stressor, seconds, workers, rest):
    """What is wrong, in words; empty when all held."""
    wrong = []
    daemon = Daemon(place, [], [])
    pid = daemon.process.pid
    programs = watch.bpf_programs(pid)
    try:
        load = subprocess.Popen(["stress-ng", f"--{stressor}", str(workers), "--timeout", f"{seconds}s", "--quiet"],
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(seconds / 2)
        code, _, error = daemon.profctl("fetch", "--since", "5s", "--format", "json", "-o", "-")
        if code != 0:
            wrong.append(f"no answer during the storm: {error.strip()}")
        load.wait(seconds + 60)
        during = watch.held(pid)
        if during.peak_bytes > PEAK_BYTES:
            wrong.append(f"peak of {during.peak_bytes >> 20} MiB, bound {PEAK_BYTES >> 20}")
        time.sleep(rest)
        after = watch.held(pid)
        if after.rss_bytes > REST_BYTES:
            wrong.append(f"{after.rss_bytes >> 20} MiB {rest:.0f} s later, bound {REST_BYTES >> 20}")
        lost = {loss["cause"]: loss["count"] for loss in daemon.status()["losses"]}
        if lost.get("exit_ring_full"):
            wrong.append(f"{lost['exit_ring_full']} exits were lost")
        end = daemon.stop()
        if end:
            wrong.append(end)
    except (Gone, FileNotFoundError) as error:
        wrong.append(f"profd is gone: {error}\n{daemon.process.said()}")
    finally:
        daemon.kill()
    left = watch.loaded(programs)
    if left:
        wrong.append(f"{len(left)} kernel programs are left")
    return wrong


def main():
    parser = argparse.ArgumentParser(prog="python3 -m tests.endurance.storm", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stressor", nargs="*", help=f"default: {' '.join(STRESSORS)}")
    parser.add_argument("--build", type=Path, default=Path("build/tests"))
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--rest", type=float, default=REST_SECONDS, help="seconds between the storm and the last look")
    arguments = parser.parse_args()
    place = Host(arguments.build)
    failed = 0
    try:
        for _ in range(arguments.rounds):
            for stressor in arguments.stressor or STRESSORS:
                wrong = storm(place, stressor, arguments.seconds, arguments.workers, arguments.rest)
                failed += bool(wrong)
                print(f"{'FAIL' if wrong else 'ok  '} {stressor}" + "".join(f"\n     {text}" for text in wrong),
                      flush=True)
    finally:
        place.close()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
