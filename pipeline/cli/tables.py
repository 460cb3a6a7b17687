"""`passone table` and `passone status`: what a run has come to, finished or not."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.cli.runs import RunArgument, run_at

if TYPE_CHECKING:
    from pipeline.results import Results
    from pipeline.results.frame import Sheet
    from pipeline.rundir import RunDir

TABLE_EPILOG = """Examples:

  passone table logs/demo --format md

  passone table logs/demo --format latex --by repo -o table.tex"""

STATUS_EPILOG = """Examples:

  passone status logs/demo

  passone status logs/demo --evidence"""


def table(
    run: RunArgument,
    kind: Annotated[
        str, typer.Option("--format", help="csv, md, latex, html, parquet or json.")
    ] = "md",
    by: Annotated[
        str,
        typer.Option(help="attempt, instance, repo, outcome, diagnosis, cost, estimate or run."),
    ] = "instance",
    untrusted: Annotated[
        bool,
        typer.Option(
            "--include-untrusted", help="The other reading: broken and flaky places move nothing."
        ),
    ] = False,
    clean: Annotated[
        bool,
        typer.Option(
            "--without-tainted",
            help="Leave out what `passone audit` found tainted; the rates go to stderr.",
        ),
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Instead of printing.")
    ] = None,
) -> None:
    """Print a run's table in the format that a paper, a page or a script wants."""
    from pipeline import tables
    from pipeline.outcomes import UserError
    from pipeline.results import load
    from pipeline.results.frame import read_sheet, sheet_of
    from pipeline.rundir import write_atomically

    try:
        wanted, grouped = tables.Format(kind), tables.By(by)
    except ValueError as error:
        known = f"formats {', '.join(tables.Format)}; by {', '.join(tables.By)}"
        raise UserError(f"passone table: {error}; known: {known}") from None
    place = run_at(run)
    if clean:
        results = load(place, untrusted=untrusted)
        sheet = sheet_of(without_tainted(results, place))
    else:
        sheet = read_sheet(place, untrusted=untrusted)
    if grouped in (tables.By.ATTEMPT, tables.By.DIAGNOSIS):
        sheet = diagnosed(sheet, place)
    content = tables.render(tables.table_of(sheet, grouped), wanted)
    if output is not None:
        try:
            write_atomically(output, content)
        except OSError as error:
            raise UserError(f"{output}: cannot be written: {error.strerror or error}") from None
        typer.echo(f"{output}: {grouped} table, {wanted}")
    elif wanted is tables.Format.PARQUET and sys.stdout.isatty():
        raise UserError("parquet is binary; name a file: -o table.parquet")
    else:
        sys.stdout.buffer.write(content)


def without_tainted(results: Results, run: RunDir) -> Results:
    """What is left, with the rates in both readings said beside the table.

    Raises:
        UserError: nobody has audited this run.
    """
    from pipeline import audit as audits
    from pipeline.cli.audit import counts, reading

    states = audits.read_states(results, run)
    tainted = frozenset(a for a, state in states.items() if state is audits.State.TAINTED)
    said = f"{counts(list(states.values()))} · {reading(results, tainted)}"
    typer.echo(f"{said}; this table leaves the tainted out", err=True)
    return audits.without_tainted(results, tainted)


def diagnosed(sheet: Sheet, run: RunDir) -> Sheet:
    """With the modes that are kept; said aloud where the model's attempts have none."""
    from pipeline import diagnose
    from pipeline.outcomes import Blame
    from pipeline.wording import count

    sheet = diagnose.marked(sheet, run)
    blame, mode = sheet.frame["blame"], sheet.frame["diagnosis"]
    if bare := int(((blame == Blame.MODEL.value) & (mode == "")).sum()):
        said = f"{count(bare, 'attempt')} blamed on the model not diagnosed"
        typer.echo(f"note: {said}: passone diagnose {run.root}", err=True)
    return sheet


def status(
    run: RunArgument,
    evidence: Annotated[
        bool,
        typer.Option("--evidence", help="What every moved or contradicted outcome rests on."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The summary, for a machine.")] = False,
) -> None:
    """Say how far a run is and what it has come to; never disturbs it."""
    from pipeline.cli.lanes import cut_off_usage
    from pipeline.cli.voice import Voice
    from pipeline.headline import splits
    from pipeline.results import load

    place = run_at(run)
    results = load(place, cut_off=cut_off_usage(place))
    if as_json:
        typer.echo(json.dumps(results.summary(), indent=2))
        return
    voice = Voice()
    if place.driver:
        trying = ", ".join(place.under_way) or "between two tries"
        voice.out.print(f"running (pid {place.driver}): {trying}", style="bold", markup=False)
    voice.report(results)
    for line in splits(results):
        voice.out.print(f"split {line}", markup=False)
    if evidence:
        from pipeline.evidence import closing, evidence_of

        for line in [closing(results), *evidence_of(results)]:
            voice.out.print(line, markup=False, highlight=False, soft_wrap=True)


def register(app: typer.Typer) -> None:
    app.command(epilog=TABLE_EPILOG)(table)
    app.command(epilog=STATUS_EPILOG)(status)
