"""`bench run`: what tracing costs the traced program, as ratios measured side by side.

How a ratio comes about
  A workload runs, and tools come and go: a *round* is

      U  T1  U  T2  U  T3  U         U untraced, T1 T2 T3 under one tool each

  The ratio of a tool in a round is its traced segment over the mean of the two untraced ones that
  touch it: 1.00 means no loss, 0.75 that a quarter is gone. What drifts steadily (a table that
  grows, a CPU that warms up) cancels out, since "before" and "after" stand on both sides of the
  traced segment. A ratio is one *pair*: traced, and untraced around it. All tools of a workload
  are in each round, so they meet the same state of the machine, and the order of the tools is
  turned by one from round to round, so that none always follows the same other.

  The pairs of one row share no segment: two tools share the untraced segment between them, but a
  tool occurs once a round and each round begins with an untraced segment of its own. So the
  pairs of a row are as independent as the machine lets them be, which the interval needs.
  Attaching, settling and detaching are in no segment.

  A machine whose speed wanders (a virtual one beside busy neighbours: here a loop that only counts
  runs at 0.6 to 1.1 times its mean speed, from one quarter of a second to the next) is not measured
  better by longer segments, only by more changes between traced and untraced. profd can pause: it
  takes its programs out of the kernel and puts them back within two milliseconds. So a pair of a row
  that has an aim, and of `none`, is cut into --bursts N short ones

      U T U T U T U ... U     N times T, each --burst-seconds long

  and its ratio is the geometric mean of the N ratios; --bursts 0 has one long one instead. (Of rustc
  a whole compilation is a burst, and a pair has four, after one that is not counted: what is read
  once of a program that was never seen is not what it costs always.) The pair begins with profd
  attached and settled, then paused; what profd itself takes is read in one more traced
  segment at its end. Not in such short segments are the drains, one a second: they are in the CPU
  of profd that is told. redis has bursts four times as long and a fourth of them: the probe in its
  allocator takes a tenth of a second to be gone, and to be back.

  heaptrack and jemalloc's own profiling are in a program from its start. For them redis is
  started anew for every segment, traced and untraced, with new clients, and warmed up for 3 s; a
  run of rustc is a segment of its own anyway. What the tool does before and after a segment of
  redis is in none.

  Beside the ratio of speed stands that of CPU time: what the watched processes (the server, or the
  whole command) used for a unit of work, untraced over traced. It holds what a tool does in their
  path and leaves out what it does beside them; being free of idling and of waiting for others, it
  scatters less, and shows a difference that the speed of a busy machine hides.

How to read it
  The median is the result. The interval holds the true median with at least 95 % confidence
  whatever the shape of the noise (order statistics of the sign test); the row `none`, in which the
  "tool" is nothing at all, shows what two equal measurements differ by. A difference smaller than
  that means nothing. A pair is marked as disturbed when the hypervisor took more than 2 % of the
  time (steal), or processes that have no part in the measurement used more than a tenth of a CPU,
  in any of its segments; it is counted all the same.
"""

import argparse
import math
import os
import signal
import statistics
import sys
import tempfile
import time

from profdbench import process, results, stats
from profdbench.process import Failed, Unavailable
from profdbench.progress import Progress, duration, log
from profdbench.tools import TOOLS
from profdbench.workloads import WORKLOADS, CpuMeter, descendants

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
MIB = 1024 * 1024

# Medians that the project wants to hold, and what profd itself may take.
AIMS = {("pgbench", "profd"): 0.99, ("pgbench", "profd-all"): 0.97,
        ("redis", "profd"): 0.99, ("rustc", "profd"): 0.99,
        ("rustc-system", "profd"): 0.99}
AIM_RSS = 64 * MIB
AIM_MAPS = 64 * MIB
AIM_CPU = 0.01  # of all that the daemon does; no aim where --daemon-budget is off

# An untraced segment is shorter than a traced one, since each ratio takes two of them.
UNTRACED_SHARE = 0.6
STEAL_LIMIT = 0.02
SETTLE_AFTER_STOP = 0.5


