"""Sources that a checker reads together.

What clang-tidy takes is mostly for the headers, and it reads them again for each source. So it gets few
files that include many sources. Sources that cannot be compiled together, as both define a name, come into
different files; constants of the same name are renamed, as almost every source has some.
"""

from __future__ import annotations

import collections
import pathlib
import re

SOURCES_IN_BATCH = 26
# What a source defines for itself, and in it at the beginning of a line: types, constants, functions.
OWN = re.compile(r"^namespace \{$(.*?)^\}  // namespace$", re.MULTILINE | re.DOTALL)
TYPE = re.compile(r"^(?:(?:struct|class|enum class|enum) |using (?=\w+ =))(\w+)", re.MULTILINE)
CONSTANT = re.compile(r"^(?:static |inline )*constexpr [^=;({\n]*?\b(k\w+)", re.MULTILINE)
FUNCTION = re.compile(r"^(?!return|using|namespace|template|else)[A-Za-z_][\w:<>,&* ]*?[ &*](\w+)\(", re.MULTILINE)
# Names of members; names by which it may mean what a header has.
MEMBER = re.compile(r"(?:::|\.|->)(k[A-Z]\w*)")
USED = re.compile(r"(?<![.>:\w])[A-Z]\w*")


class Batches:
    """The sources of one list, in batches."""

    def __init__(self, sources: list[str]):
        self.texts = {source: pathlib.Path(source).read_text() for source in sources}
        counts = collections.Counter(name for text in self.texts.values() for name in set(CONSTANT.findall(text)))
        # Members of classes and enumerations that have such a name keep it.
        members = {name for text in self.texts.values() for name in MEMBER.findall(text)}
        self.renamed = {name for name, count in counts.items() if count > 1} - members
        self.batches = self._deal()

    def _deal(self) -> list[list[str]]:
        batches: list[list[str]] = [[] for _ in range(-(-len(self.texts) // SOURCES_IN_BATCH))]
        defined: list[set[str]] = [set() for _ in batches]
        used: list[set[str]] = [set() for _ in batches]
        for source in sorted(self.texts):
            text = self.texts[source]
            own = "\n".join(OWN.findall(text))
            names = {name for pattern in (TYPE, FUNCTION) for name in pattern.findall(own)}
            names |= set(CONSTANT.findall(text)) - self.renamed
            words = set(USED.findall(text)) | names
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
        lines = []
        for number, source in enumerate(batch):
            renamed = sorted(self.renamed & set(CONSTANT.findall(self.texts[source]))) if len(batch) > 1 else []
            lines += [f"#define {name} {name}_{number}" for name in renamed]
            lines.append(f'#include "{source}"')
            lines += [f"#undef {name}" for name in renamed]
        return "\n".join(lines) + "\n"
