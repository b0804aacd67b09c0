"""Expectations of a scenario against an answer and what the targets measured of themselves."""

import ast
import copy
import math
import re
from dataclasses import replace

from . import tolerance
from .answer import off, waits
from .settings import GUESTS
from .tolerance import Failure, between, compare, least_hits
from .vacuous import looks_at_nothing

# Losses that an undisturbed run has as well; docs/losses.md says why they do no harm.
# A long wait that is lost is in every total; `profctl worst` does not list it.
HARMLESS_LOSSES = {"torn_walk", "torn_ledger", "switch_unseen", "mapping_busy", "disk_request_lost",
                   "long_wait_lost", "wait_duration_lost", "heap_total_late"}
# Walks that met a thread in motion say so and keep their weight. How many do depends on the
# machine; that most do not is what makes a profile.
RACED = {"[torn walk]", "[memory map busy]"}
RACED_MOST = 0.6
# What no tick met lasted for no longer than so many intervals, but once in 1,000 times.
UNMET_INTERVALS = 7
# Of a thread's sleeps in a wait, those that are for the reason of the wait.
MOST_SLEEPS = 0.9
# As a thread ends: for the lock of its memory map, say.
LAST_SLEEPS = 2
# A thread that sleeps a few times may have been put to sleep for something else once of them.
STRAY_SLEEPS = 1
# Rules of a module that was never seen before are there after this time at the latest.
PENDING = "[unwind rules pending]"
PENDING_NS = 3_000_000_000
# Layers of an answer by the source that they stand for.
LAYERS = {"books": "books_ns", "switch": "switch_ns", "tick": "tick_ns", "faults": "faults_ns",
          "mappings": "mappings_ns", "bursts": "bursts_on_ns", "cpu": "cpu_ns",
          "disk": "disk_ns", "wakers": "wakers_ns", "switch-stacks": "switch_stacks_ns"}

# In place of a waker.
WITHOUT_WAKER = {"[waker unknown]", "[runqueue]"}


class Struct:
    """A JSON object whose keys are attributes, for expressions in scenario files; also ["so"]."""

    def __init__(self, table):
        self._table = table

    def __getattr__(self, name):
        try:
            return wrap(self._table[name])
        except KeyError:
            raise AttributeError(f"there is no '{name}' among {sorted(self._table)}") from None

    __getitem__ = __getattr__

    def __contains__(self, name):
        return name in self._table

    def __repr__(self):
        return repr(self._table)


def wrap(value):
    if isinstance(value, dict):
        return Struct(value)
    if isinstance(value, list):
        return [wrap(item) for item in value]
    return value


FUNCTIONS = {"len": len, "sum": sum, "min": min, "max": max, "abs": abs, "any": any, "all": all,
             "sorted": sorted, "set": set, "round": round, "MIB": 1 << 20, "KIB": 1 << 10, "int": int,
             "str": str, "float": float, "bool": bool, "list": list, "EVENT_BYTES": tolerance.EVENT_BYTES,
             "PAGE_COUNT_BYTES": tolerance.PAGE_COUNT_BYTES, "RACED": RACED, "PENDING": PENDING}


def evaluate(expression, names):
    """Scenario files are part of the project, so their expressions are Python's."""
    return eval(expression, {"__builtins__": {}, **FUNCTIONS, **names})  # pylint: disable=eval-used


