"""`bench report`: docs/performance.md and its plots, made from a results file.

The page states nothing that is not computed from the file, so it cannot drift from the numbers. The
same file gives the same bytes; a unit test holds the page in docs/ against its results.json.
"""

import argparse
import os
import shutil

from profdbench import plot, results
from profdbench.progress import log

MIB = 1024 * 1024
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
FOLDER = "performance"  # beside the page
KNOWN_TOOLS = {
    "profd": "profd, default budgets", "profd-all": "profd, all layers",
    "profd-noswitch": "profd, no switch layer", "perf": "perf record",
    "bpftrace": "bpftrace, user stacks", "offcputime": "offcputime", "none": "nothing (noise)",
    "heaptrack": "heaptrack", "jeprof": "jemalloc's profiling",
}


def tool_name(tool):
    return KNOWN_TOOLS.get(tool, tool)


def amount(value):
    """Three digits or so."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def cell(value):
    return str(value).replace("|", "\\|").replace("\n", " ")


def table(header, rows, left=1):
    """A Markdown table; the first `left` columns are text, the others numbers."""
    marks = ["---" if i < left else "--:" for i in range(len(header))]
    return ["| " + " | ".join(map(cell, row)) + " |" for row in [header, marks, *rows]] + [""]


def machine_text(machine):
    return (f"{machine['cpus']} CPUs ({machine['cpu_model']}), "
            f"{machine['memory_bytes'] / 1024**3:.0f} GiB of memory, Linux {machine['kernel']} "
            f"{machine['arch']}; load {machine['load_before']} before the first run; "
            f"{machine['date'][:10]}")


def machine_section(document):
    lines = ["## The machine", ""]
    parts = [(name, document[key]["machine"]) for key, name in
             (("overhead", "Overhead"), ("scale", "Growth")) if key in document]
    same = len({machine_text(machine) for _, machine in parts}) == 1
    for name, machine in parts[:1] if same else parts:
        prefix = "" if same else f"{name}: "
        lines += [f"{prefix}{machine_text(machine)}.", ""]
    lines += ["Ratios carry over to other machines better than absolute numbers. Both depend on "
              "the kernel, on how busy the machine is and on what is watched; measure yours with "
              "the command above.", ""]
    return lines


# Overhead.

def aims(document):
    """Sentences on what was aimed at and what came out; pass or fail is by the medians."""
    lines = []
    for row in document.get("overhead", {}).get("rows", []):
        if row.get("aim") is None:
            continue
        interval = row.get("interval")
        around = f" (95 % interval {interval[0]:.3f} to {interval[1]:.3f})" if interval else ""
        verdict = "met" if row["median"] >= row["aim"] else "**missed**"
        lines.append(f"- {row['workload']} under {tool_name(row['tool'])}: aim at least "
                     f"{row['aim']:.2f}, median of {len(row['ratios'])} pairs "
                     f"{row['median']:.3f}{around}: {verdict}.")
    return lines


def pairs_of(row):
    """How the ratios of a row were taken."""
    if row["bursts"]:
        return f"{len(row['ratios'])} of {row['bursts']} x {row['burst_seconds']} s"
    return f"{len(row['ratios'])} of {row['seconds']} s"


def runs_apart(rows):
    """Sentences on rows of a workload that were measured in another run than most of it."""
    lines = []
    for workload in dict.fromkeys(row["workload"] for row in rows):
        by_run = {}
        for row in rows:
            if row["workload"] == workload:
                by_run.setdefault(row.get("run", ""), []).append(tool_name(row["tool"]))
        most = max(by_run, key=lambda run: len(by_run[run]))
        lines += [f"- **{workload}**: measured in a run of its own, {run} UTC: {'; '.join(names)}."
                  for run, names in by_run.items() if run != most]
    return lines + [""] if lines else []


def overhead_section(section, images):
    lines = ["## What it costs the program that is watched", "",
             "Each ratio is the speed under the tool, divided by the mean of the untraced segments "
             "just before and just after it. Where a pair says 100 x 0.04 s, the tool was "
             "paused and resumed a hundred times in each pair, and the pair is the mean of all: "
             "the speed of the machine wanders from one fraction of a second to the next, and only "
             "changing often between traced and untraced averages that out. 1 is no loss; 0.97 means that 3 % of the speed is "
             "gone. The interval holds the true median with 95 % confidence. All tools of a workload "
             "were measured in turns in the same run, unless it is said below.", ""]
    rows = section["rows"]
    drawn = [plot.Ratio(row["workload"], tool_name(row["tool"]), row["median"],
                        (row["interval"] or row["quartiles"])[0],
                        (row["interval"] or row["quartiles"])[1], row.get("aim"))
             for row in rows]
    if drawn:
        images["overhead.svg"] = plot.ratios("Speed under each tool", drawn,
                                             "speed traced / untraced")
        lines += [f"![Ratio by workload and tool]({FOLDER}/overhead.svg)", ""]
    lines += table(
        ["workload", "tool", "untraced", "ratio", "95 % interval", "quartiles", "min to max",
         "pairs"],
        [[row["workload"], tool_name(row["tool"]), f"{amount(row['untraced'])} {row['unit']}",
          f"{row['median']:.3f}",
          f"{row['interval'][0]:.3f} to {row['interval'][1]:.3f}" if row["interval"] else "-",
          f"{row['quartiles'][0]:.3f} to {row['quartiles'][1]:.3f}",
          f"{row['min']:.3f} to {row['max']:.3f}",
          pairs_of(row)] for row in rows], left=2)
    lines += runs_apart(rows)
    if any(row["tool"] == "none" for row in rows):
        lines += ["The rows of \"nothing\" show what two equal runs differ by here: a smaller "
                  "difference means nothing.", ""]
    if any(row["tool"] in ("heaptrack", "jeprof") for row in rows):
        lines += ["heaptrack and jemalloc's own profiling are in a program from its start: theirs "
                  "are ratios of whole runs, one started under the tool and one before and after "
                  "it without.", ""]
    about = {row["workload"]: row["about"] for row in rows if row.get("about")}
    lines += [f"- **{name}**: {text}" for name, text in about.items()] + ([""] if about else [])
    skipped = section.get("skipped", [])
    if skipped:
        lines += ["Left out:", ""]
        lines += [f"- {s['workload']}, {tool_name(s['tool'])}: {s['why']}" for s in skipped] + [""]
    notes = list(dict.fromkeys((row["tool"], row["note"]) for row in rows if row.get("note")))
    if notes:
        lines += [f"- {tool_name(tool)}: {note}" for tool, note in notes] + [""]
    return lines


def own_section(section):
    rows = [row for row in section["rows"] if "cpu" in row]
    if not rows:
        return []

    def switch_cost(row):
        switches = row.get("switches_per_second", 0)
        if not row.get("layers_on", {}).get("switch", 1):
            return "-"
        return f"{row['in_path_ns_per_second'] / switches:.0f}" if switches else "-"

    def in_path(row):
        if not row.get("switches_per_second"):
            return ["-", "-"]
        return [f"{row.get('in_path_ns_per_second', 0) / 1e9:.2%}",
                f"{row['switches_per_second']:,.0f}"]

    def layers(row):
        return ", ".join(name if share == 1 else f"{name} {share:.0%} of the time"
                         for name, share in row.get("layers_on", {}).items() if share) or "-"
    return ["## What profd took meanwhile", "",
            "CPU is that of the daemon, of one CPU; \"in path\" is what its kernel programs took "
            "in the watched threads themselves, by profd's own account, whatever the layer; both "
            "are means over the pairs. \"ns a switch\" is all of that over the switches; a dash: "
            "the switch layer was given up. What the daemon says is of its last drain: of runs that "
            "take a second (pipe, messaging) a good part is missing in \"in path\" and switches.", "",
            *table(["workload", "tool", "CPU", "in path", "switches/s", "ns a switch", "tick",
                    "peak RSS", "kernel maps", "layers on"],
                   [[row["workload"], tool_name(row["tool"]), f"{row['cpu']:.2%}",
                     *in_path(row), switch_cost(row),
                     f"{row['tick_interval_ns'] / 1e6:.0f} ms" if "tick_interval_ns" in row
                     else "-", f"{row['rss_peak_bytes'] / MIB:.1f} MiB",
                     f"{row['kernel_map_bytes'] / MIB:.1f} MiB", layers(row)]
                    for row in rows], left=2)]


# Growth.

ABOUT = {
    "threads": "Threads that are blocked for good, a quarter each on a futex, in poll, in sleep "
               "and in recv. A thread that is still in the same wait is not walked again, and when "
               "the daemon's budget is passed it is visited at one tick of 16.",
    "switches": "Pairs of threads that do nothing but wake each other, one pair held on each CPU. "
                "The last point has no pause: all CPUs are taken, and fetches wait for theirs.",
    "stacks": "64 threads whose waits of 10 ms go through this many different stacks by turns, 17 "
              "frames and more each. That is far from what programs do: most have some thousand, "
              "of which few are frequent.",
    "modules": "One thread waits under calls through shared objects, eight at a time. Each is a "
               "file of its own with rules for 150 functions. The start is the time until profd "
               "has read the rules of all.",
}


def percent(value):
    return f"{value * 100:.2f} %"


def series(points, *pairs):
    return [plot.Series(name, [(p["x"], value(p)) for p in points]) for name, value in pairs]


def spread(values):
    """True when a linear axis would flatten the small ones."""
    positive = [value for value in values if value > 0]
    return bool(positive) and max(positive) > 30 * min(positive)


def growth_plot(curve, limits):
    points = sorted(curve["points"], key=lambda point: point["x"])
    x_label = {"switches": "context switches a second"}.get(curve["name"], curve["axis"])
    limit = limits["rss_peak_bytes"] / MIB
    latencies = [p["fetch"][key] for p in points for key in ("p50_ms", "p99_ms")]
    first = plot.Panel("CPU of profd", x_label, "% of one CPU", series(
        points, ("all", lambda p: p["daemon_cpu"] * 100),
        ("ticks", lambda p: p["tick_cpu"] * 100),
        ("drains", lambda p: p["drain_cpu"] * 100)), x_log=True)
    if curve["name"] == "modules":  # which are read at the start, and cost nothing later
        first = plot.Panel("Start", x_label, "s", series(
            points, ("until ready", lambda p: p["startup_s"])), x_log=True)
    return plot.lines(curve["title"], [
        first,
        plot.Panel("Memory", x_label, "MiB", series(
            points, ("peak RSS", lambda p: p["rss_peak_bytes"] / MIB),
            ("kernel maps", lambda p: p["kernel_map_bytes"] / MIB),
            ("store", lambda p: p["store_bytes"] / MIB)),
            x_log=True, limit=(limit, f"limit of RSS and of maps: {limit:.0f} MiB")),
        plot.Panel("Fetch of 10 s", x_label, "ms", series(
            points, ("p50", lambda p: p["fetch"]["p50_ms"]),
            ("p99", lambda p: p["fetch"]["p99_ms"]),
            ("status, p50", lambda p: p["status_call"]["p50_ms"])),
            x_log=True, y_log=spread(latencies))])


def missed(point):
    return point["ticks_missed"] / max(1, point["ticks"] + point["ticks_missed"])


def over(point, key):
    text = f"{point[key] / MIB:.1f}"
    return f"**{text}**" if key in point["over"] else text


def losses_text(losses):
    return ", ".join(f"{name} {count:,}" for name, count in sorted(losses.items()) if count) or "-"


def points_table(axis, points):
    rows = [[
        f"{p['x']:,}{'*' if p['disturbed'] else ''}", percent(p["daemon_cpu"]),
        percent(p["tick_cpu"]), percent(p["drain_cpu"]), f"{p['drain_ms']:.2f}",
        f"{p['entries']:,}", over(p, "rss_peak_bytes"), f"{p['rss_quiet_bytes'] / MIB:.1f}",
        over(p, "kernel_map_bytes"), f"{p['store_bytes'] / MIB:.1f}",
        f"{p['fetch']['p50_ms']:.0f} / {p['fetch']['p99_ms']:.0f}",
        f"{p['status_call']['p50_ms']:.0f}", f"{p['tick_interval_ms']:.0f}", percent(missed(p)),
        f"{p['in_path_ns_per_s'] / 1e6:.2f}", f"{p['startup_s']:.1f}"] for p in points]
    return table([axis, "CPU", "ticks", "drains", "ms a drain", "entries", "peak RSS", "RSS",
                  "maps", "store", "fetch p50 / p99", "status", "tick", "missed", "in path",
                  "start"], rows, left=0)


def layers_of(curves):
    """Every layer that was on at some point."""
    return sorted({layer for curve in curves for point in curve.get("points", [])
                   for layer in point["layers_on"]})


def in_force(scale):
    """A sentence on the budgets and the layers that were measured."""
    governors = [point["governor"] for curve in scale["curves"]
                 for point in curve.get("points", []) if "governor" in point]
    layers = layers_of(scale["curves"])
    if not governors or not layers:
        return ""
    budgets = [f"{governors[0][key]:.1%}" if governors[0][key] else "none"
               for key in ("target_budget", "daemon_budget")]
    return (f" Budgets then: {budgets[0]} of one CPU in the targets' path, {budgets[1]} for "
            f"ticks and drains; layers: {', '.join(layers)}.")


def curve_section(curve, limits, images):
    name = curve["name"]
    images[f"{name}.svg"] = growth_plot(curve, limits)
    lines = [f"### {curve['title']}", "", ABOUT[name], "",
             f"![{curve['title']}]({FOLDER}/{name}.svg)", "",
             *points_table(curve["axis"], curve["points"])]
    lost = [(p["x"], losses_text(p["losses"])) for p in curve["points"]
            if any(p["losses"].values())]
    if lost:
        lines += ["Lost, as profd said: " + "; ".join(f"at {x:,}: {text}" for x, text in lost)
                  + ".", ""]
    whole = layers_of([curve])
    gave_up = [(p["x"], p["layers_on"]) for p in curve["points"]
               if len(p["layers_on"]) < len(whole)]
    if gave_up:
        lines += ["Layers on at the end of the span: " +
                  "; ".join(f"at {x:,}: {', '.join(on) or 'none'}" for x, on in gave_up) + ".", ""]
    return lines


def window_section(curve, images):
    live, stores = curve["live"], curve["stores"]
    whole = [w for store in stores for w in store["windows"]]
    images["window.svg"] = plot.lines(curve["title"], [
        plot.Panel("Fetch from a running profd", "window, s", "ms", [
            plot.Series("p50", [(w["window_s"], w["p50_ms"]) for w in live["windows"]]),
            plot.Series("p99", [(w["window_s"], w["p99_ms"]) for w in live["windows"]])],
            x_log=True),
        plot.Panel("Merge of the window alone, p50", "window, s", "ms", [
            plot.Series(store["title"], [(w["window_s"], w["p50_ms"]) for w in store["windows"]])
            for store in stores], x_log=True, y_log=spread([w["p50_ms"] for w in whole]))])
    lines = ["### Length of the window", "",
             f"An hour was not waited for. Left: a running profd with {curve['history_s']} s of "
             "history, its target 20 threads that wait in 500 stacks and 50 idle ones. Right: the "
             "daemon's store alone, filled with an hour of made-up seconds; naming the frames and "
             "sending the answer, which do not grow with the window but with what is different in "
             "it, are not in the right plot.", "",
             f"![{curve['title']}]({FOLDER}/window.svg)", "",
             *table(["window, s", "fetch p50, ms", "fetch p99, ms"],
                    [[w["window_s"], f"{w['p50_ms']:.1f}", f"{w['p99_ms']:.1f}"]
                     for w in live["windows"]], left=0)]
    windows = list(dict.fromkeys(w["window_s"] for w in whole))

    def merge_cell(store, window):
        for w in store["windows"]:
            if w["window_s"] == window:
                short = "" if w["covered_s"] >= window else f" (holds {w['covered_s']:.0f} s)"
                return f"{w['p50_ms']:.1f} / {w['p99_ms']:.1f}{short}"
        return "-"
    lines += table(["merge p50 / p99, ms", *[f"{window} s" for window in windows],
                    "held", "store"],
                   [[store["title"], *[merge_cell(store, window) for window in windows],
                     f"{store['held_s']:.0f} s", f"{store['bytes'] / MIB:.1f} MiB"]
                    for store in stores])
    return lines


def drain_section(curves, images):
    """Drain cost by entries: every point of every curve that varies them."""
    chosen = [curve for curve in curves if curve["name"] in ("threads", "stacks")]
    if not chosen:
        return []
    panels = [plot.Panel("A drain, by counter entries", "entries read", "ms", [
        plot.Series(f"curve of {curve['name']}",
                    sorted((max(1, p["entries"]), p["drain_ms"]) for p in curve["points"]),
                    joined=False)
        for curve in chosen], x_log=True)]
    for curve in chosen:
        if curve["name"] == "threads":
            panels.insert(0, plot.Panel("A drain, by threads", "threads", "ms", [plot.Series(
                "curve of threads", sorted((p["threads"], p["drain_ms"])
                                           for p in curve["points"]))], x_log=True))
    images["drain.svg"] = plot.lines("CPU time of a drain", panels)
    return ["### CPU time of a drain", "",
            "Once a second, and at each fetch, profd reads every thread's account and every "
            "counter. An entry is one counter: a thread, a reason, a system call with its first "
            "argument, and a stack. Threads, entries and stacks never seen before each have their "
            "price, so points with equally many entries differ.", "",
            f"![CPU time of a drain]({FOLDER}/drain.svg)", ""]


def limits_of(scale):
    """Sentences on the limits along the curves."""
    exceeded = []
    for curve in scale["curves"]:
        points = curve.get("points") or [{**curve["live"], "x": curve["history_s"]}]
        for point in points:
            for key in point["over"]:
                what = {"rss_peak_bytes": "peak RSS", "kernel_map_bytes": "kernel maps"}[key]
                exceeded.append(f"{what} {point[key] / MIB:.1f} MiB at {point['x']:,} "
                                f"{curve['axis']}")
    limit = scale["limits"]
    head = (f"- Memory along the curves (limits {limit['rss_peak_bytes'] / MIB:.0f} MiB RSS, "
            f"{limit['kernel_map_bytes'] / MIB:.0f} MiB kernel maps): ")
    return [head + ("held at every point." if not exceeded
                    else "**exceeded**: " + "; ".join(exceeded) + ".")]


def scale_section(scale, images):
    mode = ("with budgets off, so that nothing is given up" if scale["all_layers"]
            else "with its default flags, so its governor is part of what is measured")
    lines = ["## How it grows", "",
             f"profd ran {mode}.{in_force(scale)} CPU, in % of one, is read over {scale['seconds']} s in which "
             f"nobody asks; then come {scale['fetches']} fetches of 10 s, timed as a user sees "
             f"them, start of the client included (p99 of {scale['fetches']} is "
             "the slowest), and as many calls of `status`, the floor for any client.", "",
             "Columns: memory in MiB, bold where over its limit, RSS before the first fetch and "
             "its peak after the last; fetch, status and the tick "
             "interval in force in ms; missed: share of ticks that came too late; in path: ms of "
             "CPU a second in the watched threads, by profd's own account; start: seconds until "
             "profd is ready. Entries are those of the last second. A star marks a point during "
             "which processes without a part in it used more than a tenth of a CPU.", ""]
    for curve in scale["curves"]:
        if curve["name"] != "window":
            lines += curve_section(curve, scale["limits"], images)
    for curve in scale["curves"]:
        if curve["name"] == "window":
            lines += window_section(curve, images)
    lines += drain_section(scale["curves"], images)
    for failure in scale.get("failures", []):
        lines += [f"The curve `{failure['curve']}` **failed**: {cell(failure['why'])}", ""]
    return lines


def render(document):
    """(text of the page, {file name: text of an SVG}) for a results document."""
    images = {}
    overhead, scale = document.get("overhead"), document.get("scale")
    verdicts = aims(document) + (limits_of(scale) if scale else [])
    body = []
    if overhead:
        body += overhead_section(overhead, images) + own_section(overhead)
    if scale:
        body += scale_section(scale, images)
    lines = [
        "<!-- Generated by tests/bench/bench report from performance/results.json: do not edit -->",
        "# What profd costs", "",
        "This page is generated. To make it anew, on your machine, as root (some two hours):", "",
        "```", "cmake --preset release && cmake --build --preset release",
        "tests/bench/bench --json results.json", "tests/bench/bench report results.json", "```", "",
        *(["## In short", "", *verdicts, ""] if verdicts else []),
        *machine_section(document), *body]
    return "\n".join(lines).rstrip("\n") + "\n", images


def write(path, out):
    """Writes the page, its plots and a copy of the numbers below the folder `out`."""
    text, images = render(results.load(path))
    folder = os.path.join(out, FOLDER)
    os.makedirs(folder, exist_ok=True)
    for name in os.listdir(folder):
        if name.endswith(".svg") and name not in images:
            os.unlink(os.path.join(folder, name))
    for name, image in images.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(image)
    with open(os.path.join(out, "performance.md"), "w", encoding="utf-8") as file:
        file.write(text)
    copy = os.path.join(folder, "results.json")
    if not (os.path.exists(copy) and os.path.samefile(path, copy)):
        shutil.copyfile(path, copy)
    return os.path.join(out, "performance.md")


def add_arguments(subparsers):
    parser = subparsers.add_parser(
        "report", help="docs/performance.md from a results file", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", metavar="RESULTS.json")
    parser.add_argument("--out", default=os.path.join(ROOT, "docs"),
                        help="folder of performance.md (default docs)")
    parser.set_defaults(main=main)
    return parser


def main(options):
    try:
        print(write(options.results, options.out))
    except results.BadFile as error:
        log(f"bench report: {error}")
        return 1
    except OSError as error:
        log(f"bench report: {error.filename}: {error.strerror}")
        return 1
    except (KeyError, TypeError, ValueError, IndexError) as error:
        log(f"bench report: {options.results} lacks something: {type(error).__name__}: {error}")
        return 1
    return 0
