"""Which of two runs is better, and what may not be compared at all."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import pty
import random
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from math import comb
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.compare import Cell, Comparison, Figure, Side, Told, compare, read_published, side_of
from pipeline.compare.figures import beside
from pipeline.compare.pairs import TOLD
from pipeline.compare.plans import READ, Aspect
from pipeline.compare.records import by_instance, by_pair, to_json
from pipeline.compare.sides import labels
from pipeline.compare.words import decimals, letter, listed, points, shown
from pipeline.domain import Cause
from pipeline.ledger import Ledger
from pipeline.outcomes import UserError
from pipeline.rundir import RunDir, write_atomically
from pipeline.stats import detectable
from pipeline.votes import Ballot
from tests.command import Passone
from tests.fakes import (
    PROPERTY,
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

FIVE = ("a-1", "b-2", "c-3", "d-4", "e-5")
TWENTY = tuple(f"i-{n}" for n in range(20))
DOCS = Path(__file__).parent.parent / "docs" / "compare.md"


def plan_of(*ids: str, k: int = 1, has_control: bool = True, **changes: Any) -> dict[str, Any]:
    plan = plan_json(make_plan(*ids, k=k), has_control=has_control)
    plan |= {"sandbox_kind": "docker", "versions": {"passone": "0.1", "agent fake": "1"}}
    return plan | changes


def yes_no(*failed: str, ids: Sequence[str] = FIVE, k: int = 1) -> World:
    """All resolved but these."""
    return World(scores={(id_, n): [UNRESOLVED] for id_ in failed for n in range(1, k + 1)})


def side(world: World, *ids: str, k: int = 1, name: str = "a", **changes: Any) -> Side:
    """A run that really was driven, as a side."""
    ids = ids or FIVE
    plan, ledger = make_plan(*ids, k=k, name=name), memory_ledger()
    drive(plan, ledger, world)
    results = results_of(plan, ledger, has_control=world.has_control)
    stated = plan_of(*ids, k=k, has_control=world.has_control, name=name) | changes
    return side_of(replace(results, plan=stated), place=f"logs/{name}")


def against(first: Side, second: Side, *more: Side, **options: Any) -> Comparison:
    return compare([first, second, *more], rng=random.Random(0), **options)


def by_hand(b: int, c: int) -> float:
    """McNemar's exact p, from the definition."""
    n = b + c
    tail = sum(comb(n, i) for i in range(min(b, c) + 1))
    return min(1.0, 2 * tail / 2**n) if n else 1.0


# The sixteen models


def model_side(name: str, verdicts: pd.Series[float]) -> Side:
    cells = {}
    for id_, value in verdicts.items():
        known = not pd.isna(value)
        ballot = (Ballot.RESOLVED if value else Ballot.REJECTED) if known else Ballot.UNDETERMINED
        cells[str(id_)] = Cell(
            resolved=int(known and value == 1),
            counted=int(known),
            attempts=1,
            ballot=ballot,
            why="" if known else "1 infra (grader)",
        )
    plan = plan_of(*cells, model=name, agent="predictions")
    return Side(name=name, cells=cells, plan=plan, place=name)


@pytest.fixture(scope="module")
def models(shared: Path) -> pd.DataFrame:
    return pd.read_csv(shared / "models16.csv", index_col=0)


def test_two_of_the_sixteen_models_as_checked_by_hand(models: pd.DataFrame) -> None:
    first, second = "anthropic/claude-3-5-sonnet-20240620", "openai/o1-2024-12-17"
    found = against(model_side(first, models[first]), model_side(second, models[second]))
    (pair,) = found.pairs
    # Of 499 with both verdicts: both 92, only sonnet 42, only o1 78, neither 287.
    assert [pair.size(told) for told in Told] == [92, 42, 78, 287, 1]
    assert pair.mcnemar == pytest.approx(by_hand(42, 78))
    assert pair.mcnemar == pytest.approx(0.0012993, abs=1e-6)
    assert pair.difference is not None
    assert pair.difference.mean == pytest.approx((42 - 78) / 499)
    # The gaps are 42 times 1, 78 times -1 and 379 times 0.
    error = stdev([1.0] * 42 + [-1.0] * 78 + [0.0] * 379) / 499**0.5
    assert pair.difference.error == pytest.approx(error)
    assert pair.detectable == pytest.approx(2.8016 * error, rel=1e-4)
    assert pair.permutation == pytest.approx(pair.mcnemar, abs=0.001)
    assert pair.sentence == (
        f"{second} resolves more than {first}: 78 instances against 42 tell them apart, "
        "p = 0.0013; they are 7.2 points apart [2.9–11.5]"
    )
    assert found.confounds.startswith("only the model differs")


