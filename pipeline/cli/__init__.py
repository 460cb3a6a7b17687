"""The door: `passone`. Errors become exit codes here, and only here is anything printed.

0 done · 1 a bug of ours · 2 the caller can mend it · 3 done, but some attempts are
infra or unsettled · 130 interrupted. Imports are late, so that --help is quick.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from pipeline import __version__
from pipeline.cli import (
    audit,
    bundle,
    compare,
    controls,
    demo,
    diagnose,
    doctor,
    export,
    plan,
    reconcile,
    regrade,
    report,
    rollouts,
    run,
    sample,
    score,
    select,
    serve,
    tables,
    tape,
    watch,
)
from pipeline.cli.runs import BORROWED
from pipeline.outcomes import UserError

app = typer.Typer(
    name="passone",
    help="Evaluate a coding agent on SWE-bench Verified; never count an outage as a zero.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for module in (
    *(plan, sample, doctor, controls, run, watch, score, tables, compare, diagnose, audit, export),
    *(report, serve, select, rollouts, regrade, reconcile, bundle, demo, tape),
):
    module.register(app)


def show_version(value: bool) -> None:
    if value:
        typer.echo(f"passone {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print it.")
    ] = False,
) -> None:
    """Evaluate a coding agent on SWE-bench Verified; never count an outage as a zero."""


def main() -> None:
    """Run the command line; a person sees one line for each error of theirs."""
    try:
        app()
    except UserError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(2)
    except BrokenPipeError:
        sys.exit(141)
    finally:
        BORROWED.close()
