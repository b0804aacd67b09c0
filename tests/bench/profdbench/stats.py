"""The statistics of a ratio: from the work done in slices to an estimate with a 95 % interval.

A *pair* is two adjacent slices of equal length, one with the tool on and one with it off, in random
order. A *block* is a run of consecutive pairs. Its value is the logarithm of a ratio of sums:

    log( work in the slices with the tool on / work in those without )

The estimate is the exponential of the mean of the blocks' values; its interval is Student's t on
these values. Two things make that right although neighbouring slices resemble each other:

  - the order within a pair is random, so what drifts more slowly than a pair adds to the one side
    as often as to the other: it becomes noise that is independent from pair to pair;
  - blocks are long, so what is left of the dependence reaches only across their borders. The mean
    of many pairs is near to normal whatever the noise of one is.

Sums, not means of ratios, so a slice in which everything stood still counts for what it is and
nothing has to be left out. A percentile of latency is compared in the same way: its value in the
slices of a block with the tool on, over that in those without. test_stats.py measures the coverage
of the interval on synthetic data with drift, dependence, bursts of noise, and a known effect.
"""

import dataclasses
import math
import statistics

# Two-sided 95 % points of Student's t by degrees of freedom, 1 to 30.
_T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
        2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
        2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042)
_Z95 = statistics.NormalDist().inv_cdf(0.975)
MOST_BLOCKS = 30
LEAST_PAIRS_IN_BLOCK = 5


def t95(freedom):
    """The factor of a two-sided 95 % interval with that many degrees of freedom."""
    if freedom < 1:
        raise ValueError("an interval needs two values")
    if freedom <= len(_T95):
        return _T95[freedom - 1]
    # Abramowitz and Stegun 26.7.5, two terms: right to 0.001 from 30 on.
    z = _Z95
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def block_pairs(pairs):
    """How many pairs make a block, so that there are at most MOST_BLOCKS of at least
    LEAST_PAIRS_IN_BLOCK pairs each."""
    return max(min(LEAST_PAIRS_IN_BLOCK, pairs), math.ceil(pairs / MOST_BLOCKS))


@dataclasses.dataclass
class Estimate:
    """A ratio with its 95 % interval; without one (`low` is None) where there is one value."""
    value: float
    low: float = None
    high: float = None

    def as_list(self):
        return [round(number, 5) for number in (self.value, self.low, self.high)
                if number is not None]

    @staticmethod
    def of_list(numbers):
        return Estimate(*numbers)


def estimate(logs):
    """The Estimate from the logarithms of independent ratios, one a block."""
    mean = statistics.fmean(logs)
    if len(logs) < 2:
        return Estimate(math.exp(mean))
    half = t95(len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    return Estimate(math.exp(mean), math.exp(mean - half), math.exp(mean + half))


def mean(values):
    """The Estimate of the mean of independent values."""
    centre = statistics.fmean(values)
    if len(values) < 2:
        return Estimate(centre)
    half = t95(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return Estimate(centre, centre - half, centre + half)


def cost_verdict(cost, aim):
    """"met" where the whole interval of an Estimate is at or below the aim, "missed" where all of it is
    above, else "not shown"."""
    if cost.low is None:
        return "not shown"
    return "met" if cost.high <= aim else "missed" if cost.low > aim else "not shown"


def verdict(ratio, aim, pairs):
    """("met" | "not shown" | "missed", pairs that are lacking or None) of an Estimate.

    Met only where the whole interval is at or above the aim, missed where all of it is below.
    Otherwise it is not shown; the interval shrinks with the root of the number of pairs, so from
    its width follows how many more it takes if the estimate stays where it is. None where that is
    below the aim (then no number of pairs shows that it is met) or where there is no interval.
    """
    if ratio.low is None:
        return "not shown", None
    if ratio.low >= aim:
        return "met", None
    if ratio.high < aim:
        return "missed", None
    room = math.log(ratio.value / aim)
    if room <= 0:
        return "not shown", None
    half = math.log(ratio.value / ratio.low)
    return "not shown", max(1, math.ceil(pairs * ((half / room)**2 - 1)))


def percentile(values, share):
    """The smallest value that at least `share` (0 to 1) of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


@dataclasses.dataclass
class Work:
    """What was done in a slice: `amount` of work in `seconds`, for which the watched processes used
    `cpu` seconds; `latencies` in microseconds of some of its requests, where they are known."""
    seconds: float
    amount: float
    cpu: float
    latencies: list = dataclasses.field(default_factory=list)


def _total(works):
    return Work(sum(work.seconds for work in works), sum(work.amount for work in works),
                sum(work.cpu for work in works),
                [one for work in works for one in work.latencies])


@dataclasses.dataclass
class Block:
    """The totals of a block's slices with the tool on and off."""
    on: Work
    off: Work

    @staticmethod
    def of(on, off):
        """From the Work of each slice."""
        return Block(_total(on), _total(off))

    def speed(self):
        """log(speed with the tool on / speed without)."""
        return math.log(self.on.amount / self.on.seconds) - math.log(
            self.off.amount / self.off.seconds)

    def cpu(self):
        """log(CPU for a unit of work without / with): below 0 where the tool costs."""
        return math.log(self.off.cpu / self.off.amount) - math.log(self.on.cpu / self.on.amount)

    def latency(self, share):
        """log(percentile with the tool on / without): above 0 where the tool costs."""
        return math.log(percentile(self.on.latencies, share)) - math.log(
            percentile(self.off.latencies, share))


LEAST_LATENCIES = 100  # in each half of a block, for a 99th percentile to mean anything


def summary(blocks):
    """What a row says of its blocks: ratios as lists [value, low, high], and absolute values."""
    found = {"untraced": statistics.fmean(block.off.amount / block.off.seconds
                                          for block in blocks),
             "ratio": estimate([block.speed() for block in blocks]).as_list(),
             "cpu_ratio": estimate([block.cpu() for block in blocks]).as_list()}
    if all(min(len(block.on.latencies), len(block.off.latencies)) >= LEAST_LATENCIES
           for block in blocks):
        for name, share in (("p50", 0.5), ("p99", 0.99)):
            found[f"{name}_us"] = statistics.fmean(percentile(block.off.latencies, share)
                                                   for block in blocks)
            found[f"{name}_ratio"] = estimate([block.latency(share)
                                               for block in blocks]).as_list()
    return found
