"""Compares what the pages say with the code, and with what the tests saw.

    python3 -m tests.suite.check_docs [--observations FILE] [--build DIRECTORY]

Losses and endings of stacks in docs/losses.md are those of the code, in its order, with the claims
of tests/losses_table.h. With --observations (or PROFD_OBSERVATIONS), a file that tests appended to
(tests/observe.h), every loss and every ending was provoked in that run. With --build, the options in
docs/operating.md are those of `profd --help`, and its limits have the defaults that it says.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys

from tests.harness.checks import HARMLESS_LOSSES

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Failed(Exception):
    """What is compared could not be read at all."""


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


def between(text, begin, end, path):
    """The text between two strings that must be there, once each from `begin` on."""
    at = text.find(begin)
    until = text.find(end, at + len(begin))
    if at < 0 or until < 0:
        raise Failed(f"{path}: nothing between {begin!r} and {end!r}")
    return text[at + len(begin) : until]


def table(text, heading, path):
    """The rows of the first table after a line that begins so, without its heading."""
    lines = text.splitlines()
    starts = [i for i, line in enumerate(lines) if line.startswith(heading)]
    if not starts:
        raise Failed(f"{path}: no line begins with {heading!r}")
    rows = []
    for line in lines[starts[0] + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip().strip("|").split(" | ")])
    return rows


def unquoted(cell):
    return cell.strip().strip("`")


def losses_in_code():
    path = "daemon/profile/names.cc"
    body = between(read(path), "kDescriptions[kLossCount] = {", "kUnknown", path)
    names = re.findall(r'\{\s*"([a-z_]+)",', body)
    abi = "bpf/abi/loss.h"
    enum = between(read(abi), "enum profd_loss {", "PROFD_LOSS_COUNT =", abi)
    own = between(
        read("daemon/profile/profile.h"), "enum class Loss : uint8_t {", "kCount", "profile.h"
    )
    expected = len(re.findall(r"PROFD_LOSS_\w+\s*=", enum)) + len(
        re.findall(r"^\s*k[A-Z]\w*", own, re.MULTILINE)
    )
    if len(names) != expected or len(set(names)) != len(names):
        raise Failed(f"{path}: {len(names)} names for {expected} losses")
    return names


def endings_in_code():
    path = "daemon/profile/names.cc"
    body = between(read(path), "const char* WalkName(", "PROFD_WALK_COUNT", path)
    names = re.findall(r'return "(\[[^"]+\])";', body)
    abi = "bpf/abi/stack.h"
    enum = between(read(abi), "enum profd_walk {", "PROFD_WALK_COUNT =", abi)
    if len(names) != len(re.findall(r"PROFD_WALK_\w+\s*=", enum)):
        raise Failed(f"{path}: {len(names)} endings, of another number in {abi}")
    return [name for name in names if name != "[complete]"]


def claims_in_tests():
    path = "tests/losses_table.h"
    body = between(read(path), "kLossClaims[] = {", "};", path)
    return [
        (name, claim.lower()) for name, claim in re.findall(r'\{"([a-z_]+)", Exact::k(\w+)[,}]', body)
    ]


def usual_losses():
    """By where they are listed: what profctl calls usual, the page, and what tests may see."""
    page, client, tests = "docs/losses.md", "client/render/caption.cc", "tests/losses_table.h"
    body = between(read(client), "bool IsUsualLoss(", "\n}\n", client)
    claims = between(read(tests), "kLossClaims[] = {", "};", tests)
    lists = {
        client: re.findall('"([a-z_]+)"', body),
        page: re.findall("`([a-z_]+)`", between(read(page), "**Usual losses**", "\n- ", page)),
        tests: re.findall(r'"([a-z_]+)", Exact::k\w+, Usual::kYes', claims),
        "tests/harness/checks.py": HARMLESS_LOSSES,
    }
    return {where: sorted(names) for where, names in lists.items()}


def differences(what, expected, actual):
    """Messages on two lists that should be the same, also in their order."""
    messages = [f"{what}: {name} is missing" for name in expected if name not in actual]
    messages += [f"{what}: {name} does not exist" for name in actual if name not in expected]
    if not messages and expected != actual:
        messages.append(f"{what}: not in the order of the code")
    return messages


def check_losses():
    page = "docs/losses.md"
    rows = table(read(page), "| cause |", page)
    documented = [unquoted(row[0]) for row in rows]
    claimed = [(unquoted(row[0]), row[-1]) for row in rows]
    code = losses_in_code()
    claims = claims_in_tests()
    messages = differences(page, code, documented)
    messages += differences("tests/losses_table.h", code, [name for name, _ in claims])
    for name, claim in claimed:
        tested = dict(claims).get(name)
        if tested is not None and tested != claim:
            messages.append(f'{page}: {name} is said to be exact "{claim}", in tests "{tested}"')
    (_, shown), *others = usual_losses().items()
    for where, listed in others:
        messages += differences(f"{where}, usual losses", shown, listed)
    messages += differences(
        f"{page}, endings",
        endings_in_code(),
        [unquoted(row[0]) for row in table(read(page), "| last frame |", page)],
    )
    return messages


def check_observations(path):
    seen = {"loss": {}, "ending": {}}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            entry = json.loads(line)
        except json.JSONDecodeError as error:
            return [f"{path}:{number}: {error}"]
        for kind, names in seen.items():
            if kind in entry and entry.get("count", 0) > 0:
                names.setdefault(entry[kind], entry.get("test"))
    messages = []
    for kind, names in (("loss", losses_in_code()), ("ending", endings_in_code())):
        messages += [f"{kind} {name}: no test provoked it" for name in names
                     if name not in seen[kind]]
        messages += [f"{kind} {name}: observed, but unknown" for name in seen[kind] if name not in names]
    return messages


def check_options(build):
    page = "docs/operating.md"
    help_text = subprocess.run(
        [build / "profd", "--help"], capture_output=True, text=True, check=True
    ).stdout
    rows = table(read(page), "| option |", page)
    documented = [re.findall(r"--[a-z-]+", row[0])[0] for row in rows]
    real = re.findall(r"^  (?:-\w, )?(--[a-z-]+)", help_text, re.MULTILINE)
    real = [option for option in real if option not in ("--help", "--version")]
    messages = differences(page, sorted(real), sorted(documented))
    limits = re.findall(
        r"^  ([a-z-]+) .*?default\s+(\w+)$",
        between(help_text, "Limits:\n", "\n\n", "profd --help"),
        re.MULTILINE | re.DOTALL,
    )
    if not limits:
        raise Failed("profd --help names no limits")
    said = {
        unquoted(row[0]): re.findall(r"\d+[KMG]?", row[1])[0]
        for row in table(read(page), "| `--limit` |", page)
    }
    messages += differences(f"{page}, limits", [name for name, _ in limits], list(said))
    for name, default in limits:
        if said.get(name, default) != default:
            messages.append(f"{page}: the default of {name} is {default}, not {said[name]}")
    return messages


def main():
    parser = argparse.ArgumentParser(description="Compares the pages with the code and the tests.")
    parser.add_argument("--observations", type=pathlib.Path, help="default: PROFD_OBSERVATIONS")
    parser.add_argument("--build", type=pathlib.Path, help="where profd is, to ask it for its options")
    arguments = parser.parse_args()
    observations = arguments.observations
    if observations is None and os.environ.get("PROFD_OBSERVATIONS"):
        # A run of other jobs alone leaves none.
        named = pathlib.Path(os.environ["PROFD_OBSERVATIONS"])
        observations = named if named.exists() else None
    try:
        messages = check_losses()
        if observations is not None:
            if not observations.exists():
                raise Failed(f"{observations}: no test wrote what it saw")
            messages += check_observations(observations)
        if arguments.build is not None:
            messages += check_options(arguments.build)
    except (Failed, OSError, subprocess.CalledProcessError) as error:
        messages = [str(error)]
    for message in messages:
        print(f"check_docs: {message}", file=sys.stderr)
    return 1 if messages else 0


if __name__ == "__main__":
    sys.exit(main())
