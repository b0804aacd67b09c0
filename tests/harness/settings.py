"""The settings that a scenario runs in, and which of them a run covers."""

from dataclasses import dataclass, field

from .scenario import SOURCES, BadScenario


@dataclass(frozen=True)
class Setting:
    name: str
    about: str
    options: tuple = ()                     # of profd
    off: frozenset = field(default_factory=frozenset)  # sources that are disabled
    inside: str = "host"                    # host, pidns, container, or a guest's name
    lacks: frozenset = frozenset()          # facts of the machine that do not hold there


UNBUDGETED = ("--budget", "off")
# Every step of profd takes many times longer where the CPU is emulated: it would keep its budget
# by giving up most of what is to be checked. Rarer ticks leave something of a CPU that is slow because
# the host is busy, too.
EMULATED = ("--budget", "off", "--tick", "40ms")
# As shipped, but for the budget: a step costs 5 to 28 times as much there, and more while the host is busy. The governor
# is at work, and need not give everything up.
SCALED = ("--budget", "40%")
LACKS_6_1 = frozenset({"kernel.6_10", "kernel.pagemap_scan", "kernel.uprobe_multi"})

SETTINGS = (
    Setting("defaults", "as shipped"),
    Setting("no-budget", "budgets off", UNBUDGETED),
    *(Setting(f"no-{source}", f"without the source {source}", ("--disable", source), frozenset({source}))
      for source in SOURCES),
    Setting("pidns", "profd and targets in a PID namespace of their own", inside="pidns"),
    Setting("container", "target, profd and profctl each in a container", inside="container"),
    Setting("linux-6.1", "Debian's 6.1, emulated", EMULATED, inside="6.1", lacks=LACKS_6_1),
    Setting("linux-6.12", "Debian's 6.12, emulated", EMULATED, inside="6.12"),
    Setting("linux-6.1-scaled", "Debian's 6.1, emulated, as shipped but for a larger budget", SCALED, inside="6.1", lacks=LACKS_6_1),
    Setting("linux-6.12-scaled", "Debian's 6.12, emulated, as shipped but for a larger budget", SCALED, inside="6.12"),
    Setting("cpus-16", "Debian's 6.12 with 16 CPUs, emulated", EMULATED, inside="6.12x16"),
)
# Guests' names: their kernel's series, and the number of CPUs where it is not two.
GUESTS = tuple(dict.fromkeys(setting.inside for setting in SETTINGS if setting.inside[0].isdigit()))
BY_NAME = {setting.name: setting for setting in SETTINGS}


def unbudgeted(setting):
    """Whether profd sheds nothing there."""
    return ("--budget", "off") in zip(setting.options[::2], setting.options[1::2])


def check(scenario):
    """Raises BadScenario when `only` or `without` names a setting that does not exist."""
    places = {setting.inside for setting in SETTINGS} - {"host"}
    for key, known in (("only", [*BY_NAME]), ("without", [*BY_NAME, *sorted(places - set(BY_NAME)), "guests"])):
        for name in getattr(scenario, key):
            if name not in known:
                raise BadScenario(f"{scenario.name}.toml: {key}: no setting '{name}'; there are "
                                  f"{', '.join(known)}")


def fits(scenario, setting):
    """Why a scenario does not run in a setting; "" when it does."""
    if scenario.only and setting.name not in scenario.only:
        return "it is for " + ", ".join(scenario.only)
    if setting.name in scenario.without:
        return scenario.without[setting.name]
    if setting.inside not in ("host", "pidns") and setting.inside in scenario.without:
        return scenario.without[setting.inside]
    if setting.inside in GUESTS and "guests" in scenario.without:
        return scenario.without["guests"]
    for fact in scenario.facts:
        if fact in setting.lacks:
            return f"there is no {fact}"
    return ""


def full(scenarios):
    """Every scenario in every setting that it fits: [(scenario, setting)]."""
    return [(scenario, setting) for setting in SETTINGS for scenario in scenarios
            if not fits(scenario, setting)]


def cover(scenarios, facts=None):
    """The subset that `tests/run` takes on a machine with these facts (default: with all).

    1. Every scenario runs as shipped (where it fits there, else in the first setting that it fits).
    2. For every source and every other setting, a scenario that rests on that source runs in that setting:
       those that serve most sources first, the quickest of them; and none that the machine cannot run if
       another one serves.
    3. For every setting that disables a source, the quickest scenario that rests on that source runs
       without it, and shows that profd says so.
    4. Every guest runs the scenarios that are marked `kernels`; those that are marked `busy` serve a
       source there only if no other one does.
    Scenarios that are marked `long` are left to `tests/run --all`.
    """
    short = [scenario for scenario in scenarios if not scenario.long]
    chosen = []
    for scenario in short:
        fitting = [setting for setting in SETTINGS if not fits(scenario, setting)]
        if fitting:
            chosen.append((scenario, fitting[0]))
    for setting in SETTINGS[1:]:
        guest = setting.inside in GUESTS
        if guest:
            chosen += [(scenario, setting) for scenario in short if scenario.kernels
                       and not fits(scenario, setting) and (scenario, setting) not in chosen]
        missing = set(SOURCES)
        for pair in chosen:
            if pair[1] is setting:
                missing -= pair[0].sources()
        candidates = sorted((s for s in short if not fits(s, setting)), key=lambda s: (s.seconds, s.name))
        # Those that serve several sources at once come first: fewer runs do then.
        while missing:
            candidates = [scenario for scenario in candidates if scenario.sources() & missing]
            best = max(candidates, default=None, key=lambda s: (
                facts is None or all(facts.get(fact) for fact in s.facts), not (guest and s.busy),
                len(s.sources() & missing), -s.seconds))
            if best is None:
                break
            chosen.append((best, setting))
            missing -= best.sources()
    order = {setting.name: i for i, setting in enumerate(SETTINGS)}
    return sorted(chosen, key=lambda pair: (order[pair[1].name], pair[0].name))
