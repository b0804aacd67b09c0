"""Formatting, likely mistakes and spelling, with the tools of the distribution; structure, by structure.py.

Each check returns its findings as "file:line: text", with paths relative to the root of the tree.

Usage: python3 -m tests.suite.hygiene [--format] [--tidy BUILD] [--spelling] [--structure]
Without an option: formatting, spelling and structure. Exits with 1 when there are findings, with 2
when a check could not run.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import functools
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

from . import structure
from .batches import OF_THIS_TREE, Batches

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = ("bpf", "client", "daemon", "deploy", "tests")
TIDIED = ("client", "daemon")
CLANG_FORMAT = "clang-format-19"
CLANG_TIDY = "clang-tidy-19"
PRECOMPILE = str(ROOT / "tests/suite/precompile")
IGNORED_WORDS = ROOT / "tests/suite/codespell.txt"
# Expected output and foreign data: their words are not ours.
NOT_SPELLED = ("./build", "./.git", "./LICENSE", "./bpf/LICENSE", "./tests/golden",
               "./tests/fuzz/corpus", "*.lock", "*.svg", "*.pyc", "./docs/performance/*.json*")
FINDING = re.compile(r"^(?P<file>/?[^:\n]+):(?P<line>\d+):(?:\d+:)? (?:warning|error): (?P<text>.*)$",
                     re.MULTILINE)
PRECOMPILED = re.compile(r"\S+cmake_pch\.hxx\.pch")


class CheckFailed(Exception):
    """A check could not run; the message says why and what to do."""


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, errors="replace",
                              check=False)
    except FileNotFoundError as error:
        raise CheckFailed(f"{command[0]} is missing: run deploy/packages/install tests") from error


def _relative(path: str) -> str:
    return os.path.relpath(ROOT / path, ROOT)


def _findings(output: str) -> list[str]:
    return [f"{_relative(m['file'])}:{m['line']}: {m['text']}" for m in FINDING.finditer(output)]


def _in_parallel(function, items) -> list:
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(function, items))


def clang_format() -> list[str]:
    """Lines that clang-format would change."""
    files = sorted(str(file.relative_to(ROOT)) for folder in SOURCES
                   for file in (ROOT / folder).rglob("*.[ch]*")
                   if file.suffix in (".c", ".cc", ".h") and "target" not in file.parts)
    if not files:
        raise CheckFailed(f"there are no sources under {ROOT}")

    def check(part: list[str]) -> list[str]:
        result = _run([CLANG_FORMAT, "--dry-run", "--Werror", *part])
        found = _findings(result.stderr)
        if result.returncode and not found:
            raise CheckFailed(f"{CLANG_FORMAT}: {result.stderr.strip()}")
        return found

    parts = [files[i:i + 40] for i in range(0, len(files), 40)]
    return sorted(set(sum(_in_parallel(check, parts), [])))


def spelling() -> list[str]:
    """Misspelled words, by codespell's list of common mistakes."""
    result = _run(["codespell", "--ignore-words", str(IGNORED_WORDS),
                   "--skip", ",".join(NOT_SPELLED), "."])
    found = [line.removeprefix("./") for line in result.stdout.splitlines() if "==>" in line]
    if result.returncode and not found:
        raise CheckFailed(f"codespell: {result.stderr.strip()}")
    return found


@functools.cache
def _digest(path: str) -> bytes:
    return hashlib.sha256(pathlib.Path(path).read_bytes()).digest()


def _dependencies(build: pathlib.Path) -> dict[str, list[str]]:
    """The files that each object was compiled from, as ninja recorded them."""
    result = _run(["ninja", "-C", str(build), "-t", "deps"])
    if result.returncode:
        raise CheckFailed(f"ninja: {result.stderr.strip()}")
    dependencies: dict[str, list[str]] = {}
    files: list[str] = []
    for line in result.stdout.splitlines():
        if line.startswith("    "):
            files.append(os.path.normpath(build / line.strip()))
        elif "#deps" in line:
            files = dependencies.setdefault(line.split(":")[0], [])
    return dependencies


def _flat(files: list[str], dependencies: dict[str, list[str]], build: pathlib.Path) -> set[str]:
    """`files`, with those of a precompiled header in its place: its bytes differ in each build."""
    flat: set[str] = set()
    for file in files:
        if file.endswith(".pch"):
            flat.update(dependencies.get(os.path.relpath(file, build), []))
        else:
            flat.add(file)
    return flat


def _neutral(text: str, build: pathlib.Path) -> str:
    return text.replace(str(build), "BUILD").replace(str(ROOT), "ROOT")


def _cache() -> pathlib.Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = pathlib.Path(base) / "profd-tests/tidy"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


