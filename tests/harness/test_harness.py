"""Of the scenario runner itself: what it refuses, what it plans, and that its checks can fail."""

import copy
import re
import sys
import tempfile
import unittest
from dataclasses import fields
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

# pylint: disable=wrong-import-position
from tests.harness import checks, scenario, settings, tolerance
from tests.harness.answer import Answer
from tests.harness.process import Gone, Process
from tests.harness.runner import Execution, Runner
from tests.harness.tolerance import Failure

MS = 1_000_000
DEFAULTS = settings.BY_NAME["defaults"]

FRAMES = [
    {"function": "hrtimer_nanosleep", "module": "[kernel]", "kind": "kernel"},
    {"function": "clock_nanosleep", "module": "libc.so.6", "kind": "libc"},
    {"function": "waiter::Sleep(int)", "module": "waiter", "kind": "application"},
    {"function": "naps::Thread", "module": "waiter", "kind": "application"},
    {"function": "start_thread", "module": "libc.so.6", "kind": "libc"},
    {"function": "[torn walk]", "module": "", "kind": "synthetic"},
]
STACK = ["clock_nanosleep", "waiter::Sleep", "naps::Thread"]
NOTHING_MEASURED = {"measured": 0, "p50_ns": 0, "p99_ns": 0, "max_ns": 0, "durations": []}


def answer_json():
    """A thread that slept ten times 100 ms and ran for 10 ms."""
    return {
        "kind": "offcpu", "unit": "ns",
        "header": {"begin_ns": 0, "end_ns": 2_000 * MS, "layers": {"tick_ns": 1, "switch_ns": 1, "books_ns": 1}},
        "threads": [{"pid": 7, "tid": 8, "name": "napper", "exited": True, "wall_ns": 1_010 * MS, "on_cpu_ns": 10 * MS,
                     "estimated_ns": 0,
                     "off": [{"reason": "sleep", "time_ns": 999 * MS, "waits": 10, "measured": 10, "p50_ns": 90 * MS,
                              "p99_ns": 101 * MS, "max_ns": 101 * MS, "durations": [1, 0, 9]},
                             {"reason": "runqueue", "time_ns": 1 * MS, "waits": 10} | NOTHING_MEASURED]}],
        "frames": FRAMES,
        "stacks": [{"frames": [0, 1, 2, 3, 4], "complete": True}, {"frames": [0, 5], "complete": False}],
        "samples": [{"thread": 0, "reason": "sleep", "stack": 0, "time_ns": 990 * MS, "error_ns": 9 * MS,
                     "weight_ns": 990 * MS, "ticks": 99},
                    {"thread": 0, "reason": "sleep", "stack": 1, "time_ns": 9 * MS, "error_ns": 9 * MS,
                     "weight_ns": 9 * MS, "ticks": 1}],
        "trailer": {"losses": [], "tick_interval_ns": 10 * MS},
    }


def report():
    return {"pid": 7, "wall_offset_ns": 0, "threads": [
        {"name": "napper", "tid": 8, "begin_ns": 0, "end_ns": 1_010 * MS, "cpu_ns": 10 * MS, "wait_wall_ns": 1_000 * MS,
         "wait_cpu_ns": 0, "sleeps": 10, "all_sleeps": 12, "waits": [[i * 101 * MS, i * 101 * MS + 100 * MS, 0] for i in range(10)]}]}


