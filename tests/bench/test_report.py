#!/usr/bin/env python3
"""docs/performance.md is what `bench report` makes of docs/performance/results.jsonl; the page says
what was switched off, and calls an aim met only where the interval does; plots have sensible ticks
and are XML that needs nothing from elsewhere."""

import os
import re
import sys
import tempfile
import unittest
import xml.etree.ElementTree

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True

from profdbench import lines, own_time, parts, plot, report  # after the path is set

DOCS = os.path.join(os.path.dirname(os.path.dirname(HERE)), "docs")
RESULTS = os.path.join(DOCS, "performance", "results.jsonl")
WHERE = {"commit": "abc", "date": "2026-01-02 03:04", "kernel": "6.1.0", "machine": "2 CPUs"}


def read(path):
    with open(path, "rb") as file:
        return file.read()


class Page(unittest.TestCase):
    def test_is_what_the_lines_say(self):
        with tempfile.TemporaryDirectory() as out:
            report.write(RESULTS, out)
            made = os.path.join(out, "performance")
            self.assertEqual(read(os.path.join(out, "performance.md")),
                             read(os.path.join(DOCS, "performance.md")),
                             "run tests/bench/bench report")
            self.assertEqual(sorted([*os.listdir(made), "results.jsonl"]),
                             sorted(os.listdir(os.path.join(DOCS, "performance"))))
            for name in os.listdir(made):
                self.assertEqual(read(os.path.join(made, name)),
                                 read(os.path.join(DOCS, "performance", name)), name)

    def test_lines_are_small_and_as_the_code_writes_them(self):
        text = read(RESULTS).decode()
        self.assertEqual(text, "".join(lines.text_of(row) + "\n" for row in
                                       lines.merged([], lines.load(RESULTS))))
        for line in text.splitlines():
            self.assertLess(len(line), 2000, line[:100])


def overhead(**changes):
    return {"kind": "overhead", "workload": "pgbench", "tool": "profd", **WHERE,
            "protocol": "slices", "slice_s": 0.2, "about": "a server", "unit": "tps",
            "pairs": 300, "blocks": 30, "disturbed": 0, "untraced": 20000,
            "ratio": [0.995, 0.992, 0.998], "cpu_ratio": [0.99, 0.98, 1.0], "options": [],
            "tick_ms": 60, "off": {"switch": 1, "bursts": 0.25}, "levels": {"tick": 6},
            "settled_s": 40, "daemon_cpu": 0.006, "in_path_cpu": 0.002, "switches_per_s": 40000, "rss_mib": 28.5,
            "maps_mib": 18, "aim": 0.99, **changes}


def accuracy(**changes):
    return {"kind": "accuracy", "case": "waits", "load": "switches", "site": "LongPath", **WHERE,
            "protocol": "accuracy", "options": [], "runs": 20, "seconds": 10, "unit": "s",
            "truth": 7.5, "ratio": [1.01, 0.9, 1.1], "stated": 0.08, "contained": 19,
            "tick_ms": 50, "off": {"switch": 1}, "levels": {}, **changes}


def point(x, **changes):
    return {"kind": "point", "curve": "threads", "asked": x, **WHERE, "protocol": "growth",
            "options": [], "seconds": 8, "fetches": 25, "x": x, "disturbed": False, "threads": x,
            "entries": x, "daemon_cpu": 0.01, "tick_cpu": 0.008, "drain_cpu": 0.001,
            "drain_ms": 1, "startup_s": 0.3, "ticks": 99, "ticks_missed": 1, "in_path_cpu": 0,
            "rss_mib": 20, "rss_quiet_mib": 19, "maps_mib": 9, "store_mib": 1, "fetch_p50_ms": 20,
            "fetch_p99_ms": 30, "status_p50_ms": 10, "losses": {}, "tick_ms": 10, "off": {},
            "levels": {}, **changes}


def names(what, **changes):
    found = {"answer": {"frames": 3000, "first_s": 0.25, "first_most_s": 0.28, "again_s": 0.05,
                        "rss_mib": 40},
             "lookups": {"addresses": 10000, "first_s": 0.4, "again_s": 0.002,
                         "symbolizer": "llvm-symbolizer-19", "symbolizer_first_s": 1.5,
                         "symbolizer_again_s": 0.05, "ratio": 25}}[what]
    return {"kind": "names", "what": what, **WHERE, "protocol": "turns", "library": "librustc_driver",
            "mib": 147, "turns": 5, **found, **changes}


def part(name, load, **numbers):
    return {"kind": "part", "part": name, "load": load, **WHERE, "protocol": "parts", **numbers}