def invariants(answer):
    """What holds in every answer about time, whatever was asked."""
    failures = []
    for thread in answer.threads:
        if "off" not in thread:
            continue
        what = f"{thread['name']} ({thread['tid']})"
        total = thread["on_cpu_ns"] + off(thread)
        if abs(total - thread["wall_ns"]) > (tolerance.IDENTITY_FLOOR_NS
                                             + thread["wall_ns"] * tolerance.IDENTITY_SHARE):
            failures.append(Failure(f"{what}: on-CPU and off-CPU are {total} ns of {thread['wall_ns']} ns"))
        whole = {"cpu": thread["on_cpu_ns"], "wall": thread["wall_ns"]}.get(answer.json["kind"])
        told = sum(sample.value for sample in answer.samples_of(thread))
        if whole is not None and told != max(whole, 0):
            failures.append(Failure(f"{what}: its stacks have {told} ns of {whole} ns"))
        for entry in thread["off"]:
            samples = answer.samples_of(thread, entry["reason"])
            if not samples:
                continue
            told = sum(sample.value for sample in samples)
            if answer.unit == "count":
                # The ledger misses switches while it is off, and one if a thread is read in the middle of it.
                more = told - entry["waits"]
                if more < 0 or (more > 1 and thread["estimated_ns"] == 0):
                    failures.append(Failure(f"{what}: the stacks of {entry['reason']} have {told} switches, "
                                            f"the ledger {entry['waits']}"))
            # The ledger may be negative where the window before had counted an open wait in another way. No stack gets that.
            elif abs(told - max(entry["time_ns"], 0)) > tolerance.IDENTITY_FLOOR_NS + len(samples):
                failures.append(Failure(f"{what}: the stacks of {entry['reason']} have {told} ns, the "
                                        f"ledger {entry['time_ns']} ns"))
        failures += invariants_of_durations(what, thread)
    return failures


def invariants_of_durations(what, thread):
    """A histogram has all its waits, and its numbers are in order."""
    failures = []
    for entry in thread["off"]:
        histogram = f"{what}: durations of {entry['reason']}"
        order = [entry["p50_ns"], entry["p99_ns"], entry["max_ns"]]
        if sum(entry["durations"]) != entry["measured"]:
            failures.append(Failure(f"{histogram}: {entry['durations']} are not {entry['measured']} waits"))
        if order != sorted(order) or (entry["measured"] > 0) != (order[0] > 0):
            failures.append(Failure(f"{histogram}: p50, p99 and max of {entry['measured']} are {order}"))
    return failures


def invariants_of_bytes(answer):
    """Estimates by stack sum to the totals of their threads, and those to the answer's."""
    if answer.json["kind"] not in ("alloc", "free"):
        return []
    failures, total = [], 0
    for thread in answer.threads:
        told = sum(sample.value for sample in answer.samples_of(thread))
        exact = (thread["heap"] or {"bytes": 0})["bytes"]
        total += exact
        if told != exact:
            failures.append(Failure(f"{thread['name']} ({thread['tid']}): its stacks have {told} bytes, "
                                    f"its total is {exact}"))
    if answer.json["trailer"]["heap"]["bytes"] != total:
        failures.append(Failure(f"the total is {answer.json['trailer']['heap']['bytes']} bytes, its "
                                f"threads have {total}"))
    return failures


def lost(answer, scenario):
    allowed = HARMLESS_LOSSES | set(scenario.losses) | set(scenario.loses)
    return [Failure(f"lost: {cause} {count}") for cause, count in answer.losses.items()
            if cause not in allowed]


def silent(answer, source):
    """A source that is disabled tells nothing, and the answer says that it was not there."""
    failures = []
    # heap_ns also holds the time of bursts, which are another source.
    layer = LAYERS.get(source)
    told_ns = answer.json["header"]["layers"].get(layer, 0)
    if told_ns != 0:
        failures.append(Failure(f"--disable {source}: the answer says {layer} = {told_ns}"))
    stacks = [sample for sample in answer.samples if sample.stack is not None]
    if answer.json["kind"] == "wakers" and source == "wakers":
        # Waits are told as ever, and that nobody knows who ended them.
        stacks = [sample for sample in stacks if sample.stack.functions()[0] not in WITHOUT_WAKER]
    if answer.json["kind"] == "wall":
        # The other source of such an answer goes on.
        stacks = [sample for sample in stacks if (sample.reason == "on_cpu") == (source == "cpu")]
    if source not in ("books", "switch") and stacks:
        failures.append(Failure(f"--disable {source}: there is a stack, {stacks[0].stack.describe()}"))
    return failures


