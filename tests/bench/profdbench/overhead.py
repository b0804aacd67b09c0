"""`bench run`: what tracing costs the traced program, as ratios measured side by side.

A row is one tool on one workload. Its ratio is the speed with the tool over the speed without: 1.00
means no loss, 0.75 that a quarter is gone. Beside it stand the ratio of CPU time that the watched
processes used for a unit of work (below 1: the tool costs), and those of the median and the 99th
percentile of the latency of the target's own requests (above 1: they take longer), where the target
has requests. Each ratio comes with its 95 % interval.

There are two protocols:

  slices    for profd and for `none`: paused and resumed every 0.2 s during one run of the target,
            in hundreds of adjacent pairs of random order. It resolves half a per cent.
  segments  for the peers, which cannot be paused: perf record, bpftrace and offcputime are started
            and stopped around segments of some seconds; under heaptrack and jemalloc's profiling
            the target itself is started anew. It is coarser.

profdbench/slices.py, segments.py and stats.py say how and why. The row `none`, in which the "tool"
is nothing at all, shows what two equal measurements differ by: a smaller difference means nothing.

An aim is met only if the lower end of the interval meets it. Otherwise it is "not shown", with the
number of further pairs that it would take, or missed, if the upper end is below it.

Every row says which of profd's sources were switched off meanwhile and at which interval it
sampled. Rows go to stdout as lines of JSON, one a row as it ends, and with --results FILE also into
that file, in the place of the row's former line. Progress goes to stderr.
"""

import argparse
import math
import os
import random
import signal
import statistics
import sys
import tempfile

from profdbench import in_force, lines, process, segments, slices, stats
from profdbench.process import Failed, Unavailable
from profdbench.progress import Progress, duration, log
from profdbench.tools import TOOLS
from profdbench.workloads import WORKLOADS
from profdbench.workloads.base import Workload

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
EPILOG = """examples:
  bench run --workload pgbench --tool profd --tool none
  bench run --workload redis --tool profd --pairs 600 --results docs/performance/results.jsonl
  bench run --tool perf --tool bpftrace --rounds 15 --results docs/performance/results.jsonl

exit status: 0 every row was measured or cannot be here, 1 something failed, 2 the command line is
wrong"""

# The least ratio that the project wants to hold.
AIMS = {("pgbench", "profd"): 0.99, ("pgbench", "profd-all"): 0.97,
        ("redis", "profd"): 0.99, ("rustc", "profd"): 0.99,
        ("rustc-system", "profd"): 0.99, ("fio", "profd"): 0.99, ("futex", "profd"): 0.99}
RUNS_SHARE = 0.3  # of --pairs, where a slice is a whole run


def pairs_of(workload, options):
    return (math.ceil(options.pairs * RUNS_SHARE) if workload.forks else options.pairs)


def own_costs(extras):
    """Of rates the mean, since what comes in bursts is in few of the spans; of sizes the most."""
    found = {}
    for name, of in (("daemon_cpu", statistics.fmean), ("in_path_cpu", statistics.fmean),
                     ("switches_per_s", statistics.fmean), ("data_mib", statistics.fmean),
                     ("rss_mib", max), ("maps_mib", max)):
        values = [extra[name] for extra in extras if name in extra]
        if values:
            found[name] = of(values)
    return found


def make_row(workload, tool, found, where, how):
    """The line of the results file for one workload under one tool."""
    row = {"kind": "overhead", "workload": workload.name, "tool": tool.name, **where, **how,
           "about": workload.about, "unit": workload.unit,
           "pairs": found["pairs"], "blocks": len(found["blocks"]),
           "disturbed": found["disturbed"], **stats.summary(found["blocks"])}
    if "p50_us" in row:
        row["requests"] = workload.requests
    if hasattr(tool, "arguments"):
        row["options"] = list(tool.arguments)
        row.update(found["in_force"])
        if tool.has_savings:
            row["settled_s"] = found["settled_s"]
    row.update(own_costs(found["extras"]))
    if (workload.name, tool.name) in AIMS:
        row["aim"] = AIMS[workload.name, tool.name]
    if tool.note:
        row["note"] = tool.note
    return row


def ratio_text(ratio):
    if len(ratio) < 3:
        return f"{ratio[0]:.4f}"
    return f"{ratio[0]:.4f} ({ratio[1]:.4f} to {ratio[2]:.4f})"


