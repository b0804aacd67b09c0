"""The part of the page on how fast functions get their names."""

from profdbench.markdown import table, verdict
from profdbench.scale_point import LIMIT_MIB

FIRST_S = 0.3  # of the first answer with names
FACTOR = 10  # that a lookup of a known address is faster than llvm-symbolizer's


def _rows(lines, what):
    return [line for line in lines if line["kind"] == "names" and line["what"] == what]


def verdicts(lines):
    text = []
    for row in _rows(lines, "answer"):
        met = row["first_most_s"] <= FIRST_S and row["rss_mib"] <= LIMIT_MIB
        text.append(f"- First answer with names of {row['library']} ({row['mib']:.0f} MiB): "
                    f"{row['first_s']:.2f} s, {row['first_most_s']:.2f} s at most, with a peak RSS of "
                    f"{row['rss_mib']:.1f} MiB (aims: {FIRST_S} s, {LIMIT_MIB} MiB): {verdict(met)}.")
    for row in _rows(lines, "lookups"):
        text.append(f"- Repeated lookups in {row['library']}: {row['ratio']:.0f} times as fast as "
                    f"{row['symbolizer']}, aim {FACTOR}: {verdict(row['ratio'] >= FACTOR)}.")
    return text


def section(lines):
    answers, lookups = _rows(lines, "answer"), _rows(lines, "lookups")
    if not answers and not lookups:
        return []
    text = ["## Names", "", "```", "tests/bench/bench names --results docs/performance/results.jsonl",
            "```", ""]
    if answers:
        text += ["profd with its default flags watches compilations for 10 s. Then `profctl fetch "
                 "--kind cpu` is timed as a user sees it. The first one names all frames: those in "
                 "rustc's library, in LLVM (190 MiB), libc and the kernel. The compiler uses the CPUs "
                 "meanwhile, and an answer may wait 0.1 s for inlined functions. Peak RSS is of the "
                 "daemon, after four answers. Each turn has a new daemon.", "",
                 *table(["library", "MiB", "turns", "frames", "first answer, s", "slowest", "again, s",
                         "peak RSS, MiB"],
                        [[row["library"], f"{row['mib']:.0f}", row["turns"], f"{row['frames']:,.0f}",
                          f"{row['first_s']:.3f}", f"{row['first_most_s']:.3f}",
                          f"{row['again_s']:.3f}", f"{row['rss_mib']:.1f}"] for row in answers])]
    if lookups:
        text += ["The same addresses of functions, named by profd's code and by llvm-symbolizer with "
                 "`--no-inlines`, in turns: the first time, and again with everything known. "
                 "Medians; the time of llvm-symbolizer includes the pipe.", "",
                 *table(["library", "MiB", "addresses", "profd, first", "llvm-symbolizer, first",
                         "profd, again", "llvm-symbolizer, again", "ratio"],
                        [[row["library"], f"{row['mib']:.0f}", f"{row['addresses']:,}",
                          f"{row['first_s']:.2f} s", f"{row['symbolizer_first_s']:.2f} s",
                          f"{row['again_s'] / row['addresses'] * 1e6:.2f} µs each",
                          f"{row['symbolizer_again_s'] / row['addresses'] * 1e6:.1f} µs each",
                          f"{row['ratio']:.0f}"] for row in lookups])]
    return text