class Checks(unittest.TestCase):
    """Each starts from an answer that is right, and breaks one thing."""

    def setUp(self):
        self.json, self.report, self.setting = answer_json(), report(), DEFAULTS
        self.expected = scenario.Thread(name="napper", reason="sleep", stacks=[STACK])

    def failures(self):
        answer = Answer(copy.deepcopy(self.json))
        return ([each.text for each in checks.invariants(answer)]
                + [each.text for each in checks.check_threads(self.expected, self.report, answer, self.setting)])

    def assert_fails(self, text):
        found = self.failures()
        self.assertTrue(any(text in failure for failure in found), f"'{text}' is not among {found}")

    def test_what_is_right_passes(self):
        self.assertEqual(self.failures(), [])

    def test_an_account_that_does_not_close(self):
        self.json["threads"][0]["wall_ns"] += 20 * MS
        self.assert_fails("on-CPU and off-CPU are")

    def test_a_histogram_that_lacks_a_wait(self):
        self.json["threads"][0]["off"][0]["durations"] = [1, 0, 8]
        self.assert_fails("are not 10 waits")

    def test_quantiles_in_no_order(self):
        self.json["threads"][0]["off"][0]["p50_ns"] = 200 * MS
        self.assert_fails("p50, p99 and max of 10 are")

    def test_stacks_that_do_not_add_up_to_the_ledger(self):
        self.json["samples"][0]["time_ns"] -= 50 * MS
        self.assert_fails("the stacks of sleep have")

    def test_a_wait_under_another_reason(self):
        self.json["threads"][0]["off"][0]["reason"] = "poll"
        for sample in self.json["samples"]:
            sample["reason"] = "poll"
        self.assert_fails("sleep by its own clock")
        self.assert_fails("no stacks of sleep")

    def test_waits_that_no_tick_need_have_met(self):
        for sample in self.json["samples"]:
            sample["stack"] = None
        self.assert_fails("no stacks of sleep")
        # A second of sleep: seven ticks meet it once in 1,000 runs not at all.
        self.json["trailer"]["tick_interval_ns"] = 140 * MS
        self.assert_fails("no stacks of sleep")
        self.json["trailer"]["tick_interval_ns"] = 150 * MS
        self.assertFalse(any("no stacks" in failure for failure in self.failures()))

    def test_a_stack_that_misses_a_frame(self):
        del self.json["stacks"][0]["frames"][2]
        self.assert_fails("a stack that is not expected")

    def test_a_stack_without_the_kernel(self):
        del self.json["stacks"][0]["frames"][0]
        self.assert_fails("a stack that is not expected")

    def test_a_stack_that_is_not_complete(self):
        self.json["stacks"][0]["complete"] = False
        self.assert_fails("a stack that is not expected")

    def test_too_many_walks_that_raced(self):
        self.json["samples"][1]["ticks"] = 900
        self.assert_fails("of its 999 walks raced")

    def test_three_walks_that_raced_are_chance(self):
        self.json["samples"][0]["ticks"], self.json["samples"][1]["ticks"] = 0, 3
        self.assertFalse(any("raced" in failure for failure in self.failures()))

    def test_calls_that_sleep_several_times(self):
        self.report["threads"][0] |= {"sleeps": 50, "all_sleeps": 52}
        self.assert_fails("10 waits for sleep of 10, it slept 50 times in 10 calls")
        self.json["threads"][0]["off"][0]["waits"] = 50
        self.assertEqual(self.failures(), [])

    def test_more_waits_than_sleeps(self):
        self.json["threads"][0]["off"][0]["waits"] = 14
        self.assertEqual(self.failures(), [])
        self.json["threads"][0]["off"][0]["waits"] = 15
        self.assert_fails("15 waits for sleep of 15, it slept 10 times in 10 calls and 12 times in all")

    def test_sleeps_for_something_else_meanwhile(self):
        self.json["threads"][0]["off"][0]["waits"] = 9
        self.assert_fails("9 waits for sleep")
        self.json["threads"][0]["off"].append({"reason": "other", "time_ns": 0, "waits": 1} | NOTHING_MEASURED)
        self.assertEqual(self.failures(), [])

    def test_another_reason_where_there_is_but_one(self):
        self.expected.only = True
        self.assertEqual(self.failures(), [])
        self.json["threads"][0]["off"][0]["time_ns"] -= 50 * MS
        self.json["samples"][0]["time_ns"] -= 50 * MS
        self.json["threads"][0]["off"].append({"reason": "lock", "time_ns": 50 * MS, "waits": 1} | NOTHING_MEASURED)
        self.assert_fails("off-CPU for another reason than sleep")

    def test_another_reason_for_no_longer_than_it_was_off_between_its_waits(self):
        self.expected.only = True
        own, ledger = self.report["threads"][0], self.json["threads"][0]
        own["end_ns"] += 50 * MS
        ledger["wall_ns"] += 50 * MS
        ledger["off"].append({"reason": "other", "time_ns": 50 * MS, "waits": 1} | NOTHING_MEASURED)
        self.assertFalse(any("another reason" in failure for failure in self.failures()))
        own["cpu_ns"] += 20 * MS
        self.assert_fails("off-CPU for another reason than sleep: other: 50.00 ms, should be 0.00 to 30.00 ms")

    def test_a_reason_that_no_tick_met(self):
        thread = self.json["threads"][0]
        thread |= {"estimated_ns": 999 * MS, "off": [entry | {"reason": "other"} if entry["reason"] == "sleep" else entry
                                                     for entry in thread["off"]]}
        for sample in self.json["samples"]:
            sample["reason"] = "other"
        self.expected.stacks = []
        self.assert_fails("sleep by its own clock: 1000.00 ms, should be -70.00 to 71.00 ms")
        self.json["trailer"]["tick_interval_ns"] = 200 * MS
        self.assertEqual(self.failures(), [])

    def test_an_estimate_without_need(self):
        self.json["threads"][0]["estimated_ns"] = 999 * MS
        self.assertEqual(self.failures(), [])
        self.setting = settings.BY_NAME["no-budget"]
        self.assert_fails("although nothing sheds the ledger")

    def test_reasons_that_only_the_tick_could_know(self):
        self.json["threads"][0]["estimated_ns"] = 999 * MS
        self.json["threads"][0]["off"][0]["reason"] = "other"
        for sample in self.json["samples"]:
            sample["reason"] = "other"
        self.assert_fails("sleep by its own clock")
        for sample in self.json["samples"]:
            sample["ticks"] = 0
        self.assertFalse(any("sleep by its own clock" in failure for failure in self.failures()))

    def test_a_thread_that_was_blocked_when_it_was_killed(self):
        self.expected = scenario.Thread(name="napper", life=False, blocked="sleep")
        self.report["threads"][0]["end_ns"] = 0
        self.report["ended_ns"] = [950 * MS, 1_010 * MS]
        self.assertEqual(self.failures(), [])
        self.report["ended_ns"] = [1_100 * MS, 1_200 * MS]
        self.assert_fails("blocked for sleep")

    def test_a_stack_that_must_go_through_a_function(self):
        self.expected = scenario.Thread(name="napper", unmeasured=True, through="naps::Thread")
        self.assertEqual(self.failures(), [])
        self.expected.through = "naps::Other"
        self.assert_fails("should go through naps::Other")

    def test_stacks_that_end_early(self):
        self.json["stacks"][0]["complete"] = False
        end = {"function": "[stack too deep]", "module": "", "kind": "synthetic"}
        self.json["frames"] = FRAMES + [end]
        self.json["stacks"][0]["frames"].append(len(FRAMES))
        self.expected.ends = "[stack too deep]"
        self.assertEqual(self.failures(), [])
        self.expected.stacks = [STACK[:-1]]
        self.assert_fails("a stack that is not expected")

    def test_waits_that_were_not_counted(self):
        self.json["threads"][0]["off"][0]["waits"] = 5
        self.assert_fails("5 waits for sleep")

    def test_cpu_time_that_is_too_short(self):
        self.json["threads"][0]["on_cpu_ns"] -= 9 * MS
        self.json["threads"][0]["off"][1]["time_ns"] += 9 * MS
        self.assert_fails("CPU time by its own clock")

    def test_a_thread_that_is_missing(self):
        self.json["threads"][0]["tid"] = 9
        self.assert_fails("not in the answer")

    def test_a_loss_that_nobody_allowed(self):
        self.json["trailer"]["losses"] = [{"cause": "exit_ring_full", "count": 3}]
        some = scenario.Scenario(name="x", about="", target=[], query=[])
        self.assertEqual([each.text for each in checks.lost(Answer(self.json), some)], ["lost: exit_ring_full 3"])
        some.losses = ["exit_ring_full"]
        self.assertEqual(checks.lost(Answer(self.json), some), [])

    def test_a_source_that_is_disabled_but_tells(self):
        self.assertTrue(checks.silent(Answer(self.json), "tick"))


