"""The part of the page on what the watched program pays, and what profd takes for itself."""

from profdbench import in_force, overhead, plot
from profdbench.markdown import FOLDER, amount, ordered, percent, ratio, table, tool_name
from profdbench.tools import TOOLS
from profdbench.workloads import WORKLOADS

PROTOCOL = "slices"  # of rows that can be paused
OLDER = {"bursts": "short bursts"}


def rows_of(lines):
    """The rows of the section, in the order of the workloads and tools."""
    rows = [line for line in lines if line["kind"] == "overhead"]
    return ordered(rows, ("workload", list(WORKLOADS)), ("tool", list(TOOLS)))


def can_pause(row):
    return row["tool"] in TOOLS and TOOLS[row["tool"]].can_pause


def is_older(row):
    """Whether the row was measured by a protocol that is not in use for it any more."""
    return can_pause(row) and row["protocol"] != PROTOCOL


def is_early(row):
    """Whether profd still had savings to spend."""
    return row["protocol"] == PROTOCOL and can_pause(row) and TOOLS[row["tool"]].has_savings and "settled_s" not in row


def how(row):
    """The protocol and the number of pairs."""
    if row["protocol"] == "bursts":
        text = f"{row['pairs']} pairs of {row['slices_in_pair']} bursts of {row['slice_s']:g} s"
    else:
        text = f"{row['pairs']} pairs of {row['slice_s']:g} s {row['protocol']}"
    return text + (", older protocol" if is_older(row) else ", in the first minutes" if is_early(row) else "")


def verdicts(lines):
    """A sentence on each row with an aim."""
    found = []
    for row in rows_of(lines):
        if "aim" not in row:
            continue
        told = overhead.verdict_text(row)
        told = told if told == "met" else f"**{told}**"
        latency = ""
        if "p99_ratio" in row:
            latency = (f" Latency of {row['requests']}: p50 {ratio(row['p50_ratio'])}, "
                       f"p99 {ratio(row['p99_ratio'])}.")
        state = in_force.headline(row)
        found.append(f"- **{row['workload']}** under {tool_name(row['tool'])} ({state}): "
                     f"{ratio(row['ratio'])} of the untraced speed, aim {row['aim']:.2f}: {told}."
                     f"{latency} {how(row)[0].upper()}{how(row)[1:]}.")
    return found


def section(lines, images):
    rows = rows_of(lines)
    if not rows:
        return []
    images["overhead.svg"] = plot.ratios("Speed under each tool", [
        plot.Ratio(row["workload"], tool_name(row["tool"]), row["ratio"][0], min(row["ratio"]),
                   max(row["ratio"]), row.get("aim")) for row in rows], "speed traced / untraced")
    text = [
        "## Overhead in the target", "",
        "*Speed* is the speed with the tool divided by the speed without it: 1 means no loss, 0.97 "
        "a loss of 3 %. *CPU* is the target's CPU time per unit of work, without the tool divided "
        "by with it; below 1, the tool costs CPU. *p50* and *p99* are the median and the 99th "
        "percentile of the target's request latency, with the tool divided by without it; above 1, "
        "requests take longer. The 95 % interval is in parentheses.", "",
        f"![Ratio by workload and tool]({FOLDER}/overhead.svg)", "",
        "### Under profd", ""]
    own = [row for row in rows if can_pause(row)]
    text += table(
        ["workload", "tool", "switched off", "sampled every", "speed", "CPU", "p50", "p99",
         "untraced", "measured as"],
        [[row["workload"], tool_name(row["tool"]), *state_cells(row), ratio(row["ratio"]),
          ratio(row["cpu_ratio"]), ratio(row.get("p50_ratio")), ratio(row.get("p99_ratio")),
          f"{amount(row['untraced'])} {row['unit']}", how(row)] for row in own], left=4)
    text += ["\"Nothing (noise)\" is no tool at all: the difference between two equal measurements.",
             ""]
    if any(is_older(row) for row in rows):
        text += ["**Older protocol** marks rows measured with an earlier protocol: a few pairs of "
                 "segments of a second or more, or pairs of many bursts of 0.04 or 0.16 s (for "
                 "rustc, whole compilations). Their intervals were recomputed from the ratios of "
                 "the pairs. That protocol did not record latency.", ""]
    if any(is_early(row) for row in rows):
        text += ["**In the first minutes** marks rows measured while profd still spent the minute of its budget that it "
                 "has saved at its start. It shows more then, and costs more, than it does later. Other rows with default "
                 "budgets begin once it is spent, or no longer shrinks.", ""]
    peers = [row for row in rows if not can_pause(row)]
    if peers:
        text += ["### Under other tools", "",
                 "These cannot be paused, so they are started and stopped around segments of "
                 "seconds, which is less precise. heaptrack and jemalloc's profiling must be loaded "
                 "at program start, so the program is restarted for each segment.", ""]
        text += table(
            ["workload", "tool", "speed", "CPU", "p50", "p99", "untraced", "measured as"],
            [[row["workload"], tool_name(row["tool"]), ratio(row["ratio"]),
              ratio(row["cpu_ratio"]), ratio(row.get("p50_ratio")), ratio(row.get("p99_ratio")),
              f"{amount(row['untraced'])} {row['unit']}", how(row)] for row in peers], left=2)
    about = {row["workload"]: row["about"] for row in rows}
    requests = {row["workload"]: row["requests"] for row in rows if "requests" in row}
    text += [f"- **{name}**: {what}" +
             (f"; latency of {requests[name]}" if name in requests else "")
             for name, what in about.items()] + [""]
    notes = list(dict.fromkeys((row["tool"], row["note"]) for row in rows if row.get("note")))
    text += [f"- {tool_name(tool)}: {note}" for tool, note in notes] + ([""] if notes else [])
    return text + own_section(own)


def state_cells(row):
    if "tick_ms" not in row:
        return ["-", "-"]
    off = ", ".join(name if share == 1 else f"{name} {share:.0%}"
                    for name, share in row["off"].items())
    return [off or "nothing", f"{row['tick_ms']:.0f} ms"]


def own_section(rows):
    rows = [row for row in rows if "daemon_cpu" in row]
    if not rows:
        return []
    return [
        "### Overhead of profd itself", "",
        "*CPU* is the daemon's share of one CPU, drains included. *In path* is the time of its "
        "kernel programs in the target's threads, as profd measures it. *Fewer samples* is the "
        "highest governor level of sources that stayed on ([governor.md](governor.md)).", "",
        *table(["workload", "tool", "switched off", "fewer samples", "sampled every", "CPU",
                "in path", "switches/s", "peak RSS", "kernel maps"],
               [[row["workload"], tool_name(row["tool"]), state_cells(row)[0],
                 ", ".join(f"{name} {level}" for name, level in row["levels"].items()) or "none",
                 state_cells(row)[1], percent(row["daemon_cpu"]), percent(row["in_path_cpu"]),
                 f"{row['switches_per_s']:,.0f}", f"{row['rss_mib']:.1f} MiB",
                 f"{row['maps_mib']:.1f} MiB"] for row in rows], left=4)]
