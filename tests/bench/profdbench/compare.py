"""`bench compare OLD NEW`: what got worse beyond noise between two results files.

  repeated values   ratios of the pairs, and what profd took in each of them: worse when a rank
                    test (Mann-Whitney, two-sided, exact) says at 1 % that the two sets differ
                    and the median got worse by more than the floor below. The test needs five
                    values on either side; with fewer, the 95 % intervals must not overlap.
                    For ratios the floor is 0.005, or what the row `none` of that workload is
                    away from 1 in either file, whichever is more: two runs of a machine differ
                    by more than the pairs within one.
  single values     memory, and the points of the curves: worse when more than by a share and
                    more than by an absolute floor, both printed in the table of limits below.
                    CPU and latency of a point that other programs disturbed are not judged.

A row or point in only one of the files is listed, not judged.

Exit code: 0 nothing got worse, 1 something did, 2 a file cannot be used.
"""

import argparse
import json
import statistics
import sys

from profdbench import results, stats
from profdbench.progress import log

MIB = 1024 * 1024
LEVEL = 0.01
RATIOS = ("ratio", "cpu_ratio")  # of speed, and of CPU time for a unit of work
RATIO_FLOOR = 0.005
# (share, absolute) by which a value must exceed the old one to be worse, and its printed form.
LIMITS = {
    "cpu": (0.10, 0.002, "{:.2%}"),
    "ns_per_switch": (0.05, 5, "{:.0f} ns"),
    "rss_peak_bytes": (0.10, MIB, "bytes"),
    "kernel_map_bytes": (0.10, MIB, "bytes"),
    "store_bytes": (0.10, MIB / 4, "bytes"),
    "daemon_cpu": (0.25, 0.005, "{:.2%}"),
    "drain_ms": (0.25, 0.5, "{:.2f} ms"),
    "fetch_p50_ms": (0.25, 10, "{:.1f} ms"),
    "store_fetch_p50_ms": (0.25, 1, "{:.2f} ms"),
}
SENSITIVE = {"daemon_cpu", "drain_ms", "fetch_p50_ms"}  # to other programs on the machine


def show(metric, value):
    if metric in RATIOS:
        return f"{value:.3f}"
    form = LIMITS[metric][2]
    return f"{value / MIB:.1f} MiB" if form == "bytes" else form.format(value)


def differs(old, new):
    """Whether two sets of repeated values differ beyond noise, and by which test."""
    if min(len(old), len(new)) >= 5:
        p = stats.mann_whitney(old, new)
        return p < LEVEL, f"rank test p={p:.2g}"
    first, second = stats.median_interval(old), stats.median_interval(new)
    if not first or not second:
        return False, "too few values"
    return first[1] < second[0] or second[1] < first[0], "95 % intervals"


def judge(where, metric, old, new, floor, higher_is_better=False, single=False):
    """One compared metric: a dict with its verdict."""
    before, after = statistics.median(old), statistics.median(new)
    gain = after - before if higher_is_better else before - after
    if single:
        beyond, how = True, "limit"
    else:
        beyond, how = differs(old, new)
    verdict = "unchanged"
    if beyond and abs(gain) > floor:
        verdict = "better" if gain > 0 else "worse"
    return {"where": where, "metric": metric, "old": before, "new": after, "verdict": verdict,
            "test": how}


def limit(metric, old):
    """The floor for a metric: both its share of the old value and its absolute one."""
    share, absolute, _ = LIMITS[metric]
    return max(share * abs(statistics.median(old)), absolute)


def numbers(values):
    """A list of finite numbers, or BadFile's cause."""
    if not isinstance(values, list) or not values:
        raise ValueError("not a list of numbers")
    for value in values:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value or \
                value in (float("inf"), float("-inf")):
            raise ValueError(f"{value!r} is not a number")
    return values


def overhead_values(row):
    """{metric: (values, single)} of one workload under one tool."""
    extras = row.get("extras", [])
    found = {"ratio": (numbers(row["ratios"]), False)}
    if "cpu_ratios" in row:
        found["cpu_ratio"] = (numbers(row["cpu_ratios"]), False)
    for metric in ("cpu", "rss_peak_bytes", "kernel_map_bytes"):
        values = [extra[metric] for extra in extras if metric in extra]
        if values:
            memory = metric != "cpu"
            found[metric] = ([max(numbers(values))] if memory else numbers(values), memory)
    each = [extra["in_path_ns_per_second"] / extra["switches_per_second"] for extra in extras
            if extra.get("switches_per_second", 0) >= 1000]
    if each:
        found["ns_per_switch"] = (numbers(each), False)
    return found


def ratio_floor(workload, metric, *documents):
    """What two equal measurements of the workload are known to be apart."""
    equal = [rows[workload, "none"][metric][0] for rows in documents
             if metric in rows.get((workload, "none"), {})]
    return max([RATIO_FLOOR] + [abs(statistics.median(values) - 1) for values in equal])


def rows_of(document):
    return {(row["workload"], row["tool"]): overhead_values(row)
            for row in document.get("overhead", {}).get("rows", [])}


def compare_overhead(old, new):
    """(changes, only in one file) of the overhead sections."""
    first, second = rows_of(old), rows_of(new)
    changes = []
    for key in [key for key in first if key in second]:
        workload, tool = key
        for metric, (values, single) in first[key].items():
            if metric not in second[key] or tool == "none":
                continue
            other = second[key][metric][0]
            floor = (ratio_floor(workload, metric, first, second) if metric in RATIOS
                     else limit(metric, values))
            changes.append(judge(f"{workload}, {tool}", metric, values, other, floor,
                                 metric in RATIOS, single))
    return changes, one_sided(first, second)