def untraced_seconds(seconds):
    return max(1, math.ceil(seconds * UNTRACED_SHARE))


class Surroundings:
    """What else went on during a segment: time stolen, and CPU used by uninvolved processes.

    Involved is whatever descends from this process or from the workload's server. The CPU time of
    a process that ends moves to its parent, so nothing is lost when one does.
    """

    def __init__(self, pids):
        self.roots = [os.getpid(), pids[0]]
        self.ticks = os.sysconf("SC_CLK_TCK")
        self.began, self.before = time.monotonic(), self._read()

    def _read(self):
        busy, steal = process.machine_ticks()
        own = 0
        for pid in {pid for root in self.roots for pid in descendants(root)}:
            try:
                times = process.read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()[11:15]
                own += sum(map(int, times))
            except OSError:
                pass  # it ended: its time is in its parent's
        return busy, steal, own

    def result(self):
        """Shares of one CPU."""
        span = (time.monotonic() - self.began) * self.ticks
        busy, steal, own = (after - before for after, before in zip(self._read(), self.before))
        return {"steal": round(steal / span, 4), "others": round(max(0, busy - own) / span, 4)}


def measure(workload, pids, seconds):
    """One segment: {"value": in the workload's unit, "cpu": seconds for a unit of work, ...}."""
    around = Surroundings(pids)
    value, cpu = workload.measure(seconds)
    if value <= 0 or cpu <= 0:
        raise Failed(f"{workload.name} got nothing done in a segment")
    return {"value": value, "cpu": cpu, **around.result()}


def ratio_of(workload, traced, untraced):
    """Performance traced over untraced, whichever way the unit points."""
    return traced / untraced if workload.higher_is_better else untraced / traced


