#!/usr/bin/env python3
"""The results file, and what is compared of two of them. Nothing is measured."""

import argparse
import contextlib
import io
import json
import os
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from profdbench import compare, lines

WHERE = {"commit": "abc", "date": "2026-01-02 03:04", "kernel": "6.1", "machine": "m",
         "protocol": "slices"}


def overhead(tool="profd", workload="pgbench", **fields):
    return {"kind": "overhead", "workload": workload, "tool": tool, **WHERE,
            "ratio": [0.99, 0.985, 0.995], **fields}


def point(asked, **fields):
    return {"kind": "point", "curve": "threads", "asked": asked, **WHERE, "x": 17, **fields}


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.path = os.path.join(folder.name, "r.jsonl")

    def text(self):
        with open(self.path, encoding="utf-8") as file:
            return file.read().splitlines()

    def test_a_row_takes_the_place_of_its_former_line(self):
        lines.check_writable(self.path)
        lines.save(self.path, [overhead("perf"), overhead("profd"), point(10), point(5000)])
        before = self.text()
        lines.save(self.path, [overhead("profd", date="2026-02-02 03:04")])
        after = self.text()
        self.assertEqual(len(before), 4)
        changed = [number for number in range(4) if before[number] != after[number]]
        self.assertEqual(len(changed), 1)
        self.assertEqual(json.loads(after[changed[0]])["date"], "2026-02-02 03:04")
        self.assertEqual(os.listdir(self.folder), ["r.jsonl"])

    def test_points_are_in_order_of_their_size(self):
        lines.save(self.path, [point("max"), point(1000), point(90), point(5)])
        self.assertEqual([json.loads(one)["asked"] for one in self.text()], [5, 90, 1000, "max"])

    def test_numbers_are_short(self):
        self.assertEqual(lines.rounded({"a": [0.123456789, 1e9 / 3, 7], "b": 2.0, "c": "x"}),
                         {"a": [0.12346, 333330000, 7], "b": 2, "c": "x"})
        with self.assertRaises(ValueError):
            lines.text_of({"a": float("nan")})

    def test_unknown_fields_are_kept(self):
        lines.save(self.path, [overhead(future=[1, 2])])
        lines.save(self.path, [overhead("perf")])
        self.assertEqual(lines.load(self.path)[1]["future"], [1, 2])

    def test_other_files_are_not_overwritten(self):
        for text in ('{"precious": 1}\n', "hello\n", "[1]\n", '{"kind": "overhead"}\n', "\n",
                     lines.text_of(overhead()) + "\n" + lines.text_of(overhead()) + "\n"):
            with open(self.path, "w", encoding="utf-8") as file:
                file.write(text)
            with self.assertRaises(lines.BadFile):
                lines.check_writable(self.path)
            with self.assertRaises(lines.BadFile):
                lines.save(self.path, [overhead("perf")])
            self.assertEqual("\n".join(self.text()), text.rstrip("\n"))
        with self.assertRaises(lines.BadFile):
            lines.check_writable(os.path.join(self.folder, "none", "r.jsonl"))

    def test_where(self):
        found = lines.here()
        self.assertEqual(set(found), {"commit", "date", "kernel", "machine", "load_before"})
        self.assertEqual(found["kernel"], os.uname().release)