class Messages(unittest.TestCase):
    def test_what_is_not_so_comes_with_what_was_there(self):
        def said(that):
            failures = checks.check_value(scenario.Value(that=that), {"answer": checks.wrap({"n": 3, "findings": ["a"]})})
            return [failure.text for failure in failures]
        self.assertEqual(said("answer.n == 3"), [])
        self.assertEqual(said("answer.n == 4"), ["not so: answer.n == 4; answer.n is 3"])
        self.assertEqual(said("'b, in c' in answer.findings[0] and answer.n < 2"),
                         ["not so: 'b, in c' in answer.findings[0] and answer.n < 2; answer.findings[0] is 'a'; answer.n is 3"])
        self.assertEqual(said("any(x == 'b' for x in answer.findings)"),
                         ["not so: any(x == 'b' for x in answer.findings); where not, x is ['a']"])
        self.assertEqual(said("all(n * answer.n < 6 for n in [1, 2, 3] for x in answer.findings)"),
                         ["not so: all(n * answer.n < 6 for n in [1, 2, 3] for x in answer.findings); "
                          "where not, n * answer.n is [6, 9]"])
        self.assertEqual(said("answer.n == (\n4)"), ["answer.n is 3; not so: answer.n == (\n4)"])

    def test_what_compares_estimates_is_tried_again(self):
        def statistical(**keys):
            return [failure.statistical for failure in checks.check_value(scenario.Value(that="answer.n == 4", **keys),
                                                                          {"answer": checks.wrap({"n": 3})})]
        self.assertEqual(statistical(), [False])
        self.assertEqual(statistical(false_alarm=0.001), [True])