class Runner:
    """Runs the rounds of one workload."""

    def __init__(self, workload, tools, options, progress):
        self.workload, self.tools, self.options = workload, list(tools), options
        self.progress = progress
        self.rows = {tool.name: {"pairs": [], "extras": []} for tool in tools}
        self.failed = []

    def untraced(self):
        seconds = untraced_seconds(self.options.seconds)
        return measure(self.workload, self.workload.prepare(), seconds)

    def traced(self, tool):
        pids = self.workload.prepare()
        try:
            tool.start(self.workload, pids)
            tool.begin()
            segment = measure(self.workload, pids, self.options.seconds)
            return segment, tool.end()
        finally:
            tool.stop()
            time.sleep(SETTLE_AFTER_STOP)

    def pair(self, tool, before):
        """One pair after the untraced segment `before`: (pair, extra, last segment)."""
        bursts = bursts_of(self.workload, tool, self.options)
        if bursts and self.workload.runs_in_pair:
            pair, extra = self.alternate_runs(tool, bursts)
            return pair, extra, self.untraced()
        if bursts:
            pair, extra = self.alternate(tool, bursts)
            return pair, extra, self.untraced()
        traced, extra = self.traced(tool)
        after = self.untraced()
        return make_pair(self.workload, [before, traced, after]), extra, after

    def alternate(self, tool, bursts):
        """A pair of short segments in which a tool that stays attached is paused, active, paused,
        ..., paused."""
        pids = self.workload.prepare()
        spans, cpus = [], []
        try:
            tool.start(self.workload, pids)
            around = Surroundings(pids)
            for i in range(2 * bursts + 1):
                tool.pause(i % 2 == 0)
                time.sleep(self.workload.settle_after_pause)
                cpu = CpuMeter(pids)
                begin = self.workload.instant()
                time.sleep(burst_seconds_of(self.workload, self.options))
                spans.append((begin, self.workload.instant()))
                cpus.append(cpu.seconds())
            around = around.result()
            tool.pause(False)
            time.sleep(self.workload.settle_after_pause)
            tool.begin()
            time.sleep(max(1, self.options.seconds))
            extra = tool.end()
            counts = self.workload.counts(spans)
            segments = [{"value": count / (end - begin), "cpu": cpu / count, **around}
                        if count > 0 and cpu > 0 else None
                        for count, cpu, (begin, end) in zip(counts, cpus, spans)]
            return make_pair(self.workload, without_stalls(self.workload, segments)), extra
        finally:
            tool.stop()
            time.sleep(SETTLE_AFTER_STOP)

    def alternate_runs(self, tool, runs):
        """The same where a segment is a whole run of the program. One run goes before: what a tool
        reads once of a program that it never saw is not what it costs always."""
        # Each run is a process of its own: what lasts, and what a tool can be told to watch, is the
        # parent of them all.
        pids = [os.getpid()]
        segments = []
        try:
            tool.start(self.workload, pids)
            self.workload.measure(self.options.seconds)
            for i in range(2 * runs + 1):
                tool.pause(i % 2 == 0)
                time.sleep(self.workload.settle_after_pause)
                last_traced = i == 2 * runs - 1
                if last_traced:
                    tool.begin()
                segments.append(measure(self.workload, pids, self.options.seconds))
                if last_traced:
                    extra = tool.end()
            return make_pair(self.workload, segments), extra
        finally:
            tool.stop()
            time.sleep(SETTLE_AFTER_STOP)

    def round(self, number):
        turn = number % len(self.tools)
        before = self.untraced()
        self.progress.step(f"{self.workload.name}: round {number + 1} of {self.options.pairs}",
                           segment_cost(self.options.seconds, None))
        for tool in self.tools[turn:] + self.tools[:turn]:
            cost = pair_cost(self.workload, tool, self.options)
            try:
                pair, extra, before = self.pair(tool, before)
            except Failed as why:
                log(f"{tool.name} under {self.workload.name}: {why}")
                self.failed.append((tool.name, str(why).split("\n", 1)[0]))
                self.tools.remove(tool)
                self.progress.drop(cost * (self.options.pairs - number))
                before = self.untraced()
                continue
            pair["round"] = number
            self.rows[tool.name]["pairs"].append(pair)
            self.rows[tool.name]["extras"].append(extra)
            self.progress.step(
                f"{self.workload.name} {tool.name}: {amount(pair['traced'])} "
                f"{self.workload.unit}, ratio {pair['ratio']:.3f}"
                f"{', disturbed' if disturbed(pair) else ''}", cost)

    def run(self):
        """All rounds; what a failing tool did before it failed is not reported."""
        for number in range(self.options.pairs):
            if self.tools:
                self.round(number)
        return [make_row(self.workload, tool, self.rows[tool.name], self.options)
                for tool in self.tools]


class Launches(Runner):
    """Runs the rounds of tools that a workload is started under: it is, for every segment."""

    def untraced(self):
        return self._launched(None, untraced_seconds(self.options.seconds))

    def traced(self, tool):
        tool.check_program(self.workload.program())
        try:
            return self._launched(tool, self.options.seconds), {}
        finally:
            tool.stop()

    def _launched(self, tool, seconds):
        self.workload.launcher = tool
        try:
            self.workload.restart()
            segment = measure(self.workload, self.workload.prepare(), seconds)
            output = self.workload.finish()
        finally:
            self.workload.launcher = None
        if tool:
            tool.recorded(output)
        return segment


def without_stalls(workload, segments):
    """The segments that alternate, less those in which the whole machine stood still (None), and one
    neighbour of each, so that traced and untraced ones go on alternating."""
    kept = []
    for i, segment in enumerate(segments):
        traced = i % 2 == 1
        if segment is None or traced != (len(kept) % 2 == 1):
            continue
        kept.append(segment)
    if len(kept) % 2 == 0:
        kept = kept[:-1]
    # Chance, not a tool that stops everything.
    if 2 * len(kept) < len(segments):
        raise Failed(f"{workload.name} got nothing done in most segments")
    return kept


