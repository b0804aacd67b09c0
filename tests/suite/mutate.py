"""Breaks the product in the ways of mutations.toml, one at a time, and shows which test catches each.

A mutation that no test catches is a hole in the tests. It is built in a copy of the tree; the tests
that are to catch it run first, then, if they do not, all scenarios as shipped, the kernel tests and
the unit tests: all of them are part of tests/run. docs/developing.md has a table of what caught each.
"""

import argparse
import contextlib
import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

from . import outcome

ROOT = Path(__file__).resolve().parent.parent.parent
LIST = Path(__file__).with_name("mutations.toml")
PAGE = ROOT / "docs/developing.md"
HEAD = "| what is broken | caught by |\n|---|---|\n"
NOTHING = "**nothing**"
NOT_RUN = "not yet run"
# By kind of test, what runs it: a preset, and what to build of it. Of the scenarios' targets, those of the named ones.
BUILDS = {"scenario": ("tests", ("profd", "profctl", "waiter", "waiter_plugin")),
          "kernel": ("tests", ("kernel_test",)),
          "unit": ("asan", ("unit_tests",))}
# What runs where none of the named tests caught it.
EVERYTHING = ("kernel", "scenario", "unit")
# What cargo builds takes minutes and does not depend on the product.
PREBUILT = ("standin", "standin_stripped", "standin.why", "libjemalloc_5.2.1.a", "libjemalloc_5.3.1.a")


@dataclass
class Mutation:
    name: str
    file: str
    find: str
    replace: str
    caught_by: list      # "scenario NAME", "kernel FILTER", "unit FILTER"


class BadMutation(Exception):
    """A mutation does not fit the tree."""


def load():
    return [Mutation(**entry) for entry in tomllib.loads(LIST.read_text())["mutation"]]


def row(name, caught):
    return f"| {name} | {caught} |\n"


def split_page(text):
    """The page before the rows of its table, the rows as {name: what caught it}, and the page after them."""
    before, found, rest = text.partition(HEAD)
    if not found:
        raise BadMutation(f"{PAGE.relative_to(ROOT)} has no table of mutations")
    end = re.search(r"^(?!\|)", rest, re.MULTILINE).start()
    rows = [line.strip("|").split(" | ") for line in rest[:end].splitlines()]
    return before + found, {name.strip(): caught.strip() for name, caught in rows}, rest[end:]


def updated_page(text, mutations, name, caught):
    """The page with the result of one mutation, and a row for each that is listed, in their order."""
    before, rows, after = split_page(text)
    rows[name] = caught
    return before + "".join(row(m.name, rows.get(m.name, NOT_RUN)) for m in mutations) + after


def check_page(text, mutations):
    """The table must have a row for each mutation, in order, with the test that caught it."""
    rows = split_page(text)[1]
    if list(rows) != [mutation.name for mutation in mutations]:
        differing = {mutation.name for mutation in mutations} ^ set(rows)
        raise BadMutation(f"the table of {PAGE.relative_to(ROOT)} is not that of mutations.toml: "
                          f"{', '.join(sorted(differing)) or 'another order'}; see --update")
    for name, caught in rows.items():
        if caught == NOT_RUN:
            raise BadMutation(f"{PAGE.relative_to(ROOT)}: '{name}' was not yet run; see --missing and --update")
        if not re.fullmatch(r"`.+`", caught):
            raise BadMutation(f"{PAGE.relative_to(ROOT)}: no test catches '{name}'")


def mutated(text, mutation):
    if text.count(mutation.find) != 1:
        raise BadMutation(f"{mutation.name}: what it looks for occurs {text.count(mutation.find)} times in "
                          f"{mutation.file}; adapt tests/suite/mutations.toml")
    return text.replace(mutation.find, mutation.replace)


class Tree:
    """A copy of the sources with build trees of its own."""

    def __init__(self, path, log):
        self.path, self.log = path, log
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
        for name in listed.decode().split("\0"):
            source, copy = ROOT / name, path / name
            if not name or not source.is_file():
                continue
            copy.parent.mkdir(parents=True, exist_ok=True)
            # Unchanged files keep their time, so that a second run builds little.
            if not copy.exists() or copy.read_bytes() != source.read_bytes():
                shutil.copy2(source, copy)

    def run(self, *argv, timeout=900):
        with self.log.open("ab") as log:
            log.write(f"$ {' '.join(map(str, argv))}\n".encode())
            log.flush()
            return subprocess.run([str(word) for word in argv], cwd=self.path, stdin=subprocess.DEVNULL, stdout=log,
                                  stderr=subprocess.STDOUT, timeout=timeout, check=False).returncode

    def build(self, preset, *targets):
        folder = self.path / "build" / preset
        if not (folder / "build.ninja").exists():
            if self.run("cmake", "--preset", preset) != 0:
                raise BadMutation(f"the copy could not be configured; see {self.log}")
            for name in PREBUILT:
                source = ROOT / "build/tests" / name
                if source.exists():
                    shutil.copy2(source, folder / name)
                    os.utime(folder / name)
        return self.run("cmake", "--build", f"build/{preset}", "-j", os.cpu_count(), "--target", *targets,
                        timeout=3600) == 0


