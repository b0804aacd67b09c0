"""One point of a curve: profd watches a load of chosen size, and everything it takes is read.

The order matters. CPU is read over a span in which nobody asks, between two drains, so that ticks
and drains in it are counted whole. Fetches come after that, one at a time, as a user starts them.
Memory is read last: its peak includes what the answers took.
"""

import json
import os
import statistics
import subprocess
import tempfile
import time

from profdbench import in_force, process, stats
from tests.harness.answer import read

MIB = 1024 * 1024
LIMIT_MIB = 64  # of peak RSS, and of kernel maps, at every point
STATUS_POLL_S = 0.1


def spawn(command, log):
    """A child in a process group, but not in a session, of its own.

    Linux shares CPUs between sessions first (autogroup). A load that takes all CPUs in a session of
    its own delays everything outside by tens of ms, profd or not; that is not to be measured here.
    """
    with open(log, "wb") as output:
        return process.spawn(command, own_session=False, stdout=output, stderr=subprocess.STDOUT)


class Others:
    """CPU that processes without a part in the measurement use, from construction to share()."""

    def __init__(self, *pids):
        self.pids = pids
        self.began = time.monotonic()
        self.before = self._others()

    def _others(self):
        busy, _ = process.machine_ticks()
        return (busy / os.sysconf("SC_CLK_TCK")
                - sum(process.cpu_seconds(pid) for pid in self.pids))

    def share(self):
        """Of one CPU."""
        return max(0.0, (self._others() - self.before) / (time.monotonic() - self.began))


class Load:
    """bench_load between its construction and stop()."""

    def __init__(self, build, directory, arguments):
        command = [os.path.join(build, "bench_load"), *arguments]
        if "--modules" in arguments:
            modules = os.path.join(directory, "modules")
            os.mkdir(modules)
            command += ["--module-file", os.path.join(build, "libbench_module.so"),
                        "--module-dir", modules]
        self.log = os.path.join(directory, "load.log")
        self.process = spawn(command, self.log)
        try:
            process.wait_for_line(self.process, self.log, "^ready")
        except BaseException:
            process.stop(self.process)
            raise

    def stop(self):
        """What it did, as it says itself."""
        process.stop(self.process)
        for line in process.read_text(self.log).splitlines():
            if line.startswith("{"):
                return json.loads(line)
        raise process.Failed(f"bench_load ended badly:\n{process.read_text(self.log).strip()}")


class Daemon:
    """profd between its construction and stop(). `ready_s` is how long it took to be ready, `startup_s` to begin to sample."""

    def __init__(self, build, directory, pid, arguments):
        self.profctl = os.path.join(build, "profctl")
        self.server = f"unix://{directory}/profd.sock"
        self.log = os.path.join(directory, "profd.log")
        began = time.monotonic()
        self.process = spawn([os.path.join(build, "profd"), "--target", str(pid),
                              "--listen", self.server, *arguments], self.log)
        try:
            process.wait_for_line(self.process, self.log, "^profd: ready")
            self.ready_s = time.monotonic() - began
            process.wait_for_line(self.process, self.log, "^profd: attached")
            self.startup_s = time.monotonic() - began
        except BaseException:
            self.stop()
            raise

    @property
    def pid(self):
        return self.process.pid

    def check_alive(self):
        if self.process.poll() is not None:
            raise process.Failed(f"profd ended by itself, code {self.process.returncode}:\n"
                                 f"{process.read_text(self.log).strip()}")

    def status(self):
        self.check_alive()
        return process.profctl_status(self.profctl, self.server)

    def status_after_drain(self, timeout=15):
        """A status just after a drain of the daemon's own, and when it was seen."""
        before = int(self.status()["cost"]["drain_cpu_ns"])
        deadline = time.monotonic() + timeout
        while True:
            time.sleep(STATUS_POLL_S)
            status = self.status()
            if int(status["cost"]["drain_cpu_ns"]) != before:
                return status, time.monotonic()
            if time.monotonic() > deadline:
                raise process.Failed(f"profd did not drain for {timeout} s")

    def run_profctl(self, *arguments):
        """Wall time in ms as the user sees it, start of the client included, and its output."""
        began = time.monotonic()
        result = subprocess.run([self.profctl, "--server", self.server, *arguments],
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, check=False)
        took = (time.monotonic() - began) * 1000
        if result.returncode != 0:
            self.check_alive()
            raise process.Failed(f"profctl {' '.join(arguments)} failed: "
                                 f"{result.stderr.decode(errors='replace').strip()}")
        return took, result.stdout

    def stop(self):
        process.stop(self.process)


def latency(values):
    return {"p50_ms": statistics.median(values), "p99_ms": stats.percentile(values, 0.99),
            "n": len(values)}


def fetch_latency(daemon, window_s, fetches):
    return latency([daemon.run_profctl("fetch", "--since", f"{window_s}s", "--format", "folded",
                                       "-o", "-")[0] for _ in range(fetches)])


def fetch_json(daemon, window, *arguments):
    return read(json.loads(daemon.run_profctl("fetch", "--since", window, *(arguments or ["--idle"]), "--format",
                                              "json", "-o", "-")[1]))


def drain_interval_s(status):
    """From one drain to the next; the governor makes it longer where threads are very many."""
    return next((source["level"] + 1 for source in status["governor"]["sources"]
                 if source["name"] == "drain"), 1)