def make_pair(workload, segments):
    """The pair of segments that alternate: untraced, traced, untraced, ... , untraced.

    With several traced ones, each is compared with the geometric mean of its two neighbours, and
    the pair's ratio is the geometric mean of all: noise that is the same on both sides then moves
    it neither up nor down, however large it is.
    """
    traced = segments[1::2]
    values = [segment["value"] for segment in segments]
    cpus = [segment["cpu"] for segment in segments]
    mean = statistics.geometric_mean if len(traced) > 1 else statistics.fmean

    def around(column, i):
        return mean((column[i - 1], column[i + 1]))

    middles = range(1, len(segments), 2)
    ratios = [ratio_of(workload, values[i], around(values, i)) for i in middles]
    cpu_ratios = [around(cpus, i) / cpus[i] for i in middles]
    pair = {"before": statistics.fmean(values[0:-1:2]),
            "traced": statistics.fmean(segment["value"] for segment in traced),
            "after": statistics.fmean(values[2::2]),
            "ratio": statistics.geometric_mean(ratios),
            "cpu_per_unit": cpus, "cpu_ratio": statistics.geometric_mean(cpu_ratios),
            "steal": [segment["steal"] for segment in segments],
            "others": [segment["others"] for segment in segments]}
    if len(traced) > 1:
        # Hundreds of segments: what can be checked of them is kept, in little space.
        pair.update({"burst_ratios": [round(ratio, 4) for ratio in ratios],
                     "cpu_per_unit": [statistics.fmean(cpus[0::2]), statistics.fmean(cpus[1::2])],
                     "steal": [max(pair["steal"])], "others": [max(pair["others"])]})
    return pair


def bursts_of(workload, tool, options):
    """How often a tool is put on and taken off in each pair; 0: once, for a long segment."""
    wanted = tool.name == "none" or (workload.name, tool.name) in AIMS
    if not wanted or not tool.can_pause:
        return 0
    if workload.runs_in_pair:
        return min(options.bursts, workload.runs_in_pair)
    if not workload.can_count_spans:
        return 0
    return math.ceil(options.bursts / workload.burst_scale)


def burst_seconds_of(workload, options):
    return round(options.burst_seconds * workload.burst_scale, 6)


def segment_cost(seconds, tool):
    """Expected seconds of a tool's turn with the untraced segment after it; None: of that alone."""
    alone = untraced_seconds(seconds) + 0.4
    return alone if tool is None else alone + seconds + 0.4 + tool.start_seconds + SETTLE_AFTER_STOP


def pair_cost(workload, tool, options):
    """Expected seconds of one pair of a tool."""
    once = segment_cost(options.seconds, tool)
    if tool.launches:
        return once + 2 * workload.restart_seconds
    bursts = bursts_of(workload, tool, options)
    if workload.runs_in_pair:
        return once + (2 * bursts + 2) * workload.run_seconds
    each = burst_seconds_of(workload, options) + workload.settle_after_pause + 0.003
    return once + bursts * 2 * each


def disturbed(pair):
    return max(pair["steal"]) > STEAL_LIMIT or max(pair["others"]) > process.OTHERS_LIMIT


