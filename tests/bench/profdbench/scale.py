"""`bench scale`: how what profd takes grows with what it watches.

Each curve grows a load along one axis while the others stay small:

  threads    10 to 20,000 threads that are blocked for good
  switches   1,000 context switches a second to as many as the machine gives
  stacks     100 to 100,000 different stacks that 64 threads wait in by turns, 10 ms each
  modules    10 to 1,000 shared objects that a thread waits under, 8 at a time
  window     fetches of 10 s and more: live, of as much history as --history allows, and merged in
             the daemon's store alone, filled with an hour of seconds (bench_store)

At each point: CPU of profd, of its ticks and of its drains, resident and kernel memory, what its
store holds, how long a fetch and a status take, what was lost, what was switched off. profd runs
with its default flags, so that its governor is part of what is measured; --all-layers forces
everything to stay on. Points go to stdout as lines of JSON, and with --results FILE also into that
file, each in the place of its former line. Progress goes to stderr.
"""

import argparse
import json
import os
import subprocess

from profdbench import in_force, lines, overhead, process, scale_point
from profdbench.progress import Progress, log
from profdbench.scale_point import MIB

SMALL = ["--threads", "10"]
EPILOG = """examples:
  bench scale --curve threads --quick
  bench scale --results docs/performance/results.jsonl

exit status: 0 done, 1 a curve failed, 2 the command line is wrong"""

