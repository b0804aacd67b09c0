"""The jobs of tests/run: what each does, what it needs first, and how much of the machine it takes."""

import json
import os
from pathlib import Path

from . import outcome
from .jobs import Failed, Job

CPUS = len(os.sched_getaffinity(0)) + 1
GUESTS = (("guest-6.1", "6.1"), ("guest-6.12", "6.12"))


def build(preset, *targets):
    """Configures and builds a preset; of it all, or some targets."""
    def run(context):
        context.command(["cmake", "--preset", preset])
        words = ["--target", *targets] if targets else []
        context.command(["cmake", "--build", f"build/{preset}", "-j", os.cpu_count(), *words])
        return [outcome.Outcome(f"build {preset}", "passed")]
    return run


def gtest(job, program, *, shards=1, environment=None, timeout=600, arguments=()):
    """Runs a GoogleTest program, in several parts side by side where it may."""
    def run(context):
        import threading  # pylint: disable=import-outside-toplevel
        outcomes, errors = [], []

        def part(index):
            xml = context.logs / f"{context.name}.{job}.{index}.xml"
            code = context.command([context.root / program, f"--gtest_output=xml:{xml}", *arguments], check=False,
                                   timeout=timeout,
                                   environment={**(environment or {}), "GTEST_TOTAL_SHARDS": str(shards),
                                                "GTEST_SHARD_INDEX": str(index)})
            try:
                found = outcome.from_gtest(job, xml)
            except (OSError, SyntaxError):
                errors.append(f"{program} ended with {code} and no results:\n{context.tail()}")
                return
            outcomes.extend(found)
            if code != 0 and not any(each.result == "failed" for each in found):
                errors.append(f"{program} ended with {code} after its tests:\n{context.tail()}")

        threads = [threading.Thread(target=part, args=(index,)) for index in range(shards)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if not outcomes and not errors:
            errors.append(f"{program} ran no test")
        outcomes += [outcome.Outcome(f"{job} {program}", "failed", error) for error in errors]
        return outcomes
    return run


def together(*runs):
    """One job of several, one after another."""
    def run(context):
        return [each for part in runs for each in part(context)]
    return run


def script(name, *argv, timeout=1800, environment=None):
    """A command that is one test: 0 passed, 77 with "skipped: FACT: reason" skipped."""
    def run(context):
        code = context.command(argv, check=False, timeout=timeout, environment=environment)
        if code == 0:
            return [outcome.Outcome(name, "passed")]
        text = context.log_path.read_text(errors="replace")
        if code == 77:
            return [outcome.Outcome(name, "skipped", text[-500:], outcome.fact_of(text))]
        return [outcome.Outcome(name, "failed", context.tail())]
    return run


def scenarios(*words, timeout=3600):
    """The scenario runner, with these arguments."""
    def run(context):
        results = context.logs / f"{context.name}.jsonl"
        matrix = "full" if context.options.all else "cover"
        code = context.command(["python3", "-m", "tests.harness", "--matrix", matrix, "--build", "build/tests", "--facts",
                                context.logs / "facts.json", "--results", results, *words], check=False,
                               timeout=timeout)
        return results_in(context, results, code)
    return run


def results_in(context, results, code):
    if not results.exists():
        raise Failed(f"no scenario ran (exit status {code}):\n{context.tail()}")
    outcomes = [outcome.from_scenario(json.loads(line)) for line in results.read_text().splitlines()]
    if code != 0 and not any(each.result == "failed" for each in outcomes):
        raise Failed(f"the scenario runner ended with {code}:\n{context.tail()}")
    return outcomes


def guest(version, *words):
    def run(context):
        results = context.logs / f"{context.name}.jsonl"
        code = context.command(["tests/vm/run", "--build", "build/tests", "--results", results, "--scenarios",
                                "full" if context.options.all else "cover", *words, version], check=False,
                               timeout=3600)
        if code == 77:
            text = context.log_path.read_text(errors="replace")
            return [outcome.Outcome(f"guest {version}", "skipped", text[-500:], outcome.fact_of(text))]
        outcomes = results_in(context, results, 0) if results.exists() else []
        outcomes.append(outcome.Outcome(f"guest {version}", "passed" if code == 0 else "failed", context.tail()))
        return outcomes
    return run


def python_tests(*folders):
    """unittest's, one outcome a file: the log has the rest."""
    def run(context):
        outcomes = []
        for folder in folders:
            for path in sorted(Path(context.root, folder).glob("test_*.py")):
                code = context.command(["python3", path], check=False)
                outcomes.append(outcome.Outcome(f"python {path.relative_to(context.root)}",
                                                "passed" if code == 0 else "failed", context.tail()))
        if not outcomes:
            raise Failed(f"no test_*.py in {', '.join(folders)}")
        return outcomes
    return run


def jobs():
    return [
        Job("style", script("style", "python3", "-m", "tests.suite.hygiene", "--format", "--spelling"), cpus=1,
            about="clang-format, spelling"),
        Job("build", build("tests"), cpus=2, about="the product, targets, kernel and system tests"),
        Job("asan-build", build("asan"), follows=("build",), cpus=2, about="unit tests and fuzzers, address and UB"),
        Job("tsan-build", build("tsan"), follows=("asan-build",), cpus=2, about="tests that use threads"),
        Job("kernel", gtest("kernel", "build/tests/kernel_test"), after=("build",), cpus=0.5,
            about="the kernel programs, loaded and attached"),
        Job("scenarios", scenarios("--inside", "host"), after=("build",), follows=("kernel",), cpus=0.5,
            about="real targets, as shipped and in other settings"),
        Job("pidns", scenarios("--inside", "pidns"), after=("build",), follows=("scenarios",), cpus=0.5,
            about="scenarios in a PID namespace"),
        Job("containers", scenarios("--inside", "container"), after=("build",), follows=("pidns",), cpus=0.5,
            about="scenarios in containers"),
        *(Job(name, guest(version), after=("build",), cpus=1, about=f"scenarios on Linux {version}, emulated")
          for name, version in GUESTS),
        Job("unit", gtest("unit", "build/asan/unit_tests", shards=2), after=("asan-build",), cpus=1,
            about="unit tests, under address and UB sanitizers"),
        Job("threads", gtest("threads", "build/tsan/thread_tests"), after=("tsan-build",), cpus=1,
            about="tests that use threads, under the thread sanitizer"),
    ]


def describe():
    lines = ["jobs (those marked * run with --all alone):"]
    lines += [f"  {'*' if job.long else ' '} {job.name:12} {job.about}" for job in jobs()]
    return "\n".join(lines)
