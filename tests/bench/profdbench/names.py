"""`bench names`: how fast functions of a library of 150 MB get their names, beside llvm-symbolizer.

The library is rustc's own, librustc_driver. It is measured in two ways:

  lookups   addresses drawn at random from its functions are named by profd's own code and by
            llvm-symbolizer, which both have the library open: the first time, and again. They take
            turns; the ratio is that of the medians
  answer    profd with its default flags watches compilations; the time of the first `profctl
            fetch`, which names everything, of later ones, and the daemon's peak RSS

Rows go to stdout as lines of JSON, and with --results FILE also into that file. Progress goes to
stderr.
"""

import argparse
import glob
import json
import os
import random
import shutil
import statistics
import subprocess
import tempfile
import time

from profdbench import lines, overhead, process
from profdbench.process import Failed, Unavailable
from profdbench.progress import log
from profdbench.scale_point import MIB, Daemon
from profdbench.workloads.rust_source import rust_source

SYMBOLIZERS = ("llvm-symbolizer-19", "llvm-symbolizer")
SEED = 24
SETTLE_SECONDS = 10  # of the compilations, before the first answer
WINDOW = "10s"
EPILOG = """examples:
  bench names
  bench names --results docs/performance/results.jsonl

exit status: 0 done, 1 something failed, 2 the command line is wrong"""


def sysroot():
    if not shutil.which("rustc"):
        raise Unavailable("rustc is not installed")
    return process.output_of(["rustc", "--print", "sysroot"]).strip()


def library():
    found = glob.glob(os.path.join(sysroot(), "lib", "librustc_driver-*.so"))
    if not found:
        raise Unavailable("rustc has no librustc_driver")
    return found[0]


def addresses_of(path, count):
    """Of functions, drawn at random; the same every time."""
    functions = [line.split() for line in process.output_of(["nm", "--defined-only", path]).splitlines()]
    found = sorted({int(words[0], 16) for words in functions if len(words) >= 3 and words[1] in "tTwW"})
    return [f"{address:x}" for address in random.Random(SEED).sample(found, min(count, len(found)))]


class Symbolizer:
    """llvm-symbolizer with a file open. It names functions alone, as profd does."""

    def __init__(self, path):
        name = next((name for name in SYMBOLIZERS if shutil.which(name)), None)
        if not name:
            raise Unavailable("llvm-symbolizer is not installed")
        self.name = name
        self.child = process.spawn([name, f"--obj={path}", "--no-inlines", "--functions=linkage"],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, text=True, bufsize=1 << 20)

    def seconds(self, addresses):
        """For all of them, one after another, as it takes them."""
        began = time.monotonic()
        for begin in range(0, len(addresses), 100):
            part = addresses[begin:begin + 100]
            self.child.stdin.write("".join(f"0x{address}\n" for address in part))
            self.child.stdin.flush()
            for _ in part:
                while self.child.stdout.readline() not in ("\n", ""):
                    pass
        if self.child.poll() is not None:
            raise Failed(f"{self.name} ended by itself")
        return time.monotonic() - began

    def stop(self):
        process.stop(self.child)


def measure_lookups(options):
    path, where = library(), lines.here()
    addresses = addresses_of(path, options.addresses)
    ours, theirs, first = [], [], []
    symbolizer = Symbolizer(path)
    try:
        their_first = symbolizer.seconds(addresses)
        for turn in range(options.turns):
            said = subprocess.run([os.path.join(options.build, "bench_names"), path], text=True,
                                  input="\n".join(addresses), capture_output=True, check=False)
            if said.returncode != 0:
                raise Failed(said.stderr.strip())
            found = json.loads(said.stdout)
            first.append(found["first_s"])
            ours.append(found["again_s"])
            theirs.append(symbolizer.seconds(addresses))
            log(f"names: turn {turn + 1} of {options.turns}: {ours[-1] * 1e3:.1f} ms, "
                f"{symbolizer.name} {theirs[-1] * 1e3:.1f} ms")
    finally:
        symbolizer.stop()
    return {"kind": "names", "what": "lookups", **where, "protocol": "turns",
            "library": os.path.basename(path).split("-")[0], "mib": os.path.getsize(path) / MIB,
            "addresses": len(addresses), "turns": options.turns,
            "first_s": statistics.median(first), "again_s": statistics.median(ours),
            "symbolizer": symbolizer.name, "symbolizer_first_s": their_first,
            "symbolizer_again_s": statistics.median(theirs),
            "ratio": statistics.median(theirs) / statistics.median(ours)}


def compilations(directory):
    """A shell that compiles a library again and again."""
    with open(os.path.join(directory, "lib.rs"), "w", encoding="utf-8") as file:
        file.write(rust_source(40))
    compile_it = (f"{sysroot()}/bin/rustc --edition 2021 --crate-type rlib -O lib.rs -o lib.rlib")
    return process.spawn(["sh", "-c", f"while :; do {compile_it}; done"], cwd=directory,
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def fetch(daemon, directory):
    """(seconds, frames in the answer)"""
    path = os.path.join(directory, "answer.json")
    took, _ = daemon.run_profctl("fetch", "--kind", "cpu", "--since", WINDOW, "--format", "json",
                                 "-o", path)
    with open(path, encoding="utf-8") as file:
        answer = json.load(file)
    return took / 1000, len(answer["locations"])


def measure_answer(options):
    path, where = library(), lines.here()
    first, again, peaks, frames = [], [], [], []
    for turn in range(options.turns):
        with tempfile.TemporaryDirectory(prefix="profd-names.", dir="/var/tmp") as directory:
            load = compilations(directory)
            daemon = None
            try:
                daemon = Daemon(options.build, directory, load.pid, [])
                time.sleep(SETTLE_SECONDS)
                took, count = fetch(daemon, directory)
                first.append(took)
                frames.append(count)
                again += [fetch(daemon, directory)[0] for _ in range(3)]
                peaks.append(process.rss_bytes(daemon.pid, peak=True) / MIB)
            finally:
                if daemon:
                    daemon.stop()
                process.stop(load)
        log(f"names: answer {turn + 1} of {options.turns}: first {first[-1]:.3f} s of {frames[-1]} "
            f"frames, again {again[-1]:.3f} s, peak RSS {peaks[-1]:.1f} MiB")
    return {"kind": "names", "what": "answer", **where, "protocol": "turns",
            "library": os.path.basename(path).split("-")[0], "mib": os.path.getsize(path) / MIB,
            "turns": options.turns, "frames": statistics.median(frames),
            "first_s": statistics.median(first), "first_most_s": max(first),
            "again_s": statistics.median(again), "rss_mib": max(peaks)}


MEASURES = {"lookups": measure_lookups, "answer": measure_answer}


def add_arguments(subparsers):
    parser = subparsers.add_parser(
        "names", help="how fast functions of a large library get their names",
        description=__doc__, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--what", action="append", choices=list(MEASURES), metavar="NAME",
                        help="only this one; may be repeated: " + ", ".join(MEASURES))
    parser.add_argument("--turns", type=overhead.positive(int), default=5,
                        help="of each (default 5)")
    parser.add_argument("--addresses", type=overhead.positive(int), default=10_000,
                        help="to look up (default 10000)")
    overhead.add_common_options(parser)
    parser.set_defaults(main=main)


def main(options):
    process.require_root()
    overhead.catch_signals()
    process.require_built(options.build, "profd", "profctl", "bench_names")
    sink = overhead.Sink(options.results)
    for what in options.what or MEASURES:
        sink.add(MEASURES[what](options))
    return 0
