"""Two models on the same instances: is one better, or was it chance?"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

import numpy as np
from scipy.special import bdtr, stdtrit

EXACT = 16
"""Up to so many differences, all signs are tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The mean of paired differences."""

    mean: float
    instances: int
    error: float | None
    """None: one instance."""
    low: float | None
    high: float | None
    """The 95 % interval, by t with n - 1; None where there is no error."""


def difference(first: Sequence[float], second: Sequence[float]) -> Difference | None:
    """First less second, by instance; None: there is none.

    Args:
        first: means over attempts, one an instance, shape (n,).
        second: the same instances in the same order, shape (n,).

    Source: Miller (2024), Adding Error Bars to Evals, section 4.1.
    """
    if not first:
        return None
    gaps = [a - b for a, b in zip(first, second, strict=True)]
    mean, n = fmean(gaps), len(gaps)
    if n == 1:
        return Difference(mean=mean, instances=1, error=None, low=None, high=None)
    error = stdev(gaps) / math.sqrt(n)
    half = float(stdtrit(n - 1, 0.975)) * error
    return Difference(
        mean=mean,
        instances=n,
        error=error,
        low=max(-1.0, mean - half),
        high=min(1.0, mean + half),
    )


def mcnemar(only_first: int, only_second: int) -> float:
    """Exact two-sided p of the discordant pairs; 1 where there is none.

    Source: McNemar (1947), Psychometrika 12, 153-157; exact by the binomial with chance 1/2.
    """
    total = only_first + only_second
    if not total:
        return 1.0
    return min(1.0, 2 * float(bdtr(min(only_first, only_second), total, 0.5)))


def least_flips(alpha: float = 0.05) -> int:
    """How many instances must differ, all one way, before `mcnemar` goes below alpha."""
    flips = 1
    while mcnemar(flips, 0) >= alpha:
        flips += 1
    return flips


def permutation(
    first: Sequence[float],
    second: Sequence[float],
    *,
    rng: random.Random,
    draws: int = 20_000,
) -> float:
    """Two-sided p of the mean difference under swapped pairs: all of them where they are few.

    Args:
        first: means over attempts, one an instance, shape (n,).
        second: the same instances in the same order, shape (n,).

    Source: Good (2005), Permutation, Parametric and Bootstrap Tests of Hypotheses, section 3.3;
    one is added to drawn counts as in Phipson and Smyth (2010).
    """
    pairs = zip(first, second, strict=True)
    # Where both agree, swapping changes nothing.
    gaps = np.array([a - b for a, b in pairs if a != b])
    if not len(gaps):
        return 1.0
    least = abs(gaps.sum()) - 1e-9
    if len(gaps) <= EXACT:
        numbers = np.arange(2 ** len(gaps))[:, None] >> np.arange(len(gaps))
        sums = np.abs((1 - 2 * (numbers & 1)) @ gaps)
        return float((sums >= least).mean())
    draw = np.random.default_rng(rng.getrandbits(64))
    extreme = 0
    for start in range(0, draws, 1000):
        signs = draw.choice([-1.0, 1.0], size=(min(1000, draws - start), len(gaps)))
        extreme += int((np.abs(signs @ gaps) >= least).sum())
    return (extreme + 1) / (draws + 1)


def holm(chances: Sequence[float]) -> list[float]:
    """p-values of m tests, each corrected for the others, in the order they came.

    Source: Holm (1979), Scandinavian Journal of Statistics 6, 65-70.
    """
    order = sorted(range(len(chances)), key=lambda place: chances[place])
    corrected, highest = [0.0] * len(chances), 0.0
    for rank, place in enumerate(order):
        highest = max(highest, min(1.0, (len(chances) - rank) * chances[place]))
        corrected[place] = highest
    return corrected
