"""`bench accuracy`: how right profd is, with and without load that makes it give something up.

The targets say what really happened, and profd is asked for the same window:

  waits     a thread that sleeps at two places, for times drawn at random; it notes every wait
  malloc    a program that allocates without end by glibc's malloc; it counts the bytes by place
  jemalloc  the same on jemalloc

profd runs with its default flags and budgets. The load `none` is none; the load `switches` is a
second target of 100,000 context switches a second, for which profd has to shed its per-switch layer
and part of its ticks, and which keeps the CPUs busy.

A row is a place in the target under a load, over several runs:

  ratio      estimate / truth: the mean over the runs, the least and the most
  stated     half the 95 % interval that profd states (1.96 standard errors), as a share of the
             estimate
  contained  in how many of the runs that interval contained the truth; 95 % of them are promised
  off, tick  what was switched off meanwhile, and the sampling interval in force

Rows go to stdout as lines of JSON, and with --results FILE also into that file. Progress goes to
stderr.
"""

import argparse
import ctypes.util
import dataclasses
import json
import math
import os
import re
import statistics
import subprocess
import tempfile
import time

from profdbench import in_force, lines, overhead, process
from profdbench.process import Failed, Unavailable
from profdbench.progress import Progress, log
from profdbench.scale_point import Daemon, Load
from tests.harness.answer import read

Z95 = statistics.NormalDist().inv_cdf(0.975)
SETTLE_SECONDS = 6.0  # the governor needs two seconds to give up, more to find the best level
CASES = {"waits": "waiter", "malloc": "churn", "jemalloc": "churn"}
LOADS = {"none": None, "switches": ["--threads", "4", "--switch-rate", "100000"]}
# A burst, from which glibc's malloc is estimated, comes once in 5 s: longer windows, and fewer.
LONGER = {"malloc": 6}
SITES = {"waits": {1: "LongPath", 2: "ShortPath"}}
EPILOG = """examples:
  bench accuracy --case waits --runs 3
  bench accuracy --results docs/performance/results.jsonl

exit status: 0 done, 1 something failed, 2 the command line is wrong"""


@dataclasses.dataclass
class Estimate:
    """What profd says of a site, in the unit of its truth, with its standard error."""
    value: float
    error: float


def at_sites(profile, sites, value, error):
    """{site: Estimate}: the samples of a fetched profile with a frame of that name, summed. Their
    errors are taken to be independent."""
    functions = [frame["function"] for frame in profile["frames"]]
    found = {}
    for site in sites:
        named = re.compile(rf"\b{site}\b")
        with_site = {number for number, function in enumerate(functions) if named.search(function)}
        samples = [sample for sample in profile["samples"] if sample["stack"] is not None and
                   with_site & set(profile["stacks"][sample["stack"]]["frames"])]
        found[site] = Estimate(sum(float(sample[value]) for sample in samples),
                               math.sqrt(sum(float(sample[error])**2 for sample in samples)))
    return found


def waits_truth(report, begin_ns, end_ns):
    """{site: seconds} that the waiter's threads waited in a window of wall-clock ns, by its report.
    What a wait used of a CPU, to begin and to end, is taken off in proportion."""
    offset, found = int(report["wall_offset_ns"]), {}
    for thread in report["threads"]:
        blocked = 1 - thread["wait_cpu_ns"] / max(1, thread["wait_wall_ns"])
        for begin, end, path in thread["waits"]:
            inside = min(end + offset, end_ns) - max(begin + offset, begin_ns)
            if inside > 0 and path in SITES["waits"]:
                site = SITES["waits"][path]
                found[site] = found.get(site, 0.0) + inside * blocked / 1e9
    return found


def outcome(truth, estimate, slack=0.0):
    """What a run says of one site: ratio, stated half interval as a share, and whether the interval
    contained the truth. `slack` is by how much the truth itself is uncertain."""
    half = Z95 * estimate.error
    return {"ratio": estimate.value / truth,
            "stated": half / estimate.value if estimate.value else 0.0,
            "contained": abs(estimate.value - truth) <= half + slack}


