"""Two phases of known difference, over and over: what `profctl diff` says has changed between them.

In every other phase one of seven threads sleeps longer in one place and shorter in another. A round
compares two phases of its own. It is right if these places are listed, and nothing whose time did
not change, by the target's own account: on a busy machine, times in other places may really change.
profd states that it lists anything else in 5 of 100 comparisons at most. So many wrong rounds are
allowed that this test fails once in 1,000 runs if exactly 5 of 100 are wrong. Ten rounds show little
of that; but they show whether the stated errors are right: the differences of unchanged rows, in
standard errors, may have a spread that is exceeded once in 1,000 runs.
"""

import argparse
import json
import math
import statistics
import sys
import time
from pathlib import Path

from tests.harness.daemon import Daemon, Host, instant
from tests.harness.process import Gone

STATED = 0.05
FALSE_ALARMS = 0.001
# Smaller changes are not listed, as a share of the larger total.
LEAST_CHANGE = 0.005
THREADS = ("changing", "steady-a", "steady-b", "steady-c", "steady-d", "steady-e", "steady-f")
PLACES = ("FirstPlace", "SecondPlace")


def most_wrong(rounds):
    """The least number that is exceeded less often than FALSE_ALARMS if STATED of the rounds are wrong."""
    exceeded = 1.0
    for wrong in range(rounds + 1):
        exceeded -= math.comb(rounds, wrong) * STATED**wrong * (1 - STATED)**(rounds - wrong)
        if exceeded < FALSE_ALARMS:
            return wrong
    return rounds


def most_spread(rounds):
    """Of the z of unchanged rows. The two places of a thread are complementary, so they count as one."""
    count = rounds * (len(THREADS) - 1)
    term = 2 / (9 * count)  # of Wilson's and Hilferty's approximation to the chi-squared distribution
    return math.sqrt((1 - term + statistics.NormalDist().inv_cdf(1 - FALSE_ALARMS) * math.sqrt(term))**3)


class Account:
    """What the target says at the begin and at the end of a phase: time asked for, by thread and place."""

    def __init__(self, line):
        words = [int(word) for word in line.split()[1:]]
        self.phase, self.time_ns = words[:2]
        self.asked = dict(zip(((thread, place) for thread in THREADS for place in PLACES), words[2:], strict=True))

    def rates(self, begin):
        """ns per second since `begin`."""
        return {key: (self.asked[key] - begin.asked[key]) * 1e9 / (self.time_ns - begin.time_ns) for key in self.asked}


def place_of(row):
    thread = row["group"].partition("/")[2]
    place = next((place for place in PLACES if any(place in frame for frame in row["frames"])), None)
    return (thread, place)


def judge(answer, before, after, unchanged):
    """What is wrong with a comparison, as text; nothing if it is right. Adds to `unchanged` the z of these rows."""
    least = LEAST_CHANGE * max(answer["a"]["total"], answer["b"]["total"])
    wrong = []
    for row in answer["rows"]:
        key = place_of(row)
        if key in before and abs(after[key] - before[key]) < least:
            unchanged.append(row["z"])
    told = set()
    for row in answer["rows"]:
        if not row["changed"]:
            continue
        key = place_of(row)
        truth = after.get(key, 0) - before.get(key, 0)
        text = f"{key} changed by {truth / 1e6:+.1f} ms/s, not {row['change'] / 1e6:+.1f} ms/s (z {row['z']:.1f})"
        if key[0] == "changing" and key in before:
            told.add(key)
            if row["change"] * truth <= 0:
                wrong.append(text)
        elif abs(truth) < least:
            wrong.append(text)
    wrong += [f"{key} is not listed" for key in before if key[0] == "changing" and key not in told]
    return wrong


class Phases:
    def __init__(self, daemon, target):
        self._daemon, self._target = daemon, target
        self._pid = target.line_with("ready", 60).split()[1]
        time.sleep(2)  # until it is attached
        target.write("go\n")
        self._begin = Account(target.line_with("phase", 60))

    def _edge(self):
        """A drain, and when it was: a window that begins or ends here is exact."""
        return self._daemon.json("fetch", "--target", self._pid, "--since", "1s", "-o", "-")["header"]["end_ns"]

    def next(self, seconds):
        """The window of a phase, and the target's account of it."""
        begin = self._edge()
        time.sleep(seconds)
        end = self._edge()
        self._target.write("\n")
        rates = Account(self._target.line_with("phase", 60)).rates(self._begin)
        self._target.write("\n")
        line = self._target.line(60)
        if line.startswith("phase"):
            self._begin = Account(line)
        return f"{instant(begin)}..{instant(end)}", rates

    def compare(self, a, b):
        code, out, error = self._daemon.profctl("diff", "--target", self._pid, "--reason", "sleep", "--idle",
                                                "--format", "json", a, b)
        if code != 0:
            raise Gone(f"diff: {error.strip()}")
        return json.loads(out)


def main():
    parser = argparse.ArgumentParser(prog="python3 -m tests.endurance.phases", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=Path("build/tests"))
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=1.0, help="length of a phase")
    arguments = parser.parse_args()
    place = Host(arguments.build)
    target = place.target(["waiter", "phases", str(2 * arguments.rounds)], {})
    # An interval that varies with the load would say nothing about the test of the numbers.
    daemon = Daemon(place, ["--budget", "off"], [target.pid])
    wrong, unchanged = [], []
    try:
        phases = Phases(daemon, target)
        for number in range(1, arguments.rounds + 1):
            a, before = phases.next(arguments.seconds)
            b, after = phases.next(arguments.seconds)
            found = judge(phases.compare(a, b), before, after, unchanged)
            if found:
                wrong.append(number)
                print(f"round {number}: {'; '.join(found)}")
    except Gone as error:
        print(f"FAIL {error}")
        return 1
    finally:
        daemon.kill()
        target.kill()
        place.close()
    spread = math.sqrt(sum(z * z for z in unchanged) / max(len(unchanged), 1))
    widest = most_spread(arguments.rounds)
    print(f"errors of {len(unchanged)} unchanged rows are {spread:.2f} of the stated ones, at most {widest:.2f} are right")
    most = most_wrong(arguments.rounds)
    print(f"{arguments.rounds - len(wrong)} of {arguments.rounds} rounds are right; {most} may be wrong")
    if len(wrong) > most:
        print("FAIL more comparisons are wrong than profd states")
        return 1
    if not unchanged or spread > widest:
        print("FAIL the stated errors are too small")
        return 1
    print("ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())
