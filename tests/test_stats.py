"""Numbers from the literature, and the properties that any interval must have."""

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.stats import (
    Z95,
    effective_size,
    interval,
    no_success_bound,
    wilson,
)
from pipeline.stats.exact import beta_binomial, clopper_pearson
from tests.fakes import PROPERTY

WILSON = [
    (0, 5, 0.0, 0.4345),
    (1, 5, 0.0362, 0.6245),
    (2, 5, 0.1176, 0.7693),
    (3, 5, 0.2307, 0.8824),
    (4, 5, 0.3755, 0.9638),
    (5, 5, 0.5655, 1.0),
    (0, 10, 0.0, 0.2775),
    (3, 10, 0.1078, 0.6032),
    (5, 10, 0.2366, 0.7634),
    (7, 10, 0.3968, 0.8922),
    (10, 10, 0.7225, 1.0),
    (15, 30, 0.3315, 0.6685),
    (330, 500, 0.6174, 0.7002),
    (380, 500, 0.7207, 0.7954),
]
RELIABILITY = {0: 16, 1: 6, 2: 2, 3: 1, 4: 9, 5: 66}
"""Successes of five runs -> instances; kkkkkk0725/swebench-reliability-study."""

GROUPS = st.lists(st.lists(st.sampled_from([0.0, 1.0]), max_size=5), max_size=12)


def groups_of(histogram: dict[int, int], k: int) -> list[list[float]]:
    return [
        [1.0] * successes + [0.0] * (k - successes)
        for successes, instances in histogram.items()
        for _ in range(instances)
    ]


@pytest.mark.parametrize(("successes", "n", "low", "high"), WILSON)
def test_wilson_agrees_with_the_published_table(
    successes: int, n: int, low: float, high: float
) -> None:
    assert wilson(successes / n, n) == pytest.approx((low, high), abs=5e-5)


