"""What a daemon holds while it runs: memory, descriptors, threads, kernel objects."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

KIB = 1024


@dataclass(frozen=True)
class Held:
    rss_bytes: int
    file_bytes: int  # of these, pages of the program and of other files
    peak_bytes: int
    descriptors: int
    threads: int

    @property
    def own_bytes(self):
        """Pages of the program come and go."""
        return self.rss_bytes - self.file_bytes


def held(pid):
    """Raises FileNotFoundError when the process is gone."""
    values = {}
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        key, _, value = line.partition(":")
        values[key] = value.split()
    rss, file, peak = (int(values[key][0]) * KIB for key in ("VmRSS", "RssFile", "VmHWM"))
    return Held(rss, file, peak, len(os.listdir(f"/proc/{pid}/fd")), int(values["Threads"][0]))


def held_anew(pid):
    """The same. From now on the peak is the peak since."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    return held(pid)


def bpf_programs(pid):
    """Ids of the kernel programs that a process holds."""
    ids = set()
    for entry in Path(f"/proc/{pid}/fdinfo").iterdir():
        try:
            text = entry.read_text()
        except OSError:
            continue
        ids |= {int(line.split()[1]) for line in text.splitlines() if line.startswith("prog_id:")}
    return ids


def loaded(ids):
    """Those of the programs that the kernel still has."""
    return {program for program in ids
            if subprocess.run(["bpftool", "prog", "show", "id", str(program)], capture_output=True,
                              check=False).returncode == 0}
