#!/usr/bin/env python3
"""The node stand-in in three builds: how its frames are named, how often inferred names are right, and what is folded as idle.

usage: standin_test.py BUILD [TITLE...], as root; needs the targets standin, standin_lto and bench_infer. Prints two tables for
docs/accuracy.md. The truth about a function is the symbol of the same address in the build before it was stripped. Exit status
77: skipped, for lack of a fact of the machine.
"""

import bisect
import collections
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

# pylint: disable=wrong-import-position
from tests.harness.answer import read
from tests.harness.daemon import Daemon, Host
from tests.harness.process import run

# The program that runs, and the same with symbols.
CRATE = "standin"
BUILDS = {"with symbols": ("standin", "standin"), "stripped": ("standin_stripped", "standin"),
          "stripped, LTO": ("standin_lto_stripped", "standin_lto")}
FAULTS = ("hot-mutex", "blocking-in-async", "full-channel", "rayon-starvation")
FAULT_SECONDS = 60
# Threads that get no work while these faults are planted: each is idle as long as it lives.
WITHOUT_WORK = {"payload-builder", "payload-service", "deferred-trie", "hash-post-state", "receipt-root", "tx-iterator",
                "mdbx-rs-txn-mgr", "mdbx-rs-read-tx", "tracing-appende", "sparse-trie", "rocksdb:low",
                *(f"{pool}-{number:02}" for pool in ("cpu", "prewarm", "rayon") for number in range(4))}
# Of the stripped build with LTO: of the weight outside kernel and libc, of what has a crate, and of idle time.
NAMED, RIGHT, FOLDED = 0.90, 0.85, 0.99
METHODS = ("symbols", "dynamic_symbols", "debug_file", "inferred", "bounds", "plt", "none")


class Truth:
    """Crate, module and symbol of each function of a program."""

    def __init__(self, build, program):
        code, out, err = run([build / "bench_infer", "--truth", program])
        assert code == 0, err
        rows = [line.split("\t") for line in out.splitlines()]
        self.begins = [int(row[0], 16) for row in rows]
        self.functions = [tuple(row[1:]) for row in rows]
        self.segments = []
        for line in subprocess.run(["readelf", "-lW", program], capture_output=True, text=True, check=True).stdout.splitlines():
            words = line.split()
            if words[:1] == ["LOAD"]:
                self.segments.append((int(words[1], 16), int(words[2], 16), int(words[4], 16)))

    def at(self, offset):
        for begin, address, size in self.segments:
            if begin <= offset < begin + size:
                return self.functions[bisect.bisect_right(self.begins, offset - begin + address) - 1]
        raise AssertionError(f"{offset:#x} is in no segment")


def inferred(function):
    """Crate and module of "~tokio::runtime::park (fn_95b00)", without the word that says what the function waits for."""
    path = function[1:].rpartition(" (fn_")[0].split("::")
    if path[-1] in ("futex_wait", "lock_slow") or path[-2:-1] == ["array"]:
        path.pop()
    return (path[0] if path else ""), "::".join(path)


def mentions(symbol, crate):
    return f"{len(crate)}{crate}" in symbol or f"{len(crate)}_{crate}" in symbol


class Names:
    """Weight of the frames outside kernel and libc: a stack's is divided among them."""

    def __init__(self, answer, module, truth):
        self.weight = collections.Counter()
        for sample in answer["samples"]:
            frames = [answer["frames"][index] for index in answer["stacks"][sample["stack"]]["frames"]] if sample["stack"] else []
            frames = [frame for frame in frames if frame["kind"] not in ("kernel", "libc", "synthetic")]
            for frame in frames:
                self.add(frame, truth if frame["module"] == module else None, sample["time_ns"] / len(frames))

    def add(self, frame, truth, weight):
        self.weight["all"] += weight
        if truth is None:
            return
        crate, module, symbol = truth.at(frame["address"] - (0 if frame["exact"] else 1))
        exact = frame["found_by"] in ("symbols", "debug_file", "dynamic_symbols")
        if exact and crate:
            self.weight["named"] += weight
        if exact or frame["found_by"] != "inferred":
            return
        said_crate, said_module = inferred(frame["function"])
        if not said_crate:
            return
        self.weight["named"] += weight
        self.weight["guessed"] += weight
        self.weight["crate"] += weight * (said_crate == crate)
        self.weight["symbol"] += weight * (said_crate == crate or mentions(symbol, said_crate))
        if said_module == said_crate and module != crate:
            return
        self.weight["with module"] += weight
        self.weight["module"] += weight * (said_module == module)
        self.weight["around"] += weight * (said_module == module or f"{module}::".startswith(f"{said_module}::")
                                           or f"{said_module}::".startswith(f"{module}::"))

    def share(self, part, whole):
        return self.weight[part] / self.weight[whole] if self.weight[whole] else None


