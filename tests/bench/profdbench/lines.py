"""The results file: one JSON object a line, one line a row, sorted.

Each line says what was measured (its *key*, see KEYS), where and when (`commit`, `date`, `kernel`,
`machine`), by which `protocol`, and what came out. A row that is measured again takes the place of
its former line, so that git shows one changed line. Unknown fields are kept.
"""

import datetime
import json
import math
import os
import platform
import subprocess
import tempfile

# What makes two lines the same row, by kind.
KEYS = {
    "overhead": ("workload", "tool"),
    "point": ("curve", "asked"),
    "window": ("window_s",),
    "store": ("store",),
    "accuracy": ("case", "load", "site"),
    "names": ("what", "library"),
    "part": ("part", "load"),
    "storm": ("watch", "stressor"),
}


class BadFile(Exception):
    """A results file that cannot be used; the text names it and says why."""


def key(line):
    """The identity of a row: a tuple that begins with its kind."""
    return (line["kind"], *(str(line[name]) for name in KEYS[line["kind"]]))


def _place(line):
    """Where a row stands in the file: by kind, then by what it is of."""
    def number(value):
        return (0, value, "") if isinstance(value, (int, float)) else (1, 0, str(value))
    return (list(KEYS).index(line["kind"]), *(number(line[name]) for name in KEYS[line["kind"]]))


def rounded(value):
    """The value with floats cut to five significant digits, which is more than any of them has."""
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value} is no measurement")
        short = float(f"{value:.5g}")
        return int(short) if short.is_integer() and abs(short) < 1e15 else short
    if isinstance(value, dict):
        return {name: rounded(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(one) for one in value]
    return value


def text_of(line):
    """A row as its line, without the newline."""
    return json.dumps(rounded(line), ensure_ascii=False, separators=(",", ":"))


def parse(text, name):
    """The rows in the text of a file; BadFile names the line that is none."""
    rows = []
    for number, one in enumerate(text.splitlines(), 1):
        try:
            line = json.loads(one)
            key(line)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise BadFile(f"{name}, line {number}: no row of results ({type(error).__name__}: "
                          f"{error})") from error
        rows.append(line)
    keys = [key(line) for line in rows]
    twice = [one for one in keys if keys.count(one) > 1]
    if twice:
        raise BadFile(f"{name} has two rows of {', '.join(twice[0])}")
    return rows


def load(path):
    """The rows in `path`; BadFile when it is missing or something else."""
    try:
        with open(path, encoding="utf-8") as file:
            return parse(file.read(), path)
    except OSError as error:
        raise BadFile(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadFile(f"{path} is not text") from error


def merged(rows, new):
    """`rows` with each of `new` added, or in place of the row with its key; sorted."""
    found = {key(line): line for line in rows}
    found.update({key(line): line for line in new})
    return sorted(found.values(), key=_place)


def save(path, new):
    """Merges rows into `path`, or makes it; a crash leaves the old file whole."""
    rows = merged(load(path) if os.path.exists(path) else [], new)
    folder = os.path.dirname(os.path.abspath(path))
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=".bench-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.writelines(text_of(line) + "\n" for line in rows)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def check_writable(path):
    """Fails before an hour of measuring rather than after: BadFile when `path` is no use."""
    if os.path.exists(path):
        load(path)
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder) or not os.access(folder, os.W_OK):
        raise BadFile(f"{path}: {folder} cannot be written to")


def _commit():
    """The commit that is measured, with a + where the tree has changes; "unknown" without git."""
    here = os.path.dirname(os.path.abspath(__file__))

    def git(*arguments):
        return subprocess.run(["git", "-C", here, *arguments], stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    try:
        head = git("rev-parse", "--short=10", "HEAD")
        changed = git("status", "--porcelain", "--untracked-files=no", ":/daemon", ":/bpf",
                      ":/client", ":/proto")
    except FileNotFoundError:
        return "unknown"
    if head.returncode != 0:
        return "unknown"
    return head.stdout.strip() + ("+" if changed.stdout.strip() else "")


def here():
    """The fields that say where and when a row was measured; call it when the row begins."""
    model, memory = "unknown", 0
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    with open("/proc/meminfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("MemTotal:"):
                memory = int(line.split()[1]) * 1024
    now = datetime.datetime.now(datetime.timezone.utc)
    return {"commit": _commit(), "date": now.strftime("%Y-%m-%d %H:%M"),
            "kernel": platform.release(), "machine": machine_text(
                os.cpu_count(), model, memory, platform.machine()),
            "load_before": round(os.getloadavg()[0], 2)}


def machine_text(cpus, model, memory, arch):
    return f"{cpus} CPUs ({model}), {memory / 1024**3:.0f} GiB of memory, {arch}"
