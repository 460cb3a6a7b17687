"""Every request is held against the plan's sampling, and what differs is named."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from pipeline.domain import Sampling
from pipeline.gateway.replies import CHAT, RESPONSES
from pipeline.gateway.wire import hold, matches

ASKED: dict[str, Any] = {"model": "m", "temperature": 0, "top_p": 1, "messages": []}
COLD = {"temperature": 0.0, "top_p": 1.0}

STRAYS: Mapping[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    # what a request lacks or has otherwise, and how that is told
    "as planned": ({}, ()),
    "as floats": ({"temperature": 0.0, "top_p": 1.0}, ()),
    "warm": ({"temperature": 0.7}, ("temperature 0.7 instead of 0",)),
    "null": ({"temperature": None}, ("temperature None instead of 0",)),
    "a text": ({"temperature": "0"}, ("temperature 0 instead of 0",)),
    "false": ({"temperature": False}, ("temperature False instead of 0",)),
    "true": ({"top_p": True}, ("top_p True instead of 1",)),
    "nan": ({"top_p": float("nan")}, ("top_p nan instead of 1",)),
    "both": (
        {"temperature": 1, "top_p": 0.5},
        ("temperature 1 instead of 0", "top_p 0.5 instead of 1"),
    ),
}


@pytest.mark.parametrize("name", STRAYS)
def test_what_differs_is_named_and_left_where_it_is_only_recorded(name: str) -> None:
    changes, strays = STRAYS[name]
    held = hold(ASKED | changes, Sampling(), CHAT)
    assert held.strays == strays
    assert held.as_planned == (not strays)
    assert str(held.request) == str(ASKED | changes)


@pytest.mark.parametrize("name", STRAYS)
def test_what_differs_is_corrected_where_the_plan_says_so(name: str) -> None:
    changes, strays = STRAYS[name]
    held = hold(ASKED | changes, Sampling(on_wire="correct"), CHAT)
    assert held.request == ASKED | COLD
    assert held.strays == strays
    assert held.as_planned


@pytest.mark.parametrize("lacking", ["temperature", "top_p"])
def test_what_lacks_is_absent(lacking: str) -> None:
    bare = {key: value for key, value in ASKED.items() if key != lacking}
    (stray,) = hold(bare, Sampling(), CHAT).strays
    assert stray.startswith(f"{lacking} absent instead of ")
    assert hold(bare, Sampling(on_wire="correct"), CHAT).request == ASKED | COLD


def test_a_request_is_refused_by_who_sends_it_not_by_who_holds_it() -> None:
    held = hold(ASKED | {"temperature": 1}, Sampling(on_wire="refuse"), CHAT)
    assert (held.as_planned, len(held.strays)) == (False, 1)


LENGTHS: Mapping[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    # by what API, what the request has, and what it leaves with for a plan of 99
    "absent": (CHAT, {}, {"max_tokens": 99}),
    "old name": (CHAT, {"max_tokens": 5}, {"max_tokens": 99}),
    "new name": (CHAT, {"max_completion_tokens": 5}, {"max_completion_tokens": 99}),
    "null": (CHAT, {"max_completion_tokens": None}, {"max_completion_tokens": 99}),
    "both names": (
        CHAT,
        {"max_tokens": 5, "max_completion_tokens": 5},
        {"max_tokens": 99, "max_completion_tokens": 99},
    ),
    "responses": (RESPONSES, {}, {"max_output_tokens": 99}),
    "responses with one": (RESPONSES, {"max_output_tokens": 5}, {"max_output_tokens": 99}),
}


@pytest.mark.parametrize("name", LENGTHS)
def test_the_plans_length_goes_into_every_request(name: str) -> None:
    api, has, leaves = LENGTHS[name]
    held = hold(ASKED | has, Sampling(max_tokens=99), api)
    assert held.request == ASKED | leaves
    assert held.as_planned


@pytest.mark.parametrize("has", [{}, {"seed": 1}, {"seed": None}])
@pytest.mark.parametrize("seed", [0, 7, -1])
def test_the_plans_seed_goes_into_every_request(seed: int, has: dict[str, Any]) -> None:
    assert hold(ASKED | has, Sampling(seed=seed), CHAT).request["seed"] == seed


def test_without_a_plan_of_theirs_seed_and_length_are_the_agents() -> None:
    has = ASKED | {"seed": 3, "max_tokens": 4}
    assert hold(has, Sampling(), CHAT).request == has


def test_a_request_that_is_held_is_not_changed_itself() -> None:
    before = dict(ASKED)
    hold(before, Sampling(temperature=1.0, seed=1, max_tokens=2, on_wire="correct"), CHAT)
    assert before == ASKED


@pytest.mark.parametrize(
    ("value", "wanted", "same"),
    [
        (0, 0.0, True),
        (1, 1.0, True),
        (0.7, 0.7, True),
        (0.70001, 0.7, False),
        ("0.7", 0.7, False),
        (None, 0.0, False),
        (False, 0.0, False),
        ([], 0.0, False),
    ],
)
def test_a_number_matches_by_its_value(value: object, wanted: float, same: bool) -> None:
    assert matches(value, wanted) is same
