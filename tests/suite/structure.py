"""Shape of the product's sources and of its two introductory pages.

- The graph of includes between files of bpf/, daemon/ and client/ has no cycle.
- Neither has the graph of includes between folders of daemon/ and client/, with a folder in another as one of its own.
- None of these files has more than 400 lines of code; blank lines and comments do not count.
- docs/governor.md has at most 600 words, docs/architecture.md 1,200, as `wc -w` counts them.

hygiene.py --structure runs it. Findings are "file:line: text", with paths relative to the root.
"""

from __future__ import annotations

import os
import pathlib
import re

FOLDERS = ("bpf", "client", "daemon")
# Where folders, too, include each other in one direction only.
LAYERED = ("client", "daemon")
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


def _rounds(graph: dict[str, list[str]]) -> list[list[str]]:
    """Cycles, each with its first node again at the end; none only if there is none."""
    found: list[list[str]] = []
    path: list[str] = []
    done: set[str] = set()

    def visit(node: str) -> None:
        path.append(node)
        for after in graph.get(node, ()):
            if after in path:
                found.append(path[path.index(after):] + [after])
            elif after not in done:
                visit(after)
        path.pop()
        done.add(node)

    for node in graph:
        if node not in done:
            visit(node)
    return found


def _cycles(includes: dict[str, list[tuple[int, str]]]) -> list[str]:
    lines = {(file, included): number for file, all_included in includes.items() for number, included in all_included}
    graph = {file: list(dict.fromkeys(included for _, included in all_included))
             for file, all_included in includes.items()}
    return [f"{cycle[-2]}:{lines[cycle[-2], cycle[-1]]}: includes go round in a cycle: {' -> '.join(cycle)}"
            for cycle in _rounds(graph)]


def _folder_cycles(includes: dict[str, list[tuple[int, str]]]) -> list[str]:
    """Cycles of folders, each step with one include that makes it."""
    graph: dict[str, list[str]] = {}
    examples: dict[tuple[str, str], str] = {}
    for file, all_included in includes.items():
        for number, included in all_included:
            folder, other = os.path.dirname(file), os.path.dirname(included)
            if folder != other and {folder.split("/")[0], other.split("/")[0]} <= set(LAYERED):
                if (folder, other) not in examples:
                    graph.setdefault(folder, []).append(other)
                    examples[folder, other] = f"{file}:{number}"
    found = []
    for cycle in _rounds(graph):
        steps = list(zip(cycle, cycle[1:]))
        told = ", ".join(f"{folder} -> {other} ({examples[folder, other]})" for folder, other in steps)
        found.append(f"{examples[steps[-1]]}: folders include each other in a cycle: {told}")
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
    includes = _includes(sources)
    return _cycles(includes) + _folder_cycles(includes) + _long_sources(sources) + _long_pages(root)
