"""Runs in a guest: the scenarios, the kernel tests that differ most by kernel, and what only a guest
can show. /results holds what it found; the host reads it there."""

import json
import os
import platform
import re
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

from tests.harness import __main__  # pylint: disable=unused-import  what it imports is in the image, too
from tests.harness.daemon import Daemon, Host, eventually
from tests.harness.process import Gone, Process
from tests.harness.runner import Result, Running

PLAN = Path("/plan.json")
RESULTS = Path("/results")
BUILD = Path("/build")
CAP_SYS_ADMIN = 1 << 21
# From here on a probe needs no perf event, and so no CAP_SYS_ADMIN.
UPROBE_MULTI = (6, 6)
MISSING_ADMIN = ("before Linux 6.6, allocators and libcs cannot be probed: "
                 "give it CAP_SYS_ADMIN")
PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
PROBE_SECONDS = 300
TROUBLE = re.compile(r"BUG:|WARNING:|Oops|Call Trace|rcu.*stall|soft lockup|KASAN|UBSAN")
# The kernel shows where it was when it killed a process for its cgroup's limit.
OOM_KILL = re.compile(r"invoked oom-killer.*?Killed process", re.DOTALL)


def say(text):
    print(f"guest: {text}, {time.clock_gettime(time.CLOCK_BOOTTIME):.1f} s after the boot", flush=True)


def kernel_before(wanted):
    return tuple(int(number) for number in platform.release().split(".")[:2]) < wanted


def run_scenarios(plan):
    """The harness writes the results itself; it fails with those."""
    if plan["scenarios"]:
        subprocess.run([sys.executable, "-S", "-m", "tests.harness", "--setting", plan["setting"], "--build",
                        BUILD, "--jobs", str(plan["jobs"]), "--results", RESULTS / "scenarios.jsonl",
                        *plan["scenarios"]], stdin=subprocess.DEVNULL, check=False)


def kernel_test(plan):
    log = RESULTS / "kernel_test.log"
    with log.open("wb") as file:
        code = subprocess.run([BUILD / "kernel_test", f"--gtest_filter={plan['kernel_test']}"],
                              stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
                              check=False).returncode
    text = log.read_text(errors="replace")
    failures = re.findall(r"^\[  (?:FAILED|SKIPPED) *\] .*|^.*: Failure\n(?:.*\n){1,3}", text, re.MULTILINE)
    passed = re.search(r"^\[  PASSED  \] (\d+) tests?", text, re.MULTILINE)
    if code != 0 or passed is None or int(passed[1]) == 0:
        failures.append(f"kernel_test ended with {code}: {text[-500:]}")
    return failures, {"kernel_tests": int(passed[1]) if passed else 0}


def capability_sets(pid):
    """Of each thread: (permitted, effective)."""
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        found = dict(re.findall(r"^(Cap\w+):\s*([0-9a-f]+)$", status.read_text(), re.MULTILINE))
        yield status.parent.name, int(found["CapPrm"], 16), int(found["CapEff"], 16)


def capabilities(_plan):
    """CAP_SYS_ADMIN only where probes or clocks take it, and there in reserve. Everything works, the layer `cpu` too."""
    place = Host(BUILD)
    # These are Debian's kernels.
    strict = int(PARANOID.read_text()) >= 3
    failures, observed = with_capabilities(place, kernel_before(UPROBE_MULTI) or strict)
    failures += without_admin(place, strict)
    if strict and not kernel_before(UPROBE_MULTI):
        PARANOID.write_text("2")
        more, _ = with_capabilities(place, kernel_before(UPROBE_MULTI))
        failures += [f"{PARANOID.name} 2: {failure}" for failure in more]
        failures += without_admin(place, strict=False)
        PARANOID.write_text("3")
    return failures, observed