def test_every_pair_of_the_sixteen_models_has_the_p_of_the_definition(
    models: pd.DataFrame,
) -> None:
    sides = [model_side(str(name), models[name]) for name in models.columns]
    found = against(*sides)
    assert len(found.pairs) == 120
    for pair, (a, b) in zip(found.pairs, combinations(models.columns, 2), strict=True):
        known = models[[a, b]].dropna()
        only = [int(((known[x] == 1) & (known[y] == 0)).sum()) for x, y in ((a, b), (b, a))]
        assert [pair.size(Told.ONLY_FIRST), pair.size(Told.ONLY_SECOND)] == only
        assert pair.mcnemar == pytest.approx(by_hand(*only))
        assert pair.size(Told.OPEN) == 500 - len(known) == len(pair.unpaired)
        assert (pair.mcnemar_holm or 0) >= (pair.mcnemar or 0)
    # Of 120 tests, 0.05 / 120 is the least that has to be gone below: 13 flips, not six.
    assert {pair.least for pair in found.pairs} == {13}


# The reliability study: five runs of one agent and model


def test_two_runs_of_the_reliability_study_are_not_told_apart(
    passone: Passone, shared: Path
) -> None:
    study = shared / "reliability"
    for name, numbers in (("run1", (1,)), ("run2", (2,)), ("five", (1, 2, 3, 4, 5))):
        said = passone(
            "score",
            *(study / f"preds.run{number}.json" for number in numbers),
            *("--dataset", shared / "verified.parquet", "--run", name, "--quiet"),
            *("--verdicts", study / "per_run_results.json"),
        )
        assert said.status == 0
    said = passone("compare", "logs/run1", "logs/run2", "--json")
    assert said.status == 0, said.err
    tree = json.loads(said.out)
    (pair,) = tree["pairs"]
    verdicts = json.loads((study / "per_run_results.json").read_text())
    won = [{id_ for id_, v in verdicts[f"i0_run{n}"].items() if v} for n in (1, 2)]
    assert set(pair["only_first_ids"]) == won[0] - won[1]
    assert set(pair["only_second_ids"]) == won[1] - won[0]
    counts = [pair[key] for key in ("both", "only_first", "only_second", "neither", "open")]
    assert counts == [72, 7, 3, 18, 0]
    assert pair["mcnemar_p"] == pytest.approx(0.34375)
    assert pair["permutation_p"] == pytest.approx(0.34375)
    assert pair["difference"] == pytest.approx(0.04)
    assert [side["resolved"] for side in tree["sides"]] == [79, 75]
    assert "no difference is shown between run1 and run2" in pair["sentence"]
    # The majority of five beside pass@1: 82 unanimous, 18 split, as the study's histogram has it.
    status = passone("status", "logs/five").out
    assert "votes: 82 unanimous, 18 split · a majority of 3 of them: 76.3 % on average" in status
    assert status.count("\nsplit ") == 18
    said = passone("compare", "logs/five", "logs/run1")
    assert "attempts: 5 | 1" in said.out
    assert "a majority of several is compared with one of fewer" in said.out


# The one sentence


def cells_side(name: str, yes: int, n: int, *, start: int = 0) -> Side:
    """n instances; those from `start` on are resolved, `yes` of them."""
    ids = [f"i-{i}" for i in range(n)]
    won = set(ids[start : start + yes])
    return side(World(scores={(i, 1): [UNRESOLVED] for i in ids if i not in won}), *ids, name=name)


def test_five_instances_can_never_show_a_difference() -> None:
    (pair,) = against(side(yes_no(*FIVE)), side(World(), name="b")).pairs
    assert pair.flips == 5
    assert pair.mcnemar == 0.0625
    assert pair.sentence == (
        "5 instances can never show a difference at 5 %: six one-way flips are the least (5 seen)"
    )
    # All gaps are alike: there is no spread that an interval could come from.
    assert (pair.ci95, pair.detectable) == (None, None)


def test_one_instance_is_answered() -> None:
    (pair,) = against(side(yes_no("a-1"), "a-1"), side(World(), "a-1", name="b")).pairs
    assert pair.sentence.startswith("1 instance can never show a difference at 5 %: six")
    assert pair.difference is not None
    assert pair.difference.error is None


def test_six_one_way_flips_are_a_difference() -> None:
    found = against(cells_side("a", 6, 20), cells_side("b", 0, 20))
    assert found.sentences == [
        "a resolves more than b: 6 instances against 0 tell them apart, p = 0.0313; they are 30.0 "
        "points apart [8.0–52.0]"
    ]


def test_few_flips_on_many_instances_can_show_nothing() -> None:
    found = against(cells_side("a", 5, 20), cells_side("b", 0, 20))
    assert found.sentences == [
        "no difference is shown: 5 instances tell a and b apart, and at 5 % six one-way flips are "
        "the least"
    ]


def test_flips_both_ways_show_nothing_and_say_what_would_have_been_missed() -> None:
    found = against(cells_side("a", 5, 20), cells_side("b", 5, 20, start=5))
    (pair,) = found.pairs
    assert pair.difference is not None
    assert pair.difference.error is not None
    least = points(detectable(pair.difference.error))
    assert pair.sentence == (
        "no difference is shown between a and b: 5 instances against 5 tell them apart, p = 1; one "
        f"of less than {least} points would be missed more often than one time in five"
    )


def test_runs_that_agree_everywhere_are_bounded_and_not_called_equal() -> None:
    (pair,) = against(side(World(), *TWENTY), side(World(), *TWENTY, name="b")).pairs
    assert (pair.mcnemar, pair.permutation) == (1.0, 1.0)
    assert pair.sentence == (
        "no instance of 20 tells a and b apart, p = 1: at most 13.9 % of all instances would (95 %)"
    )


