#!/usr/bin/env python3
"""What `bench accuracy` makes of a target's report and of profd's answer, on made-up ones."""

import argparse
import os
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from profdbench import accuracy

PROFILE = {
    "frames": [{"function": "clock_nanosleep"}, {"function": "waiter::two_paths::LongPath(int)"},
               {"function": "waiter::two_paths::ShortPath(int)"}, {"function": "NotLongPathAtAll"}],
    "stacks": [{"frames": [0, 1]}, {"frames": [0, 2]}, {"frames": [0, 3]}],
    "samples": [{"stack": 0, "time_ns": "3000", "error_ns": "30"},
                {"stack": 0, "time_ns": 1000, "error_ns": 40},
                {"stack": 1, "time_ns": 500, "error_ns": 5},
                {"stack": 2, "time_ns": 9, "error_ns": 9},
                {"stack": None, "time_ns": 70, "error_ns": 0}],
}
REPORT = {"wall_offset_ns": 1000, "threads": [
    {"wait_wall_ns": 1000, "wait_cpu_ns": 100,
     "waits": [[0, 100, 1], [100, 300, 2], [300, 700, 1], [700, 1000, 2]]}]}


class Sites(unittest.TestCase):
    def test_samples_with_the_site_are_summed(self):
        found = accuracy.at_sites(PROFILE, ["LongPath", "ShortPath", "None"], "time_ns", "error_ns")
        self.assertEqual((found["LongPath"].value, found["LongPath"].error), (4000, 50))
        self.assertEqual(found["ShortPath"].value, 500)
        self.assertEqual(found["None"].value, 0)

    def test_waits_are_cut_at_the_window(self):
        whole = accuracy.waits_truth(REPORT, 0, 10_000)
        self.assertAlmostEqual(whole["LongPath"], 500e-9 * 0.9)
        self.assertAlmostEqual(whole["ShortPath"], 500e-9 * 0.9)
        part = accuracy.waits_truth(REPORT, 1050, 1350)
        self.assertAlmostEqual(part["LongPath"], 100e-9 * 0.9)
        self.assertAlmostEqual(part["ShortPath"], 200e-9 * 0.9)


class Outcomes(unittest.TestCase):
    def test_the_stated_interval_is_that_of_95_percent(self):
        def held(truth, slack=0.0):
            return accuracy.outcome(truth, accuracy.Estimate(100, 10), slack)["contained"]
        self.assertTrue(held(119.5))
        self.assertFalse(held(119.7))
        self.assertTrue(held(80.5))
        self.assertTrue(held(119.7, slack=0.2))
        found = accuracy.outcome(80, accuracy.Estimate(100, 10))
        self.assertEqual(found["ratio"], 1.25)
        self.assertAlmostEqual(found["stated"], 0.196, delta=1e-4)

    def test_an_estimate_of_nothing_is_wrong(self):
        found = accuracy.outcome(80, accuracy.Estimate(0, 0))
        self.assertEqual((found["ratio"], found["contained"]), (0, False))

    def test_a_row_counts_its_runs(self):
        calm = {"tick_ms": 10, "off": [], "levels": {}}
        shed = {"tick_ms": 40, "off": ["switch"], "levels": {"tick": 5, "switch": 1}}
        runs = [({"ratio": 0.9, "stated": 0.1, "contained": True}, 10.0, [calm, shed]),
                ({"ratio": 1.3, "stated": 0.2, "contained": False}, 14.0, [shed, shed])]
        row = accuracy.row_of("waits", "switches", "LongPath", runs, {"commit": "abc"},
                              argparse.Namespace(seconds=10))
        self.assertEqual((row["runs"], row["contained"], row["truth"]), (2, 1, 12.0))
        self.assertAlmostEqual(row["ratio"][0], 1.1)
        self.assertEqual(row["ratio"][1:], [0.9, 1.3])
        self.assertAlmostEqual(row["stated"], 0.15)
        self.assertEqual((row["off"], row["tick_ms"]), ({"switch": 0.75}, 40))
        self.assertEqual(accuracy.headline(row),
                         "waits, LongPath, load switches (switched off: switch (75% of the time); "
                         "sampling every 40 ms): estimate / truth 1.100 (0.900 to 1.300), stated "
                         "±15.0%, truth in the stated interval in 1 of 2 runs")

    def test_rare_bursts_get_longer_windows(self):
        options = argparse.Namespace(build="b", runs=20, seconds=10)
        self.assertEqual(vars(accuracy.sized("waits", options)),
                         {"build": "b", "runs": 20, "seconds": 10})
        self.assertEqual(vars(accuracy.sized("malloc", options)),
                         {"build": "b", "runs": 4, "seconds": 60})


if __name__ == "__main__":
    unittest.main()