def quiet_span(daemon, load, seconds):
    """CPU per second over about `seconds` in which nobody asks anything."""
    first, begun = daemon.status_after_drain()
    others = Others(daemon.pid, load.process.pid)
    cpu_before, cpu_from = process.task_cpu_ns(daemon.pid), time.monotonic()
    time.sleep(max(0.5, seconds - STATUS_POLL_S))
    daemon.check_alive()
    cpu, cpu_span = process.task_cpu_ns(daemon.pid) - cpu_before, time.monotonic() - cpu_from
    others_cpu = others.share()
    rss_quiet = process.rss_bytes(daemon.pid)
    last, ended = daemon.status_after_drain()
    span = ended - begun
    drains = max(1, round(span / drain_interval_s(last)))

    def rate(key):
        return (int(last["cost"][key]) - int(first["cost"][key])) / span

    return last, {
        "others_cpu": others_cpu, "disturbed": others_cpu > process.OTHERS_LIMIT,
        "rss_quiet_bytes": rss_quiet,
        "daemon_cpu": cpu / 1e9 / cpu_span, "tick_cpu": rate("tick_cpu_ns") / 1e9,
        "drain_cpu": rate("drain_cpu_ns") / 1e9, "drains": drains,
        "drain_ms": rate("drain_cpu_ns") * span / drains / 1e6,
        "in_path_ns_per_s": rate("in_path_ns"), "switches_per_s": rate("switches"),
        "in_force": in_force.reading(last),
    }


def measure(build, load_arguments, profd_arguments, *, settle_s, seconds, fetches,
            history=(), progress=None):
    """Everything about one load, as a flat dict of numbers in the units that keys end with.

    `history` are windows, in seconds, whose fetch latency is measured at the end; the call lasts
    until the longest of them is full.
    """
    with tempfile.TemporaryDirectory(prefix="profd-scale.", dir="/var/tmp") as directory:
        load = Load(build, directory, load_arguments)
        daemon = None
        done = None
        try:
            daemon = Daemon(build, directory, load.process.pid, profd_arguments)
            began = time.monotonic()
            time.sleep(settle_s)
            _, point = quiet_span(daemon, load, seconds)
            point["startup_s"] = daemon.startup_s
            # Deltas are taken whole, by their middle: this is the last full second and what
            # came after it.
            last_second = fetch_json(daemon, "1400ms")
            point["entries"] = len(last_second["samples"])
            point["fetch"] = fetch_latency(daemon, 10, fetches)
            point["status_call"] = latency([daemon.run_profctl("status")[0]
                                            for _ in range(fetches)])
            if history:
                wait = max(history) - (time.monotonic() - began)
                if progress and wait > 0:
                    progress(f"waiting {wait:.0f} s for history to fetch")
                time.sleep(max(0.0, wait))
                point["windows"] = [{"window_s": window,
                                     **fetch_latency(daemon, window, fetches)}
                                    for window in history]
            whole = fetch_json(daemon, f"{int(time.monotonic() - began) + 60}s")
            trailer, header = whole["trailer"], whole["header"]
            status = daemon.status()
            covered = (int(header["end_ns"]) - int(header["begin_ns"])) / 1e9
            point.update({
                "threads": int(status["threads"]), "modules": int(status["modules"]),
                "stacks": len(whole["stacks"]), "covered_s": covered,
                "ticks": int(trailer["ticks"]), "ticks_missed": int(trailer["ticks_missed"]),
                "walks": int(trailer["walks"]), "torn_walks": int(trailer["torn_walks"]),
                "complete_share": trailer["complete_share"],
                "losses": {loss.get("cause", loss.get("name", "?")): int(loss["count"])
                           for loss in status["losses"]},
                "rss_bytes": process.rss_bytes(daemon.pid),
                "rss_peak_bytes": process.rss_bytes(daemon.pid, peak=True),
                "kernel_map_bytes": int(status["memory"]["kernel_map_bytes"]),
                "store_bytes": int(status["memory"]["store_bytes"]),
            })
        finally:
            if daemon:
                daemon.stop()
            try:
                done = load.stop()
            except process.Failed:
                pass
        if done is None:
            raise process.Failed("bench_load ended before it was asked to: "
                                 + process.read_text(load.log).strip())
        point["load"] = done
        return point


def fields(point):
    """What the line of a point says of it, from measure()."""
    one = {name: point[name] for name in (
        "x", "disturbed", "threads", "modules", "stacks", "entries", "daemon_cpu", "tick_cpu",
        "drain_cpu", "drain_ms", "switches_per_s", "startup_s", "ticks", "ticks_missed", "walks",
        "torn_walks", "complete_share") if name in point}
    one["in_path_cpu"] = point["in_path_ns_per_s"] / 1e9
    for name, key in (("rss_mib", "rss_peak_bytes"), ("rss_quiet_mib", "rss_quiet_bytes"),
                      ("maps_mib", "kernel_map_bytes"), ("store_mib", "store_bytes")):
        one[name] = point[key] / MIB
    one["fetch_p50_ms"], one["fetch_p99_ms"] = point["fetch"]["p50_ms"], point["fetch"]["p99_ms"]
    one["status_p50_ms"] = point["status_call"]["p50_ms"]
    one["losses"] = {cause: count for cause, count in sorted(point["losses"].items()) if count}
    one.update(in_force.summary([point["in_force"]]))
    return one