def test_where_the_two_tests_disagree_nobody_is_declared_better() -> None:
    """Three attempts: 2 of 3 against 1 of 3 at six instances, and 3 of 3 against 2 at ten."""
    ids = [f"i-{n}" for n in range(16)]
    worse = {(id_, 1): [UNRESOLVED] for id_ in ids}
    first = side(World(scores={(id_, 1): [UNRESOLVED] for id_ in ids[:4]}), *ids, k=3)
    second = side(
        World(scores=worse | {(id_, 2): [UNRESOLVED] for id_ in ids[:4]}), *ids, k=3, name="b"
    )
    (pair,) = against(first, second).pairs
    assert pair.flips == 4
    assert pair.mcnemar == 0.125
    assert pair.permutation is not None
    assert pair.permutation < 0.001
    assert "it depends on the test whether a and b differ" in pair.sentence
    assert "take it as undecided" in pair.sentence


def test_three_runs_are_corrected_for_each_other() -> None:
    sides = [cells_side(name, yes, 30) for name, yes in (("a", 0), ("b", 6), ("c", 14))]
    found = against(*sides)
    assert [pair.mcnemar for pair in found.pairs] == pytest.approx([2 / 2**6, 2 / 2**14, 2 / 2**8])
    assert [pair.mcnemar_holm for pair in found.pairs] == pytest.approx(
        [2 / 2**6, 6 / 2**14, 4 / 2**8]
    )
    assert found.sentences[0] == (
        "no difference is shown: 6 instances tell a and b apart, and at 5 % over 3 comparisons "
        "seven one-way flips are the least"
    )
    assert "p = 0.0156 after Holm's correction for 3 comparisons" in found.sentences[2]
    assert found.told("i-0") == "apart"
    assert found.told("i-29") == "alike"


# What does not count


def test_a_model_that_did_not_get_to_try_does_not_lose() -> None:
    world = World(
        rolls={("a-1", 1): [fault(Cause.ENDPOINT)]},
        scores={("b-2", 1): [TIMED_OUT]},
        golds={"b-2": [fault(Cause.GRADER)]},
    )
    found = against(side(world), side(World(), name="b"))
    (pair,) = found.pairs
    assert pair.ids(Told.OPEN) == list(pair.unpaired) == ["a-1", "b-2"]
    assert (pair.flips, pair.votes) == (0, 3)
    assert pair.difference is not None
    assert pair.difference.instances == 3
    assert (
        "a: 2 attempts at 2 instances do not count: 1 infra (endpoint) and 1 ambiguous "
        "(tests_timed_out)" in found.notes
    )


def test_an_undetermined_vote_drops_out_and_its_counted_attempts_stay_in_the_difference() -> None:
    world = World(rolls={("a-1", 2): [fault()], ("a-1", 3): [fault()]})
    found = against(side(world, k=3), side(World(), k=3, name="b"))
    (pair,) = found.pairs
    assert pair.ids(Told.OPEN) == ["a-1"]
    assert list(pair.unpaired) == []
    assert by_instance(found)[0] == {
        "instance": "a-1",
        "repo": "a/repo",
        "a_resolved": 1,
        "a_counted": 1,
        "a_attempts": 3,
        "a_vote": "undetermined",
        "a_uncounted": "2 infra (endpoint)",
        "b_resolved": 3,
        "b_counted": 3,
        "b_attempts": 3,
        "b_vote": "resolved",
        "b_uncounted": "",
        "told": "open",
    }


def test_where_all_is_infra_nothing_is_compared() -> None:
    dead = World(rolls={(id_, 1): [fault()] for id_ in FIVE})
    found = against(side(dead), side(World(), name="b"))
    assert found.is_void
    assert found.sentences == [
        "a and b cannot be compared: no instance has a vote of both",
    ]
    (record,) = by_pair(found)
    assert {record[key] for key in ("mcnemar_p", "permutation_p", "difference")} == {None}


def test_a_tie_of_an_even_number_is_said_to_be_a_no() -> None:
    found = against(side(World(), k=2), side(World(), k=2, name="b"))
    assert "of an even number of attempts a tie is a no" in found.notes


CELLS = st.builds(
    lambda attempts, counted, resolved: (attempts, min(counted, attempts), resolved),
    st.integers(1, 4),
    st.integers(0, 4),
    st.integers(0, 4),
)


def drawn(name: str, parts: Sequence[tuple[int, int, int]]) -> Side:
    cells = {}
    for place, (attempts, counted, wanted) in enumerate(parts):
        resolved = min(wanted, counted)
        open_ = attempts - counted
        yes, no = resolved > attempts / 2, resolved + open_ <= attempts / 2
        ballot = Ballot.RESOLVED if yes else Ballot.REJECTED if no else Ballot.UNDETERMINED
        cells[f"i-{place}"] = Cell(
            resolved=resolved,
            counted=counted,
            attempts=attempts,
            ballot=ballot,
            why=f"{open_} pending" if open_ else "",
        )
    return Side(name=name, cells=cells, plan=plan_of(*cells), place=name)


