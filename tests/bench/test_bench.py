#!/usr/bin/env python3
"""Tests the arithmetic of the benchmarks: no privilege, nothing is measured."""

import argparse
import contextlib
import io
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from profdbench import compare, overhead, process, progress, results, stats, tools, workloads

MIB = 1024 * 1024


class Intervals(unittest.TestCase):
    def test_coverage_is_that_of_the_sign_test(self):
        # 9 values: the 2nd and 8th enclose the median with 1 - 2 * (1 + 9) / 512.
        low, high, coverage = stats.median_interval([5, 1, 9, 3, 7, 2, 8, 4, 6])
        self.assertEqual((low, high), (2, 8))
        self.assertAlmostEqual(coverage, 1 - 20 / 512)

    def test_fifteen_values_take_the_fourth(self):
        self.assertEqual(stats.median_interval(list(range(15)))[:2], (3, 11))

    def test_five_values_are_too_few(self):
        self.assertIsNone(stats.median_interval([1, 2, 3, 4, 5]))
        self.assertIsNotNone(stats.median_interval([1, 2, 3, 4, 5, 6]))

    def test_quartiles_and_percentiles(self):
        self.assertEqual(stats.quartiles([4, 1, 3, 2, 5]), (2, 4))
        self.assertEqual(stats.quartiles([7]), (7, 7))
        self.assertEqual(stats.percentile(list(range(1, 101)), 0.99), 99)
        self.assertEqual(stats.percentile([3], 0.5), 3)


class RankTest(unittest.TestCase):
    def brute_force(self, first, second):
        """Deals the ranks in every possible way."""
        values = first + second
        ranks = [sum(other < value for other in values) +
                 (sum(other == value for other in values) + 1) / 2 for value in values]
        centre = len(first) * sum(ranks) / len(ranks)
        far = abs(sum(ranks[:len(first)]) - centre)
        deals = list(itertools.combinations(ranks, len(first)))
        return sum(abs(sum(deal) - centre) >= far - 1e-9 for deal in deals) / len(deals)

    def test_agrees_with_every_deal_counted(self):
        for first, second in (([1, 2, 3], [4, 5, 6, 7]), ([1, 5, 6], [2, 3, 9, 9]),
                              ([2, 2, 2, 3], [2, 3, 3, 4]), ([1.5], [0.5, 1.0, 1.5, 2.0])):
            self.assertAlmostEqual(stats.mann_whitney(first, second),
                                   self.brute_force(first, second))

    def test_known_values(self):
        # Fully apart, 5 and 5: two of the 252 deals.
        self.assertAlmostEqual(stats.mann_whitney([1, 2, 3, 4, 5], [6, 7, 8, 9, 10]), 2 / 252)
        self.assertEqual(stats.mann_whitney([1, 1, 1], [1, 1, 1]), 1.0)

    def test_is_symmetric(self):
        first, second = [1, 4, 6, 7, 2], [3, 5, 9, 8, 10, 6]
        self.assertAlmostEqual(stats.mann_whitney(first, second),
                               stats.mann_whitney(second, first))

    def test_approximation_joins_the_exact_form(self):
        first = [value * 1.0 for value in range(30)]
        second = [value + 6.5 for value in range(30)]
        exact = stats.mann_whitney(first, second)
        approximate = stats.mann_whitney(first, second + [21.5])
        self.assertAlmostEqual(exact, approximate, delta=0.01)

    def test_nothing_to_compare(self):
        with self.assertRaises(ValueError):
            stats.mann_whitney([], [1])


class FakeWorkload(workloads.Workload):
    """Performance is 100 when untraced, what the running tool leaves of it else, and drifts."""

    name, about, unit = "fake", "a fake", "op/s"
    can_count_spans = True

    can_launch = True

    def __init__(self):  # no directory
        self.tool, self.segments, self.drift = None, 0, 0.0
        self.pauses = []
        self.runs = []  # the names of what each run was started under

    def program(self):
        return "/bin/fake"

    def restart(self):
        self.runs.append(self.launcher.name if self.launcher else None)

    def finish(self):
        return "done" if self.launcher else ""

    def counts(self, spans):
        # The tool was paused and resumed as often as there are spans.
        shares = [1 if paused else self.tool.share for paused in self.pauses[:len(spans)]]
        self.pauses = []
        return [share * 1e6 * (end - begin) for share, (begin, end) in zip(shares, spans)]

    def prepare(self):
        return [1]

    def measure(self, seconds):
        self.segments += 1
        tool = self.tool or self.launcher
        share = tool.share if tool else 1
        return share * 100 + self.drift * self.segments, 0.01 / share


