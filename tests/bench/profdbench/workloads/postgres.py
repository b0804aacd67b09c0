"""pgbench against a PostgreSQL cluster of its own, on a Unix socket."""

import bisect
import os
import shutil
import signal
import subprocess
import time

from profdbench import process
from profdbench.process import Failed, Unavailable
from profdbench.stats import Work
from profdbench.workloads.base import Lasting, descendants


def postgres_bin():
    """The folder of the newest PostgreSQL that is installed with its server."""
    base = "/usr/lib/postgresql"
    versions = [version for version in (os.listdir(base) if os.path.isdir(base) else [])
                if version.isdigit() and all(
                    os.access(os.path.join(base, version, "bin", program), os.X_OK)
                    for program in ("initdb", "pg_ctl", "pgbench"))]
    if not versions:
        raise Unavailable("PostgreSQL is not installed")
    return os.path.join(base, max(versions, key=int), "bin")


class Pgbench(Lasting):
    """Select-only transactions, counted in pgbench's own log (-l).

    A line of it has the instant at which a transaction ended and how long it took, so a slice is
    exact to a transaction, and the latencies are those of the same transactions. Of many, pgbench
    logs a random part (--sampling-rate). pg_stat_database would not do: a backend reports there
    once a second, when it suits it.
    """

    name = "pgbench"
    about = "pgbench -S -c 8, scale 10, in memory"
    unit = "tps"
    requests = "transactions, from pgbench's log"
    comm = "postgres"
    setup_seconds = 12
    late_seconds = 0.5  # pgbench's log is written in pieces of 4 KiB
    client_options = ["-S"]
    server_options = ["fsync=off"]
    logged = 0.25

    def open(self):
        self.running, self.client = False, None
        self.bin = postgres_bin()
        shutil.chown(self.directory, "postgres", "postgres")
        self.data = self.path("data")
        self.connection = ["-h", self.directory, "-U", "postgres"]
        self._as_postgres("initdb", "-A", "trust", "-E", "UTF8", "--locale=C", "-D", self.data)
        settings = ["listen_addresses=''", "shared_buffers=512MB", "autovacuum=off",
                    "max_connections=50", "checkpoint_timeout=1d", "max_wal_size=16GB",
                    *self.server_options]
        options = f"-k {self.directory} " + " ".join(f"-c {setting}" for setting in settings)
        self._as_postgres("pg_ctl", "-D", self.data, "-w", "-o", options,
                          "-l", self.path("log"), "start")
        self.running = True
        self.server = int(process.read_text(os.path.join(self.data, "postmaster.pid")).split()[0])
        self._client("pgbench", "-i", "-q", "-s", "10", "postgres")
        for command in ("vacuum analyze", "checkpoint"):
            self._client("psql", "-d", "postgres", "-c", command)
        self._start_client()

    def _start_client(self):
        self.said = self.path("pgbench")
        with open(self.said, "wb") as output:
            self.client = process.spawn(
                [os.path.join(self.bin, "pgbench"), *self.connection, "-n", "-c", "8",
                 *self.client_options, "-T", "1000000", "-l", f"--log-prefix={self.path('log')}",
                 f"--sampling-rate={self.logged}", "postgres"],
                stdout=output, stderr=subprocess.STDOUT)
        self.log, self.offset = f"{self.path('log')}.{self.client.pid}", 0
        deadline = time.monotonic() + 30
        while not os.path.exists(self.log):
            self._check_client()
            if time.monotonic() > deadline:
                raise Failed(f"pgbench did not start:\n{process.read_text(self.said)}")
            time.sleep(0.05)
        time.sleep(3)

    def _check_client(self):
        if self.client.poll() is not None:
            raise Failed(f"pgbench ended:\n{process.read_text(self.said)[-2000:]}")

    def _as_postgres(self, program, *arguments):
        process.output_of(["runuser", "-u", "postgres", "--", os.path.join(self.bin, program),
                           *arguments], cwd="/")

    def _client(self, program, *arguments):
        process.output_of([os.path.join(self.bin, program), *self.connection, *arguments])

    def pids(self):
        return descendants(self.server)

    def mark(self):
        return (time.time(),)

    def wait(self, seconds):
        time.sleep(seconds)
        return []

    def _read_log(self):
        """The whole lines that were written to the log since the last call."""
        size = os.path.getsize(self.log)
        with open(self.log, "rb") as log:
            log.seek(self.offset)
            text = log.read(size - self.offset)
        text = text[:text.rfind(b"\n") + 1]
        self.offset += len(text)
        process.punch_hole(self.log, self.offset)
        return text

    def collect(self, tokens):
        self._check_client()
        ends, took = parse_log(self._read_log())
        works = []
        for begin, end, cpu, _ in tokens:
            first, last = bisect.bisect_left(ends, begin[0]), bisect.bisect_left(ends, end[0])
            works.append(Work(end[0] - begin[0], (last - first) / self.logged, cpu,
                              took[first:last]))
        return works

    def close(self):
        process.stop(getattr(self, "client", None), signal.SIGKILL)
        if getattr(self, "running", False):
            self._as_postgres("pg_ctl", "-D", self.data, "-w", "-m", "immediate", "stop")
            self.running = False


def parse_log(text):
    """(instants in seconds, latencies in microseconds) of the transactions in a log of pgbench, by
    the instant at which they ended. A line has the client, the transaction's number, its latency,
    the script's number, and the second and microsecond of its end."""
    found = []
    for line in text.splitlines():
        fields = line.split()
        if len(fields) == 6 and fields[2].isdigit():
            found.append((int(fields[4]) + int(fields[5]) / 1e6, int(fields[2])))
    found.sort()
    return [end for end, _ in found], [took for _, took in found]


class PgbenchWrite(Pgbench):
    """The TPC-B-like transaction, with commits that wait for the disk."""

    name = "pgbench-write"
    about = "pgbench (TPC-B) -c 8, scale 10, fsync on"
    client_options = []
    server_options = []
    logged = 1.0
    late_seconds = 1.0
