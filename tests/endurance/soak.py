"""A server's hour in short: targets that come and go, queries all the time, and nothing that grows.

After a first quarter, in which stores and caches fill, memory, descriptors and threads of profd must not
grow by more than the stated share, however often targets started and ended.
"""

import argparse
import sys
import time
from pathlib import Path

from tests.endurance import watch
from tests.harness.daemon import Daemon, Host
from tests.harness.process import Gone

GROWTH_BYTES = 8 << 20
MOST_BYTES = 64 << 20


def cycle(place, daemon):
    """One target lives, measures itself, is asked about, and ends."""
    target = place.target(["waiter", "naps", "5000", "100"], {})
    try:
        pid = int(target.line_with("ready", 60).split()[1])
        target.write("go\n")
        target.line_with("{", 60)
        for kind in ("offcpu", "alloc", "mapped", "rss"):
            code, _, error = daemon.profctl("fetch", "--kind", kind, "--target", str(pid), "--since", "30s", "--format",
                                            "json", "-o", "-")
            # A process that came and went between two drains may be unknown to a kind.
            if code != 0 and "no process" not in error:
                raise Gone(f"fetch of {kind}: {error.strip()}")
        target.end()
    finally:
        target.kill()


def main():
    parser = argparse.ArgumentParser(prog="python3 -m tests.endurance.soak", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=Path("build/tests"))
    parser.add_argument("--minutes", type=float, default=20)
    arguments = parser.parse_args()
    place = Host(arguments.build)
    daemon = Daemon(place, [], ["^waiter$"])
    began, cycles, settled = time.monotonic(), 0, None
    try:
        while (passed := time.monotonic() - began) < arguments.minutes * 60:
            cycle(place, daemon)
            cycles += 1
            if settled is None and passed > arguments.minutes * 15:
                settled = watch.held(daemon.process.pid)
        last = watch.held(daemon.process.pid)
        end = daemon.stop()
    except Gone as error:
        print(f"FAIL after {cycles} targets: {error}")
        return 1
    finally:
        daemon.kill()
        place.close()
    print(f"{cycles} targets; then {settled}, now {last}")
    wrong = [text for text, holds in (
        (end, not end),
        (f"memory grew by {(last.own_bytes - settled.own_bytes) >> 20} MiB", last.own_bytes - settled.own_bytes <= GROWTH_BYTES),
        (f"peak of {last.peak_bytes >> 20} MiB", last.peak_bytes <= MOST_BYTES),
        (f"descriptors went from {settled.descriptors} to {last.descriptors}",
         last.descriptors <= settled.descriptors + 4),
        (f"threads went from {settled.threads} to {last.threads}", last.threads <= settled.threads + 4)) if not holds]
    print("\n".join(f"FAIL {text}" for text in wrong) or "ok")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