def sampled(**changes):
    return {"turns": 5, "seconds": 5, "tick_ms": 10, "ticks_per_s": 100, "samples_per_s": 800,
            "walks_per_s": 600, "threads": 10, "cpu_us_per_s": 6000, "tick_us_per_s": 5000, "bare_us": 20,
            "sample_us": [3.9, 3.8, 4.0], "tick_sample_us": [3.75, 3.7, 3.8],
            "beyond_us": [9, 8, 10], **changes}


def page(*rows):
    return report.render(list(rows))[0]


def short(*rows):
    return page(*rows).split("## ", 1)[0]


class Golden(unittest.TestCase):
    """Whole pages, against tests/golden/bench. PROFD_UPDATE_GOLDEN=1 writes them instead."""

    maxDiff = None

    def expect(self, name, *texts):
        path = os.path.join(os.path.dirname(HERE), "golden", "bench", name + ".md")
        text = "\n".join(texts)
        if os.environ.get("PROFD_UPDATE_GOLDEN") == "1":
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        self.assertEqual(text, read(path).decode())


class Headline(Golden):
    def test_says_what_was_switched_off_and_the_interval(self):
        self.expect("overhead", short(overhead()))

    def test_an_aim_is_met_by_the_lower_bound_alone(self):
        self.expect("not-shown", short(overhead(ratio=[0.9995, 0.9895, 1.0095])))
        self.expect("missed", short(overhead(ratio=[0.98, 0.975, 0.985])))

    def test_latency_stands_next_to_the_speed(self):
        self.expect("latency", short(overhead(p50_us=90, p50_ratio=[1.001, 0.999, 1.003], p99_us=900,
                                              p99_ratio=[1.02, 1.0, 1.04],
                                              requests="transactions")))

    def test_an_older_protocol_is_marked(self):
        self.expect("older-protocol",
                    page(overhead(protocol="bursts", slice_s=0.04, slices_in_pair=100, pairs=15)))

    def test_peers_are_measured_in_segments_and_need_no_mark(self):
        row = overhead(tool="perf", protocol="segments", slice_s=5, pairs=12)
        for name in ("aim", "tick_ms", "off", "levels", "daemon_cpu", "options"):
            del row[name]
        self.expect("peers", page(row))

    def test_accuracy_under_load(self):
        calm = accuracy(load="none", off={}, tick_ms=10)
        # Up to 15 of 20 at 95 % each: 0.26 %; up to 16: 1.6 %.
        self.expect("accuracy",
                    short(calm, accuracy(), accuracy(site="ShortPath", ratio=[0.8, 0.7, 0.9],
                                                     contained=15)),
                    page(accuracy(contained=16), accuracy(site="ShortPath", contained=15)))

    def test_memory_along_the_curves(self):
        self.expect("memory-met", short(point(10), point(5000)))
        self.expect("memory-missed", short(point(10), point(5000, rss_mib=70)))

    def test_names_of_a_large_library(self):
        self.expect("names", page(names("answer"), names("lookups")))
        self.expect("names-missed", short(names("answer", first_most_s=0.31), names("lookups", ratio=9)),
                    short(names("answer", rss_mib=65)))