class Target:
    """A program that says "ready PID", obeys lines, and answers with lines of JSON."""

    def __init__(self, argv, directory, **environment):
        self.log = os.path.join(directory, "target.log")
        with open(self.log, "wb") as errors:
            self.process = process.spawn(argv, own_session=False, stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, stderr=errors, text=True,
                                         env={**os.environ, **environment})
        if not self._line().startswith("ready"):
            raise Failed(f"{argv[0]} did not start:\n{process.read_text(self.log)}")

    def _line(self):
        line = self.process.stdout.readline()
        if not line:
            raise Failed(f"{self.process.args[0]} ended by itself:\n"
                         f"{process.read_text(self.log)}")
        return line

    def say(self, text=""):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def ask(self, text=""):
        self.say(text)
        return json.loads(self._line())

    def stop(self):
        self.process.stdin.close()
        process.stop(self.process)
        self.process.stdout.close()


class Case:
    """One target, watched by a profd that may have a load to watch as well."""

    def __init__(self, name, load, options, directory):
        self.options, self.name, self.directory = options, name, directory
        self.target = self.load = self.daemon = None
        try:
            self.target = self._start()
            pids = [str(self.target.process.pid)]
            if LOADS[load]:
                self.load = Load(options.build, directory, LOADS[load])
                pids.append(str(self.load.process.pid))
            arguments = [word for pid in pids[1:] for word in ("--target", pid)]
            self.daemon = Daemon(options.build, directory, pids[0], arguments)
            time.sleep(SETTLE_SECONDS)
        except BaseException:
            self.stop()
            raise

    def _start(self):
        path = os.path.join(self.options.build, CASES[self.name])
        if self.name == "waits":
            return Target([path, "two-paths", str(round(self.options.seconds * 1000)),
                           str(self.options.seed)], self.directory)
        environment = {}
        if self.name == "jemalloc":
            library = ctypes.util.find_library("jemalloc")
            if not library:
                raise Unavailable("libjemalloc is not installed")
            environment["LD_PRELOAD"] = library
        return Target([path, "busy"], self.directory, **environment)

    def reading(self):
        return in_force.reading(self.daemon.status())

    def fetch(self, begin, end, *options):
        pid = str(self.target.process.pid)
        return read(json.loads(self.daemon.run_profctl(
            "fetch", "--target", pid, "--from", f"{begin:.6f}", "--to", f"{end:.6f}", *options,
            "--format", "json", "-o", "-")[1]))

    def run(self):
        """({site: outcome}, {site: truth}, readings of what was in force)."""
        readings = [self.reading()]
        truths, estimates, slack = (self._waits() if self.name == "waits" else self._bytes())
        readings.append(self.reading())
        if not truths:
            raise Failed(f"the target of {self.name} did nothing")
        return ({site: outcome(truth, estimates[site], slack * truth)
                 for site, truth in truths.items()}, truths, readings)

    def _waits(self):
        begin = time.time() - 1
        report = self.target.ask()
        profile = self.fetch(begin, time.time(), "--idle")
        header = profile["header"]
        truths = waits_truth(report, int(header["begin_ns"]), int(header["end_ns"]))
        estimates = at_sites(profile, SITES["waits"].values(), "time_ns", "error_ns")
        return truths, {site: Estimate(one.value / 1e9, one.error / 1e9)
                        for site, one in estimates.items()}, 0.0

    def _bytes(self):
        """A fetch drains, so windows begin and end beside the two readings of the counters."""
        self.fetch(time.time() - 2, time.time(), "--kind", "alloc")
        begin, first = time.time(), self.target.ask()
        time.sleep(self.options.seconds)
        last, end = self.target.ask(), time.time()
        profile = self.fetch(begin, end, "--kind", "alloc")
        header = profile["header"]
        covered = (int(header["end_ns"]) - int(header["begin_ns"])) / 1e9
        scale = covered / (end - begin)
        truths = {site: (last[site] - first[site]) * scale for site in last
                  if site.startswith("Churn") and last[site] > first[site]}
        # The rate is steady, but which part of it lies in the window is known only so far.
        return truths, at_sites(profile, truths, "bytes", "error_bytes"), abs(scale - 1)

    def stop(self):
        for part in (self.daemon, self.load, self.target):
            try:
                if part:
                    part.stop()
            except Failed as why:
                log(f"bench accuracy: {why}")