class Vacuous(unittest.TestCase):
    def test_what_looks_at_nothing_does_not_hold(self):
        names = {"answer": checks.wrap({"threads": [{"name": "a", "ns": 3}], "none": []})}

        def said(that):
            return [failure.text for failure in checks.check_value(scenario.Value(that=that), names)]
        self.assertEqual(said("all(thread.ns == 3 for thread in answer.threads)"), [])
        self.assertEqual(said("all(thread.ns == 3 for thread in answer.threads if thread.name == 'b')"),
                         ["looks at nothing: for thread in answer.threads if thread.name == 'b'"])
        self.assertEqual(said("[x for x in answer.none] == []"), ["looks at nothing: for x in answer.none"])
        # The last condition is what none may meet.
        self.assertEqual(said("[thread for thread in answer.threads if thread.ns != 3] == []"), [])
        # Each of a list that is written there has to be found.
        self.assertEqual(said("[n for n in ['a', 'b'] for thread in answer.threads if thread.name == n if not thread.ns] == []"),
                         ["looks at nothing: for n in ['b'] for thread in answer.threads if thread.name == n"])
        self.assertEqual(said("all(all(x == 3 for x in [thread.ns]) for thread in answer.threads)"), [])


class Tolerances(unittest.TestCase):
    def test_each_holds_at_its_edge_and_not_beyond(self):
        for name, edge in (("exact", 0), ("event", tolerance.EVENT_BYTES), ("ledger", 9_900_000)):
            self.assertEqual(tolerance.compare("x", 1_000_000_000 - edge, 1_000_000_000, name), [], name)
            self.assertTrue(tolerance.compare("x", int(1_000_000_000 - 1.03 * edge - 1), 1_000_000_000, name), name)

    def test_an_estimate_goes_by_its_stated_error_which_must_be_worth_something(self):
        def compare(value, error):
            return tolerance.compare("x", value, 1000, "estimate", error=error, precision=0.1)
        self.assertEqual(compare(1150, 50), [])
        self.assertTrue(compare(1170, 50))
        self.assertTrue(compare(1001, 0))
        self.assertTrue(compare(1000, 101), "an error of 10 % says too little")

    def test_no_other_names(self):
        with self.assertRaises(ValueError):
            tolerance.compare("x", 1, 1, "about")


