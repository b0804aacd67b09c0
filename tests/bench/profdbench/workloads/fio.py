"""fio: random reads of 4 KiB."""

import os
import re
import shutil
import signal
import time

from profdbench import process
from profdbench.process import Failed, Unavailable
from profdbench.workloads.base import Lasting

MIB = 1024 * 1024


class Fio(Lasting):
    """Reads are counted by the kernel, in the process's own I/O account. fio tells of no single
    request while it runs, so there are no latencies."""

    name = "fio"
    about = "fio 4k random read, psync, 4 threads"
    unit = "read/s"
    setup_seconds = 8
    file_mib = 512
    jobs = 4

    def open(self):
        self.client = None
        if not shutil.which("fio"):
            raise Unavailable("fio is not installed")
        data = self.path("data")
        block = os.urandom(MIB)
        with open(data, "wb") as file:
            for _ in range(self.file_mib):
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.close(os.open(data, os.O_RDONLY | os.O_DIRECT))
            access = ["--direct=1"]
        except OSError:
            # Without O_DIRECT, what was read is dropped again so that reads reach the device.
            access = ["--direct=0", "--invalidate=1", "--fadvise_hint=random"]
            self.about += ", buffered"
        with open(self.path("log"), "wb") as output:
            self.client = process.spawn(
                ["fio", "--name=read", f"--filename={data}", f"--size={self.file_mib}m",
                 "--rw=randread", "--bs=4k", "--ioengine=psync", "--thread",
                 f"--numjobs={self.jobs}", "--time_based", "--runtime=1000000", "--norandommap",
                 "--randrepeat=1", "--group_reporting", *access], stdout=output,
                stderr=output, cwd=self.directory)
        deadline = time.monotonic() + 20
        while len(os.listdir(f"/proc/{self.client.pid}/task")) <= self.jobs:
            if self.client.poll() is not None or time.monotonic() > deadline:
                raise Failed("fio did not start:\n" + process.read_text(self.path("log")))
            time.sleep(0.05)
        time.sleep(3)

    def pids(self):
        return [self.client.pid]

    def mark(self):
        text = process.read_text(f"/proc/{self.client.pid}/io")
        read = int(re.search(r"^rchar: (\d+)", text, re.MULTILINE).group(1))
        return time.monotonic(), read / 4096

    def wait(self, seconds):
        time.sleep(seconds)
        return []

    def collect(self, tokens):
        if self.client.poll() is not None:
            raise Failed("fio ended:\n" + process.read_text(self.path("log")))
        return super().collect(tokens)

    def close(self):
        process.stop(getattr(self, "client", None), signal.SIGKILL)