def stack_fits(stack, wanted, ends=""):
    """Whether a stack is this one, whole. `wanted` is innermost first: the kernel's part or libc's
    function, then the target's own, each a substring; the last may name the root as `root:NAME`.
    `ends` is what its last frame says where the walk did not come to the root."""
    if stack.complete == bool(ends) or stack.end() != ends:
        return False
    own, root = list(wanted), None
    if own and own[-1].startswith("root:"):
        root = own.pop().removeprefix("root:")
    leaf = own.pop(0)
    user = [frame for frame in stack.frames[:-1 if ends else None] if frame["kind"] != "kernel"]
    kernel = [frame for frame in stack.frames if frame["kind"] == "kernel"]
    if not user or not kernel or stack.frames[0]["kind"] != "kernel":
        return False
    if any(frame["kind"] == "synthetic" for frame in user):
        return False
    module = next((frame["module"] for frame in user if own and own[0] in frame["function"]), None)
    if module is None:
        return False
    ours = [frame for frame in user if frame["kind"] not in ("libc", "runtime")
            and not frame["module"].startswith(("libc.so", "ld-linux"))]
    names = [frame["function"] for frame in ours]
    if root is not None:
        if root not in user[-1]["function"] and root not in user[-1]["module"]:
            return False
        if names and root in names[-1] and len(names) == len(own) + 1:
            names.pop()
    elif not user[-1]["module"].startswith("libc.so"):
        return False
    if len(names) != len(own) or not all(want in name for want, name in zip(own, names)):
        return False
    below = user[:user.index(ours[0])]
    return leaf == "" or any(leaf in frame["function"] for frame in below + kernel)


