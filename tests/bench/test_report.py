#!/usr/bin/env python3
"""docs/performance.md is what `bench report` makes of docs/performance/results.json; plots have
sensible ticks and are XML that needs nothing from elsewhere."""

import os
import re
import sys
import tempfile
import unittest
import xml.etree.ElementTree

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True

from profdbench import plot, report  # after the path is set

DOCS = os.path.join(os.path.dirname(os.path.dirname(HERE)), "docs")
RESULTS = os.path.join(DOCS, "performance", "results.json")


def read(path):
    with open(path, "rb") as file:
        return file.read()


class Page(unittest.TestCase):
    @unittest.skipUnless(os.path.exists(RESULTS), "no docs/performance/results.json yet")
    def test_is_what_the_numbers_say(self):
        with tempfile.TemporaryDirectory() as out:
            report.write(RESULTS, out)
            made = os.path.join(out, "performance")
            self.assertEqual(read(os.path.join(out, "performance.md")),
                             read(os.path.join(DOCS, "performance.md")),
                             "run tests/bench/bench report docs/performance/results.json")
            self.assertEqual(sorted(os.listdir(made)),
                             sorted(os.listdir(os.path.join(DOCS, "performance"))))
            for name in os.listdir(made):
                self.assertEqual(read(os.path.join(made, name)),
                                 read(os.path.join(DOCS, "performance", name)), name)


def point(x, **changes):
    result = {
        "x": x, "threads": x, "entries": x, "daemon_cpu": 0.01, "tick_cpu": 0.008,
        "drain_cpu": 0.001, "drain_ms": 1.0, "rss_peak_bytes": 20 << 20,
        "rss_quiet_bytes": 19 << 20, "kernel_map_bytes": 9 << 20, "store_bytes": 1 << 20,
        "fetch": {"p50_ms": 20.0, "p99_ms": 30.0, "n": 25},
        "status_call": {"p50_ms": 10.0, "p99_ms": 11.0, "n": 25}, "tick_interval_ms": 10.0,
        "ticks": 99, "ticks_missed": 1, "in_path_ns_per_s": 5e5, "startup_s": 0.3,
        "losses": {}, "layers_on": ["books", "switch", "tick"], "over": [], "disturbed": False}
    result.update(changes)
    return result


def document(**scale):
    machine = {"kernel": "6.1.0", "arch": "x86_64", "cpus": 2, "cpu_model": "CPU",
               "memory_bytes": 1 << 34, "load_before": 0.1, "date": "2026-01-02T03:04:05+00:00"}
    return {"format": "profd-bench", "version": 1, "machine": machine,
            "overhead": {"machine": machine, "pairs": 15, "seconds": 5, "skipped": [], "rows": [
                {"workload": "pgbench", "tool": "profd", "unit": "tps", "untraced": 2e4,
                 "ratios": [0.98] * 15, "median": 0.98, "min": 0.97, "max": 0.99,
                 "quartiles": [0.975, 0.985], "interval": [0.975, 0.985, 0.96], "aim": 0.99,
                 "bursts": 200, "burst_seconds": 0.04, "seconds": 2}]},
            "scale": {"machine": machine, "seconds": 8, "fetches": 25, "all_layers": False,
                      "limits": {"rss_peak_bytes": 64 << 20, "kernel_map_bytes": 64 << 20},
                      "failures": [], "curves": [{
                          "name": "threads", "title": "Idle threads", "axis": "threads",
                          "points": [point(10), point(5000, **scale)]}]}}


