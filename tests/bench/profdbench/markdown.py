"""Markdown for the page, and how it writes numbers."""

FOLDER = "performance"  # of the plots, beside the page
TOOLS = {
    "profd": "profd, default budgets", "profd-all": "profd, nothing given up",
    "profd-noswitch": "profd, no switch layer", "perf": "perf record",
    "bpftrace": "bpftrace, user stacks", "offcputime": "offcputime", "none": "nothing (noise)",
    "heaptrack": "heaptrack", "jeprof": "jemalloc's profiling",
}


def tool_name(tool):
    return TOOLS.get(tool, tool)


def amount(value):
    """Three digits or so."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def percent(value, digits=2):
    return f"{value * 100:.{digits}f} %"


def ratio(numbers):
    """A ratio with its interval."""
    if numbers is None:
        return "-"
    if len(numbers) < 3:
        return f"{numbers[0]:.3f}"
    return f"{numbers[0]:.3f} ({numbers[1]:.3f} to {numbers[2]:.3f})"


def verdict(met):
    """Of an aim that has no interval."""
    return "met" if met else "**missed**"


def cell(value):
    return str(value).replace("|", "\\|").replace("\n", " ")


def table(header, rows, left=1):
    """A Markdown table; the first `left` columns are text, the others numbers."""
    marks = ["---" if i < left else "--:" for i in range(len(header))]
    return ["| " + " | ".join(map(cell, row)) + " |" for row in [header, marks, *rows]] + [""]


def ordered(rows, *columns):
    """Rows in the order of known names: each column is (field, names); unknown ones come last."""
    def place(row):
        return [names.index(row[field]) if row[field] in names else len(names)
                for field, names in columns]
    return sorted(rows, key=place)
