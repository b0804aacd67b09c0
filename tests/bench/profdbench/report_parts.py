"""The part of the page on what single parts of profd cost."""

from profdbench import own_time, stats
from profdbench.markdown import table

SAMPLE_US = 4  # of a thread, at a tick every 10 ms
RESTING_US = 10  # of a tick, beyond a bare wake-up
RULES_S, RULES_BYTES = 0.2, 5  # of a large library; for each row
START_S = 0.5  # beside 200 processes


def _rows(lines, part):
    return [line for line in lines if line["kind"] == "part" and line["part"] == part]


def _verdict(aim, numbers, also=True):
    """In the words of the page, of an interval and of what has none."""
    told = stats.cost_verdict(stats.Estimate.of_list(numbers), aim) if also else "missed"
    return told if told == "met" else f"**{told}**"


def _interval(numbers, digits=1):
    if len(numbers) < 3:
        return f"{numbers[0]:.{digits}f}"
    value, low, high = (f"{number:.{digits}f}" for number in numbers)
    return f"{value} ({low} to {high})"


def verdicts(lines):
    text = []
    for row in _rows(lines, "sample"):
        text.append(f"- A sampled thread of {row['load']}, ticks every {row['tick_ms']:.0f} ms: "
                    f"{_interval(row['sample_us'])} µs of profd's CPU time beyond bare wake-ups, aim "
                    f"{SAMPLE_US}: {_verdict(SAMPLE_US, row['sample_us'])}.")
    for row in _rows(lines, "resting"):
        text.append(f"- A tick that finds {row['load']} at rest: {_interval(row['beyond_us'])} µs "
                    f"beyond a bare wake-up, aim {RESTING_US}: "
                    f"{_verdict(RESTING_US, row['beyond_us'])}.")
    for row in _rows(lines, "rules"):
        told = _verdict(RULES_S, row["cpu_s"], row["bytes_per_row"] <= RULES_BYTES)
        text.append(f"- Unwind rules of {row['load']} ({row['rows']:,} rows): "
                    f"{_interval(row['cpu_s'], 2)} s, {row['bytes_per_row']:.1f} bytes a row, aims "
                    f"{RULES_S} s and {RULES_BYTES} bytes: {told}.")
    for row in _rows(lines, "start"):
        text.append(f"- Start beside {row['load']}: ready after {_interval(row['start_s'], 2)} s, "
                    f"aim {START_S} s: {_verdict(START_S, row['start_s'])}.")
    return text


def section(lines):
    samples, resting = _rows(lines, "sample"), _rows(lines, "resting")
    rules, starts, own = _rows(lines, "rules"), _rows(lines, "start"), _rows(lines, "self")
    own_starts = _rows(lines, "self-start")
    if not samples and not resting and not rules and not starts and not own and not own_starts:
        return []
    text = ["## Parts", "", "```",
            "tests/bench/bench parts --results docs/performance/results.jsonl", "```", ""]
    if samples or resting:
        text += ["profd runs with `--budget off`: every source is on, and ticks come every 10 ms. "
                 "*All* is the CPU time of the whole daemon, drains included, and *ticks* that of "
                 "ticks, each less a bare wake-up for each tick and divided by samples. A sample is "
                 "one thread that a tick found waiting; *walked* is the share of samples whose stack "
                 "was walked, because the wait was new. A bare wake-up is measured at the same time.",
                 "",
                 *table(["target", "threads", "samples/s", "walked", "bare wake-up, µs",
                         "all, µs a sample", "ticks, µs a sample", "beyond the wake-up, µs a tick"],
                        [[row["load"], f"{row['threads']:,.0f}", f"{row['samples_per_s']:,.0f}",
                          f"{100 * row['walks_per_s'] / row['samples_per_s']:.1f} %",
                          f"{row['bare_us']:.1f}", _interval(row["sample_us"], 2),
                          _interval(row["tick_sample_us"], 2), _interval(row["beyond_us"])]
                         for row in samples + resting])]
    if rules:
        text += ["Reading the unwind rules of a file and packing them for the kernel.", "",
                 *table(["file", "MiB", "functions", "rows", "CPU, s", "bytes a row"],
                        [[row["load"], f"{row['mib']:.0f}", f"{row['functions']:,}",
                          f"{row['rows']:,}", _interval(row["cpu_s"], 3), f"{row['bytes_per_row']:.2f}"]
                         for row in rules])]
    if starts:
        text += ["From the start of profd, with its default flags, to the line `ready`, and to the line `attached`, when it "
                 "has read the files of its targets and samples begin. All these processes are targets.", "",
                 *table(["beside", "turns", "ready after, s", "at most, s", "attached after, s", "CPU, s"],
                        [[row["load"], row["turns"], _interval(row["start_s"], 2),
                          f"{row['start_most_s']:.2f}", _interval(row["attached_s"], 2),
                          _interval(row["cpu_s"], 2)] for row in starts])]
    if own:
        stages = [stage for stage, *_ in own_time.STAGES] + [own_time.REST]
        text += ["What profd's CPU time consists of, by a second profd that watches the first (`profctl fetch --kind cpu`); "
                 "± one standard error. Each stage is without those above it. Drains come once a second.", "",
                 *table(["stage", *(f"{row['load']}: {row['cpu']:.2%} of a CPU" for row in own)],
                        [[stage, *(_share(row["stages"].get(stage)) for row in own)] for stage in stages])]
    for row in own_starts:
        stages = [stage for stage, *_ in own_time.START_STAGES if stage != own_time.END] + [own_time.REST]
        text += [f"The same of a start with default flags beside {row['load']}, until somebody who waited for `attached` ends it: the "
                 f"mean of {row['starts']}. It takes {row['cpu_s']:.2f} s of CPU time while it is watched, more than otherwise. Its end "
                 f"takes {row['end_cpu_s']:.2f} s: the kernel removes probes from each process.", "",
                 *table(["stage", f"start: {row['cpu_s']:.2f} s of CPU time"],
                        [[stage, _share(row["stages"].get(stage))] for stage in stages])]
    return text


def _share(found):
    return f"{100 * found[0]:.1f} % ± {100 * found[1]:.1f} %" if found else "-"
