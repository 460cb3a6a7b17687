"""`passone run`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.outcomes import UserError

if TYPE_CHECKING:
    from pipeline.cli.lanes import Sources
    from pipeline.recipe import Recipe

ENDPOINT = ("model.base_url", "model.headers")
"""Keys that a replay does without."""
EPILOG = """Examples:

  passone run configs/verified-5.yaml

  passone run configs/mini-5.yaml --set model.name=openai/my-model --set attempts=3

  passone run configs/demo.yaml --replay demo --set name=replayed"""


def check_attempts(recipe: Recipe, *, asks_model: bool) -> list[str]:
    """What to know of attempts that may be left out.

    Raises:
        UserError: they would be left out of an agent that does the same each time.
    """
    least, most = recipe.least, recipe.most
    if least == most:
        return []
    if not asks_model:
        raise UserError(
            f"attempts: agent {recipe.agent.name!r} asks no model and does the same each time, so "
            f"there is no vote to decide; give a number: --set attempts={least}"
        )
    # So many against: the others are at most half.
    soonest, said = (most + 1) // 2, []
    if least < soonest:
        said.append(
            f"attempts: no vote of {most} is decided before {soonest} attempts, and pass@1 is of "
            f"{least} at each instance; with min: {soonest} as many are made, and all enter it"
        )
    if most % 2 == 0:
        said.append(
            f"attempts: of {most} a tie is a no, so {most // 2} of {most} resolved is rejected; "
            "an odd max has no ties"
        )
    return said


def run_recipe(
    recipe: Recipe,
    *,
    logs: Path,
    quiet: bool,
    replay: Path | None = None,
    strict: bool = False,
    doctor: bool = True,
    rescore: bool = False,
) -> int:
    """Draw, resolve and carry out a recipe; its exit status."""
    from pipeline.cli import parts, planning, replays
    from pipeline.cli.desk import Desk
    from pipeline.cli.lanes import open_lanes, pay_before
    from pipeline.cli.look import budget_warnings, look
    from pipeline.cli.runs import run_at

    parts.check_benchmark(recipe.selection.benchmark, recipe.agent.name, rescore=rescore)
    agent = parts.make_agent(recipe.agent.name, recipe.agent.options)
    if replay is not None and not agent.asks_model:
        raise UserError(f"agent {agent.name!r} asks no model: there is nothing to replay")
    begun = (logs / recipe.name / "plan.json").exists()
    if not begun:
        # What is cheap to refuse is refused before the dataset is loaded.
        agent.preflight()
        if replay is None:
            parts.check_source(recipe, agent)
    remarks = check_attempts(recipe, asks_model=agent.asks_model)
    selection, instances = planning.draw(recipe.selection, say=remarks.append)
    plan = planning.make_plan(recipe, selection, asks_model=agent.asks_model)
    desk = Desk(recipe, plan, logs, quiet=quiet, replayed=replay is not None, rescore=rescore)
    for remark in remarks:
        desk.voice.note(remark)
    recording = None
    if replay is not None:
        recording = replays.open_recording(run_at(replay), plan, desk.run, strict=strict)
        for warning in replays.check_tapes(recording, plan):
            desk.voice.note(warning)
    status = desk.finished(instances) if begun else None
    if status is not None:
        return status
    agent.preflight()
    sandboxes = parts.make_sandboxes(desk.place, instances)
    parts.refuse_mismatch(agent, sandboxes)
    source: Sources | None = recording.source if recording else None
    if agent.asks_model and recording is None:
        pay_before(dataclasses.replace(desk.terms.purse), desk.run)
        # The first thing that costs money; images come after it.
        for warning in (
            look(recipe, agent, plan, desk.run, desk.terms)
            if doctor
            else budget_warnings(recipe, desk.terms)
        ):
            desk.voice.note(warning)
        source = parts.make_source(recipe, plan, agent)
    scorer = parts.make_official_scorer(sandboxes, plan)
    with open_lanes(source, plan, recipe.model.server_id, desk.terms) as lanes:
        return desk.carry_out(instances, agent, sandboxes, scorer, lanes, recording=recording)


def run(
    config: Annotated[Path, typer.Argument(help="A YAML file; configs/ holds commented ones.")],
    assignments: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a config key.")
    ] = None,
    replay: Annotated[
        str | None, typer.Option(metavar="RUN", help="Play a run's tapes; no endpoint is asked.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="With --replay: a request that drifts is an error.")
    ] = False,
    doctor: Annotated[
        bool, typer.Option("--doctor/--no-doctor", help="Ask the endpoint once beforehand.")
    ] = True,
    rescore: Annotated[
        bool, typer.Option("--rescore", help="Grade every submission anew; look no verdict up.")
    ] = False,
    logs: Annotated[Path, typer.Option(help="Where runs are kept.")] = Path("logs"),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the result.")] = False,
) -> None:
    """Solve, score and settle the instances of a config; run again to continue."""
    from pipeline import config as configs
    from pipeline.rundir import RunDir

    if strict and replay is None:
        raise UserError("--strict belongs to --replay RUN")
    recipe = configs.load(config, assignments or (), unneeded=ENDPOINT if replay else ())
    try:
        status = run_recipe(
            recipe,
            logs=logs,
            quiet=quiet,
            replay=run_named(replay, logs) if replay else None,
            strict=strict,
            doctor=doctor,
            rescore=rescore,
        )
    except UserError:
        RunDir(logs / recipe.name).discard_unbegun()
        raise
    raise typer.Exit(status)


def run_named(name: str, logs: Path) -> Path:
    """A run directory, or the name of one among the logs."""
    path = Path(name)
    return path if path.exists() or "/" in name else logs / name


def register(app: typer.Typer) -> None:
    app.command(epilog=EPILOG)(run)
