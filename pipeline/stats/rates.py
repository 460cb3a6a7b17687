"""What k attempts at an instance are worth: at least one, all, or most of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb
from statistics import fmean, stdev

from pipeline.stats.intervals import effective_size, wilson


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A mean over instances."""

    value: float
    instances: int
    """That have enough attempts for it."""
    error: float | None
    """Over instances, n - 1; None: there is one."""
    bounds: tuple[float, float]
    """The 95 % interval: Wilson's with p (1 - p) / error^2 as size, at least the instances."""


def pass_at_k(attempts: int, resolved: int, k: int) -> float:
    """Chance that at least one of k attempts resolves, unbiased from n recorded ones.

    Raises:
        ValueError: not 1 <= k <= attempts, or not 0 <= resolved <= attempts.

    Source: Chen et al. (2021), Evaluating Large Language Models Trained on Code, equation 1.
    """
    _check(attempts, resolved, k)
    return 1 - comb(attempts - resolved, k) / comb(attempts, k)


def pass_hat_k(attempts: int, resolved: int, k: int) -> float:
    """Chance that all of k attempts resolve (pass^k), unbiased from n recorded ones.

    Raises:
        ValueError: as `pass_at_k`.

    Source: Yao et al. (2024), tau-bench, section 3.
    """
    _check(attempts, resolved, k)
    return comb(resolved, k) / comb(attempts, k)


def majority_share(attempts: int, resolved: int, k: int) -> float:
    """Of all sets of k among n recorded attempts, the share with more than k/2 resolved.

    Raises:
        ValueError: as `pass_at_k`.
    """
    _check(attempts, resolved, k)
    ways = sum(
        comb(resolved, most) * comb(attempts - resolved, k - most)
        for most in range(k // 2 + 1, k + 1)
    )
    return ways / comb(attempts, k)


def attempts_until_decided(attempts: int, resolved: int, least: int) -> float:
    """Attempts of n recorded ones until their vote is decided, on average over all their orders.

    Args:
        least: attempts that are made whatever they come to.

    Raises:
        ValueError: as `pass_at_k`, of `least`.
    """
    _check(attempts, resolved, least)
    failed = attempts - resolved
    # One more resolved, or one more failed, and the rest changes nothing: a tie is a no.
    good, bad = attempts // 2, (attempts + 1) // 2 - 1
    further = (
        comb(resolved, some) * comb(failed, made - some) / comb(attempts, made)
        for made in range(least, attempts)
        for some in range(max(made - bad, 0), min(good, made) + 1)
    )
    return least + math.fsum(further)


def majority_of_chance(chance: float, k: int) -> float:
    """Chance that more than half of k independent attempts resolve.

    Biased upwards from `chance` where that is over one half and downwards below it: a majority
    is not pass@1.
    """
    return sum(
        comb(k, most) * chance**most * (1 - chance) ** (k - most)
        for most in range(k // 2 + 1, k + 1)
    )


def mean_pass_at_k(groups: Sequence[Sequence[float]], k: int) -> Rate | None:
    """`pass_at_k` over the instances with k attempts or more; None: there is none."""
    return _mean(groups, k, pass_at_k)


def mean_pass_hat_k(groups: Sequence[Sequence[float]], k: int) -> Rate | None:
    """`pass_hat_k` over the instances with k attempts or more; None: there is none."""
    return _mean(groups, k, pass_hat_k)


def expected_majority(groups: Sequence[Sequence[float]], k: int) -> Rate | None:
    """What a majority of k would have resolved; None: no instance has k attempts."""
    return _mean(groups, k, majority_share)


def _mean(
    groups: Sequence[Sequence[float]], k: int, of: Callable[[int, int, int], float]
) -> Rate | None:
    enough = [group for group in groups if len(group) >= k]
    if not enough:
        return None
    values = [of(len(group), round(sum(group)), k) for group in enough]
    n, value = len(values), fmean(values)
    return Rate(
        value=value,
        instances=n,
        error=stdev(values) / math.sqrt(n) if n > 1 else None,
        bounds=wilson(value, effective_size(values, sum(map(len, enough)))),
    )


def _check(attempts: int, resolved: int, k: int) -> None:
    if not 1 <= k <= attempts:
        raise ValueError(f"k must be between 1 and the {attempts} attempts, got {k}")
    if not 0 <= resolved <= attempts:
        raise ValueError(f"{resolved} resolved of {attempts} attempts")
