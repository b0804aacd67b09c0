#!/usr/bin/env python3
"""How pairs are taken and counted, on workloads and tools that only pretend: no privilege, and
nothing depends on how fast the machine is."""

import argparse
import contextlib
import io
import json
import os
import random
import sys
import tempfile
import unittest
import unittest.mock

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from profdbench import in_force, lines, overhead, process, progress, segments, slices, stats
from profdbench import tools, workloads
from profdbench.workloads import base, postgres, redis
from profdbench.workloads.rust_source import rust_source


class FakeWorkload(base.Workload):
    """Performance is 100 when untraced, what the running tool leaves of it else, and drifts."""

    name, about, unit, requests = "fake", "a fake", "op/s", "requests of it"
    guard_seconds = 0.0
    can_launch = True

    def __init__(self, drift=0.0, forks=False):  # no directory
        self.share, self.drift, self.forks = 1.0, drift, forks
        self.states, self.runs, self.watched = [], [], []

    def pids(self):
        return [1]

    def slice(self, seconds):
        self.states.append(self.share)
        share = self.launcher.share if self.launcher else self.share
        return share, 100 * share + self.drift * len(self.states), seconds or 1

    def collect(self, tokens):
        return [stats.Work(seconds, value * seconds, 0.01 * value * seconds / share,
                           [10.0 / share] * 200) for share, value, seconds in tokens]

    def program(self):
        return "/bin/fake"

    def restart(self):
        self.runs.append(self.launcher.name if self.launcher else None)

    def finish(self):
        return "done" if self.launcher else ""


class FakeTool(tools.Tool):
    def __init__(self, name, share, fails=False):  # pylint: disable=super-init-not-called
        self.name, self.share, self.fails, self.note = name, share, fails, None
        self.ends = 0

    def start(self, workload, pids):
        if self.fails:
            raise process.Failed("cannot\nat all")
        workload.share, self.workload = self.share, workload
        workload.watched.append(pids)

    def end(self):
        self.ends += 1
        return {"daemon_cpu": 0.01, "rss_mib": 20 + self.ends,
                "status": {"tick_ms": 10.0 * self.ends, "off": ["switch"] if self.ends > 2 else [],
                           "levels": {"tick": 3}}}

    def stop(self):
        if not self.fails:
            self.workload.share = 1.0


class PausingTool(FakeTool):
    can_pause = True
    arguments = ["--some"]

    def pause(self, paused):
        self.workload.share = 1.0 if paused else self.share


class LaunchingTool(FakeTool):
    launches = True

    def check_program(self, path):
        if path != "/bin/fake":
            raise process.Failed("another program")

    def recorded(self, output):
        if self.fails or output != "done":
            raise process.Failed("recorded nothing")

    def stop(self):
        pass


class Measuring(unittest.TestCase):
    """Without waiting, and without reading /proc."""

    def setUp(self):
        for module in (slices, segments):
            for name, value in (("Surroundings", lambda pids: argparse.Namespace(
                    disturbed=lambda: True)), ("time", argparse.Namespace(
                        sleep=lambda seconds: None, monotonic=iter(range(10**9)).__next__))):
                patch = unittest.mock.patch.object(module, name, value)
                patch.start()
                self.addCleanup(patch.stop)
        silence = contextlib.redirect_stderr(io.StringIO())
        silence.__enter__()
        self.addCleanup(silence.__exit__, None, None, None)