def one_sided(first, second):
    return ([f"{', '.join(map(str, key))}: only in the old file" for key in first
             if key not in second] +
            [f"{', '.join(map(str, key))}: only in the new file" for key in second
             if key not in first])


def values_of(value):
    """A measured value: a number, or an object with repeated ones."""
    return numbers(value["values"] if isinstance(value, dict) else [value])


def point_values(point):
    """{metric: values} of one point of a curve."""
    found = {metric: values_of(point[metric]) for metric in
             ("daemon_cpu", "drain_ms", "rss_peak_bytes", "kernel_map_bytes", "store_bytes")
             if metric in point}
    if "p50_ms" in point.get("fetch", {}):
        found["fetch_p50_ms"] = values_of(point["fetch"]["p50_ms"])
    return found


def points_of(document):
    """{(curve, point): (metrics, disturbed)} of the scale section."""
    found = {}
    for curve in document.get("scale", {}).get("curves", []):
        name = curve["name"]
        for point in curve.get("points", []):
            found[(name, str(point.get("asked", point["x"])))] = (
                point_values(point), bool(point.get("disturbed")))
        live = curve.get("live")
        if live:
            for window in live.get("windows", []):
                found[(name, f"{window['window_s']} s live")] = (
                    {"fetch_p50_ms": values_of(window["p50_ms"])}, bool(live.get("disturbed")))
        for store in curve.get("stores", []):
            found[(name, f"store of {store['title']}")] = (
                {"store_bytes": values_of(store["bytes"])}, False)
            for window in store.get("windows", []):
                found[(name, f"store of {store['title']}, {window['window_s']} s")] = (
                    {"store_fetch_p50_ms": values_of(window["p50_ms"])}, False)
    return found


def compare_scale(old, new):
    """(changes, notes) of the scale sections."""
    first, second = points_of(old), points_of(new)
    changes, notes = [], one_sided(first, second)
    for key in [key for key in first if key in second]:
        metrics, disturbed = first[key]
        others, disturbed_too = second[key]
        judged = [metric for metric in metrics if metric in others
                  and not (metric in SENSITIVE and (disturbed or disturbed_too))]
        if (disturbed or disturbed_too) and SENSITIVE & set(metrics):
            notes.append(f"{', '.join(key)}: disturbed by other programs; CPU and latency not "
                         "judged")
        for metric in judged:
            before, after = metrics[metric], others[metric]
            changes.append(judge(", ".join(key), metric, before, after, limit(metric, before),
                                 single=min(len(before), len(after)) == 1))
    return changes, notes


def machine_differences(old, new):
    """Why the two files may not be comparable."""
    found = []
    for key in ("cpu_model", "cpus", "memory_bytes", "kernel", "arch"):
        before, after = (document.get("machine", {}).get(key) for document in (old, new))
        if key == "memory_bytes" and isinstance(before, int) and isinstance(after, int):
            if abs(before - after) <= 0.02 * max(before, after):
                continue  # what the kernel keeps for itself varies
        if before != after:
            found.append(f"{key} differs: {before} and {after}")
    for section in ("overhead", "scale"):
        seconds = [document.get(section, {}).get("seconds") for document in (old, new)]
        if None not in seconds and seconds[0] != seconds[1]:
            found.append(f"segments of {section} differ: {seconds[0]} s and {seconds[1]} s")
    return found


def compare(old, new):
    """The comparison as a dict: what `--format json` prints."""
    changes, notes = compare_overhead(old, new)
    scale_changes, scale_notes = compare_scale(old, new)
    changes += scale_changes
    if not changes:
        raise results.BadFile("the two files have no row and no point in common")
    counts = {verdict: sum(change["verdict"] == verdict for change in changes)
              for verdict in ("worse", "better", "unchanged")}
    return {"format": "profd-bench-compare", "version": 1, "counts": counts, "changes": changes,
            "notes": notes + scale_notes, "warnings": machine_differences(old, new)}


def print_table(outcome):
    for warning in outcome["warnings"]:
        log(f"warning: {warning}")
    changed = [change for verdict in ("worse", "better") for change in outcome["changes"]
               if change["verdict"] == verdict]
    if changed:
        header = f"{'':<9} {'where':<44} {'what':<20} {'old':>12} {'new':>12}  by"
        print(header + "\n" + "-" * len(header))
    for change in changed:
        metric = change["metric"]
        print(f"{change['verdict']:<9} {change['where']:<44} {metric:<20} "
              f"{show(metric, change['old']):>12} {show(metric, change['new']):>12}  "
              f"{change['test']}")
    for note in outcome["notes"]:
        print(f"note: {note}")
    print(", ".join(f"{count} {verdict}" for verdict, count in outcome["counts"].items()))


def add_arguments(subparsers):
    """Adds the subcommand `compare`."""
    limits = "limits for single values, and floors for profd's own repeated ones:\n" + "\n".join(
        f"  {metric:<20} more than {share:.0%} and more than {show(metric, absolute)}"
        for metric, (share, absolute, _) in LIMITS.items())
    parser = subparsers.add_parser(
        "compare", help="what got worse beyond noise between two results files",
        description=__doc__, epilog=limits, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", metavar="OLD.json")
    parser.add_argument("new", metavar="NEW.json")
    parser.add_argument("--format", choices=["text", "json"], default="text")
    parser.set_defaults(main=main)


def main(options):
    """0 when nothing got worse, 1 when something did, 2 when a file cannot be used."""
    try:
        try:
            outcome = compare(results.load(options.old), results.load(options.new))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise results.BadFile(
                f"{options.old} or {options.new} has a row that cannot be read: {error!r}"
            ) from error
    except results.BadFile as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    if options.format == "json":
        print(json.dumps(outcome, indent=1))
    else:
        print_table(outcome)
    return 1 if outcome["counts"]["worse"] else 0