@given(st.integers(1, 2000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
@PROPERTY
def test_wilson_bounds_are_where_the_score_test_turns(counts: tuple[int, int]) -> None:
    """|rate - p| = z sqrt(p (1 - p) / n) at both ends, unless an end is 0 or 1."""
    successes, n = counts
    rate = successes / n
    low, high = wilson(rate, n)
    assert 0 <= low <= rate + 1e-12
    assert rate - 1e-12 <= high <= 1
    for bound in (low, high):
        distance = Z95 * math.sqrt(bound * (1 - bound) / n)
        assert abs(rate - bound) == pytest.approx(distance, abs=1e-7)


@pytest.mark.parametrize("size", [0, -1])
def test_wilson_of_nothing_is_refused(size: float) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        wilson(0.5, size)


def test_effective_size_of_the_reliability_study() -> None:
    """p (1 - p) / SE^2 with the published SE over instances, .03921."""
    means = [sum(group) / 5 for group in groups_of(RELIABILITY, 5)]
    assert effective_size(means, 500) == pytest.approx(0.758 * 0.242 / 0.03921**2, rel=1e-3)


def test_interval_of_the_reliability_study_is_far_from_the_pooled_one() -> None:
    found = interval(groups_of(RELIABILITY, 5))
    assert found is not None
    rate, low, high = found
    assert rate == pytest.approx(0.758)
    assert (low, high) == pytest.approx(wilson(0.758, 0.758 * 0.242 / 0.03921**2), abs=1e-4)
    pooled = wilson(0.758, 500)
    assert high - low > 1.9 * (pooled[1] - pooled[0])


@pytest.mark.parametrize(
    ("means", "attempts", "size"),
    [
        ([0.5], 3, 1.0),  # one instance says nothing about others
        ([1.0, 1.0, 1.0], 9, 3.0),  # p is 1
        ([0.0, 0.0, 0.0], 9, 3.0),  # p is 0
        ([1.0, 0.0], 6, 2.0),  # SE is larger than that of n coins: not below n
        ([0.5, 0.5, 0.5, 0.5], 8, 8.0),  # all agree: not above the attempts counted
        ([2 / 3, 2 / 3, 1 / 3, 1 / 3], 12, 12.0),  # p(1-p)/SE² = 27, clamped
        ([1.0, 2 / 3, 0.0], 9, 3.0),  # p(1-p)/SE² = 2.86, clamped
        ([1.0, 1.0, 1 / 3, 0.0, 1 / 3], 15, 56 / 9),  # (56/225) / .04
        ([2 / 3, 1.0, 1 / 3, 0.0, 2 / 3], 15, 112 / 13),  # (56/225) / (13/450)
    ],
)
def test_effective_size_by_hand(means: Sequence[float], attempts: int, size: float) -> None:
    assert effective_size(means, attempts) == pytest.approx(size)


def test_one_attempt_each_is_plain_wilson() -> None:
    assert interval([[1.0], [1.0], [1.0], [0.0], [0.0]]) == pytest.approx(
        (0.6, 0.2307, 0.8824), abs=1e-4
    )


def test_an_instance_without_a_counted_attempt_drops_out() -> None:
    assert interval([[1.0, 1.0], [], [0.0, 0.0]]) == interval([[1.0, 1.0], [0.0, 0.0]])


@pytest.mark.parametrize("groups", [[], [[]], [[], []]])
def test_nothing_counted_is_unknown_and_not_zero(groups: list[list[float]]) -> None:
    assert interval(groups) is None


def test_rate_is_a_mean_of_means_where_groups_differ_in_size() -> None:
    found = interval([[1.0, 1.0, 1.0, 1.0], [0.0]])
    assert found is not None
    assert found[0] == 0.5


@given(GROUPS)
@PROPERTY
def test_interval_holds_its_rate_and_is_never_the_pooled_one(groups: list[list[float]]) -> None:
    found = interval(groups)
    counted = [group for group in groups if group]
    if not counted:
        assert found is None
        return
    assert found is not None
    rate, low, high = found
    attempts = sum(map(len, counted))
    assert 0 <= low <= rate + 1e-12
    assert rate - 1e-12 <= high <= 1
    size = effective_size([sum(group) / len(group) for group in counted], attempts)
    assert len(counted) <= size <= max(attempts, len(counted))
    widest, narrowest = wilson(rate, len(counted)), wilson(rate, attempts)
    assert widest[0] - 1e-12 <= low <= narrowest[0] + 1e-12
    assert narrowest[1] - 1e-12 <= high <= widest[1] + 1e-12


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [
        (0, 5, 0.0, 0.5218),
        (3, 5, 0.1466, 0.9473),
        (5, 5, 0.4782, 1.0),
        (0, 10, 0.0, 0.3085),
        (7, 10, 0.3475, 0.9333),
        (10, 10, 0.6915, 1.0),
    ],
)
def test_clopper_pearson_agrees_with_the_published_table(
    successes: int, n: int, low: float, high: float
) -> None:
    assert clopper_pearson(successes, n) == pytest.approx((low, high), abs=5e-5)


@pytest.mark.parametrize(("successes", "n"), [(-1, 5), (6, 5), (0, 0)])
def test_clopper_pearson_of_nothing_is_refused(successes: int, n: int) -> None:
    with pytest.raises(ValueError, match=f"{successes} successes of {n}"):
        clopper_pearson(successes, n)


@pytest.mark.parametrize(("n", "bound"), [(5, 0.4507), (10, 0.2589), (30, 0.0950), (500, 0.00597)])
def test_what_was_never_seen_in_n_is_rarer_than_that(n: int, bound: float) -> None:
    assert no_success_bound(n) == pytest.approx(bound, abs=5e-5)


def test_with_one_attempt_each_the_beta_binomial_is_bayess_interval() -> None:
    """Beta(4, 3) for 3 of 5: mean 4/7, quantiles .2228 and .8819."""
    found = beta_binomial([[1.0], [1.0], [1.0], [0.0], [0.0]])
    assert found == pytest.approx((4 / 7, 0.2228, 0.8819), abs=1e-3)


def test_further_attempts_that_agree_tell_the_beta_binomial_nothing_new() -> None:
    once = beta_binomial([[1.0], [1.0], [1.0], [0.0], [0.0]])
    thrice = beta_binomial([[1.0] * 3, [1.0] * 3, [1.0] * 3, [0.0] * 3, [0.0] * 3])
    assert once is not None
    assert thrice is not None
    # Ten times as much would be a pooled interval's.
    assert thrice[2] - thrice[1] > 0.9 * (once[2] - once[1])


@given(GROUPS)
@PROPERTY
def test_the_beta_binomial_is_never_certain(groups: list[list[float]]) -> None:
    found = beta_binomial(groups)
    if not any(groups):
        assert found is None
        return
    assert found is not None
    mean, low, high = found
    assert 0 < low < mean < high < 1