def make_row(workload, tool, found, options):
    """The row of the results file for one workload under one tool."""
    pairs, extras = found["pairs"], found["extras"]
    ratios = [pair["ratio"] for pair in pairs]
    cpu_ratios = [pair["cpu_ratio"] for pair in pairs]
    row = {"workload": workload.name, "about": workload.about, "tool": tool.name,
           "unit": workload.unit, "higher_is_better": workload.higher_is_better,
           "untraced": statistics.median((pair["before"] + pair["after"]) / 2 for pair in pairs),
           "traced": statistics.median(pair["traced"] for pair in pairs),
           "ratios": ratios, **stats.summary(ratios),
           "cpu_ratios": cpu_ratios, "cpu_ratio": stats.summary(cpu_ratios),
           "disturbed": sum(map(disturbed, pairs)),
           "aim": AIMS.get((workload.name, tool.name)), "seconds": options.seconds,
           "burst_seconds": workload.run_seconds or burst_seconds_of(workload, options),
           "bursts": bursts_of(workload, tool, options), "pairs": pairs, "extras": extras}
    if tool.note:
        row["note"] = tool.note
    # Of rates the mean: what comes in bursts is in few of the segments.
    for keys, middle in ((("cpu", "in_path_ns_per_second", "switches_per_second"),
                          statistics.fmean),
                         (("tick_interval_ns", "data_bytes"), statistics.median)):
        for key in keys:
            values = [extra[key] for extra in extras if key in extra]
            if values:
                row[key] = middle(values)
    for key in ("rss_peak_bytes", "kernel_map_bytes", "threads"):
        values = [extra[key] for extra in extras if key in extra]
        if values:
            row[key] = max(values)
    layers = {name for extra in extras for name in extra.get("layers", {})}
    if layers:
        # In how many of the pairs each layer was on as the segment ended.
        row["layers_on"] = {name: sum(bool(extra["layers"].get(name)) for extra in extras)
                            / len(extras) for name in sorted(layers)}
    return row


def amount(value):
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def span(interval):
    return "-" if not interval else f"{interval[0]:.3f}-{interval[1]:.3f}"


def print_table(section, where):
    """The section as text on stdout."""
    print(f"Kernel {where['kernel']}, {where['cpus']} CPUs ({where['cpu_model']}), load "
          f"{where['load_before']} before. {section['pairs']} pairs a row, segments of "
          f"{section['seconds']} s; where there is an aim, of {section['bursts']} bursts of "
          f"{section['burst_seconds']} s or fewer and longer ones.\n"
          "Ratio = performance traced / mean of the untraced segments just before and just after; "
          "pairs of a row share no segment.\n"
          "CPU = CPU time of the watched processes for a unit of work, untraced / traced.\n")
    header = (f"{'workload':<14} {'tool':<15} {'untraced':>16} {'median':>7} "
              f"{'95 % interval':>14} {'quartiles':>13} {'min-max':>13} {'aim':>11} {'CPU':>7} "
              f"{'95 % interval':>14} {'disturbed':>9}")
    print(header)
    print("-" * len(header))
    for row in section["rows"]:
        low, high = row["quartiles"]
        aim = "-" if row["aim"] is None else f"{row['aim']:.2f} " + (
            "met" if row["median"] >= row["aim"] else "MISSED")
        print(f"{row['workload']:<14} {row['tool']:<15} "
              f"{amount(row['untraced']) + ' ' + row['unit']:>16} {row['median']:>7.3f} "
              f"{span(row['interval']):>14} {low:>7.3f}-{high:.3f} "
              f"{row['min']:>7.3f}-{row['max']:.3f} {aim:>11} "
              f"{row['cpu_ratio']['median']:>7.3f} {span(row['cpu_ratio']['interval']):>14} "
              f"{row['disturbed']:>9}")
    for skipped in section["skipped"]:
        print(f"{skipped['workload']:<14} {skipped['tool']:<15} left out: {skipped['why']}")
    print_own(section["rows"])
    notes = {(row["tool"], row["note"]) for row in section["rows"] if "note" in row}
    for tool, note in sorted(notes):
        print(f"\n{tool}: {note}.")
    written = [row for row in section["rows"] if row.get("data_bytes")]
    if written:
        most = max(written, key=lambda row: row["data_bytes"])
        print(f"\nperf record wrote {most['data_bytes'] / MIB:.1f} MiB in a segment of "
              f"{most['workload']}, still to be read by perf script.")


