"""Checks with readelf that programs are hardened: PIE, full RELRO, stack protector, fortified calls.

Usage: hardening_test.py PROGRAM...
"""

import re
import subprocess
import sys
import unittest

programs: list[str] = []


def readelf(option: str, program: str) -> str:
    command = ["readelf", "--wide", option, program]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class HardeningTest(unittest.TestCase):
    def test_position_independent(self):
        for program in programs:
            with self.subTest(program):
                self.assertRegex(readelf("--file-header", program), r"Type:\s+DYN\b")
                self.assertRegex(readelf("--dynamic", program), r"\(FLAGS_1\).*\bPIE\b")

    def test_relocations_are_read_only(self):
        for program in programs:
            with self.subTest(program):
                self.assertRegex(readelf("--segments", program), r"(?m)^\s*GNU_RELRO\b")
                # Without this only a part of the relocations is done before they are protected.
                self.assertRegex(readelf("--dynamic", program), r"\bBIND_NOW\b|\(FLAGS_1\).*\bNOW\b")

    def test_stack_is_not_executable(self):
        for program in programs:
            with self.subTest(program):
                stack = re.search(r"GNU_STACK(?:\s+0x\S+){5}\s+(\S+)", readelf("--segments", program))
                self.assertIsNotNone(stack)
                self.assertEqual(stack.group(1), "RW")

    def test_libc_calls_are_checked(self):
        for program in programs:
            with self.subTest(program):
                imported = set(re.findall(r"UND (__\w+_chk|__stack_chk_fail)\b",
                                          readelf("--dyn-syms", program)))
                self.assertIn("__stack_chk_fail", imported)
                self.assertTrue(imported - {"__stack_chk_fail"}, "no fortified call")


if __name__ == "__main__":
    programs = sys.argv[1:]
    if not programs:
        sys.exit("usage: hardening_test.py PROGRAM...")
    unittest.main(argv=sys.argv[:1])
