"""What else went on while something was measured."""

import os
import time

from profdbench import process
from profdbench.workloads.base import descendants

STEAL_LIMIT = 0.02  # of the time, taken by the hypervisor
OTHERS_LIMIT = process.OTHERS_LIMIT  # of one CPU, used by processes without a part in it


class Surroundings:
    """Time stolen, and CPU used by uninvolved processes, from construction on.

    Involved is whatever descends from this process or from the workload's server. The CPU time of
    a process that ends moves to its parent, so nothing is lost when one does.
    """

    def __init__(self, pids):
        self.roots = [os.getpid(), pids[0]]
        self.ticks = os.sysconf("SC_CLK_TCK")
        self.began, self.before = time.monotonic(), self._read()

    def _read(self):
        busy, steal = process.machine_ticks()
        own = 0
        for pid in {pid for root in self.roots for pid in descendants(root)}:
            try:
                times = process.read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()[11:15]
                own += sum(map(int, times))
            except OSError:
                pass  # it ended: its time is in its parent's
        return busy, steal, own

    def disturbed(self):
        """Whether others took enough of the machine to be named."""
        span = (time.monotonic() - self.began) * self.ticks
        busy, steal, own = (after - before for after, before in zip(self._read(), self.before))
        return steal / span > STEAL_LIMIT or (busy - own) / span > OTHERS_LIMIT