def print_own(rows):
    """What profd itself took and did during the traced segments."""
    own = [row for row in rows if "cpu" in row]
    if not own:
        return
    print(f"\nprofd itself (aims: peak RSS {AIM_RSS // MIB} MiB, kernel maps {AIM_MAPS // MIB} "
          f"MiB, by default CPU {AIM_CPU:.0%} of one)")
    header = (f"{'workload':<14} {'tool':<15} {'peak RSS':>9} {'maps':>9} {'CPU':>7} "
              f"{'in path':>8} {'switches/s':>11} {'ns/switch':>9} {'tick':>8}  layers on")
    print(header)
    print("-" * len(header))
    missed = []
    for row in own:
        switches, in_path = row["switches_per_second"], row["in_path_ns_per_second"]
        each = f"{in_path / switches:.0f}" if switches else "-"
        layers = ", ".join(name if share == 1 else f"{name} {share:.0%}"
                           for name, share in row.get("layers_on", {}).items() if share)
        print(f"{row['workload']:<14} {row['tool']:<15} {row['rss_peak_bytes'] / MIB:>5.1f} MiB "
              f"{row['kernel_map_bytes'] / MIB:>5.1f} MiB {row['cpu']:>7.2%} {in_path / 1e9:>8.2%} "
              f"{switches:>11,.0f} {each:>9} {row['tick_interval_ns'] / 1e6:>5.0f} ms  {layers}")
        limits = [("peak RSS", row["rss_peak_bytes"] > AIM_RSS),
                  ("maps", row["kernel_map_bytes"] > AIM_MAPS),
                  ("CPU", row["tool"] != "profd-all" and row["cpu"] > AIM_CPU)]
        missed += [f"{row['workload']} {row['tool']} {what}" for what, over in limits if over]
    print("Aims missed: " + ("; ".join(missed) if missed else "none"))


def positive(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return value


def add_arguments(subparsers):
    """Adds the subcommand `run`."""
    parser = subparsers.add_parser(
        "run", help="overhead by workload and tool", description=__doc__, epilog=listing(),
        formatter_class=argparse.RawDescriptionHelpFormatter)
    add_run_options(parser)
    parser.set_defaults(main=main)


def listing():
    lines = ["workloads:"]
    lines += [f"  {name:<15} {workload.about}" for name, workload in WORKLOADS.items()]
    lines += ["", "tools:"]
    lines += [f"  {line.strip()}" for line in
              sys.modules["profdbench.tools"].__doc__.split("\n\n", 1)[1].strip().splitlines()]
    return "\n".join(lines)


def add_run_options(parser):
    parser.add_argument("--workload", action="append", choices=list(WORKLOADS), metavar="NAME",
                        help="only this row; may be repeated")
    parser.add_argument("--tool", action="append", choices=list(TOOLS), metavar="NAME",
                        help="only this column; may be repeated (default: all)")
    parser.add_argument("--pairs", type=positive, default=9,
                        help="pairs a row (default 9; at least 6 for an interval)")
    parser.add_argument("--seconds", type=positive, default=5,
                        help="length of a traced segment (default 5)")
    parser.add_argument("--bursts", type=int, default=200, metavar="N",
                        help="cut each pair of a row that has an aim, and of none, into N short "
                        "traced segments (default 200; 0: one long one); see above")
    parser.add_argument("--burst-seconds", type=float, default=0.04, metavar="S",
                        help="their length (default 0.04)")
    parser.add_argument("--add", action="store_true",
                        help="keep the rows of other workloads and tools that the JSON file "
                        "holds: a table put together from several runs, which says so")
    parser.add_argument("--offcputime", metavar="PATH", help="the binary of libbpf-tools")
    add_common_options(parser)


def add_common_options(parser):
    """--build and --json, which `bench` without a subcommand shares with `bench scale`."""
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"),
                        help="where profd and profctl are (default build/release)")
    parser.add_argument("--json", metavar="FILE", help="write all numbers there as well")


def tools_for(workload, tools):
    """The tools of each runner: those that come to a running workload, those that it is started
    under."""
    return {Runner: [tool for tool in tools if not tool.launches],
            Launches: [tool for tool in tools if tool.launches and workload.can_launch]}


def plan(names, tools, options):
    """Expected seconds of the whole run."""
    def per_round(name):
        return sum(segment_cost(options.seconds, None) +
                   sum(pair_cost(WORKLOADS[name], tool, options) for tool in used)
                   for used in tools_for(WORKLOADS[name], tools).values() if used)

    return sum(WORKLOADS[name].setup_seconds + options.pairs * per_round(name) for name in names)


