"""A rate never stands alone, and what broke is said in its own words."""

from dataclasses import replace

import pytest

from pipeline.domain import Cause, Fault, Patch, Rollout, Usage
from pipeline.headline import lines_of, losses, percent, span, splits
from pipeline.ledger import Kind
from pipeline.results import Results
from pipeline.wording import count
from tests.fakes import (
    DIED,
    STUMBLE,
    SUBMITTED,
    TIMED_OUT,
    UNRESOLVED,
    WITHOUT_PATCH,
    World,
    drive,
    fault,
    make_plan,
    memory_ledger,
    results_after,
    results_of,
)

IDS = ("flask-1", "flask-2", "sympy_x-3")
UNPRICED = Usage(requests=1, input_tokens=1000, cached_tokens=200, output_tokens=5, cost_usd=None)


def run(world: World, *ids: str, k: int = 1, agent: str = "fake") -> Results:
    return results_after(world, *(ids or IDS), k=k, agent=agent)


@pytest.fixture
def mixed() -> Results:
    world = World(
        rolls={("flask-1", 1): [fault(Cause.DISK)], ("flask-2", 2): [WITHOUT_PATCH]},
        scores={("sympy_x-3", 1): [UNRESOLVED]},
    )
    return run(world, k=2)


# The headline


def test_headline_of_a_plain_run() -> None:
    world = World(
        rolls={("b-2", 1): [fault(), SUBMITTED], ("e-5", 1): [WITHOUT_PATCH]},
        scores={("d-4", 1): [UNRESOLVED]},
    )
    assert lines_of(run(world, "a-1", "b-2", "c-3", "d-4", "e-5")) == [
        "5 × 1 · 3 resolved · pass@1 60.0 % over all [23.1–88.2] · "
        "60.0 % over valid [23.1–88.2] · at most 60.0 % · 0 ambiguous · 0 infra",
        "6 tries · 8 requests · 400 tokens in (0 cached), 40 out · $1.00 · $0.33/resolved",
        "temperature 0, top_p 1 on 8 of 8 requests",
        "controls: gold 5/5, empty –, 0 moved · grader fake 1",
    ]


def test_headline_opens_its_range_and_names_causes_where_infrastructure_broke() -> None:
    world = World(
        rolls={("a-1", 1): [fault(Cause.DISK)], ("b-2", 1): [fault()], ("c-3", 1): [fault()]}
    )
    ids = [f"e-{n}" for n in range(11)]
    assert lines_of(run(world, "a-1", "b-2", "c-3", "d-4", *ids))[0] == (
        "15 × 1 · 12 resolved · pass@1 80.0 % over all [54.8–93.0] · "
        "100.0 % over valid [75.8–100.0] · at most 100.0 % · 0 ambiguous · "
        "3 infra (1 disk, 2 endpoint)"
    )


def test_no_single_score_stands_first_where_more_than_a_fifth_is_infra() -> None:
    world = World(rolls={("a-1", 1): [fault(Cause.DISK)], ("b-2", 1): [fault()]})
    assert lines_of(run(world, "a-1", "b-2", "c-3", "d-4"))[:2] == [
        "pass@1 between 50.0 and 100.0 %, no single score: "
        "2 of 4 attempts (50.0 %) are infra, more than 20.0 %",
        "4 × 1 · 2 resolved · 0 ambiguous · 2 infra (1 disk, 1 endpoint)",
    ]


def test_no_single_score_stands_first_where_most_submitted_nothing() -> None:
    ids = [f"i-{n}" for n in range(20)]
    world = World(rolls={(id_, 1): [WITHOUT_PATCH] for id_ in ids[:11]})
    assert lines_of(run(world, *ids))[:2] == [
        "pass@1 between 45.0 and 100.0 %, no single score: "
        "11 of 20 attempts (55.0 %) submitted nothing, more than 20.0 %",
        "20 × 1 · 9 resolved · 0 ambiguous · 0 infra",
    ]


def test_exactly_a_fifth_is_no_reason_to_doubt_and_the_share_is_the_users_choice() -> None:
    results = run(World(rolls={("a", 1): [WITHOUT_PATCH]}), "a", "b", "c", "d", "e")
    assert results.doubts() == []
    strict = replace(results, plan=dict(results.plan) | {"trust": {"empty_share": 0.1}})
    assert strict.doubts() == ["1 of 5 attempts (20.0 %) submitted nothing, more than 10.0 %"]


def test_headline_starts_with_partial_while_anything_is_pending() -> None:
    plan, ledger = make_plan("a", "b", k=2), memory_ledger()
    for attempt in list(plan.grid())[:3]:
        ledger.append(Kind.ROLLOUT, attempt, 1, WITHOUT_PATCH)
    first = lines_of(results_of(plan, ledger))[0]
    assert first.startswith(
        "partial (1 pending) · pass@1 between 0.0 and 100.0 %, no single score: "
    )
    drive(plan, ledger, World())
    assert lines_of(results_of(plan, ledger))[1].startswith("2 × 2 · 1 resolved")


def test_headline_counts_what_is_unsettled_and_what_was_moved() -> None:
    world = World(
        scores={("a", 1): [TIMED_OUT], ("b", 1): [DIED]},
        golds={"a": [fault(Cause.GRADER)], "b": [fault(Cause.GRADER)], "c": [STUMBLE]},
    )
    lines = lines_of(run(world, "a", "b", "c", "d", "e"))
    assert "2 ambiguous · 1 infra (1 instance)" in lines[0]
    assert lines[-1] == "controls: gold 2/3, empty –, 1 moved · grader fake 1"


