#!/usr/bin/env python3
"""The table of docs/kernels.md, from what scenarios observed; or checks the page against it.

RESULTS are files of JSON lines that `python3 -m tests.harness --results` and `tests/vm/run --results`
wrote. With --check, every kernel of the page's table must have run (guests that were asked for), every
guest that ran must be in the table, none of its scenarios may have failed, and nothing may have been
lost that the table does not name, but for harmless losses: those depend on how busy the machine was.
A machine whose own kernel is not in the table is left out.
"""

import argparse
import json
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from tests.harness.checks import HARMLESS_LOSSES  # pylint: disable=wrong-import-position

PAGE = Path(__file__).resolve().parent.parent.parent / "docs/kernels.md"
RACED = ("[torn walk]", "[memory map busy]")
# The machine itself, in the setting that everybody gets.
HOST = "defaults"
HEADER = ("| setting | kernel | scenarios | stacks | lost |\n"
          "|---|---|---|---|---|")
ROW = re.compile(r"^\| `(?P<setting>[\w.-]+)` \| `(?P<kernel>[^`]+)` \| (?P<scenarios>[^|]*) "
                 r"\| (?P<stacks>[^|]*) \| (?P<lost>[^|]*) \|$", re.MULTILINE)


class Observed:
    """One kernel, in one setting."""

    def __init__(self, setting, kernel):
        self.setting, self.kernel = setting, kernel
        self.passed, self.failed = [], []
        self.lost = set()
        self.weights = {}

    def add(self, result):
        (self.failed if result["outcome"] == "failed" else self.passed).append(result["scenario"])
        self.lost |= {cause for cause, count in result["losses"].items() if count}
        for end, weight in result.get("observed", {}).get("weights_ns", {}).items():
            self.weights[end] = self.weights.get(end, 0) + weight

    def series(self):
        return series(self.kernel)

    def row(self):
        every = sum(self.weights.values())
        stacks = "none"
        if every:
            raced = sum(self.weights.get(end, 0) for end in RACED)
            stacks = f"{self.weights.get('complete', 0) / every:.1%} whole, {raced / every:.1%} raced"
        count = len(self.passed) + len(self.failed)
        passed = f"all {count} passed" if not self.failed else f"{len(self.failed)} of {count} failed"
        lost = ", ".join(f"`{cause}`" for cause in sorted(self.lost)) or "nothing"
        return f"| `{self.setting}` | `{self.kernel}` | {passed} | {stacks} | {lost} |"


def series(kernel):
    return ".".join(kernel.split(".")[:2])


def observed(paths):
    """{setting: Observed} of guests and of the machine as shipped."""
    found = {}
    for path in paths:
        for line in path.read_text().splitlines():
            result = json.loads(line)
            setting = result["setting"]
            if result["outcome"] == "skipped" or not (setting == HOST or setting.startswith(("linux-", "cpus-"))):
                continue
            found.setdefault(setting, Observed(setting, result["kernel"])).add(result)
    return found


def differences(page, found, asked):
    """What the page claims that was not so; `asked` are the guests' settings that should have run."""
    rows = {match["setting"]: match for match in ROW.finditer(page)}
    wrong = [f"{setting}: in the table, and did not run" for setting in rows
             if setting in asked and setting not in found]
    for setting, what in found.items():
        row = rows.get(setting)
        if row is None or series(row["kernel"]) != what.series():
            if setting != HOST:
                wrong.append(f"{setting} ran Linux {what.kernel}, which the table does not have")
            continue
        wrong += [f"{setting}: {name} failed" for name in what.failed]
        surplus = what.lost - HARMLESS_LOSSES - set(re.findall(r"`(\w+)`", row["lost"]))
        wrong += [f"{setting}: lost {cause}, which the table does not name" for cause in sorted(surplus)]
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+", type=Path, metavar="RESULTS")
    parser.add_argument("--check", action="store_true", help="check docs/kernels.md; print what is wrong")
    parser.add_argument("--asked", default="linux-6.1,linux-6.12", metavar="SETTINGS",
                        help="guests that should have run (default: linux-6.1,linux-6.12)")
    arguments = parser.parse_args()
    found = observed(arguments.results)
    if not arguments.check:
        print(HEADER, *(what.row() for what in found.values()), sep="\n")
        return 0
    wrong = differences(PAGE.read_text(), found, arguments.asked.split(","))
    for text in wrong:
        print(f"docs/kernels.md: {text}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
