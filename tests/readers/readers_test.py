#!/usr/bin/env python3
"""Readers that others wrote, on what a real server produced: Go's pprof, speedscope, grpcurl.

usage: readers_test.py BUILD, as root. Exit status 77: skipped, for lack of a fact of the machine.
"""

import base64
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

# pylint: disable=wrong-import-position
from tests.browser.webdriver import Browser
from tests.harness.answer import enum, numbers
from tests.harness.daemon import Daemon, Host, eventually
from tests.harness.runner import ATTACH_SECONDS, Execution

PPROF = "github.com/google/pprof@v0.0.0-20261105003125-4bf881d7fb0b"
GRPCURL = "github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.3"
SPEEDSCOPE = "speedscope@1.25.0"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "profd-tests" / "readers"
INSTALL_SECONDS = 900
PPROF_SECONDS = 60
BROWSER_SECONDS = 60
FUNCTION = "mutex::Acquire"
ROUNDED = 10  # units by which a stack may differ between two answers for one window
# The part of gRPC's health checking protocol that is asked for.
HEALTH = """syntax = "proto3";
package grpc.health.v1;
message HealthCheckRequest { string service = 1; }
message HealthCheckResponse {
  enum ServingStatus { UNKNOWN = 0; SERVING = 1; NOT_SERVING = 2; SERVICE_UNKNOWN = 3; }
  ServingStatus status = 1;
}
service Health { rpc Check(HealthCheckRequest) returns (HealthCheckResponse); }
"""


class Missing(Exception):
    """A tool that the machine does not have; with the fact that it lacks."""


