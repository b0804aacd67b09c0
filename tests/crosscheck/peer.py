"""What the comparisons with independent tools share: skips, recordings of perf, and when two shares agree."""

import math
import re
import statistics
import sys
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from tests.harness.daemon import Host
from tests.harness.process import Gone, Process, run
from tests.suite.machine import FACTS

# How often a family of comparisons fails although both tools are right.
FALSE_ALARM = 0.001
HALF_95 = 1.96
START_SECONDS = 60
SCRIPT_SECONDS = 600
WHY = {"root": "kernel programs take privilege to load",
       "disk_requests": "no file in /var/tmp is on a block device",
       "kernel.kallsyms": "functions of the kernel have no addresses",
       "kernel.tracefs": "the kernel has no tracefs, by which perf finds tracepoints"}


def main(test, *facts):
    """The exit status of a test, which gets the build tree's programs; 77: skipped, for lack of a fact of the machine."""
    for fact in ("root", *facts):
        if not FACTS[fact]():
            print(f"skipped: {fact}: {WHY[fact]}")
            return 77
    place = Host(sys.argv[1])
    try:
        test(place)
    finally:
        place.close()
    return 0


@dataclass(frozen=True)
class Share:
    value: float
    error: float = 0.0  # one standard error


def share_error(p, n):
    """Of a share p of n samples, as docs/sampling.md defines it: of a binomial distribution, and never less than Wilson's."""
    z2 = HALF_95 ** 2
    wilson = math.sqrt(p * (1 - p) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    return max(math.sqrt(p * (1 - p) / n), wilson)


def counted(counts):
    """{key: Share} of numbers of samples."""
    total = sum(counts.values())
    return {key: Share(count / total, share_error(count / total, total)) for key, count in counts.items()}


def estimated(answer, key_of, threads):
    """{key: Share} of the time of threads. The stacks of a thread with one key are one share of its samples, and the errors of
    threads add up as variances."""
    shares, variances, every = defaultdict(float), defaultdict(float), 0.0
    for thread in threads:
        samples = answer.samples_of(thread)
        time_ns = sum(sample.value for sample in samples)
        weights, squares = defaultdict(float), 0.0
        for sample in samples:
            weights[key_of(sample)] += sample.raw["weight_ns"] if sample.stack else sample.value
            if sample.stack and sample.raw["ticks"]:
                squares += sample.raw["weight_ns"] ** 2 / sample.raw["ticks"]
        weight = sum(weights.values())
        if time_ns <= 0 or weight <= 0:
            continue
        every += time_ns
        # Without any sample all of it may be anything.
        effective = weight ** 2 / squares if squares else 1
        for key, part in weights.items():
            shares[key] += time_ns * part / weight
            variances[key] += (time_ns * share_error(part / weight, effective)) ** 2
    return {key: Share(value / every, math.sqrt(variances[key]) / every) for key, value in shares.items()}


def sigmas_for(comparisons):
    """How many standard errors the largest of so many differences exceeds but in FALSE_ALARM of all cases (Bonferroni)."""
    return statistics.NormalDist().inv_cdf(1 - FALSE_ALARM / (2 * comparisons))


def sum_limit(comparisons):
    """What the sum of so many squared differences, in standard errors, exceeds but in FALSE_ALARM of all cases: the
    quantile of the chi-squared distribution, by Wilson and Hilferty's approximation."""
    z = statistics.NormalDist().inv_cdf(1 - FALSE_ALARM)
    return comparisons * (1 - 2 / (9 * comparisons) + z * math.sqrt(2 / (9 * comparisons))) ** 3


def compare(what, rows):
    """`rows`: {name: (the tool's Share, profd's)}. Prints them, and returns what disagrees by more than both errors."""
    print(f"\n{what}\n| | tool | profd | difference / error |\n|---|--:|--:|--:|")
    failures, limit, squares = [], sigmas_for(len(rows)), 0.0
    for name, (theirs, ours) in rows.items():
        error = math.hypot(theirs.error, ours.error)
        sigmas = (ours.value - theirs.value) / error if error else math.inf * (ours.value != theirs.value)
        squares += sigmas ** 2
        print(f"| {name} | {theirs.value:.2%} ± {theirs.error:.2%} | {ours.value:.2%} ± {ours.error:.2%} | {sigmas:+.1f} |")
        if abs(sigmas) > limit:
            failures.append(f"{what}: {name}: {theirs.value:.2%} and {ours.value:.2%} are {sigmas:.1f} standard errors apart, "
                            f"should be {limit:.1f} at most")
    print(f"\n{len(rows)} comparisons: the largest may be {limit:.1f}; the sum of squares is {squares:.1f}, may be "
          f"{sum_limit(len(rows)):.1f}")
    if squares > sum_limit(len(rows)):
        failures.append(f"{what}: the sum of squares is {squares:.1f}, should be {sum_limit(len(rows)):.1f} at most")
    return failures


def require(failures):
    if failures:
        raise AssertionError("\n".join(failures))


@dataclass(frozen=True)
class Window:
    """That of an answer, on the clock of recordings, s."""
    begin: float
    end: float

    @staticmethod
    def of(answer):
        offset = time.time_ns() - time.monotonic_ns()
        return Window((answer.begin_ns - offset) / 1e9, (answer.end_ns - offset) / 1e9)

    def has(self, instant):
        return self.begin <= instant < self.end

    def part(self, begin, end):
        """How much of an interval lies in the window, s."""
        return max(0.0, min(end, self.end) - max(begin, self.begin))


class Recording:
    """`perf record`, or another of perf's commands that record, of the whole machine, from now until it is read."""

    def __init__(self, folder, *command):
        self.path = Path(folder, "perf.data")
        # The command that perf starts says that it records, and ends with its input.
        self._process = Process(["perf", *command, "-a", "-k", "CLOCK_MONOTONIC", "-o", self.path, "--",
                                 "sh", "-c", "echo recording; cat >/dev/null"])
        try:
            self._process.line_with("recording", START_SECONDS)
        except Gone:
            self._process.kill()
            raise

    def stop(self):
        code = self._process.end(START_SECONDS)
        if code != 0:
            said = self._process.said()
            self._process.kill()
            raise Gone(f"perf ended with {code}\n{said}")

    def kill(self):
        self._process.kill()

    def lines(self, *command):
        """What a command of perf prints of it. Fails if perf lost a part."""
        code, out, err = run(["perf", *command, "-i", self.path], SCRIPT_SECONDS)
        if code != 0 or re.search(r"lost [1-9]|LOST", err):
            raise Gone(f"perf {' '.join(command)} failed ({code}): {err.strip()}")
        return out.splitlines()
