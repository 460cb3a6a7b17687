"""What an outcome rests on, where it is not simply what the tests said."""

from dataclasses import replace

from pipeline.domain import Attempt, Controls
from pipeline.evidence import closing, evidence_of
from pipeline.ledger import Kind
from tests.fakes import (
    DIED,
    RESOLVED,
    STUMBLE,
    UNRESOLVED,
    World,
    drive,
    fault,
    make_plan,
    memory_ledger,
    results_of,
)

FLICKER = Controls(gold=(STUMBLE, RESOLVED), empty=(UNRESOLVED,))


def evidence(world: World, *ids: str, k: int = 1) -> list[str]:
    plan, ledger = make_plan(*ids, k=k), memory_ledger()
    drive(plan, ledger, world)
    results = results_of(plan, ledger)
    return [closing(results), *evidence_of(results)]


def test_nothing_is_said_of_what_the_tests_said() -> None:
    world = World(scores={("a", 1): [UNRESOLVED]})
    said = "0 outcomes moved, contested, contradicted or settled after a death"
    assert evidence(world, "a", "b") == [said]


def test_a_moved_outcome_names_what_it_was_and_every_control() -> None:
    lines = evidence(World(golds={"a": [FLICKER]}), "a", "b")
    assert lines == [
        "1 outcome moved, contested, contradicted or settled after a death",
        "a #1: resolved → infra (instance), its place is flaky",
        "  gold resolves 1 of 2 times here (unresolved, resolved)",
        "  submission: resolved, fail to pass 1/1, pass to pass 3/3, exit status 0, image image, "
        "0 s: scoring/a/1",
        "  gold-1: unresolved, fail to pass 0/1, pass to pass 0/3, exit status 0, image image, "
        "0 s: scoring/a/gold-1",
        "  gold-1.2: resolved, fail to pass 1/1, pass to pass 3/3, exit status 0, image image, "
        "0 s: scoring/a/gold-1.2",
        "  empty-1: unresolved, fail to pass 0/1, pass to pass 3/3, exit status 0, image image, "
        "0 s: scoring/a/empty-1",
    ]


def test_the_controls_stand_once_below_all_attempts_at_their_instance() -> None:
    lines = evidence(World(golds={"a": [FLICKER]}), "a", k=3)
    assert [line for line in lines if line.startswith("a #")] == [
        f"a #{n}: resolved → infra (instance), its place is flaky" for n in (1, 2, 3)
    ]
    assert sum(line.startswith("  gold-1:") for line in lines) == 1


def test_an_empty_patch_that_resolves_is_a_reason() -> None:
    hollow = Controls(gold=(RESOLVED,) * 3, empty=(RESOLVED,))
    lines = evidence(World(golds={"a": [hollow]}), "a")
    assert "  an empty patch resolves here" in lines


def test_a_contradicted_verdict_is_shown_although_it_stands() -> None:
    reason = "scored again as unresolved; r, a #1 was resolved"
    twice = replace(
        RESOLVED, evidence=replace(RESOLVED.evidence, contradicted=True, reasons=(reason,))
    )
    lines = evidence(World(scores={("a", 1): [twice]}), "a")
    assert lines[1] == "a #1: resolved, its place is trusted"
    assert reason in lines[2]
    assert sum(line.startswith("  gold-1") for line in lines) == 3


def test_a_death_that_was_settled_shows_how_long_an_idle_container_lived() -> None:
    lines = evidence(World(rolls={("a", 1): [replace(DIED, seconds=40.0)]}), "a")
    assert lines[1:3] == ["a #1: died, its place is trusted", "  sandbox broke"]
    assert lines[-1] == "  an idle container lived for 40 s"


def test_a_death_that_an_idle_container_shares_names_what_ended_that_one() -> None:
    look = Controls(gold=(RESOLVED,), idle_death="killed from outside")
    lost = replace(DIED, seconds=40.0)
    lines = evidence(World(rolls={("a", 1): [lost]}, golds={"a": [look]}), "a")
    assert lines[1] == "a #1: died → infra (instance), its place is broken"
    assert lines[2] == "  an idle container dies here (killed from outside)"
    assert lines[-1] == "  an idle container: killed from outside"


def test_what_was_kept_has_no_logs_here_and_what_settled_nothing_says_so() -> None:
    plan, ledger = make_plan("a"), memory_ledger()
    kept = replace(
        STUMBLE,
        evidence=replace(STUMBLE.evidence, origin="an earlier scoring", reasons=("kept",)),
    )
    drive(plan, ledger, World())
    ledger.append(Kind.CONTROL, Attempt("a", 0), 2, fault())
    ledger.append(Kind.CONTROL, Attempt("a", 0), 3, Controls(gold=(kept,)))
    settlement = ledger.book().conclude(Attempt("a", 1), has_control=True)
    assert settlement is not None
    ledger.append(Kind.SETTLEMENT, Attempt("a", 1), 2, settlement)
    lines = evidence_of(results_of(plan, ledger))
    assert "  look 2 settled nothing, endpoint: endpoint broke" in lines
    assert lines[-1].endswith(", kept, 0 s")