def failing(tree, check, results, lock):
    """The tests that fail among those that a check names, as Outcomes."""
    kind, _, names = check.partition(" ")
    results.unlink(missing_ok=True)
    with lock() if kind != "unit" else contextlib.nullcontext():
        if kind == "scenario":
            code = tree.run("python3", "-m", "tests.harness", "--build", "build/tests", "--results", results,
                            *names.split())
            found = [outcome.from_scenario(json.loads(line)) for line in
                     results.read_text().splitlines()] if results.exists() else []
        else:
            program = {"kernel": "build/tests/kernel_test", "unit": "build/asan/unit_tests"}[kind]
            words = [f"--gtest_filter={names}"] if names else []
            code = tree.run(program, f"--gtest_output=xml:{results}", *words)
            found = outcome.from_gtest(kind, results) if results.exists() else []
    failed = [each for each in found if each.result == "failed"]
    if not found and code == 0:
        raise BadMutation(f"'{check}' ran no test")
    if code != 0 and not failed:
        failed = [outcome.Outcome(f"{check} (exit status {code})", "failed", f"see {tree.log}")]
    return failed


def check_baseline(tree, mutations, results, lock):
    """What is to catch mutations must pass without any."""
    for check in sorted({check for mutation in mutations for check in mutation.caught_by}):
        preset, targets = BUILDS[check.split()[0]]
        if not tree.build(preset, *targets):
            raise BadMutation(f"the copy does not build; see {tree.log}")
        failed = failing(tree, check, results, lock)
        if failed:
            raise BadMutation(f"{failed[0].test} fails without a mutation: {failed[0].detail}")


def check_of(test):
    """The check that runs one test again: "scenario naps [defaults]" is "scenario naps"."""
    return test.partition(" [")[0] if test.startswith("scenario ") else test


# So many failures are looked at, one by one.
LOOKED_AT = 20


def try_mutation(tree, mutation, results, others, lock):
    """The test that catches it, as an Outcome; None when none of those named and of `others` does.

    A test that fails by chance, or on this machine, catches nothing: one that was named passed without the mutation, and
    must fail twice with it. One that was not named must then pass without it, too.
    """
    path = tree.path / mutation.file
    original = path.read_text()
    broken = mutated(original, mutation)
    built = set()

    def build(text, check):
        preset, targets = BUILDS[check.split()[0]]
        if check == "scenario":
            targets = ("all",)
        if path.read_text() != text:
            path.write_text(text)
            built.clear()
        if (preset, targets) in built:
            return None
        built.add((preset, targets))
        return None if tree.build(preset, *targets) else outcome.Outcome(f"the compiler ({preset})", "failed",
                                                                         f"see {tree.log}")

    try:
        for check in (*mutation.caught_by, *others):
            if refused := build(broken, check):
                return refused
            for caught in failing(tree, check, results, lock)[:LOOKED_AT]:
                again = check_of(caught.test)
                # Of a program that crashed there is no test to run again.
                if again.split()[0] not in BUILDS or "(exit status" in again:
                    again = check
                build(broken, check)
                if not failing(tree, again, results, lock):
                    continue
                if check in mutation.caught_by or (not build(original, check) and
                                                   not failing(tree, again, results, lock)):
                    return caught
        return None
    finally:
        path.write_text(original)


@contextlib.contextmanager
def locked(path):
    """Holds a file's lock."""
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def parse_arguments():
    parser = argparse.ArgumentParser(prog="python3 -m tests.suite.mutate", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="exit status: 0 all were caught, 1 one was not, 2 the list does not fit")
    parser.add_argument("name", nargs="*", help="only mutations whose name contains one of these")
    parser.add_argument("--tree", type=Path, default=ROOT / "build/mutants", help="where the copy is")
    parser.add_argument("--check", action="store_true",
                        help="only see that each mutation fits its file and that the table is complete")
    parser.add_argument("--update", action="store_true", help="put each result into the table of docs/developing.md")
    parser.add_argument("--missing", action="store_true",
                        help="only mutations without a result in that table: with --update, to go on where a run ended")
    parser.add_argument("--named", action="store_true", help="only the tests that are to catch a mutation, not all others")
    parser.add_argument("--lock", type=Path, metavar="FILE",
                        help="hold the lock of this file during each test that loads kernel programs")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    everything = load()
    mutations = [m for m in everything if not arguments.name or any(word in m.name for word in arguments.name)]
    lock = (lambda: locked(arguments.lock)) if arguments.lock else contextlib.nullcontext
    try:
        for mutation in mutations:
            mutated((ROOT / mutation.file).read_text(), mutation)
        if arguments.check:
            check_page(PAGE.read_text(), everything)
            print(f"{len(mutations)} mutations fit")
            return 0
        if arguments.missing:
            known = split_page(PAGE.read_text())[1]
            mutations = [m for m in mutations if known.get(m.name, NOT_RUN) in (NOTHING, NOT_RUN)]
        arguments.tree.mkdir(parents=True, exist_ok=True)
        tree = Tree(arguments.tree.resolve(), arguments.tree.resolve() / "mutate.log")
        check_baseline(tree, mutations, tree.path / "results", lock)
        survived = 0
        print(HEAD, end="", flush=True)
        for mutation in mutations:
            began = time.monotonic()
            caught = try_mutation(tree, mutation, tree.path / "results", () if arguments.named else EVERYTHING, lock)
            survived += not caught
            result = f"`{caught.test}`" if caught else NOTHING
            print(row(mutation.name, result), end="", flush=True)
            print(f"  {time.monotonic() - began:.0f} s" + (f": {caught.detail}" if caught else ""), file=sys.stderr)
            if arguments.update:
                PAGE.write_text(updated_page(PAGE.read_text(), everything, mutation.name, result))
    except BadMutation as error:
        print(f"mutate: {error}", file=sys.stderr)
        return 2
    print(f"\n{len(mutations) - survived} of {len(mutations)} were caught")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