class Parts(Golden):
    rows = (part("sample", "pgbench", **sampled()), part("resting", "100 threads", **sampled()),
            part("rules", "librustc_driver", turns=5, mib=146, rows=1_400_000, functions=120_000,
                 cpu_s=[0.19, 0.18, 0.2], bytes_per_row=4.5),
            part("start", "200 processes", turns=5, start_s=[0.4, 0.3, 0.5], start_most_s=0.49, attached_s=[0.6, 0.5, 0.7],
                 cpu_s=[0.5, 0.4, 0.6]))

    def test_single_parts(self):
        self.expect("parts", page(*self.rows))

    def test_what_profd_spends_its_time_on(self):
        self.expect("self", page(part("self", "redis", seconds=50, cpu=0.0123, stages={
            "drains": [0.4, 0.01], "ticks: kernel stacks": [0.25, 0.02], "the rest": [0.35, 0.03]})))

    def test_what_a_start_consists_of(self):
        self.expect("self-start", page(part("self-start", "200 processes", starts=20, cpu_s=0.4321, end_cpu_s=0.91, stages={
            "the kernel's verifier": [0.5, 0.01], "the rest": [0.5, 0.01]})))

    def test_the_end_is_told_from_the_start(self):
        def stage(*functions):
            return own_time.stage_of(functions, own_time.START_STAGES)
        self.assertEqual(stage("filter_chain", "uprobe_unregister_nosync", "start_thread"), own_time.END)
        self.assertEqual(stage("do_check_common", "bpf_check", "profd::LoadWhatGoes", "main"), "the kernel's verifier")
        self.assertEqual(stage("s_show", "profd::FindKernelCode", "profd::LoadWhatGoes"), "reading the kernel's symbols")
        self.assertEqual(stage("btf_parse", "profd::LoadWhatGoes"), "the rest of loading programs")
        self.assertEqual(stage("uprobe_register", "profd::Reconciler::Work"), "putting probes in")
        self.assertEqual(stage("main"), own_time.REST)

    def test_shares_are_of_the_threads_that_count(self):
        def sample(thread, stack, time_ns):
            return {"thread": thread, "stack": stack, "time_ns": time_ns, "error_ns": 3}
        profile = {"threads": [{"pid": 1}, {"pid": 2}], "frames": [{"function": "profd::Engine::Drain"}],
                   "stacks": [None, {"frames": [0]}], "samples": [sample(0, 1, 30), sample(0, None, 70), sample(1, 1, 900)]}
        found = own_time.shares(profile, keep=lambda thread: thread["pid"] == 1)
        self.assertEqual(found, {"drains": (0.3, 0.03), "the rest": (0.7, 0.03)})

    def test_stages_are_told_from_the_inside_out(self):
        def stage(*functions):
            return own_time.stage_of(functions)
        walk, tick = "bpf_prog_0123abc_walk_frame_outside", ("bpf_prog_0123abc_visit_entry", "profd::BpfKernel::Visit", "profd::Sampler::Tick")
        self.assertEqual(stage("get_user_pages", "bpf_copy_from_user_task", walk, *tick), "ticks: memory of user stacks")
        self.assertEqual(stage("mtree_load", walk, *tick), "ticks: unwinding user stacks")
        self.assertEqual(stage("find_pid", *tick), "ticks: finding and judging threads")
        self.assertEqual(stage("profd::SampleLog::Add", "profd::Sampler::Tick"), "ticks: keeping what was found")
        self.assertEqual(stage("bpf_copy_from_user_task", "bpf_prog_0123abc_describe_object", *tick), "ticks: what is waited on")
        self.assertEqual(stage("bpf_copy_from_user_task", "profd::Engine::Drain"), "drains")
        self.assertEqual(stage("walk_frame_outside_of_it"), own_time.REST)
        self.assertEqual(stage(), own_time.REST)

    def test_shares_of_stages(self):
        profile = {"frames": [{"function": "profd::Engine::Drain"}], "stacks": [{"frames": [0]}],
                   "samples": [{"stack": 0, "time_ns": 60, "error_ns": 3}, {"stack": 0, "time_ns": 20, "error_ns": 4},
                               {"stack": None, "time_ns": 20, "error_ns": 0}]}
        self.assertEqual(own_time.shares(profile), {"drains": (0.8, 0.05), own_time.REST: (0.2, 0)})
        self.assertEqual(own_time.shares({"samples": []}), {})

    def test_each_aim_can_be_missed(self):
        sample, resting, rules, start = self.rows
        self.expect("parts-missed",
                    short(sample | {"sample_us": [4.2, 4.1, 4.3]}, resting | {"beyond_us": [11, 10.1, 12]},
                          rules | {"bytes_per_row": 5.1}, start | {"start_s": [0.6, 0.51, 0.7]}),
                    short(sample | {"sample_us": [4.0, 3.9, 4.1]}, rules | {"cpu_s": [0.3, 0.21, 0.4]},
                          start | {"start_s": [0.3]}))

    def test_a_sample_costs_what_a_bare_wake_up_does_not(self):
        # (6000 - 100 * 20) / 800 and (5000 - 2000) / 800; 5000 / 100 - 20
        self.assertEqual(parts.per_sample(sampled()), (5.0, 3.75))
        self.assertEqual(parts.per_tick(sampled()), 30)


def storm(**changes):
    return {"kind": "storm", "protocol": "storm", "stressor": "fork", "watch": "all", **WHERE, "workers": 4, "seconds": 8,
            "rest_s": 60, "runs": 50, "survived": 50, "peak_mib": 96, "rest_mib": 64, "fetch_mib": 12.5, "lost_exits": 0,
            **changes}