class Files(unittest.TestCase):
    def load(self, text):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "some.toml")
            path.write_text(text)
            return scenario.load(path)

    def assert_refused(self, text, why):
        with self.assertRaises(scenario.BadScenario) as caught:
            self.load(text)
        said = str(caught.exception)
        self.assertEqual(said[said.index("some.toml"):], "some.toml" + why)

    def test_what_is_wrong_is_named_with_its_place(self):
        good = 'about = "x"\n[[target]]\nrun = "waiter naps"\n[[query]]\n'
        self.assert_refused(good, ".query[0]: it expects nothing")
        self.assert_refused(good + "[[query.thread]]\nnam = \"x\"\n", ".query[0].thread[0]: no key 'nam'; there are " +
                            ", ".join(sorted(item.name for item in fields(scenario.Thread))))
        self.assert_refused(good + "kind = \"time\"\n[[query.thread]]\nname = \"x\"\n", ".query[0].kind: 'time' is none of " +
                            ", ".join(scenario.KIND_SOURCES))
        self.assert_refused(good + "[[query.bytes]]\ntruth = \"1\"\nwithin = \"nearly\"\n", ".query[0].bytes.within: 'nearly' is none of " + ", ".join(tolerance.NAMES))
        self.assert_refused(good + "[[query.bytes]]\ntruth = \"1\"\nwithin = \"estimate\"\n", ".query[0].bytes: an estimate needs 'precision', the largest share of the truth that "
                            "its stated error may be")
        self.assert_refused(good + "[[query.thread]]\nname = \"x\"\ntarget = \"y\"\n", ".query[0]: no target is named 'y'; there are waiter")
        self.assert_refused("about = \n", ": Invalid value (at line 1, column 9)")

    def test_what_would_pass_unnoticed_is_refused(self):
        head = 'about = "x"\n[[target]]\nrun = "waiter naps"\n'
        good = head + '[[query]]\n[[query.thread]]\nname = "x"\n'
        self.assertTrue(self.load(good))
        self.assert_refused(good + 'reason = "slepe"\n', ".query[0].thread: reason 'slepe' of 'x' is none of runqueue, reclaim, fault, fsync, lock, "
                            "disk, poll, net, sleep, pipe, child, signal, other, stopped, traced, frozen")
        self.assert_refused(good + 'only = 1\n', ".query[0].thread[0].only is 1, which is not true or false")
        self.assert_refused(good + 'count = true\n', ".query[0].thread[0].count is True, which is not a whole number")
        self.assert_refused(good + 'stacks = ["a", "b"]\n', ".query[0].thread[0].stacks[0] is 'a', which is not a list of functions; "
                            "`stacks` is a list of stacks: [[\"leaf\", \"caller\"]]")
        self.assert_refused(good.replace('name = "x"', 'reason = "sleep"'), ".query[0].thread[0]: 'name' is missing")
        self.assert_refused('seconds = "3"\n' + good, ": seconds is '3', which is not a number")
        self.assert_refused('watch = "heaps"\n' + good, ": watch: 'heaps' is none of " + ", ".join(scenario.WATCHES))
        self.assert_refused(head + '[query]\n', ": query is one block of several: write [[query]]")
        self.assert_refused(head + '[[query]]\ntarget = "x"\nstdout = ""\n', ".query[0]: no target is named 'x'; there are waiter")
        self.assert_refused(head + '[[query]]\n[[query.value]]\nthat = "True"\nfalse_alarm = 0.5\n', ".query[0].value.false_alarm: 0.5 is not a share "
                            "of runs of at most 0.01")
        self.assert_refused(head + '[[query]]\nstdout = ""\n[[query.value]]\nthat = "True"\n', ".query[0]: with 'exit' or 'stdout' the answer is text; thread, bytes and value belong in a "
                            "query of their own")

    def test_settings_that_do_not_exist(self):
        for line in ('only = ["no-tik"]', 'without = { no-tik = "x" }'):
            some = self.load(f'{line}\nabout = "x"\n[[command]]\nrun = "profd"\nstdout = ""\n')
            with self.assertRaisesRegex(scenario.BadScenario, "some.toml: .*: no setting 'no-tik'; there are defaults"):
                settings.check(some)
        for each in scenario.load_all():
            settings.check(each)

    def test_commands_and_stacks(self):
        self.assert_refused("about = \"x\"\n[[command]]\nrun = \"ls\"\nstdout = \"\"\n", ".command[0].run: it is neither of profd nor of profctl")
        self.assert_refused("about = \"x\"\n[[command]]\nrun = \"profd\"\n", ".command[0]: it expects no text")
        good = self.load("about = \"x\"\n[[target]]\nrun = \"waiter\"\n[[query]]\n[[query.thread]]\nname = \"x\"\n"
                         "stacks = [[\"a\", \"b x3\", \"c\"]]\n")
        self.assertEqual(good.query[0].thread[0].stacks, [["a", "b", "b", "b", "c"]])

    def test_all_scenarios_are_well_formed(self):
        self.assertTrue(scenario.load_all())


