"""Child processes whose output is read line by line, and that never outlive the run."""

import ctypes
import os
import queue
import signal
import subprocess
import threading
import time
from pathlib import Path

PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


class Gone(Exception):
    """A process ended, or said nothing in time."""


def _die_with_parent():
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Process:
    """A child with pipes for stdin, stdout and stderr, in a process group of its own."""

    def __init__(self, argv, environment=None, directory=None):
        self.argv = [str(word) for word in argv]
        # No preexec_fn where several threads start children would be safer, but a child that
        # outlives a killed run would spoil the next one.
        try:
            self._child = subprocess.Popen(
                self.argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                env={**os.environ, **(environment or {})}, cwd=directory, start_new_session=True,
                preexec_fn=_die_with_parent)
        except OSError as error:
            raise Gone(f"cannot start {self.argv[0]}: {error.strerror}") from None
        self._lines = queue.Queue()
        self._text = {"stdout": [], "stderr": []}
        self._readers = [threading.Thread(target=self._read, args=(name,), daemon=True)
                         for name in self._text]
        for reader in self._readers:
            reader.start()

    @property
    def pid(self):
        return self._child.pid

    def _read(self, name):
        with getattr(self._child, name) as stream:
            for raw in stream:
                line = raw.decode(errors="replace").rstrip("\n")
                self._text[name].append(line)
                self._lines.put((name, line))
        self._lines.put((name, None))

    def line(self, timeout, stream="stdout"):
        """The next line of a stream. Raises Gone at its end, or when none comes in time."""
        deadline = time.monotonic() + timeout
        while True:
            left = deadline - time.monotonic()
            try:
                name, line = self._lines.get(timeout=max(left, 0.001))
            except queue.Empty:
                raise Gone(f"{self.argv[0]} said nothing for {timeout:.0f} s\n{self.said()}") from None
            if name != stream:
                continue
            if line is None:
                # What it said on the other stream may not have been read yet.
                for reader in self._readers:
                    reader.join(1)
                raise self._gone()
            return line

    def line_with(self, text, timeout, stream="stdout"):
        deadline = time.monotonic() + timeout
        while True:
            line = self.line(max(deadline - time.monotonic(), 0.001), stream)
            if text in line:
                return line

    def write(self, text):
        try:
            self._child.stdin.write(text.encode())
            self._child.stdin.flush()
        except BrokenPipeError:
            raise self._gone() from None

    def _gone(self):
        try:
            code = self._child.wait(5)
        except subprocess.TimeoutExpired:
            how = "closed its output"
        else:
            how = f"ended with {code}" if code >= 0 else f"was ended by {signal.Signals(-code).name}"
        return Gone(f"{self.argv[0]} {how}\n{self.said()}".rstrip())

    def signal(self, number):
        self._child.send_signal(number)

    def end(self, timeout=60):
        """Closes stdin and waits. The exit code, negative for a signal; None when it goes on."""
        try:
            self._child.stdin.close()
        except BrokenPipeError:
            pass
        try:
            code = self._child.wait(timeout)
        except subprocess.TimeoutExpired:
            return None
        for reader in self._readers:
            reader.join(5)
        return code

    def running(self):
        return self._child.poll() is None

    def places(self):
        """Where each of its threads is in the kernel, a line each; for what does not end in time."""
        lines = []
        for task in sorted(Path(f"/proc/{self.pid}/task").glob("*")):
            try:
                calls = [line.split()[-1].partition("+")[0] for line in (task / "stack").read_text().splitlines()]
                lines.append(f"{(task / 'comm').read_text().strip()} ({task.name}): {' < '.join(calls) or 'running'}")
            except OSError:
                continue  # it ended, or may not be read
        return "\n".join(lines)

    def kill(self):
        try:
            os.killpg(self._child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._child.wait()

    def text(self, stream):
        return "\n".join(self._text[stream])

    def said(self, lines=40):
        return "\n".join(self._text["stderr"][-lines:])


def run(argv, timeout=60, environment=None, directory=None):
    """Runs a command to its end: (exit code, stdout, stderr). Raises Gone when it takes longer."""
    try:
        done = subprocess.run([str(word) for word in argv], stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=timeout, env={**os.environ, **(environment or {})},
                              cwd=directory, check=False)
    except subprocess.TimeoutExpired:
        raise Gone(f"{' '.join(map(str, argv))} took longer than {timeout} s") from None
    return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
