"""The results file: one JSON document that `run` and `scale` share, each owning one section.

    {"format": "profd-bench", "version": 1,
     "machine":  {...},                   where and when the newest section was measured
     "overhead": {"machine": ..., ...},   written by `bench run`
     "scale":    {"machine": ..., ...}}   written by `bench scale`

A section keeps the machine it was measured on, so that a file whose halves come from two machines
can be recognised.
"""

import datetime
import json
import os
import platform
import tempfile

FORMAT = "profd-bench"
VERSION = 1
SECTIONS = ("overhead", "scale")


class BadFile(Exception):
    """A results file that cannot be used; the text names it and says why."""


def machine():
    """What the numbers depend on, as it is now: call it before the first run."""
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
    return {"kernel": platform.release(), "arch": platform.machine(), "cpus": os.cpu_count(),
            "cpu_model": model, "memory_bytes": memory,
            "load_before": round(os.getloadavg()[0], 2),
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")}


def load(path):
    """The document in `path`; BadFile when it is missing, not JSON, or of another format."""
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
    except OSError as error:
        raise BadFile(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise BadFile(f"{path} is not JSON: {error}") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise BadFile(f"{path} is not a file that bench run or bench scale wrote")
    if document.get("version") != VERSION:
        raise BadFile(f"{path} has version {document.get('version')}; this bench reads {VERSION}")
    for section in ("machine", *SECTIONS):
        if section in document and not isinstance(document[section], dict):
            raise BadFile(f"{path}: {section} is not an object")
    return document


def save_section(path, section, content, where):
    """Replaces one section of `path`, or makes the file; a crash leaves the old file whole.

    `where` is what machine() returned before the first run. BadFile when the path holds something
    else, which is left alone.
    """
    assert section in SECTIONS
    if os.path.exists(path) and os.path.getsize(path) > 0:
        document = load(path)
    else:
        document = {"format": FORMAT, "version": VERSION}
    document["machine"] = where
    document[section] = {"machine": where, **content}
    folder = os.path.dirname(os.path.abspath(path))
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=".bench-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(document, file, indent=1)
            file.write("\n")
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def check_writable(path):
    """Fails before an hour of measuring rather than after: BadFile when `path` is no use."""
    if os.path.exists(path) and os.path.getsize(path) > 0:
        load(path)
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder) or not os.access(folder, os.W_OK):
        raise BadFile(f"{path}: {folder} cannot be written to")
