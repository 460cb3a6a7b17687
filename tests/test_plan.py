"""A plan decides the result, its execution decides the speed."""

from dataclasses import fields, replace
from typing import Any

import pytest

from pipeline.domain import Attempt, Limits, Sampling, SandboxLimits
from pipeline.plan import Execution, RunPlan, Selection, TrustTerms
from tests.fakes import make_plan

PLAN = make_plan("a", "b")

SAME: dict[str, Any] = {
    "name": "another",
    "execution": Execution(agent_workers=9, scorer_workers=9, tries=1, backoff_seconds=0),
    "trust": TrustTerms(repeats=9),
    "attempts": 3,
    "min_attempts": 1,
}
OTHER: dict[str, Any] = {
    "agent": "other",
    "model": "openai/other",
    "agent_options": {"config": "sha256:0"},
    "replies": "0" * 64,
    "grader": "swebench 9",
    "sampling": Sampling(temperature=1.0),
    "limits": Limits(steps=1),
    "sandbox": SandboxLimits(network="off"),
    "selection": replace(PLAN.selection, ids=("a", "c")),
}


def test_grid_goes_round_so_that_an_early_stop_covers_every_instance() -> None:
    grid = list(make_plan("a", "b", "c", k=2).grid())
    assert grid == [Attempt(id_, number) for number in (1, 2) for id_ in "abc"]


@pytest.mark.parametrize("key", SAME)
def test_what_only_decides_the_speed_leaves_the_digest_alone(key: str) -> None:
    assert replace(PLAN, **{key: SAME[key]}).digest == PLAN.digest


@pytest.mark.parametrize("key", OTHER)
def test_what_decides_the_result_changes_the_digest(key: str) -> None:
    changed = replace(PLAN, **{key: OTHER[key]})
    assert changed.digest != PLAN.digest


def test_every_field_of_a_plan_is_inside_the_digest_or_left_out_on_purpose() -> None:
    assert {field.name for field in fields(RunPlan)} == SAME.keys() | OTHER.keys()


@pytest.mark.parametrize(
    "change",
    [
        {"sampling": Sampling(top_p=0.9)},
        {"limits": Limits(cost_usd=1.0)},
        {"limits": Limits(seconds=1)},
        {"sandbox": SandboxLimits(memory_gb=1)},
        {"sandbox": SandboxLimits(pids=1)},
        {"sandbox": SandboxLimits(scoring_seconds=1)},
    ],
    ids=repr,
)
def test_every_limit_is_part_of_the_digest(change: dict[str, Any]) -> None:
    assert replace(PLAN, **change).digest != PLAN.digest


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"ids": ("b", "a")}, True),
        ({"recipe": {"strategy": "even"}}, True),
        ({"dataset": "the same rows from a file"}, True),
        ({"revision": "abc"}, True),
        ({"ids": ("a",)}, False),
        ({"fingerprint": "0" * 64}, False),
    ],
    ids=repr,
)
def test_a_selection_is_its_ids_and_the_fingerprint_of_their_rows(
    change: dict[str, Any], same: bool
) -> None:
    selection: Selection = replace(PLAN.selection, **change)
    assert (replace(PLAN, selection=selection).digest == PLAN.digest) is same


def test_order_in_which_options_are_written_does_not_matter() -> None:
    one = replace(PLAN, agent_options={"a": 1, "b": {"c": 2, "d": 3}})
    other = replace(PLAN, agent_options={"b": {"d": 3, "c": 2}, "a": 1})
    assert one.digest == other.digest


def test_defaults_are_temperature_zero_and_one_attempt() -> None:
    assert PLAN.sampling == Sampling(temperature=0.0, top_p=1.0)
    assert PLAN.attempts == 1
