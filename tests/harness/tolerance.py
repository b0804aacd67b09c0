"""The tolerances that an expectation may name. There are no others.

| name       | holds when                                                                          |
|------------|-------------------------------------------------------------------------------------|
| `exact`    | both numbers are equal                                                              |
| `event`    | the difference is less than one event of the allocator, for each thread: what it    |
|            | allocated before its first event in the window, or since its last (jemalloc tells   |
|            | every 64 KiB; the allocation that passes the mark may add 20 KiB)                   |
| `ledger`   | within 1 %, or 2 ms: what two clocks that are read one after the other may differ   |
| `estimate` | within 3.29 stated standard errors (99.9 % of a normal error), and the stated error |
|            | itself is at most `precision` of the truth, so that a huge error cannot pass        |
| `calibrated` | over all repeats of the query: the stated 95 % intervals hold the truth as often  |
|            | as a right product's do but for one run in 1,000 (binomial), and the sums over the  |
|            | repeats are within 3.29 of their errors, which are at most `precision` of the truth |

`estimate` is statistical: a right product fails one comparison in 1,000. The runner therefore
repeats a scenario in which nothing but estimates failed, twice, and reports a failure when two runs
of three failed: a false alarm once in some 300,000 comparisons. All other failures count at once.
"""

import math
import os
from dataclasses import dataclass

LEDGER_SHARE = 0.01
LEDGER_FLOOR_NS = 2_000_000
IDENTITY_SHARE = 0.001
IDENTITY_FLOOR_NS = 1_000
# A thread's time before and after it measures itself, besides what it waited for a CPU.
UNMEASURED_NS = 50_000_000
# If the kernel does not trust the TSC, the scheduler has a clock for each CPU, which follows that CPU's ticks. Two of
# these clocks may be two ticks apart. When a thread changes its CPU, profd then reports that much too much of one
# time and too little of another. Debian's kernels tick every 4 ms.
CLOCKS_APART_NS = 8_000_000
EVENT_BYTES = 65_536 + 20_480
# The kernel counts a process's pages by CPU and adds them up when a CPU has 64: two readings of one
# state may differ by that.
PAGE_COUNT_BYTES = 64 * 4096 * (os.cpu_count() or 1)
SIGMAS = 3.29

HALF_95 = 1.96
FALSE_ALARM = 0.001

NAMES = ("exact", "event", "ledger", "estimate", "calibrated")


@dataclass(frozen=True)
class Failure:
    text: str
    statistical: bool = False


def between(what, low, value, high):
    """In ns, with the tolerance of the ledger on either side."""
    slack = max(LEDGER_SHARE * abs(value), LEDGER_FLOOR_NS)
    if low - slack <= value <= high + slack:
        return []
    return [Failure(f"{what}: {value / 1e6:.2f} ms, should be {low / 1e6:.2f} to {high / 1e6:.2f} ms")]


def compare(what, value, truth, within, *, error=0.0, precision=None, events=1):
    """`value` is profd's, with its standard error; `events` is the number of threads for `event`."""
    if within == "exact":
        return [] if value == truth else [Failure(f"{what}: {value}, should be {truth}")]
    if within == "event":
        if abs(value - truth) <= events * EVENT_BYTES:
            return []
        return [Failure(f"{what}: {value}, should be {truth} to within {events * EVENT_BYTES}")]
    if within == "ledger":
        return between(what, truth, value, truth)
    if within not in ("estimate", "calibrated"):
        raise ValueError(f"there is no tolerance '{within}'")
    failures = []
    if precision is not None and error > precision * abs(truth):
        failures.append(Failure(f"{what}: its stated error is {error:.0f}, more than "
                                f"{precision:.0%} of {truth:.0f}", statistical=True))
    if abs(value - truth) > SIGMAS * error:
        sigmas = abs(value - truth) / error if error else math.inf
        failures.append(Failure(f"{what}: {value:.0f}, should be {truth:.0f}; that is {sigmas:.1f} "
                                f"of its stated errors ({error:.0f})", statistical=True))
    return failures


def least_hits(cases, chance=0.95):
    """The fewest of so many cases, each of which holds with this chance, that hold but once in 1,000 runs."""
    below = 0.0
    for hits in range(cases + 1):
        # By logarithms: the coefficients of some thousand cases are too large for a float.
        below += math.exp(math.lgamma(cases + 1) - math.lgamma(hits + 1) - math.lgamma(cases - hits + 1)
                          + hits * math.log(chance) + (cases - hits) * math.log(1 - chance))
        if below > FALSE_ALARM:
            return hits
    return cases


def calibrated(what, cases, precision):
    """`cases`: {place: [(value, truth, error)]}, one for each repeat."""
    failures, hits, every = [], 0, 0
    for place, windows in cases.items():
        every += len(windows)
        hits += sum(abs(value - truth) <= HALF_95 * error for value, truth, error in windows)
        failures += compare(f"{what} {place}, all {len(windows)} windows",
                            sum(value for value, _, _ in windows), sum(truth for _, truth, _ in windows),
                            "estimate", precision=precision,
                            error=math.sqrt(sum(error ** 2 for _, _, error in windows)))
    if hits < least_hits(every):
        failures.append(Failure(f"{what}: {hits} of {every} intervals of 95 % hold the truth, should be "
                                f"{least_hits(every)} at least", statistical=True))
    return failures