class ThreadCheck:
    """One thread's own measurements against its ledger and its stacks."""

    def __init__(self, expected, own, report, answer, setting):
        self.expected, self.own, self.report = expected, own, report
        self.answer, self.setting = answer, setting
        self.what = f"{own['name']} ({own['tid']})"
        self.thread = answer.thread(report["pid"], own["tid"])
        self.failures = []
        self.walks, self.raced = 0, 0  # samples of its waits, in all and of walks that raced

    def run(self):
        if self.thread is None:
            return [Failure(f"{self.what}: not in the answer")]
        expected = self.expected
        # The first thread of a process keeps that one's name.
        if self.own["tid"] != self.report["pid"] and self.thread["name"] != self.own["name"]:
            self.fail(f"is called '{self.thread['name']}'")
        if expected.exited is not None and self.thread["exited"] != expected.exited:
            self.fail(f"exited: {self.thread['exited']}")
        if (self.setting.name == "no-budget" and self.thread["estimated_ns"]
                and not expected.estimated and not expected.unmeasured):
            self.fail(f"{self.thread['estimated_ns']} ns are estimated, although nothing sheds the ledger")
        if expected.life and not expected.unmeasured:
            self.life()
        if expected.blocked:
            self.still_blocked()
        elif expected.reason and expected.waits and not expected.unmeasured:
            self.measured_waits()
        if expected.only and "switch" not in self.setting.off and self.thread["estimated_ns"] == 0:
            rest = {entry["reason"]: entry["time_ns"] for entry in self.thread["off"]
                    if entry["reason"] not in (expected.reason, "runqueue") and entry["time_ns"]}
            self.between(f"off-CPU for another reason than {expected.reason}: {', '.join(rest)}", 0,
                         sum(rest.values()), self.unmeasured())
        if "tick" not in self.setting.off and (expected.stacks or expected.through or expected.ends):
            self.stacks()
        if "tick" not in self.setting.off and expected.paths:
            self.paths()
        return self.failures

    def fail(self, text):
        self.failures.append(Failure(f"{self.what}: {text}"))

    def unmeasured(self):
        """The longest that it can have waited besides the waits it measured: for the lock of its memory map, say, or for
        its code. By its own clock it was off the CPU for that long between its waits, or before and after its measure."""
        life = self.own["end_ns"] - self.own["begin_ns"]
        between_waits = (life - self.own["cpu_ns"]) - (self.own["wait_wall_ns"] - self.own["wait_cpu_ns"])
        outside = 0 if self.expected.blocked else min(self.thread["wall_ns"] - life, tolerance.UNMEASURED_NS)
        # An emulated CPU may stand still for long while it holds the lock.
        least = tolerance.UNMEASURED_NS if self.setting.inside in GUESTS else 0
        return max(least, max(between_waits, 0) + max(outside, 0))

    def between(self, what, low, value, high, *, error=0.0):
        """`error` is that of the ledger, where it is an estimate."""
        apart = tolerance.CLOCKS_APART_NS if self.setting.inside in GUESTS else 0
        failures = between(f"{self.what} {what}", low - error - apart, value, high + error + apart)
        self.failures += [replace(failure, statistical=error > 0) for failure in failures]

    def life(self):
        queued = off(self.thread, "runqueue")
        outside = self.thread["wall_ns"] - (self.own["end_ns"] - self.own["begin_ns"])
        # Without a ledger the time in the queue is part of what the kernel's books say anyway.
        self.between("life outside of its own measure", 0, outside,
                     queued + self.ran_besides() + tolerance.UNMEASURED_NS)
        self.between("CPU time by its own clock", self.thread["on_cpu_ns"] - max(outside, 0),
                     self.own["cpu_ns"], self.thread["on_cpu_ns"])

    def ran_besides(self):
        """Its time on a CPU outside of its own measure: an emulated one may stand still for long."""
        return max(0, self.thread["on_cpu_ns"] - self.own["cpu_ns"])

    def error_of(self, reason):
        """Of the time by reason where the ledger is not exact: the tick's, by the stated errors."""
        if self.thread["estimated_ns"] == 0:
            return 0.0
        met = [sample for sample in self.answer.samples_of(self.thread, reason) if sample.raw["ticks"]]
        if not met:
            return min(UNMET_INTERVALS * self.answer.json["trailer"]["tick_interval_ns"], self.thread["estimated_ns"])
        return tolerance.SIGMAS * math.sqrt(sum(sample.error ** 2 for sample in met))

    def nobody_knows(self):
        """Without a ledger reasons are the tick's, and it never met this thread blocked: totals alone are
        known."""
        return self.thread["estimated_ns"] > 0 and not any(
            sample.raw["ticks"] for sample in self.answer.samples_of(self.thread)
            if sample.reason != "runqueue")

    def measured_waits(self):
        reason = self.expected.reason
        if self.nobody_knows():
            return
        queued, blocked = off(self.thread, "runqueue"), off(self.thread, reason)
        waited = self.own["wait_wall_ns"] - self.own["wait_cpu_ns"]
        error = self.error_of(reason)
        low = 0 if self.expected.more_waits else blocked
        self.between(f"{reason} by its own clock", low, waited, blocked + queued, error=error)
        if "switch" in self.setting.off or self.thread["estimated_ns"] > 0:
            return
        # It may have slept for something else now and then as it waited, for the lock of its memory map, say, and for the
        # same between its waits. What it slept after its report, to end, is not in its own count.
        told, slept, ever = waits(self.thread, reason), self.own["sleeps"], self.own["all_sleeps"]
        every = sum(entry["waits"] for entry in self.thread["off"] if entry["reason"] != "runqueue")
        few = (slept > 0 and told == 0) or slept - told > max((1 - MOST_SLEEPS) * slept, STRAY_SLEEPS)
        if every < slept or few or told > ever + LAST_SLEEPS:
            self.fail(f"{told} waits for {reason} of {every}, it slept {slept} times in {len(self.own['waits'])} calls "
                      f"and {ever} times in all")

    def still_blocked(self):
        if self.nobody_knows():
            return
        since = max(self.own["end_ns"] + self.report["wall_offset_ns"], self.answer.begin_ns)
        first, last = self.report.get("ended_ns") or [self.answer.end_ns, self.answer.end_ns]
        error = self.error_of(self.expected.blocked)
        self.between(f"blocked for {self.expected.blocked}", first - since - off(self.thread, "runqueue") - self.ran_besides(),
                     off(self.thread, self.expected.blocked), last - since, error=error)

    def expected_hits(self):
        """How many ticks should have met its waits: by the ledger or by its own clock, whichever says more."""
        interval = self.answer.json["trailer"]["tick_interval_ns"]
        reason = self.expected.blocked or self.expected.reason
        if self.thread is None or interval == 0 or not reason:
            return math.inf
        own = self.own.get("wait_wall_ns", 0) - self.own.get("wait_cpu_ns", 0) - off(self.thread, "runqueue")
        return max(off(self.thread, reason), own) / interval

    def walked(self):
        """Samples of its waits whose walk did not race, and the share of the weight whose did."""
        reason = self.expected.blocked or self.expected.reason
        good = []
        for sample in self.answer.samples_of(self.thread, reason or None):
            if sample.stack is None:
                continue
            self.walks += sample.raw["ticks"]
            if sample.stack.end() in RACED:
                self.raced += sample.raw["ticks"]
            else:
                good.append(sample)
        return good

    def stacks(self):
        pending = 0
        for sample in self.walked():
            if self.expected.settling and sample.stack.end() == PENDING:
                pending += sample.value
                continue
            ends, through = self.expected.ends, self.expected.through
            if through and not (sample.stack.complete
                                and any(through in name for name in sample.stack.functions())):
                self.fail(f"should go through {through}, whole: {sample.stack.describe()}")
            if ends and (sample.stack.end() != ends or sample.stack.complete):
                self.fail(f"should end in {ends}: {sample.stack.describe()}")
            elif not self.expected.stacks:
                continue
            elif not any(stack_fits(sample.stack, stack, ends) for stack in self.expected.stacks):
                self.fail(f"{sample.raw['ticks']} samples at a stack that is not expected: "
                          f"{sample.stack.describe()}; expected is "
                          + " or ".join(" < ".join(stack) for stack in self.expected.stacks))
        if pending > PENDING_NS:
            self.fail(f"{pending / 1e9:.1f} s of stacks end in {PENDING}")

    def paths(self):
        """The time of each path is an estimate, of what the thread measured on it."""
        good = self.walked()
        for path, stack in self.expected.paths.items():
            truth = sum(end - begin for begin, end, where in self.own["waits"] if str(where) == path)
            every = sum(end - begin for begin, end, _ in self.own["waits"])
            fitting = [sample for sample in good if stack_fits(sample.stack, stack)]
            weight = sum(sample.value for sample in good)
            if not fitting:
                self.fail(f"path {path} has no sample")
                continue
            # Races fall on all paths alike; time in the queue ends waits on all of them.
            share = sum(sample.value for sample in fitting) / weight
            error = math.sqrt(sum(sample.error ** 2 for sample in fitting)) / weight
            self.failures += compare(f"{self.what} path {path}, per mille", share * 1000,
                                     truth / every * 1000, "estimate", error=error * 1000,
                                     precision=self.expected.precision)