def verdict_text(row):
    """"met", "missed" or "not shown, ..." of a row with an aim."""
    told, more = stats.verdict(stats.Estimate.of_list(row["ratio"]), row["aim"], row["pairs"])
    if told != "not shown":
        return told
    if len(row["ratio"]) < 3:
        return "not shown, too few pairs for an interval"
    if more is not None:
        return f"not shown, about {more:,} more pairs would show it"
    return "not shown, and more pairs would not show it: the estimate is below the aim"


def headline(row):
    """One line about a row."""
    parts = [f"{row['workload']} under {row['tool']}: ratio {ratio_text(row['ratio'])}"]
    state = in_force.headline(row)
    if state:
        parts.append(state)
    if "p99_ratio" in row:
        parts.append(f"latency p50 {ratio_text(row['p50_ratio'])}, "
                     f"p99 {ratio_text(row['p99_ratio'])}")
    if "aim" in row:
        parts.append(f"aim {row['aim']:.2f}: {verdict_text(row)}")
    return "; ".join(parts)


class Sink:
    """Takes rows as they are made: to stdout, and into the results file."""

    def __init__(self, path):
        self.path, self.count = path, 0
        if path:
            lines.check_writable(path)

    def add(self, row):
        print(lines.text_of(row), flush=True)
        self.count += 1
        if self.path:
            lines.save(self.path, [row])


class Run:
    """One workload under all tools that were asked for."""

    def __init__(self, name, tools, options, progress, sink):
        self.name, self.tools, self.options = name, tools, options
        self.progress, self.sink = progress, sink
        self.failed = 0

    def skip(self, tool, why):
        log(f"{self.name} under {tool}: left out: {why}")

    def row(self, workload, tool, found, where, how):
        row = make_row(workload, tool, found, where, how)
        self.sink.add(row)
        log(headline(row))

    def sliced(self, workload, tool):
        where, pairs = lines.here(), pairs_of(workload, self.options)
        cost = slices_seconds(workload, tool, self.options) / max(1, pairs)
        told = 0

        def step(done, ratio):
            nonlocal told
            self.progress.step(f"{self.name} {tool.name}: {done} of {pairs} pairs, "
                               f"{ratio_text(ratio.as_list())}", cost * (done - told))
            told = done
        try:
            found = slices.run(workload, tool, pairs, self.options.slice, random.Random(), step)
        except Failed as why:
            self.failed += 1
            self.progress.drop(cost * (pairs - told))
            self.skip(tool.name, why)
            return
        how = {"protocol": "slices",
               "slice_s": workload.run_seconds if workload.forks else self.options.slice}
        self.row(workload, tool, found, where, how)

    def segmented(self, workload, kind, tools):
        where = lines.here()

        def step(tool, done, ratio):
            self.progress.step(f"{self.name} {tool.name}: {done} of {self.options.rounds} pairs, "
                               f"{ratio_text(ratio.as_list())}",
                               pair_seconds(workload, tool, self.options))
        runner = kind(workload, tools, self.options.seconds, step)
        rows = runner.run(self.options.rounds)
        how = {"protocol": "segments",
               "slice_s": workload.run_seconds if workload.forks else self.options.seconds}
        for tool in tools:
            if tool.name in rows:
                self.row(workload, tool, rows[tool.name], where, how)
        for name, why in runner.failed:
            self.failed += 1
            self.skip(name, why)

    def all(self, directory):
        try:
            with WORKLOADS[self.name](directory) as workload:
                self.progress.step(f"{self.name}: {workload.about}", workload.setup_seconds)
                pausing, attached, launching = sorted_tools(workload, self.tools)
                for tool in pausing:
                    self.sliced(workload, tool)
                if attached:
                    self.segmented(workload, segments.Runner, attached)
                if launching:
                    self.segmented(workload, segments.Launches, launching)
        except (Unavailable, Failed) as why:
            self.failed += isinstance(why, Failed)
            self.skip("all tools", why)


def sorted_tools(workload, tools):
    """(those that can be paused, those that are put on it, those that it is started under)."""
    return ([tool for tool in tools if tool.can_pause],
            [tool for tool in tools if not tool.can_pause and not tool.launches],
            [tool for tool in tools if tool.launches and workload.can_launch])


def slices_seconds(workload, tool, options):
    """Expected seconds of a row by slices."""
    pairs = pairs_of(workload, options)
    each = workload.run_seconds if workload.forks else options.slice
    spans = math.ceil(pairs / stats.block_pairs(pairs)) + 1
    settling = slices.SETTLE_SECONDS * slices.USUAL_SPANS_TO_SETTLE if tool.has_savings else 0
    return (tool.start_seconds + settling + 2 * pairs * (each + workload.guard_seconds) +
            spans * (slices.SPAN_SECONDS + 0.2))


