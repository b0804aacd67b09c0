"""`bench compare OLD NEW`: what got worse beyond noise between two results files.

  ratios          of speed, of CPU time and of latency: worse or better when the two estimates are
                  further apart than their 95 % intervals allow (the root of the sum of the squares
                  of their halves), and by more than the floor: 0.005, or what the row `none` of
                  that workload is away from 1 in either file, if that is more. Two runs of a
                  machine differ by more than the pairs within one.
  single values   CPU and memory of profd, and the points of the curves: when by more than a share
                  and by more than an absolute floor, both listed below. CPU and latency of a point
                  that other programs disturbed are not judged.

Rows that were measured by different protocols, and rows in only one of the files, are listed and
not judged.

exit status: 0 nothing got worse, 1 something did, 2 the command line is wrong or a file cannot be
used
"""

import argparse
import json
import math
import sys

from profdbench import lines
from profdbench.progress import log

RATIO_FLOOR = 0.005
# Whether more is better.
RATIOS = {"ratio": True, "cpu_ratio": True, "p50_ratio": False, "p99_ratio": False}
# (share, absolute) by which a value must exceed the old one to be worse, and its printed form.
LIMITS = {
    "daemon_cpu": (0.25, 0.002, "{:.2%}"),
    "in_path_cpu": (0.25, 0.002, "{:.2%}"),
    "rss_mib": (0.10, 1, "{:.1f} MiB"),
    "maps_mib": (0.10, 1, "{:.1f} MiB"),
    "store_mib": (0.10, 0.25, "{:.1f} MiB"),
    "drain_ms": (0.25, 0.5, "{:.2f} ms"),
    "fetch_p50_ms": (0.25, 10, "{:.1f} ms"),
    "p50_ms": (0.25, 10, "{:.1f} ms"),
    "mib": (0.10, 0.25, "{:.1f} MiB"),
}
SENSITIVE = {"daemon_cpu", "in_path_cpu", "drain_ms", "fetch_p50_ms", "p50_ms"}  # to other programs


def name_of(key):
    return ", ".join(key[1:] if key[0] == "overhead" else key)


def judge_ratio(old, new, floor, more_is_better):
    """The verdict on two ratios with their intervals, as lists."""
    for number in (*old, *new):
        if not isinstance(number, (int, float)) or not number > 0:
            raise ValueError(f"{number!r} is no ratio")
    if min(len(old), len(new)) < 3:
        return "unchanged"
    first, second = math.log(old[0]), math.log(new[0])
    noise = math.hypot(first - math.log(old[1]), second - math.log(new[1]))
    change = (second - first) * (1 if more_is_better else -1)
    if abs(change) <= max(noise, floor):
        return "unchanged"
    return "better" if change > 0 else "worse"


def judge_value(metric, old, new):
    """The verdict on two single values, of which less is better."""
    share, absolute, _ = LIMITS[metric]
    if abs(new - old) <= max(share * abs(old), absolute):
        return "unchanged"
    return "worse" if new > old else "better"


def floor_of(workload, metric, *files):
    """What two equal measurements of the workload are known to be apart."""
    found = [RATIO_FLOOR]
    for rows in files:
        none = rows.get(("overhead", workload, "none"))
        if none and metric in none:
            found.append(abs(math.log(none[metric][0])))
    return max(found)


def compare_row(key, old, new, files):
    """(changes, notes) of one row that both files have."""
    if old["protocol"] != new["protocol"]:
        return [], [f"{name_of(key)}: not judged, measured as {old['protocol']} and as "
                    f"{new['protocol']}"]
    changes, notes = [], []
    disturbed = new.get("disturbed") is True or old.get("disturbed") is True
    if disturbed:
        notes.append(f"{name_of(key)}: disturbed by other programs; CPU and latency not judged")
    for metric in [*RATIOS, *LIMITS]:
        if metric not in old or metric not in new:
            continue
        if metric in RATIOS:
            if key[0] != "overhead" or key[-1] == "none":
                continue
            verdict = judge_ratio(old[metric], new[metric],
                                  floor_of(old["workload"], metric, *files), RATIOS[metric])
            before, after = old[metric][0], new[metric][0]
        else:
            if disturbed and metric in SENSITIVE:
                continue
            verdict = judge_value(metric, old[metric], new[metric])
            before, after = old[metric], new[metric]
        changes.append({"where": name_of(key), "metric": metric, "old": before, "new": after,
                        "verdict": verdict})
    return changes, notes


def compare(old, new):
    """Two lists of rows as a dict of counts, changes, notes and warnings."""
    files = [{lines.key(row): row for row in rows} for rows in (old, new)]
    changes, notes = [], []
    for key in files[0]:
        if key in files[1]:
            found = compare_row(key, files[0][key], files[1][key], files)
            changes += found[0]
            notes += found[1]
        else:
            notes.append(f"{name_of(key)}: only in the old file")
    notes += [f"{name_of(key)}: only in the new file" for key in files[1] if key not in files[0]]
    warnings = []
    for field in ("machine", "kernel"):
        first, second = (sorted({row[field] for row in rows}) for rows in (old, new))
        if first != second:
            warnings.append(f"{field} differs: {'; '.join(first)} and {'; '.join(second)}")
    counts = {verdict: sum(change["verdict"] == verdict for change in changes)
              for verdict in ("worse", "better", "unchanged")}
    return {"format": "profd-bench-compare", "version": 2, "counts": counts, "changes": changes,
            "notes": notes, "warnings": warnings}


def show(metric, value):
    return f"{value:.3f}" if metric in RATIOS else LIMITS[metric][2].format(value)


def print_table(outcome):
    for warning in outcome["warnings"]:
        log(f"warning: {warning}")
    changed = [change for verdict in ("worse", "better") for change in outcome["changes"]
               if change["verdict"] == verdict]
    if changed:
        header = f"{'':<9} {'where':<44} {'what':<14} {'old':>12} {'new':>12}"
        print(header + "\n" + "-" * len(header))
    for change in changed:
        metric = change["metric"]
        print(f"{change['verdict']:<9} {change['where']:<44} {metric:<14} "
              f"{show(metric, change['old']):>12} {show(metric, change['new']):>12}")
    for note in outcome["notes"]:
        print(f"note: {note}")
    print(", ".join(f"{count} {verdict}" for verdict, count in outcome["counts"].items()))


def add_arguments(subparsers):
    """Adds the subcommand `compare`."""
    limits = "limits for single values:\n" + "\n".join(
        f"  {metric:<14} more than {share:.0%} and more than {show(metric, absolute)}"
        for metric, (share, absolute, _) in LIMITS.items())
    parser = subparsers.add_parser(
        "compare", help="what got worse beyond noise between two results files",
        description=__doc__, epilog=limits, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", metavar="OLD.jsonl")
    parser.add_argument("new", metavar="NEW.jsonl")
    parser.add_argument("--format", choices=["text", "json"], default="text")
    parser.set_defaults(main=main)


def main(options):
    """0 when nothing got worse, 1 when something did, 2 when a file cannot be used."""
    try:
        try:
            outcome = compare(lines.load(options.old), lines.load(options.new))
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise lines.BadFile(
                f"{options.old} or {options.new} has a row that cannot be read: {error!r}"
            ) from error
    except lines.BadFile as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    if options.format == "json":
        print(json.dumps(outcome, indent=1))
    else:
        print_table(outcome)
    return 1 if outcome["counts"]["worse"] else 0
