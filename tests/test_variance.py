"""The real study's figures, by the printed digits, and what must hold of any run."""

import json
import random
from pathlib import Path
from statistics import fmean, pvariance

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.stats import expected_error
from pipeline.stats.variance import bootstrap, clustered, kish, reweighted, variance
from tests.fakes import PROPERTY

SIZES = {
    "django/django": 231,
    "sympy/sympy": 75,
    "sphinx-doc/sphinx": 44,
    "matplotlib/matplotlib": 34,
    "scikit-learn/scikit-learn": 32,
    "astropy/astropy": 22,
    "pydata/xarray": 22,
    "pytest-dev/pytest": 19,
    "pylint-dev/pylint": 10,
    "psf/requests": 8,
    "mwaskom/seaborn": 2,
    "pallets/flask": 1,
}


@pytest.fixture(scope="module")
def study(shared: Path) -> dict[str, list[float]]:
    """Five attempts at each of a hundred instances; what is missing has failed."""
    place = shared / "reliability"
    verdicts = json.loads((place / "per_run_results.json").read_text())
    runs = [verdicts[f"i0_run{number}"] for number in range(1, 6)]
    ids = sorted(json.loads((place / "preds.run1.json").read_text()))
    return {id_: [float(bool(run.get(id_))) for run in runs] for id_ in ids}


def repo_of(instance_id: str) -> str:
    return instance_id.rpartition("-")[0]


def test_the_studys_variance_in_its_parts(study: dict[str, list[float]]) -> None:
    found = variance(list(study.values()))
    assert found is not None
    assert found.rate == pytest.approx(0.758)
    assert found.error == pytest.approx(0.03921, abs=5e-6)
    assert found.error_within == pytest.approx(0.00883, abs=5e-6)
    assert found.between == pytest.approx(0.14597, abs=5e-5)
    assert found.within == pytest.approx(0.0390, abs=5e-5)


def test_the_studys_error_by_repository(study: dict[str, list[float]]) -> None:
    found = clustered([fmean(group) for group in study.values()], [repo_of(id_) for id_ in study])
    assert found is not None
    assert found.clusters == 11
    assert found.error == pytest.approx(0.04768, abs=5e-6)
    assert found.is_shaky
    # t of ten degrees: 2.228139.
    assert found.low == pytest.approx(0.758 - 2.228139 * found.error)
    low, high = bootstrap(
        [fmean(group) for group in study.values()],
        [repo_of(id_) for id_ in study],
        rng=random.Random(0),
    ) or (0.0, 0.0)
    assert high - low == pytest.approx(2 * 1.96 * found.error, rel=0.25)


@pytest.mark.parametrize(
    ("n", "k", "error"),
    [
        (5, 1, 0.1923),
        (5, 3, 0.1783),
        (10, 1, 0.1360),
        (10, 3, 0.1261),
        (10, 5, 0.1240),
        (30, 1, 0.0785),
        (100, 1, 0.0430),
        (500, 1, 0.0192),
        (500, 3, 0.0178),
    ],
)
def test_thirty_instances_once_beat_ten_three_times(
    n: int, k: int, error: float, study: dict[str, list[float]]
) -> None:
    found = variance(list(study.values()))
    assert found is not None
    assert found.between is not None
    assert found.within is not None
    expected = expected_error(n, between=found.between, within=found.within, k=k)
    assert expected == pytest.approx(error, abs=6e-5)


def test_one_instance_a_repository_is_worth_four_of_twelve() -> None:
    assert sum(SIZES.values()) == 500
    assert kish(list(SIZES.values())) == pytest.approx(3.870, abs=5e-4)
    rate, worth = reweighted([1.0] + [0.0] * 11, list(SIZES), SIZES)
    assert rate == pytest.approx(231 / 500)
    assert worth == pytest.approx(3.870, abs=5e-4)


def test_who_has_no_size_is_named() -> None:
    with pytest.raises(ValueError, match="no size is known of other/repo"):
        reweighted([1.0], ["other/repo"], SIZES)
    with pytest.raises(ValueError, match="positive"):
        kish([])


GROUPS = st.lists(
    st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=5), min_size=1, max_size=12
)


@given(GROUPS)
@PROPERTY
def test_the_parts_add_up_unless_chance_alone_explains_more(groups: list[list[float]]) -> None:
    found = variance(groups)
    assert found is not None
    if found.error is not None and found.between:
        assert found.within is not None
        parts = expected_error(found.instances, between=found.between, within=found.within, k=1)
        assert parts >= found.error - 1e-12
    if all(len(group) == 1 for group in groups):
        assert found.within is None
        assert found.between is None
        assert found.error_within is None


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=2, max_size=20))
@PROPERTY
def test_where_every_instance_is_its_own_cluster_the_error_is_the_plain_one(
    means: list[float],
) -> None:
    found = clustered(means, [str(number) for number in range(len(means))])
    assert found is not None
    assert found.error**2 == pytest.approx(pvariance(means) / (len(means) - 1))


def test_nothing_and_one_cluster_have_no_error() -> None:
    assert variance([[], []]) is None
    one = variance([[1.0, 0.0]])
    assert one is not None
    assert (one.error, one.between, one.within) == (None, None, 0.5)
    assert clustered([1.0, 0.0], ["a", "a"]) is None
    assert bootstrap([1.0, 0.0], ["a", "a"], rng=random.Random(0)) is None


def test_what_broke_leaves_groups_of_several_sizes() -> None:
    found = variance([[1.0, 1.0, 0.0], [1.0], [0.0, 0.0], []])
    assert found is not None
    assert found.instances == 3
    assert found.rate == pytest.approx((2 / 3 + 1 + 0) / 3)
    assert found.attempts == pytest.approx(3 / (1 / 3 + 1 + 1 / 2))
    assert found.within == pytest.approx((2 / 3) / 3)


def test_sizes_are_those_of_verified(shared: Path) -> None:
    rows = pd.read_parquet(shared / "verified.parquet", columns=["repo"])
    assert rows.repo.value_counts().to_dict() == SIZES
