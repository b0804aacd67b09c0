"""Opens the golden flame graphs in headless Chromium and uses them as a person would.

usage: flamegraph_test.py GOLDEN_DIRECTORY
PROFD_SCREENSHOTS=DIRECTORY keeps pictures of what was seen.
"""

import os
import re
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
from webdriver import Browser, missing_programs  # noqa: E402

SKIPPED = 77
golden = ""

# Every drawn frame: name, what it says, where it lies, and how it looks.
FRAMES = """
return Array.from(document.querySelectorAll('#frames > g'), (group) => {
  const rect = group.querySelector('rect');
  const text = group.querySelector('text');
  return {
    group, name: group.querySelector('title').textContent.split('\\n')[0],
    title: group.querySelector('title').textContent,
    start: Number(group.dataset.s), end: Number(group.dataset.e), depth: Number(group.dataset.d),
    shown: group.style.display !== 'none', x: rect.x.baseVal.value, y: rect.y.baseVal.value,
    width: rect.width.baseVal.value, text: text ? text.textContent : '',
    textWidth: text ? text.getComputedTextLength() : 0,
    match: group.classList.contains('match'), outer: group.classList.contains('outer'),
    fill: getComputedStyle(rect).fill,
    focused: document.activeElement === group,
  };
});
"""


class FlameGraphTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()

    def setUp(self):
        self.open("server.svg")

    def open(self, name):
        self.browser.open(os.path.join(golden, name))

    def frames(self):
        return self.browser.run(FRAMES)

    def frame(self, part):
        found = [frame for frame in self.frames() if part in frame["name"]]
        self.assertTrue(found, part)
        return max(found, key=lambda frame: frame["end"] - frame["start"])

    def picture_width(self):
        return self.browser.run("return document.documentElement.width.baseVal.value") - 20

    def text_of(self, element_id):
        return self.browser.run(f"return document.getElementById('{element_id}').textContent")

    def keep(self, name):
        directory = os.environ.get("PROFD_SCREENSHOTS")
        if directory:
            self.browser.save_screenshot(os.path.join(directory, name + ".png"))

    def assert_share(self, frames, whole):
        """The matched share shown is that of the union of `frames` in `whole`."""
        covered = 0
        end = whole["start"]
        for frame in sorted(frames, key=lambda frame: (frame["start"], frame["depth"])):
            covered += max(0, frame["end"] - max(end, frame["start"]))
            end = max(end, frame["end"])
        share = 100 * covered / (whole["end"] - whole["start"])
        shown = re.match(r"matched ([\d.]+)%", self.text_of("matched"))
        self.assertTrue(shown, self.text_of("matched"))
        self.assertAlmostEqual(float(shown.group(1)), share, delta=0.051)
        return share

    def test_frames_are_drawn(self):
        self.keep("initial")
        frames = self.frames()
        self.assertGreater(len(frames), 50)
        self.assertEqual(frames[0]["name"], "all")
        self.assertAlmostEqual(frames[0]["width"], self.picture_width(), delta=0.1)
        total = frames[0]["end"]
        for frame in frames:
            expected = (frame["end"] - frame["start"]) / total * self.picture_width()
            self.assertAlmostEqual(frame["width"], expected, delta=0.02, msg=frame["name"])
            self.assertLessEqual(frame["textWidth"], max(frame["width"], 0.1), frame["name"])
        above = {frame["depth"]: frame["y"] for frame in frames}
        self.assertEqual([above[depth] for depth in sorted(above)], sorted(above.values())[::-1])
        self.assertEqual(self.browser.run("return document.title"), "Off-CPU time: reth (4242)")

    def test_hostile_name_is_text(self):
        self.assertTrue(self.frame("evil<\"&'>;?[31m?name")["shown"])

    def test_kinds_have_colours(self):
        kinds = ["mdbx_txn_commit", "RawMutex::lock_slow", "fdatasync", "ext4_sync_file", "[lock]"]
        colours = {self.frame(kind)["fill"] for kind in kinds}
        self.assertEqual(len(colours), len(kinds))
        self.assertNotIn("rgb(0, 0, 0)", {frame["fill"] for frame in self.frames()})

    def test_hover_says_value_share_and_error(self):
        self.browser.move_to(self.frame("mdbx_txn_commit")["group"])
        self.assertEqual(self.text_of("what"), "mdbx_txn_commit")
        self.assertRegex(
            self.text_of("detail"), r"^38\.0 s ± 420 ms, 32\.\d% ± 0\.4% of all · "
            r"38,000,000,000 ns · application, reth$")

    def test_click_zooms_and_reset_restores(self):
        before = self.frames()
        target = self.frame("mdbx_txn_commit")
        self.browser.click(target["group"])
        self.keep("zoomed")
        for frame in self.frames():
            outer = (frame["depth"] <= target["depth"] and frame["start"] <= target["start"]
                     and target["end"] <= frame["end"])
            inner = (frame["depth"] > target["depth"] and frame["start"] >= target["start"]
                     and frame["end"] <= target["end"])
            self.assertEqual(frame["shown"], outer or inner, frame["name"])
            if outer:
                self.assertAlmostEqual(frame["width"], self.picture_width(), delta=0.1)
        self.assertEqual(self.frame("mdbx_txn_commit")["text"], "mdbx_txn_commit")
        self.browser.click(self.browser.run("return document.getElementById('reset')"))
        for old, new in zip(before, self.frames()):
            for key in ("shown", "x", "width", "text"):
                self.assertEqual(old[key], new[key], old["name"])

    def test_narrow_frame_gets_its_name_by_zooming(self):
        self.assertEqual(self.frame("ActiveSession::poll")["text"], "")
        self.browser.run("arguments[0].dispatchEvent(new MouseEvent('click', {bubbles: true}))",
                         self.frame("ActiveSession::poll")["group"])
        self.assertIn("ActiveSession::poll", self.frame("ActiveSession::poll")["text"])

    def test_search_marks_and_counts_nested_matches_once(self):
        self.browser.press("/")
        self.browser.type("persistence")
        self.keep("searched")
        frames = self.frames()
        hits = [frame for frame in frames if "persistence" in frame["name"].lower()]
        self.assertGreater(len({frame["depth"] for frame in hits}), 2)  # nested in each other
        for frame in frames:
            self.assertEqual(frame["match"], frame in hits, frame["name"])
            if frame["match"]:
                self.assertEqual(frame["fill"], "rgb(194, 24, 194)")
        share = self.assert_share(hits, frames[0])
        self.assertLess(share, 50)

    def test_search_in_separate_branches_adds_up(self):
        self.browser.press("Control", "f")
        self.browser.type("^io_schedule$|lock_slow")
        frames = self.frames()
        self.assert_share([frame for frame in frames if frame["match"]], frames[0])
        self.assertEqual(sum(frame["match"] for frame in frames), 3)

    def test_search_counts_inside_of_the_zoom(self):
        whole = self.frame("storage")
        self.browser.click(whole["group"])
        self.browser.press("/")
        self.browser.type("storage|mdbx_page_get")
        self.assert_share([self.frame("storage")], whole)
        self.assertTrue(self.text_of("matched").startswith("matched 100.0%"))

    def test_search_that_is_no_regex_is_taken_literally(self):
        self.browser.press("/")
        self.browser.type("{{c")
        self.browser.type("(")
        self.assertEqual(self.text_of("matched"), "no match")
        self.browser.press("\ue003")  # Backspace
        self.assertTrue(self.text_of("matched").startswith("matched "))

    def test_escape_clears_the_search_first_then_the_zoom(self):
        self.browser.click(self.frame("mdbx_txn_commit")["group"])
        self.browser.press("/")
        self.browser.type("commit")
        self.assertTrue(any(frame["match"] for frame in self.frames()))
        self.browser.press("Escape")
        self.assertFalse(any(frame["match"] for frame in self.frames()))
        self.assertEqual(self.text_of("matched"), "")
        self.assertFalse(self.frame("storage")["shown"])
        self.browser.press("Escape")
        self.assertTrue(self.frame("storage")["shown"])

    def test_search_button_and_clear_button(self):
        self.browser.click(self.browser.run("return document.getElementById('find')"))
        self.browser.type("lock")
        self.assertTrue(any(frame["match"] for frame in self.frames()))
        self.browser.click(self.browser.run("return document.getElementById('clear')"))
        self.assertFalse(any(frame["match"] for frame in self.frames()))

    def test_keyboard_walks_and_zooms(self):
        def focused():
            return [frame["name"] for frame in self.frames() if frame["focused"]]

        for _ in range(8):
            self.browser.press("Tab")
            if focused():
                break
        self.assertEqual(focused(), ["all"])
        self.browser.press("ArrowUp")
        self.assertEqual(focused(), ["tokio-rt-worker"])  # the widest
        self.browser.press("ArrowLeft")
        self.assertEqual(focused(), ["storage"])
        self.browser.press("ArrowLeft")
        self.browser.press("ArrowRight")
        self.assertEqual(focused(), ["storage"])
        self.assertEqual(self.text_of("what"), "storage")
        self.browser.press("Enter")
        self.assertAlmostEqual(self.frame("storage")["width"], self.picture_width(), delta=0.1)
        self.assertFalse(self.frame("persistence")["shown"])
        self.browser.press("ArrowDown")
        self.assertEqual(focused(), ["all"])
        self.browser.press("Escape")
        self.assertTrue(self.frame("persistence")["shown"])

    def test_typing_searches(self):
        self.browser.type("fdatasync")
        self.assertEqual(self.browser.run("return document.getElementById('term').value"),
                         "fdatasync")
        hits = {frame["name"] for frame in self.frames() if frame["match"]}
        self.assertEqual(hits, {"fdatasync", "__x64_sys_fdatasync"})
        self.assertTrue(self.text_of("matched").startswith("matched "))
        self.browser.press("Escape")
        self.assertEqual(self.browser.run("return document.getElementById('term').value"), "")

    def state(self):
        zoomed = min((frame for frame in self.frames() if frame["shown"] and not frame["outer"]),
                     key=lambda frame: frame["depth"])
        return (zoomed["name"], self.browser.run("return document.getElementById('term').value"),
                sorted(frame["name"] for frame in self.frames() if frame["match"]))

    def test_link_restores_zoom_and_search(self):
        self.browser.click(self.frame("mdbx_txn_commit")["group"])
        self.browser.press("/")
        self.browser.type("a+b & c#|^fdatasync$")
        wanted = self.state()
        self.assertEqual(wanted[1:], ("a+b & c#|^fdatasync$", ["fdatasync"]))
        link = self.browser.run("return location.href")
        self.assertIn("#zoom=", link)
        self.browser.run("location.reload()")
        self.assertEqual(self.state(), wanted)
        matched = self.text_of("matched")
        self.open("idle.svg")  # somebody else, who was given the link
        self.browser.open_url(link)
        self.assertEqual(self.state(), wanted)
        self.assertEqual(self.text_of("matched"), matched)

    def test_back_and_forward(self):
        first = self.state()
        self.browser.click(self.frame("storage")["group"])
        second = self.state()
        self.browser.click(self.frame("mdbx_cursor_seek")["group"])
        third = self.state()
        self.browser.press("/")
        self.browser.type("handle")  # one step, not six
        fourth = self.state()
        self.assertEqual(len({str(state) for state in (first, second, third, fourth)}), 4)
        for wanted in (third, second, first):
            self.browser.back()
            self.assertEqual(self.state(), wanted)
        self.assertNotIn("#", self.browser.run("return location.href"))
        for wanted in (second, third, fourth):
            self.browser.forward()
            self.assertEqual(self.state(), wanted)

    def test_link_that_fits_no_frame_or_is_hostile(self):
        base = self.browser.run("return location.href")
        for fragment in ("zoom=0123456789abcdef", "zoom=constructor", "nonsense", "%", "zoom",
                         "search=%3Cscript%3Ealert(1)%3C/script%3E", "search=(((("):
            self.open("idle.svg")
            self.browser.open_url(base + "#" + fragment)
            self.assertEqual(self.state()[0], "all", fragment)
            self.assertEqual(self.browser.run("return document.scripts.length || "
                                              "document.querySelectorAll('script').length"), 1)

    def test_inverted_has_its_root_on_top(self):
        self.open("inverted.svg")
        self.keep("inverted")
        frames = self.frames()
        below = {frame["depth"]: frame["y"] for frame in frames}
        self.assertEqual([below[depth] for depth in sorted(below)], sorted(below.values()))
        self.assertEqual(below[1] - below[0], 22)
        self.assertEqual(self.browser.run("return window.scrollY"), 0)
        self.assertEqual(self.browser.run("return document.title"), "Icicle <of> \"reth\" & co")
        self.browser.click(self.frame("all")["group"])
        self.browser.press("ArrowDown")
        self.assertEqual([frame["name"] for frame in self.frames() if frame["focused"]],
                         ["tokio-rt-worker"])

    def test_reversed_begins_with_the_innermost(self):
        self.open("reversed.svg")
        self.keep("reversed")
        base = {frame["name"] for frame in self.frames() if frame["depth"] == 1}
        self.assertLessEqual({"[fsync]", "[lock]", "[fault]"}, base)
        self.assertEqual(self.picture_width(), 880)
        for frame in self.frames():
            self.assertGreaterEqual(frame["width"], 8.79, frame["name"])

    def boxes(self):
        """Where the parts of the head and the frames are, in pixels of the window."""
        return self.browser.run("""
          const all = ['.line', '#controls input', '#controls button', '#legend > g', '#what',
                       '#detail', '#frames'];
          return all.flatMap((selector) => Array.from(document.querySelectorAll(selector), (e) => {
            const b = e.getBoundingClientRect();
            return {name: selector, left: b.left, right: b.right, top: b.top, bottom: b.bottom};
          }));""")

    def test_nothing_overlaps_at_any_width(self):
        for width in (360, 480, 700, 1000, 1280, 1800):
            self.browser.resize(width, 900)
            for name in ("server.svg", "uncovered.svg"):
                self.open(name)
                self.keep(f"width-{width}-{name[:-4]}")
                boxes = self.boxes()
                inner = self.browser.run("return window.innerWidth")
                for i, one in enumerate(boxes):
                    self.assertLessEqual(one["right"], inner + 0.5, (width, name, one))
                    for other in boxes[i + 1:]:
                        apart = (one["right"] <= other["left"] + 1 or
                                 other["right"] <= one["left"] + 1 or
                                 one["bottom"] <= other["top"] + 4 or
                                 other["bottom"] <= one["top"] + 4)
                        self.assertTrue(apart, (width, name, one, other))
        self.browser.resize(1280, 760)

    def test_printed_page_is_white_whole_and_without_controls(self):
        for scheme in ("light", "dark"):
            self.browser.emulate("print", scheme)
            self.keep("print-" + scheme)
            look = self.browser.run("""
              const style = (id) => getComputedStyle(document.querySelector(id));
              return {paper: style('#paper').fill, controls: style('#controls').display,
                      title: style('.title').fill, frame: style('#frames rect').fill,
                      width: document.documentElement.getBoundingClientRect().width,
                      inner: window.innerWidth};""")
            self.assertEqual(look["paper"], "rgb(255, 255, 255)")
            self.assertEqual(look["title"], "rgb(27, 27, 31)")
            self.assertEqual(look["controls"], "none")
            self.assertLessEqual(look["width"], look["inner"])
        self.browser.emulate("", "")
        self.assertEqual(self.browser.pages(), 1)

    def test_nothing_but_idle_waits(self):
        self.open("idle.svg")
        self.keep("idle")
        said = self.browser.run("return Array.from(document.querySelectorAll('#empty text'), "
                                "(line) => line.textContent)")
        self.assertEqual(said, ["Only idle waits in this window.",
                                "58.0 s of idle waits is folded away; use --idle to see it."])
        self.browser.press("/")  # must not fail without frames
        self.browser.type("x")
        self.browser.press("Escape")
        self.assertEqual(self.frames(), [])

    def test_processes_are_the_base(self):
        self.open("processes.svg")
        self.keep("processes")
        base = [frame["name"] for frame in self.frames() if frame["depth"] == 1]
        self.assertEqual(sorted(base), ["pgbench (200)", "postgres (100)", "postgres (101)"])

    def test_memory_is_told_in_bytes(self):
        self.open("alloc.svg")
        self.keep("alloc")
        frames = self.frames()
        self.assertEqual(self.browser.run("return document.title"), "Memory allocated: reth (4242)")
        for frame in frames:
            bytes_, unit = re.search(r"\n([\d.]+) (B|KiB|MiB|GiB)", frame["title"]).groups()
            value = float(bytes_) * 1024 ** ["B", "KiB", "MiB", "GiB"].index(unit)
            width = frame["end"] - frame["start"]
            self.assertAlmostEqual(value / width, 1, delta=0.01, msg=frame["name"])
        target = self.frame("Arena::AllocateNewBlock")
        self.browser.run("arguments[0].dispatchEvent(new MouseEvent('click', {bubbles: true}))",
                         target["group"])
        self.assertAlmostEqual(self.frame("Arena::AllocateNewBlock")["width"],
                               self.picture_width(), delta=0.1)
        self.browser.press("/")
        self.browser.type("operator new")
        self.assertTrue(self.text_of("matched").startswith("matched 100.0%"))

    def test_memory_has_colours_of_its_own(self):
        def colours():  # of functions, not of what says that there are none
            return {frame["fill"] for frame in self.frames()
                    if frame["depth"] > 1 and not frame["name"].startswith("[")}

        waiting = colours()
        self.open("alloc.svg")
        allocating = colours()
        self.assertGreater(len(allocating), 2)
        self.assertFalse(waiting & allocating)

    def test_tall_graph_begins_at_its_root_with_the_head_in_sight(self):
        self.browser.resize(1280, 420)
        self.open("server.svg")
        self.keep("scrolled")
        seen = self.browser.run("""
          const box = (id) => document.querySelector(id).getBoundingClientRect();
          return {scroll: window.scrollY, view: window.innerHeight, head: box('#headpaper').top,
                  root: box('#frames > g').bottom};""")
        self.browser.resize(1280, 760)
        self.assertGreater(seen["scroll"], 0)
        self.assertLessEqual(seen["root"], seen["view"])
        self.assertAlmostEqual(seen["head"], 0, delta=1)

    def tint(self, name):
        """Above 0 if a frame is red, below 0 if it is blue, about 0 if it is grey."""
        red, _, blue = map(int, re.findall(r"\d+", self.frame(name)["fill"])[:3])
        return red - blue

    def test_diff_is_red_where_it_grew_and_blue_where_it_shrank(self):
        self.open("diff.svg")
        self.keep("diff")
        for scheme in ("light", "dark"):
            self.browser.emulate("screen", scheme)
            self.keep("diff-" + scheme)
            self.assertGreater(self.tint("merge"), self.tint("commit"))
            self.assertGreater(self.tint("commit"), 25)
            self.assertLess(self.tint("seek"), -25)
            self.assertLess(abs(self.tint("read")), 25)
        self.browser.emulate("print", "dark")
        self.assertGreater(self.tint("merge"), 25)
        self.browser.emulate("", "")
        self.assertEqual(self.browser.pages(), 1)
        self.assertNotIn("sync", {frame["name"] for frame in self.frames()})
        legend = self.browser.run("return document.getElementById('legend').textContent")
        for part in ("new", "no significant change", "gone"):
            self.assertIn(part, legend)

    def test_diff_zooms_searches_and_tells_rates(self):
        self.open("diff.svg")
        self.browser.move_to(self.frame("commit")["group"])
        self.assertRegex(self.text_of("detail"), r"^333 ms/s ± 8\.33 ms/s in A, 500 ms/s ± 8\.33 ms/s in B: "
                         r"\+167 ms/s ± 11\.\d ms/s \(\+50\.0%\), 39\.\d% of all · 500,000,000 ns/s · application")
        self.browser.press("/")
        self.browser.type("^merge$")
        share = self.assert_share([self.frame("merge")], self.frames()[0])
        self.assertAlmostEqual(share, 100 * 9 / 75.25, delta=0.1)
        self.assertTrue(self.text_of("matched").endswith("(150 ms/s)"), self.text_of("matched"))
        self.browser.press("Escape")
        self.browser.click(self.frame("persist")["group"])
        self.assertAlmostEqual(self.frame("persist")["width"], self.picture_width(), delta=0.1)
        self.assertFalse(self.frame("serve")["shown"])
        link = self.browser.run("return location.href")
        self.open("idle.svg")
        self.browser.open_url(link)
        self.assertFalse(self.frame("serve")["shown"])

    def test_diff_of_both_sides_draws_what_is_gone(self):
        self.open("diff-max.svg")
        self.keep("diff-max")
        self.assertEqual(self.browser.run("return document.title"), "Before & after")
        self.assertLess(self.tint("sync"), -25)
        self.assertGreater(self.tint("merge"), 25)
        below = {frame["depth"]: frame["y"] for frame in self.frames()}
        self.assertEqual([below[depth] for depth in sorted(below)], sorted(below.values()))

    def test_page_loads_nothing(self):
        loaded = self.browser.run(
            "return performance.getEntriesByType('resource').map((entry) => entry.name)")
        self.assertEqual(loaded, [])

    def test_inside_of_a_page(self):
        with open(os.path.join(golden, "server.svg"), encoding="utf-8") as file:
            svg = file.read().split("?>", 1)[1]
        with tempfile.TemporaryDirectory() as directory:
            page = os.path.join(directory, "page.html")
            with open(page, "w", encoding="utf-8") as file:
                file.write("<!doctype html><meta charset=utf-8><h1>Report</h1>" +
                           svg.replace("<![CDATA[", "").replace("]]>", ""))
            self.browser.open(page)
            self.browser.click(self.frame("mdbx_txn_commit")["group"])
            self.assertFalse(self.frame("storage")["shown"])


class DarkTest(unittest.TestCase):
    def test_dark_scheme_is_followed(self):
        with Browser(dark=True) as browser:
            browser.open(os.path.join(golden, "server.svg"))
            paper = browser.run(
                "return getComputedStyle(document.getElementById('paper')).fill")
            frames = {frame["name"]: frame["fill"] for frame in browser.run(FRAMES)}
            dark = browser.run("return matchMedia('(prefers-color-scheme: dark)').matches")
            if os.environ.get("PROFD_SCREENSHOTS"):
                browser.save_screenshot(os.path.join(os.environ["PROFD_SCREENSHOTS"], "dark.png"))
            self.assertTrue(dark)
            browser.emulate("screen", "light")
            for frame in browser.run(FRAMES):
                self.assertNotEqual(frame["fill"], frames[frame["name"]], frame["name"])
            self.assertEqual(paper, "rgb(23, 25, 30)")


def main():
    global golden
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    golden = sys.argv.pop(1)
    missing = missing_programs()
    if missing:
        print("skipped: not installed:", ", ".join(missing))
        sys.exit(SKIPPED)
    unittest.main()


if __name__ == "__main__":
    main()
