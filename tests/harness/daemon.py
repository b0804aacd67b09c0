"""A profd under test, and profctl as its client, on this machine or in containers."""

import json
import os
import shutil
import signal
import tempfile
import threading
import time
from pathlib import Path

from .answer import Answer, readable
from .process import Gone, Process, run

# How much longer than usual anything may take, where the machine is emulated. Only limits grow by it.
SLOWNESS = float(os.environ.get("PROFD_TEST_SLOWNESS", "1"))
READY_SECONDS = 120 * SLOWNESS
# The kernel lets go of a probe after a grace period, which takes seconds where CPUs are overloaded.
STOP_SECONDS = 240 * SLOWNESS
LEAST_PATIENCE_SECONDS = 60
POLL_SECONDS = 0.1


class Host:
    """Programs of the build tree, run as they are."""

    def __init__(self, build):
        self.build = Path(build).resolve()
        self._folder = Path(tempfile.mkdtemp(prefix="profd-scenario."))
        self._sockets = 0

    def close(self):
        shutil.rmtree(self._folder, ignore_errors=True)

    def program(self, name):
        path = self.build / name
        return str(path) if path.exists() else name

    def target(self, argv, environment):
        return Process([self.program(argv[0]), *[self.word(word) for word in argv[1:]]], environment)

    def word(self, word):
        # {build} and {folder} are the build tree and a directory that may be written.
        return word.replace("{build}", str(self.build)).replace("{folder}", str(self._folder))

    def new_address(self):
        self._sockets += 1
        return f"unix://{self._folder}/{self._sockets}.sock"

    def daemon_argv(self, address, options):
        return [self.program("profd"), "--listen", address, *options]

    def profctl_argv(self, address, arguments):
        return [self.program("profctl"), "--server", address, *arguments]


class Daemon:
    """Started by Start; `targets` are what --target takes."""

    def __init__(self, place, options, targets):
        self._place = place
        # profd answers four at a time and refuses a fifth.
        self._asking = threading.BoundedSemaphore(4)
        self.address = place.new_address()
        words = list(options)
        for target in targets:
            words += ["--target", str(target)]
        self.process = Process(place.daemon_argv(self.address, words))
        try:
            self.process.line_with("profd: attached", READY_SECONDS, "stderr")
        except Gone:
            self.process.kill()
            raise

    def profctl(self, *arguments, timeout=120 * SLOWNESS):
        with self._asking:
            return run(self._place.profctl_argv(self.address, list(arguments)), timeout)

    def json(self, *arguments):
        code, out, err = self.profctl(*arguments, "--format", "json")
        if code != 0:
            raise Gone(f"profctl {' '.join(arguments)} failed: {err.strip()}")
        return readable(json.loads(out))

    def status(self):
        return self.json("status")

    def fetch(self, *arguments):
        return Answer(self.json("fetch", *arguments, "-o", "-"))

    def stop(self):
        """SIGTERM. What is wrong with its end, or "" """
        self.process.signal(signal.SIGTERM)
        code = self.process.end(STOP_SECONDS)
        if code is None:
            places = self.process.places()
            self.process.kill()
            return f"profd had not ended {STOP_SECONDS:.0f} s after SIGTERM\n{places}\n{self.process.said()}"
        if code != 0:
            return f"profd ended with {code} after SIGTERM\n{self.process.said()}"
        return ""

    def kill(self):
        self.process.kill()


def eventually(seconds, attempt, pause=POLL_SECONDS):
    """Calls `attempt` until it gives something true, which is returned; the last thing otherwise.

    Once if `seconds` is 0; else for a minute at least: a busy machine may starve us for many seconds. Waits as long as an attempt took, at least: attempts take half of a slow CPU at most."""
    if seconds:
        seconds = max(seconds, LEAST_PATIENCE_SECONDS)
    deadline = time.monotonic() + seconds * SLOWNESS
    while True:
        began = time.monotonic()
        result = attempt()
        now = time.monotonic()
        if result or now > deadline:
            return result
        time.sleep(max(pause, now - began))


def instant(ns):
    """As profctl takes it: seconds since 1970 with all nine digits."""
    return f"{ns // 1_000_000_000}.{ns % 1_000_000_000:09d}"
