"""The part of the page on storms of processes and threads."""

from profdbench.markdown import table, verdict

RUNS = 50
PEAK_MIB = 96
REST_MIB = 64
CPU_SHARE = 0.01


def _rows(lines):
    return [line for line in lines if line["kind"] == "storm"]


def _ratio_of(rows):
    """The lowest and the highest ratio of profd's CPU time of the storm to the kernel's, or None."""
    ratios = [ratio for row in rows for ratio in row.get("cpu_ratio", ())]
    return (min(ratios), max(ratios)) if ratios else None


def verdicts(lines):
    rows = _rows(lines)
    if not rows:
        return []
    runs, survived = (sum(row[name] for row in rows) for name in ("runs", "survived"))
    peak, rest = (max(row[name] for row in rows) for name in ("peak_mib", "rest_mib"))
    # Of a run that ended early nothing was measured.
    held = survived == runs and peak <= PEAK_MIB and rest <= REST_MIB
    enough = verdict(survived == runs) if runs >= RUNS or survived < runs else "**not shown**"
    text = [f"- Storms of processes and threads: profd survived {survived} of {runs}, aim {RUNS} of {RUNS}: {enough}. Peak RSS "
            f"{peak} MiB, and {rest} MiB after the storm (aims: {PEAK_MIB}, {REST_MIB} MiB): {verdict(held)}."]
    if ratio := _ratio_of(rows):
        lost = sum(row["lost_exits"] for row in rows)
        text.append(f"- CPU time of a storm by profd, by the kernel's account: {ratio[0]:.4f} to {ratio[1]:.4f}; {lost} exits "
                    f"lost (aims: within {CPU_SHARE:.0%}, none): "
                    f"{verdict(max(abs(each - 1) for each in ratio) <= CPU_SHARE and lost == 0)}.")
    return text


def section(lines):
    rows = _rows(lines)
    if not rows:
        return []
    text = ["## Storms", "", "```", "python3 -m tests.endurance.storm --rounds 8 --rest 5 --results docs/performance/results.jsonl",
            "python3 -m tests.endurance.storm --watch storm --rest 5 --results docs/performance/results.jsonl", "```", "",
            "Each stressor makes processes or threads as fast as the machine goes. profd runs with its default flags and watches "
            "every process, or only the storm. Half way through, somebody fetches the last minute. Memory is the daemon's, in MiB, "
            "and of the worst run: its peak, what the fetch added, and what is left some time after the storm. *CPU time* is what "
            "profd says of all threads of the storm, by what the kernel's account of its cgroup says.", ""]
    return text + table(
        ["stressor", "watched", "workers", "s", "runs", "survived", "peak", "fetch", "left", "after, s", "exits lost", "CPU time"],
        [[row["stressor"], {"all": "everything"}.get(row["watch"], "the storm"), row["workers"], f"{row['seconds']:g}", row["runs"],
          row["survived"], row["peak_mib"], f"{row['fetch_mib']:.1f}", row["rest_mib"], f"{row['rest_s']:g}", row["lost_exits"],
          f"{row['cpu_ratio'][0]:.4f} to {row['cpu_ratio'][1]:.4f}" if "cpu_ratio" in row else "-"] for row in rows])
