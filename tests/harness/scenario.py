"""Scenario files: what they may say, and the errors when they say something else.

docs/developing.md ("Scenarios") explains the keys for those who write one.
"""

import datetime
import re
import shlex
import tomllib
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path

from . import tolerance

FOLDER = Path(__file__).resolve().parent.parent / "scenarios"
KNOWN = FOLDER / "known_failures.toml"

# What `profd --disable` knows, and `tests/scenarios` may need.
SOURCES = ("books", "switch", "tick", "heap", "faults", "mappings", "bursts", "cpu", "disk", "wakers",
           "switch-stacks")
KIND_SOURCES = {"offcpu": {"tick"}, "alloc": {"heap"}, "free": {"heap"}, "inuse": {"heap"},
                "rss": {"faults"}, "mapped": {"mappings"}, "unmapped": {"mappings"},
                "returned": {"mappings"}, "cpu": {"cpu"}, "wall": {"tick", "cpu"},
                "disk": {"disk"}, "disk-queue": {"disk"}, "disk-bytes": {"disk"}, "fsync": {"disk"},
                "wakers": {"tick", "wakers"}, "locks": {"tick"},
                "runqueue": {"tick"}, "switches": {"switch", "switch-stacks"}}
# What profd tells apart of waits, as `profctl fetch --help` lists it.
REASONS = ("runqueue", "reclaim", "fault", "fsync", "lock", "disk", "poll", "net", "sleep", "pipe",
           "child", "signal", "other", "stopped", "traced", "frozen")
WATCHES = ("waits", "heap", "mappings", "bursts", "none")
TYPES = {str: "a text", int: "a whole number", float: "a number", bool: "true or false",
         list: "a list", dict: "a table", str | None: "a text", float | None: "a number",
         bool | None: "true or false"}

# Of an expectation that compares estimates. It fails if two runs of three do: once in 3,300 then.
MOST_FALSE_ALARMS = 0.01


class BadScenario(Exception):
    """A scenario file says what it may not; the text names the file and the key."""


@dataclass
class Target:
    run: list                # program of the build tree (or in PATH) and its arguments
    name: str = ""           # how expectations call it; by default the program's
    count: int = 1           # so many of them at once, named NAME-1, NAME-2 ...
    environment: dict = field(default_factory=dict)
    until: str = ""          # done at this word; by default at its report
    reports: int = 1         # done at the report of this number
    say: list = field(default_factory=list)  # lines it is sent, in turn; "go" when there are no more
    before: int = 0          # is sent so many of them before the daemon starts
    on_request: bool = False  # is sent none: says what it did so far for each line, see `window`
    quiet: bool = False      # is not told to go: it stays as it is from start to end
    early: bool = False      # runs to its report before the daemon starts
    watched: bool = True     # False: no --target is for it
    watch: str = ""          # instead of the scenario's
    late: bool = False       # starts after the daemon, although that has other targets
    kill: bool = False       # ends by SIGKILL, not because its input is closed
    exit: int = 0            # its exit code; -9 when it is killed


@dataclass
class Thread:
    """What a thread measured of itself, against the ledger and the stacks."""
    name: str
    target: str = ""
    count: int = 1           # so many threads of that name measured themselves
    life: bool = True        # it was born and ended in the window: wall and CPU time are its own
    exited: bool | None = None
    reason: str = ""         # of all waits that it measured
    more_waits: bool = False  # it waits for that reason outside of what it measured, too
    blocked: str = ""        # it has been blocked for this reason since its report
    waits: bool = True       # it measured them; without, `reason` says whose stacks are looked at
    only: bool = False       # it waits for nothing else
    unmeasured: bool = False  # it measures nothing of itself: found by its name, only stacks count
    estimated: bool = False  # its ledger may be an estimate although no budget sheds it
    stacks: list = field(default_factory=list)  # whole stacks that its waits may have
    through: str = ""        # instead of `stacks`: a function that each whole stack has
    ends: str = ""           # all end early: what the last frame says; `stacks` then say what comes before
    paths: dict = field(default_factory=dict)   # path number: stack; each path's time is an estimate
    precision: float = 0.25  # of those estimates
    settling: bool = False   # its first waits may end in "[unwind rules pending]"


