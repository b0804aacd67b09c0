"""Tests of the guests' image and of the table of docs/kernels.md."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.harness import scenario, settings  # pylint: disable=wrong-import-position
from tests.vm import image, table  # pylint: disable=wrong-import-position


class Image(unittest.TestCase):
    def test_archive_unpacks(self):
        archive = image.Archive()
        archive.file("/a/b/odd", b"12345", 0o644)
        archive.file("/a/program", b"#!/bin/sh\n")
        archive.folder("empty")
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["cpio", "-id", "--quiet"], input=archive.data(), cwd=folder, check=True)
            self.assertEqual((Path(folder) / "a/b/odd").read_bytes(), b"12345")
            self.assertEqual((Path(folder) / "a/program").stat().st_mode & 0o777, 0o755)
            self.assertTrue((Path(folder) / "empty").is_dir())

    def test_programs_of_scenarios(self):
        target = scenario.Target(["sh", "-c", "exec {build}/waiter naps"])
        some = scenario.Scenario(name="x", about="", target=[target])
        self.assertEqual(image.programs([some]), ["sh", "waiter"])

    def test_the_guest_s_python_is_whole(self):
        names = {path.stem for path in image.modules()}
        self.assertLessEqual({"runpy", "_abc", "thread", "subprocess", "threading"}, names)


class Guests(unittest.TestCase):
    def test_every_guest_runs_what_may_differ_between_kernels(self):
        every = scenario.load_all()
        marked = [each for each in every if each.kernels]
        self.assertTrue(marked)
        cover = settings.cover(every)
        for setting in settings.SETTINGS:
            if setting.inside in settings.GUESTS:
                for each in marked:
                    self.assertEqual((each, setting) in cover, settings.fits(each, setting) == "")

    def test_what_a_guest_lacks_is_not_asked_of_it(self):
        some = scenario.Scenario(name="x", about="", facts=["kernel.uprobe_multi"])
        self.assertNotEqual(settings.fits(some, settings.BY_NAME["linux-6.1"]), "")
        self.assertEqual(settings.fits(some, settings.BY_NAME["linux-6.12"]), "")


PAGE = "| `linux-6.1` | `6.1.0-1` | all 2 passed | 99.0% whole, 1.0% raced | `torn_walk` |\n"


class Table(unittest.TestCase):
    def found(self, *results):
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            for changes in results:
                result = {"scenario": "naps", "setting": "linux-6.1", "outcome": "passed", "kernel": "6.1.0-1",
                          "losses": {"torn_walk": 2}, **changes}
                file.write(json.dumps(result) + "\n")
            file.flush()
            return table.observed([Path(file.name)])

    def wrong(self, *results):
        return len(table.differences(PAGE, self.found(*results), ["linux-6.1"]))

    def test_check(self):
        self.assertEqual(self.wrong({}), 0)
        self.assertEqual(self.wrong({"kernel": "6.1.0-2"}), 0)
        self.assertEqual(self.wrong({"outcome": "failed"}), 1)
        self.assertEqual(self.wrong({"losses": {"store_full": 1}}), 1)
        self.assertEqual(self.wrong({"losses": {"wait_duration_lost": 1}}), 0)
        self.assertEqual(self.wrong({"kernel": "6.2.0-1"}), 1)
        self.assertEqual(self.wrong({}, {"setting": "linux-6.12", "kernel": "6.12.1"}), 1)
        self.assertEqual(self.wrong(), 1)

    def test_row_is_read_back(self):
        weights = {"complete": 98, "[torn walk]": 2}
        row = self.found({"observed": {"weights_ns": weights}})["linux-6.1"].row()
        match = table.ROW.match(row)
        self.assertEqual(match["stacks"], "98.0% whole, 2.0% raced")
        self.assertEqual(match["lost"], "`torn_walk`")


if __name__ == "__main__":
    unittest.main()
