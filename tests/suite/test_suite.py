"""Of the verdict itself: which skips pass, what a failed job does, and in which order jobs run."""

import sys
import tempfile
import time
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from tests.suite import mutate, outcome, plan  # pylint: disable=wrong-import-position
from tests.suite.jobs import Context, Failed, Job, Schedule  # pylint: disable=wrong-import-position

PERMITTED = [{"fact": "root", "reason": "privilege", "tests": ["kernel *"]}]


class Skips(unittest.TestCase):
    def judged(self, test, fact, facts):
        return outcome.judge_skips([outcome.Outcome(test, "skipped", fact=fact)], facts, PERMITTED)[0].result

    def test_a_listed_skip_whose_fact_is_missing_passes(self):
        self.assertEqual(self.judged("kernel A.b", "root", {"root": False}), "skipped")

    def test_a_skip_that_is_not_listed_fails(self):
        self.assertEqual(self.judged("kernel A.b", "qemu", {"qemu": False}), "failed")
        self.assertEqual(self.judged("unit A.b", "root", {"root": False}), "failed")
        self.assertEqual(self.judged("kernel A.b", "", {}), "failed")

    def test_a_skip_whose_condition_does_not_hold_fails(self):
        self.assertEqual(self.judged("kernel A.b", "root", {"root": True}), "failed")

    def test_a_skip_for_a_fact_that_nobody_probed_fails(self):
        self.assertEqual(self.judged("kernel A.b", "root", {}), "failed")

    def test_the_fact_stands_in_the_message(self):
        self.assertEqual(outcome.fact_of("x.cc:3: Skipped\nskipped: huge_pages: the kernel has none\n"), "huge_pages")
        self.assertEqual(outcome.fact_of("not today"), "")

    def test_every_permitted_skip_names_a_fact_of_the_probe(self):
        from tests.suite import machine  # pylint: disable=import-outside-toplevel
        listed = outcome.permitted_skips()
        self.assertTrue(listed)
        for entry in listed:
            self.assertIn(entry["fact"], machine.FACTS)
            self.assertTrue(entry["tests"] and entry["reason"])


class GoogleTest(unittest.TestCase):
    def test_results_are_read(self):
        with tempfile.TemporaryDirectory() as folder:
            xml = Path(folder, "results.xml")
            xml.write_text("""<testsuites><testsuite name="A">
                <testcase name="good" classname="A" status="run" result="completed"/>
                <testcase name="bad" classname="A" status="run" result="completed"><failure message="no"/></testcase>
                <testcase name="left" classname="A" status="run" result="skipped">
                  <skipped message="a.cc:1&#x0A;skipped: root: why"/></testcase>
                <testcase name="other" classname="A" status="notrun" result="suppressed"/>
                </testsuite></testsuites>""")
            found = {each.test: each for each in outcome.from_gtest("unit", xml)}
        self.assertEqual({name: each.result for name, each in found.items()},
                         {"unit A.good": "passed", "unit A.bad": "failed", "unit A.left": "skipped"})
        self.assertEqual(found["unit A.left"].fact, "root")
        self.assertEqual(found["unit A.bad"].detail, "no")


