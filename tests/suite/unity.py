"""Sources that are compiled together (PROFD_UNITY).

Headers take most of the time of a compiler, and it reads them again for each file. So it gets few files that
include many sources. Sources whose names could be mistaken for each other come into different files; constants
of the same name are renamed, as almost every source has some. In doubt sources are kept apart: nobody tries
again without one. For clang-tidy, which does, batches.py is bolder.

Usage: python3 tests/suite/unity.py <LISTS
Each line of LISTS has the name of a list, a folder and sources, with tabs between them. Writes FOLDER/batch_N.cc, and
prints such a line with the name and their paths.
"""

from __future__ import annotations

import collections
import functools
import os
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES_IN_BATCH = 20

INCLUDED = re.compile(r'^#include "((?:bpf|client|daemon|deploy|tests)/[^"]+)"', re.MULTILINE)
ANY_INCLUDED = re.compile(r"^#include .*$", re.MULTILINE)
MACRO = re.compile(r"^#define (\w+)", re.MULTILINE)
NOT_CODE = re.compile(r'R"(?P<mark>\w*)\(.*?\)(?P=mark)"|//[^\n]*|"(?:\\.|[^"\\\n])*"'
                      r"|'(?:\\.|[^'\\\n])'", re.DOTALL)
# What a source defines for itself, and there: declarations, which begin a line.
OWN = re.compile(r"^namespace \{$(.*?)^\}  // namespace$", re.MULTILINE | re.DOTALL)
DECLARED = re.compile(r"(?<![:\w.>])([A-Za-z_]\w*)\s*(?=[({=;\[]|:(?!:))")
ATTRIBUTE = re.compile(r"__attribute__\(\(.*?\)\)|\[\[.*?\]\]|alignas\(.*?\)")
TYPE = re.compile(r"(?:enum class|enum struct|struct|class|enum|union) (\w+)")
CONSTANT = re.compile(r"\b(k[A-Z]\w*)\s*(?=[={\[])")
CONSTANT_LINE = re.compile(r"(?:static |inline )*const(?:expr|init)?\b")
# The class of a test is named after both.
GTEST = re.compile(r"^(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\)", re.MULTILINE)
# Macros that make names of their first arguments, which must stay as they are.
GTEST_NAMES = re.compile(r"^(?:INSTANTIATE_TEST_SUITE_P|TYPED_TEST_SUITE|MATCHER\w*|ACTION\w*)\(\s*(\w+)", re.MULTILINE)
GTEST_SUITE = re.compile(r"^(?:TYPED_)?(?:TEST|INSTANTIATE|MATCHER|ACTION)\w*\([^;{]*?[){]", re.MULTILINE)
NO_NAME = re.compile(r"template\b|namespace\b|static_assert\b|.*\boperator\b|TEST|TYPED|INSTANTIATE|MATCHER|ACTION")
# A name by which a source means what is declared outside of its classes and functions; members are not.
WORD = re.compile(r"(?<![\w.])(?<!->)(?<!::)[A-Za-z_]\w*")
ANY_WORD = re.compile(r"[A-Za-z_]\w*")
MEMBER = re.compile(r"(?:::|\.|->)\s*(\w+)")
KEYWORDS = frozenset("void const final if for while switch return public private protected operator".split())
# A declaration whose name stands in one of the lines after its first.
LINES_OF_DECLARATION = 3


def _code(text: str) -> str:
    """Without comments and what is in quotes."""
    return NOT_CODE.sub(lambda match: "" if match[0].startswith("//") else '""', text)


@functools.cache
def _header(path: pathlib.Path) -> tuple[frozenset[str], frozenset[str], tuple[pathlib.Path, ...]]:
    """What a header may declare for others, all of its words, and the headers of this tree that it includes.

    What is indented is in a class or a function. There a name means a member, or what a line that is not
    indented declares."""
    text = path.read_text()
    code = _code(text)
    outside = "\n".join(line for line in code.splitlines() if not line.startswith(" "))
    return frozenset(WORD.findall(outside)), frozenset(ANY_WORD.findall(code)), _included(text)


def _included(text: str) -> tuple[pathlib.Path, ...]:
    return tuple(path for path in (ROOT / name for name in INCLUDED.findall(text)) if path.exists())


def _declared(block: str) -> tuple[set[str], set[str]]:
    """Names that the lines of a block declare: constants, and others."""
    constants: set[str] = set()
    others: set[str] = set()
    lines = [ATTRIBUTE.sub("", line) for line in block.splitlines()]
    for at, line in enumerate(lines):
        if not line or line[0] in " #}/" or NO_NAME.match(line):
            continue
        if line.startswith("using ") and "=" not in line:
            continue
        if CONSTANT_LINE.match(line):
            found = CONSTANT.findall(" ".join(lines[at:at + LINES_OF_DECLARATION]) if not CONSTANT.search(line) else line)
            constants.update(found)
            if found:
                continue
        if match := TYPE.match(line):
            others.add(match[1])
            continue
        for length in range(1, LINES_OF_DECLARATION + 1):
            if found := DECLARED.findall(" ".join(lines[at:at + length])):
                others.add(found[0])
                break
    return constants, others - KEYWORDS


