"""Comparisons of two models, by the printed digits and by what must hold."""

import itertools
import random
from collections.abc import Sequence
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.stats.paired import difference, holm, least_flips, mcnemar, permutation
from tests.fakes import PROPERTY

MCNEMAR = [
    (1, 0, 1.0),
    (3, 0, 0.25),
    (5, 0, 0.0625),
    (6, 0, 0.03125),
    (5, 1, 0.21875),
    (8, 1, 0.039062),
    (5, 3, 0.726562),
    (4, 4, 1.0),
    (10, 3, 0.092285),
    (15, 5, 0.041389),
    (20, 10, 0.098737),
]
MEANS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=9)


@pytest.mark.parametrize(("first", "second", "chance"), MCNEMAR)
def test_mcnemar_agrees_with_the_published_table(first: int, second: int, chance: float) -> None:
    assert mcnemar(first, second) == pytest.approx(chance, abs=1e-6)
    assert mcnemar(second, first) == mcnemar(first, second)


def test_no_discordant_pair_is_no_evidence() -> None:
    assert mcnemar(0, 0) == 1.0


def test_six_flips_one_way_are_the_least_that_count() -> None:
    assert least_flips() == 6
    assert least_flips(0.01) == 8


@pytest.mark.parametrize(
    ("chances", "corrected"),
    [
        ([0.01, 0.04, 0.03], [0.03, 0.06, 0.06]),
        ([0.5, 0.9], [1.0, 1.0]),
        ([0.02], [0.02]),
        ([], []),
    ],
)
def test_holm_corrects_in_steps_and_keeps_the_order(
    chances: list[float], corrected: list[float]
) -> None:
    assert holm(chances) == pytest.approx(corrected)


def by_hand(first: Sequence[float], second: Sequence[float]) -> float:
    gaps = [a - b for a, b in zip(first, second, strict=True)]
    least = abs(sum(gaps)) - 1e-9
    all_signs = list(itertools.product((1, -1), repeat=len(gaps)))
    extreme = [abs(sum(s * g for s, g in zip(signs, gaps, strict=True))) for signs in all_signs]
    return fmean(float(value >= least) for value in extreme)


@given(MEANS)
@PROPERTY
def test_few_pairs_are_swapped_in_every_way(pairs: list[tuple[int, int]]) -> None:
    first, second = ([pair[side] / 3 for pair in pairs] for side in (0, 1))
    chance = permutation(first, second, rng=random.Random(0))
    assert chance == pytest.approx(by_hand(first, second))


def test_many_pairs_are_drawn_and_agree_with_the_binomial() -> None:
    first, second = [1.0] * 30 + [0.0] * 10, [0.0] * 20 + [1.0] * 20
    chance = permutation(first, second, rng=random.Random(7), draws=50_000)
    assert chance == pytest.approx(mcnemar(20, 10), abs=0.005)
    assert chance == permutation(first, second, rng=random.Random(7), draws=50_000)


def test_models_that_agree_everywhere_differ_by_chance_alone() -> None:
    assert permutation([1.0, 0.0], [1.0, 0.0], rng=random.Random(0)) == 1.0


def test_a_paired_difference_has_the_error_of_its_differences() -> None:
    found = difference([1.0, 0.5, 0.0, 1.0], [0.0, 0.5, 0.0, 0.5])
    assert found is not None
    assert found.mean == pytest.approx(0.375)
    # Gaps 1, 0, 0, .5: variance .2291667, n 4; t of 3 degrees 3.182446.
    assert found.error == pytest.approx((0.22916666 / 4) ** 0.5)
    assert found.low == pytest.approx(0.375 - 3.182446 * (0.22916666 / 4) ** 0.5, abs=1e-6)
    assert found.high == 1.0


def test_one_instance_has_a_difference_and_no_error_and_none_has_neither() -> None:
    found = difference([1.0], [0.0])
    assert found is not None
    assert (found.mean, found.error, found.low, found.high) == (1.0, None, None, None)
    assert difference([], []) is None


def test_pairs_are_pairs() -> None:
    with pytest.raises(ValueError, match="shorter"):
        difference([1.0, 0.0], [1.0])
