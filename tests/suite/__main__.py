"""Probes the machine, builds, runs every test, and says in its last line what passed, failed and skipped."""

import argparse
import json
import os
import shutil
import sys
import time
from pathlib import Path

from . import machine, outcome, plan
from .jobs import Context, Schedule

ROOT = Path(__file__).resolve().parent.parent.parent
FAILURE_LINES = 40


def parse():
    parser = argparse.ArgumentParser(
        prog="tests/run", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=plan.describe() + "\n\nexit status: 0 everything passed, 1 something failed, 2 the command line is "
                                 "wrong")
    parser.add_argument("--all", action="store_true",
                        help="also the long jobs: every setting and kernel, calibration, storms, fuzzing, mutations")
    parser.add_argument("--only", metavar="JOB[,JOB]", default="",
                        help="only these jobs and those that they need")
    parser.add_argument("--list", action="store_true", help="list the jobs; run nothing")
    parser.add_argument("--no-install", action="store_true", help="take the packages as they are")
    return parser.parse_args()


def chosen(arguments, jobs):
    if not arguments.only:
        return [job for job in jobs if arguments.all or not job.long]
    by_name = {job.name: job for job in jobs}
    wanted, names_left = set(), arguments.only.split(",")
    while names_left:
        name = names_left.pop()
        if name not in by_name:
            print(f"run: no job '{name}'; there are {', '.join(by_name)}", file=sys.stderr)
            sys.exit(2)
        if name not in wanted:
            wanted.add(name)
            names_left += by_name[name].after
    return [job for job in jobs if job.name in wanted]


class Report:
    """What is printed while jobs run, and at the end."""

    def __init__(self):
        self.began = time.monotonic()

    def say(self, text):
        seconds = int(time.monotonic() - self.began)
        print(f"[{seconds // 60:2}:{seconds % 60:02}] {text}", flush=True)

    def ended(self, ran):
        counts = {result: sum(o.result == result for o in ran.outcomes)
                  for result in ("passed", "failed", "skipped")}
        note = ", ".join(f"{count} {result}" for result, count in counts.items() if count)
        self.say(f"{ran.state:6} {ran.job.name}{': ' if note else ''}{note} ({ran.wall:.0f} s)")
        if ran.error:
            print("\n".join(f"    {line}" for line in ran.error.splitlines()[-FAILURE_LINES:]), flush=True)

    @staticmethod
    def failures(outcomes):
        for each in outcomes:
            if each.result == "failed":
                print(f"\nFAILED {each.test}")
                print("\n".join(f"    {line}" for line in each.detail.splitlines()[:FAILURE_LINES]))

    @staticmethod
    def skips(outcomes, permitted):
        reasons = {entry["fact"]: entry["reason"] for entry in permitted}
        for each in outcomes:
            if each.result == "skipped":
                print(f"skipped {each.test}: {reasons[each.fact]}")

    @staticmethod
    def times(runs, wall):
        print(f"\n{'job':12} {'began':>7} {'took':>7} {'CPU':>7}   what")
        for ran in runs:
            print(f"{ran.job.name:12} {ran.began:6.0f}s {ran.wall:6.0f}s {ran.cpu:6.0f}s   {ran.job.about}")
        used, cpus = sum(ran.cpu for ran in runs), len(os.sched_getaffinity(0))
        print(f"{'all':12} {'':7} {wall:6.0f}s {used:6.0f}s   {used / wall / cpus:.0%} of {cpus} CPUs")


def main():
    arguments = parse()
    jobs = plan.jobs()
    if arguments.list:
        print(plan.describe())
        return 0
    selected = chosen(arguments, jobs)
    work = ROOT / "build/suite"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    report = Report()
    facts = machine.write(work / "facts.json")
    report.say(f"{machine.describe()}; lacks: {', '.join(f for f, held in facts.items() if not held) or 'nothing'}")
    os.environ["PROFD_FACTS"] = str(work / "facts.json")
    os.environ["PROFD_OBSERVATIONS"] = str(work / "observations.jsonl")

    schedule = Schedule(selected, plan.CPUS, lambda job: Context(job.name, ROOT, work, facts, arguments, job.nice),
                        report.ended)
    runs = schedule.run()
    permitted = outcome.permitted_skips()
    outcomes = outcome.judge_skips([each for ran in runs for each in ran.outcomes], facts, permitted)
    # A job that could not do its work is a failure, whatever its tests said before.
    outcomes += [outcome.Outcome(f"job {ran.job.name}", "failed", ran.error) for ran in runs if ran.error]
    report.failures(outcomes)
    report.skips(outcomes, permitted)
    report.times(runs, time.monotonic() - report.began)
    (work / "outcomes.json").write_text(json.dumps([vars(each) for each in outcomes], indent=1))
    counts = [sum(each.result == result for each in outcomes) for result in ("passed", "failed", "skipped")]
    print(f"\n{counts[0]} passed, {counts[1]} failed, {counts[2]} skipped")
    return 0 if counts[1] == 0 and counts[0] > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
