"""`bench scale`: how what profd takes grows with what it watches.

Each curve grows a load along one axis while the others stay small:

  threads    10 to 5,000 threads that are blocked for good
  switches   1,000 context switches a second to as many as the machine gives
  stacks     100 to 100,000 different stacks that 64 threads wait in by turns, 10 ms each
  modules    10 to 1,000 shared objects that a thread waits under, 8 at a time
  window     fetches of 10 s and more: live, of as much history as --history allows, and merged in
             the daemon's store alone, filled with an hour of seconds (bench_store)

At each point: CPU of profd, of its ticks and of its drains, resident and kernel memory, what its
store holds, how long a fetch and a status take, what was lost. profd runs with its default flags,
so that its governor is part of what is measured; --all-layers forces everything to stay on.
"""

import argparse
import json
import os
import signal
import subprocess
import sys

from profdbench import process, results, scale_point
from profdbench.progress import Progress, log
from profdbench.scale_point import LIMITS, MIB

SMALL = ["--threads", "10"]
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

# Name: (title, axis, points, those of --quick, seconds to settle at a point).
CURVES = {
    "threads": ("Idle threads", "threads", [10, 100, 500, 1000, 2500, 5000], [10, 5000],
                lambda x: 3),
    "switches": ("Context switches", "switches/s", [1_000, 10_000, 100_000, "max"],
                 [1_000, "max"], lambda x: 3),
    # By then every stack was waited in at least once.
    "stacks": ("Distinct stacks", "stacks", [100, 1_000, 10_000, 100_000], [100, 100_000],
               lambda x: 3 + x / 4_000),
    "modules": ("Modules", "modules", [10, 100, 300, 1_000], [10, 1_000], lambda x: 4),
    "window": ("Length of the window", "s", None, None, None),
}
WINDOWS = [10, 30, 60, 120, 300, 600, 1800, 3600]
# What the hour is filled with: a quiet service, a server, a busy one. Arguments of bench_store.
STORES = [
    ("50 threads, 5 busy", ["--threads", "50", "--busy", "5", "--stacks", "200"]),
    ("200 threads, 20 busy", ["--threads", "200", "--busy", "20", "--stacks", "500"]),
    ("1,000 threads, 100 busy",
     ["--threads", "1000", "--busy", "100", "--stacks", "2000", "--new-stacks", "5"]),
]
STORE_SECONDS = 25


def load_arguments(curve, x):
    if curve == "threads":
        return ["--threads", str(x)]
    if curve == "switches":
        return [*SMALL, "--switch-rate", str(x)]
    if curve == "stacks":
        return [*SMALL, "--stacks", str(x)]
    return [*SMALL, "--modules", str(x)]


def reached(curve, point):
    """Where on the axis the point really lies, as the load counted it."""
    if curve == "switches":
        return round(point["load"]["switches_per_s"])
    return point["load"][{"threads": "threads", "stacks": "stacks", "modules": "modules"}[curve]]


def daemon_arguments(build, all_layers):
    if not all_layers:
        return []
    text = process.output_of([os.path.join(build, "profd"), "--help"])
    return [argument for option in ("--budget", "--daemon-budget") if f"{option} " in text
            for argument in (option, "off")]


def point_seconds(curve, x, options):
    number = 1_000_000 if x == "max" else x
    return CURVES[curve][4](number) + options.seconds + options.fetches * 0.2 + 6


def measure_curve(curve, options, progress):
    title, axis, points, quick, settle = CURVES[curve]
    done = []
    for x in quick if options.quick else points:
        expected = point_seconds(curve, x, options)
        point = scale_point.measure(
            options.build, load_arguments(curve, x), options.daemon,
            settle_s=settle(1_000_000 if x == "max" else x), seconds=options.seconds,
            fetches=options.fetches)
        point["asked"] = x
        point["x"] = reached(curve, point)
        done.append(point)
        progress.step(f"{curve} {point['x']:,}: CPU {point['daemon_cpu']:.2%}, peak RSS "
                      f"{point['rss_peak_bytes'] / MIB:.1f} MiB, fetch "
                      f"{point['fetch']['p50_ms']:.0f} ms", expected)
    return {"name": curve, "title": title, "axis": axis, "points": done}


def measure_window(options, progress):
    """Two parts, since an hour cannot be waited for: a live daemon, and its store alone."""
    live = [window for window in WINDOWS if window <= options.history]
    expected = window_seconds(options)
    stores = STORES[1:2] if options.quick else STORES
    curve = {"name": "window", "title": CURVES["window"][0], "axis": "s", "history_s": max(live)}
    point = scale_point.measure(
        options.build, ["--threads", "50", "--stacks", "500", "--stack-threads", "20"],
        options.daemon, settle_s=2, seconds=options.seconds, fetches=options.fetches,
        history=live, progress=log)
    curve["live"] = point
    progress.step(f"window: live up to {max(live)} s: fetch "
                  f"{point['windows'][-1]['p50_ms']:.0f} ms",
                  expected - len(stores) * STORE_SECONDS)
    curve["stores"] = []
    for title, arguments in stores:
        text = process.output_of([os.path.join(options.build, "bench_store"), *arguments])
        curve["stores"].append({"title": title, **json.loads(text)})
        progress.step(f"window: an hour in the store, {title}", STORE_SECONDS)
    return curve


def window_seconds(options):
    return (options.history + options.fetches * 0.5 + 8 +
            (1 if options.quick else len(STORES)) * STORE_SECONDS)


def expected_seconds(curve, options):
    if curve == "window":
        return window_seconds(options)
    _, _, points, quick, _ = CURVES[curve]
    return sum(point_seconds(curve, x, options) for x in (quick if options.quick else points))