@dataclass
class Bytes:
    """A sum of bytes (or, for a ledger's answer, ns) against the target's own account."""
    truth: str               # an expression over the target's report
    within: str
    target: str = ""
    each: str = ""           # an expression for a list: one comparison for each item, with `item`, `i`
    function: str = ""       # of samples with it in their stacks; "" = of all; OUTER/INNER: with both;
                             # may hold {i} and {item}
    key: str = "value"
    tid: str = ""            # an expression: of this thread alone
    precision: float | None = None
    events: str = "1"        # for `event`: the number of threads


@dataclass
class Value:
    """An expression over the answer that must be true."""
    that: str
    needs: list = field(default_factory=list)  # sources without which it says nothing
    target: str = ""
    false_alarm: float = 0   # it compares estimates: how often it fails although profd is right, at most


@dataclass
class Query:
    command: str = "fetch"
    name: str = ""           # other queries' `since` and expressions (told.NAME) know it by this
    kind: str = "offcpu"
    target: str = "*"        # of one target; * = of all of the scenario's; "" = without --target
    options: list = field(default_factory=list)
    at: str = "end"          # or attached, or the word a target says (the second time WORD-2), or
                             # report-1 for its first report, or exited: targets are gone
    signal: str = ""         # sent to profd before
    after: float = 0         # seconds later: the length of the experiment
    window: float = 0        # of so many seconds from now; `grown` is what targets did in it
    enough: str = ""         # an expression: the window goes on, as many seconds again, until it holds
    repeat: int = 1          # so many times, for `calibrated`
    since: str = "attached"  # or start, or the name of a query: from its end on
    until: str = "now"       # or the name of a query: to its end
    eventually: float = 0    # asked again until all holds, for so many seconds
    every: float = 0.3       # so many seconds after the answer: asking takes of profd's budget
    format: str = "json"     # of another one, expressions have the text's `answer.lines`
    exit: int = 0
    stdout: str | None = None  # whole text; without it the answer is JSON
    stderr: str | None = None
    thread: list = field(default_factory=list)
    bytes: list = field(default_factory=list)
    value: list = field(default_factory=list)


@dataclass
class Command:
    """profd or profctl run to its end, with no daemon for it. {address} is where nobody listens."""
    run: list
    exit: int = 0
    stdout: str | None = None
    stderr: str | None = None


@dataclass
class Scenario:
    name: str
    about: str
    target: list = field(default_factory=list)
    query: list = field(default_factory=list)
    command: list = field(default_factory=list)
    options: list = field(default_factory=list)   # of profd, on top of the setting's
    alone: bool = False      # a daemon of its own, without others' targets
    unshed: bool = False     # the same where there is a budget: it misses what others make a shared profd shed
    losses: list = field(default_factory=list)    # allowed, by name
    loses: list = field(default_factory=list)     # must occur, by name
    facts: list = field(default_factory=list)     # of the machine, without which it cannot run
    only: list = field(default_factory=list)      # settings that it is for; empty = all
    without: dict = field(default_factory=dict)   # setting: why it does not fit there
    long: bool = False       # runs in `tests/run --all` alone
    kernels: bool = False    # what it shows may differ between kernels: every guest runs it
    busy: bool = False       # its targets compute or switch a lot: where the CPU is emulated, nothing runs beside it
    seconds: float = 5       # about how long it takes, for the choice of a subset
    watch: str = "waits"     # what must be attached before targets begin: waits, heap, mappings, bursts or none

    def watch_of(self, name):
        """What must be attached of the target of that name, if it is one's."""
        return next((target.watch for target in self.target if target.name == name and target.watch), self.watch)

    def kind_sources(self, query):
        """The sources of what a query asks for: glibc's allocations are the bursts'."""
        found = KIND_SOURCES[query.kind]
        return {"bursts"} if found == {"heap"} and self.watch_of(query.target) == "bursts" else found

    def sources(self):
        """The sources that its expectations rest on."""
        found = set()
        for query in self.query:
            if query.command != "fetch" or query.exit != 0:
                continue
            for thread in query.thread:
                found |= {"books"}
                if thread.reason:
                    found |= {"switch"}
                if thread.stacks or thread.through or thread.ends or thread.paths:
                    found |= {"tick"}
            # That there is nothing would hold without the source, too.
            if any(item.truth != "0" for item in query.bytes):
                found |= self.kind_sources(query)
            for value in query.value:
                found |= set(value.needs)
        return found


