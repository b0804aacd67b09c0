"""Shape of the product's sources and of its two introductory pages.

- The graph of includes between files of bpf/, daemon/ and client/ has no cycle.
- None of these files has more than 400 lines of code; blank lines and comments do not count.
- docs/governor.md has at most 600 words, docs/architecture.md 1,200, as `wc -w` counts them.

hygiene.py --structure runs it. Findings are "file:line: text", with paths relative to the root.
"""

from __future__ import annotations

import os
import pathlib
import re

FOLDERS = ("bpf", "client", "daemon")
SUFFIXES = (".c", ".cc", ".cpp", ".h", ".hpp", ".inc")
# Where the compiler looks after the file's own folder.
INCLUDE_FOLDERS = ("", "bpf")
MOST_LINES = 400
MOST_WORDS = {"docs/architecture.md": 1200, "docs/governor.md": 600}
# A comment, or a literal, which may hold what looks like one. A quote within a number begins none.
COMMENT = re.compile(
    r"""R"(?P<delimiter>[^()\\\s]*)\(.*?\)(?P=delimiter)"|"(?:\\.|[^"\\\n])*"|(?<!\w)(?:u8|[uUL])?'(?:\\.|[^'\\\n])*'"""
    r"|(?P<comment>//[^\n]*|/\*.*?\*/)", re.DOTALL)
INCLUDE = re.compile(r'\s*#\s*include\s*([<"])([^>"]+)[>"]')


def _without_comments(text: str) -> list[str]:
    """The lines of a source; comments leave nothing in theirs."""
    return COMMENT.sub(lambda m: "\n" * m[0].count("\n") if m["comment"] else m[0], text).splitlines()


def _sources(root: pathlib.Path) -> dict[str, list[str]]:
    """The lines of each source without comments, by path."""
    return {str(file.relative_to(root)): _without_comments(file.read_text(encoding="utf-8"))
            for folder in FOLDERS for file in sorted((root / folder).rglob("*")) if file.suffix in SUFFIXES}


def _includes(sources: dict[str, list[str]]) -> dict[str, list[tuple[int, str]]]:
    """What each source includes of the others, with the line."""
    includes: dict[str, list[tuple[int, str]]] = {}
    for file, lines in sources.items():
        includes[file] = []
        for number, line in enumerate(lines, 1):
            if match := INCLUDE.match(line):
                folders = INCLUDE_FOLDERS if match[1] == "<" else (os.path.dirname(file), *INCLUDE_FOLDERS)
                places = (os.path.normpath(os.path.join(folder, match[2])) for folder in folders)
                if included := next((place for place in places if place in sources), None):
                    includes[file].append((number, included))
    return includes


def _cycles(sources: dict[str, list[str]]) -> list[str]:
    includes = _includes(sources)
    found: list[str] = []
    path: list[str] = []
    done: set[str] = set()

    def visit(file: str) -> None:
        path.append(file)
        for number, included in includes[file]:
            if included in path:
                cycle = " -> ".join(path[path.index(included):] + [included])
                found.append(f"{file}:{number}: includes go round in a cycle: {cycle}")
            elif included not in done:
                visit(included)
        path.pop()
        done.add(file)

    for file in includes:
        if file not in done:
            visit(file)
    return found


def _long_sources(sources: dict[str, list[str]]) -> list[str]:
    found = []
    for file, lines in sources.items():
        code = [number for number, line in enumerate(lines, 1) if line.strip()]
        if len(code) > MOST_LINES:
            found.append(f"{file}:{code[MOST_LINES]}: {len(code)} lines of code, at most {MOST_LINES}: split the file")
    return found


def _long_pages(root: pathlib.Path) -> list[str]:
    found = []
    for page, most in MOST_WORDS.items():
        try:
            words = len((root / page).read_text(encoding="utf-8").split())
        except FileNotFoundError:
            found.append(f"{page}:1: the page is missing")
            continue
        if words > most:
            details = page.replace(".md", "-details.md")
            found.append(f"{page}:1: {words} words, at most {most}: move some to {details}")
    return found


def findings(root: pathlib.Path) -> list[str]:
    """What is wrong with the tree at `root`."""
    sources = _sources(root)
    return _cycles(sources) + _long_sources(sources) + _long_pages(root)
