"""Intervals of 95 % for few instances, where approximations fail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from scipy.special import betaincinv, betaln


def clopper_pearson(successes: int, trials: int) -> tuple[float, float]:
    """Exact 95 % interval of a proportion: never too narrow, often too wide.

    Raises:
        ValueError: not 0 <= successes <= trials, or no trial.

    Source: Clopper and Pearson (1934), Biometrika 26(4), 404-413.
    """
    if not 0 <= successes <= trials or not trials:
        raise ValueError(f"{successes} successes of {trials} trials")
    failures = trials - successes
    low = float(betaincinv(successes, failures + 1, 0.025)) if successes else 0.0
    high = float(betaincinv(successes + 1, failures, 0.975)) if failures else 1.0
    return low, high


def beta_binomial(groups: Sequence[Sequence[float]]) -> tuple[float, float, float] | None:
    """Posterior mean and 95 % interval of pass@1, for few instances with several attempts.

    Each instance has a chance of its own from one Beta distribution, of which the mean has a
    uniform prior and the logarithm of the concentration one from 0.1 to 1000. With one attempt
    an instance it is Bayes's interval, Beta(1 + c, 1 + n - c).

    Returns:
        Mean, lower and upper bound; None where nothing is counted.

    Source: Bowyer, Aitchison and Ivanova (2025), Don't Use the CLT in LLM Evals With Fewer Than a
    Few Hundred Datapoints, section 4.
    """
    counts = Counter((len(group), round(sum(group))) for group in groups if group)
    if not counts:
        return None
    means = (np.arange(2000) + 0.5) / 2000
    concentration = np.geomspace(0.1, 1000, 60)[:, None]
    alpha, beta = means * concentration, (1 - means) * concentration
    likelihood = np.zeros_like(alpha)
    for (k, c), times in counts.items():
        likelihood += times * (betaln(alpha + c, beta + k - c) - betaln(alpha, beta))
    weights = np.exp(likelihood - likelihood.max()).sum(axis=0)
    reached = np.cumsum(weights) / weights.sum()
    low, high = (float(means[np.searchsorted(reached, end)]) for end in (0.025, 0.975))
    return float((means * weights).sum() / weights.sum()), low, high