def call(*argv, **options):
    done = subprocess.run([str(word) for word in argv], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, check=False, timeout=options.pop("timeout", PPROF_SECONDS), **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, argv))}: {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def go_tool(name, module):
    """Built once, from the proxy of Go modules."""
    program = CACHE / module.rpartition("@")[2] / name
    if program.exists():
        return program
    if not shutil.which("go"):
        raise Missing("skipped: go: there is no Go to build readers with")
    program.parent.mkdir(parents=True, exist_ok=True)
    try:
        call("go", "install", module, env={**os.environ, "GOBIN": str(program.parent)}, timeout=INSTALL_SECONDS)
    except (AssertionError, subprocess.TimeoutExpired) as why:
        raise Missing(f"skipped: go: {module} cannot be built: {why}") from why
    return program


def speedscope_package():
    """The folder of the released application, from its package."""
    folder = CACHE / SPEEDSCOPE / "package" / "dist" / "release"
    if folder.exists():
        return folder
    if not shutil.which("npm"):
        raise Missing("skipped: npm: there is no npm to fetch speedscope with")
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as fresh:
        try:
            name = call("npm", "pack", "--silent", SPEEDSCOPE, cwd=fresh, timeout=INSTALL_SECONDS).split()[-1]
        except (AssertionError, subprocess.TimeoutExpired) as why:
            raise Missing(f"skipped: npm: {SPEEDSCOPE} cannot be fetched: {why}") from why
        with tarfile.open(Path(fresh, name)) as package:
            package.extractall(fresh, filter="data")
        # All of it or nothing.
        (CACHE / SPEEDSCOPE).mkdir(exist_ok=True)
        os.replace(Path(fresh, "package"), CACHE / SPEEDSCOPE / "package")
    return folder


class Server:
    """profd with a target that has waited, and one window of the past that is asked for."""

    def __init__(self, build, folder):
        self.folder = Path(folder)
        self.place = Host(build)
        self.target = self.place.target(["waiter", "mutex", "100"], {})
        self.pid = int(self.target.line_with("ready", 60).split()[1])
        self.daemon = Daemon(self.place, [], [self.pid])
        time.sleep(2)  # until it is attached; what was before is in no test
        if not eventually(ATTACH_SECONDS, lambda: Execution.mappings_watched(self.daemon.status(), self.pid)):
            raise AssertionError(f"mappings of {self.pid} are not watched: {json.dumps(self.daemon.status())}")
        begin = time.time()
        self.target.write("go\n")
        self.target.line_with("{", 60)
        self.window = ["--from", f"{begin:.6f}", "--to", f"{time.time():.6f}", "--target", str(self.pid), "--idle"]
        self.json = numbers(json.loads(self.fetch("--format", "json", "-o", "-")))

    def fetch(self, *options):
        code, out, err = self.daemon.profctl("fetch", *self.window, *options)
        if code != 0:
            raise AssertionError(f"profctl: {err}")
        return out

    def write(self, name, *options):
        path = self.folder / name
        self.fetch("-o", path, *options)
        return path

    def values(self, index=0):
        return [value for value in (sample["values"][index] for sample in self.json["samples"]) if value > 0]

    def close(self):
        self.daemon.stop()
        self.daemon.kill()
        self.target.kill()
        self.place.close()


def pprof_reads(server):
    pprof = go_tool("pprof", PPROF)
    path = server.write("profile.pb.gz")
    raw = call(pprof, "-raw", path)
    lines = raw.split("Samples:\n")[1].split("Locations\n")[0].splitlines()
    types = lines[0].split()
    assert types[0].startswith("offcpu/nanoseconds"), types
    values = sorted(int(line.split()[0]) for line in lines[1:] if re.match(r"\s*\d+\s+\d+:", line))
    assert values == sorted(server.values()), (len(values), len(server.values()), sum(values), sum(server.values()))
    assert "reason:[lock]" in raw and "process:[waiter]" in raw and f"pid:[{server.pid}]" in raw, raw[:2000]

    top = call(pprof, "-top", "-nodecount=1000", path)
    assert "Type: offcpu" in top and FUNCTION in top, top
    assert FUNCTION in call(pprof, "-traces", path)
    assert FUNCTION in call(pprof, "-peek", FUNCTION.replace("::", ".*"), path)
    lock = call(pprof, "-top", "-tagfocus=reason=lock", path)
    assert FUNCTION in lock, lock
    everything = server.write("all.pb.gz", "--kind", "offcpu,mapped,rss,switches")
    types = call(pprof, "-raw", everything).split("Samples:\n")[1].splitlines()[0]
    for wanted in ("offcpu/nanoseconds", "mapped/bytes", "rss/bytes", "rss_growth/bytes", "rss_pages/count",
                   "switches/count"):
        assert wanted in types, types

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    page = subprocess.Popen([pprof, f"-http=127.0.0.1:{port}", "-no_browser", path], stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/ui/flamegraph", timeout=10) as answer:
                    text = answer.read().decode()
                break
            except OSError:
                time.sleep(0.1)
        else:
            raise AssertionError("pprof -http does not answer")
        assert FUNCTION in text, text[:1000]
    finally:
        page.kill()
        page.wait()


def imported(application, text, folder):
    """What speedscope made of a file: the profiles that it exports again, and the table's row of FUNCTION.

    The package has the importer only inside of the application, so a browser runs that, as its
    command does. Its export button gives away the model."""
    load = Path(folder, "load.js")
    encoded = base64.b64encode(text.encode()).decode()
    load.write_text(f"speedscope.loadFileFromBase64('profile.speedscope.json', '{encoded}')")
    with Browser() as browser:
        browser.open_url(f"file://{application}/index.html#view=sandwich&localProfilePath={load}")
        table = "return Array.from(document.querySelectorAll('table tr'), (row) => row.innerText)"
        # It lists only what fits on the screen: the functions with the most time below them come first.
        by_total = """const headings = Array.from(document.querySelectorAll('th'));
                      const total = headings.find((cell) => cell.innerText.trim() === 'Total');
                      if (total) total.click();
                      return total !== undefined;"""
        await_result(lambda: browser.run(by_total))
        rows = await_result(lambda: [row for row in browser.run(table) if FUNCTION in row])
        browser.run("""URL.createObjectURL = (blob) => {
                         blob.text().then((text) => { window.exported = text; });
                         return 'blob:nothing'; };
                       window.dispatchEvent(new KeyboardEvent('keydown', {key: 's', ctrlKey: true}));""")
        exported = await_result(lambda: browser.run("return window.exported || ''"))
    return json.loads(exported), rows


def await_result(ask):
    deadline = time.monotonic() + BROWSER_SECONDS
    while time.monotonic() < deadline:
        found = ask()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError("speedscope shows no profile")


def sums_of_export(profile, frames):
    """Weights of stacks of names, from the outermost, of a profile of events."""
    sums, stack, before = {}, [], 0
    for event in profile["events"]:
        if event["at"] > before:
            key = tuple(stack)
            sums[key] = sums.get(key, 0) + event["at"] - before
        before = event["at"]
        name = frames[event["frame"]]["name"]
        if event["type"] == "O":
            stack.append(name)
        else:
            assert stack.pop() == name
    return sums


def sums_of_answer(answer, index):
    """The same of a sample type of an answer in JSON, without processes and threads."""
    strings, sums = answer["strings"], {}
    for sample in answer["samples"]:
        if sample["values"][index] <= 0:
            continue
        places = [answer["locations"][at] for at in reversed(answer["stacks"][sample["stack"]]["locations"])]
        stack = [strings[answer["functions"][line["function"]]["name"]]
                 for place in places for line in reversed(place["lines"])] or ["[unsampled]"]
        if answer["sample_types"][index]["name"] in ("offcpu", "switches"):
            stack.append(f"[{enum(sample['reason'])}]")
        sums[tuple(stack)] = sums.get(tuple(stack), 0) + sample["values"][index]
    return sums


def speedscope_reads(server):
    import jsonschema  # pylint: disable=import-outside-toplevel
    application = speedscope_package()
    schema = json.loads((application / "file-format-schema.json").read_text())
    kinds = ["--kind", "offcpu,mapped,switches"]
    text = server.write("profile.speedscope.json", *kinds).read_text()
    file = json.loads(text)
    jsonschema.validate(file, schema)
    broken = {**file, "profiles": [{**file["profiles"][0], "unit": "parsecs"}]}
    try:
        jsonschema.validate(broken, schema)
        raise AssertionError("the schema refuses nothing")
    except jsonschema.ValidationError:
        pass

    exported, rows = imported(application, text, server.folder)
    answer = numbers(json.loads(server.fetch(*kinds, "--format", "json", "-o", "-")))
    assert [profile["unit"] for profile in exported["profiles"]] == ["nanoseconds", "bytes", "none"], exported["profiles"]
    for index, profile in enumerate(exported["profiles"]):
        # Process and thread are the first two frames.
        found = {}
        for stack, value in sums_of_export(profile, exported["shared"]["frames"]).items():
            found[stack[2:]] = found.get(stack[2:], 0) + value
        expected = sums_of_answer(answer, index)
        assert found and found.keys() == expected.keys(), (profile["name"], found, expected)
        # The file is another answer for the same window. What is shared out among stacks is rounded to whole
        # numbers, in the order of the rows, which may be another one.
        wrong = {stack: (value, expected[stack]) for stack, value in found.items()
                 if abs(value - expected[stack]) > ROUNDED}
        assert not wrong, (profile["name"], wrong)
        assert abs(sum(found.values()) - sum(expected.values())) <= ROUNDED, (profile["name"], found, expected)
    # What a person sees: time of the function that waits, with what it calls.
    within = sum(value for stack, value in sums_of_answer(answer, 0).items() if any(FUNCTION in name for name in stack))
    shown = re.match(r"([\d.]+)(ns|µs|ms|s) ", rows[0])
    unit = {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9}[shown[2]]
    assert abs(float(shown[1]) * unit - within) <= 0.01 * unit, (rows, within)


def grpcurl_reads(server):
    grpcurl = go_tool("grpcurl", GRPCURL)
    path = server.daemon.address
    ask = [grpcurl, "-plaintext", "-authority", "localhost"]
    services = call(*ask, path, "list").split()
    assert {"profd.v1.Profiler", "grpc.health.v1.Health"} <= set(services), services
    assert "rpc Fetch" in call(*ask, path, "describe", "profd.v1.Profiler")
    assert "sample_types" in call(*ask, path, "describe", "profd.v1.FetchRequest")
    # The library serves health checks without a description of them.
    (server.folder / "health.proto").write_text(HEALTH)
    assert '"SERVING"' in call(*ask, "-import-path", server.folder, "-proto", "health.proto", path,
                             "grpc.health.v1.Health/Check")
    status = call(*ask, path, "profd.v1.Profiler/GetStatus")
    assert json.loads(status)["daemon_version"], status[:500]
    begin, end = (round(float(server.window[at]) * 1e9) for at in (1, 3))
    request = {"window": {"begin_ns": begin, "end_ns": end}, "targets": [str(server.pid)],
               "sample_types": ["offcpu"], "group_by": ["GROUP_KEY_REASON"]}
    parts = call(*ask, "-d", json.dumps(request), path, "profd.v1.Profiler/Fetch")
    decoder, found, at = json.JSONDecoder(), [], 0
    while at < len(parts):
        part, at = decoder.raw_decode(parts, at)
        found.append(part)
        at += len(parts[at:]) - len(parts[at:].lstrip())
    assert found[-1]["complete"] and found[0]["sample_types"][0]["name"] == "offcpu"
    values = sum(int(sample["values"][0]) for part in found for sample in part.get("samples", []))
    assert values == sum(sample["values"][0] for sample in server.json["samples"])


def main():
    if os.geteuid() != 0:
        print("skipped: root: kernel programs take privilege to load")
        return 77
    missing = []
    with tempfile.TemporaryDirectory() as folder:
        server = Server(sys.argv[1], folder)
        try:
            for test in (pprof_reads, speedscope_reads, grpcurl_reads):
                try:
                    test(server)
                    print(f"ok {test.__name__}")
                except Missing as why:
                    missing.append(str(why))
        finally:
            server.close()
    print("\n".join(missing))
    return 77 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