@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=12))
@PROPERTY
def test_whatever_is_compared_adds_up_and_turned_around_is_the_same(
    parts: list[tuple[tuple[int, int, int], tuple[int, int, int]]],
) -> None:
    a, b = (drawn(name, [pair[n] for pair in parts]) for n, name in enumerate("ab"))
    (there,), (back,) = against(a, b).pairs, against(b, a).pairs
    assert sum(there.size(told) for told in Told) == len(parts)
    assert there.mcnemar == back.mcnemar
    assert there.size(Told.ONLY_FIRST) == back.size(Told.ONLY_SECOND)
    assert (there.permutation is None) == (there.difference is None) == (back.difference is None)
    if there.difference is not None and back.difference is not None:
        assert there.difference.mean == pytest.approx(-back.difference.mean)
        means = [(x.mean, y.mean) for x, y in zip(a.cells.values(), b.cells.values(), strict=True)]
        gaps = [x - y for x, y in means if x is not None and y is not None]
        assert there.difference.mean == pytest.approx(fmean(gaps))
        assert len(there.unpaired) == len(parts) - len(gaps)
    assert there.sentence
    json.dumps(to_json(against(a, b)), allow_nan=False)


def test_every_pair_of_decided_votes_says_something() -> None:
    decided = {Ballot.RESOLVED, Ballot.REJECTED}
    assert TOLD.keys() == {(x, y) for x in decided for y in decided}
    assert set(TOLD.values()) | {Told.OPEN} == set(Told)


# What differs


def test_every_aspect_is_read() -> None:
    assert READ.keys() == set(Aspect)


OTHER: Mapping[Aspect, Mapping[str, Any]] = {
    Aspect.MODEL: {"model": "openai/other"},
    Aspect.AGENT: {"agent_options": {"config": "sha256:1"}},
    Aspect.SAMPLING: {"sampling": {"temperature": 1.0}},
    Aspect.LIMITS: {"limits": {"steps": 50}},
    Aspect.SANDBOX: {"sandbox_kind": "local"},
    Aspect.GRADER: {"grader": "fake 2"},
    Aspect.DATASET: {"selection": plan_of(*FIVE)["selection"] | {"fingerprint": "0" * 64}},
    Aspect.PASSONE: {"versions": {"passone": "0.2", "agent fake": "1"}},
    Aspect.ATTEMPTS: {"attempts": 3},
}


@pytest.mark.parametrize("aspect", OTHER)
def test_what_differs_is_listed_with_both_values(aspect: Aspect) -> None:
    other = dict(OTHER[aspect])
    for key in ("sampling", "limits"):
        if key in other:
            other[key] = plan_of(*FIVE)[key] | other[key]
    found = against(side(World()), side(World(), name="b", **other), force=True)
    assert [item.aspect for item in found.differences] == [aspect]
    assert len(found.differences[0].values) == 2
    expected = (
        "the plans do not differ: what is left is chance"
        if aspect is Aspect.ATTEMPTS
        else f"only the {aspect} differs"
    )
    assert found.confounds == expected


def test_two_things_that_differ_are_both_compared_and_the_reader_is_told() -> None:
    changes: dict[str, Any] = {"model": "openai/other", "agent": "other"}
    found = against(side(World()), side(World(), name="b", **changes))
    assert found.confounds == "model and agent differ: what is compared is both"
    more = changes | {"sampling": {"temperature": 1}}
    found = against(side(World()), side(World(), name="b", **more))
    assert found.confounds == (
        "model, agent and sampling differ: what is compared is all of them at once"
    )


def test_of_predictions_it_is_said_that_little_is_known() -> None:
    plan: dict[str, Any] = {"agent": "predictions", "agent_options": {"files": ["1"]}}
    other: dict[str, Any] = {"agent": "predictions", "agent_options": {"files": ["2"]}}
    found = against(side(World(), **plan), side(World(), name="b", **other))
    assert found.differences == []
    assert found.confounds.endswith("agent, sampling and limits of predictions are not recorded")
    mixed = against(side(World()), side(World(), name="b", **other))
    assert ("0.0", "not recorded") in [item.values for item in mixed.differences]


# What is refused


def test_different_selections_are_refused_with_what_they_share() -> None:
    first, second = side(World(), "a-1", "b-2"), side(World(), "b-2", "c-3", name="b")
    with pytest.raises(UserError) as caught:
        against(first, second)
    assert str(caught.value) == (
        "a and b: are over different selections: 1 only in a (a-1), 1 only in b (c-3); --intersect "
        "compares the 1 instance that all have"
    )
    found = against(first, second, intersect=True)
    assert found.ids == ["b-2"]
    assert [item.aspect for item in found.differences] == [Aspect.SELECTION]
    assert "a: 1 instance not in all runs: left out" in found.notes
    assert "taken from the dataset's name and revision" in " ".join(found.notes)


def test_runs_without_a_common_instance_are_refused_whatever_is_asked() -> None:
    with pytest.raises(UserError, match="no instance is in all of them"):
        against(side(World(), "a-1"), side(World(), "b-2", name="b"), intersect=True)