def check_threads(expected, report, answer, setting):
    if expected.unmeasured:
        own = [{"name": thread["name"], "tid": thread["tid"]} for thread in answer.threads
               if (thread["pid"], thread["name"]) == (report["pid"], expected.name)]
    else:
        own = [thread for thread in report.get("threads", []) if thread["name"] == expected.name]
    if len(own) != expected.count:
        every = answer.threads if expected.unmeasured else report.get("threads", [])
        names = ", ".join(sorted({thread["name"] for thread in every})) or "none"
        return [Failure(f"there are {len(own)} threads named {expected.name}, not {expected.count}; "
                        f"{'the answer' if expected.unmeasured else 'the report'} has {names}")]
    found = [ThreadCheck(expected, each, report, answer, setting) for each in own]
    failures = [failure for check in found for failure in check.run()]
    # Threads of one name are looked at together: a short life may lie between two ticks.
    if "tick" not in setting.off and (expected.stacks or expected.through or expected.ends or expected.paths):
        walks, raced = sum(check.walks for check in found), sum(check.raced for check in found)
        # Whether a tick meets a thread is chance: none does with probability exp(-hits) at most.
        hits = sum(check.expected_hits() for check in found)
        if walks == 0 and hits > -math.log(tolerance.FALSE_ALARM):
            failures.append(Failure(f"{expected.name}: no stacks of {expected.blocked or expected.reason}",
                                    statistical=True))
        elif walks - raced < least_hits(walks, 1 - RACED_MOST):
            failures.append(Failure(f"{expected.name}: {raced} of its {walks} walks raced"))
    return failures