class Slices(Measuring):
    def run_slices(self, tool, pairs, workload=None, seed=1):
        workload = workload or FakeWorkload()
        told = []
        found = slices.run(workload, tool, pairs, 0.2, random.Random(seed),
                           lambda done, ratio: told.append(done))
        return workload, found, told

    def test_the_ratio_is_what_the_tool_leaves(self):
        workload, found, told = self.run_slices(PausingTool("profd", 0.5), 20)
        summary = stats.summary(found["blocks"])
        self.assertEqual(summary["ratio"], [0.5, 0.5, 0.5])
        self.assertEqual(summary["cpu_ratio"], [0.5, 0.5, 0.5])
        self.assertEqual(summary["p99_ratio"], [2.0, 2.0, 2.0])
        self.assertEqual((found["pairs"], told, found["disturbed"]), (20, [5, 10, 15, 20], 4))
        self.assertEqual(workload.share, 1.0)  # stopped

    def test_pairs_are_adjacent_and_their_order_is_random(self):
        workload, _, _ = self.run_slices(PausingTool("profd", 0.5), 100)
        states = workload.states[1:]  # one before, which is not counted
        pairs = [tuple(states[i:i + 2]) for i in range(0, len(states), 2)]
        self.assertEqual(set(pairs), {(0.5, 1.0), (1.0, 0.5)})
        # 100 fair coins: outside of this one time in ten thousand, were the seed not fixed.
        self.assertIn(pairs.count((0.5, 1.0)), range(31, 70))

    def test_steady_drift_is_noise_and_no_bias(self):
        _, found, _ = self.run_slices(PausingTool("none", 1.0), 300, FakeWorkload(drift=1.0))
        ratio = stats.summary(found["blocks"])["ratio"]
        self.assertLess(ratio[1], 1.0)
        self.assertGreater(ratio[2], 1.0)

    def test_what_is_in_force_is_read_after_each_block(self):
        tool = PausingTool("profd", 0.5)
        _, found, _ = self.run_slices(tool, 20)
        # Four blocks, and once before the first, which is not counted.
        self.assertEqual(tool.ends, 5)
        self.assertEqual(len(found["extras"]), 4)
        self.assertEqual(found["in_force"]["off"], {"switch": 0.75})

    def test_savings_are_spent_before_the_first_slice(self):
        tool = PausingTool("profd", 0.5)
        spends = iter([True, True, False])
        tool.spends_savings = lambda: next(spends)
        _, found, _ = self.run_slices(tool, 20)
        self.assertEqual(tool.ends, 3 + 4)
        self.assertEqual(len(found["extras"]), 4)
        tool.ends, tool.spends_savings = 0, lambda: True
        self.run_slices(tool, 20)
        self.assertEqual(tool.ends, slices.MOST_SPANS_TO_SETTLE + 4)

    def test_only_whole_blocks_count(self):
        _, found, _ = self.run_slices(PausingTool("profd", 0.5), 23)
        self.assertEqual((found["pairs"], len(found["blocks"])), (20, 4))

    def test_whole_runs_are_slices_and_their_parent_is_watched(self):
        workload, found, _ = self.run_slices(PausingTool("none", 0.8), 10, FakeWorkload(forks=True))
        self.assertEqual(workload.watched, [[os.getpid()]])
        self.assertEqual(stats.summary(found["blocks"])["ratio"][0], 0.8)
        self.assertEqual(found["blocks"][0].on.seconds, 5 * 0.2)

    def test_a_target_that_stands_still_is_a_failure(self):
        tool = PausingTool("profd", 0.5)
        with unittest.mock.patch.object(FakeWorkload, "collect", lambda self, tokens: [
                stats.Work(0.2, 0, 0.1)] * len(tokens)):
            with self.assertRaises(process.Failed):
                self.run_slices(tool, 10)
        self.assertEqual(tool.workload.share, 1.0)


