"""The statistics behind the tables: no assumption about the shape of the noise anywhere."""

import math
import statistics


def median_interval(values, confidence=0.95):
    """Order-statistic interval for the median: (low, high, coverage), or None for too few.

    Each value lies below the true median with probability 1/2, so the number below it is binomial:
    the k-th smallest and k-th largest value enclose it with a probability that is known exactly.
    Needs 6 values for 95 %.
    """
    ordered, n = sorted(values), len(values)
    tail, best = 0.0, None
    for k in range(n // 2):
        tail += math.comb(n, k) / 2**n
        if 1 - 2 * tail < confidence:
            break
        best = (ordered[k], ordered[n - 1 - k], 1 - 2 * tail)
    return best


def quartiles(values):
    """The 25th and 75th percentile, interpolated between the values."""
    if len(values) < 2:
        return values[0], values[0]
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


def percentile(values, share):
    """The smallest value that at least `share` (0 to 1) of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def summary(values):
    """What a table shows of a row of numbers."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values),
            "quartiles": list(quartiles(values)), "interval": median_interval(values)}


def _double_ranks(values):
    """Twice the rank of each value, ties sharing the mean of theirs: integers, so exact."""
    order = sorted(range(len(values)), key=lambda index: values[index])
    ranks = [0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end + 1 < len(order) and values[order[end + 1]] == values[order[start]]:
            end += 1
        for position in range(start, end + 1):
            ranks[order[position]] = start + end + 2
        start = end + 1
    return ranks


def _exact_tail(ranks, n, observed):
    """P(sum of n of the ranks, drawn without putting back, lies as far out as `observed`)."""
    ways = [{0: 1}] + [{} for _ in range(n)]
    for rank in ranks:
        for chosen in range(n, 0, -1):
            target = ways[chosen]
            for total, count in ways[chosen - 1].items():
                target[total + rank] = target.get(total + rank, 0) + count
    centre = n * sum(ranks) / len(ranks)
    far = abs(observed - centre) - 1e-9
    hits = sum(count for total, count in ways[n].items() if abs(total - centre) >= far)
    return hits / math.comb(len(ranks), n)


def mann_whitney(first, second):
    """Two-sided p-value that the two sets of values come from one distribution.

    Exact, ties included, up to 60 values together: every way to deal the ranks is counted. Beyond
    that the normal approximation with the correction for ties, which is then good to a percent.
    """
    if not first or not second:
        raise ValueError("mann_whitney needs values on both sides")
    ranks = _double_ranks(list(first) + list(second))
    n, m = len(first), len(second)
    observed = sum(ranks[:n])
    if n + m <= 60:
        return min(1.0, _exact_tail(ranks, n, observed))
    total = n + m
    counts = {}
    for rank in ranks:
        counts[rank] = counts.get(rank, 0) + 1
    ties = sum(count**3 - count for count in counts.values()) / (total * (total - 1))
    variance = n * m / 12 * (total + 1 - ties)
    if variance <= 0:
        return 1.0
    # In units of whole ranks, with the continuity correction of half a rank.
    distance = max(0.0, abs(observed / 2 - n * (total + 1) / 2) - 0.5)
    return math.erfc(distance / math.sqrt(2 * variance))