class Report(unittest.TestCase):
    def test_says_what_was_missed(self):
        text, images = report.render(document(rss_peak_bytes=70 << 20, over=["rss_peak_bytes"]))
        self.assertIn("0.980 (95 % interval 0.975 to 0.985): **missed**", text)
        self.assertIn("| 15 of 200 x 0.04 s |", text)
        self.assertIn("**exceeded**: peak RSS 70.0 MiB at 5,000 threads", text)
        self.assertEqual(sorted(images), ["drain.svg", "overhead.svg", "threads.svg"])

    def test_tools_that_launch_are_named_and_explained(self):
        made = document()
        text, _ = report.render(made)
        self.assertNotIn("whole runs", text)
        rows = made["overhead"]["rows"]
        rows.append({**rows[0], "workload": "redis", "tool": "jeprof", "aim": None, "bursts": 0})
        rows.append({**rows[0], "workload": "redis", "tool": "heaptrack", "aim": None,
                     "median": 0.5, "bursts": 0})
        text, _ = report.render(made)
        self.assertIn("| redis | jemalloc's profiling |", text)
        self.assertIn("| redis | heaptrack | 20,000 tps | 0.500 |", text)
        self.assertIn("ratios of whole runs", text)
        self.assertEqual(text.count("aim at least"), 1)

    def test_rows_of_another_run_are_named(self):
        made = document()
        rows = made["overhead"]["rows"]
        rows[0]["run"] = "2026-01-02 03:04"
        rows.append({**rows[0], "tool": "perf", "aim": None})
        self.assertNotIn("run of its own", report.render(made)[0])
        rows.append({**rows[0], "tool": "none", "aim": None, "run": "2026-01-02 05:00"})
        self.assertIn("- **pgbench**: measured in a run of its own, 2026-01-02 05:00 UTC: nothing (noise).",
                      report.render(made)[0])

    def test_is_deterministic_and_says_that_it_is_generated(self):
        text, images = report.render(document())
        self.assertEqual((text, images), report.render(document()))
        self.assertIn("Generated", text.split("\n", 1)[0])
        self.assertIn("held at every point", text)

    def test_every_image_is_linked(self):
        text, images = report.render(document())
        self.assertEqual(sorted(re.findall(r"performance/([a-z]+\.svg)", text)), sorted(images))


class Plot(unittest.TestCase):
    def test_linear_ticks_are_round_and_enclose(self):
        self.assertEqual(plot.linear_ticks(0, 100, 5), [0, 20, 40, 60, 80, 100])
        self.assertEqual(plot.linear_ticks(0.62, 1.01, 4), [0.6, 0.7, 0.8, 0.9, 1.0, 1.1])
        for high in (1e-6, 0.03, 7, 63.9, 64, 12345, 8e9):
            ticks = plot.linear_ticks(0, high)
            self.assertLessEqual(ticks[0], 0)
            self.assertGreaterEqual(ticks[-1], high * 0.999)
            self.assertIn(len(ticks), range(3, 9), high)

    def test_linear_ticks_of_a_single_value(self):
        self.assertGreater(len(plot.linear_ticks(5, 5)), 1)
        self.assertGreater(len(plot.linear_ticks(0, 0)), 1)

    def test_log_ticks_are_decades_or_finer(self):
        self.assertEqual(plot.log_ticks(10, 100_000), [10, 100, 1000, 10_000, 100_000])
        self.assertEqual(plot.log_ticks(999, 1_001_000), [1000, 10_000, 100_000, 1e6])
        self.assertEqual(plot.log_ticks(10, 60), [10, 20, 50, 100])
        for low, high in ((1, 1), (10, 120), (3, 40), (999, 9e5), (0.05, 3e3), (7, 7)):
            ticks = plot.log_ticks(low, high)
            self.assertLessEqual(ticks[0], low * 1.01)
            self.assertGreaterEqual(ticks[-1], high / 1.01)
            self.assertGreater(len(ticks), 1)

    def test_log_ticks_need_positive_values(self):
        with self.assertRaises(ValueError):
            plot.log_ticks(0, 5)

    def test_tick_text_is_short(self):
        self.assertEqual([plot.tick_text(v) for v in (0, 0.25, 40, 1000, 2500, 1e6)],
                         ["0", "0.25", "40", "1 k", "2.5 k", "1 M"])

    def test_svg_stands_alone_and_escapes(self):
        text = plot.lines("a < b & c", [plot.Panel("t", "x", "y", [
            plot.Series('"s"', [(1, 0), (1000, 5)], [(0, 1), (4, 6)])], x_log=True, y_log=True)])
        xml.etree.ElementTree.fromstring(text)
        self.assertNotIn("href", text)
        self.assertEqual(re.findall(r"https?://[^\"]+", text), ["http://www.w3.org/2000/svg"])

    def test_ratio_rows_all_appear(self):
        text = plot.ratios("r", [plot.Ratio("pgbench", "profd", 0.99, 0.98, 1.0, 0.99),
                                 plot.Ratio("pipe", "perf", 0.4, 0.39, 0.41)], "ratio")
        xml.etree.ElementTree.fromstring(text)
        self.assertIn("0.990 [0.980, 1.000]", text)
        self.assertIn("0.400 [0.390, 0.410]", text)


if __name__ == "__main__":
    unittest.main()
