"""What of profd was in force while something was measured: from `profctl status --format json`.

A source that is *off* tells of nothing: its layer is off, because the governor gave it up or
because an option disabled it. A layer that is off although its source is at level 0 has nothing to
watch in this program, which is not a loss. A *level* above 0 means fewer samples.
"""

import statistics

from profdbench import process


def reading(status, disabled=()):
    """{"tick_ms", "off": [source], "levels": {source: level}} of one status."""
    levels = {source["name"]: int(source.get("level", 0))
              for source in status.get("governor", {}).get("sources", [])}
    layers = {layer["name"]: bool(layer.get("on")) for layer in status.get("layers", [])}
    off = [name for name, on in layers.items()
           if not on and (levels.get(name, 0) > 0 or name in disabled)]
    return {"tick_ms": int(process.find_key(status, "tick_interval_ns") or 0) / 1e6, "off": off,
            "levels": {name: level for name, level in levels.items() if level > 0}}


def summary(readings):
    """Over a whole row: the median interval, the share of readings at which each source was off,
    and the highest level of each of the others."""
    off = sorted({name for one in readings for name in one["off"]})
    levels = {}
    for one in readings:
        for name, level in one["levels"].items():
            levels[name] = max(level, levels.get(name, 0))
    return {"tick_ms": statistics.median(one["tick_ms"] for one in readings),
            "off": {name: sum(name in one["off"] for one in readings) / len(readings)
                    for name in off},
            "levels": {name: levels[name] for name in sorted(levels)
                       if any(name in one["levels"] and name not in one["off"]
                              for one in readings)}}


def headline(row):
    """One phrase for a row: what was switched off and how often profd sampled."""
    if "tick_ms" not in row:
        return ""
    off = [name if share == 1 else f"{name} ({share:.0%} of the time)"
           for name, share in row["off"].items()]
    return (f"switched off: {', '.join(off) or 'nothing'}; "
            f"sampling every {row['tick_ms']:.0f} ms")
