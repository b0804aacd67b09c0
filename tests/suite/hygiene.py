"""Formatting, likely mistakes and spelling, with the tools of the distribution.

Each check returns its findings as "file:line: text", with paths relative to the root of the tree.

Usage: python3 -m tests.suite.hygiene [--format] [--tidy BUILD] [--spelling]
Without an option: formatting and spelling. Exits with 1 when there are findings, with 2 when a check
could not run.
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

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = ("bpf", "client", "daemon", "deploy", "tests")
TIDIED = ("client", "daemon")
CLANG_FORMAT = "clang-format-19"
CLANG_TIDY = "clang-tidy-19"
IGNORED_WORDS = ROOT / "tests/suite/codespell.txt"
# Expected output and foreign data: their words are not ours.
NOT_SPELLED = ("./build", "./.git", "./LICENSE", "./bpf/LICENSE", "./tests/golden",
               "./tests/fuzz/corpus", "*.lock", "*.svg", "*.pyc", "./docs/performance/*.json*")
FINDING = re.compile(r"^(?P<file>/?[^:\n]+):(?P<line>\d+):(?:\d+:)? (?:warning|error): (?P<text>.*)$",
                     re.MULTILINE)


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
            files.append(str(build / line.strip()))
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


def clang_tidy(build_dir: str | os.PathLike[str]) -> list[str]:
    """Findings of .clang-tidy's checks in the daemon and the client.

    `build_dir` was configured for clang (the preset `asan`), and its objects are up to date. The
    result of a source is kept until it, a header of it, its flags or the checks change.
    """
    build = pathlib.Path(build_dir).resolve()
    try:
        database = json.loads((build / "compile_commands.json").read_text())
    except OSError as error:
        raise CheckFailed(f"{error}; configure it first: cmake --preset asan") from error
    # Sources that are compiled together have their entry in the build tree.
    wanted = tuple(f"{base}/{folder}/" for folder in TIDIED for base in (ROOT, build))
    entries = [entry | {"output": shlex.split(entry["command"].split(" -o ")[1])[0]}
               for entry in database
               if entry["file"].startswith(wanted) and not entry["file"].endswith("cmake_pch.hxx.cxx")]
    if not entries:
        raise CheckFailed(f"{build} compiles nothing of {' and '.join(TIDIED)}")
    version = _run([CLANG_TIDY, "--version"]).stdout
    config = (ROOT / ".clang-tidy").read_text()
    dependencies = _dependencies(build)
    cache = _cache()

    def key(entry: dict[str, str]) -> str:
        files = dependencies.get(entry["output"])
        if not files:
            raise CheckFailed(f"{entry['output']} is not built in {build}: "
                              "cmake --build --preset asan")
        digest = hashlib.sha256()
        for text in (version, config, entry["command"]):
            digest.update(_neutral(text, build).encode() + b"\0")
        for file in sorted(_flat(files, dependencies, build)):
            digest.update(_neutral(file, build).encode() + b"\0" + _digest(file))
        return digest.hexdigest()

    def check(entry: dict[str, str]) -> list[str]:
        kept = cache / key(entry)
        if kept.exists():
            return json.loads(kept.read_text())
        result = _run([CLANG_TIDY, "-p", str(build), "--quiet", entry["file"]])
        found = _findings(result.stdout)
        if result.returncode and not found:
            raise CheckFailed(f"{CLANG_TIDY} {entry['file']}: {result.stdout}{result.stderr}")
        partial = kept.with_suffix(f".{os.getpid()}")
        partial.write_text(json.dumps(found))
        partial.replace(kept)
        return found

    return sorted(set(sum(_in_parallel(check, entries), [])))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python3 -m tests.suite.hygiene",
                                     description="Formatting, likely mistakes, spelling.")
    parser.add_argument("--format", action="store_true", help="what clang-format would change")
    parser.add_argument("--tidy", metavar="BUILD",
                        help="clang-tidy with this build directory, of the preset asan")
    parser.add_argument("--spelling", action="store_true", help="misspelled words")
    options = parser.parse_args(arguments)
    every = not (options.format or options.tidy or options.spelling)
    found: list[str] = []
    try:
        if options.format or every:
            found += clang_format()
        if options.spelling or every:
            found += spelling()
        if options.tidy:
            found += clang_tidy(options.tidy)
    except CheckFailed as error:
        print(f"hygiene: {error}", file=sys.stderr)
        return 2
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
