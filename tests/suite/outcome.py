"""What became of each test, whoever ran it, and which skips are permitted."""

import fnmatch
import tomllib
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

SKIPS = Path(__file__).with_name("skips.toml")
SKIP_MARK = "skipped: "


@dataclass
class Outcome:
    test: str           # "kernel SwitchTest.Counts", "scenario naps [defaults]"
    result: str         # passed, failed, skipped
    detail: str = ""    # of a failure
    fact: str = ""      # of a skip: what the machine lacks


def fact_of(message):
    """The fact in "skipped: FACT: reason"; "" where a skip names none."""
    for line in message.splitlines():
        at = line.find(SKIP_MARK)
        if at >= 0:
            return line[at + len(SKIP_MARK):].split(":")[0].strip()
    return ""


def from_gtest(job, xml):
    """The outcomes in a file that --gtest_output=xml wrote."""
    outcomes = []
    for case in ElementTree.parse(xml).getroot().iter("testcase"):
        name = f"{job} {case.get('classname')}.{case.get('name')}"
        failures = [failure.get("message") or failure.text or "" for failure in case.findall("failure")]
        skipped = case.find("skipped")
        if failures:
            outcomes.append(Outcome(name, "failed", "\n".join(failures)))
        elif skipped is not None or case.get("result") == "skipped":
            message = "" if skipped is None else (skipped.get("message") or "") + (skipped.text or "")
            outcomes.append(Outcome(name, "skipped", message.strip(), fact_of(message)))
        elif case.get("status") == "run":
            outcomes.append(Outcome(name, "passed"))
    return outcomes


def from_scenario(result):
    """Of a line that tests/harness wrote."""
    name = f"scenario {result['scenario']} [{result['setting']}]"
    return Outcome(name, result["outcome"], "\n".join(result["failures"]), result["skipped_for"])


def permitted_skips():
    return tomllib.loads(SKIPS.read_text())["skip"]


def judge_skips(outcomes, facts, permitted):
    """Turns skips that are not permitted into failures.

    A skip is permitted when skips.toml lists its fact for its test, and the probe of the machine,
    which ran before any test, found that the fact does not hold.
    """
    for outcome in outcomes:
        if outcome.result != "skipped":
            continue
        listed = any(entry["fact"] == outcome.fact and
                     any(fnmatch.fnmatch(outcome.test, pattern) for pattern in entry["tests"])
                     for entry in permitted)
        if not listed:
            outcome.result = "failed"
            outcome.detail = (f"skipped for '{outcome.fact or outcome.detail}', which skips.toml does not "
                              f"permit")
        elif facts.get(outcome.fact, True):
            outcome.result = "failed"
            outcome.detail = f"skipped for '{outcome.fact}', but the probe of the machine found it"
    return outcomes
