"""How many instances a question needs: published values, and each answer put to the test."""

import math

import pytest

from pipeline.stats import (
    detectable,
    expected_error,
    instances_for_difference,
    instances_for_width,
    wilson,
)


@pytest.mark.parametrize(
    ("within", "attempts", "instances"),
    [(0.0, 1, 969.0), (1 / 6, 1, 3875.99), (1 / 6, 10, 1259.70)],
)
def test_power_agrees_with_the_published_table(
    within: float, attempts: int, instances: float
) -> None:
    found = instances_for_difference(
        0.03, between=1 / 9, within=(within, within), attempts=(attempts, attempts)
    )
    assert found == pytest.approx(instances, abs=0.05)


@pytest.mark.parametrize(
    ("rate", "half", "instances"),
    [
        (0.5, 0.05, 384.1),
        (0.5, 0.03, 1067.1),
        (0.5, 0.02, 2400.9),
        (0.7, 0.05, 322.7),
        (0.7, 0.03, 896.3),
        (0.7, 0.02, 2016.8),
    ],
)
def test_width_agrees_with_the_published_table(rate: float, half: float, instances: float) -> None:
    assert instances_for_width(half, rate=rate) == pytest.approx(instances, abs=0.05)


def test_so_many_instances_have_that_width() -> None:
    low, high = wilson(0.5, instances_for_width(0.03))
    assert (high - low) / 2 == pytest.approx(0.03, abs=1e-4)


@pytest.mark.parametrize(
    ("rate", "n", "error"),
    [(0.655, 5000, 0.00672), (0.836, 164, 0.02891), (0.867, 164, 0.02652), (0.753, 2500, 0.00863)],
)
def test_the_error_of_single_attempts_is_the_binomials(rate: float, n: int, error: float) -> None:
    assert expected_error(n, between=rate * (1 - rate), within=0) == pytest.approx(error, abs=5e-6)


def test_what_is_planned_for_can_be_detected() -> None:
    n = instances_for_difference(0.05, between=0.1, within=(0.04, 0.02), attempts=(3, 1))
    error = math.sqrt((0.1 + 0.04 / 3 + 0.02) / n)
    assert detectable(error) == pytest.approx(0.05)


def test_more_attempts_help_as_far_as_chance_goes_and_no_further() -> None:
    widths = [instances_for_width(0.05, between=0.146, within=0.039, k=k) for k in (1, 3, 1000)]
    assert widths[0] > widths[1] > widths[2] > instances_for_width(0.05, between=0.146)


@pytest.mark.parametrize("wrong", [0.0, -0.1])
def test_a_question_without_a_size_is_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        instances_for_difference(wrong, between=0.1, within=(0.0, 0.0))
    with pytest.raises(ValueError, match="must be positive"):
        instances_for_width(wrong)
