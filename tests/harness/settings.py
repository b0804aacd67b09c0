"""The settings that a scenario runs in, and which of them a run covers."""

from dataclasses import dataclass, field

from .scenario import SOURCES


@dataclass(frozen=True)
class Setting:
    name: str
    about: str
    options: tuple = ()                     # of profd
    off: frozenset = field(default_factory=frozenset)  # sources that are disabled
    inside: str = "host"                    # host, pidns, container, or a guest's name


SETTINGS = (
    Setting("defaults", "as shipped"),
    Setting("no-budget", "budgets off", ("--budget", "off", "--daemon-budget", "off")),
    *(Setting(f"no-{source}", f"without the source {source}", ("--disable", source), frozenset({source}))
      for source in SOURCES),
    Setting("pidns", "profd and targets in a PID namespace of their own", inside="pidns"),
    Setting("container", "target, profd and profctl each in a container", inside="container"),
    Setting("linux-6.1", "Debian's 6.1, emulated", inside="6.1"),
    Setting("linux-6.12", "Debian's 6.12, emulated", inside="6.12"),
    Setting("cpus-8", "Debian's 6.12 with 8 CPUs, emulated", inside="6.12x8"),
)
BY_NAME = {setting.name: setting for setting in SETTINGS}


def fits(scenario, setting):
    """Why a scenario does not run in a setting; "" when it does."""
    if scenario.only and setting.name not in scenario.only:
        return "it is for " + ", ".join(scenario.only)
    if setting.name in scenario.without:
        return scenario.without[setting.name]
    if setting.inside not in ("host", "pidns") and setting.inside in scenario.without:
        return scenario.without[setting.inside]
    return ""


def full(scenarios):
    """Every scenario in every setting that it fits: [(scenario, setting)]."""
    return [(scenario, setting) for setting in SETTINGS for scenario in scenarios
            if not fits(scenario, setting)]


def cover(scenarios):
    """The subset that `tests/run` takes.

    1. Every scenario runs as shipped (where it fits there, else in the first setting that it fits).
    2. For every source and every other setting, the quickest scenario that rests on that source runs
       in that setting; one scenario may serve several sources.
    3. For every setting that disables a source, the quickest scenario that rests on that source runs
       without it, and shows that profd says so.
    Scenarios that are marked `long` are left to `tests/run --all`.
    """
    short = [scenario for scenario in scenarios if not scenario.long]
    chosen = []
    for scenario in short:
        fitting = [setting for setting in SETTINGS if not fits(scenario, setting)]
        if fitting:
            chosen.append((scenario, fitting[0]))
    for setting in SETTINGS[1:]:
        missing = set(SOURCES)
        for pair in chosen:
            if pair[1] is setting:
                missing -= pair[0].sources()
        candidates = sorted((s for s in short if not fits(s, setting)), key=lambda s: (s.seconds, s.name))
        # Those that serve several sources at once come first: fewer runs do then.
        while missing:
            best = max(candidates, key=lambda s: (len(s.sources() & missing), -s.seconds), default=None)
            if best is None or not best.sources() & missing:
                break
            chosen.append((best, setting))
            missing -= best.sources()
    order = {setting.name: i for i, setting in enumerate(SETTINGS)}
    return sorted(chosen, key=lambda pair: (order[pair[1].name], pair[0].name))
