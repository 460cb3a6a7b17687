"""`passone score`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pipeline.benchmarks.dataset import Dataset
    from pipeline.cli.desk import Desk
    from pipeline.contracts import Sandboxes, Scorer
    from pipeline.domain import Instance

EPILOG = """Examples:

  passone score preds.json --dataset verified --run my-agent

  passone score run1.jsonl run2.jsonl run3.jsonl --dataset verified --verdicts verdicts.json"""


def score(
    predictions: Annotated[
        list[Path], typer.Argument(help="JSON or JSONL; k files are k attempts.")
    ],
    dataset: Annotated[str, typer.Option(help="verified, demo, a hub id, or a file or directory.")],
    run: Annotated[str, typer.Option(help="Name of the run directory.")] = "scored",
    split: Annotated[str, typer.Option(help="Of a hub dataset or a directory.")] = "test",
    verdicts: Annotated[
        list[Path] | None, typer.Option(help="Verdicts that exist; nothing is run then.")
    ] = None,
    trajectories: Annotated[
        list[Path] | None,
        typer.Option(help="The agent's own files, a directory a predictions file."),
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="sandbox.* or execution.*"),
    ] = None,
    rescore: Annotated[
        bool, typer.Option("--rescore", help="Grade every submission anew; look no verdict up.")
    ] = False,
    logs: Annotated[Path, typer.Option(help="Where runs are kept.")] = Path("logs"),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the result.")] = False,
) -> None:
    """Score predictions that any agent made, by the official tests or by verdicts that exist."""
    from pipeline import config
    from pipeline.agents.predictions import PredictionsAgent, read_file
    from pipeline.benchmarks import dataset as datasets
    from pipeline.cli import planning
    from pipeline.cli.desk import Desk
    from pipeline.cli.lanes import open_lanes
    from pipeline.recipe import Recipe

    files = [read_file(path) for path in predictions]
    agent = PredictionsAgent(files, trajectories or ())
    agent.preflight()
    asked = sorted(set().union(*(file.patches for file in files)))
    loaded = datasets.load(dataset, split)
    refuse_strangers(asked, loaded)
    tree = {
        "name": run,
        "selection": {"dataset": dataset, "split": split, "strategy": "ids", "ids": asked},
        "agent": {"name": "predictions", "options": agent.identity},
        "model": {"name": files[0].model},
        "attempts": len(files),
    }
    config.override(tree, assignments or ())
    # Not parsed as a config is: a model's name in a file of somebody's must expand no variable.
    recipe = config.check(Recipe, tree, "passone score")
    selection, instances = planning.draw(recipe.selection, loaded)
    imported = "".join(planning.sha256(path) for path in verdicts or () if path.is_file())
    grader = f"imported {imported}" if verdicts else ""
    plan = planning.make_plan(recipe, selection, grader=grader)
    desk = Desk(recipe, plan, logs, quiet=quiet, rescore=rescore)
    sandboxes, scorer = make_scorer(desk, instances, verdicts, predictions)
    with open_lanes(None, plan, "none", desk.terms) as lanes:
        raise typer.Exit(desk.carry_out(instances, agent, sandboxes, scorer, lanes))


def refuse_strangers(asked: Sequence[str], dataset: Dataset) -> None:
    """Raises UserError: predictions for instances that the dataset does not have."""
    from pipeline.outcomes import UserError

    known = {item.id for item in dataset.instances}
    strangers = [instance_id for instance_id in asked if instance_id not in known]
    if strangers:
        raise UserError(
            f"{len(strangers)} of the predictions are for no instance of {dataset.name}: "
            f"{', '.join(strangers[:3])}; name the dataset that they were made for"
        )


def make_scorer(
    desk: Desk,
    instances: Sequence[Instance],
    verdicts: Sequence[Path] | None,
    predictions: Sequence[Path],
) -> tuple[Sandboxes, Scorer]:
    """The official tests, or a look-up in verdicts that exist."""
    from pipeline.cli import parts

    if verdicts:
        from pipeline.benchmarks.imported import ImportedVerdicts, read_verdicts

        findings, ignored = read_verdicts(verdicts, predictions)
        for note in ignored:
            desk.voice.note(note)
        return parts.Nowhere(), ImportedVerdicts(findings)
    sandboxes = parts.make_sandboxes(desk.place, instances)
    return sandboxes, parts.make_official_scorer(sandboxes, desk.plan)


def register(app: typer.Typer) -> None:
    app.command(epilog=EPILOG)(score)
