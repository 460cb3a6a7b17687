"""`passone score`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
    logs: Annotated[Path, typer.Option(help="Where runs are kept.")] = Path("logs"),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the result.")] = False,
) -> None:
    """Score predictions that any agent made, by the official tests or by verdicts that exist."""
    from pipeline import config
    from pipeline.agents.predictions import PredictionsAgent, read_file
    from pipeline.benchmarks import dataset as datasets
    from pipeline.benchmarks.imported import ImportedVerdicts, read_verdicts
    from pipeline.cli import drive, parts
    from pipeline.cli.lanes import open_lanes
    from pipeline.cli.voice import Voice
    from pipeline.contracts import Sandboxes, Scorer
    from pipeline.outcomes import UserError
    from pipeline.schedule import Brake

    voice, brake = Voice(quiet=quiet), Brake()
    files = [read_file(path) for path in predictions]
    agent = PredictionsAgent(files, trajectories or ())
    agent.preflight()
    asked = set().union(*(file.patches for file in files))
    known = {item.id for item in datasets.load(dataset, split).instances}
    if asked - known:
        strangers = ", ".join(sorted(asked - known)[:3])
        raise UserError(
            f"{len(asked - known)} predictions are for no instance of {dataset}: {strangers}; "
            "name the dataset that they were made for"
        )
    tree = {
        "name": run,
        "selection": {"dataset": dataset, "split": split, "strategy": "ids", "ids": sorted(asked)},
        "agent": {"name": "predictions", "options": {"files": [file.sha256 for file in files]}},
        "model": {"name": files[0].model},
        "attempts": len(files),
    }
    config.override(tree, assignments or ())
    recipe = config.parse(tree, "passone score")
    selection, instances, _ = parts.draw(recipe.selection)
    plan = parts.make_plan(recipe, selection)
    directory = drive.run_directory(logs, run)
    if verdicts:
        findings, ignored = read_verdicts(verdicts, predictions)
        for note in ignored:
            voice.note(note)
        sandboxes: Sandboxes = parts.Nowhere()
        scorer: Scorer = ImportedVerdicts(findings)
    else:
        from pipeline.benchmarks.swebench import SwebenchScorer

        place = parts.Place(
            kind=recipe.sandbox.kind,
            limits=plan.sandbox,
            mirrors=recipe.sandbox.mirrors,
            run=directory,
            cancelled=brake.hard,
            say=voice.note,
        )
        sandboxes = parts.make_sandboxes(place, instances)
        scorer = SwebenchScorer(sandboxes, plan.sandbox)
    with open_lanes(None, model="none", limits=plan.limits) as lanes:
        status = drive.carry_out(
            drive.Parts(
                plan=plan,
                run=directory,
                instances=instances,
                agent=agent,
                sandboxes=sandboxes,
                scorer=scorer,
                lanes=lanes,
                brake=brake,
                voice=voice,
            )
        )
    raise typer.Exit(status)


def register(app: typer.Typer) -> None:
    app.command(epilog=EPILOG)(score)
