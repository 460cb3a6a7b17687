"""The doctor's short form, before a run: one look at the endpoint, and what it cost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.outcomes import UserError

if TYPE_CHECKING:
    from pipeline.contracts import Agent
    from pipeline.doctor import Check
    from pipeline.doctor.dialogue import Exchange
    from pipeline.gateway import Terms
    from pipeline.plan import RunPlan
    from pipeline.recipe import Recipe
    from pipeline.rundir import RunDir


def look(recipe: Recipe, agent: Agent, plan: RunPlan, run: RunDir, terms: Terms) -> list[str]:
    """The short form of the doctor's, for `run`, on a tape; what it warns of.

    Raises:
        UserError: see `refuse_sick`.
    """
    heard: list[Exchange] = []
    checks = refuse_sick(recipe, agent, logs=run.root.parent, heard=heard)
    if heard:
        record_look(heard, recipe, plan, run, terms)
    told = any(said.usage.get("cost") is not None for said in heard)
    silent = [] if told else budget_warnings(recipe, terms)
    return [f"{check.name}: {check.detail}" for check in checks] + silent


def record_look(
    heard: Sequence[Exchange], recipe: Recipe, plan: RunPlan, run: RunDir, terms: Terms
) -> None:
    """Keep what the doctor heard beside the tapes: it stands on the bill, too."""
    import time
    from datetime import UTC, datetime, timedelta

    from pipeline.gateway import Header, Recorder, check_endpoint, tapes
    from pipeline.gateway.budgets import priced

    run.cut_off.mkdir(parents=True, exist_ok=True)
    header = Header(
        run=plan.name,
        plan=plan.digest,
        instance_id="doctor",
        attempt=0,
        try_number=0,
        model=recipe.model.server_id,
        where=check_endpoint(recipe.model),
        begun=tapes.now(),
    )
    recorder = Recorder(run.cut_off / f"doctor-{time.time_ns():x}.jsonl", header)
    for number, said in enumerate(heard, start=1):
        assert said.reply is not None
        assert said.reading is not None
        asked = datetime.now(UTC) - timedelta(seconds=said.seconds)
        usage = said.reading.usage
        recorder.write(
            tapes.Exchange(
                ordinal=number,
                request=said.request,
                asked=asked.isoformat(timespec="milliseconds"),
                seconds=round(said.seconds, 3),
                status=said.reply.status,
                answer=said.tree,
                ending=said.reading.ending,
                usage=priced(usage, terms.price) if usage else None,
            )
        )
    recorder.close()


def budget_warnings(recipe: Recipe, terms: Terms) -> list[str]:
    """What a limit in dollars cannot do without a price."""
    dollars = [
        f"{name} ${value:g}"
        for name, value in (
            ("limits.cost_usd", recipe.limits.cost_usd),
            ("budget.cost_usd", recipe.budget.cost_usd),
        )
        if value
    ]
    if not dollars or terms.price is not None or recipe.model.replies:
        return []
    return [
        f"no price of {recipe.model.server_id} is known (model.prices), so {' and '.join(dollars)} "
        "bind only if the endpoint reports what a request cost; limits in tokens always bind"
    ]


def refuse_sick(
    recipe: Recipe, agent: Agent, *, logs: Path, heard: list[Exchange] | None = None
) -> Sequence[Check]:
    """Settings, key, one completion; what it warns of is returned.

    Raises:
        UserError: a run cannot work; names every check that says so, and its remedy.
    """
    from pipeline.cli.doctor import patient_of
    from pipeline.doctor import State, preflight

    checks = preflight(patient_of(recipe, agent, logs=logs, heard=heard))
    failed = [check for check in checks if check.state is State.FAIL]
    if failed:
        lines = [f"{check.name}: {check.detail}; {check.remedy}".rstrip("; ") for check in failed]
        raise UserError("\n       ".join(lines))
    return [check for check in checks if check.state is State.WARN]