def make_tools(options, skipped):
    tools = []
    for name in options.tool or list(TOOLS):
        try:
            tools.append(TOOLS[name](options))
            if tools[-1].note:
                log(f"{name}: {tools[-1].note}")
        except Unavailable as why:
            skipped.append({"workload": "all", "tool": name, "why": str(why)})
            log(f"{name}: left out: {why}")
    return tools


def run_all(options, section, save):
    """Fills section["rows"] and section["skipped"]; save() after each workload."""
    names = options.workload or list(WORKLOADS)
    with tempfile.TemporaryDirectory(prefix="profd-bench.", dir="/var/tmp") as directory:
        os.chmod(directory, 0o711)  # PostgreSQL's user must reach its part
        options.directory = directory
        tools = make_tools(options, section["skipped"])
        if not tools:
            raise Failed("none of the tools can run here")
        expected = plan(names, tools, options)
        log(f"{len(names)} workloads, {len(tools)} tools, {options.pairs} pairs: "
            f"about {duration(expected)}")
        progress = Progress(expected)
        for name in names:
            own = plan([name], tools, options)
            done = progress.done
            for tool in tools:
                if tool.name != "profd-all":
                    tool.note = None
            try:
                runners = {kind: used for kind, used in tools_for(WORKLOADS[name], tools).items()
                           if used}
                if not runners:
                    raise Unavailable("none of the tools can watch it")
                with WORKLOADS[name](directory) as workload:
                    progress.step(f"{name}: {workload.about}", workload.setup_seconds)
                    for kind, used in runners.items():
                        runner = kind(workload, used, options, progress)
                        section["rows"] += runner.run()
                        section["skipped"] += [{"workload": name, "tool": tool, "why": why}
                                               for tool, why in runner.failed]
            except (Unavailable, Failed) as why:
                progress.drop(own - (progress.done - done))
                section["skipped"].append(
                    {"workload": name, "tool": "all", "why": str(why).split("\n", 1)[0]})
                log(f"{name}: left out: {why}")
            save()


def kept_rows(options):
    """Rows that are not measured now, from the file that is added to."""
    if not options.json or not os.path.exists(options.json):
        raise Failed("--add needs --json FILE with the results of an earlier run")
    workloads, tools = options.workload or list(WORKLOADS), options.tool or list(TOOLS)
    rows = results.load(options.json).get("overhead", {}).get("rows", [])
    return [row for row in rows if row["workload"] not in workloads or row["tool"] not in tools]


def in_order(rows):
    """Rows as a run of all workloads under all tools would have put them."""
    workloads, tools = list(WORKLOADS), list(TOOLS)
    return sorted(rows, key=lambda row: (workloads.index(row["workload"]),
                                         tools.index(row["tool"])))


def main(options):
    """Measures, prints, saves; 0 when there is a row, 1 when there is none."""
    process.require_root()
    if options.json:
        results.check_writable(options.json)
    # Also where a shell started this in the background, which has SIGINT ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    where = results.machine()
    if where["load_before"] > 0.3 * where["cpus"]:
        log(f"warning: this machine is busy (load {where['load_before']}); the ratios will scatter")
    section = {"pairs": options.pairs, "seconds": options.seconds, "bursts": options.bursts,
               "burst_seconds": options.burst_seconds,
               "untraced_seconds": untraced_seconds(options.seconds), "rows": [], "skipped": []}

    kept = kept_rows(options) if options.add else []
    began = time.strftime("%Y-%m-%d %H:%M", time.gmtime())

    def save():
        for row in section["rows"]:
            row["run"] = began
        if options.json and section["rows"]:
            whole = {**section, "rows": in_order(kept + section["rows"])}
            results.save_section(options.json, "overhead", whole, where)

    try:
        run_all(options, section, save)
    finally:
        process.release_tracefs()
    print_table(section, where)
    return 0 if section["rows"] else 1
