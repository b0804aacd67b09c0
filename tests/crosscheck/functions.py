"""Which function an address belongs to, by binutils and /proc/kallsyms: independent of what is compared."""

import bisect
import re
import subprocess
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

MAPPED = re.compile(r"PERF_RECORD_MMAP2? (-?\d+)/\d+: \[(0x[0-9a-f]+)\((0x[0-9a-f]+)\) @ (0x[0-9a-f]+|0) [^\]]*\]: (\S+) (.*)$")


@dataclass(frozen=True)
class Function:
    module: str
    offset: int  # of its first byte in the file; -1: none is known
    names: frozenset = field(compare=False)

    def label(self):
        if not self.names:
            return f"{self.module}: no symbol"
        name = min(demangled(self.names), key=lambda each: (each.startswith("_"), len(each), each))
        return f"{self.module}: {name}" if len(name) <= 60 else f"{self.module}: {name[:59]}…"


def demangled(names):
    done = subprocess.run(["c++filt"], input="\n".join(sorted(names)), capture_output=True, text=True, check=True)
    return {plain(name) for name in done.stdout.splitlines()}


def plain(name):
    """Without what differs between ways to write the same name: arguments, spaces, a hash, a version, what a compiler adds."""
    name = re.sub(r"::h[0-9a-f]{16}$|@.*$|\.(isra|constprop|part|cold|llvm)\b.*$|(?<=\w)\[[0-9a-f]{6,16}\]|\s+", "", name)
    return re.sub(r"(?<=[^:(])\((?!anonymous).*$", "", name)


def is_one_of(said, names):
    """Whether a name is that of a function with these symbols. Only c++filt writes what a template returns."""
    return any(name.endswith(plain(said)) for name in demangled(names))


class Table:
    """Functions of a file, or of the kernel, by address."""

    def __init__(self, module, symbols):
        """`symbols`: (first, last + 1, name), of which last + 1 may be 0."""
        names, ends = defaultdict(set), defaultdict(int)
        for first, end, name in symbols:
            names[first].add(name)
            ends[first] = max(ends[first], end)
        self._module, self._firsts = module, sorted(names)
        self._found = [Function(module, first, frozenset(names[first])) for first in self._firsts]
        following = [*self._firsts[1:], 1 << 64]
        self._ends = [ends[first] if ends[first] > first else after for first, after in zip(self._firsts, following)]

    def at(self, address):
        index = bisect.bisect_right(self._firsts, address) - 1
        if index < 0 or address >= self._ends[index]:
            return Function(self._module, -1, frozenset())
        return self._found[index]


def kernel_table():
    symbols = []
    with open("/proc/kallsyms", encoding="ascii", errors="replace") as file:
        for line in file:
            address, kind, name = line.split()[:3]
            if kind in "tTwW":
                symbols.append((int(address, 16), 0, name))
    return Table("kernel", symbols)


def file_table(path):
    """By the symbol tables of a file. Addresses are offsets in it."""
    def readelf(option):
        return subprocess.run(["readelf", "-W", option, path], capture_output=True, text=True, check=False,
                              errors="replace").stdout.splitlines()
    segments = [tuple(int(word, 16) for word in line.split()[1:6]) for line in readelf("-l")
                if line.split()[:1] == ["LOAD"]]

    def offset_of(address):
        return next((offset + address - begin for offset, begin, _, size, _ in segments
                     if begin <= address < begin + size), None)
    symbols = []
    for line in readelf("-s"):
        words = line.split()
        if len(words) < 8 or words[3] not in ("FUNC", "IFUNC", "GNU_IFUNC") or words[6] == "UND":
            continue
        first = offset_of(int(words[1], 16))
        if first is not None:
            symbols.append((first, first + int(words[2], 0), words[7]))
    return Table(Path(path).name, symbols)


class Functions:
    """Of all that runs."""

    def __init__(self):
        self._kernel, self._files = kernel_table(), {}

    def in_kernel(self, address):
        return self._kernel.at(address)

    def in_file(self, path, offset):
        name = Path(path).name
        if name not in self._files:
            self._files[name] = file_table(path) if Path(path).is_file() else Table(name, [])
        return self._files[name].at(offset)


class Mappings:
    """Which file is where in processes, from perf's records."""

    def __init__(self):
        self._of = defaultdict(list)

    def read(self, line):
        """Whether it is such a record."""
        found = MAPPED.search(line)
        if not found:
            return False
        pid, begin, size, offset, flags, path = found.groups()
        if "x" in flags:
            self._of[int(pid)].append((int(begin, 16), int(begin, 16) + int(size, 16), int(offset, 16), path))
        return True

    def place(self, pid, address):
        """(path, offset) of the newest mapping, or None."""
        for begin, end, offset, path in reversed(self._of.get(pid, ())):
            if begin <= address < end:
                return path, offset + address - begin
        return None
