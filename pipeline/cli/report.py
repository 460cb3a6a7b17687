"""`passone report`: one self-contained page of a run, or of several side by side."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.cli.runs import is_bundled, run_at

if TYPE_CHECKING:
    from pipeline.domain import Instance
    from pipeline.report import Source, Written
    from pipeline.rundir import RunDir

EPILOG = """Examples:

  passone report logs/demo-10x3

  passone report logs/model-a logs/model-b -o compared.html"""


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="One to four run directories, or bundles."),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="The file; else report/index.html of the run, or beside a bundle.",
        ),
    ] = None,
    every: Annotated[
        bool,
        typer.Option("--all", help="All trajectories, however large the file becomes."),
    ] = False,
) -> None:
    """Write one HTML file to look at: no network, no server, everything inside.

    Trajectories are those of failures and split votes, up to 28 MB; --all has them all. Of several
    runs the first one's report/compared.html is written, with their paired test.
    """
    from pipeline.cli.rollouts import watched
    from pipeline.outcomes import UserError
    from pipeline.report import MOST_RUNS, write_report

    if len(runs) > MOST_RUNS:
        raise UserError(f"passone report: {len(runs)} runs; up to {MOST_RUNS} stand side by side")
    sources = [source_of(path) for path in runs]
    if output is None:
        name = "index.html" if len(runs) == 1 else "compared.html"
        first = sources[0].run.report / name
        # What was unpacked goes when the command ends.
        output = runs[0].with_suffix(".html") if is_bundled(runs[0]) else first
    try:
        with watched(sum(len(source.results.rows) for source in sources)) as step:
            made = write_report(output, sources, every=every, step=step)
    except OSError as error:
        raise UserError(f"{output}: cannot be written: {error.strerror or error}") from None
    tell(made, output, every=every)


def source_of(path: Path) -> Source:
    """A run, with its dataset if that is at hand.

    Raises:
        UserError: no run is there, or it cannot be read.
    """
    from pipeline import report as reports
    from pipeline.cli.lanes import cut_off_usage
    from pipeline.results import load

    run = run_at(path)
    results = load(run, cut_off=cut_off_usage(run))
    return reports.source_of(run, results, instances_beside(path, run, results.plan))


def instances_beside(path: Path, run: RunDir, plan: Mapping[str, Any]) -> Mapping[str, Instance]:
    """The dataset's rows of a run, by id; none, and a note, where it is not at hand."""
    from pipeline.cli.planning import instances_of
    from pipeline.outcomes import UserError

    try:
        return {item.id: item for item in instances_of(plan, run)}
    except UserError as error:
        typer.echo(f"note: {path}: without issues and gold patches: {error}", err=True)
        return {}


def tell(made: Written, output: Path, *, every: bool) -> None:
    """What is inside, and what is not."""
    from pipeline.wording import count

    size = f"{made.bytes / 1e6:.1f} MB"
    inside = f"{count(made.trajectories, 'trajectory', 'trajectories')} of "
    typer.echo(f"{output}: {inside}{count(made.attempts, 'attempt')}, {size}")
    if made.refused:
        typer.echo(f"note: the runs are not compared: {made.refused}", err=True)
    if made.rows_only and not every:
        rest = count(made.rows_only, "attempt")
        typer.echo(f"note: of {rest} only the row is inside; --all has everything", err=True)


def register(app: typer.Typer) -> None:
    app.command(epilog=EPILOG)(report)