class Compare(unittest.TestCase):
    def verdicts(self, old, new):
        return {(change["where"], change["metric"]): change["verdict"]
                for change in compare.compare(old, new)["changes"]}

    def ratio(self, old, new, *others):
        return self.verdicts([overhead(ratio=old), *others],
                             [overhead(ratio=new), *others])["pgbench, profd", "ratio"]

    def test_ratio(self):
        good, bad = [0.99, 0.988, 0.992], [0.96, 0.958, 0.962]
        self.assertEqual(self.ratio(good, bad), "worse")
        self.assertEqual(self.ratio(bad, good), "better")
        self.assertEqual(self.ratio(good, good), "unchanged")

    def test_noise_is_no_change(self):
        self.assertEqual(self.ratio([0.99, 0.95, 1.03], [0.96, 0.92, 1.0]), "unchanged")
        self.assertEqual(self.ratio([0.99], [0.5]), "unchanged")

    def test_a_sure_but_small_change_stays_below_the_floor(self):
        self.assertEqual(self.ratio([0.99, 0.9899, 0.9901], [0.987, 0.9869, 0.9871]), "unchanged")

    def test_what_none_is_off_is_the_floor(self):
        none = overhead("none", ratio=[1.04, 1.03, 1.05])
        self.assertEqual(self.ratio([0.99, 0.988, 0.992], [0.96, 0.958, 0.962], none), "unchanged")

    def test_latency_is_worse_when_it_grows(self):
        old = overhead(p99_ratio=[1.0, 0.99, 1.01])
        new = overhead(p99_ratio=[1.2, 1.19, 1.21])
        self.assertEqual(self.verdicts([old], [new])["pgbench, profd", "p99_ratio"], "worse")

    def test_other_protocols_are_not_judged(self):
        found = compare.compare([overhead()], [overhead(protocol="segments")])
        self.assertEqual(found["changes"], [])
        self.assertEqual(found["notes"], [
            "pgbench, profd: not judged, measured as slices and as segments"])

    def test_single_values_have_a_share_and_a_floor(self):
        for old, new, verdict in ((30, 34, "worse"), (34, 30, "better"), (30, 32, "unchanged"),
                                  (2, 2.4, "unchanged")):
            self.assertEqual(self.verdicts([point(1, rss_mib=old)], [point(1, rss_mib=new)]),
                             {("point, threads, 1", "rss_mib"): verdict})

    def test_disturbed_points_are_judged_by_memory_alone(self):
        old = [point(1, daemon_cpu=0.01, rss_mib=30)]
        new = [point(1, daemon_cpu=0.5, rss_mib=30, disturbed=True)]
        self.assertEqual(self.verdicts(old, new), {("point, threads, 1", "rss_mib"): "unchanged"})
        self.assertTrue(compare.compare(old, new)["notes"])
        new[0]["disturbed"] = False
        self.assertEqual(self.verdicts(old, new)["point, threads, 1", "daemon_cpu"], "worse")

    def test_rows_in_one_file_and_other_machines_are_said(self):
        found = compare.compare([overhead(), overhead("perf")], [{**overhead(), "kernel": "6.2"}])
        self.assertEqual(found["notes"], ["pgbench, perf: only in the old file"])
        self.assertEqual(found["warnings"], ["kernel differs: 6.1 and 6.2"])

    def exit_code(self, old, new, form="text"):
        with tempfile.TemporaryDirectory() as folder:
            paths = []
            for name, rows in (("old", old), ("new", new)):
                paths.append(os.path.join(folder, name))
                with open(paths[-1], "w", encoding="utf-8") as file:
                    file.write(rows if isinstance(rows, str)
                               else "".join(json.dumps(row) + "\n" for row in rows))
            output = io.StringIO()
            with contextlib.redirect_stdout(output), contextlib.redirect_stderr(io.StringIO()):
                code = compare.main(argparse.Namespace(old=paths[0], new=paths[1], format=form))
            return code, output.getvalue()

    def test_exit_codes(self):
        good, bad = ([overhead(ratio=[value, value - 0.001, value + 0.001])]
                     for value in (0.99, 0.9))
        self.assertEqual(self.exit_code(good, good)[0], 0)
        self.assertEqual(self.exit_code(bad, good)[0], 0)
        code, text = self.exit_code(good, bad)
        self.assertEqual(code, 1)
        self.assertEqual(text.splitlines()[2].split(),
                         ["worse", "pgbench,", "profd", "ratio", "0.990", "0.900"])
        self.assertEqual(json.loads(self.exit_code(good, bad, "json")[1])["counts"]["worse"], 1)

    def test_bad_files(self):
        good = [overhead()]
        for bad in ("{", "[]\n", "{}\n", "[" * 100000, [{**overhead(), "ratio": "x"}],
                    [{**overhead(), "ratio": [-1, 0, 0]}], [{"kind": "overhead"}]):
            self.assertEqual(self.exit_code(good, bad)[0], 2, str(bad)[:80])
            self.assertEqual(self.exit_code(bad, good)[0], 2, str(bad)[:80])


if __name__ == "__main__":
    unittest.main()
