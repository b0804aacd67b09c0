#!/usr/bin/env python3
"""profctl top in a real terminal, used as a person would: tmux types the keys and reads the screen.

usage: top_test.py BUILD, as root.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

# pylint: disable=wrong-import-position
from tests.harness.daemon import READY_SECONDS, SLOWNESS, Host
from tests.harness.process import Process

WAIT_SECONDS = 30 * SLOWNESS
POLL_SECONDS = 0.05
SETTLE_SECONDS = 0.03
build = "build/tests"
# Escape sequences, a carriage return, wide and combining characters, and bytes that are not UTF-8.
HOSTILE = """
import ctypes, threading
libc = ctypes.CDLL(None)
def sleep(name):
    libc.prctl(15, name)
    threading.Event().wait()
for name in (b"\\x1b[2J\\x1b[Hgone", b"a\\rb\\nc\\x07", "\\u8868\\u793a\\u8868".encode(), b"\\xff\\xfe\\x80odd"):
    threading.Thread(target=sleep, args=(name,), daemon=True).start()
print("ready", flush=True)
threading.Event().wait()
"""
COLOURS = re.compile(r"\x1b\[[0-9;]*3[1-7]m")


class Terminal:
    """A terminal of its own, in which one command runs; then it shows the command's exit status."""

    def __init__(self, argv, columns=100, rows=30, environment=None):
        self._folder = tempfile.TemporaryDirectory(prefix="profd-terminal.")
        words = " ".join(f"{name}={shlex.quote(value)}" for name, value in
                         {"LC_ALL": "C.UTF-8", "NO_COLOR": "", **(environment or {})}.items())
        command = f"{words} {shlex.join(argv)}; echo exit status $?; exec cat"
        self.tmux("new-session", "-d", "-x", columns, "-y", rows, command)

    def tmux(self, *words):
        argv = ["tmux", "-u", "-f", "/dev/null", "-S", f"{self._folder.name}/socket", *map(str, words)]
        return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True,
                              timeout=WAIT_SECONDS).stdout

    def close(self):
        self.tmux("kill-server")
        self._folder.cleanup()

    def type(self, text):
        self.tmux("send-keys", "-l", text)

    def press(self, *keys):
        self.tmux("send-keys", *keys)

    def resize(self, columns, rows):
        self.tmux("resize-window", "-x", columns, "-y", rows)

    def screen(self, *options):
        """What is shown. While it is drawn, a part of it may be there: it must be the same a moment later."""
        deadline = time.monotonic() + WAIT_SECONDS
        shown = None
        while True:
            before, shown = shown, self.tmux("capture-pane", "-p", *options).rstrip("\n")
            if shown == before or time.monotonic() > deadline:
                return shown
            time.sleep(SETTLE_SECONDS)

    def until(self, holds, *options):
        """The first screen for which `holds`, a function or a text that it must show."""
        if isinstance(holds, str):
            text = holds
            holds = lambda shown: text in shown  # noqa: E731
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            shown = self.screen(*options)
            if holds(shown):
                return shown
            if time.monotonic() > deadline:
                raise AssertionError(f"the screen does not become what is expected:\n{shown}")
            time.sleep(POLL_SECONDS)


class TopTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.host = Host(build)
        cls.addClassCleanup(cls.host.close)
        cls.target = cls.host.target(["waiter", "now"], {})
        cls.addClassCleanup(cls.target.kill)
        cls.target.line_with("ready", READY_SECONDS)
        cls.target.write("go\n")
        cls.target.line_with("now {", READY_SECONDS)
        cls.hostile = Process([sys.executable, "-c", HOSTILE])
        cls.addClassCleanup(cls.hostile.kill)
        cls.hostile.line_with("ready", READY_SECONDS)
        cls.address = cls.host.new_address()
        cls.start_daemon()
        cls.addClassCleanup(lambda: cls.daemon.kill())

    @classmethod
    def start_daemon(cls):
        cls.daemon = Process(cls.host.daemon_argv(
            cls.address, ["--target", str(cls.target.pid), "--target", str(cls.hostile.pid)]))
        cls.daemon.line_with("profd: attached", READY_SECONDS, "stderr")

    def top(self, *arguments, **options):
        terminal = Terminal(self.host.profctl_argv(
            self.address, ["top", "--interval", "500ms", *arguments]), **options)
        self.addCleanup(terminal.close)
        return terminal

    def waiters(self, *arguments, **options):
        return self.top("--target", str(self.target.pid), *arguments, **options)

    def test_rows_filter_details_and_quit(self):
        terminal = self.waiters()
        shown = terminal.until(lambda shown: "11 threads: " in shown and " lock " in shown)
        for name in ("holder", "reader", "waiter-1", "waiter-2", "waiter-3", "runner"):
            self.assertRegex(shown, rf"(?m)^  {name} \(\d+\) ", shown)
        self.assertRegex(shown, r"waiter-2 \(\d+\).* 100\.0% .* lock .* waiter::now::TakeForGood")
        # The runner comes first by CPU time, and last in the other direction.
        self.assertRegex(shown, r"(?m)^  thread .*\n  runner ")
        terminal.press("r")
        terminal.until(lambda shown: re.search(r"(?m)^  runner .*\n\n", shown + "\n\n"))
        terminal.press("r")
        terminal.type("/^waiter-")
        shown = terminal.until("Filter: ^waiter-")
        terminal.press("Enter")
        shown = terminal.until("filter '^waiter-': 8 hidden")
        self.assertEqual(len(re.findall(r"(?m)^  waiter-\d", shown)), 3, shown)
        self.assertNotIn("runner", shown)
        terminal.press("Enter")
        shown = terminal.until("pthread_mutex_lock")
        self.assertIn("waiter::now::TakeForGood", shown)
        self.assertRegex(shown, r"(?m)^lock for [\d.]+ (s|min), futex 0x")
        self.assertRegex(shown, r"(?m)^  lock +\S+ ms +100\.0%")
        terminal.press("Escape")
        terminal.until("filter '^waiter-'")
        terminal.press("Escape")
        terminal.until(lambda shown: "runner" in shown and "filter '" not in shown)
        terminal.press("q")
        shown = terminal.until("exit status")
        self.assertIn("exit status 0", shown)
        self.assertNotIn("waiter-1", shown)  # the screen is as before

    def test_groups_pause_and_help(self):
        terminal = self.waiters("--by", "name", "--sort", "now")
        shown = terminal.until("by name, sorted by now")
        # With the main thread, which waits for a line.
        self.assertRegex(shown, r"(?m)^  waiter +4 .* 3 lock, 1 pipe ")
        self.assertRegex(shown, r"(?m)^  sleeper +4 .* idle ")
        terminal.press("g", "g")
        shown = terminal.until("by reason")
        self.assertRegex(shown, r"(?m)^  lock +3 ")
        terminal.press("i")
        shown = terminal.until("5 idle hidden")
        terminal.press("Space")
        shown = terminal.until("PAUSED")
        self.assertEqual(terminal.screen(), shown)
        terminal.press("Space", "?")
        terminal.until("Keys and columns of profctl top")
        terminal.press("Escape")
        terminal.until("by reason")

    def test_every_size(self):
        terminal = self.waiters()
        terminal.until("11 threads: ")
        for columns, rows in ((40, 10), (20, 3), (200, 60), (10, 40), (80, 24)):
            terminal.resize(columns, rows)
            shown = terminal.until(lambda shown: re.search(
                r"(?m)^\s*(runner|run)", shown) and all(len(line) <= columns for line in shown.splitlines()))
            self.assertLessEqual(len(shown.splitlines()), rows)
            # The last line of a screen that is not low has the keys, wherever that is.
            if rows >= 10:
                self.assertTrue(terminal.until(lambda shown: shown.splitlines()[-1].startswith("q quit"
                                                                                               [:columns].rstrip())))
                self.assertEqual(len(terminal.screen().splitlines()), rows)

    def test_hostile_names(self):
        for environment, wide in (({}, "表示表"), ({"LC_ALL": "C"}, "??????")):
            terminal = self.top("--target", str(self.hostile.pid), environment=environment)
            # The heading may be there before the rows.
            shown = terminal.until(lambda shown: "5 threads: " in shown and
                                   len(re.findall(r"(?m)^  .*\(\d+\) +\S+%", shown)) == 5)
            self.assertRegex(shown, r"(?m)^  \?\[2J\?\[Hgone \(\d+\) +")
            self.assertRegex(shown, r"(?m)^  a\?b\?c\? \(\d+\) +")
            self.assertRegex(shown, rf"(?m)^  {re.escape(wide)} \(\d+\) +")
            # All columns are where the headings say; a wide character is one of Python's, but two cells.
            ends = {len(line.replace("表", "xx").replace("示", "xx").split("%")[0])
                    for line in shown.splitlines() if re.search(r"\(\d+\) +\S+%", line)}
            self.assertEqual(len(ends), 1, shown)

    def test_colours(self):
        self.assertRegex(self.waiters().until("runner", "-e"), COLOURS)
        shown = self.waiters(environment={"NO_COLOR": "1"}).until("runner", "-e")
        self.assertNotRegex(shown, COLOURS)

    def test_daemon_comes_back(self):
        terminal = self.waiters()
        terminal.until("11 threads: ")
        self.daemon.kill()
        try:
            shown = terminal.until("No answer, trying again")
        finally:
            self.start_daemon()
        self.assertIn(self.address, shown)
        self.assertIn("runner", shown)  # what was known
        terminal.until(lambda shown: "11 threads: " in shown and "No answer" not in shown)

    def test_a_daemon_that_hangs(self):
        terminal = self.waiters()
        terminal.until("11 threads: ")
        os.kill(self.daemon.pid, signal.SIGSTOP)
        try:
            terminal.until("Waiting for profd at")
            terminal.press("q")
            terminal.until("exit status 0")
        finally:
            os.kill(self.daemon.pid, signal.SIGCONT)

    def test_batch(self):
        argv = self.host.profctl_argv(self.address, ["top", "--target", str(self.target.pid)])
        done = subprocess.run([*argv, "--rounds", "2", "--interval", "200ms"], capture_output=True, text=True,
                              check=True, timeout=WAIT_SECONDS, stdin=subprocess.DEVNULL)
        self.assertEqual(done.stdout.count("11 threads: "), 2)
        self.assertNotIn("\x1b", done.stdout)
        terminal = self.waiters("--once")
        self.assertIn("runner", terminal.until("exit status 0"))

    def test_unknown_terminal(self):
        shown = self.waiters(environment={"TERM": "no-such-terminal"}).until("exit status 1")
        self.assertIn("cannot use a terminal of type 'no-such-terminal'", shown)


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        build = sys.argv.pop(1)
    unittest.main(verbosity=2)
