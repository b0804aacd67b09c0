"""Starting, watching and ending the programs that take part in a measurement."""

import ctypes
import json
import os
import re
import signal
import subprocess
import time

TRACEFS = "/sys/kernel/tracing"
_mounted_tracefs = False
_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1
_FALLOC_PUNCH_HOLE = 3
# Of one CPU: a measurement during which uninvolved processes use more is marked as disturbed.
OTHERS_LIMIT = 0.1


class Unavailable(Exception):
    """A tool or workload that cannot run here; the text says why."""


class Failed(Exception):
    """A measurement that went wrong; the text says what, in what, with its output."""


def read_text(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def require_root():
    """Failed unless the caller is root."""
    if os.geteuid() != 0:
        raise Failed("this needs root, to load programs into the kernel")


def require_built(build, *names):
    """Failed unless these programs are in the folder `build`."""
    for name in names:
        if not os.path.exists(os.path.join(build, name)):
            raise Failed(f"{os.path.join(build, name)} is not built; configure with "
                         "-DPROFD_TESTS=ON, build, or name another folder by --build")


def require_tracefs(tool):
    """Makes tracefs available, by mounting it when it is not; `release_tracefs` undoes that."""
    global _mounted_tracefs
    if os.path.isdir(os.path.join(TRACEFS, "events")):
        return
    if subprocess.run(["mount", "-t", "tracefs", "tracefs", TRACEFS], check=False,
                      stderr=subprocess.DEVNULL).returncode != 0:
        raise Unavailable(f"{tool} needs tracefs, which cannot be mounted on {TRACEFS}")
    _mounted_tracefs = True


def release_tracefs():
    """Unmounts tracefs if it was mounted here."""
    global _mounted_tracefs
    if _mounted_tracefs:
        subprocess.run(["umount", TRACEFS], check=False)
        _mounted_tracefs = False


def _die_with_parent():
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def spawn(command, own_session=True, **kwargs):
    """A child in its own process group that dies with this process, whatever ends it.

    The own group keeps a terminal's Ctrl-C from ending servers and tools out of order. The group
    is a session as well unless that is to be avoided.
    """
    kwargs.setdefault("stdin", subprocess.DEVNULL)
    group = {"start_new_session": True} if own_session else {"process_group": 0}
    return subprocess.Popen(command, preexec_fn=_die_with_parent, **group, **kwargs)


def stop(process, how=signal.SIGTERM, patience=60):
    """Ends a child from spawn() and waits for it; None is fine. Its group goes with it."""
    if process is None:
        return
    if process.poll() is None:
        process.send_signal(how)
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            pass
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def output_of(command, **kwargs):
    """Both streams of a command as text; Failed with them when it does not succeed."""
    result = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, errors="replace", check=False,
                            **kwargs)
    if result.returncode != 0:
        raise Failed(f"{' '.join(command)} failed:\n{result.stdout.strip()}")
    return result.stdout


def wait_for_line(process, log_path, pattern, timeout=120):
    """Until a line of the log matches; Failed with the log when the process ends before."""
    deadline = time.monotonic() + timeout
    while not re.search(pattern, read_text(log_path), re.MULTILINE):
        if process.poll() is not None or time.monotonic() > deadline:
            raise Failed(f"{os.path.basename(process.args[0])} did not start:\n"
                         f"{read_text(log_path).strip()}")
        time.sleep(0.005)


def punch_hole(path, size):
    """Gives back the memory of the first `size` bytes of a file that somebody goes on writing."""
    with open(path, "r+b") as file:
        # Keeps the size. Where the filesystem cannot, the file only grows.
        _libc.fallocate(file.fileno(), _FALLOC_PUNCH_HOLE, ctypes.c_long(0), ctypes.c_long(size))


def cpu_seconds(pid):
    """User and system time of a process, all threads."""
    fields = read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def task_cpu_ns(pid):
    """CPU time of all threads of a process, in ns where schedstat has it."""
    total = 0
    for tid in os.listdir(f"/proc/{pid}/task"):
        try:
            total += int(read_text(f"/proc/{pid}/task/{tid}/schedstat").split()[0])
        except (FileNotFoundError, ProcessLookupError, IndexError):
            continue
    return total or int(cpu_seconds(pid) * 1e9)


def rss_bytes(pid, peak=False):
    """Resident memory of a process, now or at its peak."""
    field = "VmHWM" if peak else "VmRSS"
    match = re.search(rf"^{field}:\s+(\d+) kB", read_text(f"/proc/{pid}/status"), re.MULTILINE)
    return int(match.group(1)) * 1024


def machine_ticks():
    """Clock ticks that all CPUs were busy since the machine started, and that were stolen."""
    fields = read_text("/proc/stat").split("\n", 1)[0].split()[1:]
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, fields[:8])
    return user + nice + system + irq + softirq, steal


def profctl_status(profctl, server):
    """`profctl status` as a dict. Numbers may come as strings: the JSON form of 64-bit ones."""
    return json.loads(output_of([profctl, "--server", server, "status", "--format", "json"]))


def find_key(value, key):
    """The first value of `key` in nested JSON, spelled in snake_case or lowerCamelCase."""
    camel = re.sub(r"_(.)", lambda match: match.group(1).upper(), key)
    if isinstance(value, dict):
        for spelling in (key, camel):
            if spelling in value:
                return value[spelling]
    children = value.values() if isinstance(value, dict) else value
    if isinstance(value, (dict, list)):
        for child in children:
            found = find_key(child, key)
            if found is not None:
                return found
    return None