def test_different_graders_are_refused_and_forced_with_the_difference_in_the_title() -> None:
    first, second = side(World()), side(World(), name="b", grader="swebench 4")
    with pytest.raises(UserError, match=r"differ in grader: fake 1 \| swebench 4.*--force"):
        against(first, second)
    found = against(first, second, force=True)
    assert found.title == "a against b (FORCED: different grader: fake 1 | swebench 4)"


def test_other_rows_of_the_same_instances_are_refused() -> None:
    with pytest.raises(UserError, match=r"dataset fingerprint: ffffffffffff \| 000000000000"):
        against(side(World()), side(World(), name="b", **OTHER[Aspect.DATASET]))


def test_the_same_rows_from_another_file_are_the_same_dataset() -> None:
    selection = plan_of(*FIVE)["selection"] | {"dataset": "/elsewhere/verified.parquet"}
    assert against(side(World()), side(World(), name="b", selection=selection)).differences == []


def test_of_different_selections_the_name_of_the_dataset_decides() -> None:
    selection = plan_of("a-1")["selection"] | {"dataset": "other"}
    with pytest.raises(UserError, match=r"dataset: d \| other"):
        against(side(World()), side(World(), "a-1", name="b", selection=selection), intersect=True)


def test_one_run_alone_is_refused() -> None:
    with pytest.raises(UserError, match="name a second one, or --published"):
        compare([side(World())], rng=random.Random(0))


def test_a_run_against_itself_is_answered_with_a_note() -> None:
    found = against(side(World(), *TWENTY), side(World(), *TWENTY))
    (pair,) = found.pairs
    assert (pair.flips, pair.mcnemar) == (0, 1.0)
    assert found.title == "a #1 against a #2"
    assert "a #1 and a #2 are the same run, compared with itself" in found.notes
    assert found.sentences == ["a #1 and a #2 are the same run: no discordant pair, p = 1"]


# Names


def test_names_that_are_alike_are_told_apart_by_their_place() -> None:
    runs = [replace(side(World()), place=place) for place in ("x/a", "y/a")]
    assert labels(runs) == ["a (x/a)", "a (y/a)"]
    assert labels([runs[0], side(World(), name="b")]) == ["a", "b"]
    assert labels([runs[0], runs[0]]) == ["a #1", "a #2"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("run1", "run1"),
        ("מודל", "\u2068מודל\u2069"),
        ("نموذج-3", "\u2068نموذج-3\u2069"),
        # An override would turn the rest of the line around.
        ("a\u202eb", "ab"),
        ("a\nb\x1b[31m", "a b[31m"),
        ("", "(no name)"),
        ("\ud800", "?"),
    ],
)
def test_a_name_turns_nothing_around_it(name: str, text: str) -> None:
    assert shown(name) == text


def test_letters_numbers_and_lists() -> None:
    assert [letter(n) for n in (0, 25, 26, 27, 701, 702)] == ["A", "Z", "AA", "AB", "ZZ", "AAA"]
    assert [listed(x) for x in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        "",
        "a",
        "a and b",
        "a, b and c",
    ]
    assert [decimals(p) for p in (None, 1e-9, 0.5, 1.0)] == ["–", "< 0.0001", "0.5000", "1"]
    assert [points(x, sign=True) for x in (-0.5, 0.0, -0.0001)] == ["−50.0", "0.0", "0.0"]


# What is published


def file_of(tmp_path: Path, text: str, name: str = "p.csv") -> str:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return str(path)


TABLES = {
    "with a header": "instance,verdict\na-1,1\nb-2,0\nc-3,\n",
    "without": "a-1,1\nb-2,0\n",
    "in words": "instance_id;resolved\na-1;Resolved\nb-2;UNRESOLVED\n",
    "as booleans, with tabs": "id\tmodel x\na-1\tTrue\nb-2\tfalse\n",
    "as floats, with a byte order mark and blank lines": "\ufeffid,openai/o1\n\na-1,1.0\nb-2,0.0\n",
    "with more columns": "instance,repo,outcome,steps\na-1,x,resolved,3\nb-2,x,patch_rejected,9\n",
    "with the verdict before others": "instance,resolved,steps\na-1,1,3\nb-2,0,9\n",
    "quoted": '"a-1","1"\r\n"b-2","0"\r\n',
}


@pytest.mark.parametrize("text", TABLES.values(), ids=TABLES)
def test_a_published_table_is_read(text: str, tmp_path: Path) -> None:
    found = read_published(file_of(tmp_path, text), FIVE)
    assert isinstance(found, Side)
    ballots = [found.cells[id_].ballot.value for id_ in FIVE[:3]]
    assert ballots == ["resolved", "rejected", "undetermined"]
    # What it lacks is missing, and not failed.
    assert found.cells["e-5"].why == "1 not in it"


JSONS = {
    "swebench's report": {
        "resolved_ids": ["a-1"],
        "unresolved_ids": [],
        "empty_patch_ids": ["b-2"],
        "error_ids": ["c-3"],
        "schema_version": 2,
    },
    "an object": {"a-1": 1, "b-2": False, "c-3": None},
    "one run of them": {"run1": {"a-1": True, "b-2": 0}},
}