def pair_seconds(workload, tool, options):
    """Expected seconds of one pair by segments."""
    each = workload.run_seconds if workload.forks else options.seconds
    return (each * (1 + segments.UNTRACED_SHARE) + tool.start_seconds +
            segments.SETTLE_AFTER_STOP + (2 * workload.restart_seconds if tool.launches else 0))


def plan(names, tools, options):
    """Expected seconds of the whole run."""
    total = 0.0
    for name in names:
        workload = WORKLOADS[name]
        pausing, attached, launching = sorted_tools(workload, tools)
        total += workload.setup_seconds
        total += sum(slices_seconds(workload, tool, options) for tool in pausing)
        total += options.rounds * sum(pair_seconds(workload, tool, options)
                                      for tool in attached + launching)
    return total


def positive(kind):
    def parse(text):
        value = kind(text)
        if value <= 0:
            raise argparse.ArgumentTypeError("must be more than 0")
        return value
    return parse


def add_arguments(subparsers):
    """Adds the subcommand `run`."""
    listing = ["workloads:"]
    listing += [f"  {name:<15} {workload.about}" for name, workload in WORKLOADS.items()]
    listing += ["", "tools:"]
    listing += [f"  {line.strip()}" for line in
                sys.modules["profdbench.tools"].__doc__.split("\n\n", 1)[1].strip().splitlines()]
    parser = subparsers.add_parser(
        "run", help="overhead by workload and tool", description=__doc__,
        epilog="\n".join([*listing, "", EPILOG]),
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", action="append", choices=list(WORKLOADS), metavar="NAME",
                        help="only this one; may be repeated")
    parser.add_argument("--tool", action="append", choices=list(TOOLS), metavar="NAME",
                        help="only this one; may be repeated (default: all)")
    parser.add_argument("--pairs", type=positive(int), default=300,
                        help="pairs of slices a row (default 300); 30 %% of them where a slice is "
                        "a whole run")
    parser.add_argument("--slice", type=positive(float), default=0.2, metavar="SECONDS",
                        help="length of a slice (default 0.2)")
    parser.add_argument("--rounds", type=positive(int), default=12,
                        help="pairs of segments a row of a tool that cannot be paused (default 12)")
    parser.add_argument("--seconds", type=positive(float), default=5,
                        help="length of a traced segment (default 5)")
    parser.add_argument("--offcputime", metavar="PATH", help="the binary of libbpf-tools")
    add_common_options(parser)
    parser.set_defaults(main=main)


def add_common_options(parser):
    """--build and --results, which all subcommands that measure share."""
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"), metavar="DIR",
                        help="where the programs are (default build/release)")
    parser.add_argument("--results", metavar="FILE",
                        help="also put each row into this file, in the place of its former line")


def make_tools(options):
    tools = []
    for name in options.tool or list(TOOLS):
        try:
            tools.append(TOOLS[name](options))
            if tools[-1].note:
                log(f"{name}: {tools[-1].note}")
        except Unavailable as why:
            log(f"{name}: left out: {why}")
    if not tools:
        raise Failed("none of the tools can run here")
    return tools


def catch_signals():
    # Also where a shell started this in the background, which has SIGINT ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def warn_if_busy():
    load = os.getloadavg()[0]
    if load > 0.3 * os.cpu_count():
        log(f"warning: this machine is busy (load {load:.2f}); the ratios will scatter")


def main(options):
    """Measures and saves."""
    process.require_root()
    catch_signals()
    sink = Sink(options.results)
    warn_if_busy()
    Workload.build = options.build
    names = options.workload or list(WORKLOADS)
    failed = 0
    try:
        with tempfile.TemporaryDirectory(prefix="profd-bench.", dir="/var/tmp") as directory:
            os.chmod(directory, 0o711)  # PostgreSQL's user must reach its part
            options.directory = directory
            tools = make_tools(options)
            expected = plan(names, tools, options)
            log(f"{len(names)} workloads, {len(tools)} tools: about {duration(expected)}")
            progress = Progress(expected)
            for name in names:
                run = Run(name, tools, options, progress, sink)
                run.all(directory)
                failed += run.failed
    finally:
        process.release_tracefs()
    return 1 if failed or not sink.count else 0