def with_capabilities(place, needed):
    """`needed`: CAP_SYS_ADMIN."""
    failures = []
    target = Running(None, Process([BUILD / "waiter", "maps", "20"]))
    target.await_ready()
    daemon = Daemon(place, [], [target.pid])
    try:
        def probed():
            return any(layer["name"] == "mappings" and layer["on"] and not layer["note"]
                       for layer in daemon.status()["layers"])

        if not eventually(PROBE_SECONDS, probed):
            failures.append(f"no probes in libcs: {daemon.status()['layers']}")
        # A thread raises it for as long as it puts probes in: not in every one of these looks.
        effective = {}
        for _ in range(5):
            for thread, permitted, now in capability_sets(daemon.process.pid):
                effective.setdefault(thread, []).append(bool(now & CAP_SYS_ADMIN))
                if bool(permitted & CAP_SYS_ADMIN) != needed:
                    failures.append(f"thread {thread}: CAP_SYS_ADMIN permitted: {not needed}")
            time.sleep(0.2)
        failures += [f"thread {thread}: CAP_SYS_ADMIN stays effective" for thread, seen in
                     effective.items() if all(seen)]
        status = daemon.status()
        if ("cap_sys_admin" in status["capabilities"]) != needed:
            failures.append(f"status: {status['capabilities']}")
        if status["missing"]:
            failures.append(f"missing: {status['missing']}")
        off = [layer["name"] for layer in status["layers"] if not layer["on"]]
        if "cpu" in off:
            failures.append(f"the layer cpu is off: {status['layers']}")
        wrong = daemon.stop()
        failures += [wrong] if wrong else []
    finally:
        daemon.kill()
        target.process.kill()
    return failures, {"layers_off": off, "cap_sys_admin": needed}


class WithoutAdmin:
    """A place in which profd starts without CAP_SYS_ADMIN."""

    def __init__(self, place):
        self._place = place
        self.new_address = place.new_address
        self.profctl_argv = place.profctl_argv

    def daemon_argv(self, address, options):
        argv = self._place.daemon_argv(address, options)
        return ["capsh", "--drop=cap_sys_admin", "--shell=/bin/sh", "--", "-c", 'exec "$0" "$@"', *argv]


def without_admin(place, strict):
    daemon = Daemon(WithoutAdmin(place), [], ["^none$"])
    try:
        status = daemon.status()
        said = status["missing"]
        wanted = [MISSING_ADMIN] if kernel_before(UPROBE_MULTI) else []
        failures = [] if said == wanted else [f"without CAP_SYS_ADMIN it lacks {said}, not {wanted}"]
        refused = any(layer["name"] == "cpu" and "needs CAP_PERFMON" in layer["note"] for layer in status["layers"])
        if refused != strict:
            failures.append(f"without CAP_SYS_ADMIN: {status['layers']}")
        wrong = daemon.stop()
        return failures + ([wrong] if wrong else [])
    finally:
        daemon.kill()


def kernel_log(_plan):
    text = subprocess.run(["dmesg"], stdin=subprocess.DEVNULL, capture_output=True,
                          check=False).stdout.decode(errors="replace")
    (RESULTS / "dmesg").write_text(text)
    return [line for line in OOM_KILL.sub("", text).splitlines() if TROUBLE.search(line)], {}


def main():
    plan = json.loads(PLAN.read_text())
    os.environ["PROFD_TEST_SLOWNESS"] = str(plan["slowness"])
    observed = {"setting": plan["setting"], "kernel": platform.release(), "cpus": os.cpu_count()}
    say("booted")
    run_scenarios(plan)
    say("scenarios ran")
    for check in (kernel_test, capabilities, kernel_log):
        began = time.monotonic()
        try:
            failures, found = check(plan)
        except (Gone, OSError) as error:
            failures, found = [str(error)], {}
        observed |= found
        result = Result(check.__name__, plan["setting"], "failed" if failures else "passed",
                        time.monotonic() - began, failures, kernel=platform.release())
        print(result.line(), flush=True)
        with (RESULTS / "scenarios.jsonl").open("a") as file:
            file.write(json.dumps(asdict(result)) + "\n")
        say(f"{check.__name__} ran")
    observed["seconds"] = round(time.clock_gettime(time.CLOCK_BOOTTIME), 1)
    (RESULTS / "observed.json").write_text(json.dumps(observed) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
