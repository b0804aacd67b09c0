"""The `slices` protocol: a tool is paused and resumed during one run of the target.

    block   on off | off on | on off | ...   then a span in which it is on, for itself

Two adjacent slices of --slice seconds are a pair, one with the tool on and one with it off, in
random order (stats.py says why). A guard time after each switch is in no slice: until profd's
programs are out of the kernel or back, and for redis until the probes in its allocator are.

profd's governor judges by whole seconds, which slices do not have, so it stays at the levels that
it has. At its start it has saved a minute's worth of its budget, and gives up little until that is
spent; a profd that is always on has long spent it, or never needs it. So the first slice waits for
that. Each block ends with a span in which profd is on without a break. There the governor acts, and
there is read what was in force and what profd itself takes, drains included. A
drain, once a second, comes in that span and when profd is paused or resumed, so none is in a slice:
its cost is in "CPU of profd", not in the ratio. What comes at random instants, seconds apart
(bursts of glibc's malloc), is drawn anew at each resume, so it falls into slices as often as into
other time.

Where the target is a program that runs for a second or two (pipe, messaging, rustc), a slice is one
whole run of it, and all else is the same.
"""

import os
import time

from profdbench import in_force, stats
from profdbench.process import Failed
from profdbench.surroundings import Surroundings

SPAN_SECONDS = 2.1  # two drains, one a second
# Long, because profd pays from its budget for each answer, too.
SETTLE_SECONDS = 20
USUAL_SPANS_TO_SETTLE = 3
MOST_SPANS_TO_SETTLE = 9


def tokens_of_block(workload, tool, pairs, seconds, random):
    """(tokens of the slices, whether the tool was on in each)."""
    tokens, states = [], []
    for _ in range(pairs):
        for on in random.sample((True, False), 2):
            if not states or states[-1] != on:
                tool.pause(not on)
            time.sleep(workload.guard_seconds)
            tokens.append(workload.slice(seconds))
            states.append(on)
    return tokens, states


def block_of(works, states):
    on = [work for work, state in zip(works, states) if state]
    off = [work for work, state in zip(works, states) if not state]
    block = stats.Block.of(on, off)
    if min(block.on.amount, block.off.amount, block.on.cpu, block.off.cpu) <= 0:
        raise Failed("the target got nothing done in a whole block")
    return block


def own_span(workload, tool, seconds=SPAN_SECONDS):
    """A span in which the tool is on; what it says of itself, and of what is in force."""
    tool.begin()
    if workload.forks:
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            workload.slice(0)
    else:
        time.sleep(max(seconds, workload.late_seconds))
    return tool.end()


def settle(workload, tool):
    """Lets the tool watch until it costs what it always will. How long that took, s."""
    began = time.monotonic()
    for _ in range(MOST_SPANS_TO_SETTLE):
        own_span(workload, tool, SETTLE_SECONDS if tool.has_savings else SPAN_SECONDS)
        if not tool.spends_savings():
            break
    return time.monotonic() - began


def run(workload, tool, pairs, seconds, random, progress):
    """All blocks of one row: {"blocks", "extras", "disturbed", "pairs", "readings"}."""
    # Each run is a process of its own: what lasts, and what a tool can be told to watch, is the
    # parent of them all.
    pids = [os.getpid()] if workload.forks else workload.pids()
    size = stats.block_pairs(pairs)
    blocks, extras, disturbed, done = [], [], 0, 0
    try:
        tool.start(workload, pids)
        # What a tool reads once of a program that it never saw is not what it costs always.
        workload.collect([workload.slice(seconds)])
        settled = settle(workload, tool)
        while done < pairs:
            now = min(size, pairs - done)
            if now < size and blocks:
                break  # a shorter block would be noisier than the interval supposes
            around = Surroundings(pids)
            tokens, states = tokens_of_block(workload, tool, now, seconds, random)
            tool.pause(False)
            time.sleep(max(workload.guard_seconds, 0))
            extras.append(own_span(workload, tool))
            blocks.append(block_of(workload.collect(tokens), states))
            disturbed += around.disturbed()
            done += now
            progress(done, stats.estimate([block.speed() for block in blocks]))
    finally:
        tool.stop()
    readings = [extra["status"] for extra in extras if "status" in extra]
    return {"blocks": blocks, "extras": extras, "disturbed": disturbed, "pairs": done, "settled_s": settled,
            "in_force": in_force.summary(readings) if readings else {}}
