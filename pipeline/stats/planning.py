"""How many instances and attempts a question needs."""

from __future__ import annotations

import math
from statistics import NormalDist


def quantile(chance: float) -> float:
    return NormalDist().inv_cdf(chance)


def instances_for_difference(
    delta: float,
    *,
    between: float,
    within: tuple[float, float],
    attempts: tuple[int, int] = (1, 1),
    alpha: float = 0.05,
    power: float = 0.8,
) -> float:
    """Instances that show a paired difference; round up.

    Args:
        delta: the least difference of interest, in [0, 1].
        between: omega^2, the variance of the instances' own differences.
        within: sigma^2 of one attempt, of either model.
        attempts: k of either model.

    Raises:
        ValueError: delta is not positive.

    Source: Miller (2024), Adding Error Bars to Evals, equation 9.
    """
    if delta <= 0:
        raise ValueError(f"the difference must be positive, got {delta}")
    noise = between + sum(part / k for part, k in zip(within, attempts, strict=True))
    return (quantile(1 - alpha / 2) + quantile(power)) ** 2 * noise / delta**2


def instances_for_width(
    half: float, *, rate: float = 0.5, between: float | None = None, within: float = 0.0, k: int = 1
) -> float:
    """Instances whose 95 % interval reaches so far to either side; round up.

    Args:
        half: half the width of the interval, in (0, 1).
        rate: the expected pass@1, for p (1 - p) where no variance is known.
        between: omega^2; None: not known.
        within: sigma^2.

    Raises:
        ValueError: half is not positive.
    """
    if half <= 0:
        raise ValueError(f"the half-width must be positive, got {half}")
    noise = rate * (1 - rate) if between is None else between + within / k
    return quantile(0.975) ** 2 * noise / half**2


def expected_error(n: float, *, between: float, within: float, k: int = 1) -> float:
    """The standard error of pass@1: sqrt((omega^2 + sigma^2/k) / n)."""
    return math.sqrt((between + within / k) / n)


def detectable(error: float, *, alpha: float = 0.05, power: float = 0.8) -> float:
    """The least difference that a comparison with this error finds with that power.

    Source: Bloom (1995), Minimum Detectable Effects, Evaluation Review 19(5), 547-556.
    """
    return (quantile(1 - alpha / 2) + quantile(power)) * error
