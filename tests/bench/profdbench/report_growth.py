"""The part of the page on how what profd takes grows with what it watches."""

from profdbench import plot
from profdbench.markdown import FOLDER, ordered, percent, table
from profdbench.scale import CURVES, STORES
from profdbench.scale_point import LIMIT_MIB

ABOUT = {
    "threads": "Threads that block forever, a quarter each in a futex, poll, sleep and recv.",
    "switches": "Pairs of threads that only wake each other, one pair pinned to each CPU. The last "
                "point has no pauses: all CPUs are busy, so fetches wait for one.",
    "stacks": "64 threads that wait for 10 ms at a time, cycling through this many different stacks "
              "of 17 frames or more. Real programs are far from this: most have a few thousand "
              "stacks, of which few are frequent.",
    "modules": "One thread waits below calls through shared objects, eight at a time. Each is a "
               "separate file with rules for 150 functions. Start is the time until profd has read "
               "all rules.",
}


def points_of(lines, curve):
    return sorted((line for line in lines if line["kind"] == "point" and line["curve"] == curve),
                  key=lambda point: point["x"])


def verdicts(lines):
    """A sentence on the memory along the curves."""
    points = [line for line in lines if line["kind"] == "point"]
    if not points:
        return []
    exceeded = [f"{what} {point[key]:.1f} MiB at {point['x']:,} {CURVES[point['curve']][1]}"
                for point in points for key, what in (("rss_mib", "RSS"), ("maps_mib", "maps"))
                if point[key] > LIMIT_MIB]
    return [f"- Memory along the curves (aims: {LIMIT_MIB} MiB of RSS, {LIMIT_MIB} MiB of kernel "
            "maps): " + ("met at every point." if not exceeded
                         else f"**missed**: {'; '.join(exceeded)}.")]


def _series(points, *pairs):
    return [plot.Series(name, [(p["x"], value(p)) for p in points]) for name, value in pairs]


def spread(values):
    """True when a linear axis would flatten the small ones."""
    positive = [value for value in values if value > 0]
    return bool(positive) and max(positive) > 30 * min(positive)


def _plot(curve, points):
    title, axis = CURVES[curve][:2]
    x_label = {"switches": "context switches a second"}.get(curve, axis)
    first = plot.Panel("CPU of profd", x_label, "% of one CPU", _series(
        points, ("all", lambda p: p["daemon_cpu"] * 100),
        ("ticks", lambda p: p["tick_cpu"] * 100),
        ("drains", lambda p: p["drain_cpu"] * 100)), x_log=True)
    if curve == "modules":  # which are read at the start, and cost nothing later
        first = plot.Panel("Start", x_label, "s", _series(
            points, ("until it samples", lambda p: p["startup_s"])), x_log=True)
    latencies = [p[key] for p in points for key in ("fetch_p50_ms", "fetch_p99_ms")]
    return plot.lines(title, [
        first,
        plot.Panel("Memory", x_label, "MiB", _series(
            points, ("peak RSS", lambda p: p["rss_mib"]),
            ("kernel maps", lambda p: p["maps_mib"]), ("store", lambda p: p["store_mib"])),
            x_log=True, limit=(LIMIT_MIB, f"limit of RSS and of maps: {LIMIT_MIB} MiB")),
        plot.Panel("Fetch of 10 s", x_label, "ms", _series(
            points, ("p50", lambda p: p["fetch_p50_ms"]), ("p99", lambda p: p["fetch_p99_ms"]),
            ("status, p50", lambda p: p["status_p50_ms"])),
            x_log=True, y_log=spread(latencies))])


def _over(value):
    return f"**{value:.1f}**" if value > LIMIT_MIB else f"{value:.1f}"


def _missed(point):
    return point["ticks_missed"] / max(1, point["ticks"] + point["ticks_missed"])


def curve_section(curve, points, images):
    title, axis = CURVES[curve][:2]
    images[f"{curve}.svg"] = _plot(curve, points)
    text = [f"### {title}", "", ABOUT[curve], "", f"![{title}]({FOLDER}/{curve}.svg)", ""]
    text += table(
        [axis, "switched off", "tick", "CPU", "ticks", "drains", "ms a drain", "entries",
         "peak RSS", "RSS", "maps", "store", "fetch p50 / p99", "status", "missed", "in path",
         "start"],
        [[f"{p['x']:,}{'*' if p['disturbed'] else ''}", ", ".join(p["off"]) or "nothing",
          f"{p['tick_ms']:.0f}", percent(p["daemon_cpu"]), percent(p["tick_cpu"]),
          percent(p["drain_cpu"]), f"{p['drain_ms']:.2f}", f"{p['entries']:,}",
          _over(p["rss_mib"]), f"{p['rss_quiet_mib']:.1f}", _over(p["maps_mib"]),
          f"{p['store_mib']:.1f}", f"{p['fetch_p50_ms']:.0f} / {p['fetch_p99_ms']:.0f}",
          f"{p['status_p50_ms']:.0f}", percent(_missed(p)), percent(p["in_path_cpu"]),
          f"{p['startup_s']:.1f}"] for p in points], left=0)
    lost = [f"at {p['x']:,}: " + ", ".join(f"{name} {count:,}" for name, count in
                                           p["losses"].items()) for p in points if p["losses"]]
    if lost:
        text += [f"Losses that profd reported: {'; '.join(lost)}.", ""]
    return text


