"""Two threads that hand a word to each other by futex, as fast as the machine lets them."""

import os
import re
import time

from profdbench import process
from profdbench.process import Failed, Unavailable
from profdbench.workloads.base import Lasting


class Futex(Lasting):
    """A pair of threads on one CPU: a storm of FUTEX_WAIT, FUTEX_WAKE and context switches, with
    nothing else between them. The kernel counts the switches. Not a pair on each CPU: on Linux 6.18
    such pairs keep everything else, profd too, from their CPU for seconds."""

    name = "futex"
    about = "two threads of bench_load on one CPU that wake each other by futex"
    unit = "switch/s"
    setup_seconds = 3

    def open(self):
        self.load = None
        program = os.path.join(self.build, "bench_load")
        if not os.access(program, os.X_OK):
            raise Unavailable(f"{program} is not built; configure with -DPROFD_TESTS=ON")
        log = self.path("log")
        with open(log, "wb") as output:
            self.load = process.spawn(
                [program, "--threads", "0", "--pairs", "1", "--switch-rate", "max"],
                stdout=output, stderr=output)
        process.wait_for_line(self.load, log, "^ready")

    def pids(self):
        return [self.load.pid]

    def mark(self):
        folder = f"/proc/{self.load.pid}/task"
        switches = 0
        for thread in os.listdir(folder):
            text = process.read_text(f"{folder}/{thread}/status")
            switches += sum(map(int, re.findall(r"ctxt_switches:\s+(\d+)", text)))
        return time.monotonic(), switches

    def wait(self, seconds):
        time.sleep(seconds)
        return []

    def collect(self, tokens):
        if self.load.poll() is not None:
            raise Failed("bench_load ended:\n" + process.read_text(self.path("log")))
        return super().collect(tokens)

    def close(self):
        process.stop(getattr(self, "load", None))