class Jobs(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.order = []

    def run_jobs(self, *jobs, cpus=2):
        def context(job):
            return Context(job.name, Path(self.folder.name), Path(self.folder.name), {}, SimpleNamespace(all=False), job.nice)
        return {ran.job.name: ran for ran in Schedule(jobs, cpus, context, lambda ran: None).run()}

    def job(self, name, run=None, **more):
        def body(context):
            self.order.append(name)
            return (run or (lambda context: []))(context)
        return Job(name, body, **more)

    def test_jobs_wait_for_what_they_need(self):
        self.run_jobs(self.job("second", after=("first",)), self.job("first", lambda _: time.sleep(0.05)))
        self.assertEqual(self.order, ["first", "second"])

    def test_a_failed_job_stops_those_that_need_it_and_nobody_else(self):
        def fail(_):
            raise Failed("no disk")
        ran = self.run_jobs(self.job("build", fail), self.job("test", after=("build",)),
                            self.job("later", follows=("build",)))
        self.assertEqual(self.order, ["build", "later"])
        self.assertEqual(ran["test"].error, "build failed")
        self.assertEqual(ran["later"].error, "")

    def test_more_cpus_than_there_are_are_not_given_out(self):
        running, most = [0], [0]

        def busy(_):
            running[0] += 1
            most[0] = max(most[0], running[0])
            time.sleep(0.05)
            running[0] -= 1
        self.run_jobs(*(self.job(str(i), busy, cpus=2) for i in range(3)), cpus=2)
        self.assertEqual(most[0], 1)

    def test_cpu_time_of_commands_is_counted_and_failures_carry_their_output(self):
        def work(context):
            context.command(["sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"])
            context.command(["sh", "-c", "echo broken; exit 3"])
        ran = self.run_jobs(self.job("work", work))["work"]
        self.assertGreater(ran.cpu, 0.01)
        self.assertEqual(ran.error, "sh ended with 3:\n"
                                    "$ sh -c i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done\n"
                                    "$ sh -c echo broken; exit 3\nbroken")

    def test_a_job_that_can_wait_does_so_in_its_whole_session(self):
        # It may begin before it has its weight.
        seen = "sleep 0.2; nice; cat /proc/self/autogroup 2>/dev/null || echo nice 7"
        self.run_jobs(self.job("calm", lambda context: context.command(["sh", "-c", f"{seen} | cat"]), nice=7))
        said = Path(self.folder.name, "calm.log").read_text()
        self.assertRegex(said, r"\n7\n.*nice 7\n$")

    def test_a_job_that_takes_too_long_fails(self):
        ran = self.run_jobs(self.job("slow", lambda context: context.command(["sleep", "60"], timeout=0.2)))
        self.assertRegex(ran["slow"].error, r"^sleep took longer than 0\.2 s; its output is in \S+/slow\.log$")


class Plan(unittest.TestCase):
    def test_every_job_needs_jobs_that_exist(self):
        names = {job.name for job in plan.jobs()}
        self.assertEqual(len(names), len(plan.jobs()))
        for job in plan.jobs():
            self.assertLessEqual(set(job.after + job.follows), names)
            self.assertTrue(job.about)


class Mutations(unittest.TestCase):
    def test_each_fits_the_sources(self):
        for mutation in mutate.load():
            with self.subTest(mutation.name):
                text = (mutate.ROOT / mutation.file).read_text()
                self.assertNotEqual(mutate.mutated(text, mutation), text)

    def test_the_table_has_what_caught_each(self):
        mutate.check_page(mutate.PAGE.read_text(), mutate.load())

    def test_a_failure_without_the_mutation_catches_nothing(self):
        unlucky = ["unit Chance.Once"]  # fails once

        def failing(tree, check, *_):
            broken = "broken" in (tree.path / "file").read_text()
            failed = []
            if check in ("unit", "scenario", "scenario sick"):
                failed.append("scenario sick [defaults]")  # on this machine, whatever the product does
            if check in ("unit", "unit Chance.Once") and unlucky:
                failed.append(unlucky.pop())
            if broken and check in ("unit", "unit Good.Test"):
                failed.append("unit Good.Test")
            return [outcome.Outcome(name, "failed") for name in failed]

        with tempfile.TemporaryDirectory() as folder, mock.patch.object(mutate, "failing", failing):
            tree = mock.Mock(path=Path(folder))
            (tree.path / "file").write_text("whole")
            mutation = mutate.Mutation("m", "file", "whole", "broken", [])
            caught = mutate.try_mutation(tree, mutation, None, ("scenario", "unit"), None)
            self.assertEqual(caught.test, "unit Good.Test")
            self.assertIsNone(mutate.try_mutation(tree, mutation, None, ("scenario",), None))
            named = mutate.Mutation("m", "file", "whole", "broken", ["unit Good.Test"])
            self.assertEqual(mutate.try_mutation(tree, named, None, (), None).test, "unit Good.Test")
            self.assertEqual((tree.path / "file").read_text(), "whole")

    def test_a_result_goes_into_the_table(self):
        mutations = [mutate.Mutation(name, "", "", "", []) for name in ("a", "b", "new", "c")]
        page = "text\n\n" + mutate.HEAD + "| a | `unit A` |\n| gone | `unit G` |\n| c | **nothing** |\n\nmore | text\n"
        page = mutate.updated_page(page, mutations, "b", "`unit B`")
        self.assertEqual(page, "text\n\n" + mutate.HEAD + "| a | `unit A` |\n| b | `unit B` |\n| new | not yet run |\n"
                               "| c | **nothing** |\n\nmore | text\n")
        with self.assertRaisesRegex(mutate.BadMutation, "'new' was not yet run"):
            mutate.check_page(page, mutations)
        page = page.replace("not yet run", "`unit N`")
        with self.assertRaisesRegex(mutate.BadMutation, "no test catches 'c'"):
            mutate.check_page(page, mutations)
        page = page.replace("**nothing**", "`unit C`")
        mutate.check_page(page, mutations)
        with self.assertRaisesRegex(mutate.BadMutation, "another order"):
            mutate.check_page(page, mutations[::-1])
        with self.assertRaisesRegex(mutate.BadMutation, "toml: d;"):
            mutate.check_page(page, [*mutations, mutate.Mutation("d", "", "", "", [])])


if __name__ == "__main__":
    unittest.main()
