"""What watches a workload, each the way its users run it.

  profd-all        profd, every layer held on (--budget off)
  profd            profd as it comes
  profd-noswitch   profd without the per-switch layer (--disable switch)
  perf             perf record -g of context switches, futex, fsync and block requests
  bpftrace         off-CPU time summed by user stack in the kernel
  offcputime       libbpf-tools' binary, when its path is given
  heaptrack        heaptrack; redis and the two of rustc only
  jeprof           jemalloc's own heap profiling, by MALLOC_CONF; the same
  none             nothing: how much two equal measurements differ
"""

import glob
import math
import os
import re
import shutil
import signal
import subprocess
import time

from profdbench import in_force, process
from profdbench.process import Failed, Unavailable

MIB = 1024 * 1024
# The events of the guides for off-CPU work with perf.
PERF_EVENTS = [
    "sched:sched_switch",
    "syscalls:sys_enter_futex",
    "syscalls:sys_exit_futex",
    "syscalls:sys_enter_fsync",
    "syscalls:sys_enter_fdatasync",
    "block:block_rq_issue",
    "block:block_rq_complete",
]

BPFTRACE_PROGRAM = """
BEGIN { printf("ready\\n"); }
tracepoint:sched:sched_switch
{
  $since = @since[args->next_pid];
  if ($since) {
    @off[@stack[args->next_pid]] = sum(nsecs - $since);
    delete(@since[args->next_pid]);
  }
  if (FILTER) {
    @since[args->prev_pid] = nsecs;
    @stack[args->prev_pid] = ustack;
  }
}
END { clear(@since); clear(@stack); }
"""


class Tool:
    """Watches between start() and stop(); begin() and end() enclose the measured segment."""

    name = ""
    start_seconds = 2.0  # what starting, settling and stopping take, for the plan
    note = None
    can_pause = False
    has_savings = False  # it may cost more at first
    # A workload cannot be given to it while it runs: it is started under the tool, by command() and
    # `environment`, and recorded() is called after its end instead of start() to stop().
    launches = False

    def __init__(self, options):
        self.directory = options.directory
        self.process = None
        self.log_path = os.path.join(self.directory, f"{self.name}.log")

    def start(self, workload, pids):
        raise NotImplementedError

    def spawn(self, command):
        with open(self.log_path, "wb") as output:
            self.process = process.spawn(command, stdout=output, stderr=subprocess.STDOUT)

    def wait_for_line(self, pattern):
        process.wait_for_line(self.process, self.log_path, pattern)

    def check(self):
        """Failed when the tool has ended by itself."""
        if self.process and self.process.poll() is not None:
            raise Failed(f"{self.name} ended by itself:\n{process.read_text(self.log_path)}")

    def pause(self, paused):
        """Between start() and stop(), of a tool that can_pause: costs nothing from now on, or goes
        on."""

    def begin(self):
        """Called before the measured segment."""

    def end(self):
        """Called after it; returns a dict of what the tool itself took meanwhile."""
        self.check()
        return {}

    def spends_savings(self):
        """Whether it still costs more than it will later, as of the last end()."""
        return False

    def stop(self):
        process.stop(self.process, signal.SIGINT)
        self.process = None


class Nothing(Tool):
    name = "none"
    start_seconds = 1.5
    can_pause = True

    def start(self, workload, pids):
        time.sleep(1)