class FakeTool(tools.Tool):
    def __init__(self, name, share, fails=False):  # pylint: disable=super-init-not-called
        self.name, self.share, self.fails, self.note = name, share, fails, None

    def start(self, workload, pids):
        if self.fails:
            raise overhead.Failed("cannot\nat all")
        workload.tool, self.workload, self.watched = self, workload, pids

    def end(self):
        return {"cpu": 0.01}

    def stop(self):
        if not self.fails:
            self.workload.tool = None


class PausingTool(FakeTool):
    can_pause = True

    def pause(self, paused):
        self.workload.pauses.append(paused)


class LaunchingTool(FakeTool):
    launches = True

    def check_program(self, path):
        if path != "/bin/fake":
            raise overhead.Failed("another program")

    def recorded(self, output):
        if self.fails or output != "done":
            raise overhead.Failed("recorded nothing")

    def stop(self):
        pass


class Rounds(unittest.TestCase):
    def setUp(self):
        self.addCleanup(setattr, overhead, "SETTLE_AFTER_STOP", overhead.SETTLE_AFTER_STOP)
        overhead.SETTLE_AFTER_STOP = 0
        self.addCleanup(setattr, overhead.time, "sleep", time.sleep)
        real_sleep = time.sleep
        overhead.time.sleep = lambda seconds: real_sleep(min(seconds, 0.001))
        self.addCleanup(setattr, overhead, "CpuMeter", overhead.CpuMeter)
        overhead.CpuMeter = lambda pids: argparse.Namespace(seconds=lambda: 0.01)

    def run_rounds(self, used, pairs, drift=0.0, bursts=0, kind=overhead.Runner):
        workload = FakeWorkload()
        workload.drift = drift
        options = argparse.Namespace(seconds=0, pairs=pairs, bursts=bursts, burst_seconds=0.001)
        with contextlib.redirect_stderr(io.StringIO()):
            runner = kind(workload, used, options, progress.Progress(100))
            return runner, {row["tool"]: row for row in runner.run()}

    def test_ratio_is_what_the_tool_leaves(self):
        _, rows = self.run_rounds([FakeTool("half", 0.5), FakeTool("none", 1.0)], 6)
        self.assertAlmostEqual(rows["half"]["median"], 0.5)
        self.assertAlmostEqual(rows["none"]["median"], 1.0)
        self.assertEqual(len(rows["half"]["ratios"]), 6)
        self.assertAlmostEqual(rows["half"]["cpu_ratio"]["median"], 0.5)
        self.assertAlmostEqual(rows["half"]["cpu"], 0.01)

    def test_steady_drift_cancels(self):
        _, rows = self.run_rounds([FakeTool("none", 1.0)], 6, drift=1.0)
        for ratio in rows["none"]["ratios"]:
            self.assertAlmostEqual(ratio, 1.0)

    def test_bursts_are_averaged_within_a_pair(self):
        tools_used = [PausingTool("none", 0.8), FakeTool("half", 0.5)]
        runner, rows = self.run_rounds(tools_used, 6, drift=1.0, bursts=4)
        # A round: one untraced, and one more after each tool; a traced one of the other.
        self.assertEqual(runner.workload.segments, 6 * (1 + 1 + 2))
        self.assertEqual([len(pair["burst_ratios"]) for pair in rows["none"]["pairs"]], [4] * 6)
        self.assertNotIn("burst_ratios", rows["half"]["pairs"][0])
        for ratio in rows["none"]["ratios"]:
            self.assertAlmostEqual(ratio, 0.8, delta=0.01)
        self.assertEqual(len(rows["none"]["extras"]), 6)

    def test_whole_runs_alternate_after_one_that_is_not_counted(self):
        tool = PausingTool("none", 0.8)
        with unittest.mock.patch.object(FakeWorkload, "runs_in_pair", 3):
            runner, rows = self.run_rounds([tool], 6, drift=1.0, bursts=4)
        # Not the first run, which ends long before the last.
        self.assertEqual(tool.watched, [os.getpid()])
        # A round: one untraced before, the one that is not counted, 3 traced and 4 not, one after.
        self.assertEqual(runner.workload.segments, 6 * (1 + 1 + 7 + 1))
        for pair in rows["none"]["pairs"]:
            self.assertEqual(len(pair["burst_ratios"]), 3)
        self.assertEqual(runner.workload.pauses[:7], [True, False, True, False, True, False, True])

    def test_only_rows_with_an_aim_are_cut_in_bursts(self):
        options = argparse.Namespace(bursts=7)
        workload = FakeWorkload()
        aimed = PausingTool("profd", 1.0)
        self.assertEqual(overhead.bursts_of(workload, aimed, options), 0)
        workload.name = "pgbench"
        self.assertEqual(overhead.bursts_of(workload, aimed, options), 7)
        workload.burst_scale = 4
        self.assertEqual(overhead.bursts_of(workload, aimed, options), 2)
        options.burst_seconds = 0.04
        self.assertEqual(overhead.burst_seconds_of(workload, options), 0.16)
        self.assertEqual(overhead.bursts_of(workload, FakeTool("profd", 1.0), options), 0)
        workload.runs_in_pair = 4
        self.assertEqual(overhead.bursts_of(workload, aimed, options), 4)
        workload.runs_in_pair = 0
        workload.can_count_spans = False
        self.assertEqual(overhead.bursts_of(workload, aimed, options), 0)

    def test_rows_of_other_workloads_and_tools_are_kept(self):
        measured = [{"workload": w, "tool": t} for w in ("redis", "pgbench") for t in ("none", "perf", "profd")]
        document = {"overhead": {"rows": measured}}
        options = argparse.Namespace(json=__file__, workload=["pgbench"], tool=["profd", "none"])
        with unittest.mock.patch.object(overhead.results, "load", return_value=document):
            kept = overhead.kept_rows(options)
            self.assertEqual(len(kept), 4)
            self.assertIn({"workload": "pgbench", "tool": "perf"}, kept)
            options.tool = None
            self.assertEqual({row["workload"] for row in overhead.kept_rows(options)}, {"redis"})
        names = [(row["workload"], row["tool"]) for row in overhead.in_order(measured)]
        self.assertEqual(names[:3], [("pgbench", "profd"), ("pgbench", "perf"), ("pgbench", "none")])

    def test_segments_without_any_work_are_left_out(self):
        def kept(*segments):
            return overhead.without_stalls(FakeWorkload(), list(segments))

        # Untraced ones are lower case.
        self.assertEqual(kept("a", "B", "c", "D", "e"), ["a", "B", "c", "D", "e"])
        self.assertEqual(kept("a", None, "c", "D", "e"), ["a", "D", "e"])
        self.assertEqual(kept("a", "B", None, "D", "e"), ["a", "B", "e"])
        self.assertEqual(kept(None, "B", "c", "D", "e"), ["c", "D", "e"])
        self.assertEqual(kept("a", "B", "c", "D", None), ["a", "B", "c"])
        with self.assertRaises(overhead.Failed):
            kept("a", None, None, None, "e")

    def test_one_bad_burst_moves_a_pair_by_its_share(self):
        segments = [{"value": value, "cpu": 1, "steal": 0, "others": 0}
                    for value in (100, 100, 100, 50, 100)]
        pair = overhead.make_pair(FakeWorkload(), segments)  # 1 and 1/2
        self.assertAlmostEqual(pair["ratio"], 0.5**0.5)
        self.assertEqual((pair["before"], pair["traced"], pair["after"]), (100, 75, 100))

    def test_spans_are_counted_from_the_log(self):
        workload = workloads.Pgbench.__new__(workloads.Pgbench)
        workload.logged = 0.5
        workload._read_log = lambda: (  # pylint: disable=protected-access
            b"0 1 130 0 100 500000\n3 2 90 0 100 700000\n1 3 99 0 101 0\n1 4 9")
        self.assertEqual(workload.counts([(100, 100.6), (100.6, 101), (101, 102)]), [2, 2, 2])

    def test_pairs_of_a_row_share_no_segment(self):
        for used in (["a"], ["a", "b"], ["a", "b", "c"]):
            _, rows = self.run_rounds([FakeTool(name, 1.0) for name in used], 5, drift=1.0)
            for row in rows.values():
                segments = [pair[key] for pair in row["pairs"]
                            for key in ("before", "traced", "after")]
                self.assertEqual(len(segments), len(set(segments)))

    def test_order_turns(self):
        _, rows = self.run_rounds([FakeTool(name, 1.0) for name in "abc"], 3, drift=1.0)
        first = [min(rows, key=lambda name, n=number: rows[name]["pairs"][n]["traced"])
                 for number in range(3)]
        self.assertEqual(first, ["a", "b", "c"])

    def test_failing_tool_leaves_the_others(self):
        runner, rows = self.run_rounds([FakeTool("bad", 1.0, True), FakeTool("good", 0.9)], 6)
        self.assertEqual(runner.failed, [("bad", "cannot")])
        self.assertEqual(list(rows), ["good"])
        self.assertEqual(len(rows["good"]["ratios"]), 6)

    def test_what_launches_has_runs_of_its_own(self):
        used = [LaunchingTool("slow", 0.4), LaunchingTool("none", 1.0)]
        runner, rows = self.run_rounds(used, 2, kind=overhead.Launches)
        self.assertAlmostEqual(rows["slow"]["median"], 0.4)
        self.assertAlmostEqual(rows["none"]["median"], 1.0)
        self.assertEqual(runner.workload.runs, [None, "slow", None, "none", None,
                                                None, "none", None, "slow", None])
        self.assertIsNone(runner.workload.launcher)

    def test_a_run_that_recorded_nothing_is_no_result(self):
        used = [LaunchingTool("bad", 1.0, fails=True), LaunchingTool("good", 0.9)]
        runner, rows = self.run_rounds(used, 2, kind=overhead.Launches)
        self.assertEqual(runner.failed, [("bad", "recorded nothing")])
        self.assertEqual(list(rows), ["good"])

    def test_each_tool_has_its_runner(self):
        attached, launching = FakeTool("a", 1.0), LaunchingTool("b", 1.0)
        both = overhead.tools_for(workloads.Redis, [attached, launching])
        self.assertEqual(both, {overhead.Runner: [attached], overhead.Launches: [launching]})
        self.assertEqual(overhead.tools_for(workloads.Fio, [launching]),
                         {overhead.Runner: [], overhead.Launches: []})

    def test_launching_counts_in_the_plan(self):
        options = argparse.Namespace(seconds=5, pairs=2, bursts=0, burst_seconds=0.04)
        tool = tools.Heaptrack.__new__(tools.Heaptrack)
        redis = overhead.plan(["redis"], [tool], options)
        self.assertGreater(redis, 2 * 2 * workloads.Redis.restart_seconds)
        self.assertEqual(overhead.plan(["fio"], [tool], options), workloads.Fio.setup_seconds)

    def test_lower_is_better(self):
        workload = FakeWorkload()
        workload.higher_is_better = False
        self.assertAlmostEqual(overhead.ratio_of(workload, 2.0, 1.0), 0.5)

    def test_untraced_segments_are_shorter(self):
        self.assertEqual([overhead.untraced_seconds(n) for n in (1, 5, 10)], [1, 3, 6])