def format_row(curve, point):
    losses = ", ".join(f"{k} {v:,}" for k, v in sorted(point["losses"].items())) or "-"
    missed = point["ticks_missed"] / max(1, point["ticks"] + point["ticks_missed"])

    def amount(key):
        return f"{point[key] / MIB:.1f}" + ("!" if key in point["over"] else "")
    return (f"{curve:<9} {point['x']:>9,} {point['daemon_cpu']:>7.2%} {point['tick_cpu']:>7.2%} "
            f"{point['drain_cpu']:>7.2%} {point['drain_ms']:>8.2f} {point['entries']:>7,} "
            f"{amount('rss_peak_bytes'):>7} {amount('rss_quiet_bytes'):>6} "
            f"{amount('kernel_map_bytes'):>6} {amount('store_bytes'):>6} "
            f"{point['fetch']['p50_ms']:>6.0f} {point['fetch']['p99_ms']:>6.0f} "
            f"{point['status_call']['p50_ms']:>6.0f} {point['tick_interval_ms']:>6.0f} "
            f"{missed:>6.1%} {point['in_path_ns_per_s'] / 1e6:>8.3f} {point['startup_s']:>6.1f}  "
            f"{losses}{'  (others were busy)' if point['disturbed'] else ''}")


HEADER = (f"{'curve':<9} {'x':>9} {'CPU':>7} {'ticks':>7} {'drains':>7} {'ms/drain':>8} "
          f"{'entries':>7} {'peak':>7} {'RSS':>6} {'maps':>6} {'store':>6} {'p50':>6} {'p99':>6} "
          f"{'status':>6} {'tick':>6} {'missed':>6} {'path':>8} {'start':>6}  losses")


def print_table(curves, fetches):
    print(f"\nCPU in % of one; memory in MiB, ! = over {LIMITS['rss_peak_bytes'] // MIB} MiB; "
          f"p50, p99 of {fetches} fetches of 10 s, status: ms; tick: interval in force, ms;\n"
          "RSS: before the first fetch, peak: after the last; path: ms of CPU a second in the "
          "target's path;\nstart: seconds until ready.")
    print(HEADER)
    print("-" * len(HEADER))
    for curve in curves:
        for point in curve.get("points", []):
            print(format_row(curve["name"], point))
        if "live" in curve:
            print(format_row("window", {**curve["live"], "x": curve["history_s"]}))
    for curve in curves:
        if "live" in curve:
            print("\nFetch by length of the window, ms (p50 / p99)")
            for row in curve["live"]["windows"]:
                print(f"  live          {row['window_s']:>5} s  {row['p50_ms']:8.1f} / "
                      f"{row['p99_ms']:.1f}")
            for store in curve["stores"]:
                print(f"  merge alone: {store['title']}; {store['bytes'] / MIB:.1f} MiB hold "
                      f"{store['held_s']:.0f} s")
                for row in store["windows"]:
                    short = "" if row["covered_s"] >= row["window_s"] else (
                        f"  only {row['covered_s']:.0f} s are held")
                    print(f"                {row['window_s']:>5} s  {row['p50_ms']:8.1f} / "
                          f"{row['p99_ms']:.1f}{short}")


def add_arguments(subparsers):
    parser = subparsers.add_parser(
        "scale", help="curves: cost against threads, switches, stacks, modules, window",
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--curve", action="append", choices=list(CURVES), metavar="NAME",
                        help="only this one; may be repeated: " + ", ".join(CURVES))
    parser.add_argument("--quick", action="store_true", help="first and last points only")
    parser.add_argument("--seconds", type=int, default=8,
                        help="over which CPU is read at a point (default 8)")
    parser.add_argument("--fetches", type=int, default=25, help="at a point (default 25)")
    parser.add_argument("--history", type=int, default=120, metavar="SECONDS",
                        help="for the window curve: how long profd runs first (default 120)")
    parser.add_argument("--all-layers", action="store_true",
                        help="profd without budgets: nothing is given up")
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"),
                        help="where the programs are (default build/release)")
    parser.add_argument("--json", metavar="FILE", help="write all numbers there as well")
    parser.set_defaults(main=main)
    return parser


def check(options):
    if options.seconds < 2 or options.fetches < 1 or options.history < WINDOWS[0]:
        return f"--seconds at least 2, --fetches 1, --history {WINDOWS[0]}"
    for name in ("profd", "profctl", "bench_load", "bench_store", "libbench_module.so"):
        if not os.path.exists(os.path.join(options.build, name)):
            return f"{name} is not in {options.build} (cmake --build --preset release)"
    return None


def main(options):
    wrong = check(options)
    if wrong:
        log(f"bench scale: {wrong}")
        return 2
    try:
        process.require_root()
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that nothing is left behind
        if options.json:
            results.check_writable(options.json)
        where = results.machine()
        options.daemon = daemon_arguments(options.build, options.all_layers)
        names = [name for name in CURVES if not options.curve or name in options.curve]
        progress = Progress(sum(expected_seconds(name, options) for name in names))
        curves, failures = [], []
        for name in names:
            try:
                curves.append(measure_window(options, progress) if name == "window"
                              else measure_curve(name, options, progress))
            except (process.Failed, subprocess.SubprocessError, KeyError) as error:
                failures.append({"curve": name, "why": str(error)})
                log(f"bench scale: {name}: {error}")
                progress.drop(expected_seconds(name, options))
        if curves:
            print_table(curves, options.fetches)
        if options.json:
            results.save_section(options.json, "scale", {
                "seconds": options.seconds, "fetches": options.fetches,
                "all_layers": options.all_layers, "limits": LIMITS, "curves": curves,
                "failures": failures}, where)
    except (process.Failed, results.BadFile) as error:
        log(f"bench scale: {error}")
        return 1
    return 1 if failures else 0
