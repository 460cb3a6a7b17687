"""`passone export`: a run for SWE-bench's leaderboard, or as its harness would report it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from pipeline.cli.runs import RunArgument, run_at

EPILOG = """Examples:

  passone export logs/demo --leaderboard evaluation/verified/20260101_my-agent

  passone export logs/demo --attempt 2 --report-json report.2.json"""


def export(
    run: RunArgument,
    leaderboard: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="A submission's folder: predictions, trajs, logs."),
    ] = None,
    report_json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="swebench's own report, of our outcomes.")
    ] = None,
    attempt: Annotated[int, typer.Option(help="Which of the k attempts; a submission is one.")] = 1,
) -> None:
    """Write one attempt number of a run in the official forms; the run stays as it is."""
    from pipeline import leaderboard as official
    from pipeline.outcomes import UserError
    from pipeline.results import load
    from pipeline.rundir import write_atomically

    if leaderboard is None and report_json is None:
        raise UserError("passone export: say what: --leaderboard DIR, --report-json FILE, or both")
    place = run_at(run)
    results = load(place)
    found = official.report(results, attempt)
    said = (
        f"attempt {attempt} of {results.k}: {found['resolved_instances']} of "
        f"{found['total_instances']} resolved, {found['unresolved_instances']} unresolved, "
        f"{found['empty_patch_instances']} empty, {found['error_instances']} errors, "
        f"{len(found['incomplete_ids'])} incomplete"
    )
    if report_json is not None:
        try:
            write_atomically(report_json, json.dumps(found, indent=4) + "\n")
        except OSError as error:
            raise UserError(f"{report_json}: cannot be written: {error.strerror}") from None
        typer.echo(f"{report_json}: {said}")
    if leaderboard is not None:
        trajectories = official.write_folder(results, place, attempt, leaderboard)
        typer.echo(f"{leaderboard}: {said}; {trajectories} trajectories")


def register(app: typer.Typer) -> None:
    app.command(epilog=EPILOG)(export)
