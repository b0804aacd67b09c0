"""The checks of tests/suite/hygiene.py find what they are for, and only that."""

import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from tests.suite import hygiene, structure, unity  # pylint: disable=wrong-import-position
from tests.suite.batches import Batches  # pylint: disable=wrong-import-position

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
        (self.root / ".clang-tidy").write_text("Checks: '-*,bugprone-suspicious-semicolon'\nHeaderFilterRegex: 'daemon/.*'\n")
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

    def structure(self, files):
        """Findings where these files, by path, are added."""
        (self.root / "docs").mkdir(exist_ok=True)
        pages = dict.fromkeys(structure.MOST_WORDS, "A few words.\n")
        for name, text in {**pages, **files}.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text)
        return structure.findings(self.root)

    def test_includes_do_not_go_round(self):
        self.assertEqual(self.structure({"daemon/a.cc": '#include "daemon/a.h"\n', "daemon/b.h": "#include <a.h>\n",
                                         "daemon/a.h": '#pragma once\n#include "daemon/b.h"\n'}), [])
        comments = '// #include "daemon/a.h"\n/*\n#include "daemon/a.h"\n*/\n'
        self.assertEqual(self.structure({"daemon/b.h": comments}), [])
        self.assertEqual(self.structure({"daemon/b.h": '\n#include "daemon/a.h"\n'}),
                         ["daemon/b.h:2: includes go round in a cycle: daemon/a.h -> daemon/b.h -> daemon/a.h"])

    def test_includes_are_found_where_the_compiler_finds_them(self):
        self.assertEqual(self.structure({"bpf/abi/c.h": '#include "c.h"\n'}),
                         ["bpf/abi/c.h:1: includes go round in a cycle: bpf/abi/c.h -> bpf/abi/c.h"])
        self.assertEqual(self.structure({"bpf/abi/c.h": '#include "../source/a.h"\n', "bpf/b.h": '#include "abi/c.h"\n',
                                         "bpf/source/a.h": '#include "b.h"\n'}),
                         ["bpf/b.h:1: includes go round in a cycle: "
                          "bpf/abi/c.h -> bpf/source/a.h -> bpf/b.h -> bpf/abi/c.h"])

    def test_folders_do_not_go_round(self):
        start = "folders include each other in a cycle: client/a -> client/b (client/a/x.h:1), "
        self.assertEqual(self.structure({"client/main.cc": '#include "client/a/x.h"\n',
                                         "client/a/x.h": '#include "client/b/y.h"\n',
                                         "client/a/z.h": '#include "x.h"\n',
                                         "client/b/y.h": "",
                                         "client/b/w.cc": '#include "client/b/c/v.h"\n',
                                         "client/b/c/v.h": ""}), [])
        # In none of these is there a cycle of files.
        self.assertEqual(self.structure({"client/b/c/v.h": '\n#include "../../a/z.h"\n'}),
                         [f"client/b/c/v.h:2: {start}client/b -> client/b/c (client/b/w.cc:1), "
                          "client/b/c -> client/a (client/b/c/v.h:2)"])
        self.assertEqual(self.structure({"client/b/c/v.h": "", "client/b/w.cc": '#include "client/a/z.h"\n'}),
                         [f"client/b/w.cc:1: {start}client/b -> client/a (client/b/w.cc:1)"])
        self.assertEqual(self.structure({"client/b/w.cc": '#include "daemon/d/u.h"\n',
                                         "daemon/d/u.h": '#include "client/a/z.h"\n'}),
                         [f"daemon/d/u.h:1: {start}client/b -> daemon/d (client/b/w.cc:1), "
                          "daemon/d -> client/a (daemon/d/u.h:1)"])
        # Kernel programs may.
        self.assertEqual(self.structure({"client/b/w.cc": "", "bpf/map.h": "", "bpf/all.c": '#include "source/a.c"\n',
                                         "bpf/source/a.c": '#include "../map.h"\n'}), [])

    def test_sources_have_few_lines_of_code(self):
        comments = "/* A\n * comment. */\n\n// Another.\n  /* */ // and\n"
        self.assertEqual(self.structure({"client/a.cc": comments + "f(); // code\n" * 400}), [])
        self.assertEqual(self.structure({"client/a.cc": comments + "f(); // code\n" * 401}),
                         ["client/a.cc:406: 401 lines of code, at most 400: split the file"])
        # What looks like a comment, and is none.
        for line in ('f("/*");', "f('\"'); // \"", "n = 1'000; /* 'a */", 'f(R"(\n/*)");', 'f("\\"/*");'):
            found = self.structure({"client/a.cc": f"{line}\n" + "f();\n" * 400})
            self.assertEqual([one.partition(",")[0].rpartition(": ")[2] for one in found],
                             [f"{401 + line.count(chr(10))} lines of code"], line)

    def test_pages_are_short(self):
        architecture, governor = "docs/architecture.md", "docs/governor.md"
        self.assertEqual(self.structure({governor: "word | " * 300, architecture: "word\n" * 1200}), [])
        self.assertEqual(self.structure({governor: "word " * 601, architecture: "word " * 1201}),
                         [f"{architecture}:1: 1201 words, at most 1200: move some to docs/architecture-details.md",
                          f"{governor}:1: 601 words, at most 600: move some to docs/governor-details.md"])
        (self.root / governor).unlink()
        self.assertIn(f"{governor}:1: the page is missing", structure.findings(self.root))

    def test_structure_is_checked_on_request(self):
        self.structure({"daemon/a.h": '#include "a.h"\n'})
        with contextlib.redirect_stdout(io.StringIO()) as out:
            self.assertEqual(hygiene.main(["--structure"]), 1)
        self.assertEqual(out.getvalue(), "daemon/a.h:1: includes go round in a cycle: daemon/a.h -> daemon/a.h\n")
        self.structure({"daemon/a.h": ""})
        self.assertEqual(hygiene.main(["--structure"]), 0)

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

    def test_sources_that_define_a_name_twice_are_read_together_if_it_can_be_renamed(self):
        own = "namespace {\nconstexpr int kSecond = 1;\nint Run(int n) { return n * kSecond; }\n}  // namespace\n"
        texts = {"a": own + "int Twice(int n) { return 2 * Run(n); }\n",
                 "b": "constexpr double kSecond = 2;\nstruct Run {};\n",
                 "c": "#include <cstdint>\nint32_t Twice(int n);\nint32_t Walk() { return Twice(3); }\n",
                 # A macro would change the member, too.
                 "d": "struct D { int Run() { return 1; } };\n" + own + "int Both(D d) { return d.Run() + Run(2); }\n"}
        for name, text in texts.items():
            (self.root / f"daemon/{name}.cc").write_text(text)
        sources = {name: str(self.root / f"daemon/{name}.cc") for name in texts}
        batches = Batches(list(sources.values()))
        self.assertEqual(batches.batches, [[sources["a"], sources["b"], sources["c"]], [sources["d"]]])
        together = self.root / "together.cc"
        together.write_text(batches.file(batches.batches[0]))
        self.assertEqual(together.read_text().splitlines()[:3],
                         ["#include <cstdint>", "#define Run Run_0", "#define kSecond kSecond_0"])
        subprocess.run(["clang++-19", "-fsyntax-only", together], check=True)

    def test_a_name_that_several_have_is_renamed_or_keeps_a_source_apart(self):
        (self.root / "daemon/h.h").write_text("#pragma once\nnamespace p { int Find(int n); constexpr int kMs = 1; }\n")
        (self.root / "daemon/test.h").write_text("#define TEST(suite, name) class suite##_##name##_Test {}\n")
        own = "namespace p {\nnamespace {\ntemplate <typename T = int>\nstatic T\nFind(T n) {\n  return n;\n}\n}  // namespace\n"
        texts = {"a": own + "int Own() { return Find(1); }\n}\n",
                 "b": '#include "daemon/h.h"\nint b = p::Find(2);\n',
                 "c": "namespace p {\nnamespace {\nconstexpr int kMs = 1000;\n}  // namespace\nint c = kMs;\n}\n",
                 "d": "constexpr int kMs = 1000;\nint d = kMs; // not Find\n",
                 # A macro would change the member, too, and what a header has.
                 "e": own + "struct E { int Find() { return 1; } };\nint e = E().Find() + Find(1);\n}\n",
                 "f": '#include "daemon/test.h"\nTEST(One, Adds);\n',
                 "g": '#include "daemon/test.h"\nTEST(One, Adds);\n',
                 "i": '#include "daemon/test.h"\nTEST(One, Subtracts);\n'}
        sources = {name: str(self.root / f"daemon/{name}.cc") for name in texts}
        for name, text in texts.items():
            pathlib.Path(sources[name]).write_text(text)
        with mock.patch("tests.suite.unity.ROOT", self.root):
            self.assertEqual(["".join(pathlib.Path(source).stem for source in batch)
                              for batch in unity.Batches(list(sources.values())).batches], ["abcdfi", "eg"])
            self.assertEqual(unity.Batches([sources[name] for name in "abcd"], 3).batches,
                             [[sources[name] for name in "abc"], [sources["d"]]])
            batches = unity.Batches([sources[name] for name in "abcdfi"])
            text = batches.file(batches.batches[0])
        self.assertNotIn(str(self.root), text)
        together = self.root / "together.cc"
        together.write_text(text)
        self.assertEqual(together.read_text().splitlines()[:3],
                         ['#include "daemon/h.h"', '#include "daemon/test.h"', "#define Find Find_0"])
        self.assertIn("#define kMs kMs_2", together.read_text())
        subprocess.run(["clang++-19", "-fsyntax-only", "-I", self.root, together], check=True)

    def test_what_does_not_compile_together_is_read_alone(self):
        for name in "ab":  # A name that the beginning of the line does not show.
            (self.root / f"daemon/{name}.cc").write_text(f"extern int x; int Both() {{ return {ord(name)}; }}\n")
        (self.root / "daemon/b.cc").write_text((self.root / "daemon/b.cc").read_text() +
                                               "void Check(bool x) {\n  if (x);\n}\n")
        self.build("a", "b")
        found = hygiene.clang_tidy(self.root / "build")
        self.assertEqual([line.split(": ")[0] for line in found], ["daemon/b.cc:3"])

    def build(self, *names):
        """Compiles the sources as CMake with Ninja does."""
        folder = self.root / "build"
        folder.mkdir(exist_ok=True)
        rules, entries = "rule compile\n  command = $line\n  depfile = $out.d\n  deps = gcc\n", []
        for name in names or ("a",):
            source, output = self.root / f"daemon/{name}.cc", f"{name}.o"
            command = f"clang++-19 -MD -MF {output}.d -o {output} -c {source}"
            rules += f"build {output}: compile {source}\n  line = {command}\n"
            entries.append({"directory": str(folder), "command": command, "file": str(source)})
        (folder / "build.ninja").write_text(rules)
        (folder / "compile_commands.json").write_text(json.dumps(entries))
        hygiene._digest.cache_clear()
        subprocess.run(["ninja", "-C", folder], check=True, capture_output=True)


if __name__ == "__main__":
    unittest.main()
