"""Runs scenarios in one setting: daemons, targets, queries, verdicts."""

import collections
import concurrent.futures
import json
import os
import re
import signal
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path

from . import checks, tolerance
from .answer import Answer, readable
from . import scenario as scenarios
from . import settings
from .daemon import SLOWNESS, Daemon, eventually, instant
from .process import Gone, run
from .tolerance import Failure

ATTACH_SECONDS = 60
READY_SECONDS = 60 * SLOWNESS
WORD_SECONDS = 180 * SLOWNESS
END_SECONDS = 60 * SLOWNESS
COMMAND_SECONDS = 180 * SLOWNESS
COMM_LENGTH = 15
# A scenario in which only estimates failed is judged by the majority of three runs (tolerance.py).
STATISTICAL_RUNS = 3


@dataclass
class Result:
    scenario: str
    setting: str
    outcome: str              # passed, failed, known (to fail) or skipped
    seconds: float = 0
    failures: list = field(default_factory=list)
    skipped_for: str = ""     # the fact that is missing
    known: str = ""           # the issue that is to end this failure
    repeated: int = 0         # further runs, after one in which estimates failed
    losses: dict = field(default_factory=dict)
    kernel: str = ""
    # Of its answers about time: threads, ticks, switches, and the weight of stacks by their end.
    observed: dict = field(default_factory=dict)

    def line(self):
        mark = {"passed": "ok  ", "failed": "FAIL", "skipped": "skip", "known": "know"}[self.outcome]
        note = f" (needs {self.skipped_for})" if self.skipped_for else ""
        note += f" (fails until: {self.known})" if self.known else ""
        note += f" (estimates: {self.repeated + 1} runs)" if self.repeated else ""
        text = f"{mark} {self.scenario} [{self.setting}] {self.seconds:.1f} s{note}"
        return "\n".join([text, *(f"       {failure}" for failure in self.failures)])


class Running:
    """A target that runs, and what it said so far."""

    def __init__(self, spec, process, lines=()):
        self.spec, self.process = spec, process
        self.pid = 0
        self.reports = []
        self.words = {}
        self.done = False
        self.attached_ns = 0
        self.ended_ns = None  # it ended between these two instants
        self._lines = iter(lines)
        self._stood = collections.Counter()

    def await_ready(self):
        line = self.process.line_with("ready", READY_SECONDS)
        self.pid = int(line.split()[1])

    def go(self):
        """Lets it go on."""
        self.process.write(next(self._lines, "go") + "\n")

    def stand(self):
        """The word at which it stands next, WORD-2 where it said that before, report-1 for its first
        report."""
        line = self.process.line(WORD_SECONDS)
        if line.startswith("{"):
            self.reports.append(json.loads(line))
            self.done = not self.spec.until and len(self.reports) >= self.spec.reports
            return f"report-{len(self.reports)}"
        # A word may have a number or an object with it.
        match = re.match(r"(.*?)(?:\s+(\d+|{.*}))?$", line)
        word = match[1]
        self.words[word] = json.loads(match[2]) if match[2] else 0
        self._stood[word] += 1
        if self._stood[word] > 1:
            word = f"{word}-{self._stood[word]}"
        self.done = self.spec.until == word
        return word

    def request(self):
        """What it did so far."""
        self.process.write("report\n")
        self.reports = [json.loads(self.process.line_with("{", WORD_SECONDS))]
        return self.reports[0]

    def report(self):
        """All threads that measured themselves; the last report's other fields. Without a report there are no
        `threads`: what compares them with an answer would hold of none."""
        if not self.reports:
            return {"pid": self.pid}
        return {**self.reports[-1], "ended_ns": self.ended_ns,
                "threads": [thread for report in self.reports for thread in report.get("threads", [])]}

    def pids(self):
        """Its own, and those of its children that reported."""
        return sorted({self.pid, *(report.get("pid", self.pid) for report in self.reports)})

    def end(self):
        """Closes its input or kills it. Its exit code."""
        before = time.time_ns()
        if self.spec.kill:
            self.process.signal(signal.SIGKILL)
        code = self.process.end(END_SECONDS)
        self.ended_ns = [before, time.time_ns()]
        return code


