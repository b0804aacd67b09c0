"""Sources that a checker reads together.

What clang-tidy takes is mostly for the headers, and it reads them again for each source. So it gets few
files that include many sources. A name that a source has for itself is renamed in it, unless it also means a
member by it. Headers are included before, so that they keep their names. Sources that still cannot be compiled
together, as both define a name, come into different files.
"""

from __future__ import annotations

import collections
import functools
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES_IN_BATCH = 110
# What a source defines for itself, and in it at the beginning of a line: types, constants, functions.
OWN = re.compile(r"^namespace \{$(.*?)^\}  // namespace$", re.MULTILINE | re.DOTALL)
TYPE = re.compile(r"^(?:(?:struct|class|enum class|enum) |using (?=\w+ =))(\w+)", re.MULTILINE)
CONSTANT = re.compile(r"^(?:static |inline )*constexpr [^=;({\n]*?\b(k\w+)", re.MULTILINE)
FUNCTION = re.compile(r"^(?!return|using|namespace|template|else)[A-Za-z_][\w:<>,&* ]*?[ &*](\w+)\(", re.MULTILINE)
# Names by which a source means members, or what another namespace has.
QUALIFIED = re.compile(r"(?:::|\.|->)([A-Za-z]\w*)")
# Names by which it may mean what a header has.
USED = re.compile(r"(?<![.>:\w])[A-Z]\w*")
# Headers of this tree, and in a file of CMake's the sources that it compiles together.
OF_THIS_TREE = re.compile(r'^#include "(.*)"', re.MULTILINE)
MACRO = re.compile(r"^#define", re.MULTILINE)
INCLUDED = re.compile(r"^#include [<\"].*$", re.MULTILINE)
# No two programs fit together.
MAIN = re.compile(r"^int (main)\(", re.MULTILINE)
WORD = re.compile(r"[A-Za-z]\w*")


@functools.cache
def _functions(header: pathlib.Path) -> frozenset[str]:
    return frozenset(FUNCTION.findall(header.read_text()) if header.exists() else ())


def _functions_of_headers(text: str) -> set[str]:
    return {name for header in OF_THIS_TREE.findall(text) for name in _functions(ROOT / header)}


class Batches:
    """The sources of one list, in batches."""

    def __init__(self, sources: list[str]):
        self.texts = {source: pathlib.Path(source).read_text() for source in sources}
        self.own = {source: self._own(text) for source, text in self.texts.items()}
        counts = collections.Counter(word for text in self.texts.values() for word in set(WORD.findall(text)))
        # A function may be one of several of its name, of which a header has the others.
        self.renamed = {source: {name for name in own if counts[name] > 1} - set(QUALIFIED.findall(self.texts[source])) -
                                _functions_of_headers(self.texts[source]) - {"main"} for source, own in self.own.items()}
        self.batches = self._deal()

    @staticmethod
    def _own(text: str) -> set[str]:
        own = "\n".join(OWN.findall(text))
        return {name for pattern in (TYPE, FUNCTION) for name in pattern.findall(own)} | set(CONSTANT.findall(text)) | set(
            MAIN.findall(text))

    def _deal(self) -> list[list[str]]:
        batches: list[list[str]] = [[] for _ in range(-(-len(self.texts) // SOURCES_IN_BATCH))]
        defined: list[set[str]] = [set() for _ in batches]
        used: list[set[str]] = [set() for _ in batches]
        for source in sorted(self.texts):
            text = self.texts[source]
            names = self.own[source] - self.renamed[source]
            words = (set(USED.findall(text)) - self.renamed[source]) | names
            # A name that one defines would hide what another means by it.
            fitting = [i for i in range(len(batches)) if not names & used[i] and not words & defined[i]]
            if not fitting:
                fitting = [len(batches)]
                batches.append([])
                defined.append(set())
                used.append(set())
            at = min(fitting, key=lambda i: sum(len(self.texts[other]) for other in batches[i]))
            batches[at].append(source)
            defined[at] |= names
            used[at] |= words
        return batches

    def file(self, batch: list[str]) -> str:
        """The text of a file that includes these."""
        # Not those of a source with macros, on which they may depend.
        lines = list(dict.fromkeys(line for source in batch if not MACRO.search(self.texts[source])
                                   for line in INCLUDED.findall(self.texts[source])))
        for number, source in enumerate(batch):
            renamed = sorted(self.renamed[source]) if len(batch) > 1 else []
            lines += [f"#define {name} {name}_{number}" for name in renamed]
            lines.append(f'#include "{source}"')
            lines += [f"#undef {name}" for name in renamed]
        return "\n".join(lines) + "\n"
