"""Pure functions of counts: rates, intervals, variance, comparison, planning.

A *group* is the attempts at one instance, each 0.0 or 1.0; groups may differ in size, since what
broke is left out, and an empty one counts nowhere. Standard errors use n - 1.

What a table needs is here; `exact`, `variance` and `paired` load SciPy and are named in full.
"""

from pipeline.stats.intervals import (
    Z95,
    effective_size,
    interval,
    no_success_bound,
    wilson,
)
from pipeline.stats.planning import (
    detectable,
    expected_error,
    instances_for_difference,
    instances_for_width,
)
from pipeline.stats.rates import (
    Rate,
    attempts_until_decided,
    expected_majority,
    majority_of_chance,
    majority_share,
    mean_pass_at_k,
    mean_pass_hat_k,
    pass_at_k,
    pass_hat_k,
)

__all__ = [
    "Z95",
    "Rate",
    "attempts_until_decided",
    "detectable",
    "effective_size",
    "expected_error",
    "expected_majority",
    "instances_for_difference",
    "instances_for_width",
    "interval",
    "majority_of_chance",
    "majority_share",
    "mean_pass_at_k",
    "mean_pass_hat_k",
    "no_success_bound",
    "pass_at_k",
    "pass_hat_k",
    "wilson",
]