class Docs(unittest.TestCase):
    def test_every_key_is_in_the_table(self):
        text = Path(scenario.FOLDER.parent.parent, "docs/developing.md").read_text()
        table = text.split("### Keys")[1].split("### Tolerances")[0]
        blocks = {"the file": scenario.Scenario, "[[target]]": scenario.Target, "[[query]]": scenario.Query,
                  "[[query.thread]]": scenario.Thread, "[[query.bytes]]": scenario.Bytes,
                  "[[query.value]]": scenario.Value, "[[command]]": scenario.Command}
        said, block = {name: set() for name in blocks}, None
        for line in table.splitlines():
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            block = cells[0].strip("`") if cells[0].strip("`") in blocks else block
            if block and len(cells) == 3:
                said[block] |= set(re.findall(r"`(\w+)`", cells[1]))
        for name, kind in blocks.items():
            keys = {item.name for item in fields(kind)} - ({"name"} if kind is scenario.Scenario else set())
            self.assertEqual(said[name], keys, name)


class Plan(unittest.TestCase):
    def setUp(self):
        self.all = scenario.load_all()
        self.cover = settings.cover(self.all)

    def test_every_short_scenario_runs_as_shipped_where_it_fits(self):
        for each in self.all:
            if not each.long and not settings.fits(each, DEFAULTS):
                self.assertIn((each, DEFAULTS), self.cover)

    def test_every_source_runs_in_every_setting_that_some_scenario_of_it_fits(self):
        for setting in settings.SETTINGS:
            possible = set().union(*(each.sources() for each in self.all
                                     if not each.long and not settings.fits(each, setting)))
            covered = set().union(*(each.sources() for each, where in self.cover if where is setting))
            self.assertEqual(covered, possible, setting.name)

    def test_what_the_machine_cannot_run_covers_nothing_that_others_can(self):
        facts = {fact: fact != "disk_requests" for each in self.all for fact in each.facts}
        for setting in settings.SETTINGS[1:]:
            able = [each for each in self.all if all(facts[fact] for fact in each.facts) and not each.long
                    and not settings.fits(each, setting)]
            covered = set().union(*(each.sources() for each, where in settings.cover(self.all, facts)
                                    if where is setting and each in able))
            self.assertEqual(covered, set().union(*(each.sources() for each in able)), setting.name)

    def test_a_target_may_be_watched_by_itself(self):
        some = scenario.Scenario("x", "", watch="heap", query=[
            scenario.Query(kind="alloc", target=name, bytes=[scenario.Bytes("1", "exact")]) for name in ("a", "b")],
            target=[scenario.Target(["a"], "a", watch="bursts"), scenario.Target(["b"], "b")])
        self.assertEqual(some.sources(), {"bursts", "heap"})

    def test_nothing_runs_where_it_does_not_fit(self):
        for each, setting in self.cover + settings.full(self.all):
            self.assertEqual(settings.fits(each, setting), "")