def output_options(query):
    to_stdout = ["-o", "-"] if query.command.split()[0] in ("fetch", "symbolize") else []
    return ["--format", query.format, *to_stdout]


class Execution:
    """One run of one scenario against a daemon."""

    def __init__(self, scenario, setting, place, daemon):
        self.scenario, self.setting, self.place, self.daemon = scenario, setting, place, daemon
        self.targets = []
        self.failures = []
        self.ends = {}     # query name: end of its window, ns
        self.told = {}     # query name: its answer
        self.grown = {}    # pid: what it did in the query's window
        self.cases = {}    # expectation: {place: [(value, truth, error)]}, of the repeats
        self.losses = {}
        self.observed = {}
        self.heard = set()  # words at which a query may be asked
        self.began_ns = self.window_ns = time.time_ns()

    def start_targets(self, late):
        for spec in self.scenario.target:
            if spec.late == late:
                target = Running(spec, self.place.target(spec.run, spec.environment),
                                 [self.place.word(line) for line in spec.say])
                self.targets.append(target)
                target.await_ready()
                for _ in range(spec.before):
                    target.go()
                    target.stand()
                while spec.early and not target.done:
                    target.go()
                    target.stand()

    def close(self):
        for target in self.targets:
            if target.process.running():
                target.process.kill()

    # What must stand before a target may begin: its threads are marked, rules and probes are there.
    def attach(self, target):
        watch = target.spec.watch or self.scenario.watch
        if watch == "none":
            target.attached_ns = time.time_ns()
            return
        begin = [time.time_ns()]

        def seen():
            asked = time.time_ns()
            code, out, _ = self.daemon.profctl("fetch", "--target", str(target.pid), "--from",
                                               instant(begin[0]), "--format", "json", "-o", "-")
            if code != 0:
                return False
            answer = Answer(readable(json.loads(out)))
            begin[0] = asked
            for thread in answer.threads:
                if thread["tid"] != target.pid:
                    continue
                if "tick" in self.setting.off or any(sample.stack and sample.stack.complete for sample in
                                                     answer.samples_of(thread)):
                    target.attached_ns = answer.end_ns
                    return True
            return False

        if not eventually(ATTACH_SECONDS, seen):
            raise Gone(f"{target.spec.name} ({target.pid}) was not attached in {ATTACH_SECONDS} s; profd "
                       f"said:\n{self.daemon.process.said()}")
        if watch == "waits" or watch in self.setting.off:
            return
        probed = {"heap": self.heap_watched, "bursts": self.bursts_watched,
                  "mappings": self.mappings_watched}[watch]
        if not eventually(ATTACH_SECONDS, lambda: probed(self.daemon.status(), target.pid)):
            raise Gone(f"{watch} of {target.spec.name} ({target.pid}) was not watched in "
                       f"{ATTACH_SECONDS} s: {json.dumps(self.daemon.status())}")

    @staticmethod
    def heap_watched(status, pid):
        return any(allocator["watched"] and pid in allocator["pids"] for allocator in status["allocators"]
                   if allocator["allocator"] != "glibc")

    @staticmethod
    def bursts_watched(status, pid):
        return any(allocator["watched"] and pid in allocator["pids"] for allocator in status["allocators"]
                   if allocator["allocator"] == "glibc")

    @staticmethod
    def mappings_watched(status, pid):
        # Its note counts the processes that profd knows: this one is known once its libc was found.
        libcs = [allocator for allocator in status["allocators"] if allocator["allocator"] == "glibc"]
        return (not libcs or any(pid in libc["pids"] for libc in libcs)) and any(
            layer["name"] == "mappings" and layer["on"] and not layer["note"] for layer in status["layers"])

    def run(self):
        for target in self.targets:
            if target.spec.watched:
                self.attach(target)
        asked = self.ask_all("attached", set())
        going = [target for target in self.targets
                 if not (target.spec.quiet or target.spec.on_request or target.done)]
        while going:
            # All go on at once; what one says is asked about when it is its turn to be heard.
            for target in going:
                target.go()
            for target in going:
                asked |= self.ask_all(target.stand(), asked)
            going = [target for target in going if not target.done]
        asked |= self.ask_all("end", asked)
        for target in self.targets:
            code = target.end()
            if code != target.spec.exit:
                self.fail(f"{target.spec.name} ended with {code}\n{target.process.said()}")
        asked |= self.ask_all("exited", asked)
        for i, query in enumerate(self.scenario.query):
            if i not in asked:
                self.fail(f"query[{i}] was not asked: no target said '{query.at}'; they said "
                          f"{', '.join(sorted(self.heard)) or 'no word'}")

    def ask_all(self, at, asked):
        """Asks those queries whose time has come."""
        new = set()
        self.heard.add(at)
        for i, query in enumerate(self.scenario.query):
            if query.at == at and i not in asked:
                new.add(i)
                self.ask(query)
        return new

    def fail(self, text):
        self.failures.append(Failure(text))

    def arguments(self, query):
        return [self.place.word(word) for word in self.words(query)]

    def words(self, query):
        words = query.command.split()
        if words[0] not in ("fetch", "bottlenecks", "locks", "memory", "stacks", "threads", "why", "worst"):
            return words + query.options
        for target in self.targets:
            if query.target in ("*", target.spec.name):
                for pid in target.pids():
                    words += ["--target", str(pid)]
        if words[0] == "stacks":  # of now: there is no window
            return words + query.options
        if words[0] == "fetch":
            words += ["--kind", query.kind]
        if not any(option in query.options for option in ("--since", "--from")):
            # A window of time begins when everything was attached; bytes count from the start.
            since = {"attached": max((target.attached_ns for target in self.targets),
                                     default=self.began_ns),
                     "start": self.began_ns}
            since_ns = self.window_ns if query.window else (since.get(query.since) or
                                                           self.ends[query.since])
            words += ["--from", instant(since_ns)]
            if query.until != "now":
                words += ["--to", instant(self.ends[query.until])]
        return words + query.options

    def ask(self, query):
        if query.signal:
            self.daemon.process.signal(signal.Signals[query.signal])
        if query.after:
            time.sleep(query.after)  # the length of the experiment
        self.cases = {}
        failures = []

        def holds():
            failures[:] = self.verdict(query)
            return not failures

        for _ in range(query.repeat):
            if query.window:
                self.windowed(query)
            eventually(query.eventually, holds, query.every)
            self.failures += failures
        for i, cases in self.cases.items():
            self.failures += tolerance.calibrated(query.kind, cases, query.bytes[i].precision)

    def windowed(self, query):
        """Lets a window go by. Its begin is that of the next answer; targets report at both ends."""
        requested = [target for target in self.targets if target.spec.on_request]
        words = [word for target in self.targets for word in ("--target", str(target.pid))]
        # What is asked for is drained, and a window can begin where a drain ended.
        self.window_ns = self.daemon.fetch("--since", "1s", *words).end_ns
        before = [target.request() for target in requested]
        deadline = time.monotonic() + WORD_SECONDS
        while True:
            time.sleep(query.window)
            for target, first in zip(requested, before):
                last = target.request()
                self.grown[target.pid] = {key: last[key] - first[key] for key in last}
            if not query.enough or "bursts" in self.setting.off or time.monotonic() > deadline:
                return
            told = self.daemon.json(*self.arguments(query), "-o", "-")
            if checks.evaluate(query.enough, {"answer": checks.wrap(told)}):
                return

    def verdict(self, query):
        arguments = self.arguments(query)
        as_text = query.stdout is not None or query.exit != 0
        if not as_text:
            arguments += output_options(query)
        code, out, err = self.daemon.profctl(*arguments)
        failures = checks.check_text(f"profctl {' '.join(arguments)}", query, code, out, err,
                                     self.daemon.address)
        if code != query.exit or as_text:
            return failures
        if query.format != "json":
            return failures + self.expectations(query, {"lines": out.splitlines()}, None)
        said = readable(json.loads(out))
        if query.name:
            self.told[query.name] = said
            Path(self.place.word(f"{{folder}}/{query.name}.json")).write_text(out)
        answer = Answer(said) if arguments[0] in ("fetch", "symbolize") else None
        if answer is not None:
            if query.name:
                self.ends[query.name] = answer.end_ns
            self.losses.update(answer.losses)
            self.observed.update(observe(answer))
            failures += checks.lost(answer, self.scenario)
            failures += checks.invariants(answer) + checks.invariants_of_bytes(answer)
        return failures + self.expectations(query, said, answer)

    def expectations(self, query, told, answer):
        off = self.setting.off
        sources = sorted(self.scenario.kind_sources(query)) if query.command == "fetch" else [""]
        source = next((source for source in sources if source in off), sources[0])
        failures = []
        if answer is not None and source in off:
            failures += checks.silent(answer, source)
        for expected in query.thread:
            for target in self.of(expected):
                failures += checks.check_threads(expected, target.report(), answer, self.setting)
        for expected in query.bytes:
            if source in off:
                continue
            for target in self.of(expected):
                pid = target.pid if len(self.targets) > 1 else None
                failures += checks.check_bytes(expected, self.names(target, told), answer, pid,
                                               self.cases.setdefault(query.bytes.index(expected), {}))
        for expected in query.value:
            if not off & set(expected.needs):
                for target in self.of(expected) or [None]:
                    failures += checks.check_value(expected, self.names(target, told))
        return failures

    def of(self, expected):
        """The targets that an expectation is about: those of its name, or the first."""
        if not expected.target:
            return self.targets[:1]
        return [target for target in self.targets if target.spec.name == expected.target]

    def names(self, target, told):
        names = {"answer": checks.wrap(told), "pids": [pid for each in self.targets for pid in each.pids()],
                 "disabled": self.setting.off, "emulated": self.setting.inside in settings.GUESTS, "told": checks.wrap(self.told)}
        if target is not None:
            report = target.report()
            names |= {key: checks.wrap(value) for key, value in report.items()}
            names |= {"said": checks.wrap(target.words), "pid": target.pid,
                      "reports": checks.wrap(target.reports)}
            if target.pid in self.grown:
                names["grown"] = checks.wrap(self.scaled(target, told))
        return names


    def scaled(self, target, told):
        """`grown` at a steady rate, for the very window of the answer."""
        grown, header = self.grown[target.pid], told["header"]
        scale = (header["end_ns"] - header["begin_ns"]) / grown["now_ns"]
        return {key: value * scale for key, value in grown.items()}


