"""The part of the page on how right the estimates are."""

import math

from profdbench.accuracy import CASES, LOADS
from profdbench.markdown import amount, ordered, percent, table

ABOUT = {
    "waits": "waits of a thread that sleeps at two places",
    "malloc": "bytes by place, glibc's malloc",
    "jemalloc": "bytes by place, jemalloc",
}
LOAD = {"none": "none", "switches": "100,000 switches/s"}
PROMISED = 0.95
CHANCE = 0.01


def rows_of(lines):
    return ordered([line for line in lines if line["kind"] == "accuracy"],
                   ("case", list(CASES)), ("load", list(LOADS)))


def state(row):
    off = ", ".join(name if share == 1 else f"{name} {share:.0%}"
                    for name, share in row["off"].items())
    return [off or "nothing", f"{row['tick_ms']:.0f} ms"]


def verdicts(lines):
    """A sentence a kind of estimate under load, on the worst of its places."""
    found = []
    rows = [row for row in rows_of(lines) if row["load"] != "none"]
    for case in dict.fromkeys(row["case"] for row in rows):
        worst = max((row for row in rows if row["case"] == case),
                    key=lambda row: abs(row["ratio"][0] - 1))
        off, tick = state(worst)
        hits = sum(row["contained"] for row in rows if row["case"] == case)
        runs = sum(row["runs"] for row in rows if row["case"] == case)
        found.append(f"- **Accuracy under load**, {ABOUT.get(case, case)} (switched off: {off}; "
                     f"sampling every {tick}): the stated 95 % interval held the truth {hits} "
                     f"times of {runs}; worst place `{worst['site']}`, estimate / truth "
                     f"{worst['ratio'][0]:.3f} on average.")
    return found


def section(lines):
    rows = rows_of(lines)
    if not rows:
        return []
    return [
        "## Accuracy when something is switched off", "",
        "Targets that measure the truth themselves, under profd with its default budget, with and "
        "without a second target whose context switches force profd to give something up. "
        "*Estimate / truth* is the mean over the runs, with minimum and maximum. *Stated* is half "
        "the answer's 95 % interval, as a share of the estimate. *Held* is the number of runs whose "
        "interval contained the truth; 95 % are promised. Bold marks results with a probability "
        "below 1 % if that promise holds.", "",
        *table(["what", "place", "load", "switched off", "sampled every", "truth",
                "estimate / truth", "stated", "held"],
               [[ABOUT.get(row["case"], row["case"]), row["site"],
                 LOAD.get(row["load"], row["load"]), *state(row),
                 f"{amount(row['truth'])} {row['unit']}",
                 f"{row['ratio'][0]:.3f} ({row['ratio'][1]:.3f} to {row['ratio'][2]:.3f})",
                 f"± {percent(row['stated'], 1)}", held(row)] for row in rows], left=5)]


def too_few(contained, runs):
    """Whether chance explains so few in less than one case of a hundred, if the interval keeps its
    promise: the lower tail of the binomial distribution."""
    tail = sum(math.comb(runs, k) * PROMISED**k * (1 - PROMISED)**(runs - k)
               for k in range(contained + 1))
    return tail < CHANCE


def held(row):
    text = f"{row['contained']} of {row['runs']}"
    return f"**{text}**" if too_few(row["contained"], row["runs"]) else text
