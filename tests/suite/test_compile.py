"""tests/suite/compile lets ccache find in one folder what clang compiled in another, and nothing else."""

import os
import pathlib
import subprocess
import tempfile
import unittest

COMPILE = pathlib.Path(__file__).with_name("compile")
SLOPPINESS = "pch_defines,time_macros,include_file_mtime,include_file_ctime"


class CompileTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def compile(self, name, header, flags=(), source="2 * kValue", later=None):
        """Compiles a precompiled header and a source that uses it, as CMake does, in the folder `name`.

        `later`: what the header's file says once it is precompiled, or that was put off.

        True when ccache had the source's object: then, and only then, the header was not compiled."""
        tree = self.root / name
        build = tree / "build"
        build.mkdir(parents=True)
        (tree / "own.h").write_text(header)
        (build / "pch.hxx").write_text('#include "own.h"\n')
        (build / "pch.cxx").write_text("")
        (build / "a.cc").write_text(f"int Twice() {{ return {source}; }}\n")
        results = tree / "results"
        environment = {**os.environ, "CCACHE_DIR": str(self.root / "cache"),
                       "XDG_CACHE_HOME": str(self.root / "cache"), "CCACHE_SLOPPINESS": SLOPPINESS,
                       "CCACHE_PCH_EXTSUM": "true", "CCACHE_STATSLOG": str(results),
                       "CCACHE_BASEDIR": str(tree), "CCACHE_NOHASHDIR": "1"}  # as tests/run has them
        launcher = [COMPILE, tree, "ccache", "clang++-19", "-I", tree, *flags]
        timeless = ["-Xclang", "-fno-pch-timestamp"]

        def run(*words):
            results.write_text("")
            subprocess.run([*launcher, *timeless, *words], cwd=build, env=environment, check=True)

        run("-Xclang", "-emit-pch", "-Xclang", "-include", "-Xclang", build / "pch.hxx", "-x", "c++-header", "-MD", "-MT",
            "pch", "-MF", "pch.d", "-o", "pch.hxx.pch", "-c", build / "pch.cxx")
        made = (build / "pch.hxx.pch").stat()
        (tree / "own.h").write_text(later or header)
        run("-Xclang", "-include-pch", "-Xclang", build / "pch.hxx.pch", "-Xclang", "-include", "-Xclang",
            build / "pch.hxx", "-MD", "-MT", "a.o", "-MF", "a.d", "-o", "a.o", "-c", build / "a.cc")
        compiled = (build / "pch.hxx.pch").read_bytes()
        found = "cache_hit" in results.read_text()
        if found:
            self.assertEqual(compiled, b"")
        else:
            self.assertIn(os.fsencode(build), compiled, "a header of another folder")
            self.assertEqual(made.st_mtime_ns == (build / "pch.hxx.pch").stat().st_mtime_ns, later is None)
        return found

    def test_another_folder_finds_what_is_the_same(self):
        self.assertFalse(self.compile("one", "constexpr int kValue = 1;\n"))
        self.assertTrue(self.compile("two", "constexpr int kValue = 1;\n"))

    def test_another_header_or_flag_is_compiled(self):
        self.assertFalse(self.compile("one", "constexpr int kValue = 1;\n"))
        self.assertFalse(self.compile("two", "constexpr int kValue = 2;\n"))
        self.assertFalse(self.compile("three", "constexpr int kValue = 1;\n", ["-DTHREE"]))

    def test_another_source_gets_its_header(self):
        self.assertFalse(self.compile("one", "constexpr int kValue = 1;\n", ["-DNAME=it's"]))
        self.assertFalse(self.compile("two", "constexpr int kValue = 1;\n", ["-DNAME=it's"], "3 * kValue"))
        self.assertTrue(self.compile("three", "constexpr int kValue = 1;\n", ["-DNAME=it's"], "3 * kValue"))

    def test_a_header_that_changed_meanwhile_is_not_taken_for_the_old_one(self):
        self.assertFalse(self.compile("one", "constexpr int kValue = 1;\n"))
        self.assertFalse(self.compile("two", "constexpr int kValue = 1;\n", source="3 * kValue",
                                      later="constexpr int kValue = 2;\n"))
        self.assertFalse(self.compile("three", "constexpr int kValue = 1;\n", source="3 * kValue"))
        self.assertTrue(self.compile("four", "constexpr int kValue = 1;\n", source="3 * kValue"))

    def test_a_failure_is_one(self):
        with self.assertRaises(subprocess.CalledProcessError):
            self.compile("one", "constexpr int kValue = ;\n")


if __name__ == "__main__":
    unittest.main()