@pytest.mark.parametrize("tree", JSONS.values(), ids=JSONS)
def test_published_json_is_read(tree: Any, tmp_path: Path) -> None:
    found = read_published(file_of(tmp_path, json.dumps(tree), "p.json"), FIVE)
    assert isinstance(found, Side)
    ballots = [found.cells[id_].ballot.value for id_ in FIVE[:3]]
    assert ballots == ["resolved", "rejected", "undetermined"]


def test_what_a_leaderboard_does_not_list_as_resolved_is_failed(tmp_path: Path) -> None:
    tree = {"resolved": ["a-1", "z-9"], "no_generation": ["b-2"], "no_logs": []}
    found = read_published(file_of(tmp_path, json.dumps(tree), "results.json"), FIVE)
    assert isinstance(found, Side)
    assert [cell.resolved for cell in found.cells.values()] == [1, 0, 0, 0, 0]
    assert {cell.counted for cell in found.cells.values()} == {1}
    assert "1 instance of it not in the runs: left out" in found.notes


BAD = {
    "NaN": ("a-1,1\nb-2,NaN\n", "line 2: 'NaN' is no verdict of b-2; write 1 or 0"),
    "2": ("instance,verdict\na-1,2\n", "line 2: '2' is no verdict of a-1"),
    "yes": ("a-1,yes\n", "line 1: 'yes' is no verdict of a-1"),
    "half": ("a-1,0.5\n", "line 1: '0.5' is no verdict"),
    "twice": ("a-1,1\na-1,0\n", "line 2: a-1 stands there twice"),
    "one column": ("a-1\n", "line 1: has 1 column, two are expected"),
    "many columns, no header": ("a-1,1,2\n", "line 1: has 3 columns, two are expected"),
    "many columns, none a verdict": (
        "instance,x,y\na-1,1,0\n",
        "which of 3 columns is the verdict",
    ),
    "cut off": ("instance,repo,verdict\na-1,x,1\nb-2\n", "line 3: is cut off"),
    "an open quote": ('a-1,1\n"b-2,0\n', "line 2: no CSV"),
    "strangers": ("z-1,1\n", "none of the 5 instances compared is in it (it has z-1)"),
    "nothing": ("", "none of the 5 instances compared is in it (it has nothing)"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_published_table_that_says_something_else_is_refused(name: str, tmp_path: Path) -> None:
    text, message = BAD[name]
    path = file_of(tmp_path, text)
    with pytest.raises(UserError) as caught:
        read_published(path, FIVE)
    assert str(caught.value).startswith(f"--published {path}")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a-1": NaN}', "a-1: 'nan' is no verdict"),
        ('{"a-1": 2}', "a-1: '2' is no verdict"),
        ('{"a-1": "yes"}', "a-1: 'yes' is no verdict"),
        ('{"a-1": [1]}', "is no verdict"),
        ('{"x": {"a-1": 1}, "y": {"a-1": 0}}', "x: "),
        ("[1]", "expected a JSON object"),
        ('{"a-1": 1', "is it cut off?"),
    ],
)
def test_published_json_that_says_something_else_is_refused(
    text: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError) as caught:
        read_published(file_of(tmp_path, text, "p.json"), FIVE)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "figure"),
    [
        ("3/5", Figure(said="3/5", rate=0.6, of=5)),
        (" 3 / 5 ", Figure(said="3/5", rate=0.6, of=5)),
        ("33.2%", Figure(said="33.2%", rate=0.332, of=None)),
        ("60 %", Figure(said="60 %", rate=0.6, of=None)),
    ],
)
def test_a_count_and_a_rate_are_read(text: str, figure: Figure) -> None:
    assert read_published(text, FIVE) == figure


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("6/5", "6 of 5 is no count"),
        ("0/0", "0 of 0 is no count"),
        ("120%", "more than 100 %"),
        ("0.332", "no such file, and neither a count such as 3/5 nor a rate such as 33.2%"),
        ("nowhere.csv", "no such file"),
        ("-1/5", "no such file"),
        ("x" * 5000, "cannot be read"),
        (".", "cannot be read"),
        ("NaN", "no such file"),
    ],
)
def test_a_figure_that_is_none_is_refused(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_published(text, FIVE)


def test_a_published_count_is_held_against_the_interval() -> None:
    found = compare([side(yes_no("a-1", "b-2"))], published="3/5", rng=random.Random(0))
    (item,) = found.beside
    assert item.inside is True
    assert item.ci95 == pytest.approx((0.2307, 0.8824), abs=1e-4)
    assert found.sentences == [
        "a has 60.0 % [23.1–88.2] of 5 instances, published are 3/5 (60.0 %, itself worth "
        "23.1–88.2): inside, so nothing speaks against it; that is no confirmation"
    ]
    none = compare([side(yes_no(*FIVE))], published="300/500", rng=random.Random(0))
    assert none.beside[0].inside is False
    assert "outside: the instances, the agent, the model or chance differ" in none.sentences[0]


def test_a_rate_that_no_count_gives_is_of_other_instances() -> None:
    figure = read_published("33.2%", FIVE)
    assert isinstance(figure, Figure)
    assert "of 5 instances no count gives 33.2%" in beside(side(World()), figure, FIVE).sentence
    even = read_published("80%", FIVE)
    assert isinstance(even, Figure)
    assert "no count" not in beside(side(World()), even, FIVE).sentence


def test_a_run_without_a_counted_attempt_is_held_against_nothing() -> None:
    dead = World(rolls={(id_, 1): [fault()] for id_ in FIVE})
    found = compare([side(dead)], published="3/5", rng=random.Random(0))
    assert found.is_void
    assert found.sentences == ["a has no attempt that counts: 3/5 cannot be held against it"]


def test_a_published_table_is_a_side_of_its_own(tmp_path: Path) -> None:
    text = file_of(tmp_path, "".join(f"{id_},1\n" for id_ in FIVE[:4]))
    found = compare([side(yes_no("a-1"))], published=text, rng=random.Random(0))
    (pair,) = found.pairs
    assert pair.second == "published p.csv"
    assert [pair.size(told) for told in Told] == [3, 0, 1, 0, 1]
    assert "published p.csv: 1 attempt at 1 instance does not count: 1 not in it" in found.notes
    assert found.confounds == ""


# Size


def test_ten_thousand_repositories_are_compared_in_seconds() -> None:
    rng = random.Random(1)
    sides = []
    for name in ("a", "b"):
        cells = {
            f"r{n}__r-{n}": Cell(
                resolved=int(won := rng.random() < 0.5),
                counted=1,
                attempts=1,
                ballot=Ballot.RESOLVED if won else Ballot.REJECTED,
            )
            for n in range(10_000)
        }
        repos = {id_: id_.partition("__")[0] for id_ in cells}
        sides.append(Side(name=name, cells=cells, plan=plan_of(*cells), repos=repos))
    start = time.perf_counter()
    found = against(*sides)
    assert len(by_instance(found)) == 10_000
    assert len({record["repo"] for record in by_instance(found)}) == 10_000
    # A bound that only a square of the size would break.
    assert time.perf_counter() - start < 60


# The command


def written(directory: str, world: World, *ids: str, k: int = 1, **changes: Any) -> Path:
    """A run on disk below logs/."""
    ids = ids or FIVE
    run, plan = RunDir(Path("logs") / directory), make_plan(*ids, k=k)
    stated = plan_of(*ids, k=k) | {"name": directory} | changes
    write_atomically(run.plan, json.dumps(stated))
    with Ledger(run.ledger) as ledger:
        drive(plan, ledger, world)
    return run.root


def test_the_command_prints_what_differs_the_tables_and_the_sentence(passone: Passone) -> None:
    a = written("a", World(rolls={("c-3", 1): [fault(Cause.DISK)]}))
    b = written("b", yes_no("a-1"), model="openai/other")
    said = passone("compare", a, b)
    assert said.status == 0, said.err
    lines = said.out.splitlines()
    assert lines[:3] == [
        "a against b",
        "model: openai/fake | openai/other",
        "only the model differs",
    ]
    assert "note: a: 1 attempt at 1 instance does not count: 1 infra (disk)" in lines
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if "-" in line]
    assert ["a-1", "yes", "no", "only A"] in rows
    assert ["c-3", "open (1 infra (disk))", "yes", "open"] in rows
    assert lines[-1].startswith("4 instances can never show a difference at 5 %")
    assert "\x1b" not in said.out