LISTS = {"target": Target, "query": Query, "command": Command, "thread": Thread, "bytes": Bytes, "value": Value}


def _build(where, kind, table, extra=None):
    known = {item.name: item for item in fields(kind)}
    values = dict(extra or {})
    for key, value in table.items():
        if key not in known or (extra and key in extra):
            raise BadScenario(f"{where}: no key '{key}'; there are {', '.join(sorted(known))}")
        at = f"{where}: {key}" if kind is Scenario else f"{where}.{key}"
        blocks = known[key].type is list and key in LISTS
        if blocks and not (isinstance(value, list) and all(isinstance(item, dict) for item in value)):
            header = key if kind is Scenario else f"query.{key}"
            raise BadScenario(f"{at} is one block of several: write [[{header}]]")
        if blocks:
            value = [_build(f"{where}.{key}[{i}]", LISTS[key], item) for i, item in enumerate(value)]
        elif key == "run" and isinstance(value, str):
            value = shlex.split(value)
        _check_type(at, value, known[key].type)
        if key == "stacks":
            value = [_repeated(f"{at}[{i}]", stack) for i, stack in enumerate(value)]
        values[key] = value
    for item in known.values():
        if item.name not in values and item.default is MISSING and item.default_factory is MISSING:
            raise BadScenario(f"{where}: '{item.name}' is missing")
    return kind(**values)


def _check_type(at, value, kind):
    allowed = int | float if kind is float else int | float | None if kind == float | None else kind
    # Python counts a bool among the numbers.
    if not isinstance(value, allowed) or (isinstance(value, bool) and kind in (int, float, float | None)):
        raise BadScenario(f"{at} is {value!r:.60}, which is not {TYPES[kind]}")


def _repeated(at, stack):
    """A function may stand for many frames of it: "deep::Descend x120"."""
    if not isinstance(stack, list) or not all(isinstance(function, str) for function in stack):
        raise BadScenario(f"{at} is {stack!r:.60}, which is not a list of functions; `stacks` is a list of "
                          f"stacks: [[\"leaf\", \"caller\"]]")
    whole = []
    for function in stack:
        many = re.fullmatch(r"(.+) x(\d+)", function)
        whole += [many[1]] * int(many[2]) if many else [function]
    return whole


