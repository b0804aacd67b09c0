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

    def by_function(self, prefix, key="value"):
        """{function: (sum, standard error)} by the outermost function that begins so, "" for none.

        Variances add up, as samples of other stacks and threads are unrelated."""
        found = {}
        for sample in self.samples:
            name = ""
            for function in sample.stack.functions() if sample.stack else []:
                if function.rsplit("::", 1)[-1].startswith(prefix) or function.startswith(prefix):
                    name = function.rsplit("::", 1)[-1].split("(")[0]
            value, variance = found.get(name, (0, 0.0))
            amount = sample.value if key == "value" else sample.raw[key]
            found[name] = (value + amount, variance + sample.error ** 2)
        return {name: (value, math.sqrt(variance)) for name, (value, variance) in found.items()}

    def total(self):
        return sum(sample.value for sample in self.samples)

    def error(self):
        return math.sqrt(sum(sample.error ** 2 for sample in self.samples))


def off(thread, reason=None):
    """ns off-CPU, of one reason or of all."""
    return sum(entry["time_ns"] for entry in thread["off"] if reason in (None, entry["reason"]))


def waits(thread, reason):
    return sum(entry["waits"] for entry in thread["off"] if entry["reason"] == reason)
