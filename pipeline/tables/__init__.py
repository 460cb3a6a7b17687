"""Print results as tables: CSV, Parquet and JSON for machines; Markdown, LaTeX and HTML for people.

A machine gets numbers and the two ends of each interval; a person gets `60.0 % [23.1–88.2]`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from pipeline.plan import least_of, stops_early
from pipeline.results import AttemptRow, Results
from pipeline.tables.columns import COLUMNS, By, Column, Type

if TYPE_CHECKING:
    import pandas as pd

    from pipeline.results.frame import Sheet

Record: TypeAlias = dict[str, Any]


class Format(StrEnum):
    CSV = "csv"
    MD = "md"
    LATEX = "latex"
    HTML = "html"
    PARQUET = "parquet"
    JSON = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """What is printed, in any format."""

    frame: pd.DataFrame
    columns: Sequence[Column]
    caption: str = ""
    upright: bool = False
    """One row of many columns: people see it as a column of names and one of values."""


def tokens(rows: Sequence[AttemptRow]) -> int:
    return sum(row.usage.input_tokens + row.usage.output_tokens for row in rows)


def yes_no(value: bool | None) -> str:
    return {True: "yes", False: "no", None: "–"}[value]


def table_of(sheet: Sheet, by: By) -> Table:
    """One of the tables of a run."""
    from pipeline.tables.groupings import group

    if by is By.ESTIMATE:
        # It loads SciPy, which no other table needs.
        from pipeline.tables.estimates import by_estimate

        frame = by_estimate(sheet)
    else:
        frame = group(sheet, by)
    return Table(
        frame=frame,
        columns=COLUMNS[by],
        caption=f"{sheet.plan['name']}, by {by.value}{entering(sheet.plan)}",
        upright=by is By.RUN,
    )


def entering(plan: Mapping[str, Any]) -> str:
    """Which attempts enter what, where attempts are left out."""
    if not stops_early(plan):
        return ""
    return f"; rates are of the first {least_of(plan)} attempts at each instance, votes of all"


def of_records(records: Sequence[Record]) -> Table:
    """A table that somebody else made; its columns are taken as they are."""
    import pandas as pd

    names = list(records[0]) if records else []
    columns = [Column(name, Type.ANY, title=name) for name in names]
    return Table(frame=pd.DataFrame(list(records), columns=names, dtype=object), columns=columns)


def to_records(table: Table) -> list[Record]:
    """Rows as dictionaries of plain values; what is unknown is None."""
    from pipeline.tables.machines import records

    return records(table)


def records_by(by: By, results: Results) -> list[Record]:
    """The rows of a table, as dictionaries."""
    from pipeline.results.frame import sheet_of

    return to_records(table_of(sheet_of(results), by))


by_attempt: Callable[[Results], list[Record]] = partial(records_by, By.ATTEMPT)
by_instance: Callable[[Results], list[Record]] = partial(records_by, By.INSTANCE)
by_repo: Callable[[Results], list[Record]] = partial(records_by, By.REPO)
by_run: Callable[[Results], list[Record]] = partial(records_by, By.RUN)
RECORDS: dict[By, Callable[[Results], list[Record]]] = {by: partial(records_by, by) for by in By}


def render(table: Table | Sequence[Record], kind: Format) -> bytes:
    """A table in one of the formats; every one of them ends with a newline but Parquet."""
    from pipeline.tables import latex, machines, people

    if not isinstance(table, Table):
        table = of_records(table)
    write: dict[Format, Callable[[Table], bytes]] = {
        Format.CSV: machines.csv,
        Format.MD: people.markdown,
        Format.LATEX: latex.latex,
        Format.HTML: people.html,
        Format.PARQUET: machines.parquet,
        Format.JSON: machines.json,
    }
    return write[kind](table)


__all__ = [
    "COLUMNS",
    "RECORDS",
    "By",
    "Format",
    "Record",
    "Table",
    "by_attempt",
    "by_instance",
    "by_repo",
    "by_run",
    "of_records",
    "render",
    "table_of",
    "to_records",
    "tokens",
    "yes_no",
]
