"""Breaks the product in the ways of mutations.toml, one at a time, and shows which test catches each.

A mutation that no test catches is a hole in the tests. It is built in a copy of the tree; the tests
that are to catch it run first, then, if they do not, all scenarios as shipped, the kernel tests and
the unit tests: all of them are part of tests/run.
"""

import argparse
import json
import os
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
# What a mutation may change, of the preset "tests", and the targets of the scenarios that are named.
PRODUCT = ("profd", "profctl", "kernel_test", "waiter", "waiter_plugin")
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
                                  stderr=subprocess.STDOUT, timeout=timeout, check=False,
                                  env={**os.environ, "CCACHE_BASEDIR": str(self.path)}).returncode

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


def failing(tree, check, results):
    """The first test that fails among those that a check names; "" when all pass."""
    kind, _, names = check.partition(" ")
    results.unlink(missing_ok=True)
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
    failed = [each.test for each in found if each.result == "failed"]
    if not found and code == 0:
        raise BadMutation(f"'{check}' ran no test")
    return failed[0] if failed else f"{check} (exit status {code})" if code != 0 else ""


def check_baseline(tree, mutations, results):
    """What is to catch mutations must pass without any."""
    for check in sorted({check for mutation in mutations for check in mutation.caught_by}):
        if check.startswith("unit") and not tree.build("asan", "unit_tests"):
            raise BadMutation(f"the copy's unit tests do not build; see {tree.log}")
        failed = failing(tree, check, results)
        if failed:
            raise BadMutation(f"{failed} fails without a mutation; see {tree.log}")


def try_mutation(tree, mutation, results):
    """The test that catches it; "" when none does."""
    path = tree.path / mutation.file
    original = path.read_text()
    try:
        path.write_text(mutated(original, mutation))
        built = set()
        for check in (*mutation.caught_by, *EVERYTHING):
            preset, targets = ("asan", ("unit_tests",)) if check.startswith("unit") else ("tests", PRODUCT)
            if check == "scenario":
                targets = ("all",)
            if (preset, targets) not in built:
                built.add((preset, targets))
                if not tree.build(preset, *targets):
                    return f"the compiler ({preset})"
            caught = failing(tree, check, results)
            if caught:
                return caught
        return ""
    finally:
        path.write_text(original)


def main():
    parser = argparse.ArgumentParser(prog="python3 -m tests.suite.mutate", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="exit status: 0 all were caught, 1 one was not, 2 the list does not fit")
    parser.add_argument("name", nargs="*", help="only mutations whose name contains one of these")
    parser.add_argument("--tree", type=Path, default=ROOT / "build/mutants", help="where the copy is")
    parser.add_argument("--check", action="store_true", help="only see that each mutation fits its file")
    arguments = parser.parse_args()
    mutations = [m for m in load() if not arguments.name or any(word in m.name for word in arguments.name)]
    try:
        for mutation in mutations:
            mutated((ROOT / mutation.file).read_text(), mutation)
        if arguments.check:
            print(f"{len(mutations)} mutations fit")
            return 0
        arguments.tree.mkdir(parents=True, exist_ok=True)
        tree = Tree(arguments.tree.resolve(), arguments.tree.resolve() / "mutate.log")
        if not tree.build("tests", *PRODUCT):
            raise BadMutation(f"the copy does not build; see {tree.log}")
        check_baseline(tree, mutations, tree.path / "results")
        survived = 0
        print("| what is broken | caught by |\n|---|---|", flush=True)
        for mutation in mutations:
            began = time.monotonic()
            caught = try_mutation(tree, mutation, tree.path / "results")
            survived += not caught
            print(f"| {mutation.name} | {'**nothing**' if not caught else f'`{caught}`'} |", flush=True)
            print(f"  {time.monotonic() - began:.0f} s", file=sys.stderr)
    except BadMutation as error:
        print(f"mutate: {error}", file=sys.stderr)
        return 2
    print(f"\n{len(mutations) - survived} of {len(mutations)} were caught")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
