#!/usr/bin/env python3
"""Makes deploy/seccomp.json: what container engines allow by default, and the calls of CALLS.

The engines' default is a list with conditions (architecture, capabilities) that Docker, Podman and
CRI-O decide and containerd does not know. So they are decided here, for x86-64 and the capabilities
of CAPABILITIES, and the result is a plain OCI profile that every engine reads in the same way.
"""

import argparse
import json
import sys
from pathlib import Path

COMMITTED = Path(__file__).with_name("seccomp.json")
# Of Debian's golang-github-containers-common, which Podman uses when it is given no profile.
DEFAULT = Path("/usr/share/containers/seccomp.json")

# What profd calls and the default refuses to a container without CAP_SYS_ADMIN.
CALLS = {
    "bpf": "loads the kernel programs, attaches them and reads their maps",
    "perf_event_open": "samples running code; before Linux 6.6, with CAP_SYS_ADMIN, also puts probes "
                       "into allocators and libcs",
}

ARCHITECTURE = "amd64"
# The capabilities that profd is given: docs/operating.md.
CAPABILITIES = frozenset({
    "CAP_BPF",
    "CAP_CHECKPOINT_RESTORE",
    "CAP_DAC_READ_SEARCH",
    "CAP_PERFMON",
    "CAP_SYSLOG",
    "CAP_SYS_NICE",
    "CAP_SYS_PTRACE",
})


def applies(rule: dict) -> bool:
    """Whether a rule of the default is meant for ARCHITECTURE and CAPABILITIES."""
    includes, excludes = rule.get("includes") or {}, rule.get("excludes") or {}
    for conditions in (includes, excludes):
        if unknown := set(conditions) - {"arches", "caps"}:
            raise ValueError(f"a rule has a condition that is not known here: {unknown}")
    if "arches" in includes and ARCHITECTURE not in includes["arches"]:
        return False
    if "caps" in includes and not CAPABILITIES.issuperset(includes["caps"]):
        return False
    if ARCHITECTURE in excludes.get("arches", []):
        return False
    return CAPABILITIES.isdisjoint(excludes.get("caps", []))


def derive(default: dict, calls) -> dict:
    """The default profile as an OCI profile, with `calls` allowed whatever their arguments."""
    native = next(a for a in default["archMap"] if a["architecture"] == "SCMP_ARCH_X86_64")
    rules = []
    for rule in default["syscalls"]:
        names = [name for name in rule["names"] if name not in calls]
        if not names or not applies(rule):
            continue
        kept = {"names": names, "action": rule["action"]}
        if "errnoRet" in rule:
            kept["errnoRet"] = rule["errnoRet"]
        if rule.get("args"):
            kept["args"] = rule["args"]
        rules.append(kept)
    if calls:
        rules.append({"names": sorted(calls), "action": "SCMP_ACT_ALLOW"})
    return {
        "defaultAction": default["defaultAction"],
        "defaultErrnoRet": default["defaultErrnoRet"],
        "architectures": [native["architecture"], *native["subArchitectures"]],
        "syscalls": rules,
    }


def text(profile: dict) -> str:
    return json.dumps(profile, indent=1) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--default", type=Path, default=DEFAULT, metavar="FILE",
                        help="the engine's default profile (%(default)s)")
    parser.add_argument("--check", action="store_true",
                        help="write nothing; fail when deploy/seccomp.json is not what would be "
                             "written")
    parser.add_argument("--without", choices=CALLS, metavar="CALL",
                        help="print the profile without one of the calls, to see what needs it")
    arguments = parser.parse_args()
    calls = set(CALLS) - {arguments.without}
    made = text(derive(json.loads(arguments.default.read_text()), calls))
    if arguments.without:
        sys.stdout.write(made)
    elif not arguments.check:
        COMMITTED.write_text(made)
    elif COMMITTED.read_text() != made:
        print(f"seccomp: {COMMITTED} is not {arguments.default} with {', '.join(CALLS)}; "
              "deploy/seccomp.py writes it anew", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