class Segments(Measuring):
    def run_segments(self, used, rounds, drift=0.0, kind=segments.Runner):
        workload = FakeWorkload(drift)
        runner = kind(workload, used, 5, lambda *_: None)
        return runner, runner.run(rounds)

    def ratios(self, rows):
        return {name: stats.summary(row["blocks"])["ratio"][0] for name, row in rows.items()}

    def test_ratio_is_what_the_tool_leaves(self):
        _, rows = self.run_segments([FakeTool("half", 0.5), FakeTool("most", 0.9)], 6)
        self.assertEqual(self.ratios(rows), {"half": 0.5, "most": 0.9})
        self.assertEqual(rows["half"]["pairs"], 6)
        self.assertEqual(rows["half"]["disturbed"], 6)

    def test_steady_drift_cancels(self):
        _, rows = self.run_segments([FakeTool("a", 1.0)], 6, drift=1.0)
        for block in rows["a"]["blocks"]:
            self.assertAlmostEqual(block.speed(), 0.0)

    def test_order_turns(self):
        runner, _ = self.run_segments([FakeTool(name, share) for name, share in
                                       (("a", 0.1), ("b", 0.2), ("c", 0.3))], 3)
        traced = [state for state in runner.workload.states if state < 1]
        self.assertEqual(traced, [0.1, 0.2, 0.3, 0.2, 0.3, 0.1, 0.3, 0.1, 0.2])

    def test_failing_tool_leaves_the_others(self):
        runner, rows = self.run_segments([FakeTool("bad", 1.0, True), FakeTool("good", 0.9)], 6)
        self.assertEqual(runner.failed, [("bad", "cannot")])
        self.assertEqual(self.ratios(rows), {"good": 0.9})
        self.assertEqual(rows["good"]["pairs"], 6)

    def test_what_launches_has_runs_of_its_own(self):
        used = [LaunchingTool("slow", 0.4), LaunchingTool("fast", 1.0)]
        runner, rows = self.run_segments(used, 2, kind=segments.Launches)
        self.assertEqual(self.ratios(rows), {"slow": 0.4, "fast": 1.0})
        self.assertEqual(runner.workload.runs, [None, "slow", None, "fast", None,
                                                None, "fast", None, "slow", None])
        self.assertIsNone(runner.workload.launcher)

    def test_a_run_that_recorded_nothing_is_no_result(self):
        used = [LaunchingTool("bad", 1.0, fails=True), LaunchingTool("good", 0.9)]
        runner, rows = self.run_segments(used, 2, kind=segments.Launches)
        self.assertEqual(runner.failed, [("bad", "recorded nothing")])
        self.assertEqual(list(rows), ["good"])


class Rows(Measuring):
    def row(self, share=0.5, pairs=20):
        tool = PausingTool("profd", share)
        found = slices.run(FakeWorkload(), tool, pairs, 0.2, random.Random(1), lambda *_: None)
        workload = FakeWorkload()
        workload.name = "pgbench"
        return overhead.make_row(workload, tool, found, lines.here(), {"protocol": "slices"})

    def test_a_row_says_what_was_off_and_how_often_was_sampled(self):
        row = self.row()
        self.assertEqual((row["off"], row["tick_ms"], row["options"]),
                         ({"switch": 0.75}, 35.0, ["--some"]))
        self.assertEqual((row["rss_mib"], row["aim"]), (25, 0.99))
        self.assertEqual(overhead.headline(row),
                         "pgbench under profd: ratio 0.5000 (0.5000 to 0.5000); switched off: switch "
                         "(75% of the time); sampling every 35 ms; latency p50 2.0000 (2.0000 to "
                         "2.0000), p99 2.0000 (2.0000 to 2.0000); aim 0.99: missed")
        self.assertEqual(json.loads(lines.text_of(row))["ratio"], [0.5, 0.5, 0.5])

    def test_verdicts_in_words(self):
        row = self.row()
        for ratio, told in (([1.0, 0.995, 1.005], "met"), ([0.98, 0.975, 0.985], "missed"),
                            ([1.0, 0.98, 1.02], "not shown, about 61 more pairs would show it"),
                            ([0.98, 0.95, 1.01], "not shown, and more pairs would not"),
                            ([1.0], "not shown, too few pairs for an interval")):
            row["ratio"] = ratio
            self.assertTrue(overhead.verdict_text(row).startswith(told), overhead.verdict_text(row))

    def test_tools_have_their_protocol(self):
        pausing, attached = PausingTool("profd", 1), FakeTool("perf", 1)
        launching = LaunchingTool("heaptrack", 1)
        every = [pausing, attached, launching]
        self.assertEqual(overhead.sorted_tools(FakeWorkload, every),
                         ([pausing], [attached], [launching]))
        fio = workloads.WORKLOADS["fio"]
        self.assertEqual(overhead.sorted_tools(fio, every), ([pausing], [attached], []))

    def test_the_plan_grows_with_the_pairs(self):
        tool = PausingTool("profd", 1.0)
        few, many = (overhead.plan(["pgbench"], [tool], argparse.Namespace(
            pairs=pairs, slice=0.2, rounds=1, seconds=5)) for pairs in (150, 300))
        self.assertGreater(many - few, 150 * 2 * 0.2)


