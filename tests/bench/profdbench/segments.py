"""The `segments` protocol, for tools that cannot be paused: they are started and stopped.

    U  T1  U  T2  U  T3  U         U untraced, T1 T2 T3 under one tool each

is a *round*. A tool's pair is its traced segment and the two untraced ones that touch it, so that a
steady drift cancels. All tools are in each round, in an order that turns by one from round to
round. A round has one pair of each tool, and the pairs of a tool share no segment: each is a block
of its own. Attaching, settling and detaching are in no segment. This is coarser than slices: a
machine whose speed wanders is compared over seconds instead of tenths of one.

heaptrack and jemalloc's own profiling are in a program from its start, so for them redis is started
anew for every segment, traced and untraced; a run of rustc is a segment of its own anyway.
"""

import time

from profdbench import stats
from profdbench.process import Failed
from profdbench.progress import log
from profdbench.surroundings import Surroundings

SETTLE_AFTER_STOP = 0.5
UNTRACED_SHARE = 0.6  # each pair has two untraced segments


class Runner:
    """Runs the rounds of tools that are put on a running workload."""

    def __init__(self, workload, tools, seconds, progress):
        self.workload, self.tools, self.seconds = workload, list(tools), seconds
        self.progress = progress
        self.rows = {tool.name: {"blocks": [], "extras": [], "disturbed": 0, "pairs": 0,
                                 "in_force": {}} for tool in tools}
        self.failed = []  # (tool, why)

    def measure(self, seconds):
        """(Work, disturbed) of one segment."""
        around = Surroundings(self.workload.pids())
        token = self.workload.slice(seconds)
        time.sleep(self.workload.late_seconds)
        (work,) = self.workload.collect([token])
        if work.amount <= 0 or work.cpu <= 0:
            raise Failed(f"{self.workload.name} got nothing done in a segment")
        return work, around.disturbed()

    def untraced(self):
        return self.measure(max(1.0, self.seconds * UNTRACED_SHARE))

    def traced(self, tool):
        try:
            tool.start(self.workload, self.workload.pids())
            tool.begin()
            segment = self.measure(self.seconds)
            return segment, tool.end()
        finally:
            tool.stop()
            time.sleep(SETTLE_AFTER_STOP)

    def round(self, number):
        turn = number % len(self.tools)
        before = self.untraced()
        for tool in self.tools[turn:] + self.tools[:turn]:
            try:
                traced, extra = self.traced(tool)
                after = self.untraced()
            except Failed as why:
                log(f"{tool.name} under {self.workload.name}: {why}")
                self.failed.append((tool.name, str(why).split("\n", 1)[0]))
                self.tools.remove(tool)
                del self.rows[tool.name]
                before = self.untraced()
                continue
            row = self.rows[tool.name]
            row["blocks"].append(stats.Block.of([traced[0]], [before[0], after[0]]))
            row["extras"].append(extra)
            row["disturbed"] += before[1] or traced[1] or after[1]
            row["pairs"] += 1
            self.progress(tool, row["pairs"],
                          stats.estimate([block.speed() for block in row["blocks"]]))
            before = after

    def run(self, pairs):
        """{tool: its row}; what a failing tool did before it failed is not reported."""
        for number in range(pairs):
            if self.tools:
                self.round(number)
        return self.rows


class Launches(Runner):
    """Runs the rounds of tools that a workload is started under: it is, for every segment."""

    def untraced(self):
        return self._launched(None, max(1.0, self.seconds * UNTRACED_SHARE))

    def traced(self, tool):
        tool.check_program(self.workload.program())
        try:
            return self._launched(tool, self.seconds), {}
        finally:
            tool.stop()

    def _launched(self, tool, seconds):
        self.workload.launcher = tool
        try:
            self.workload.close()
            self.workload.restart()
            segment = self.measure(seconds)
            output = self.workload.finish()
        finally:
            self.workload.launcher = None
        if tool:
            tool.recorded(output)
        return segment
