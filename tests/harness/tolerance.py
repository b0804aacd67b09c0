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

`estimate` is statistical: a right product fails one comparison in 1,000. The runner therefore
repeats a scenario in which nothing but estimates failed, twice, and reports a failure when two runs
of three failed: a false alarm once in some 300,000 comparisons. All other failures count at once.
"""

import math
from dataclasses import dataclass

LEDGER_SHARE = 0.01
LEDGER_FLOOR_NS = 2_000_000
IDENTITY_SHARE = 0.001
IDENTITY_FLOOR_NS = 1_000
# A thread's time before and after it measures itself, besides what it waited for a CPU.
UNMEASURED_NS = 50_000_000
EVENT_BYTES = 65_536 + 20_480
SIGMAS = 3.29

NAMES = ("exact", "event", "ledger", "estimate")


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
    if within != "estimate":
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