# Name: (title, axis, points, those of --quick, seconds to settle at a point).
CURVES = {
    "threads": ("Idle threads", "threads", [10, 100, 500, 1000, 2500, 5000, 20000], [10, 20000],
                lambda x: 3),
    "switches": ("Context switches", "switches/s", [1_000, 10_000, 100_000, "max"],
                 [1_000, "max"], lambda x: 3),
    # By then every stack was waited in at least once.
    "stacks": ("Distinct stacks", "stacks", [100, 1_000, 10_000, 100_000], [100, 100_000],
               lambda x: 3 + x / 4_000),
    "modules": ("Modules", "modules", [10, 100, 300, 1_000], [10, 1_000], lambda x: 4),
    "window": ("Length of the window", "s", None, None, None),
}
PROGRAMS = {"modules": "libbench_module.so", "window": "bench_store"}  # needed besides
WINDOWS = [10, 30, 60, 120, 300, 600, 1800, 3600]
# What the hour is filled with: a quiet service, servers, all threads busy, a storm of processes.
# Arguments of bench_store.
STORES = [
    ("50 threads, 5 busy", ["--threads", "50", "--busy", "5", "--stacks", "200"]),
    ("200 threads, 20 busy", ["--threads", "200", "--busy", "20", "--stacks", "500"]),
    ("1,000 threads, 100 busy",
     ["--threads", "1000", "--busy", "100", "--stacks", "2000", "--new-stacks", "5"]),
    ("55 threads, all busy", ["--threads", "55", "--busy", "55"]),
    ("1,000 threads, all busy, limit 32 MiB",
     ["--threads", "1000", "--busy", "1000", "--limit", "32", "--fetches", "5"]),
    ("55 threads, 128 processes/s",
     ["--threads", "55", "--busy", "20", "--births", "128"]),
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


def point_seconds(curve, x, options):
    number = 1_000_000 if x == "max" else x
    return CURVES[curve][4](number) + options.seconds + options.fetches * 0.2 + 6


def measure_curve(curve, options, progress, sink):
    _, _, points, quick, settle = CURVES[curve]
    for x in quick if options.quick else points:
        expected, where = point_seconds(curve, x, options), lines.here()
        point = scale_point.measure(
            options.build, load_arguments(curve, x), options.daemon,
            settle_s=settle(1_000_000 if x == "max" else x), seconds=options.seconds,
            fetches=options.fetches)
        point["x"] = reached(curve, point)
        row = {"kind": "point", "curve": curve, "asked": x, **where, "protocol": "growth",
               "options": options.daemon, "seconds": options.seconds,
               "fetches": options.fetches, **scale_point.fields(point)}
        sink.add(row)
        progress.step(f"{curve} {point['x']:,}: CPU {row['daemon_cpu']:.2%}, peak RSS "
                      f"{row['rss_mib']:.1f} MiB, fetch {row['fetch_p50_ms']:.0f} ms; "
                      f"{in_force.headline(row)}", expected)


def measure_window(options, progress, sink):
    """Two parts, since an hour cannot be waited for: a live daemon, and its store alone."""
    live = [window for window in WINDOWS if window <= options.history]
    stores = STORES[1:2] if options.quick else STORES
    where = lines.here()
    point = scale_point.measure(
        options.build, ["--threads", "50", "--stacks", "500", "--stack-threads", "20"],
        options.daemon, settle_s=2, seconds=options.seconds, fetches=options.fetches,
        history=live, progress=log)
    for window in point["windows"]:
        sink.add({"kind": "window", "window_s": window["window_s"], **where, "protocol": "growth",
                  "p50_ms": window["p50_ms"], "p99_ms": window["p99_ms"],
                  "fetches": window["n"], "history_s": max(live), "threads": point["threads"],
                  "stacks": point["stacks"], "disturbed": point["disturbed"],
                  "rss_mib": point["rss_peak_bytes"] / MIB})
    progress.step(f"window: live up to {max(live)} s: fetch "
                  f"{point['windows'][-1]['p50_ms']:.0f} ms",
                  window_seconds(options) - len(stores) * STORE_SECONDS)
    for title, arguments in stores:
        sink.add(measure_store(title, arguments, options.build))
        progress.step(f"window: an hour in the store, {title}", STORE_SECONDS)


def measure_store(title, arguments, build):
    where = lines.here()
    store = json.loads(process.output_of([os.path.join(build, "bench_store"), *arguments]))
    return {"kind": "store", "store": title, **where, "protocol": "growth",
            "held_s": store["held_s"], "mib": store["bytes"] / MIB,
            "append_cpu_ms": store["append_cpu_ms"],
            "added_mib": max(window["added_mib"] for window in store["windows"]),
            "windows": [[window["window_s"], window["covered_s"], window["p50_ms"],
                         window["p99_ms"]] for window in store["windows"]]}


def window_seconds(options):
    return (options.history + options.fetches * 0.5 + 8 +
            (1 if options.quick else len(STORES)) * STORE_SECONDS)


def expected_seconds(curve, options):
    if curve == "window":
        return window_seconds(options)
    _, _, points, quick, _ = CURVES[curve]
    return sum(point_seconds(curve, x, options) for x in (quick if options.quick else points))


def seconds_of_history(text):
    value = int(text)
    if value < WINDOWS[0]:
        raise argparse.ArgumentTypeError(f"must be {WINDOWS[0]} or more")
    return value


def span(text):
    value = int(text)
    if value < 2:
        raise argparse.ArgumentTypeError("must be 2 or more")
    return value


def add_arguments(subparsers):
    parser = subparsers.add_parser(
        "scale", help="curves: cost against threads, switches, stacks, modules, window",
        description=__doc__, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--curve", action="append", choices=list(CURVES), metavar="NAME",
                        help="only this one; may be repeated: " + ", ".join(CURVES))
    parser.add_argument("--quick", action="store_true", help="first and last points only")
    parser.add_argument("--span", dest="seconds", type=span, default=8, metavar="SECONDS",
                        help="over which CPU is read at a point (default 8)")
    parser.add_argument("--fetches", type=overhead.positive(int), default=25,
                        help="at a point (default 25)")
    parser.add_argument("--history", type=seconds_of_history, default=120, metavar="SECONDS",
                        help="for the window curve: how long profd runs first (default 120)")
    parser.add_argument("--all-layers", action="store_true",
                        help="profd without budgets: nothing is given up")
    overhead.add_common_options(parser)
    parser.set_defaults(main=main)


def main(options):
    process.require_root()
    overhead.catch_signals()
    names = [name for name in CURVES if not options.curve or name in options.curve]
    process.require_built(options.build, "profd", "profctl", "bench_load",
                          *[PROGRAMS[name] for name in names if name in PROGRAMS])
    sink = overhead.Sink(options.results)
    overhead.warn_if_busy()
    options.daemon = (["--budget", "off"] if options.all_layers else [])
    progress = Progress(sum(expected_seconds(name, options) for name in names))
    failed = 0
    for name in names:
        try:
            if name == "window":
                measure_window(options, progress, sink)
            else:
                measure_curve(name, options, progress, sink)
        except (process.Failed, subprocess.SubprocessError, KeyError) as error:
            failed += 1
            log(f"bench scale: {name}: {error}")
            progress.drop(expected_seconds(name, options))
    return 1 if failed else 0