def joined(first, second):
    """Options with a value each, of which profd takes one of a name: those of `second` win, and what
    either disables is."""
    values = dict(zip(first[::2], first[1::2]))
    for name, value in zip(second[::2], second[1::2]):
        if name == "--disable" and values.get(name, value) != value:
            value = f"{values[name]},{value}"
        values[name] = value
    return [word for pair in values.items() for word in pair]


def observe(answer):
    """What docs/kernels.md tells of an answer about time."""
    if answer.unit != "ns":
        return {}
    trailer = answer.json["trailer"]
    return {"threads": len(answer.threads), "ticks": trailer["ticks"],
            "ticks_missed": trailer["ticks_missed"], "switches": trailer["cost"]["switches"],
            "weights_ns": answer.walked()}


def target_names(scenarios):
    """What --target must match so that a shared daemon finds all their targets."""
    names = sorted({Path(target.run[0]).name[:COMM_LENGTH] for scenario in scenarios
                    for target in scenario.target})
    return [f"^{re.escape(name)}$" for name in names]


class Runner:
    """Runs scenarios in one setting and one place."""

    def __init__(self, setting, place, facts, jobs, show, kernel, keep=None, known=None):
        self.setting, self.place, self.facts = setting, place, facts
        self.jobs, self.show, self.kernel, self.keep = jobs, show, kernel, keep
        self.known = known if known is not None else scenarios.load_known()

    def run(self, scenarios):
        results, shared, alone, busy = [], [], [], []
        for scenario in scenarios:
            missing = next((fact for fact in scenario.facts if not self.facts.get(fact)), None)
            if missing:
                results.append(self.told(Result(scenario.name, self.setting.name, "skipped",
                                                skipped_for=missing)))
            elif scenario.busy and self.setting.inside in settings.GUESTS:
                busy.append(scenario)
            else:
                (alone if self.is_alone(scenario) else shared).append(scenario)
        results += self.share(shared)
        # One after another where each needs the machine's targets to itself.
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            results += pool.map(lambda scenario: self.told(self.judge(scenario, self.run_alone)), alone)
        # An emulated machine has no room for anything beside them.
        return results + [self.told(self.judge(scenario, self.run_alone)) for scenario in busy]

    def is_alone(self, scenario):
        options = self.setting.options
        return (scenario.alone or scenario.unshed and not settings.unbudgeted(self.setting)
                or joined(options, scenario.options) != list(options) or not scenario.query
                or any(query.signal for query in scenario.query)
                or any(target.early or target.before or not target.watched
                       for target in scenario.target))

    def told(self, result):
        result.kernel = self.kernel
        self.show(result)
        return result

    def share(self, scenarios):
        """They share one daemon, as the processes of a machine do; it finds each by its name."""
        if not scenarios:
            return []
        try:
            daemon = Daemon(self.place, self.setting.options, target_names(scenarios))
        except Gone as error:
            return [self.told(Result(scenario.name, self.setting.name, "failed", failures=[str(error)]))
                    for scenario in scenarios]
        try:
            def run(scenario):
                return self.told(self.judge(scenario, lambda each: self.execute(each, daemon)))

            with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
                results = list(pool.map(run, scenarios))
            wrong = daemon.stop()
            if wrong:
                results.append(self.told(Result("shared daemon", self.setting.name, "failed",
                                                failures=[wrong])))
            return results
        finally:
            daemon.kill()

    def judge(self, scenario, run):
        """The verdict on a scenario: one run, or the majority of three where estimates failed."""
        began = time.monotonic()
        runs = []
        while True:
            try:
                failures, losses, observed = run(scenario)
            except Gone as error:
                failures, losses, observed = [Failure(str(error))], {}, {}
            except Exception:  # pylint: disable=broad-except
                failures, losses, observed = [Failure(traceback.format_exc())], {}, {}
            runs.append(failures)
            # Nothing but a failed estimate is tried again.
            if any(not failure.statistical for failure in failures):
                break
            failed = sum(bool(each) for each in runs)
            passed = len(runs) - failed
            most = STATISTICAL_RUNS // 2 + 1
            if len(runs) == 1 and not failed or failed >= most or passed >= most:
                break
        failed = sum(bool(each) for each in runs)
        hard = any(not failure.statistical for failure in runs[-1])
        wrong = hard or failed > STATISTICAL_RUNS // 2
        texts = [failure.text for failure in runs[-1]] if wrong else []
        issue = self.known.get((scenario.name, self.setting.name), "")
        outcome = ("known" if issue else "failed") if wrong else "passed"
        if issue and not wrong:
            outcome = "failed"
            texts = ["it passed: remove it from tests/scenarios/known_failures.toml"]
        return Result(scenario.name, self.setting.name, outcome, time.monotonic() - began, texts,
                      repeated=len(runs) - 1, losses=losses, known=issue, observed=observed)

    def execute(self, scenario, daemon):
        execution = Execution(scenario, self.setting, self.place, daemon)
        try:
            execution.start_targets(late=False)
            execution.start_targets(late=True)
            execution.run()
            return self.finished(execution)
        finally:
            execution.close()

    def run_commands(self, scenario):
        failures = []
        for command in scenario.command:
            address, words = self.place.new_address(), command.run
            argv = (self.place.daemon_argv if words[0] == "profd" else self.place.profctl_argv)(
                address, [word.replace("{address}", address) for word in words[1:]])
            code, out, err = run(argv, COMMAND_SECONDS)
            failures += checks.check_text(" ".join(words), command, code, out, err, address)
        return failures

    def run_alone(self, scenario):
        if not scenario.query:
            return self.run_commands(scenario), {}, {}
        execution = Execution(scenario, self.setting, self.place, None)
        try:
            execution.start_targets(late=False)
            late = any(target.late for target in scenario.target)
            targets = target_names([scenario]) if late else [target.pid for target in execution.targets
                                                              if target.spec.watched]
            options = joined(self.setting.options, scenario.options)
            daemon = execution.daemon = Daemon(self.place, options, targets)
            try:
                execution.start_targets(late=True)
                execution.run()
                wrong = daemon.stop()
                if wrong:
                    execution.fail(wrong)
                return self.finished(execution)
            finally:
                daemon.kill()
        finally:
            execution.close()

    @staticmethod
    def finished(execution):
        for cause in execution.scenario.loses:
            if not execution.losses.get(cause):
                execution.fail(f"nothing was lost as {cause}")
        return execution.failures, execution.losses, execution.observed
