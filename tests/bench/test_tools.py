#!/usr/bin/env python3
"""The tools that a target is started under, and the command line. Nothing is measured."""

import argparse
import os
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from profdbench import process, tools
from profdbench.workloads import base


class Launchers(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.options = argparse.Namespace(directory=self.folder.name)
        self.addCleanup(setattr, tools.shutil, "which", tools.shutil.which)
        tools.shutil.which = lambda name: f"/usr/bin/{name}"

    def test_heaptrack_says_how_much_it_saw(self):
        tool = tools.Heaptrack(self.options)
        self.assertEqual(tool.command(["redis-server", "--port", "0"]),
                         ["heaptrack", "-o", os.path.join(self.folder.name, "heaptrack.data"),
                          "redis-server", "--port", "0"])
        said = "OK\nheaptrack stats:\n\tallocations:          \t{}\n\tleaked allocations:   \t7\n"
        tool.recorded(said.format(2_000_000))
        with self.assertRaisesRegex(process.Failed, "no allocation"):
            tool.recorded(said.format(0))
        with self.assertRaisesRegex(process.Failed, "did not finish"):
            tool.recorded("OK\n")

    def test_heaptrack_is_not_given_a_program_with_its_own_malloc(self):
        tool = tools.Heaptrack(self.options)
        symbols = "00000000000a1b20 T malloc_conf\n00000000000a1b30 {} malloc{}\n"
        self.addCleanup(setattr, process, "output_of", process.output_of)
        process.output_of = lambda command: symbols.format("T", "_usable_size")
        tool.check_program("/usr/bin/redis-server")
        process.output_of = lambda command: symbols.format("T", "")
        with self.assertRaisesRegex(process.Failed, "^rustc brings a malloc of its own"):
            tool.check_program("/opt/bin/rustc")

    def test_jemalloc_wrote_its_profile(self):
        tool = tools.Jeprof(self.options)
        self.assertIn("prof:true", tool.environment["MALLOC_CONF"])
        with self.assertRaisesRegex(process.Failed, "built without profiling"):
            tool.recorded("")
        path = os.path.join(self.folder.name, "jeprof.data.17.0.f.heap")
        with open(path, "w", encoding="utf-8"):
            pass
        tool.recorded("")
        tool.stop()
        self.assertFalse(os.path.exists(path))

    def test_a_workload_starts_what_the_launcher_says(self):
        workload = base.Workload.__new__(base.Workload)
        workload.launcher = argparse.Namespace(
            command=lambda argv: ["sh", "-c", 'echo "$TOLD $0"', *argv],
            environment={"TOLD": "so"})
        with workload.launch(["program"], stdout=subprocess.PIPE, text=True) as started:
            self.assertEqual(started.communicate()[0], "so program\n")


class Savings(unittest.TestCase):
    """What is left of a budget of 1 %: 0.6 s are a minute's worth."""

    def spends(self, *left):
        tool = tools.Profd.__new__(tools.Profd)
        tool.saved = [tool.share_saved({"governor": {"budget": 0.01, "saved_s": each}}) for each in left]
        return tool.spends_savings()

    def test_they_are_spent_until_little_is_left(self):
        self.assertTrue(self.spends(0.6))
        self.assertTrue(self.spends(0.6, 0.4))
        self.assertTrue(self.spends(0.6, 0.4, 0.2))
        self.assertFalse(self.spends(0.6, 0.4, 0.2, 0.05))
        self.assertFalse(self.spends(0.05))

    def test_who_costs_less_than_the_budget_spends_nothing(self):
        self.assertFalse(self.spends(0.6, 0.6))
        self.assertFalse(self.spends(0.6, 0.5, 0.52))

    def test_without_a_budget_there_are_none(self):
        tool = tools.Profd.__new__(tools.Profd)
        for governor in ({}, {"budget": 0, "saved_s": 0}, {"budget": None}):
            self.assertEqual(tool.share_saved({"governor": governor}), 0)


class SpansOfProfd(unittest.TestCase):
    """What profd says comes late: after a pause, and between drains."""

    def setUp(self):
        self.now = 0.0

        def sleep(seconds):
            self.now += seconds

        clock = unittest.mock.Mock(monotonic=lambda: self.now, sleep=sleep)
        for patch in (unittest.mock.patch.object(tools, "time", clock),
                      unittest.mock.patch.object(tools.process, "rss_bytes", lambda *_, **__: 0)):
            patch.start()
            self.addCleanup(patch.stop)

    def profd(self, status):
        """One whose status at an instant is as told; it uses a tenth of a CPU."""
        tool = tools.Profd.__new__(tools.Profd)
        tool.check = lambda: None
        tool.process = unittest.mock.Mock(pid=1)
        tool.saved = []
        tool._reading = lambda: {"time": self.now, "cpu": self.now / 10, "status": status(self.now)}
        return tool

    def test_a_span_begins_when_it_has_resumed(self):
        tool = self.profd(lambda now: {"paused": now < 1.2})
        tool.begin()
        self.assertEqual(tool.before["time"], 1.5)

    def test_it_is_given_up_if_it_stays_paused(self):
        with self.assertRaisesRegex(tools.Failed, "did not resume"):
            self.profd(lambda _: {"paused": True}).begin()

    def span(self, drained_at):
        """A span of 2 s, of which a drain tells at this instant."""
        tool = self.profd(lambda now: {"cost": {"switches": 7, "targets": [
            {"tick_cpu_ns": 5 if now < drained_at else 6}]}})
        tool.begin()
        self.now += 2
        return tool.end()

    def test_it_ends_with_a_drain(self):
        self.assertAlmostEqual(self.span(drained_at=1)["daemon_cpu"], 0.1)
        self.assertEqual(self.now, 2)
        self.assertAlmostEqual(self.span(drained_at=self.now + 9.8)["daemon_cpu"], 0.1)
        self.assertEqual(self.now, 12)

    def test_it_is_given_up_if_nothing_was_seen(self):
        with self.assertRaisesRegex(tools.Failed, "saw no thread"):
            self.span(drained_at=100)


class CommandLine(unittest.TestCase):
    def bench(self, *arguments):
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bench")
        return subprocess.run([sys.executable, path, *arguments], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False)

    def test_every_subcommand_explains_itself(self):
        for arguments in ([], ["run"], ["scale"], ["accuracy"], ["compare"], ["report"]):
            found = self.bench(*arguments, "--help")
            self.assertEqual(found.returncode, 0, arguments)
            self.assertEqual(found.stderr, "")

    def test_wrong_command_lines(self):
        for arguments in (["walk"], ["run", "--pairs", "0"], ["run", "--tool", "gdb"],
                          ["accuracy", "--seconds", "-1"], ["scale", "--history", "3"],
                          ["compare", "one"]):
            found = self.bench(*arguments)
            self.assertEqual(found.returncode, 2, arguments)
            self.assertEqual(found.stdout, "")

    def test_a_file_that_is_missing_is_a_failure(self):
        found = self.bench("report", "/nonexistent/results.jsonl")
        self.assertEqual((found.returncode, found.stdout), (1, ""))
        self.assertEqual(found.stderr, "bench: /nonexistent/results.jsonl: No such file or directory\n")


if __name__ == "__main__":
    unittest.main()
