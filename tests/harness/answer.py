"""What `profctl ... --format json` says, in the words of the checks. Nothing else knows that format."""

import collections
import functools
import math
import re
from dataclasses import dataclass, field

INTEGER = re.compile(r"-?\d+")
# Fields that are text, whatever they look like.
TEXTS = {"strings", "name", "group", "owner"}

# By unit of the sample type: as expressions say it, and the fields of a sample with its value, error, weight and count.
UNITS = {"nanoseconds": "ns", "bytes": "bytes", "count": "count"}
FIELDS = {"ns": ("time_ns", "error_ns", "weight_ns", "ticks"),
          "bytes": ("bytes", "error_bytes", "weight_bytes", "events"),
          "count": ("number", "error", "weight", "counted")}


def numbers(value, key=""):
    """The same with integers of 64 bits, which protobuf writes as strings, as numbers."""
    if isinstance(value, dict):
        return {name: numbers(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [numbers(item, key) for item in value]
    if isinstance(value, str) and key not in TEXTS and INTEGER.fullmatch(value):
        return int(value)
    return value


def enum(value):
    """"lock" of "REASON_LOCK", "kernel" of "FRAME_KIND_KERNEL"; "" where it is not set."""
    word = value
    for prefix in ("REASON_", "FRAME_KIND_", "NAME_SOURCE_", "FINDING_RULE_"):
        word = word.removeprefix(prefix)
    word = word.lower()
    return "" if word == "unspecified" else word


def read(message, kind=None):
    """A message Profile without its tables: what expressions of scenarios see as `answer`. Of the
    sample type of that name, of the first one by default."""
    message = numbers(message)
    strings = message["strings"]
    names = [sample_type["name"] for sample_type in message["sample_types"]]
    index = names.index(kind) if kind else 0
    sample_type = message["sample_types"][index]
    unit = UNITS[sample_type["unit"]]

    def line_of(line):
        """A function that was inlined at a place."""
        function = message["functions"][line["function"]]
        return {"function": strings[function["name"]], "file": strings[function["file"]],
                "line": line["line"], "kind": enum(function["kind"])}

    frames = []
    for location in message["locations"]:
        mapping = message["mappings"][location["mapping"]]
        *inlined, own = location["lines"]
        function = message["functions"][own["function"]]
        frames.append({"function": strings[function["name"]], "module": strings[mapping["file"]],
                       "build_id": strings[mapping["build_id"]], "kind": enum(function["kind"]),
                       "found_by": enum(function["found_by"]), "address": location["address"],
                       "exact": location.get("exact", False),
                       "file": strings[function["file"]], "line": own["line"],
                       "inlined": [line_of(line) for line in inlined]})
    stacks = [{"frames": stack["locations"], "complete": stack["complete"]} for stack in message["stacks"]]

    threads = []
    for thread in message["threads"]:
        process = message["processes"][thread["process"]]
        threads.append(thread | {
            "pid": process["pid"], "process": process["name"],
            "off": [total | {"reason": enum(total["reason"])} for total in thread["off"]],
            "heap": thread.get("freed" if sample_type["name"] == "free" else "allocated")})

    samples = []
    for sample in message["samples"]:
        attributes = {strings[attribute["key"]]: strings[attribute["text"]] or attribute["number"]
                      for attribute in (message["attributes"][a] for a in sample["attributes"])}
        found = {"thread": sample["threads"][0], "stack": sample["stack"] or None,
                 "reason": enum(sample["reason"]), "syscall": attributes.get("syscall", -1),
                 "argument": attributes.get("object"), "idle": attributes.get("idle"),
                 "lock": attributes.get("lock")}
        value, error = sample["values"][index], sample["errors"][index]
        weight, count = sample["weights"][index], sample["counts"][index]
        if len(names) > 1 and not (value or weight or count):
            continue
        found |= dict(zip(FIELDS[unit], (value, error, weight, count)))
        if unit == "bytes" and sample["growth"]:
            found["growth_bytes"] = sample["growth"][index]
        samples.append(found)

    longest = message.get("longest")
    if longest:
        longest = longest | {"waits": [long_wait(wait, threads, frames, stacks, strings, message["attributes"])
                                       for wait in longest["waits"]]}

    coverage = message["coverage"]
    layers = {name: coverage[name] for name in ("books_ns", "switch_ns", "tick_ns", "bursts",
                                                "burst_ns", "bursts_on_ns")}
    layers[{"rss": "faults_ns", "alloc": "heap_ns", "free": "heap_ns", "inuse": "heap_ns",
            "offcpu": "tick_ns", "locks": "tick_ns", "runqueue": "tick_ns", "cpu": "cpu_ns", "wall": "wall_ns", "wakers": "wakers_ns",
            "switches": "switch_stacks_ns",
            "disk": "disk_ns", "disk-queue": "disk_ns",
            "disk-bytes": "disk_ns", "fsync": "disk_ns"}.get(sample_type["name"], "mappings_ns")] = sample_type["watched_ns"]
    trailer = {name: coverage[name] for name in ("ticks", "ticks_missed", "tick_interval_ns", "walks",
                                                 "torn_walks")}
    trailer |= {"samples": sample_type["count"], "complete_share": sample_type["complete_share"],
                "heap": sample_type.get("total"), "losses": message["losses"],
                "cost": message["cost"], "memory": message.get("memory"),
                "disks": message.get("disks", []),
                "flights": message.get("disk_flights", []),
                "syncs": message.get("syncs", []),
                "locks": message.get("locks", []),
                "occupants": message.get("occupants", []),
                "source_lines": message.get("source_lines"),
                "names": {enum(share["source"]): share for share in message["name_shares"]
                          if share["sample_type"] == index}}
    return {"kind": sample_type["name"], "unit": unit,
            "header": coverage | {"layers": layers}, "processes": message["processes"], "threads": threads, "frames": frames,
            "stacks": stacks, "samples": samples, "longest": longest, "trailer": trailer,
            "findings": [finding | {"rule": enum(finding["rule"]), "reason": enum(finding["reason"])}
                         for finding in message.get("findings", [])]}


def long_wait(wait, threads, frames, stacks, strings, attributes):
    """A message LongWait without indexes."""
    said = {strings[attributes[a]["key"]]: strings[attributes[a]["text"]] or attributes[a]["number"]
            for a in wait["attributes"]}
    return wait | {"thread": threads[wait["thread"]], "reason": enum(wait["reason"]),
                   "functions": [frames[frame]["function"] for frame in stacks[wait["stack"]]["frames"]],
                   "waker": strings[wait["waker"]], "syscall": said.get("syscall", -1),
                   "object": said.get("object"), "idle": said.get("idle")}


def readable(message):
    """Of a profile as `read` gives it; the JSON of other commands as it is."""
    return read(message) if "sample_types" in message else message


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
    """Of one fetch: the message as `read` gives it."""

    def __init__(self, json):
        self.json = json
        self.threads = json["threads"]
        stacks = [Stack([json["frames"][index] for index in stack["frames"]], stack["complete"])
                  for stack in json["stacks"]]
        unit = self.unit = json["unit"]
        value, error, *_ = FIELDS[unit]
        self.samples = [
            Sample(self.threads[sample["thread"]],
                   None if sample["stack"] is None else stacks[sample["stack"]],
                   sample["reason"], sample[value], sample[error], sample)
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

    @functools.cached_property
    def _by_thread(self):
        found = collections.defaultdict(list)
        for sample in self.samples:
            found[id(sample.thread)].append(sample)
        return found

    def samples_of(self, thread, reason=None):
        return [sample for sample in self._by_thread.get(id(thread), ()) if reason in (None, sample.reason)]

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
