"""Probes the machine before any test runs. Tests ask for these facts by name; nobody else decides a skip."""

import ctypes
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path


def command(*names):
    return all(shutil.which(name) for name in names)


def answers(*argv):
    try:
        return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=60,
                              check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def huge_pages():
    try:
        return "[never]" not in Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text()
    except OSError:
        return False


def kernel_at_least(*wanted):
    numbers = tuple(int(part) for part in platform.release().split("-")[0].split(".")[:2])
    return numbers >= wanted


def fsync_waits():
    """fsync blocks on some file systems, and returns at once on others (tmpfs, some overlays)."""
    with tempfile.NamedTemporaryFile(dir="/var/tmp") as file:
        before = voluntary_switches()
        for _ in range(20):
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())
        return voluntary_switches() - before >= 10


def voluntary_switches():
    for line in Path("/proc/thread-self/status").read_text().splitlines():
        if line.startswith("voluntary_ctxt_switches"):
            return int(line.split()[1])
    return 0


def userfaultfd():
    number = 323  # x86-64
    fd = ctypes.CDLL(None, use_errno=True).syscall(number, 0)
    if fd >= 0:
        os.close(fd)
    return fd >= 0


# Each fact, and how it is found. Whatever a package of deploy/packages brings is no fact: its absence
# is a failure.
FACTS = {
    "root": lambda: os.geteuid() == 0,
    "btf": lambda: Path("/sys/kernel/btf/vmlinux").exists(),
    "two_cpus": lambda: len(os.sched_getaffinity(0)) >= 2,
    "huge_pages": huge_pages,
    "pagemap_scan": lambda: kernel_at_least(6, 7),
    "uprobe_multi": lambda: kernel_at_least(6, 6),
    "fsync_waits": fsync_waits,
    "userfaultfd": userfaultfd,
    "cgroup_v2": lambda: Path("/sys/fs/cgroup/cgroup.controllers").exists(),
    "pid_namespaces": lambda: answers("unshare", "--pid", "--fork", "--mount-proc", "true"),
    "crates": lambda: command("cargo") and Path.home().exists(),
    "qemu": lambda: command("qemu-system-x86_64", "cpio", "busybox"),
    "podman": lambda: os.geteuid() == 0 and command("podman", "runc"),
    "chromium": lambda: command("chromium", "chromedriver"),
}


def probe():
    return {name: bool(look()) for name, look in FACTS.items()}


def describe():
    memory = next((int(line.split()[1]) >> 20 for line in Path("/proc/meminfo").read_text().splitlines()
                   if line.startswith("MemTotal")), 0)
    return (f"Linux {platform.release()}, {len(os.sched_getaffinity(0))} CPUs, {memory} GiB, load "
            f"{os.getloadavg()[0]:.1f}")


def write(path):
    facts = probe()
    path.write_text(json.dumps({"machine": describe(), "facts": facts}, indent=1) + "\n")
    return facts


if __name__ == "__main__":
    json.dump({"machine": describe(), "facts": probe()}, sys.stdout, indent=1)
    print()