def test_headline_of_several_attempts_has_the_majority_beside_pass_at_1(mixed: Results) -> None:
    lines = lines_of(mixed)
    assert lines[0].startswith("3 × 2 · 3 resolved · pass@1 50.0 % over all [")
    assert lines[1] == (
        "majority of 2: 0 resolved, 2 rejected, 1 undetermined · 0.0 % of decided, "
        "range 0.0 %–33.3 %"
    )


def test_votes_are_unanimous_split_or_not_whole_and_fewer_attempts_are_expected() -> None:
    world = World(
        rolls={("a", 5): [fault()], ("d", 1): [fault()], ("d", 2): [fault()], ("d", 3): [fault()]},
        scores={("b", 1): [UNRESOLVED], ("b", 2): [UNRESOLVED]},
    )
    results = run(world, "a", "b", "c", "d", k=5)
    # Of b's ten triples seven have two resolved ones or more: (1 + 0.7 + 1) / 3 of a, b and c.
    assert lines_of(results)[2] == (
        "votes: 1 unanimous, 1 split, 2 not whole (some attempts do not count) · "
        "a majority of 3 of them: 90.0 % on average (of 3 instances)"
    )
    assert splits(results) == [
        "b: resolved, 3 of 5 resolved: unresolved, unresolved, resolved, resolved, resolved"
    ]


def test_headline_never_makes_a_price_up() -> None:
    unpriced = Rollout(stop=None, submission=Patch("x"), exit_status="", usage=UNPRICED)
    lines = lines_of(run(World(rolls={("a", 1): [unpriced]}), "a"))
    assert lines[1] == "1 try · 1 request · 1,000 tokens in (200 cached), 5 out · $ unknown"


def test_headline_divides_no_money_by_zero_resolved() -> None:
    lines = lines_of(run(World(scores={("a", 1): [UNRESOLVED]}), "a"))
    assert lines[1].endswith("· $0.25")


def test_headline_of_imported_verdicts_says_that_there_was_no_control() -> None:
    unknown = Rollout(stop=None, submission=Patch("x"), exit_status="not recorded")
    world = World(
        rolls={("a", 1): [unknown], ("b", 1): [replace(unknown, submission=None)]},
        has_control=False,
    )
    lines = lines_of(run(world, "a", "b"))
    assert lines[0].startswith("pass@1 between 50.0 and 100.0 %, no single score: ")
    assert lines[3] == "controls: imported, no control · grader fake 1"
    assert lines[4].startswith("exit unknown for 2 of ")


def test_headline_of_the_controls_themselves() -> None:
    nothing = World(rolls={("a", 1): [WITHOUT_PATCH]})
    lines = lines_of(run(nothing, "a", agent="empty"))
    assert lines[-1] == "controls: gold 1/1, empty 0/1, 0 moved · grader fake 1"


def test_headline_of_nothing_is_all_dashes() -> None:
    lines = lines_of(results_of(make_plan(), memory_ledger()))
    assert lines[0] == (
        "0 × 0 · 0 resolved · pass@1 – over all [–] · – over valid [–] · at most – · "
        "0 ambiguous · 0 infra"
    )


# What broke


def test_losses_say_what_broke_in_its_own_words_on_one_line() -> None:
    long = Fault(cause=Cause.UNKNOWN, detail="Traceback\n" * 100 + "KeyError:\n  'ours'")
    world = World(rolls={("a", 1): [long]}, golds={"b": [STUMBLE]})
    first, second = losses(run(world, "a", "b", "c"))
    assert first.startswith("a #1: unknown: ")
    assert first.endswith("KeyError: 'ours'")
    assert len(first) < 220
    assert second == "b #1: broken: gold resolves 0 of 1 times here (unresolved)"


def test_what_broke_is_said_first_where_it_is_no_traceback() -> None:
    long = Fault(
        cause=Cause.IMAGE, detail="the build failed: no such host (before it: " + "x" * 999
    )
    [line] = losses(run(World(rolls={("a", 1): [long]}), "a"))
    assert line.startswith("a #1: image: the build failed: no such host (before it: xxx")
    assert line.endswith("x …")
    assert len(line) < 220


def test_losses_say_why_gold_did_not_resolve_where_its_grader_does() -> None:
    told = replace(STUMBLE, evidence=replace(STUMBLE.evidence, reasons=("reward 0.4",)))
    [line] = losses(run(World(golds={"b": [told]}), "b"))
    assert line == "b #1: broken: gold resolves 0 of 1 times here (unresolved: reward 0.4)"


def test_a_run_without_an_outage_has_lost_nothing() -> None:
    assert losses(run(World(scores={("flask-1", 1): [UNRESOLVED]}))) == []


# Words


@pytest.mark.parametrize(
    ("value", "text"), [(None, "–"), (0.0, "0.0 %"), (1.0, "100.0 %"), (0.7584, "75.8 %")]
)
def test_percent(value: float | None, text: str) -> None:
    assert percent(value) == text


def test_span_of_an_interval() -> None:
    assert (span([0.2307, 0.8824]), span(None)) == ("23.1–88.2", "–")


def test_count_knows_the_plural() -> None:
    assert (count(1, "request"), count(0, "request")) == ("1 request", "0 requests")