def _check(where, scenario):
    names = [target.name for target in scenario.target]
    if len(set(names)) != len(names):
        raise BadScenario(f"{where}: two targets have the same name; set 'name'")
    for watch in (scenario.watch, *(target.watch for target in scenario.target if target.watch)):
        if watch not in WATCHES:
            raise BadScenario(f"{where}: watch: '{watch}' is none of {', '.join(WATCHES)}")
    queries = {query.name for query in scenario.query}
    for i, query in enumerate(scenario.query):
        at = f"{where}.query[{i}]"
        if query.command == "fetch" and query.kind not in KIND_SOURCES:
            raise BadScenario(f"{at}.kind: '{query.kind}' is none of {', '.join(KIND_SOURCES)}")
        for key in ("since", "until"):
            if getattr(query, key) not in queries | {"attached", "start", "now"}:
                raise BadScenario(f"{at}.{key}: no query is named '{getattr(query, key)}'")
        if query.target not in {"*", "", *names}:
            raise BadScenario(f"{at}: no target is named '{query.target}'; there are "
                              f"{', '.join(names) or 'none'}")
        for item in query.bytes:
            if item.within not in tolerance.NAMES:
                raise BadScenario(f"{at}.bytes.within: '{item.within}' is none of "
                                  f"{', '.join(tolerance.NAMES)}")
            if item.within in ("estimate", "calibrated") and item.precision is None:
                raise BadScenario(f"{at}.bytes: an estimate needs 'precision', the largest share of "
                                  f"the truth that its stated error may be")
        for value in query.value:
            if not 0 <= value.false_alarm <= MOST_FALSE_ALARMS:
                raise BadScenario(f"{at}.value.false_alarm: {value.false_alarm} is not a share of runs of at most "
                                  f"{MOST_FALSE_ALARMS}")
        for item in query.thread + query.bytes + query.value:
            if item.target and item.target not in names:
                raise BadScenario(f"{at}: no target is named '{item.target}'; there are "
                                  f"{', '.join(names) or 'none'}")
        for thread in query.thread:
            for key in ("reason", "blocked"):
                if getattr(thread, key) not in {"", *REASONS}:
                    raise BadScenario(f"{at}.thread: {key} '{getattr(thread, key)}' of '{thread.name}' is none "
                                      f"of {', '.join(REASONS)}")
            if thread.unmeasured and not (thread.stacks or thread.through or thread.ends):
                raise BadScenario(f"{at}.thread: of '{thread.name}' nothing is expected")
        if query.exit == 0 and query.stdout is None and not (query.thread or query.bytes or query.value):
            raise BadScenario(f"{at}: it expects nothing")
        if (query.exit != 0 or query.stdout is not None) and (query.thread or query.bytes or query.value):
            raise BadScenario(f"{at}: with 'exit' or 'stdout' the answer is text; thread, bytes and value "
                              f"belong in a query of their own")
    if not scenario.query and not scenario.command:
        raise BadScenario(f"{where}: it asks nothing")
    for i, command in enumerate(scenario.command):
        if command.run[0] not in ("profd", "profctl"):
            raise BadScenario(f"{where}.command[{i}].run: it is neither of profd nor of profctl")
        if command.stdout is None and command.stderr is None:
            raise BadScenario(f"{where}.command[{i}]: it expects no text")
    for source in {need for query in scenario.query for value in query.value for need in value.needs}:
        if source not in SOURCES:
            raise BadScenario(f"{where}: needs '{source}', which is none of {', '.join(SOURCES)}")


def load(path):
    """One scenario file. Raises BadScenario."""
    where = path.name
    try:
        table = tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadScenario(f"{where}: {error}") from None
    scenario = _build(where, Scenario, table, {"name": path.stem})
    targets = []
    for target in scenario.target:
        base = target.name or Path(target.run[0]).name
        for i in range(target.count):
            copy = Target(**{item.name: getattr(target, item.name) for item in fields(Target)})
            copy.name = base if target.count == 1 else f"{base}-{i + 1}"
            targets.append(copy)
    scenario.target = targets
    _check(where, scenario)
    return scenario


def load_known(path=KNOWN):
    """Failures of the product that are known: {(scenario, setting): the issue that ends them}."""
    if not path.exists():
        return {}
    known = {}
    for i, entry in enumerate(tomllib.loads(path.read_text()).get("known", [])):
        where = f"{path.name}: known[{i}]"
        missing = {"scenario", "settings", "since", "reason", "issue"} ^ set(entry)
        if missing:
            raise BadScenario(f"{where}: {', '.join(sorted(missing))} should be there, or should not")
        if not isinstance(entry["since"], datetime.date):
            raise BadScenario(f"{where}.since is no date")
        if not (path.parent / f"{entry['scenario']}.toml").exists():
            raise BadScenario(f"{where}: no scenario '{entry['scenario']}'")
        known |= {(entry["scenario"], setting): entry["issue"] for setting in entry["settings"]}
    return known


def load_all(names=None, folder=FOLDER):
    """All scenarios, or those with these names, by name."""
    paths = sorted(path for path in folder.glob("*.toml") if path.name != KNOWN.name)
    if names:
        missing = set(names) - {path.stem for path in paths}
        if missing:
            raise BadScenario(f"no scenario '{sorted(missing)[0]}' in {folder}")
        paths = [path for path in paths if path.stem in names]
    return [load(path) for path in paths]
