"""No attempt is made where none can change the vote, and pass@1 does not notice."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import comb
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from pipeline import tables
from pipeline.choice import candidates
from pipeline.cli import planning
from pipeline.cli.demo import demo_recipe
from pipeline.cli.run import check_attempts
from pipeline.compare import compare, side_of
from pipeline.config import parse
from pipeline.domain import Attempt, Cause, Fault, Usage
from pipeline.headline import lines_of
from pipeline.leaderboard import report
from pipeline.ledger import Book, Kind, Ledger
from pipeline.outcomes import Blame, Outcome, Settled, UserError
from pipeline.planner import of_run
from pipeline.planner.words import caveats
from pipeline.progress import Progress
from pipeline.results import AttemptRow, Results, load
from pipeline.results.frame import frame_of, read_sheet, records_of, sheet_of
from pipeline.rundir import RunDir
from pipeline.stats import attempts_until_decided
from pipeline.votes import Ballot, Vote, due
from tests.command import Passone
from tests.fakes import (
    PROPERTY,
    RESOLVED,
    STUMBLE,
    SUBMITTED,
    TIMED_OUT,
    UNRESOLVED,
    World,
    drive,
    fault,
    make_plan,
    memory_ledger,
    plan_json,
    results_of,
)
from tests.test_schedule import WORLDS, run_to_the_end, table

YES: Settled = (Outcome.RESOLVED, Blame.NOBODY)
NO: Settled = (Outcome.UNRESOLVED, Blame.MODEL)
INFRA: Settled = (Outcome.INFRA, Blame.INFRA)
OPEN: Settled = (Outcome.TESTS_TIMED_OUT, Blame.AMBIGUOUS)
TERMS = "{min: 2, max: 3, stop: decided}"
PASSONE = Path(sys.executable).with_name("passone")


def made(results: Results) -> dict[str, str]:
    """Of each instance its attempts: + resolved, - not, ! infra, ? pending or unsettled."""
    signs = {"nobody": "+", "model": "-", "infra": "!"}
    return {
        id_: "".join(signs.get(row.blame, "?") for row in rows)
        for id_, rows in results.groups.items()
    }


def scored(**outcomes: str) -> World:
    """A world in which attempts come out so, by instance: + resolved, - not, ! an outage."""
    return World(
        rolls={
            (id_, n): [fault(Cause.AGENT_CRASH)]
            for id_, signs in outcomes.items()
            for n, sign in enumerate(signs, 1)
            if sign == "!"
        },
        scores={
            (id_, n): [UNRESOLVED]
            for id_, signs in outcomes.items()
            for n, sign in enumerate(signs, 1)
            if sign == "-"
        },
    )


def driven(world: World, *ids: str, least: int, k: int) -> Results:
    plan, ledger = make_plan(*ids, k=k, least=least), memory_ledger()
    assert drive(plan, ledger, world)
    return results_of(plan, ledger)


# When one more is due


@pytest.mark.parametrize(
    ("settled", "least", "most", "number"),
    [
        ([], 3, 7, 3),
        ([YES, YES], 3, 7, 3),
        ([YES, None, YES], 3, 7, 3),
        ([YES, YES, YES], 3, 7, 4),
        ([YES] * 4, 3, 7, 4),
        ([NO] * 4, 3, 7, 4),
        ([YES, YES, NO, NO, NO], 3, 7, 6),
        ([YES, YES, NO, NO, NO, YES], 3, 7, 7),
        ([YES, YES, NO, NO, NO, YES, NO], 3, 7, 7),
        # A tie is a no: of an even number half is enough against it.
        ([NO, NO], 2, 4, 2),
        ([YES, YES], 2, 4, 3),
        ([YES, YES, NO], 2, 4, 4),
        # An outage has not voted; what is unsettled is waited for.
        ([INFRA, YES], 2, 3, 3),
        ([YES, OPEN], 2, 3, 2),
        # A number: all of them, whatever they come to.
        ([YES, YES, YES], 5, 5, 5),
        # Begun under terms of before: finished.
        ([YES] * 6, 3, 7, 6),
    ],
)
def test_one_more_attempt_is_due_only_while_it_may_change_the_vote(
    settled: Sequence[Settled | None], least: int, most: int, number: int
) -> None:
    assert due(settled, least=least, most=most) == number


@pytest.mark.parametrize(
    ("least", "most"), [(least, most) for most in range(1, 8) for least in range(1, most + 1)]
)
def test_no_completion_changes_a_vote_that_is_stopped_at_and_some_changes_any_other(
    least: int, most: int
) -> None:
    for so_far in itertools.product((YES, NO, INFRA), repeat=least):
        ballots = {
            Vote.of("a", [*so_far, *rest]).ballot
            for rest in itertools.product((YES, NO), repeat=most - least)
        }
        # What an outage took may yet vote either way.
        open_ones = so_far.count(INFRA)
        filled = {
            Vote.of("a", [*(one for one in so_far if one is not INFRA), *rest]).ballot
            for rest in itertools.product((YES, NO), repeat=most - least + open_ones)
        }
        decided = len(filled) == 1
        assert (due(so_far, least=least, most=most) == least) == (decided or least == most)
        assert not decided or ballots == filled == {Vote.of("a", so_far, k=most).ballot}


# The schedule


def test_attempts_stop_at_each_instance_once_its_vote_is_decided() -> None:
    world = scored(a="+++++++", b="-------", c="+-+-+-+", d="-++-+-+")
    results = driven(world, "a", "b", "c", "d", least=3, k=7)
    assert made(results) == {"a": "++++", "b": "----", "c": "+-+-+-+", "d": "-++-+-+"}
    ballots = [vote.ballot for vote in results.votes]
    assert ballots == ["resolved", "rejected", "resolved", "resolved"]
    assert results.summary()["pending"] == 0


def test_never_fewer_than_the_least_and_never_more_than_the_most() -> None:
    results = driven(scored(a="+++++++", b="+-+-+-+"), "a", "b", least=6, k=7)
    assert made(results) == {"a": "++++++", "b": "+-+-+-+"}


def test_a_further_attempt_begins_when_those_before_are_settled_and_others_go_on() -> None:
    plan, ledger = make_plan("a", "b", k=5, least=2), memory_ledger()
    drive(plan, ledger, scored(a="+-+-+", b="-+-+-"))
    rows = list(ledger.rows())
    for id_ in "ab":
        for number in range(3, 6):
            begins = next(r.seq for r in rows if (r.kind, r.attempt) == ("rollout", (id_, number)))
            before = [
                next(r.seq for r in rows if (r.kind, r.attempt) == ("settlement", (id_, earlier)))
                for earlier in range(1, number)
            ]
            assert max(before) < begins
    rollouts = [row.attempt for row in rows if row.kind == "rollout"]
    numbers = [(attempt.instance_id, attempt.number) for attempt in rollouts]
    assert numbers[:4] == [("a", 1), ("b", 1), ("a", 2), ("b", 2)]
    assert [number for _, number in numbers] == sorted(number for _, number in numbers)


def test_an_outage_has_not_voted_and_is_taken_up_by_the_next_run_before_anything_else() -> None:
    plan, ledger = make_plan("a", k=5, least=3), memory_ledger()
    crash = fault(Cause.CREDENTIALS)
    world = World(rolls={("a", 3): [crash, SUBMITTED]})
    drive(plan, ledger, world)
    assert made(results_of(plan, ledger)) == {"a": "++!+"}
    world.calls.clear()
    drive(plan, ledger, world)
    assert made(results_of(plan, ledger)) == {"a": "++++"}
    assert [call for call in world.calls if call[0] == "roll"] == [("roll", "a", 3)]


def test_where_a_place_cannot_be_trusted_no_further_attempt_is_wasted_on_it() -> None:
    plan, ledger = make_plan("a", k=5, least=2), memory_ledger()
    world = World(scores={("a", n): [UNRESOLVED] for n in range(1, 6)}, golds={"a": [STUMBLE]})
    drive(plan, ledger, world)
    assert made(results_of(plan, ledger)) == {"a": "!!"}
    world = replace(World.after(world, ledger.rows()), golds={"a": [RESOLVED]})
    drive(plan, ledger, world)
    drive(plan, ledger, world)
    assert made(results_of(plan, ledger)) == {"a": "---"}


def test_what_nobody_could_settle_is_waited_for() -> None:
    plan, ledger = make_plan("a", k=3, least=1), memory_ledger()
    world = World(scores={("a", 1): [TIMED_OUT]}, golds={"a": [fault(Cause.GRADER)]})
    drive(plan, ledger, world)
    assert made(results_of(plan, ledger)) == {"a": "?"}


WHOLE = scored(a="+++++", b="+-+--", c="--+++", d="-----", e="+!+-+")
IDS = ("a", "b", "c", "d", "e")


def test_killed_between_any_two_rows_and_run_again_the_same_attempts_are_made() -> None:
    plan = make_plan(*IDS, k=5, least=2)
    whole = run_to_the_end(plan, WHOLE)
    expected, rows = table(plan, whole), list(whole.rows())
    assert made(results_of(plan, whole)) == {
        "a": "+++", "b": "+-+--", "c": "--+++", "d": "---", "e": "+!+-+",
    }  # fmt: skip
    for cut in range(len(rows)):
        assert table(plan, run_to_the_end(plan, WHOLE, rows[:cut])) == expected, cut


@given(WORLDS, st.data())
@PROPERTY
def test_killed_anywhere_in_any_world_the_vote_and_pass_at_1_are_those_of_all_attempts(
    world: World, data: st.DataObject
) -> None:
    assume(not any(isinstance(golds[-1], Fault) and world.kept for golds in world.golds.values()))
    plan = make_plan("a", "b", k=3, least=1)
    rows = list(run_to_the_end(plan, world, invocations=8).rows())
    cut = data.draw(st.integers(0, len(rows)))
    some = results_of(plan, run_to_the_end(plan, world, rows[:cut], invocations=8))
    every = results_of(
        make_plan("a", "b", k=3),
        run_to_the_end(make_plan("a", "b", k=3), world, invocations=8),
    )
    for mine, theirs in zip(some.votes, every.votes, strict=True):
        assert mine.ballot == theirs.ballot or Ballot.UNDETERMINED in (mine.ballot, theirs.ballot)
    whole = {(row.instance_id, row.attempt): row.outcome for row in every.rows}
    assert all(whole[row.instance_id, row.attempt] == row.outcome for row in some.rows
               if row.counted and every.book.place(row.instance_id) == "trusted")  # fmt: skip


def test_growing_takes_up_what_was_left_out() -> None:
    plan, ledger = make_plan("a", k=5, least=2), memory_ledger()
    world = scored(a="+++++")
    drive(plan, ledger, world)
    assert made(results_of(plan, ledger)) == {"a": "+++"}
    for grown, signs in (
        (make_plan("a", k=7, least=2), "++++"),
        (make_plan("a", k=7, least=5), "+++++"),
        (make_plan("a", k=7), "+++++++"),
    ):
        drive(grown, ledger, world)
        assert made(results_of(grown, ledger)) == {"a": signs}


# What enters what


def test_rates_are_of_the_first_attempts_and_the_vote_of_all() -> None:
    results = driven(scored(a="+++++", b="+-+--", c="-++++"), "a", "b", "c", least=2, k=5)
    assert made(results) == {"a": "+++", "b": "+-+--", "c": "-+++"}
    summary = results.summary()
    assert summary["pass_at_1"]["all"] == pytest.approx((1 + 0.5 + 0.5) / 3)
    assert (summary["k"], summary["attempts"], summary["pending"]) == (5, 12, 0)
    assert summary["majority"] == {
        "k": 5, "resolved": 2, "rejected": 1, "undetermined": 0,
        "rate": 2 / 3, "low": 2 / 3, "high": 2 / 3,
    }  # fmt: skip
    assert summary["stopping"] == {
        "min": 2, "max": 5, "at_most": 15, "instances": 2, "saved": 3,
    }  # fmt: skip
    lines = lines_of(results)
    assert lines[0].startswith("3 × 2–5 = 12 · 8 resolved · pass@1 66.7 % over all")
    assert (
        "stopped where the vote was decided: 3 of 15 attempts saved (20.0 %), at 2 instances · "
        "pass@1 is of the first 2 at each, the vote of all"
    ) in lines
    assert "votes: 1 unanimous, 2 split" in lines


def test_a_number_of_attempts_says_and_counts_what_it_always_did() -> None:
    world = scored(a="+++", b="+-+")
    results = driven(world, "a", "b", least=3, k=3)
    assert "stopping" not in results.summary()
    assert lines_of(results)[0].startswith("2 × 3 · 5 resolved · pass@1 83.3 %")
    assert not any("stopped" in line for line in lines_of(results))
    assert tables.table_of(sheet_of(results), tables.By.REPO).caption == "test, by repo"


def test_every_table_says_which_attempts_enter_and_rates_agree_with_the_headline() -> None:
    results = driven(scored(a="+++++", b="+-+--", c="-++++"), "a", "b", "c", least=2, k=5)
    rate = results.pass_at_1()["all"]
    for by in tables.By:
        shown = tables.table_of(sheet_of(results), by).caption
        assert shown.endswith("rates are of the first 2 attempts at each instance, votes of all")
    instances = tables.by_instance(results)
    assert [(r["k"], r["majority"]) for r in instances] == [
        (3, "resolved"), (5, "rejected"), (4, "resolved"),
    ]  # fmt: skip
    repos = tables.by_repo(results)
    assert fmean(r["pass_at_1_all"] for r in repos) == pytest.approx(rate, abs=1e-3)
    assert sum(r["attempts"] for r in repos) == 12
    outcomes = {r["outcome"]: r for r in tables.RECORDS[tables.By.OUTCOME](results)}
    assert outcomes["resolved"]["attempts"] == 8
    assert outcomes["resolved"]["share"] == pytest.approx(rate, abs=1e-3)
    found = tables.RECORDS[tables.By.ESTIMATE](results)
    assert {r["value"] for r in found if r["estimate"] == "pass@1" and r["over"] == "all"} >= {
        round(rate, 4)
    }
    # None of these can be had of more attempts than every instance got, but for the vote.
    assert {r["estimate"] for r in found} == {"pass@1", "pass@2", "pass^2", "majority of 5"}
    (run,) = tables.by_run(results)
    assert (run["k"], run["attempts"], run["stopping.saved"]) == (5, 12, 3)


def test_pass_at_k_of_the_first_is_the_mean_over_them() -> None:
    results = driven(scored(a="+--", b="--+", c="-++"), "a", "b", "c", least=2, k=3)
    found = {r["estimate"]: r["value"] for r in tables.RECORDS[tables.By.ESTIMATE](results)}
    assert found["pass@2"] == pytest.approx(2 / 3, abs=1e-4)
    assert found["pass^2"] == 0


def test_runs_are_compared_by_their_first_attempts_and_by_their_whole_votes() -> None:
    stopping = driven(scored(a="+-+--", b="-++++"), "a", "b", least=2, k=5)
    plain = driven(scored(a="+-+--", b="-++++"), "a", "b", least=2, k=2)
    found = compare([side_of(stopping), side_of(plain)], rng=random.Random(0))
    cells = found.sides[0].cells
    assert [(c.resolved, c.counted, c.attempts, c.ballot) for c in cells.values()] == [
        (1, 2, 2, "rejected"), (1, 2, 2, "resolved"),
    ]  # fmt: skip
    assert [c.mean for c in cells.values()] == [c.mean for c in found.sides[1].cells.values()]
    assert [d.values for d in found.differences] == [("2–5", "2")]
    assert any("means are over the first 2 at each instance" in note for note in found.notes)


def test_a_patch_is_chosen_among_the_first_since_hidden_tests_decide_of_others() -> None:
    results = driven(scored(a="+-+--"), "a", least=2, k=5)
    assert [c.attempt.number for c in candidates(results)["a"]] == [1, 2]


def test_an_attempt_that_some_instances_lack_is_no_submission() -> None:
    results = driven(scored(a="+-+--", b="++"), "a", "b", least=2, k=5)
    assert report(results, 2)["total_instances"] == 2
    with pytest.raises(UserError, match="attempts 1 to 2 at every instance"):
        report(results, 3)


# By the column, and while it runs


def written(root: Path, ledger: Ledger, end: int, plan: dict[str, Any]) -> RunDir:
    run = RunDir(root)
    root.mkdir()
    run.plan.write_text(json.dumps(plan), encoding="utf-8")
    with Ledger(run.ledger) as copy:
        for row in list(ledger.rows())[:end]:
            copy.append(row.kind, row.attempt, row.try_number, row.value)
    return run


counter = itertools.count()


@given(WORLDS, st.data())
@settings(PROPERTY, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_such_run_reads_the_same_by_the_column_and_as_far_to_whoever_watches(
    tmp_path: Path, world: World, data: st.DataObject
) -> None:
    plan, ledger = make_plan("a", "b", "never", k=3, least=1), memory_ledger()
    drive(plan, ledger, world)
    end = data.draw(st.integers(0, len(list(ledger.rows()))))
    run = written(tmp_path / str(next(counter)), ledger, end, plan_json(plan))
    for untrusted in (False, True):
        results, read = load(run, untrusted=untrusted), read_sheet(run, untrusted=untrusted)
        assert records_of(read.frame) == records_of(frame_of(results.rows))
        assert read.summary() == results.summary()
        assert tables.to_records(tables.table_of(read, tables.By.INSTANCE)) == tables.by_instance(
            results
        )
    seen = Progress(run).look()
    results = load(run)
    begun = [Attempt(row.instance_id, row.attempt) for row in results.rows if row.tries]
    if all(results.book.entry(attempt).settlement for attempt in begun):
        assert seen.total == len(results.rows)


def test_whoever_watches_sees_how_many_are_due_by_now(tmp_path: Path) -> None:
    plan, ledger = make_plan("a", "b", k=5, least=2), memory_ledger()
    drive(plan, ledger, scored(a="+++++", b="+-+-+"))
    rows = list(ledger.rows())
    settled = [end for end, row in enumerate(rows, 1) if row.kind is Kind.SETTLEMENT]
    seen = Progress(written(tmp_path / "half", ledger, settled[3], plan_json(plan))).look()
    assert (seen.about.partition(",")[0], seen.over, seen.total) == ("2 × 2–5", 4, 6)
    assert (seen.low, seen.high) == (0.75, 0.75)
    seen = Progress(written(tmp_path / "whole", ledger, len(rows), plan_json(plan))).look()
    assert (seen.over, seen.total) == (8, 8)


# Bad input


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"min": 7, "max": 3, "stop": "decided"}, ["attempts: min (7) is more than max (3)"]),
        ({"min": 0, "max": 3, "stop": "decided"}, ["attempts.min: input should be greater"]),
        ({"min": 3, "max": 7, "stop": "early"}, ["attempts.stop: input should be 'decided'"]),
        ({"min": 3, "max": 7}, ["'attempts.stop' is missing"]),
        ({"min": 3, "max": 1001, "stop": "decided"}, ["attempts.max: input should be less"]),
        ({"least": 3, "max": 7, "stop": "decided"}, ["unknown key 'attempts.least'", "min, max"]),
        (0, ["attempts: input should be greater than or equal to 1 (got 0)"]),
        ("many", ["attempts: input should be a valid integer"]),
    ],
    ids=str,
)
def test_terms_that_cannot_be_are_refused_with_their_place(value: object, words: list[str]) -> None:
    tree = demo_recipe(size=5, attempts=1, sandbox="local") | {"attempts": value}
    with pytest.raises(UserError) as refused:
        parse(tree, "x.yaml", {})
    for word in words:
        assert word in str(refused.value)
    assert len(str(refused.value).splitlines()) <= 2


def test_a_key_of_the_terms_is_known_where_it_is_misplaced() -> None:
    tree = demo_recipe(size=5, attempts=1, sandbox="local") | {"stop": "decided"}
    with pytest.raises(UserError, match=r"unknown key 'stop'; did you mean 'attempts.stop'"):
        parse(tree, "x.yaml", {})


def test_the_digest_knows_nothing_of_the_terms_and_a_number_is_a_number() -> None:
    def plan_for(attempts: object) -> Any:
        tree = demo_recipe(size=5, attempts=1, sandbox="local") | {"attempts": attempts}
        recipe = parse(tree, "x.yaml", {})
        selection, _ = planning.draw(recipe.selection)
        return planning.make_plan(recipe, selection)

    number, terms = plan_for(3), plan_for({"min": 2, "max": 3, "stop": "decided"})
    assert number.digest == terms.digest
    assert (number.min_attempts, number.least, terms.min_attempts, terms.least) == (None, 3, 2, 2)
    assert plan_for({"min": 3, "max": 3, "stop": "decided"}) == number


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        ((3, 7), ["no vote of 7 is decided before 4 attempts", "pass@1 is of 3"]),
        ((4, 7), []),
        ((3, 6), ["of 6 a tie is a no, so 3 of 6 resolved is rejected"]),
        ((3, 3), []),
    ],
)
def test_terms_that_are_odd_are_explained(terms: tuple[int, int], words: list[str]) -> None:
    tree = demo_recipe(size=5, attempts=1, sandbox="local")
    tree["attempts"] = {"min": terms[0], "max": terms[1], "stop": "decided"}
    recipe = parse(tree, "x.yaml", {})
    said = check_attempts(recipe, asks_model=True)
    assert len(said) == (len(words) + 1) // 2
    for word in words:
        assert word in "\n".join(said)


@pytest.mark.parametrize("agent", ["gold", "empty"])
def test_a_control_has_no_vote_to_decide(agent: str, passone: Passone) -> None:
    tree = demo_recipe(size=5, attempts=1, sandbox="local")
    tree |= {"agent": {"name": agent}, "model": {}}
    Path("c.yaml").write_text(yaml.safe_dump(tree))
    said = passone("run", "c.yaml", "--set", f"attempts={TERMS}")
    assert said.status == 2
    assert f"attempts: agent '{agent}' asks no model" in said.err
    assert "--set attempts=2" in said.err
    assert not Path("logs").exists()


# That it is unbiased, and what it saves


def simulated(chances: Sequence[float], least: int, most: int, rng: random.Random) -> Results:
    """A run over instances of these chances, stopped as the schedule stops."""
    ids = [f"i-{n}" for n in range(len(chances))]
    rows = []
    for id_, chance in zip(ids, chances, strict=True):
        settled: list[Settled] = []
        while due(settled, least=least, most=most) > len(settled):
            settled.append(YES if rng.random() < chance else NO)
        rows += [row(id_, number, *one) for number, one in enumerate(settled, 1)]
    return Results(plan=plan_json(make_plan(*ids, k=most, least=least)), rows=rows, book=Book())


def row(id_: str, number: int, outcome: Outcome, blame: Blame) -> AttemptRow:
    return AttemptRow(
        instance_id=id_, repo="r", attempt=number, outcome=outcome.value, blame=blame.value,
        cause="", official=outcome is Outcome.RESOLVED, moved=False, trust="trusted", patch=True,
        unknown_exit=False, stop="submitted", tries=1, steps=1, usage=Usage(), seconds=1.0,
        fail_to_pass="", pass_to_pass="", detail="",
    )  # fmt: skip


def naive(results: Results) -> float:
    """The mean over all attempts, which stopping has chosen."""
    return fmean(fmean(row.resolved for row in rows) for rows in results.groups.values())


def test_pass_at_1_is_unbiased_where_a_mean_over_all_attempts_is_not() -> None:
    rng = random.Random(7)
    chances = [rng.betavariate(2.1, 0.9) for _ in range(400)]
    truth = fmean(chances)
    runs = [simulated(chances, 3, 7, rng) for _ in range(60)]
    ours = [run.pass_at_1()["all"] for run in runs]
    theirs = [naive(run) for run in runs]
    error = stdev(ours) / len(runs) ** 0.5
    assert error < 0.002
    assert abs(fmean(ours) - truth) < 2 * error
    # An instance that goes well stops while it does, and one that failed gets a chance to mend it.
    assert fmean(theirs) - truth > 5 * error
    means, pooled = naive_errors(chances, 3, 7)
    assert fmean(theirs) - truth == pytest.approx(means, abs=3 * error)
    assert means == pytest.approx(0.011, abs=5e-4)
    assert pooled == pytest.approx(-0.019, abs=5e-4)
    saved = fmean(run.stopping()["saved"] / run.stopping()["at_most"] for run in runs)
    assert 0.25 < saved < 0.43
    assert saved == pytest.approx(1 - expected_share(chances, 3, 7), abs=0.005)


def naive_errors(chances: Sequence[float], least: int, most: int) -> tuple[float, float]:
    """How wrong a mean over all attempts is, by instance and pooled: from all ways to stop."""
    ways = [(p, *way) for p in chances for way in endings(p, least, most)]
    truth, made = fmean(chances), sum(chance * n for _, chance, _, n in ways)
    by_instance = sum(chance * r / n for _, chance, r, n in ways) / len(chances)
    return by_instance - truth, sum(chance * r for _, chance, r, _ in ways) / made - truth


def endings(
    p: float, least: int, most: int, r: int = 0, n: int = 0
) -> Iterator[tuple[float, int, int]]:
    """(its chance, resolved, attempts) of every way in which an instance of chance p stops."""
    decided = 2 * r > most or 2 * (r + most - n) <= most
    if n == most or (n >= least and decided):
        yield 1.0, r, n
        return
    for chance, more in ((p, 1), (1 - p, 0)):
        for rest, resolved, attempts in endings(p, least, most, r + more, n + 1):
            yield chance * rest, resolved, attempts


def expected_share(chances: Sequence[float], least: int, most: int) -> float:
    """Of all attempts, how many are made on average: from the binomial distribution."""
    return fmean(
        sum(
            comb(most, r) * p**r * (1 - p) ** (most - r) * attempts_until_decided(most, r, least)
            for r in range(most + 1)
        )
        / most
        for p in chances
    )


@pytest.mark.parametrize(("n", "least"), [(3, 2), (4, 2), (5, 1), (7, 3), (7, 4)])
def test_the_mean_number_of_attempts_is_that_over_all_orders(n: int, least: int) -> None:
    for resolved in range(n + 1):
        lengths = []
        for places in itertools.combinations(range(n), resolved):
            order = [YES if place in places else NO for place in range(n)]
            some = least
            while due(order[:some], least=least, most=n) > some:
                some += 1
            lengths.append(some)
        assert attempts_until_decided(n, resolved, least) == pytest.approx(fmean(lengths))


def test_a_plan_says_what_stopping_would_have_taken_of_a_recorded_run() -> None:
    results = driven(scored(a="+++", b="+-+", c="---"), "a", "b", "c", least=3, k=3)
    # Two, three in two orders of three, two.
    share = (2 + (2 + 3 + 3) / 3 + 2) / 9
    said = "\n".join(caveats(of_run(results, "r")))
    assert f"the same votes of 3 take {100 * share:.0f} % of these attempts" in said
    assert "{min: 2, max: 3, stop: decided}" in said


# For real: the agent, the grader, a kill


MIXED = [f"passone__{name}" for name in ("almanac-12", "ballast-18", "cartouche-27", "ember-24")]
"""Two that split, and two that are decided after two attempts."""


def config_of(name: str, attempts: object) -> Path:
    tree = demo_recipe(size=5, attempts=1, sandbox="local")
    tree |= {"name": name, "attempts": attempts}
    tree["selection"] = {
        "dataset": "demo",
        "strategy": "ids",
        "ids": MIXED,
    }
    path = Path(f"{name}.yaml")
    path.write_text(yaml.safe_dump(tree))
    return path


def rows_of(run: Path) -> list[dict[str, Any]]:
    return [
        {key: value for key, value in record.items() if key not in ("seconds", "cost_usd")}
        for record in tables.by_attempt(load(RunDir(run)))
    ]


def test_a_real_run_that_is_killed_and_continued_makes_the_same_attempts_and_prints_the_saving(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PASSONE_CACHE", str(tmp_path / "cache"))

    def command(name: str, *more: str) -> list[str]:
        return [str(PASSONE), "run", f"{name}.yaml", "--logs", "logs", *more]

    config_of("killed", 1)
    config_of("whole", {"min": 2, "max": 3, "stop": "decided"})
    whole = subprocess.run(command("whole"), capture_output=True, text=True, check=False)
    assert whole.returncode in (0, 3), whole.stderr
    kills, rng = 0, random.Random(3)
    while True:
        process = subprocess.Popen(
            command("killed", "--set", f"attempts={TERMS}"),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ,
        )  # fmt: skip
        waited_until = settlements("killed") + rng.randint(1, 3)
        while kills < 4 and process.poll() is None and settlements("killed") < waited_until:
            time.sleep(0.05)
        if kills < 4 and process.poll() is None:
            process.send_signal(signal.SIGKILL)
            kills += 1
            process.communicate()
            continue
        out, err = process.communicate()
        break
    assert kills >= 2, err
    assert process.returncode == whole.returncode
    assert rows_of(Path("logs/killed")) == rows_of(Path("logs/whole"))
    results = load(RunDir(Path("logs/whole")))
    saved = results.summary()["stopping"]["saved"]
    assert saved == 2
    line = f"{saved} of 12 attempts saved ({100 * saved / 12:.1f} %)"
    assert line in out
    assert line in whole.stdout
    assert len(results.rows) == 12 - saved
    three = subprocess.run(
        command("whole", "--set", "attempts=3"), capture_output=True, text=True, check=False
    )
    assert three.returncode in (0, 3), three.stderr
    every = load(RunDir(Path("logs/whole")))
    # The votes are those of all attempts; back to fewer is refused.
    assert [v.ballot for v in every.votes] == [v.ballot for v in results.votes]
    back = subprocess.run(command("whole"), capture_output=True, text=True, check=False)
    assert back.returncode == 2
    assert "attempts may grow, never shrink: --set attempts=3" in back.stderr
    # And a recording of three answers for what stops.
    again = subprocess.run(
        command("whole", "--replay", "whole", "--set", "name=again"),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert again.returncode == whole.returncode, again.stderr
    assert made(load(RunDir(Path("logs/again")))) == made(results)


def settlements(name: str) -> int:
    run = RunDir(Path("logs", name))
    if not run.ledger.exists():
        return 0
    try:
        with Ledger(run.ledger, read_only=True) as ledger:
            return sum(row.kind is Kind.SETTLEMENT for row in ledger.rows())
    except UserError:
        return 0