class _Source:
    def __init__(self, path: str):
        text = pathlib.Path(path).read_text()
        code = _code(text)
        self.path = path
        self.words = set(WORD.findall(code))
        self.headers: set[pathlib.Path] = set()
        headers_left = list(_included(text))
        while headers_left:
            header = headers_left.pop()
            if header not in self.headers:
                self.headers.add(header)
                headers_left += _header(header)[2]
        # Statements in functions are indented: no other lines are declarations.
        own = "\n".join(_code(block) for block in OWN.findall(re.sub(r"//(?! namespace).*", "", text)))
        static = "\n".join(line for line in code.splitlines() if line.startswith("static ") or CONSTANT_LINE.match(line))
        constants, others = _declared(own + "\n" + static)
        # A macro would change what else has the name: members, and what GoogleTest makes of it.
        kept = set(MEMBER.findall(code)) | {word for use in GTEST_SUITE.findall(code) for word in ANY_WORD.findall(use)}
        kept |= {word for header in self.headers for word in _header(header)[1]}
        # Names of this shape are not those of variables, of which a structure may have one, too.
        self.own = {name for name in constants | others if name[0].isupper() or name in constants} - kept
        self.names = (constants | others) - self.own
        self.names |= {"_".join(test) for test in GTEST.findall(code)} | set(GTEST_NAMES.findall(code)) | set(MACRO.findall(text))
        self.words |= self.names
        self.words -= self.own
        self.has_macros = bool(MACRO.search(text))
        self.includes = ANY_INCLUDED.findall(text)


class _Batch:
    def __init__(self):
        self.sources: list[_Source] = []
        self.names: set[str] = set()
        self.words: set[str] = set()
        self.headers: set[pathlib.Path] = set()

    def fits(self, source: _Source) -> bool:
        """Whether no name of one is a word of another, or of a header that only the other includes."""
        if self.names & source.words or source.names & self.words:
            return False
        if any(source.names & _header(header)[0] for header in self.headers - source.headers):
            return False
        return not any(other.names & _header(header)[0] for other in self.sources
                       for header in source.headers - other.headers)

    def add(self, source: _Source) -> None:
        self.sources.append(source)
        self.names |= source.names
        self.words |= source.words
        self.headers |= source.headers


class Batches:
    """The sources of one list, in batches."""

    def __init__(self, sources: list[str], most: int = SOURCES_IN_BATCH):
        self.sources = {path: _Source(path) for path in sorted(set(sources))}
        count = collections.Counter(name for source in self.sources.values() for name in source.words | source.own)
        self.shared = {name for name, times in count.items() if times > 1}
        batches: list[_Batch] = []
        for source in self.sources.values():
            # The first that fits: a change to one source moves few others.
            batch = next((each for each in batches if len(each.sources) < most and each.fits(source)), None)
            if batch is None:
                batch = _Batch()
                batches.append(batch)
            batch.add(source)
        self.batches = [[source.path for source in batch.sources] for batch in batches]

    def file(self, batch: list[str]) -> str:
        """The text of a file that includes these."""
        if len(batch) == 1:
            return f'#include "{os.path.relpath(batch[0], ROOT)}"\n'
        # Headers come first, and keep their names. Not those of a source with macros, on which they may depend.
        lines = list(dict.fromkeys(line for path in batch if not self.sources[path].has_macros
                                   for line in self.sources[path].includes))
        of_headers = {word for path in batch for header in self.sources[path].headers for word in _header(header)[1]}
        for number, path in enumerate(batch):
            renamed = sorted(self.sources[path].own & (self.shared | of_headers))
            lines += [f"#define {name} {name}_{number}" for name in renamed]
            # As the compiler finds it from the root: the text is the same in every folder.
            lines.append(f'#include "{os.path.relpath(path, ROOT)}"')
            lines += [f"#undef {name}" for name in renamed]
        return "\n".join(lines) + "\n"


def write(folder: pathlib.Path, sources: list[str]) -> list[str]:
    """Writes the files of one list. Their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    batches = Batches(sources)
    files = []
    for number, batch in enumerate(batches.batches):
        file, text = folder / f"batch_{number}.cc", batches.file(batch)
        # What did not change is not compiled again.
        if not file.exists() or file.read_text() != text:
            file.write_text(text)
        files.append(str(file))
    return files


def main() -> int:
    if len(sys.argv) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    for line in sys.stdin:
        name, folder, *sources = line.rstrip("\n").split("\t")
        print(name, *write(pathlib.Path(folder), sources), sep="\t")
    return 0


if __name__ == "__main__":
    sys.exit(main())