class Sharing(unittest.TestCase):
    def alone(self, setting, **keys):
        some = scenario.Scenario("x", "", query=[scenario.Query()], **keys)
        return Runner(settings.BY_NAME[setting], None, {}, 1, None, "").is_alone(some)

    def test_a_daemon_of_its_own_only_where_it_is_needed(self):
        self.assertFalse(self.alone("defaults"))
        self.assertTrue(self.alone("no-budget", alone=True))
        self.assertTrue(self.alone("defaults", unshed=True))
        self.assertFalse(self.alone("no-budget", unshed=True))
        self.assertFalse(self.alone("linux-6.1", unshed=True))
        self.assertTrue(self.alone("defaults", options=["--budget", "off"]))
        self.assertFalse(self.alone("linux-6.1", options=["--budget", "off"]))
        self.assertTrue(self.alone("linux-6.1", options=["--budget", "off", "--tick", "1ms"]))


class Runs(unittest.TestCase):
    """Of targets and queries, without a daemon."""

    def test_a_query_that_nobody_asked(self):
        some = scenario.Scenario(name="x", about="", query=[scenario.Query(at="tuched")])
        execution = Execution(some, DEFAULTS, None, None)
        execution.run()
        self.assertEqual([failure.text for failure in execution.failures],
                         ["query[0] was not asked: no target said 'tuched'; they said attached, end, exited"])

    def test_a_program_that_does_not_start(self):
        with self.assertRaisesRegex(Gone, "cannot start /no/waiter: No such file or directory"):
            Process(["/no/waiter"])

    def test_a_program_that_a_signal_ends_says_which(self):
        process = Process(["sh", "-c", "kill -BUS $$"])
        with self.assertRaisesRegex(Gone, "sh was ended by SIGBUS"):
            process.line(10)
        process.end()

    def test_a_program_that_ends_says_why(self):
        process = Process(["sh", "-c", "exec >&-; sleep 0.2; echo because >&2"])
        with self.assertRaisesRegex(Gone, "sh ended with 0\nbecause"):
            process.line(10)
        process.end()


class Verdicts(unittest.TestCase):
    """Only estimates are judged by three runs, and by their majority."""

    def judge(self, *runs):
        left = list(runs)
        runner = Runner(DEFAULTS, None, {}, 1, lambda result: None, "")
        some = scenario.Scenario(name="x", about="", target=[], query=[])
        result = runner.judge(some, lambda _: (left.pop(0), {}, {}))
        return result.outcome, len(runs) - len(left)

    def test_verdicts(self):
        miss, wrong = [Failure("off", statistical=True)], [Failure("wrong")]
        self.assertEqual(self.judge([], miss), ("passed", 1))
        self.assertEqual(self.judge(wrong, []), ("failed", 1))
        self.assertEqual(self.judge(miss, [], []), ("passed", 3))
        self.assertEqual(self.judge(miss, miss, []), ("failed", 2))
        self.assertEqual(self.judge(miss, [], miss), ("failed", 3))
        self.assertEqual(self.judge(miss, wrong), ("failed", 2))


if __name__ == "__main__":
    unittest.main()