def check_bytes(expected, names, answer, pid=None, cases=None):
    """`names` are those that expressions may use: of the report, and what the target said. With
    `pid` of that process alone. What is `calibrated` goes into `cases`, for later."""
    items = evaluate(expected.each, names) if expected.each else [None]
    if not items:
        return [Failure(f"{expected.each}: the target reports none")]
    failures = []
    for i, item in enumerate(items):
        inner = {**names, "i": i, "item": item}
        truth = evaluate(expected.truth, inner)
        function = expected.function.format(i=i, item=item)
        tid = evaluate(expected.tid, inner) if expected.tid else None
        value, error = answer.sum_of(function, key=expected.key, pid=pid, tid=tid)
        if expected.within == "calibrated":
            cases.setdefault((pid, function), []).append((value, truth, error))
            continue
        if answer.json["kind"] == "rss" and function and error == 0:
            # Nobody saw the function: it may have all that nobody saw.
            error = answer.unsampled(pid) / tolerance.HALF_95
        place = f"thread {tid}" if tid else function or "in all"
        failures += compare(f"{answer.json['kind']} {place}", value, truth, expected.within,
                            error=error, precision=expected.precision,
                            events=evaluate(expected.events, inner))
    return failures


def check_text(what, expected, code, out, err, address):
    """Exit code, and whole texts, in which {address} stands for profd's."""
    if code != expected.exit:
        return [Failure(f"{what} ended with {code}, not {expected.exit}: {err.strip()}")]
    failures = []
    for name, said, wanted in (("stdout", out, expected.stdout), ("stderr", err, expected.stderr)):
        said = said.replace(address, "{address}").strip()
        if wanted is not None and said != wanted.strip():
            failures.append(Failure(f"{name} of {what}:\n{said}\nshould be:\n{wanted.strip()}"))
    return failures


def check_value(expected, names):
    try:
        holds = evaluate(expected.that, names)
    except Exception as error:  # pylint: disable=broad-except
        return [Failure(f"{expected.that}: {error}")]
    if not holds:
        return [Failure(not_so(expected.that, names),
                        statistical=expected.false_alarm > 0)]
    return [Failure(f"looks at nothing: {loops}")
            for loops in looks_at_nothing(expected.that, lambda expression: evaluate(expression, names))]


def not_so(expression, names):
    """The message for an expression that does not hold. If it has several lines, what its sides were comes first: reports are cut."""
    found = operands(expression, names)
    if "\n" in expression:
        return "; ".join([*found, f"not so: {expression}"])
    return "; ".join([f"not so: {expression}", *found])


def operands(expression, names):
    """What the sides of the comparisons in it were, for its message."""
    def value(text):
        try:
            return evaluate(text, names)
        except Exception:  # pylint: disable=broad-except
            return None  # it has a name of a comprehension
    tree = ast.parse(expression, mode="eval")
    said = [f"{shortened(side)} is {found!r:.300}" for side in sides(tree)
            for found in [value(side)] if found is not None]
    # Of `all(... for ...)` also the elements that do not hold, three at most.
    for part in ast.walk(tree):
        if isinstance(part, ast.GeneratorExp) and isinstance(part.elt, (ast.Compare, ast.BoolOp)):
            wrong = copy.deepcopy(part)
            wrong.generators[-1].ifs.append(ast.UnaryOp(ast.Not(), part.elt))
            for side in sides(part.elt):
                wrong.elt = ast.parse(side, mode="eval").body
                found = value(ast.unparse(ast.ListComp(wrong.elt, wrong.generators)))
                if found:
                    said.append(f"where not, {shortened(side)} is {found[:3]!r:.300}")
    return said


def shortened(text):
    return text if len(text) <= 120 else f"{text[:120]}…"


def sides(tree):
    """The sides of the comparisons in a syntax tree, as text, without constants, each once."""
    return dict.fromkeys(ast.unparse(side) for part in ast.walk(tree) if isinstance(part, ast.Compare)
                         for side in (part.left, *part.comparators) if not isinstance(side, ast.Constant))