def test_a_run_against_itself_is_status_0(passone: Passone) -> None:
    a = written("a", yes_no("a-1"))
    said = passone("compare", a, f"{a}/../a")
    assert said.status == 0
    assert "are the same run: no discordant pair, p = 1" in said.out


def test_all_infra_is_status_3(passone: Passone) -> None:
    dead = World(rolls={(id_, 1): [fault()] for id_ in FIVE})
    said = passone("compare", written("a", dead), written("b", World()))
    assert said.status == 3
    assert "cannot be compared: no instance has a vote of both" in said.out
    assert "a: no single score should be quoted: 5 of 5 attempts (100.0 %) are infra" in said.out


def test_a_run_that_is_still_going_is_compared_as_far_as_it_is(passone: Passone) -> None:
    a, b = written("a", World(), k=2, attempts=3), written("b", World())
    with RunDir(a).held():
        said = passone("compare", a, b)
    assert said.status == 0
    assert "note: a: still going (pid " in said.out
    assert "5 attempts pending" in said.out
    assert "not finished, 5 attempts pending" in passone("compare", a, b).out


def test_a_ledger_cut_in_half_is_refused_by_its_name(passone: Passone) -> None:
    a, b = written("a", World()), written("b", World())
    content = (a / "ledger.sqlite").read_bytes()
    for size in (0, 100, len(content) // 2):
        for suffix in ("-wal", "-shm"):
            (a / f"ledger.sqlite{suffix}").unlink(missing_ok=True)
        (a / "ledger.sqlite").write_bytes(content[:size])
        said = passone("compare", a, b)
        assert (said.status, said.out) == (2, "")
        assert said.err.startswith(f"error: {a}/ledger.sqlite: ")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["logs/a"], "name a second one, or --published"),
        (["logs/a", "logs/nowhere"], "logs/nowhere: no run is there"),
        (["logs/a", "logs/c"], "--intersect compares the 1 instance that all have"),
        (["logs/a", "logs/d"], "differ in grader: fake 1 | other"),
        (["logs/a", "--published", "yes.csv"], "yes.csv, line 1: 'yes' is no verdict of a-1"),
        (["logs/a", "logs/b", "--format", "xlsx"], "--format xlsx: not known; known: text, md"),
        (["logs/a", "logs/b", "--by", "repo"], "--by repo: not known; known: instance, pair"),
        (["logs/a", "logs/b", "-o", "yes.csv/x"], "yes.csv/x: cannot be written"),
    ],
)
def test_bad_input_is_refused_with_status_2(
    argv: list[str], message: str, passone: Passone
) -> None:
    written("a", World())
    written("b", World())
    written("c", World(), "a-1")
    written("d", World(), grader="other")
    Path("yes.csv").write_text("a-1,yes\n")
    said = passone("compare", *argv)
    assert (said.status, said.out) == (2, "")
    assert said.err.startswith("error: ")
    assert message in said.err