class Idle:
    """What is folded, beside what is idle by the names of the build with symbols."""

    def __init__(self, answer, named):
        self.seconds = collections.Counter()
        self.missed, self.mistaken = collections.Counter(), collections.Counter()
        assert len(answer["samples"]) == len(named["samples"])
        for sample, same in zip(answer["samples"], named["samples"]):
            assert sample["thread"] == same["thread"] and sample["time_ns"] == same["time_ns"]
            if sample["reason"] == "" or not sample["stack"]:
                continue
            thread = answer["threads"][sample["thread"]]["name"]
            folded, idle, time_ns = bool(sample["idle"]), bool(same["idle"]), sample["time_ns"]
            self.seconds["idle" if idle else "other"] += time_ns
            if folded:
                self.seconds["idle folded" if idle else "other folded"] += time_ns
            if thread in WITHOUT_WORK and sample["reason"] != "runqueue":
                self.seconds["without work"] += time_ns
                self.seconds["without work folded"] += time_ns * folded
            if folded != idle:
                functions = [f"{named['frames'][frame]['function']} {{{answer['frames'][frame]['function']}}}"
                             for frame in named["stacks"][sample["stack"]]["frames"]
                             if named["frames"][frame]["kind"] not in ("kernel", "libc")]
                stack = f"{thread} {sample['reason']}: {' < '.join(functions[:8])}"
                (self.missed if idle else self.mistaken)[stack] += time_ns

    def share(self, part):
        return self.seconds[f"{part} folded"] / self.seconds[part]


def watch(place, program):
    """An answer of a run with all faults, in a file. A program's own crate is named after its file."""
    folder = Path(place.word("{folder}")) / program
    folder.mkdir()
    shutil.copy(place.build / program, folder / CRATE)
    target = place.target([str(folder / CRATE), "node", "{folder}", *FAULTS], {})
    daemon = None
    try:
        target.line_with("ready", 60)
        daemon = Daemon(place, [], [target.pid])
        begin = time.time()
        for fault in FAULTS:
            target.write("next\n")
            target.line_with(fault, FAULT_SECONDS)
        answer = place.word("{folder}/answer.json")
        code, _, err = daemon.profctl("fetch", "--kind", "wall", "--idle", "--since", f"{time.time() - begin:.0f}s", "--format",
                                      "json", "-o", answer)
        assert code == 0, err
        return Path(answer)
    finally:
        target.kill()
        if daemon:
            daemon.stop()
            daemon.kill()


def percent(share):
    return "" if share is None else f"{100 * share:.1f} %"


def main():
    if os.geteuid() != 0:
        print("skipped: root: kernel programs take privilege to load")
        return 77
    place = Host(sys.argv[1])
    if (place.build / "standin.why").exists():
        print(f"skipped: crates: {(place.build / 'standin.why').read_text()}")
        return 77
    methods, right = [], []
    failures = []
    try:
        for title in sys.argv[2:] or BUILDS:
            program, with_symbols = BUILDS[title]
            path = watch(place, program)
            named_path = path.with_name("named.json")
            code, _, err = run([place.build / "profctl", "symbolize", path, "--debug-file", place.build / with_symbols, "--format",
                                "json", "-o", named_path])
            assert code == 0, err
            answer, named = (read(json.loads(file.read_text())) for file in (path, named_path))
            names = Names(answer, CRATE, Truth(place.build, place.build / with_symbols))
            idle = Idle(answer, named)
            shares = answer["trailer"]["names"]
            methods.append(f"| {title} | " + " | ".join(percent(shares[method]["share"] if method in shares else 0)
                                                        for method in METHODS) + " |")
            right.append(f"| {title} | {percent(names.share('named', 'all'))} | {percent(names.share('crate', 'guessed'))} | "
                         f"{percent(names.share('symbol', 'guessed'))} | {percent(names.share('module', 'with module'))} | "
                         f"{percent(names.share('around', 'with module'))} | {percent(idle.share('idle'))} | "
                         f"{percent(idle.share('without work'))} | {percent(idle.share('other'))} |")
            for what, stacks in (("not folded", idle.missed), ("folded by mistake", idle.mistaken)):
                for stack, time_ns in stacks.most_common(8):
                    print(f"{title}: {what}: {time_ns / 1e9:.2f} s of {idle.seconds['idle'] / 1e9:.0f} s idle, {stack}", file=sys.stderr)
            if title == "with symbols":
                continue
            for what, share, least in (("of the weight has a crate", names.share("named", "all"), NAMED),
                                       ("of the crates are in the symbol", names.share("symbol", "guessed"), RIGHT),
                                       ("of idle time is folded", idle.share("idle"), FOLDED),
                                       ("of the time of threads without work is folded", idle.share("without work"), FOLDED)):
                if "LTO" in title and share < least:
                    failures.append(f"{title}: {percent(share)} {what}, not {percent(least)}")
    finally:
        place.close()
    print("| build | " + " | ".join(METHODS) + " |\n|---|" + "--:|" * len(METHODS))
    print("\n".join(methods))
    print("\n| build | weight with a crate | crate right | or in the symbol | module right | or around it | idle time folded | "
          "of threads without work | folded that is not idle |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    print("\n".join(right))
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
