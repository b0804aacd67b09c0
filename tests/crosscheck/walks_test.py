#!/usr/bin/env python3
"""Stacks of stopped threads, frame by frame, beside `eu-stack` of elfutils: PostgreSQL, redis, Python, Node.js, rustc, the
stand-in, and threads that are each deeper in their stack than the last.

usage: walks_test.py BUILD [PROGRAM...], as root. Each program runs under load, and is stopped (SIGSTOP) wherever it is. Then
profd's samples of its threads are compared with what eu-stack says of them: the code of each frame, and the name of its
function. Prints a table for docs/accuracy.md.

eu-stack has no rules for code that is made at run time: where it ends with an error, the frames before are compared.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests/bench")]

# pylint: disable=wrong-import-position
from profdbench import process
from tests.crosscheck import names_test
from tests.crosscheck.functions import Functions, is_one_of
from tests.harness.daemon import Daemon, Host

SETTLE_SECONDS = 3
STOPPED_SECONDS = 2
# All programs together.
LEAST_THREADS = 250
SLEEPERS = 170  # the deepest stacks are within profd's limit
SHOWN_FRAMES = 12
THREAD = re.compile(r"^TID (\d+):")
FRAME = re.compile(r"^#\d+\s+0x([0-9a-f]+)(?: (\S.*?))?\s*$")


class Waiting:
    """A program of tests/targets that says that it is ready, and then waits for a line."""

    def __init__(self, argv, folder):
        self.child = process.spawn([str(word) for word in argv], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, cwd=folder)

    def __enter__(self):
        self.child.stdout.readline()
        self.child.stdin.write(b"go\n")
        self.child.stdin.flush()
        return self.child.pid

    def __exit__(self, *_):
        process.stop(self.child)


def programs(build):
    start = {title: run for title, (_, run) in names_test.PROGRAMS.items() if title != "node"}
    start["threads of growing depth"] = lambda folder: Waiting([build / "strain", "sleepers", SLEEPERS], folder)
    if (build / "standin").exists():
        start["stand-in for a node, in Rust"] = lambda folder: Waiting([build / "standin", "node", folder], folder)
    return start


def tree(pid):
    """A process and all that it started."""
    pids = [pid]
    for each in pids:
        for task in Path(f"/proc/{each}/task").glob("*/children"):
            with suppress(FileNotFoundError, ProcessLookupError):  # it ended meanwhile
                pids += [int(child) for child in task.read_text().split()]
    return pids


def send(number, pids):
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def stop(pids):
    """Stops processes that may fork meanwhile; the PIDs of all."""
    while True:
        send(signal.SIGSTOP, pids)
        time.sleep(0.1)
        every = tree(pids[0])
        if set(every) <= set(pids):
            return every
        pids = every


class Memory:
    """Which file is where in a process."""

    def __init__(self, pid):
        self.mappings = []
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            words = line.split(maxsplit=5)
            begin, end = (int(word, 16) for word in words[0].split("-"))
            self.mappings.append((begin, end, int(words[2], 16), words[5] if len(words) > 5 else ""))

    def place(self, address):
        return next(((path, offset + address - begin) for begin, end, offset, path in self.mappings
                     if begin <= address < end), ("", address))


@dataclass
class Reference:
    """The stack of a thread, as eu-stack has it."""
    frames: list = field(default_factory=list)  # (path, offset, name or ""), innermost first
    cut: bool = False  # eu-stack ended with an error


def references(pid):
    """{tid: Reference}"""
    memory, found, thread = Memory(pid), {}, None
    done = subprocess.run(["eu-stack", "-r", "-n", "0", "-p", str(pid)], capture_output=True, text=True, check=False,
                          timeout=120, errors="replace")
    for line in done.stdout.splitlines():
        if match := THREAD.match(line):
            thread = found.setdefault(int(match[1]), Reference())
        elif match := FRAME.match(line):
            thread.frames.append((*memory.place(int(match[1], 16)), (match[2] or "").split("@")[0]))
    for line in done.stderr.splitlines():
        if match := re.search(r"tid (\d+)", line):
            found.setdefault(int(match[1]), Reference()).cut = True
    return found


@dataclass
class Result:
    threads: int = 0
    frames: int = 0
    cut: int = 0
    named: int = 0
    failures: list = field(default_factory=list)


def describe(frames, at=0):
    """The frames around one."""
    shown = frames[max(at - SHOWN_FRAMES // 2, 0):][:SHOWN_FRAMES]
    return " < ".join(f"{Path(path).name}+{offset:x}({name})" for path, offset, name in shown)


def compare(title, stack, reference, functions, result):
    ours = [frame for frame in stack.frames if frame["kind"] not in ("kernel", "synthetic")]
    theirs = reference.frames
    result.threads += 1
    result.cut += reference.cut
    said = [(frame["module"], frame["address"], frame["function"]) for frame in ours]
    if len(ours) < len(theirs) or (len(ours) != len(theirs) and not reference.cut):
        result.failures.append(f"{title}: {len(ours)} frames, eu-stack has {len(theirs)}:\n  {describe(said)}\n  {describe(theirs)}")
        return
    for at, (frame, (path, offset, name)) in enumerate(zip(ours, theirs)):
        result.frames += 1
        if path and (Path(frame["module"]).name, frame["address"]) != (Path(path).name, offset):
            result.failures.append(f"{title}: frame {at} differs:\n  {describe(said, at)}\n  {describe(theirs, at)}")
            return
        if not name or frame["found_by"] not in ("symbols", "dynamic_symbols", "debug_file"):
            continue
        result.named += 1
        symbols = {name, *functions.in_file(path, offset - (0 if frame.get("exact") else 1)).names}
        others = frame.get("other_names", [])
        if not is_one_of(frame["function"], symbols) and not any(is_one_of(other, symbols) for other in others):
            result.failures.append(f"{title}: {Path(path).name}+{offset:x} is {frame['function']}, eu-stack says {name}")


def watch(place, title, start, functions):
    folder = Path(tempfile.mkdtemp(prefix="profd-walks."))
    folder.chmod(0o755)
    result = Result()
    try:
        with start(folder) as pid:
            daemon = Daemon(place, ["--budget", "off"], [pid])
            try:
                time.sleep(SETTLE_SECONDS)
                pids = tree(pid)
                try:
                    pids = stop(pids)
                    time.sleep(STOPPED_SECONDS)
                    answer = daemon.fetch("--kind", "offcpu", "--idle", "--no-inlines", "--since", "1s")
                    for each in pids:
                        known = references(each)
                        for thread in answer.threads:
                            stacks = [sample.stack for sample in answer.samples_of(thread, "stopped") if sample.stack]
                            if thread["pid"] == each and thread["tid"] in known and stacks:
                                compare(f"{title}, {thread['name']}", stacks[0], known[thread["tid"]], functions, result)
                                if len(stacks) > 1:
                                    result.failures.append(f"{title}, {thread['name']}: {len(stacks)} stacks of a stopped thread")
                finally:
                    send(signal.SIGCONT, tree(pid))
            finally:
                daemon.stop()
                daemon.kill()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return result


def main():
    if os.geteuid() != 0:
        print("skipped: root: kernel programs take privilege to load")
        return 77
    place, functions, failures, total = Host(sys.argv[1]), Functions(), [], Counter()
    print("| program | threads | frames | ended early in eu-stack | names compared | differences |\n|---|--:|--:|--:|--:|--:|",
          flush=True)
    try:
        every = programs(Path(sys.argv[1]).resolve())
        for title in sys.argv[2:] or every:
            result = watch(place, title, every[title], functions)
            print(f"| {title} | {result.threads} | {result.frames} | {result.cut} | {result.named} | {len(result.failures)} |",
                  flush=True)
            failures += result.failures
            total["threads"] += result.threads
            if not result.threads:
                failures.append(f"{title}: no thread was compared")
    finally:
        place.close()
    if not sys.argv[2:] and total["threads"] < LEAST_THREADS:
        failures.append(f"{total['threads']} threads were compared, should be {LEAST_THREADS} at least")
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