def test_a_run_in_another_script_keeps_the_table_in_order(passone: Passone) -> None:
    a, b = written("a", World(), name="ניסוי\u202e", model="مودل"), written("b", World())
    said = passone("compare", a, b)
    assert said.status == 0
    assert "\u2068ניסוי\u2069 against b" in said.out
    assert "\u202e" not in said.out
    tree = json.loads(passone("compare", a, b, "--json").out)
    assert tree["sides"][0]["name"] == "ניסוי\u202e"


@pytest.mark.parametrize(("by", "rows"), [("instance", 5), ("pair", 1)])
def test_a_script_gets_a_table_and_the_sentence_stays_out_of_it(
    by: str, rows: int, passone: Passone
) -> None:
    a, b = written("a", yes_no("a-1")), written("b", World())
    said = passone("compare", a, b, "--format", "csv", "--by", by)
    assert len(list(csv.DictReader(io.StringIO(said.out)))) == rows
    assert "5 instances can never show a difference" in said.err
    for kind in ("md", "latex", "parquet", "json", "text"):
        said = passone("compare", a, b, "--format", kind, "--by", by, "-o", f"t.{kind}")
        assert said.status == 0, said.err
        assert said.out == f"t.{kind}: a against b\n"
    assert len(pd.read_parquet("t.parquet")) == rows
    assert json.loads(Path("t.json").read_text())["title"] == "a against b"
    assert "can never show a difference" in Path("t.text").read_text(encoding="utf-8")


def test_on_a_terminal_the_same_is_said_in_colour(passone: Passone) -> None:
    a, b = written("a", yes_no("a-1"), name="ניסוי"), written("b", World())
    screen, terminal = pty.openpty()
    code = "from pipeline.cli import main; main()"
    argv = [sys.executable, "-c", code, "compare", str(a), str(b)]
    environment = os.environ | {"PYTHONPATH": str(DOCS.parent.parent), "TERM": "xterm"}
    environment.pop("NO_COLOR")
    done = subprocess.run(argv, stdout=terminal, stderr=subprocess.PIPE, env=environment)
    os.close(terminal)
    said = b""
    with contextlib.suppress(OSError):  # the end of a terminal is an error
        while part := os.read(screen, 65536):
            said += part
    os.close(screen)
    assert (done.returncode, done.stderr) == (0, b"")
    text = said.decode()
    for words in ("only B", "McNemar p", "5 instances can never show a difference", "\x1b["):
        assert words in text


def test_the_same_command_says_the_same_twice(passone: Passone) -> None:
    ids = [f"i-{n}" for n in range(40)]
    failed = [World(scores={(i, 1): [UNRESOLVED] for i in x}) for x in (ids[:20], ids[10:30])]
    runs = [written(name, world, *ids) for name, world in zip("ab", failed, strict=True)]
    first, second = (passone("compare", *runs).out for _ in range(2))
    assert first == second


# The page


def test_the_example_of_the_page_is_what_the_command_says(
    passone: Passone, shared: Path, models: pd.DataFrame
) -> None:
    page = DOCS.read_text(encoding="utf-8")
    for name, column in (
        ("sonnet", "anthropic/claude-3-5-sonnet-20240620"),
        ("o1", "openai/o1-2024-12-17"),
    ):
        lines = [
            {"instance_id": id_, "model_name_or_path": column, "model_patch": "diff"}
            for id_ in models.index
        ]
        Path(f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        verdicts = {str(id_): int(v) for id_, v in models[column].dropna().items()}
        Path("v.json").write_text(json.dumps({name: verdicts}))
        passone(
            *("score", f"{name}.jsonl", "--dataset", shared / "verified.parquet"),
            *("--verdicts", "v.json", "--run", name, "--quiet"),
        )
    said = passone("compare", "logs/sonnet", "logs/o1")
    assert said.status == 0, said.err
    blocks = said.out.rstrip("\n").split("\n\n")
    for block in (*blocks[:3], blocks[-1]):
        assert block in page
