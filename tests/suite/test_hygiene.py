"""The checks of tests/suite/hygiene.py find what they are for, and only that."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from tests.suite import hygiene  # pylint: disable=wrong-import-position

CLEAN = "int Twice(int n) { return 2 * n; }\n"


class HygieneTest(unittest.TestCase):
    def setUp(self):
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        self.root = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.enter_context(mock.patch.object(hygiene, "ROOT", self.root))
        stack.enter_context(mock.patch.dict(os.environ, XDG_CACHE_HOME=str(self.root / "cache")))
        hygiene._digest.cache_clear()
        (self.root / "daemon").mkdir()
        (self.root / ".clang-format").write_text("BasedOnStyle: Google\n")
        (self.root / ".clang-tidy").write_text("Checks: '-*,bugprone-suspicious-semicolon'\n")
        self.source = self.root / "daemon/a.cc"

    def test_format(self):
        self.source.write_text(CLEAN)
        self.assertEqual(hygiene.clang_format(), [])
        self.source.write_text(CLEAN + "int  Thrice(int n) { return 3 * n; }\n")
        found = hygiene.clang_format()
        self.assertEqual([line.split(": ")[0] for line in found], ["daemon/a.cc:2"])

    def test_spelling(self):
        self.source.write_text(CLEAN)
        self.assertEqual(hygiene.spelling(), [])
        self.source.write_text(CLEAN + "// " + "rec" + "ieve\n")
        self.assertEqual([line.split(": ")[0] for line in hygiene.spelling()], ["daemon/a.cc:2"])

    def test_tidy(self):
        self.source.write_text(CLEAN)
        with self.assertRaises(hygiene.CheckFailed):  # There is no build.
            hygiene.clang_tidy(self.root / "build")
        self.build()
        self.assertEqual(hygiene.clang_tidy(self.root / "build"), [])
        self.source.write_text("void Run();\nvoid Check(bool x) {\n  if (x);\n  Run();\n}\n")
        self.build()
        found = hygiene.clang_tidy(self.root / "build")
        self.assertEqual([line.split(": ")[0] for line in found], ["daemon/a.cc:3"])
        with mock.patch.object(hygiene, "CLANG_TIDY", "clang-tidy-19"), \
             mock.patch.object(hygiene, "_run", wraps=hygiene._run) as run:
            self.assertEqual(hygiene.clang_tidy(self.root / "build"), found)
        self.assertNotIn("--quiet", [word for call in run.call_args_list for word in call.args[0]])

    def build(self):
        """Compiles the source as CMake with Ninja does."""
        folder = self.root / "build"
        folder.mkdir(exist_ok=True)
        command = f"clang++-19 -MD -MF a.o.d -o a.o -c {self.source}"
        (folder / "build.ninja").write_text(
            f"rule compile\n  command = {command}\n  depfile = a.o.d\n  deps = gcc\n"
            f"build a.o: compile {self.source}\n")
        (folder / "compile_commands.json").write_text(json.dumps(
            [{"directory": str(folder), "command": command, "file": str(self.source)}]))
        hygiene._digest.cache_clear()
        subprocess.run(["ninja", "-C", folder], check=True, capture_output=True)


if __name__ == "__main__":
    unittest.main()