def document(ratios=None, extras=None, points=None, **machine):
    made = {"format": "profd-bench", "version": 1,
            "machine": {"kernel": "6.1", "cpus": 2, "cpu_model": "m", **machine}}
    if ratios:
        made["overhead"] = {"seconds": 5, "rows": [
            {"workload": workload, "tool": tool, "ratios": values, "extras": extras or []}
            for (workload, tool), values in ratios.items()]}
    if points:
        made["scale"] = {"curves": [{"name": "threads", "points": points}]}
    return made


def around(middle, step=0.001, count=9):
    return [middle + (number - count // 2) * step for number in range(count)]


class Compare(unittest.TestCase):
    def verdicts(self, old, new):
        return {(change["where"], change["metric"]): change["verdict"]
                for change in compare.compare(old, new)["changes"]}

    def one(self, old, new):
        (verdict,) = self.verdicts(old, new).values()
        return verdict

    def ratios(self, old, new):
        key = ("pgbench", "profd")
        return self.one(document({key: old}), document({key: new}))

    def test_ratio(self):
        self.assertEqual(self.ratios(around(0.99), around(0.96)), "worse")
        self.assertEqual(self.ratios(around(0.96), around(0.99)), "better")
        self.assertEqual(self.ratios(around(0.99), around(0.99)), "unchanged")

    def test_noise_is_no_change(self):
        self.assertEqual(self.ratios(around(0.99, 0.02), around(0.98, 0.02)), "unchanged")

    def test_a_sure_but_small_change_stays_below_the_floor(self):
        self.assertEqual(self.ratios(around(0.99, 0.0001), around(0.987, 0.0001)), "unchanged")

    def test_what_none_is_off_is_the_floor(self):
        old = document({("p", "profd"): around(0.99), ("p", "none"): around(1.04)})
        new = document({("p", "profd"): around(0.96), ("p", "none"): around(1.0)})
        self.assertEqual(self.one(old, new), "unchanged")

    def test_few_pairs_change_nothing(self):
        self.assertEqual(self.ratios([0.99] * 3, [0.5] * 3), "unchanged")

    def test_memory_of_the_daemon(self):
        def of(size):
            return document({("p", "profd"): around(1)},
                            [{"rss_peak_bytes": size, "cpu": 0.01}] * 9)
        self.assertEqual(self.verdicts(of(30 * MIB), of(34 * MIB))["p, profd", "rss_peak_bytes"],
                         "worse")
        self.assertEqual(self.verdicts(of(30 * MIB), of(32 * MIB))["p, profd", "rss_peak_bytes"],
                         "unchanged")
        # 20 % of little is below the absolute floor.
        self.assertEqual(self.verdicts(of(2 * MIB), of(2.4 * MIB))["p, profd", "rss_peak_bytes"],
                         "unchanged")

    def test_points(self):
        def of(**values):
            return document(points=[{"asked": "max", "x": 17, **values}])
        self.assertEqual(self.one(of(daemon_cpu=0.01), of(daemon_cpu=0.02)), "worse")
        self.assertEqual(self.one(of(daemon_cpu=0.01), of(daemon_cpu=0.012)), "unchanged")
        self.assertEqual(self.one(of(fetch={"p50_ms": 90}), of(fetch={"p50_ms": 30})), "better")
        repeated = [{"values": around(middle, 0.0001)} for middle in (0.01, 0.02)]
        self.assertEqual(self.one(of(daemon_cpu=repeated[0]), of(daemon_cpu=repeated[1])), "worse")

    def test_disturbed_points_are_judged_by_memory_alone(self):
        old = document(points=[{"x": 1, "daemon_cpu": 0.01, "rss_peak_bytes": 30 * MIB}])
        new = document(points=[{"x": 1, "daemon_cpu": 0.5, "rss_peak_bytes": 30 * MIB,
                                "disturbed": True}])
        self.assertEqual(self.verdicts(old, new), {("threads, 1", "rss_peak_bytes"): "unchanged"})
        self.assertTrue(compare.compare(old, new)["notes"])

    def test_rows_in_one_file_are_listed(self):
        old = document({("a", "profd"): around(1), ("b", "profd"): around(1)})
        outcome = compare.compare(old, document({("a", "profd"): around(1)}))
        self.assertEqual(outcome["notes"], ["b, profd: only in the old file"])

    def test_other_machine_is_said(self):
        same = {("a", "profd"): around(1)}
        outcome = compare.compare(document(same), document(same, kernel="6.2"))
        self.assertEqual(outcome["warnings"], ["kernel differs: 6.1 and 6.2"])

    def exit_code(self, old, new, form="text"):
        with tempfile.TemporaryDirectory() as folder:
            paths = []
            for name, content in (("old", old), ("new", new)):
                paths.append(os.path.join(folder, name))
                with open(paths[-1], "w", encoding="utf-8") as file:
                    file.write(content if isinstance(content, str) else json.dumps(content))
            output = io.StringIO()
            with contextlib.redirect_stdout(output), contextlib.redirect_stderr(io.StringIO()):
                code = compare.main(argparse.Namespace(old=paths[0], new=paths[1], format=form))
            return code, output.getvalue()

    def test_exit_codes(self):
        good, bad = (document({("a", "profd"): around(middle)}) for middle in (0.99, 0.9))
        self.assertEqual(self.exit_code(good, good)[0], 0)
        self.assertEqual(self.exit_code(bad, good)[0], 0)
        code, text = self.exit_code(good, bad)
        self.assertEqual(code, 1)
        self.assertIn("worse", text)
        self.assertEqual(json.loads(self.exit_code(good, bad, "json")[1])["counts"]["worse"], 1)

    def test_bad_files(self):
        good = document({("a", "profd"): around(1)})
        row = {"workload": "a", "tool": "profd"}
        for bad in ("", "[]", "{}", "[" * 100000, {**good, "version": 2}, {**good, "overhead": 3},
                    {**good, "overhead": {"rows": [row]}}, {**good, "overhead": {"rows": 5}},
                    {**good, "overhead": {"rows": [{**row, "ratios": ["1"] * 9}]}},
                    {**good, "overhead": {"rows": [{**row, "ratios": [float("nan")]}]}},
                    {**good, "overhead": {"rows": [{**row, "ratios": []}]}},
                    {**good, "scale": {"curves": [{}]}}, document({("b", "x"): around(1)})):
            self.assertEqual(self.exit_code(good, bad)[0], 2, str(bad)[:80])
            self.assertEqual(self.exit_code(bad, good)[0], 2, str(bad)[:80])


class Results(unittest.TestCase):
    def test_a_section_is_replaced_and_the_other_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "r.json")
            results.check_writable(path)
            results.save_section(path, "overhead", {"rows": [1]}, {"kernel": "a"})
            results.save_section(path, "scale", {"curves": []}, {"kernel": "b"})
            results.save_section(path, "overhead", {"rows": [2]}, {"kernel": "c"})
            loaded = results.load(path)
            self.assertEqual(loaded["overhead"], {"machine": {"kernel": "c"}, "rows": [2]})
            self.assertEqual(loaded["scale"]["machine"], {"kernel": "b"})
            self.assertEqual(os.listdir(folder), ["r.json"])

    def test_other_files_are_not_overwritten(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "r.json")
            with open(path, "w", encoding="utf-8") as file:
                file.write('{"precious": 1}')
            with self.assertRaises(results.BadFile):
                results.check_writable(path)
            with self.assertRaises(results.BadFile):
                results.save_section(path, "scale", {}, {})
            with self.assertRaises(results.BadFile):
                results.check_writable(os.path.join(folder, "none", "r.json"))


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
        workload = FakeWorkload()
        workload.launcher = argparse.Namespace(
            command=lambda argv: ["sh", "-c", 'echo "$TOLD $0"', *argv],
            environment={"TOLD": "so"})
        with workload.launch(["program"], stdout=subprocess.PIPE, text=True) as started:
            self.assertEqual(started.communicate()[0], "so program\n")

    def test_spans_of_redis_are_counted_at_their_ends(self):
        workload = workloads.Redis.__new__(workloads.Redis)
        workload.counted = {}
        answers = iter([(1.0, 100), (1.04, 500), (1.1, 700), (1.14, 900)])
        workload._count = lambda: next(answers)  # pylint: disable=protected-access
        instants = [workload.instant() for _ in range(4)]
        self.assertEqual(workload.counts([tuple(instants[:2]), tuple(instants[2:])]), [400, 200])


class Texts(unittest.TestCase):
    def test_durations(self):
        self.assertEqual([progress.duration(n) for n in (0, 89, 600, 3900, 5500)],
                         ["0 s", "89 s", "10 min", "65 min", "1 h 32 min"])

    def test_rust_source_is_balanced_and_grows(self):
        text = workloads.rust_source(3)
        self.assertEqual(text.count("{"), text.count("}"))
        self.assertEqual(text.count("pub mod part"), 3)


if __name__ == "__main__":
    unittest.main()