class Profd(Tool):
    """profd with its default flags; what it says of itself is recorded beside the ratio."""

    name = "profd"
    start_seconds = 5.0
    arguments = []
    disabled = ()  # sources, by an option
    # Unwind rules are built in the first seconds; a daemon that is always on did so long ago.
    settle_seconds = 4.0
    # Its savings hold the budget of a minute. They are spent with this share left.
    has_savings = True
    savings_seconds = 60
    spent_share = 0.1
    # At the highest level of `drain`, there are 10 s from one drain to the next.
    drain_seconds = 10.4
    # On a busy machine, it takes a while to attach its programs again.
    resume_seconds = 5
    can_pause = True

    def __init__(self, options):
        super().__init__(options)
        self.profd = os.path.join(options.build, "profd")
        self.profctl = os.path.join(options.build, "profctl")
        for path in (self.profd, self.profctl):
            if not os.access(path, os.X_OK):
                raise Unavailable(f"{path} is not built (cmake --build --preset release)")
        self.help = process.output_of([self.profd, "--help"])
        self.server = f"unix://{self.directory}/{self.name}.sock"
        self.before = None
        self.saved = []

    def start(self, workload, pids):
        self.saved = []
        # Children of a target are targets, so the first process stands for all of them.
        self.spawn([self.profd, "--target", str(pids[0]), "--listen", self.server,
                    *self.arguments])
        self.wait_for_line("^profd: attached")
        time.sleep(self.settle_seconds)

    def _reading(self):
        status = process.profctl_status(self.profctl, self.server)
        return {"time": time.monotonic(), "cpu": process.task_cpu_ns(self.process.pid) / 1e9,
                "status": status}

    def _reading_when(self, is_met, seconds):
        """The first reading of which `is_met` is true, or the last of so many seconds."""
        deadline = time.monotonic() + seconds
        while True:
            reading = self._reading()
            if is_met(reading) or time.monotonic() >= deadline:
                return reading
            time.sleep(0.5)

    def pause(self, paused):
        self.process.send_signal(signal.SIGUSR1 if paused else signal.SIGUSR2)

    def begin(self):
        self.check()
        self.before = self._reading_when(lambda reading: not reading["status"].get("paused"),
                                         self.resume_seconds)
        if self.before["status"].get("paused"):
            raise Failed("profd did not resume")

    def end(self):
        self.check()
        before = self.before

        def number(reading, key):
            return float(process.find_key(reading["status"], key) or 0)

        def seen(reading):
            # Switches are not counted while their layer is given up; ticks look at threads all the same.
            targets = process.find_key(process.find_key(reading["status"], "cost") or {}, "targets")
            return number(reading, "switches") + sum(float(process.find_key(target, "tick_cpu_ns") or 0)
                                                     for target in targets or [])

        # What it says is of its last drain, which the whole span may have come after.
        after = self._reading_when(lambda reading: seen(reading) > seen(before), self.drain_seconds)
        if seen(after) <= seen(before):
            raise Failed("profd saw no thread of the workload run or wait")
        seconds = after["time"] - before["time"]
        self.saved.append(self.share_saved(after["status"]))

        def rate(key):
            return (number(after, key) - number(before, key)) / seconds

        return {"daemon_cpu": (after["cpu"] - before["cpu"]) / seconds,
                "in_path_cpu": rate("in_path_ns") / 1e9, "switches_per_s": rate("switches"),
                "rss_mib": process.rss_bytes(self.process.pid, peak=True) / MIB,
                "maps_mib": number(after, "kernel_map_bytes") / MIB,
                "status": in_force.reading(after["status"], self.disabled)}

    def share_saved(self, status):
        """The share of its savings that is left; 0 without a budget, or of an older profd."""
        governor = status.get("governor", {})
        full = float(governor.get("budget") or 0) * self.savings_seconds
        return float(governor.get("saved_s") or 0) / full if 0 < full < math.inf else 0

    def spends_savings(self):
        if self.saved[-1] < self.spent_share:
            return False
        return len(self.saved) < 2 or self.saved[-1] < self.saved[-2]

    def stop(self):
        process.stop(self.process, signal.SIGTERM)
        self.process = None


class ProfdAll(Profd):
    """profd with nothing given up for its budget."""

    name = "profd-all"
    start_seconds = 3.0
    settle_seconds = 2.0
    has_savings = False

    def __init__(self, options):
        super().__init__(options)
        # An older profd has two.
        flags = [flag for flag in ("--budget", "--daemon-budget")
                 if re.search(rf"(?<![\w-]){flag}\b", self.help)]
        self.arguments = [word for flag in flags for word in (flag, "off")]


class ProfdNoSwitch(Profd):
    name = "profd-noswitch"
    arguments = ["--disable", "switch"]
    disabled = ("switch",)


class PerfRecord(Tool):
    name = "perf"

    def __init__(self, options):
        super().__init__(options)
        if not shutil.which("perf"):
            raise Unavailable("perf is not installed")
        process.require_tracefs(self.name)
        known = [event for event in PERF_EVENTS
                 if os.path.isdir(os.path.join(process.TRACEFS, "events", *event.split(":")))]
        if "sched:sched_switch" not in known:
            raise Unavailable("this kernel has no sched_switch tracepoint in tracefs")
        self.events = ",".join(known)
        self.data = os.path.join(self.directory, "perf.data")
        self.before = 0

    def start(self, workload, pids):
        # perf follows what is forked from now on, but not what was: every process is named.
        self.spawn(["perf", "record", "-g", "-e", self.events, "-p", ",".join(map(str, pids)),
                    "-o", self.data])
        time.sleep(1.5)  # perf says nothing when it has attached
        self.check()

    def begin(self):
        self.before = os.path.getsize(self.data)

    def end(self):
        self.check()
        return {"data_mib": (os.path.getsize(self.data) - self.before) / MIB}

    def stop(self):
        super().stop()
        if os.path.exists(self.data):
            os.unlink(self.data)