def window_section(lines, images):
    live = sorted((line for line in lines if line["kind"] == "window"),
                  key=lambda line: line["window_s"])
    stores = ordered([line for line in lines if line["kind"] == "store"],
                     ("store", [title for title, _ in STORES]))
    if not live and not stores:
        return []
    title = CURVES["window"][0]
    panels = []
    if live:
        panels.append(plot.Panel("Fetch from a running profd", "window, s", "ms", [
            plot.Series("p50", [(w["window_s"], w["p50_ms"]) for w in live]),
            plot.Series("p99", [(w["window_s"], w["p99_ms"]) for w in live])], x_log=True))
    if stores:
        panels.append(plot.Panel("Merge of the window alone, p50", "window, s", "ms", [
            plot.Series(store["store"], [(w[0], w[2]) for w in store["windows"]])
            for store in stores], x_log=True,
            y_log=spread([w[2] for store in stores for w in store["windows"]])))
    images["window.svg"] = plot.lines(title, panels)
    text = [f"### {title}", "", f"![{title}]({FOLDER}/window.svg)", ""]
    if live:
        text += [f"A running profd with {live[-1]['history_s']} s of history, its target of "
                 f"{live[-1]['threads']} threads and {live[-1]['stacks']} stacks:", "",
                 *table(["window, s", "fetch p50, ms", "fetch p99, ms"],
                        [[w["window_s"], f"{w['p50_ms']:.1f}", f"{w['p99_ms']:.1f}"]
                         for w in live], left=0)]
    if stores:
        windows = sorted({w[0] for store in stores for w in store["windows"]})
        text += ["The next table is the daemon's store alone, filled with an hour of synthetic "
                 "data. It does not include symbolizing and sending the answer, which depend on how "
                 "much differs in the window, not on its length. Times are CPU "
                 "times: of a merge, and of an append, once a second, with sealing and rolling up. "
                 "Added is the most by which a merge raised the RSS, its result included. Its "
                 "lower bound are the sums, 16 bytes for each place in which a thread waited: 8 MiB "
                 "next to 1,000 threads that each waited in 500 places.", "",
                 *table(["merge p50 / p99, ms", *[f"{window} s" for window in windows], "held",
                         "store", "append, ms", "added"],
                        [[store["store"], *[_merge_cell(store, window) for window in windows],
                          f"{store['held_s']:.0f} s", f"{store['mib']:.1f} MiB",
                          _figure(store, "append_cpu_ms", ".2f"),
                          _figure(store, "added_mib", ".1f", " MiB")]
                         for store in stores])]
    return text


def _figure(store, name, form, unit=""):
    return f"{store[name]:{form}}{unit}" if name in store else ""


def _merge_cell(store, window):
    for length, covered, p50, p99 in store["windows"]:
        if length == window:
            short = "" if covered >= window else f" (holds {covered:.0f} s)"
            return f"{p50:.1f} / {p99:.1f}{short}"
    return "-"


def drain_section(lines, images):
    """Drain cost by entries: every point of every curve that varies them."""
    chosen = [curve for curve in ("threads", "stacks") if points_of(lines, curve)]
    if not chosen:
        return []
    panels = [plot.Panel("A drain, by counter entries", "entries read", "ms", [
        plot.Series(f"curve of {curve}", sorted((max(1, p["entries"]), p["drain_ms"])
                                                for p in points_of(lines, curve)), joined=False)
        for curve in chosen], x_log=True)]
    if "threads" in chosen:
        panels.insert(0, plot.Panel("A drain, by threads", "threads", "ms", [plot.Series(
            "curve of threads", sorted((p["threads"], p["drain_ms"])
                                       for p in points_of(lines, "threads")))], x_log=True))
    images["drain.svg"] = plot.lines("CPU time of a drain", panels)
    return ["### CPU time of a drain", "",
            "Once a second, and at each fetch, profd reads every thread's account and every "
            "counter. An entry is one counter, for a thread, a reason, a system call with its first "
            "argument, and a stack. Threads, entries and new stacks each add to the cost, so points "
            "with the same number of entries differ.", "",
            f"![CPU time of a drain]({FOLDER}/drain.svg)", ""]


def section(lines, images):
    points = [line for line in lines if line["kind"] == "point"]
    text = []
    if points:
        options = {" ".join(point["options"]) or "its default flags" for point in points}
        text += [
            f"profd ran with {'; '.join(sorted(options))} and had just started. At first it can spend the "
            "minute of budget that it starts with; later it shows less and costs less. CPU, in % of "
            f"one CPU, is measured over {points[0]['seconds']} s without queries. Then follow "
            f"{points[0]['fetches']} fetches of 10 s, timed as a user sees them, client startup included, and as many calls of "
            "`status`, the minimum for any client. With "
            f"{points[0]['fetches']} fetches, p99 is the slowest.", "",
            "Memory is in MiB, bold if over its limit: RSS before the first fetch, and peak RSS "
            "after the last. Fetch, status and tick (the sampling interval in force) are in ms. "
            "Missed: share of ticks that came too late. In path: CPU time in the target's threads, "
            "as profd measures it. Start: seconds until samples begin. Entries: of the last "
            "second. A star marks a point during which unrelated processes used more than a tenth "
            "of a CPU.", ""]
    for curve in CURVES:
        if points_of(lines, curve):
            text += curve_section(curve, points_of(lines, curve), images)
    text += window_section(lines, images) + drain_section(lines, images)
    return ["## How it grows", "", *text] if text else []
