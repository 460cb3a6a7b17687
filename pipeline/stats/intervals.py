"""How far a rate may be off: intervals of 95 %."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist, fmean, stdev

Z95 = NormalDist().inv_cdf(0.975)


def wilson(rate: float, size: float, z: float = Z95) -> tuple[float, float]:
    """Wilson score interval of a proportion.

    Args:
        rate: the observed proportion, in [0, 1].
        size: number of trials; may be fractional where it is an effective size.

    Returns:
        Lower and upper bound, in [0, 1].

    Source: Wilson (1927), JASA 22(158), 209-212.
    """
    if size <= 0:
        raise ValueError(f"size must be positive, got {size}")
    shrink = 1 + z * z / size
    centre = (rate + z * z / (2 * size)) / shrink
    half = z * math.sqrt(rate * (1 - rate) / size + z * z / (4 * size * size)) / shrink
    return max(0.0, centre - half), min(1.0, centre + half)


def effective_size(means: Sequence[float], attempts: int) -> float:
    """Independent trials that the attempts at n instances are worth.

    p(1 - p) / SE^2 with SE from the instance means (n - 1), clamped to
    [n, attempts]; n where p is 0 or 1 or n is 1; attempts where all means agree.

    Args:
        means: share of resolved attempts, one an instance.
        attempts: attempts behind them, all instances together.
    """
    n = len(means)
    rate = fmean(means)
    if n == 1 or rate in (0.0, 1.0):
        return float(n)
    error = stdev(means) / math.sqrt(n)
    if error == 0:
        return float(max(n, attempts))
    return min(max(rate * (1 - rate) / error**2, float(n)), float(max(n, attempts)))


def interval(groups: Sequence[Sequence[float]]) -> tuple[float, float, float] | None:
    """Mean over instances of the mean over their attempts, with its 95 % interval.

    Args:
        groups: for each instance the values (0 or 1) of its counted attempts;
            an instance without any is left out.

    Returns:
        Rate, lower and upper bound; None where nothing is counted.
    """
    counted = [group for group in groups if group]
    if not counted:
        return None
    means = [fmean(group) for group in counted]
    attempts = sum(len(group) for group in counted)
    rate = fmean(means)
    size = float(len(means)) if attempts == len(means) else effective_size(means, attempts)
    low, high = wilson(rate, size)
    return rate, low, high


def no_success_bound(trials: int) -> float:
    """Where a chance lies at most (95 %, one-sided) that was never seen in n trials.

    Source: exact binomial; the "rule of three" approximates it by 3/n.
    """
    if trials < 1:
        raise ValueError(f"trials must be positive, got {trials}")
    return float(1 - 0.05 ** (1 / trials))
