#!/usr/bin/env python3
"""Real programs under load, as their distribution ships them: which share of a profile has frames without a function.

usage: names_test.py BUILD [PROGRAM...], as root. Prints a table for docs/accuracy.md. Fails if more than LIMIT of a profile is
in stacks that have a frame without a function: its place in a module is all that is known, or not even that.
"""

import collections
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests/bench")]

# pylint: disable=wrong-import-position
from profdbench import process
from profdbench.workloads.postgres import Pgbench
from profdbench.workloads.redis import Redis
from profdbench.workloads.rust_source import rust_source
from tests.harness.daemon import Daemon, Host

LIMIT = 0.01
SECONDS = 20
KINDS = {"offcpu": ["--idle"], "cpu": [], "alloc": []}
# Fewer samples say nothing about a share of 1 %.
LEAST_SAMPLES = 100

PYTHON = """
import collections, hashlib, json, queue, re, threading, time

def work(number):
    text = json.dumps({str(i): [i * number, {'name': 'x' * (i % 17)}] for i in range(300)})
    words = collections.Counter(re.findall('[a-z]+|[0-9]+', text))
    hashlib.sha256(text.encode() * 20).hexdigest()
    return sorted(words.items(), key=lambda item: (item[1], item[0]))[:10]

def serve(jobs, lock):
    while True:
        number = jobs.get()
        with lock:
            time.sleep(0.001)
        work(number)

jobs, lock = queue.Queue(8), threading.Lock()
for _ in range(3):
    threading.Thread(target=serve, args=(jobs, lock), daemon=True).start()
number = 0
while True:
    number += 1
    jobs.put(number)
    time.sleep(0.002)
"""

NODE = """
'use strict';
const crypto = require('crypto');
const fs = require('fs');
const zlib = require('zlib');

function fibonacci(n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

class Row {
  constructor(i) { this.id = i; this.name = `row-${i % 13}`; this.values = [i, i * 2, i * 3]; }
  get weight() { return this.values.reduce((a, b) => a + b, 0); }
}

function table() {
  const rows = Array.from({length: 2000}, (_, i) => new Row(i));
  const groups = new Map();
  for (const row of rows) groups.set(row.name, (groups.get(row.name) || 0) + row.weight);
  return JSON.parse(JSON.stringify(rows)).length + [...groups.keys()].sort().join('').replace(/row/g, 'r').length;
}

async function turn() {
  fibonacci(18);
  const text = await fs.promises.readFile(__filename, 'utf8');
  await new Promise((done) => zlib.gzip(text.repeat(20), done));
  await new Promise((done) => crypto.pbkdf2(text, 'salt', 2000, 32, 'sha256', done));
  table();
  setTimeout(turn, 2);
}
turn();
setInterval(() => Buffer.alloc(1 << 16, 7).toString('base64'), 5);
"""


@contextmanager
def running(*argv, **options):
    child = process.spawn([str(word) for word in argv], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
    try:
        yield child.pid
    finally:
        process.stop(child)


@contextmanager
def served(workload, folder):
    with workload(str(folder)) as open_one:
        yield open_one.pids()[0]


def script_file(folder, name, text):
    path = folder / name
    path.write_text(text)
    return path


def python(folder):
    # Not another one that comes first in PATH.
    return running("/usr/bin/python3", script_file(folder, "load.py", PYTHON))


def node(folder, *options):
    return running("node", *options, script_file(folder, "load.js", NODE), cwd=folder)


@contextmanager
def rustc(folder):
    """One compilation after another."""
    sysroot = process.output_of(["rustc", "--print", "sysroot"]).strip()
    script_file(folder, "lib.rs", rust_source(40))
    compile_it = [sysroot + "/bin/rustc", "--edition", "2021", "--crate-type", "rlib", "-O", "lib.rs", "-o", "lib.rlib"]
    with running("sh", "-c", f"while :; do {' '.join(compile_it)}; done", cwd=folder) as pid:
        yield pid


# The process that a profile is of, and what runs it.
PROGRAMS = {
    "redis-server": ("redis-server", lambda folder: served(Redis, folder)),
    "postgres": ("postgres", lambda folder: served(Pgbench, folder)),
    "python3": ("python3", python),
    "node with a perf map": ("node", lambda folder: node(folder, "--perf-basic-prof-only-functions")),
    "node": ("node", node),
    "rustc": ("rustc", rustc),
}
# Code that is made at run time has no names unless the program tells them.
UNLIMITED = {"node"}


class Shares:
    """Of the weight of a profile that has stacks."""

    def __init__(self, answer, name):
        self.all = self.samples = 0
        self.touched = collections.Counter()  # by how a name in the stack was found
        self.nameless = collections.Counter()  # by the frame without a function
        self.bounds = collections.Counter()  # by the function without a name
        for sample in answer.samples:
            if sample.stack is None or sample.thread["process"] != name:
                continue
            self.all += sample.value
            self.samples += sample.raw.get("ticks", 0) or sample.raw.get("events", 0)
            found = {frame["found_by"] or "none" for frame in sample.stack.frames}
            for source in found:
                self.touched[source] += sample.value
            for frame in {self.place(sample.stack, at) for at, frame in enumerate(sample.stack.frames)
                          if frame["found_by"] in ("", "none")}:
                self.nameless[frame] += sample.value
            for function in {frame["function"] for frame in sample.stack.frames if frame["found_by"] == "bounds"}:
                self.bounds[function] += sample.value

    @staticmethod
    def place(stack, at):
        """A frame, and the one that it called."""
        inner = f" < {stack.frames[at - 1]['function']}" if at else ""
        return f"{stack.frames[at]['function']} ({stack.frames[at]['module'] or 'no file'}){inner}"

    def share(self, source):
        return self.touched[source] / self.all if self.all else 0


def watch(place, name, start):
    """The answers of all kinds, and the seconds of the window."""
    folder = Path(tempfile.mkdtemp(prefix="profd-names."))
    folder.chmod(0o755)
    try:
        with start(folder) as pid:
            daemon = Daemon(place, [], [pid])
            try:
                time.sleep(SECONDS)
                return {kind: Shares(daemon.fetch("--kind", kind, "--since", f"{SECONDS}s", *options), name)
                        for kind, options in KINDS.items()}
            finally:
                daemon.stop()
                daemon.kill()
    finally:
        shutil.rmtree(folder)


def main():
    if os.geteuid() != 0:
        print("skipped: root: kernel programs take privilege to load")
        return 77
    place = Host(sys.argv[1])
    failures = []
    print("| program | profile | samples | frame without a function | function without a name | guessed |\n"
          "|---|---|--:|--:|--:|--:|", flush=True)
    try:
        for title in sys.argv[2:] or PROGRAMS:
            name, start = PROGRAMS[title]
            for kind, shares in watch(place, name, start).items():
                guessed = shares.share("inferred") + shares.share("rtti")
                print(f"| {title} | {kind} | {shares.samples} | {100 * shares.share('none'):.2f} % | "
                      f"{100 * shares.share('bounds'):.1f} % | {100 * guessed:.1f} % |", flush=True)
                if shares.share("none") > LIMIT and title not in UNLIMITED:
                    failures.append(f"{title}, {kind}: {100 * shares.share('none'):.2f} % has a frame without a function")
                for frame, weight in shares.nameless.most_common(8) + shares.bounds.most_common(4):
                    print(f"  {100 * weight / shares.all:.2f} % {frame}", file=sys.stderr, flush=True)
                if kind != "alloc" and shares.samples < LEAST_SAMPLES:
                    failures.append(f"{title}, {kind}: {shares.samples} samples say nothing")
    finally:
        place.close()
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
