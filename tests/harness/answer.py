"""What `profctl ... --format json` says, in the words of the checks. Nothing else knows that format."""

import math
from dataclasses import dataclass, field

UNNAMED = "+0x"


@dataclass
class Stack:
    """Functions of a sample, innermost first, each with its module and kind."""
    frames: list
    complete: bool

    def functions(self):
        return [frame["function"] for frame in self.frames]

    def names(self):
        """Functions without their namespaces and arguments."""
        return {name.replace("(anonymous namespace)::", "").split("(")[0].rsplit("::", 1)[-1]
                for name in self.functions()}

    def end(self):
        """The last frame where it says why the stack is not complete, else ""."""
        last = self.frames[-1] if self.frames else {"function": "", "kind": ""}
        return last["function"] if last["kind"] == "synthetic" else ""

    def describe(self):
        return " < ".join(self.functions())


@dataclass
class Sample:
    thread: dict
    stack: Stack | None
    reason: str
    value: float     # ns or bytes
    error: float     # one standard error
    raw: dict = field(repr=False, default_factory=dict)


class Answer:
    """Of one fetch."""

    def __init__(self, json):
        self.json = json
        self.threads = json["threads"]
        stacks = [Stack([json["frames"][index] for index in stack["frames"]], stack["complete"])
                  for stack in json["stacks"]]
        unit = "bytes" if json.get("unit") == "bytes" else "ns"
        value = "bytes" if unit == "bytes" else "time_ns"
        error = "error_bytes" if unit == "bytes" else "error_ns"
        self.unit = unit
        self.samples = [
            Sample(self.threads[sample["thread"]],
                   None if sample["stack"] is None else stacks[sample["stack"]],
                   sample.get("reason", ""), sample[value], sample[error], sample)
            for sample in json["samples"]]

    @property
    def begin_ns(self):
        return self.json["header"]["begin_ns"]

    @property
    def end_ns(self):
        return self.json["header"]["end_ns"]

    @property
    def losses(self):
        return {loss["cause"]: loss["count"] for loss in self.json["trailer"]["losses"]}

    def thread(self, pid, tid):
        for thread in self.threads:
            if (thread["pid"], thread["tid"]) == (pid, tid):
                return thread
        return None

    def samples_of(self, thread, reason=None):
        return [sample for sample in self.samples if sample.thread is thread
                and (reason is None or sample.reason == reason)]

    def sum_of(self, function="", *, key="value", pid=None, tid=None):
        """(sum, standard error) of the samples with a function in their stacks, of OUTER/INNER with
        both, of "" of all; of one process or thread.

        Variances add up, as samples of other stacks and threads are unrelated."""
        wanted = set(function.split("/")) if function else set()
        total, variance = 0, 0.0
        for sample in self.samples:
            if pid not in (None, sample.thread["pid"]) or tid not in (None, sample.thread["tid"]):
                continue
            if wanted and not (sample.stack and wanted <= sample.stack.names()):
                continue
            total += sample.value if key == "value" else sample.raw[key]
            variance += sample.error ** 2
        return total, math.sqrt(variance)

    def unsampled(self, pid=None):
        """What belongs to stacks that no sample saw."""
        return sum(sample.value for sample in self.samples
                   if sample.stack is None and pid in (None, sample.thread["pid"]))

    def walked(self):
        """Weight in ns of the stacks of waits: of those that are complete, and of those that end early,
        by what their last frame says."""
        found = {}
        for sample in self.samples:
            if sample.stack is not None and "weight_ns" in sample.raw:
                end = "complete" if sample.stack.complete else sample.stack.end()
                found[end] = found.get(end, 0) + sample.raw["weight_ns"]
        return found


def off(thread, reason=None):
    """ns off-CPU, of one reason or of all."""
    return sum(entry["time_ns"] for entry in thread["off"] if reason in (None, entry["reason"]))


def waits(thread, reason):
    return sum(entry["waits"] for entry in thread["off"] if entry["reason"] == reason)
