"""What the engines need to know of a workload."""

import os

from profdbench import process
from profdbench.stats import Work


class Workload:
    """A program whose work is counted in slices of time.

    A context manager. Inside it, slice() does or watches one slice and returns a token; collect()
    turns tokens, oldest first, into the Work of each. Counting is apart from slicing because logs
    arrive late; collect() is called in a break, at least `late_seconds` after the last slice.
    """

    build = ""  # folder of the benchmarks' own programs
    name = ""
    about = ""
    unit = ""
    requests = ""  # what its latencies are of; "" where it has none
    comm = None  # set where the work is in several processes that share a name
    forks = False  # each slice is a run of a program, started for it
    setup_seconds = 5
    # After a tool was paused or resumed, until that has reached the program.
    guard_seconds = 0.02
    run_seconds = 0.0  # where each slice is a run: how long one takes, about
    late_seconds = 0.0
    can_launch = False  # under a tool; then `launcher` is that tool
    launcher = None
    restart_seconds = 0  # of restart() and finish(), for the plan

    def __init__(self, directory):
        self.directory = os.path.join(directory, self.name)
        os.mkdir(self.directory)
        os.chmod(self.directory, 0o755)

    def __enter__(self):
        try:
            self.open()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def open(self):
        """Starts what slice() needs; Unavailable when it cannot run here."""

    def pids(self):
        """The processes that a tool is to watch, the one first that is parent of the others."""
        raise NotImplementedError

    def slice(self, seconds):
        raise NotImplementedError

    def collect(self, tokens):
        raise NotImplementedError

    # Where can_launch is set: the path of what a tool is to watch; start it anew; end it and give
    # what it printed.
    def program(self):
        raise NotImplementedError

    def restart(self):
        raise NotImplementedError

    def finish(self):
        raise NotImplementedError

    def launch(self, argv, **kwargs):
        """Starts a program, under the launcher if there is one."""
        if self.launcher:
            argv = self.launcher.command(argv)
            kwargs["env"] = {**os.environ, **self.launcher.environment}
        return process.spawn(argv, **kwargs)

    def close(self):
        """Ends everything; also after an open() that failed half-way."""

    def path(self, name):
        return os.path.join(self.directory, name)


class Lasting(Workload):
    """A server under a client that both run from the first slice to the last: nothing is restarted
    between slices, so caches, memory layout, placement and connections are the same ones."""

    def mark(self):
        """(seconds of some clock, what is known at this instant)."""
        raise NotImplementedError

    def wait(self, seconds):
        """Spends the slice; returns the latencies that were measured in it."""
        raise NotImplementedError

    def slice(self, seconds):
        cpu = CpuMeter(self.pids())
        begin = self.mark()
        latencies = self.wait(seconds)
        end = self.mark()
        return begin, end, cpu.seconds(), latencies

    def collect(self, tokens):
        """For workloads whose mark() knows the amount of work done so far."""
        return [Work(end[0] - begin[0], end[1] - begin[1], cpu, latencies)
                for begin, end, cpu, latencies in tokens]


def descendants(pid):
    """A process and its descendants, parents first."""
    children = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = process.read_text(f"/proc/{entry}/stat")
            except OSError:
                continue
            parent = int(stat.rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry))
    found = [pid]
    for one in found:
        found.extend(children.get(one, ()))
    return found


class CpuMeter:
    """What the scheduler gave to all threads of some processes since this was made."""

    def __init__(self, pids):
        self.pids = pids
        self.before = self._read()

    def _read(self):
        """Nanoseconds by thread; one that ends meanwhile is left out."""
        found = {}
        for pid in self.pids:
            try:
                threads = os.listdir(f"/proc/{pid}/task")
            except OSError:
                continue
            for thread in threads:
                try:
                    text = process.read_text(f"/proc/{pid}/task/{thread}/schedstat")
                    found[thread] = int(text.split()[0])
                except OSError:
                    pass
        return found

    def seconds(self):
        return sum(now - self.before.get(thread, 0) for thread, now in self._read().items()) / 1e9
