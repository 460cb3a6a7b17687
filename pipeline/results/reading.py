"""Read a run's directory: its plan, and its ledger as results."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.domain import Attempt, Usage
from pipeline.ledger import Book, Ledger
from pipeline.outcomes import Settled, UserError
from pipeline.plan import least_of
from pipeline.results.rows import AttemptRow, row_of
from pipeline.results.run import Results
from pipeline.rundir import RunDir
from pipeline.votes import due


def read_plan(run: RunDir) -> dict[str, Any]:
    """plan.json of a run.

    Raises:
        UserError: there is no such run, or its plan cannot be read.
    """
    try:
        plan = json.loads(run.plan.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"{run.root}: no run is there (no plan.json)") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{run.plan}: cannot be read: {error}") from None
    if not isinstance(plan, dict) or "selection" not in plan:
        raise UserError(f"{run.plan}: is no plan of this version")
    return plan


def load(run: RunDir, *, cut_off: Usage | None = None, untrusted: bool = False) -> Results:
    """Read a run, finished or not, while another process may be driving it.

    Args:
        cut_off: what was used and came to no row, for the headline; None: not looked at.
        untrusted: the other reading, in which broken and flaky places move nothing.

    Raises:
        UserError: there is no such run, or it cannot be read.
    """
    plan = read_plan(run)
    if not run.ledger.exists():
        raise UserError(f"{run.root}: the run has no ledger; start it with `passone run`")
    with Ledger(run.ledger, read_only=True) as ledger:
        book = ledger.book()
    return of_book(plan, book, cut_off=cut_off, untrusted=untrusted)


def of_book(
    plan: Mapping[str, Any],
    book: Book,
    *,
    cut_off: Usage | None = None,
    untrusted: bool = False,
) -> Results:
    """Results of rows that are in memory."""
    repos = plan["repos"]
    rows: list[AttemptRow] = []
    for id_ in plan["selection"]["ids"]:
        found = [
            row_of(
                book,
                Attempt(id_, number),
                repos[id_],
                has_control=plan["has_control"],
                untrusted=untrusted,
            )
            for number in range(1, plan["attempts"] + 1)
        ]
        begun = max((row.attempt for row in found if row.tries), default=0)
        rows += found[: due_of(plan, [voted(row) for row in found[:begun]])]
    return Results(plan=plan, rows=rows, book=book, cut_off=cut_off or Usage())


def voted(row: AttemptRow) -> Settled | None:
    """As `pipeline.ledger.Book` has it."""
    return None if row.moved else row.settled


def due_of(plan: Mapping[str, Any], votes: Sequence[Settled | None]) -> int:
    """How many attempts at an instance are due, by plan.json and those that are begun."""
    return due(votes, least=least_of(plan), most=int(plan["attempts"]))