class Storms(Golden):
    def test_the_worst_run_counts(self):
        self.expect("storms", page(storm(), storm(watch="storm", runs=1, survived=1, cpu_ratio=[0.991, 1.009])))

    def test_each_aim_can_be_missed(self):
        self.expect("storms-missed", short(storm(runs=49, survived=49)), short(storm(survived=49)),
                    short(storm(peak_mib=97)), short(storm(rest_mib=65)), short(storm(cpu_ratio=[0.98, 1])),
                    short(storm(cpu_ratio=[1, 1], lost_exits=1)))


class Whole(Golden):
    rows = (overhead(), accuracy(), point(10), point(5000, off={"faults": 1}, disturbed=True,
                                                    losses={"torn_walk": 7}))

    def test_a_point_says_what_was_switched_off(self):
        self.expect("whole", page(*self.rows))

    def test_is_deterministic(self):
        self.assertEqual(report.render(list(self.rows)), report.render(list(self.rows)))

    def test_every_image_is_linked(self):
        text, images = report.render(list(self.rows))
        self.assertEqual(sorted(images), ["drain.svg", "overhead.svg", "threads.svg"])
        self.assertEqual(sorted(re.findall(r"performance/([a-z]+\.svg)", text)), sorted(images))

    def test_where_rows_were_measured(self):
        self.expect("where", page(overhead(), overhead(tool="none", commit="def?",
                                                       date="2026-01-03 00:00")))

    def test_rows_of_the_first_minutes_say_so(self):
        early = overhead(settled_s=None)
        del early["settled_s"]
        self.expect("early", page(early, overhead(workload="redis"), overhead(tool="profd-all"), overhead(tool="none")))

    def test_without_rows_there_is_no_claim(self):
        self.expect("no-rows", page())


class Plot(unittest.TestCase):
    def test_linear_ticks_are_round_and_enclose(self):
        self.assertEqual(plot.linear_ticks(0, 100, 5), [0, 20, 40, 60, 80, 100])
        self.assertEqual(plot.linear_ticks(0.62, 1.01, 4), [0.6, 0.7, 0.8, 0.9, 1.0, 1.1])
        for high in (1e-6, 0.03, 7, 63.9, 64, 12345, 8e9):
            ticks = plot.linear_ticks(0, high)
            self.assertLessEqual(ticks[0], 0)
            self.assertGreaterEqual(ticks[-1], high * 0.999)
            self.assertIn(len(ticks), range(3, 9), high)

    def test_linear_ticks_of_a_single_value(self):
        self.assertGreater(len(plot.linear_ticks(5, 5)), 1)
        self.assertGreater(len(plot.linear_ticks(0, 0)), 1)

    def test_log_ticks_are_decades_or_finer(self):
        self.assertEqual(plot.log_ticks(10, 100_000), [10, 100, 1000, 10_000, 100_000])
        self.assertEqual(plot.log_ticks(999, 1_001_000), [1000, 10_000, 100_000, 1e6])
        self.assertEqual(plot.log_ticks(10, 60), [10, 20, 50, 100])
        for low, high in ((1, 1), (10, 120), (3, 40), (999, 9e5), (0.05, 3e3), (7, 7)):
            ticks = plot.log_ticks(low, high)
            self.assertLessEqual(ticks[0], low * 1.01)
            self.assertGreaterEqual(ticks[-1], high / 1.01)
            self.assertGreater(len(ticks), 1)

    def test_log_ticks_need_positive_values(self):
        with self.assertRaises(ValueError):
            plot.log_ticks(0, 5)

    def test_tick_text_is_short(self):
        self.assertEqual([plot.tick_text(v) for v in (0, 0.25, 40, 1000, 2500, 1e6)],
                         ["0", "0.25", "40", "1 k", "2.5 k", "1 M"])

    def test_svg_stands_alone_and_escapes(self):
        text = plot.lines("a < b & c", [plot.Panel("t", "x", "y", [
            plot.Series('"s"', [(1, 0), (1000, 5)], [(0, 1), (4, 6)])], x_log=True, y_log=True)])
        xml.etree.ElementTree.fromstring(text)
        self.assertNotIn("href", text)
        self.assertEqual(re.findall(r"https?://[^\"]+", text), ["http://www.w3.org/2000/svg"])

    def test_ratio_rows_all_appear(self):
        text = plot.ratios("r", [plot.Ratio("pgbench", "profd", 0.99, 0.98, 1.0, 0.99),
                                 plot.Ratio("pipe", "perf", 0.4, 0.39, 0.41)], "ratio")
        xml.etree.ElementTree.fromstring(text)
        self.assertIn("0.990 [0.980, 1.000]", text)
        self.assertIn("0.400 [0.390, 0.410]", text)


if __name__ == "__main__":
    unittest.main()
