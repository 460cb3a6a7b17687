"""`passone plan`: how many instances and attempts a question needs, and what a budget buys."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.cli.runs import run_at
from pipeline.outcomes import UserError

if TYPE_CHECKING:
    from pipeline.planner import Basis, Budget, Choice, Question

EPILOG = """Examples:

  passone plan --within 5 --dollars 100

  passone plan logs/mini-5 --difference 5 --power 0.9 --hours 24 --gigabytes 100"""

MOST_ATTEMPTS = 100


def plan(
    run: Annotated[
        Path | None,
        typer.Argument(help="A recorded run to go by; published figures where none is given."),
    ] = None,
    within: Annotated[
        float | None, typer.Option(metavar="POINTS", help="Pass@1 to ± so many points at 95 %.")
    ] = None,
    difference: Annotated[
        float | None,
        typer.Option(metavar="POINTS", help="Whether two models differ by so many points."),
    ] = None,
    power: Annotated[
        float, typer.Option(help="The chance to find that difference where there is one.")
    ] = 0.8,
    other: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="The other model's run over the same instances."),
    ] = None,
    attempts: Annotated[
        list[int] | None,
        typer.Option(metavar="K", help="At each instance; may be repeated. 1, 2, 3, 5 if not."),
    ] = None,
    dollars: Annotated[float | None, typer.Option(help="At most, for all attempts.")] = None,
    hours: Annotated[float | None, typer.Option(help="At most, of wall time.")] = None,
    gigabytes: Annotated[float | None, typer.Option(help="At most, of images.")] = None,
    pulls: Annotated[float | None, typer.Option(help="At most, from the registry.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For a machine.")] = False,
) -> None:
    """Say how many instances and attempts a question needs, what they cost, what a budget buys.

    Nothing is run and nobody is asked. Of a run: its rate, how its outcomes vary, and what an
    attempt took in tokens, dollars and time.
    """
    from pipeline import planner

    limits = {"dollars": dollars, "hours": hours, "gigabytes": gigabytes, "pulls": pulls}
    check(within, difference, power, other, run, attempts or (), limits)
    budget = planner.Budget(**limits)
    bases, question = asked(run, other, within, difference, power)
    ks = tuple(dict.fromkeys(attempts)) if attempts else planner.USUAL
    choices = planner.offers(question, bases, budget, ks)
    if as_json:
        typer.echo(json.dumps(tree(question, bases, budget, choices), indent=2, ensure_ascii=False))
        return
    show(question, bases, choices)


def check(
    within: float | None,
    difference: float | None,
    power: float,
    other: Path | None,
    run: Path | None,
    attempts: Sequence[int],
    limits: dict[str, float | None],
) -> None:
    """Refuse what cannot be asked.

    Raises:
        UserError: with what to give instead.
    """
    if within is not None and difference is not None:
        raise UserError("--within and --difference are two questions; ask one at a time")
    if within is None and difference is None and not any(v is not None for v in limits.values()):
        raise UserError(
            "passone plan: nothing is asked; give --within POINTS, --difference POINTS or a limit, "
            "such as --dollars 50"
        )
    if within is not None and not 0 < within < 50:
        raise UserError(f"--within {within:g}: give points over 0 and below 50")
    if difference is not None and not 0 < difference < 100:
        raise UserError(f"--difference {difference:g}: give points over 0 and below 100")
    if not 0.5 <= power < 1:
        raise UserError(f"--power {power:g}: give a chance from 0.5 to below 1, such as 0.8")
    if other is not None and (run is None or difference is None):
        raise UserError("--other RUN: compares with a run; give that one and --difference too")
    for k in attempts:
        if not 1 <= k <= MOST_ATTEMPTS:
            raise UserError(f"--attempts {k}: give 1 to {MOST_ATTEMPTS}")
    for name, limit in limits.items():
        if limit is not None and not (math.isfinite(limit) and limit > 0):
            raise UserError(f"--{name} {limit:g}: a limit must be over 0; leave it out for none")


def asked(
    run: Path | None,
    other: Path | None,
    within: float | None,
    difference: float | None,
    power: float,
) -> tuple[Sequence[Basis], Question]:
    """What the plan rests on, one basis a model, and the question in shares of one."""
    from pipeline import planner

    basis = planner.of_facts() if run is None else read(run)
    if difference is None:
        return (basis,), planner.within(basis, None if within is None else within / 100)
    if other is None:
        return (basis, basis), planner.apart(basis, difference / 100, power)
    second = read(other)
    return (basis, second), planner.paired(basis, second, difference / 100, power)


def read(run: Path) -> Basis:
    from pipeline.planner import of_run
    from pipeline.results import load

    return of_run(load(run_at(run)), str(run))


def show(question: Question, bases: Sequence[Basis], choices: Sequence[Choice]) -> None:
    """What it rests on, the choices, and a recommendation last."""
    from pipeline import planner
    from pipeline.tables import Format, render

    for basis in bases if bases[0] is not bases[-1] else bases[:1]:
        for line in planner.rests_on(basis):
            typer.echo(line)
    records = [record(question, choice) for choice in choices]
    typer.echo("\n" + render(records, Format.MD).decode())
    typer.echo(planner.recommendation(question, choices))
    for note in planner.notes(question, bases, planner.pick(choices)):
        typer.echo(f"  {note}")


def record(question: Question, choice: Choice) -> dict[str, Any]:
    """A choice as a row."""
    cost = choice.cost
    sign = "± points" if question.power is None else "difference"
    standing = "answers" if choice.answers else f"stopped by {' and '.join(choice.binds)}"
    return {
        "attempts": str(choice.k),
        **({} if question.target is None else {"needs": f"{choice.needed:,} × {choice.k}"}),
        "instances": f"{choice.instances:,}",
        sign: "–" if choice.reach is None else f"{100 * choice.reach:.1f}",
        "tokens": "–" if cost.tokens is None else f"{cost.tokens / 1e6:,.1f} M",
        "$": "–" if cost.dollars is None else f"{cost.dollars:,.2f}",
        "hours": "–" if cost.hours is None else f"{cost.hours:,.1f}",
        "GB": f"{cost.gigabytes:,.0f}",
        "pulls": f"{cost.pulls:,}",
        "budget": standing,
    }


def tree(
    question: Question, bases: Sequence[Basis], budget: Budget, choices: Sequence[Choice]
) -> dict[str, Any]:
    """The whole, for a machine; shares of one, not points."""
    from pipeline import planner

    chosen = planner.pick(choices)
    different = bases if bases[0] is not bases[-1] else bases[:1]

    def plain(basis: Basis) -> dict[str, Any]:
        return {key: value for key, value in asdict(basis).items() if key != "groups"}

    return {
        "question": asdict(question) | {"models": question.models},
        "basis": [plain(basis) for basis in different],
        "budget": asdict(budget),
        "choices": [asdict(choice) | {"answers": choice.answers} for choice in choices],
        "recommended": None if chosen is None else {"instances": chosen.instances, "k": chosen.k},
        "answered": chosen is not None and chosen.answers,
        "sentence": planner.recommendation(question, choices),
        "notes": planner.notes(question, bases, chosen),
    }


def register(app: typer.Typer) -> None:
    app.command(epilog=EPILOG)(plan)