class InForce(unittest.TestCase):
    def status(self, tick_ms, levels, layers):
        return {"tickIntervalNs": str(tick_ms * 1000000),
                "governor": {"sources": [{"name": name, "level": level}
                                         for name, level in levels.items()]},
                "layers": [{"name": name, "on": on} for name, on in layers.items()]}

    def test_off_is_what_was_given_up_or_disabled(self):
        status = self.status(60, {"tick": 6, "switch": 1, "faults": 0, "mappings": 0},
                             {"tick": True, "switch": False, "faults": True, "mappings": False})
        # Nothing is mapped: the layer is off, but nothing was given up.
        self.assertEqual(in_force.reading(status),
                         {"tick_ms": 60.0, "off": ["switch"], "levels": {"tick": 6, "switch": 1}})
        self.assertEqual(in_force.reading(status, ["mappings"])["off"], ["switch", "mappings"])

    def test_summary(self):
        readings = [{"tick_ms": 10, "off": [], "levels": {"tick": 2, "faults": 1}},
                    {"tick_ms": 30, "off": ["faults"], "levels": {"tick": 5, "faults": 3}},
                    {"tick_ms": 20, "off": ["faults", "switch"], "levels": {"switch": 1}}]
        self.assertEqual(in_force.summary(readings),
                         {"tick_ms": 20, "off": {"faults": 2 / 3, "switch": 1 / 3},
                          "levels": {"faults": 3, "tick": 5}})


class Counting(unittest.TestCase):
    def test_pgbench_counts_transactions_by_the_instant_they_ended(self):
        workload = postgres.Pgbench.__new__(postgres.Pgbench)
        workload.logged = 0.5
        workload.client = argparse.Namespace(poll=lambda: None)
        workload._read_log = lambda: (  # pylint: disable=protected-access
            b"0 1 130 0 100 500000\n3 2 90 0 100 700000\n1 3 99 0 101 0\n1 4 9\n")
        works = workload.collect([((100,), (100.6,), 0.1, []), ((100.6,), (101,), 0.1, []),
                                  ((101,), (102,), 0.1, [])])
        self.assertEqual([work.amount for work in works], [2, 2, 2])
        self.assertEqual([work.latencies for work in works], [[130], [90], [99]])

    def test_a_log_that_is_being_written_is_read_by_whole_lines(self):
        with tempfile.TemporaryDirectory() as folder:
            workload = postgres.Pgbench.__new__(postgres.Pgbench)
            workload.log, workload.offset = os.path.join(folder, "log"), 0
            read = workload._read_log  # pylint: disable=protected-access
            with open(workload.log, "wb") as log:
                log.write(b"0 1 130 0 100 500000\n3 2 90 0 1")
            self.assertEqual(read(), b"0 1 130 0 100 500000\n")
            with open(workload.log, "ab") as log:
                log.write(b"00 700000\n")
            self.assertEqual(read(), b"3 2 90 0 100 700000\n")

    def test_redis_is_counted_at_the_ends_of_a_slice(self):
        workload = redis.Redis.__new__(redis.Redis)
        workload.client = argparse.Namespace(poll=lambda: None)
        (work,) = workload.collect([((1.0, 100), (1.2, 500), 0.1, [7.0])])
        self.assertAlmostEqual(work.seconds, 0.2)
        self.assertEqual((work.amount, work.cpu, work.latencies), (400, 0.1, [7.0]))

    def test_perf_bench_times_itself(self):
        pipe = workloads.WORKLOADS["pipe"].__new__(workloads.WORKLOADS["pipe"])
        pipe.amount = 100_000
        amount, seconds = pipe.work("       5.000000 usecs/op\n", 9.0)
        self.assertEqual((amount, round(seconds, 9)), (100_000, 0.5))
        with self.assertRaises(process.Failed):
            pipe.work("nothing", 9.0)


class Texts(unittest.TestCase):
    def test_durations(self):
        self.assertEqual([progress.duration(n) for n in (0, 89, 600, 3900, 5500)],
                         ["0 s", "89 s", "10 min", "65 min", "1 h 32 min"])

    def test_rust_source_is_balanced_and_grows(self):
        text = rust_source(3)
        self.assertEqual(text.count("{"), text.count("}"))
        self.assertEqual(text.count("pub mod part"), 3)


if __name__ == "__main__":
    unittest.main()
