"""redis under redis-benchmark."""

import os
import re
import shutil
import signal
import socket
import subprocess
import time

from profdbench import process
from profdbench.process import Failed, Unavailable
from profdbench.workloads.base import Lasting


class Redis(Lasting):
    """SET, 16 in a pipeline.

    Work is counted by the server (total_commands_processed of INFO), asked at the ends of a slice,
    which takes a fraction of a millisecond. redis-benchmark tells of no single request, so the
    latencies are those of a connection of ours beside its 50: a SET every 2 ms, alone in its
    pipeline, which waits for its turn like any client's. These few are counted as work as well.
    """

    name = "redis"
    about = "redis-benchmark -t set -P 16, 50 connections"
    unit = "op/s"
    requests = "single SETs, one every 2 ms, beside the load"
    setup_seconds = 4
    # The probes in its allocator take a tenth of a second to be gone, and to be back.
    guard_seconds = 0.15
    can_launch = True
    restart_seconds = 5
    probe_seconds = 0.002

    def open(self):
        self.server = self.client = self.connection = self.pid = None
        for program in ("redis-server", "redis-benchmark"):
            if not shutil.which(program):
                raise Unavailable(f"{program} is not installed")
        address = self.path("socket")
        with open(self.path("log"), "wb") as output:
            self.server = self.launch(
                ["redis-server", "--port", "0", "--unixsocket", address, "--save", "",
                 "--appendonly", "no", "--dir", self.directory], stdout=output, stderr=output)
        deadline = time.monotonic() + 20
        while self.connection is None:
            connection = socket.socket(socket.AF_UNIX)
            try:
                connection.settimeout(30)
                connection.connect(address)
                self.connection = connection
            except OSError:
                connection.close()
                if self.server.poll() is not None or time.monotonic() > deadline:
                    raise Failed("redis-server did not start:\n" +
                                 process.read_text(self.path("log"))) from None
                time.sleep(0.05)
        # Not that of a tool that started it.
        self.pid = self._ask("server", "process_id")
        self.client = process.spawn(
            ["redis-benchmark", "-s", address, "-t", "set", "-P", "16", "-n", "2000000000", "-l",
             "-q"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(3)

    def pids(self):
        return [self.pid]

    def _receive(self, until):
        answer = b""
        while not until(answer):
            part = self.connection.recv(65536)
            if not part:
                raise Failed("redis-server closed the connection")
            answer += part
        return answer

    def _ask(self, section, name):
        """A number of INFO."""
        wanted = f"{name}:".encode()
        self.connection.sendall(f"INFO {section}\r\n".encode())
        answer = self._receive(lambda text: wanted in text and text.endswith(b"\r\n"))
        return int(re.search(wanted + rb"(\d+)", answer).group(1))

    def mark(self):
        before = time.monotonic()
        commands = self._ask("stats", "total_commands_processed")
        # The middle of the question.
        return (before + time.monotonic()) / 2, commands

    def wait(self, seconds):
        end = time.monotonic() + seconds
        latencies = []
        while (now := time.monotonic()) < end:
            self.connection.sendall(b"SET profd-bench-probe x\r\n")
            self._receive(lambda text: text.endswith(b"\r\n"))
            latencies.append((time.monotonic() - now) * 1e6)
            time.sleep(max(0.0, min(end, now + self.probe_seconds) - time.monotonic()))
        return latencies

    def collect(self, tokens):
        if self.client.poll() is not None:
            raise Failed("redis-benchmark ended by itself")
        return super().collect(tokens)

    def close(self):
        process.stop(getattr(self, "client", None), signal.SIGKILL)
        if getattr(self, "connection", None):
            self.connection.close()
        server = getattr(self, "server", None)
        if server and server.poll() is None and self.pid and self.pid != server.pid:
            # A tool that started it ends after it, with what it recorded.
            try:
                os.kill(self.pid, signal.SIGTERM)
                server.wait(60)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                pass
        process.stop(server)
        self.client = self.connection = self.server = None

    def program(self):
        return shutil.which("redis-server")

    def restart(self):
        self.close()
        self.open()

    def finish(self):
        self.close()
        return process.read_text(self.path("log"))
