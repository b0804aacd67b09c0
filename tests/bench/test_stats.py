#!/usr/bin/env python3
"""The estimate of a ratio and its interval: exact on known values, and of the promised coverage on
synthetic targets whose speed wanders. Nothing is measured."""

import math
import os
import random
import statistics
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from profdbench import stats

TRIALS = 1000
# 95 % of 1,000 experiments, give or take 3.3 standard deviations: had the seed not been fixed, one
# false alarm in a thousand.
MARGIN = 3.3 * math.sqrt(0.95 * 0.05 / TRIALS)


class Target:
    """The speed of a synthetic target, slice by slice."""

    def __init__(self, rng, dependence=0.95, wander=0.1, noise=0.03, drift=0.0005, stalls=0.01,
                 alternating=0.0):
        self.rng, self.dependence, self.wander, self.noise = rng, dependence, wander, noise
        self.drift, self.stalls, self.alternating = drift, stalls, alternating
        self.slow, self.number = rng.gauss(0, wander), 0

    def slice(self):
        self.number += 1
        # An AR(1) process of standard deviation `wander`.
        self.slow = (self.dependence * self.slow + self.rng.gauss(0, self.wander) *
                     math.sqrt(1 - self.dependence**2))
        speed = 1000 * math.exp(self.slow + self.rng.gauss(0, self.noise) +
                                self.drift * self.number + self.alternating * (-1)**self.number)
        return speed * (0.3 if self.rng.random() < self.stalls else 1)


