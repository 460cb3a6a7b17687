"""`passone run`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pipeline.config import Recipe

EPILOG = """Examples:

  passone run configs/verified-5.yaml

  passone run configs/mini-5.yaml --set model.name=openai/my-model --set attempts=3"""


def run_recipe(recipe: Recipe, *, logs: Path, quiet: bool) -> int:
    """Draw, resolve and carry out a recipe; its exit status."""
    from pipeline.cli import drive, parts, planning
    from pipeline.cli.lanes import open_lanes

    agent = parts.make_agent(recipe.agent.name, recipe.agent.options)
    begun = (logs / recipe.name / "plan.json").exists()
    if not begun:
        # What is cheap to refuse is refused before the dataset is loaded.
        agent.preflight()
        parts.check_source(recipe, agent)
    selection, instances = planning.draw(recipe.selection)
    plan = planning.make_plan(recipe, selection, asks_model=agent.asks_model)
    desk = drive.Desk(recipe, plan, logs, quiet=quiet)
    if begun and drive.finished(desk):
        return 0
    agent.preflight()
    source = parts.make_source(recipe, plan, agent) if agent.asks_model else None
    sandboxes = parts.make_sandboxes(desk.place, instances)
    parts.refuse_mismatch(agent, sandboxes)
    scorer = parts.make_official_scorer(sandboxes, plan)
    with open_lanes(source, model=recipe.model.server_id, limits=plan.limits) as lanes:
        return desk.carry_out(instances, agent, sandboxes, scorer, lanes)


def run(
    config: Annotated[Path, typer.Argument(help="A YAML file; configs/ holds commented ones.")],
    assignments: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a config key.")
    ] = None,
    logs: Annotated[Path, typer.Option(help="Where runs are kept.")] = Path("logs"),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the result.")] = False,
) -> None:
    """Solve, score and settle the instances of a config; run again to continue."""
    from pipeline import config as configs

    raise typer.Exit(run_recipe(configs.load(config, assignments or ()), logs=logs, quiet=quiet))


def register(app: typer.Typer) -> None:
    app.command(epilog=EPILOG)(run)