class _Group:
    """Sources that are compiled with the same precompiled header, or together without one, and flags that suit them
    all."""

    def __init__(self):
        self.flags: list[str] = []
        self.objects: dict[str, str] = {}

    def add(self, entry: dict[str, str]) -> None:
        words = shlex.split(entry["command"])
        output = words.index("-o")
        compiler = next(i for i, word in enumerate(words) if "clang" in word and "ccache" not in word)
        if not self.flags:
            self.flags = [word for word in words[compiler + 1:output] if word not in ("-MD", "-MT", "-MF")
                          and not word.endswith((".o", ".o.d"))]
        for before, word in zip(words, words[1:]):
            if before == "-isystem" and word not in self.flags:
                self.flags += [before, word]
            elif word.startswith(("-I", "-D", "-W")) and word not in self.flags:
                self.flags.append(word)
        file = pathlib.Path(entry["file"])
        included = OF_THIS_TREE.findall(file.read_text()) if "unity" in file.parts else [str(file)]
        sources = [str(ROOT / source) for source in included if source.endswith(".cc")]
        for source in sources:
            self.objects.setdefault(source, words[output + 1])


def _groups(build: pathlib.Path) -> list[_Group]:
    try:
        database = json.loads((build / "compile_commands.json").read_text())
    except OSError as error:
        raise CheckFailed(f"{error}; configure it first: cmake --preset asan") from error
    groups: dict[str, _Group] = {}
    # Sources that are compiled together have their entry in the build tree.
    wanted = tuple(f"{base}/{folder}/" for folder in TIDIED for base in (ROOT, build))
    for entry in database:
        # Tests that compile a source of the product again are not looked at.
        if (entry["file"].startswith(wanted) and not entry["file"].endswith("cmake_pch.hxx.cxx")
                and " -o tests/" not in entry["command"]):
            header, folder = PRECOMPILED.search(entry["command"]), pathlib.Path(entry["file"]).parent
            group = header[0] if header else str(folder) if "unity" in folder.parts else ""
            groups.setdefault(group, _Group()).add(entry)
    if not groups:
        raise CheckFailed(f"{build} compiles nothing of {' and '.join(TIDIED)}")
    return list(groups.values())


def clang_tidy(build_dir: str | os.PathLike[str]) -> list[str]:
    """Findings of .clang-tidy's checks in the daemon and the client.

    `build_dir` was configured for clang (the preset `asan`), and its objects are up to date. Sources are
    checked many at once, see batches.py. The result of a batch is kept until a source, a header, its
    flags or the checks change.
    """
    build = pathlib.Path(build_dir).resolve()
    groups = _groups(build)
    version = _run([CLANG_TIDY, "--version"]).stdout
    config = ROOT / ".clang-tidy"
    dependencies = _dependencies(build)
    cache = _cache()
    folder = build / "tidy"
    folder.mkdir(exist_ok=True)

    def key(group: _Group, batch: list[str], text: str) -> str:
        digest = hashlib.sha256()
        for part in (version, config.read_text(), " ".join(group.flags), text):
            digest.update(_neutral(part, build).encode() + b"\0")
        files: set[str] = set()
        for output in {group.objects[source] for source in batch}:
            found = dependencies.get(output)
            if not found:
                raise CheckFailed(f"{output} is not built in {build}: cmake --build --preset asan")
            files |= _flat(found, dependencies, build)
        for file in sorted(files):
            digest.update(_neutral(file, build).encode() + b"\0" + _digest(file))
        return digest.hexdigest()

    def check(work: tuple[_Group, Batches, list[str]]) -> list[str]:
        group, batches, batch = work
        text = batches.file(batch)
        name = key(group, batch, text)
        kept = cache / name
        if kept.exists():
            return json.loads(kept.read_text())
        file = folder / f"{name}.cc"
        file.write_text(text)
        result = _run([PRECOMPILE, CLANG_TIDY, "--quiet", f"--config-file={config}", str(file), "--", *group.flags])
        if "[clang-diagnostic-" in result.stdout and len(batch) > 1:
            # Perhaps they cannot be compiled together; by itself each can.
            half = len(batch) // 2
            return check((group, batches, batch[:half])) + check((group, batches, batch[half:]))
        found = _findings(result.stdout)
        if result.returncode and not found:
            raise CheckFailed(f"{CLANG_TIDY} {', '.join(batch)}: {result.stdout}{result.stderr}")
        partial = kept.with_suffix(f".{os.getpid()}")
        partial.write_text(json.dumps(found))
        partial.replace(kept)
        return found

    work = [(group, batches, batch) for group in groups for batches in (Batches(list(group.objects)),)
            for batch in batches.batches]
    return sorted(set(sum(_in_parallel(check, work), [])))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python3 -m tests.suite.hygiene",
                                     description="Formatting, likely mistakes, spelling, structure.")
    parser.add_argument("--format", action="store_true", help="what clang-format would change")
    parser.add_argument("--tidy", metavar="BUILD",
                        help="clang-tidy with this build directory, of the preset asan")
    parser.add_argument("--spelling", action="store_true", help="misspelled words")
    parser.add_argument("--structure", action="store_true",
                        help="cycles of includes, long sources, long pages")
    options = parser.parse_args(arguments)
    every = not (options.format or options.tidy or options.spelling or options.structure)
    found: list[str] = []
    try:
        if options.format or every:
            found += clang_format()
        if options.spelling or every:
            found += spelling()
        if options.structure or every:
            found += structure.findings(ROOT)
        if options.tidy:
            found += clang_tidy(options.tidy)
    except CheckFailed as error:
        print(f"hygiene: {error}", file=sys.stderr)
        return 2
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