def experiment(rng, effect, pairs, in_random_order=True, **kind):
    """The estimate from `pairs` pairs on a target that has `effect` of its speed under the tool."""
    target, size, blocks = Target(rng, **kind), stats.block_pairs(pairs), []
    for _ in range(pairs // size):
        on, off = [], []
        for _ in range(size):
            for is_on in rng.sample((True, False), 2) if in_random_order else (True, False):
                speed = target.slice()
                (on if is_on else off).append(
                    stats.Work(0.2, 0.2 * speed * (effect if is_on else 1), 0.1))
        blocks.append(stats.Block.of(on, off))
    return stats.estimate([block.speed() for block in blocks])


def coverage(effect, pairs, seed, **kind):
    rng = random.Random(seed)
    held = 0
    for _ in range(TRIALS):
        found = experiment(rng, effect, pairs, **kind)
        held += found.low <= effect <= found.high
    return held / TRIALS


class Coverage(unittest.TestCase):
    def test_of_a_target_whose_speed_wanders_and_drifts(self):
        self.assertAlmostEqual(coverage(0.99, 100, seed=1), 0.95, delta=MARGIN)

    def test_of_a_target_with_short_dependence(self):
        self.assertAlmostEqual(coverage(0.97, 100, seed=2, dependence=0.5), 0.95, delta=MARGIN)

    def test_of_a_quiet_target_without_effect(self):
        self.assertAlmostEqual(coverage(1.0, 60, seed=3, wander=0, drift=0, stalls=0), 0.95,
                               delta=MARGIN)

    def test_of_few_pairs(self):
        self.assertAlmostEqual(coverage(0.9, 25, seed=4), 0.95, delta=MARGIN)

    def test_of_a_disturbance_in_step_with_the_slices(self):
        self.assertAlmostEqual(coverage(0.99, 100, seed=5, alternating=0.02), 0.95, delta=MARGIN)

    def test_a_fixed_order_would_not_do(self):
        self.assertLess(coverage(0.99, 100, seed=5, alternating=0.02, in_random_order=False), 0.5)

    def test_the_estimate_has_no_bias(self):
        rng = random.Random(6)
        found = [math.log(experiment(rng, 0.95, 100).value) for _ in range(300)]
        error = statistics.stdev(found) / math.sqrt(len(found))
        self.assertAlmostEqual(statistics.fmean(found), math.log(0.95), delta=3.3 * error)


class Interval(unittest.TestCase):
    def test_student_t(self):
        self.assertEqual([stats.t95(n) for n in (1, 4, 30)], [12.706, 2.776, 2.042])
        for freedom, known in ((31, 2.0395), (40, 2.0211), (60, 2.0003), (120, 1.9799)):
            self.assertAlmostEqual(stats.t95(freedom), known, delta=0.0005)
        with self.assertRaises(ValueError):
            stats.t95(0)

    def test_known_values(self):
        # Mean 0, standard deviation 0.1, 4 values: half is 3.182 * 0.1 / 2.
        logs = [0.1 * x for x in (-math.sqrt(0.75), -math.sqrt(0.75), math.sqrt(0.75),
                                  math.sqrt(0.75))]
        found = stats.estimate(logs)
        self.assertAlmostEqual(found.value, 1.0)
        self.assertAlmostEqual(found.high, math.exp(3.182 * 0.1 / 2))
        self.assertAlmostEqual(found.low, 1 / found.high)

    def test_one_block_has_no_interval(self):
        self.assertEqual(stats.estimate([math.log(0.9)]).as_list(), [0.9])

    def test_blocks_are_few_and_long(self):
        self.assertEqual([stats.block_pairs(n) for n in (1, 3, 5, 100, 150, 151, 300, 900)],
                         [1, 3, 5, 5, 5, 6, 10, 30])


class Verdict(unittest.TestCase):
    def verdict(self, value, low, high, aim=0.99, pairs=100):
        return stats.verdict(stats.Estimate(value, low, high), aim, pairs)

    def test_is_met_by_the_lower_bound_alone(self):
        self.assertEqual(self.verdict(0.995, 0.99, 1.0), ("met", None))
        self.assertEqual(self.verdict(0.995, 0.9899, 1.0)[0], "not shown")
        self.assertEqual(self.verdict(0.98, 0.975, 0.985), ("missed", None))

    def test_how_many_pairs_are_lacking(self):
        # The half width has to shrink to a half: four times the pairs.
        value = 0.99 * math.exp(0.005)
        told, more = self.verdict(value, value * math.exp(-0.01), 1.01)
        self.assertEqual(told, "not shown")
        self.assertAlmostEqual(more, 300, delta=1)  # rounded up

    def test_pairs_that_were_said_to_be_lacking_are_enough(self):
        rng, enough = random.Random(7), 0
        for _ in range(40):
            first = experiment(rng, 1.0, 60, stalls=0)
            told, more = stats.verdict(first, 0.97, 60)
            if told == "not shown" and more is not None and more < 2000:
                again = experiment(rng, first.value, (60 + more) * 2, stalls=0)
                enough += stats.verdict(again, 0.97, 1)[0] == "met"
            else:
                enough += told == "met"
        self.assertGreaterEqual(enough, 32)

    def test_below_the_aim_no_number_is_enough(self):
        self.assertEqual(self.verdict(0.985, 0.97, 1.0), ("not shown", None))
        self.assertEqual(stats.verdict(stats.Estimate(1.2), 0.99, 1), ("not shown", None))


class Blocks(unittest.TestCase):
    def block(self):
        on = [stats.Work(1, 80, 1.0, [10, 20]), stats.Work(1, 100, 1.0, [30])]
        off = [stats.Work(1, 100, 0.8, [10, 10, 15]), stats.Work(1, 100, 0.8)]
        return stats.Block.of(on, off)

    def test_ratios_of_sums(self):
        self.assertAlmostEqual(math.exp(self.block().speed()), 0.9)
        self.assertAlmostEqual(math.exp(self.block().cpu()), (1.6 / 200) / (2.0 / 180))
        self.assertAlmostEqual(math.exp(self.block().latency(0.5)), 2.0)

    def test_a_slice_without_work_counts(self):
        block = stats.Block.of([stats.Work(1, 0, 0.1), stats.Work(1, 100, 0.1)],
                               [stats.Work(1, 100, 0.1)] * 2)
        self.assertAlmostEqual(math.exp(block.speed()), 0.5)

    def test_latencies_are_told_only_where_there_are_enough(self):
        self.assertNotIn("p99_ratio", stats.summary([self.block()] * 3))
        busy = stats.Block.of([stats.Work(1, 90, 1, [2.0] * 99 + [8.0] * 2)],
                              [stats.Work(1, 100, 1, [1.0] * 99 + [2.0] * 2)])
        found = stats.summary([busy, busy])
        self.assertEqual((found["p50_ratio"][0], found["p99_ratio"][0]), (2.0, 4.0))
        self.assertEqual((found["p50_us"], found["p99_us"]), (1.0, 2.0))
        self.assertEqual(found["untraced"], 100)

    def test_percentile(self):
        self.assertEqual(stats.percentile(list(range(1, 101)), 0.99), 99)
        self.assertEqual(stats.percentile([3], 0.5), 3)


if __name__ == "__main__":
    unittest.main()