class Bpftrace(Tool):
    name = "bpftrace"
    start_seconds = 2.5

    def __init__(self, options):
        super().__init__(options)
        if not shutil.which("bpftrace"):
            raise Unavailable("bpftrace is not installed")
        process.require_tracefs(self.name)

    def start(self, workload, pids):
        condition = (f'comm == "{workload.comm}"' if workload.comm else f"pid == {pids[0]}")
        self.spawn(["bpftrace", "-B", "line", "-e",
                    BPFTRACE_PROGRAM.replace("FILTER", condition)])
        self.wait_for_line("^ready")
        time.sleep(0.3)


class OffCpuTime(Tool):
    """libbpf-tools' offcputime. It counts in the kernel and prints when it is ended."""

    name = "offcputime"

    def __init__(self, options):
        super().__init__(options)
        self.binary = options.offcputime
        if not self.binary:
            raise Unavailable("no --offcputime PATH was given")
        if not os.access(self.binary, os.X_OK):
            raise Unavailable(f"{self.binary} cannot be run")
        usage = subprocess.run([self.binary, "--help"], stdin=subprocess.DEVNULL, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               check=False).stdout
        self.takes_list = bool(re.search(r"comma|PIDs", usage))

    def start(self, workload, pids):
        # -p does not follow children, so a workload that forks while it runs is watched by -u,
        # all user threads; so is one of several processes when -p takes a single one.
        forks = workload.forks and workload.comm
        if forks or (len(pids) > 1 and not self.takes_list):
            scope = ["-u"]
            self.note = "-u (all user threads) where the workload has several processes"
        else:
            scope = ["-p", ",".join(map(str, pids))]
        self.spawn([self.binary, *scope, "1000000"])
        time.sleep(1.5)  # it says "Tracing" through a buffer that a file does not flush
        self.check()


class Launcher(Tool):
    """A tool that is in a program from its start."""

    launches = True
    start_seconds = 0.0  # what it takes is in the workload's own start
    environment = {}

    def check_program(self, path):
        """Failed when it cannot watch this program."""

    def command(self, argv):
        """What to start instead of `argv`."""
        return argv

    def recorded(self, output):
        """After the program's end, with what it printed: Failed when nothing was recorded."""
        raise NotImplementedError

    def stop(self):
        """Removes what was recorded."""
        for path in self.files():
            os.unlink(path)

    def files(self):
        return glob.glob(glob.escape(self.prefix) + "*")


class Heaptrack(Launcher):
    name = "heaptrack"

    def __init__(self, options):
        super().__init__(options)
        for program in ("heaptrack", "nm"):
            if not shutil.which(program):
                raise Unavailable(f"{program} is not installed")
        self.prefix = os.path.join(self.directory, "heaptrack.data")

    def check_program(self, path):
        # Its library would come after the program, would never be called, and heaptrack would wait
        # for it for ever.
        symbols = process.output_of(["nm", "-D", "--defined-only", path])
        if re.search(r" malloc$", symbols, re.MULTILINE):
            raise Failed(f"{os.path.basename(path)} brings a malloc of its own, which heaptrack "
                         "does not see")

    def command(self, argv):
        return ["heaptrack", "-o", self.prefix, *argv]

    def recorded(self, output):
        match = re.search(r"^\s*allocations:\s+(\d+)", output, re.MULTILINE)
        if not match:
            raise Failed(f"heaptrack did not finish:\n{output[-2000:]}")
        if int(match.group(1)) == 0:
            raise Failed("heaptrack saw no allocation")


class Jeprof(Launcher):
    """At jemalloc's default rate, a sample in 512 KiB; the profile is written at the end."""

    name = "jeprof"

    def __init__(self, options):
        super().__init__(options)
        self.prefix = os.path.join(self.directory, "jeprof.data")
        self.environment = {
            "MALLOC_CONF": f"prof:true,prof_final:true,prof_prefix:{self.prefix}"}

    def recorded(self, output):
        if not self.files():
            raise Failed("the program wrote no profile: it has no jemalloc, or one that was built "
                         "without profiling")


TOOLS = {tool.name: tool for tool in (
    ProfdAll, Profd, ProfdNoSwitch, PerfRecord, Bpftrace, OffCpuTime, Heaptrack, Jeprof, Nothing)}
