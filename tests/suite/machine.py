"""Probes the machine before any test runs. Tests ask for these facts by name; nobody else decides a skip."""

import ctypes
import json
import mmap
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


def pids_cgroup():
    """Where cgroups can limit the number of threads."""
    if os.access("/sys/fs/cgroup/pids/cgroup.procs", os.W_OK):
        return Path("/sys/fs/cgroup/pids")
    try:
        offered = Path("/sys/fs/cgroup/cgroup.controllers").read_text().split()
    except OSError:
        return None
    writable = os.access("/sys/fs/cgroup/cgroup.subtree_control", os.W_OK)
    return Path("/sys/fs/cgroup") if "pids" in offered and writable else None


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


def disk_requests():
    """Reads past the page cache reach a block device; of a file in memory they do not."""
    size, reads = 4096, 16
    with tempfile.NamedTemporaryFile(dir="/var/tmp") as file, mmap.mmap(-1, size) as memory:
        file.write(bytes(size))
        file.flush()
        os.fsync(file.fileno())
        try:
            direct = os.open(file.name, os.O_RDONLY | os.O_DIRECT)
        except OSError:
            return False
        before = read_bytes()
        try:
            for _ in range(reads):
                os.preadv(direct, [memory], 0)
        finally:
            os.close(direct)
        return read_bytes() - before >= size * reads


def read_bytes():
    """That this thread had read from storage."""
    for line in Path("/proc/thread-self/io").read_text().splitlines():
        if line.startswith("read_bytes"):
            return int(line.split()[1])
    return 0


def voluntary_switches():
    for line in Path("/proc/thread-self/status").read_text().splitlines():
        if line.startswith("voluntary_ctxt_switches"):
            return int(line.split()[1])
    return 0


def cpu_quota():
    """Whether a cgroup with a CPU quota can be made, of version 1 or 2."""
    first = Path("/sys/fs/cgroup/cpu")
    above = first if (first / "cpu.cfs_period_us").exists() else Path("/sys/fs/cgroup")
    folder = above / f"probe-{os.getpid()}"
    try:
        if above != first:
            (above / "cgroup.subtree_control").write_text("+cpu")
        folder.mkdir()
        try:
            if above == first:
                (folder / "cpu.cfs_quota_us").write_text("20000")
            else:
                (folder / "cpu.max").write_text("20000 100000")
        finally:
            folder.rmdir()
    except OSError:
        return False
    return True


def userfaultfd():
    number = 323  # x86-64
    fd = ctypes.CDLL(None, use_errno=True).syscall(number, 0)
    if fd >= 0:
        os.close(fd)
    return fd >= 0


def capabilities():
    """Every capability that a feature of profd needs, as root has them."""
    wanted = (2, 19, 21, 23, 34, 38, 39, 40)  # DAC_READ_SEARCH SYS_PTRACE SYS_ADMIN SYS_NICE SYSLOG PERFMON BPF C/R
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapPrm"):
            permitted = int(line.split()[1], 16)
            return all(permitted >> number & 1 for number in wanted)
    return False


def threads_20000():
    """Whether one process may have so many threads: each has a stack and its guard, two mappings."""
    limits = [Path("/proc/sys/kernel/threads-max"), Path("/proc/sys/kernel/pid_max")]
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        if names in ("", "pids"):
            limits += [Path(f"/sys/fs/cgroup/{names}/{path}/pids.max")]
    values = [limit.read_text().strip() for limit in limits if limit.exists()]
    return (all(value == "max" or int(value) >= 25_000 for value in values)
            and int(Path("/proc/sys/vm/max_map_count").read_text()) >= 45_000)


def kernel_symbols():
    with open("/proc/kallsyms", encoding="ascii", errors="replace") as file:
        return any(line.split()[0].strip("0") for line in file if line.endswith(" T schedule\n"))


def rustc_jemalloc():
    """Debian's rustc has jemalloc linked in, others have not. By readelf, not by what is under test."""
    return subprocess.run(
        ["sh", "-c", "readelf -Ws \"$(rustc --print sysroot)/bin/rustc\" | grep -q 'FUNC.*je_te_event_trigger'"],
        stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False).returncode == 0


def crates():
    """Whether cargo has, or can fetch, what the Rust target and other releases of jemalloc are made of."""
    targets = Path(__file__).resolve().parent.parent / "targets"
    manifests = [targets / "standin/Cargo.toml", *sorted(targets.glob("jemallocs/*/Cargo.toml"))]
    return all(answers("cargo", "fetch", "--locked", "--quiet", "--manifest-path", str(manifest))
               for manifest in manifests)


# Each fact, and how it is found; tests/support/machine.cc has those that C++ tests ask for. Whatever a
# package of deploy/packages brings is no fact: its absence is a failure.
FACTS = {
    "root": lambda: os.geteuid() == 0,
    "capabilities": capabilities,
    "btf": lambda: Path("/sys/kernel/btf/vmlinux").exists(),
    "kernel.6_10": lambda: kernel_at_least(6, 10),
    "kernel.pagemap_scan": lambda: kernel_at_least(6, 7),
    "kernel.uprobe_multi": lambda: kernel_at_least(6, 6),
    "kernel.proc_children": lambda: os.access("/proc/thread-self/children", os.R_OK),
    "kernel.kallsyms": kernel_symbols,
    "kernel.userfaultfd": userfaultfd,
    "kernel.huge_pages": huge_pages,
    "kernel.cpu_quota": cpu_quota,
    "kernel.tracefs": lambda: "tracefs" in Path("/proc/filesystems").read_text(),
    "kernel.cgroup_v2": lambda: Path("/sys/fs/cgroup/cgroup.controllers").exists(),
    "kernel.cgroup_pids": lambda: pids_cgroup() is not None,
    "kernel.cgroup_v1_memory": lambda: os.access("/sys/fs/cgroup/memory/memory.limit_in_bytes", os.W_OK),
    "pid_namespaces": lambda: answers("unshare", "--pid", "--fork", "--mount-proc", "true"),
    "crates": crates,
    "go": lambda: answers("go", "version"),
    "npm": lambda: answers("npm", "--version"),
    "two_cpus": lambda: len(os.sched_getaffinity(0)) >= 2,
    "threads_20000": threads_20000,
    "fsync_waits": fsync_waits,
    "disk_requests": disk_requests,
    "rustc.jemalloc": rustc_jemalloc,
    "guest_kernels": lambda: answers("tests/vm/run", "--fetch"),
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
