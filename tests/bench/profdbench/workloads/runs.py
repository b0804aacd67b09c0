"""Programs that do their work and end: each slice is a whole run, however long it takes."""

import ctypes.util
import os
import re
import resource
import shutil
import signal
import subprocess
import time

from profdbench import process
from profdbench.process import Failed, Unavailable
from profdbench.stats import Work
from profdbench.workloads.base import Workload
from profdbench.workloads.rust_source import rust_source


def children_cpu():
    """CPU seconds of all children that ended and were waited for, and of theirs."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


class Runs(Workload):
    """A command that is run once a slice. It is held at a gate until it may go on, so that its
    start is in no slice, and a tool that must be given a pid can attach."""

    forks = True
    run_seconds = 0.5
    environment = {}  # of the command, beside ours
    first_amount = 1

    def open(self):
        self.process, self.printed = None, ""
        self.check()
        self.amount = self.calibrate()

    def check(self):
        if not shutil.which("perf"):
            raise Unavailable("perf is not installed")

    def command(self, amount):
        """The command that does `amount` of work."""
        raise NotImplementedError

    def work(self, text, seconds):
        """(amount, seconds) that count, from what the command printed and how long it took."""
        return self.amount, seconds

    def calibrate(self):
        """The amount of work that takes about run_seconds."""
        self.amount = self.first_amount
        self._run()
        began = time.monotonic()
        self._run()
        return max(1, round(self.amount * self.run_seconds / (time.monotonic() - began)))

    def pids(self):
        """A shell that becomes the command as it is told which."""
        if self.process is None:
            environment = {**self.environment,
                           **(self.launcher.environment if self.launcher else {})}
            self.process = process.spawn(
                ["sh", "-c", 'read -r line && eval "exec $line"'], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=self.directory,
                env={**os.environ, **environment})
        return [self.process.pid]

    def _run(self):
        self.pids()
        command = self.command(self.amount)
        if self.launcher:
            command = self.launcher.command(command)
        cpu, began = children_cpu(), time.monotonic()
        try:
            text, _ = self.process.communicate(" ".join(command) + "\n", timeout=600)
        except subprocess.TimeoutExpired:
            raise Failed(f"{self.name} did not end within ten minutes") from None
        seconds = time.monotonic() - began
        code, self.process, self.printed = self.process.returncode, None, text
        if code != 0:
            raise Failed(f"{self.name} failed:\n{text.strip()}")
        amount, seconds = self.work(text, seconds)
        return Work(seconds, amount, children_cpu() - cpu)

    def slice(self, seconds):
        return self._run()

    def collect(self, tokens):
        return list(tokens)

    def close(self):
        process.stop(getattr(self, "process", None), signal.SIGKILL)
        self.process = None

    def restart(self):
        """Every slice is a run of its own."""

    def finish(self):
        return self.printed


class Pipe(Runs):
    """Two processes that do nothing but wake each other: the dearest case for a context switch.

    On one CPU: on two it measures how fast an idle CPU wakes, and any tool that keeps it awake
    wins.
    """

    name = "pipe"
    about = "perf bench sched pipe, on one CPU"
    unit = "op/s"
    comm = "sched-pipe"
    first_amount = 100_000

    def command(self, amount):
        return ["taskset", "-c", "0", "perf", "bench", "sched", "pipe", "-l", str(amount)]

    def work(self, text, seconds):
        match = re.search(r"([0-9.]+) usecs/op", text)
        if not match:
            raise Failed(f"perf bench printed no usecs/op:\n{text}")
        return self.amount, self.amount * float(match.group(1)) / 1e6


class Messaging(Runs):
    """Many senders and receivers: groups of 20 each, over socket pairs."""

    name = "messaging"
    about = "perf bench sched messaging -g 5 (200 processes)"
    unit = "loop/s"
    comm = "sched-messaging"
    first_amount = 100
    groups = 5

    def command(self, amount):
        return ["perf", "bench", "sched", "messaging", "-g", str(self.groups), "-l", str(amount)]

    def work(self, text, seconds):
        match = re.search(r"Total time: ([0-9.]+)", text)
        if not match or float(match.group(1)) <= 0:
            raise Failed(f"perf bench printed no total time:\n{text}")
        return self.amount, float(match.group(1))


class Rustc(Runs):
    """The compiler at work on a generated library: mostly on CPU, a few threads, many page faults.
    The size of the library is chosen so that a compilation takes about run_seconds."""

    name = "rustc"
    about = "rustc -O of a generated library, wall time of a compilation"
    unit = "run/s"
    setup_seconds = 12
    can_launch = True
    run_seconds = 3

    def check(self):
        compiler = shutil.which("rustc")
        if not compiler:
            raise Unavailable("rustc is not installed")
        # rustup's rustc is a wrapper; what it starts is what is to be measured.
        sysroot = process.output_of([compiler, "--print", "sysroot"]).strip()
        real = os.path.join(sysroot, "bin", "rustc")
        self.compiler = real if os.access(real, os.X_OK) else compiler

    def calibrate(self):
        self.amount, modules = 1, 20
        self._write(modules)
        self._run()
        took = self._run().seconds
        self._write(max(4, round(modules * self.run_seconds / took)))
        self._run()
        return 1

    def program(self):
        return self.compiler

    def _write(self, modules):
        with open(self.path("lib.rs"), "w", encoding="utf-8") as file:
            file.write(rust_source(modules))

    def command(self, amount):
        return [self.compiler, "--edition", "2021", "--crate-type", "rlib", "-O", "lib.rs", "-o",
                "lib.rlib"]


class SystemRustc(Rustc):
    """The distribution's compiler on a jemalloc that can profile: what rustup's compiler allocates
    goes by a malloc of its own, which heaptrack does not see, and its jemalloc is built without
    profiling."""

    name = "rustc-system"
    about = "the distribution's rustc -O, with its jemalloc preloaded, wall time of a compilation"
    compiler = "/usr/bin/rustc"

    def check(self):
        if not os.access(self.compiler, os.X_OK):
            raise Unavailable(f"{self.compiler} is not installed")
        allocator = ctypes.util.find_library("jemalloc")
        if not allocator:
            raise Unavailable("libjemalloc is not installed")
        self.environment = {"LD_PRELOAD": allocator}