def row_of(case, load, site, runs, where, options):
    """The line of one site, from (outcome, truth, readings) of its runs."""
    ratios = [one["ratio"] for one, _, _ in runs]
    return {"kind": "accuracy", "case": case, "load": load, "site": site, **where,
            "protocol": "accuracy", "options": [], "runs": len(runs), "seconds": options.seconds,
            "unit": "s" if case == "waits" else "bytes",
            "truth": statistics.fmean(truth for _, truth, _ in runs),
            "ratio": [statistics.fmean(ratios), min(ratios), max(ratios)],
            "stated": statistics.fmean(one["stated"] for one, _, _ in runs),
            "contained": sum(one["contained"] for one, _, _ in runs),
            **in_force.summary([one for _, _, readings in runs for one in readings])}


def headline(row):
    return (f"{row['case']}, {row['site']}, load {row['load']} ({in_force.headline(row)}): "
            f"estimate / truth {row['ratio'][0]:.3f} ({row['ratio'][1]:.3f} to "
            f"{row['ratio'][2]:.3f}), stated ±{row['stated']:.1%}, truth in the stated interval "
            f"in {row['contained']} of {row['runs']} runs")


def sized(case, options):
    """The options of one case: its number of runs and the length of its windows."""
    factor = LONGER.get(case, 1)
    return argparse.Namespace(build=options.build, runs=math.ceil(options.runs / factor),
                              seconds=options.seconds * factor)


def expected_seconds(options):
    """Of one run."""
    return SETTLE_SECONDS + options.seconds + 4


def measure(case, load, options, step):
    """[row] of one target under one load."""
    where, by_site = lines.here(), {}
    for number in range(options.runs):
        options.seed = number + 1
        with tempfile.TemporaryDirectory(prefix="profd-accuracy.", dir="/var/tmp") as directory:
            one = Case(case, load, options, directory)
            try:
                outcomes, truths, readings = one.run()
            finally:
                one.stop()
        for site, found in outcomes.items():
            by_site.setdefault(site, []).append((found, truths[site], readings))
        step(number + 1, outcomes)
    return [row_of(case, load, site, runs, where, options) for site, runs in by_site.items()]


def add_arguments(subparsers):
    parser = subparsers.add_parser(
        "accuracy", help="estimates against what the target counted, under load",
        description=__doc__, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", action="append", choices=list(CASES), metavar="NAME",
                        help="only this one; may be repeated: " + ", ".join(CASES))
    parser.add_argument("--load", action="append", choices=list(LOADS), metavar="NAME",
                        help="only this one; may be repeated: " + ", ".join(LOADS))
    parser.add_argument("--runs", type=overhead.positive(int), default=20,
                        help="of each case under each load (default 20; a sixth for malloc)")
    parser.add_argument("--seconds", type=overhead.positive(float), default=10,
                        help="length of the window (default 10); six times that for malloc")
    overhead.add_common_options(parser)
    parser.set_defaults(main=main)


def measured(case, load, options, sink, progress):
    """Whether a target under a load could be measured; its rows are in the sink then."""
    each, done = expected_seconds(options), 0

    def step(number, outcomes):
        nonlocal done
        done = number
        progress.step(f"{case}, load {load}: {number} of {options.runs}; " + ", ".join(
            f"{site} {one['ratio']:.3f}" for site, one in outcomes.items()), each)
    try:
        for row in measure(case, load, options, step):
            sink.add(row)
            log(headline(row))
        return True
    except (Failed, Unavailable, OSError, KeyError, ValueError) as why:
        log(f"bench accuracy: {case}, load {load}: {why!r}")
        progress.drop((options.runs - done) * each)
        return False


def main(options):
    process.require_root()
    overhead.catch_signals()
    cases, loads = options.case or list(CASES), options.load or list(LOADS)
    process.require_built(options.build, "profd", "profctl",
                          *dict.fromkeys(CASES[case] for case in cases),
                          *(["bench_load"] if any(LOADS[load] for load in loads) else []))
    sink = overhead.Sink(options.results)
    by_case = {case: sized(case, options) for case in cases}
    progress = Progress(sum(len(loads) * one.runs * expected_seconds(one)
                            for one in by_case.values()))
    failed = 0
    for case in cases:
        for load in loads:
            failed += not measured(case, load, by_case[case], sink, progress)
    return 1 if failed else 0
