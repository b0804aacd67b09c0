"""Runs scenarios of tests/scenarios against a real profd. See docs/developing.md, "Scenarios"."""

import argparse
import concurrent.futures
import json
import os
import platform
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from . import scenario as scenarios
from . import settings
from .daemon import Host
from .runner import Runner

ROOT = Path(__file__).resolve().parent.parent.parent


def parse():
    parser = argparse.ArgumentParser(
        prog="python3 -m tests.harness", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="examples:\n"
               "  sudo python3 -m tests.harness naps            one scenario, as shipped\n"
               "  sudo python3 -m tests.harness --setting no-budget naps mutex\n"
               "  sudo python3 -m tests.harness --matrix cover  what tests/run does\n"
               "  python3 -m tests.harness --list               what there is, and what it rests on\n\n"
               "exit status: 0 all passed, 1 something failed, 2 the command line or a scenario file is "
               "wrong")
    parser.add_argument("scenario", nargs="*", help="names of files in tests/scenarios, without .toml")
    parser.add_argument("--setting", action="append", metavar="NAME",
                        help="run in this setting; may be repeated (default: defaults)")
    parser.add_argument("--matrix", choices=("cover", "full"),
                        help="every setting: a covering subset, or all of them")
    parser.add_argument("--inside", metavar="PLACE",
                        help="only settings of this place: host, pidns, container, or a guest's name")
    parser.add_argument("--build", type=Path, default=ROOT / "build/tests", metavar="DIR",
                        help="build tree with the programs (default: build/tests)")
    parser.add_argument("--jobs", type=int, default=4, metavar="N",
                        help="scenarios at once in a setting (default: 4)")
    parser.add_argument("--facts", type=Path, metavar="FILE",
                        help="what the probe of the machine found (JSON); without it every fact is taken "
                             "to hold")
    parser.add_argument("--results", type=Path, metavar="FILE", help="append results, one JSON line each")
    parser.add_argument("--list", action="store_true", help="list scenarios and the plan; run nothing")
    return parser.parse_args()


class AllFacts(dict):
    """Without a probe: what is missing fails where it is needed."""

    def get(self, _key, _default=None):
        return True


def plan(arguments, all_scenarios, facts):
    for scenario in all_scenarios:
        settings.check(scenario)
    if arguments.matrix:
        pairs = settings.full(all_scenarios) if arguments.matrix == "full" else settings.cover(all_scenarios, facts)
    else:
        chosen = []
        for name in arguments.setting or ["defaults"]:
            if name not in settings.BY_NAME:
                raise scenarios.BadScenario(f"no setting '{name}'; there are "
                                            f"{', '.join(settings.BY_NAME)}")
            chosen.append(settings.BY_NAME[name])
        pairs = [(scenario, setting) for setting in chosen for scenario in all_scenarios
                 if not settings.fits(scenario, setting)]
    if arguments.matrix and arguments.setting:
        pairs = [pair for pair in pairs if pair[1].name in arguments.setting]
    if arguments.inside:
        pairs = [pair for pair in pairs if pair[1].inside == arguments.inside]
    return pairs


def show_list(pairs):
    for scenario, setting in pairs:
        print(f"{setting.name:12} {scenario.name:32} {','.join(sorted(scenario.sources())):28} "
              f"{scenario.about}")


def run_setting(setting, chosen, arguments, facts, show):
    if setting.inside == "pidns" and os.environ.get("PROFD_INSIDE") != "pidns":
        # Once more, in a namespace in which nothing else is.
        command = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", sys.executable, "-m",
                   "tests.harness", "--setting", setting.name, "--build", str(arguments.build.resolve()),
                   "--jobs", str(arguments.jobs), *(scenario.name for scenario in chosen)]
        for option, path in (("--facts", arguments.facts), ("--results", arguments.results)):
            if path:
                command += [option, str(path.resolve())]
        done = subprocess.run(command, cwd=ROOT, env={**os.environ, "PROFD_INSIDE": "pidns"},
                              stdin=subprocess.DEVNULL, check=False)
        return done.returncode == 0
    place = place_of(setting, arguments)
    try:
        runner = Runner(setting, place, facts, arguments.jobs, show, platform.release())
        return all(result.outcome != "failed" for result in runner.run(chosen))
    finally:
        place.close()


def run_settings(work, arguments, facts, show):
    """Runs one setting after another. Those on this machine with few scenarios run side by side, or it would be idle."""
    def run(each):
        return run_setting(*each, arguments, facts, show)

    few = [(setting, chosen) for setting, chosen in work if setting.inside == "host" and len(chosen) < arguments.jobs]
    good = [run(each) for each in work if each not in few]
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        good += pool.map(run, few)
    return all(good)


def place_of(setting, arguments):
    if setting.inside == "container":
        from .containers import Place  # needs podman, which other settings do without
        return Place(arguments.build)
    return Host(arguments.build)


def main():
    arguments = parse()
    facts = json.loads(arguments.facts.read_text())["facts"] if arguments.facts else AllFacts()
    try:
        all_scenarios = scenarios.load_all(arguments.scenario)
        pairs = plan(arguments, all_scenarios, facts)
    except scenarios.BadScenario as error:
        print(f"harness: {error}", file=sys.stderr)
        return 2
    if arguments.list:
        show_list(pairs)
        return 0
    if not (arguments.build / "profd").exists():
        print(f"harness: {arguments.build}/profd is missing: build it (cmake --preset tests && cmake "
              f"--build --preset tests), or name another tree by --build", file=sys.stderr)
        return 2

    def show(result):
        print(result.line(), flush=True)
        if arguments.results:
            with arguments.results.open("a") as file:
                file.write(json.dumps(asdict(result)) + "\n")

    if not arguments.matrix:
        # Whoever names a scenario wants to know why it does not run.
        for setting in arguments.setting or ["defaults"]:
            for scenario in all_scenarios if arguments.scenario else []:
                why = settings.fits(scenario, settings.BY_NAME[setting])
                if why:
                    print(f"none {scenario.name} [{setting}] does not fit: {why}", flush=True)
    work = [(setting, chosen) for setting in settings.SETTINGS
            if (chosen := [scenario for scenario, where in pairs if where is setting])]
    return 0 if run_settings(work, arguments, facts, show) else 1


if __name__ == "__main__":
    sys.exit(main())
