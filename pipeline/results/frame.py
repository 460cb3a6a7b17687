"""All attempts of a run as one pandas frame, a row an attempt; what tables are made of.

It says what the rows of `pipeline.results.load` say, and needs a thousandth of the time: only what
has no settlement of its own, or is read another way, is worked out from its rows one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pipeline.domain import Attempt, Usage
from pipeline.ledger import Book
from pipeline.ledger.columns import USAGE, read_columns, read_rows
from pipeline.outcomes import UserError
from pipeline.plan import least_of, stops_early
from pipeline.results.grid import TEXTS, TYPES, WORDS, laid_out
from pipeline.results.reading import due_of, read_plan
from pipeline.results.rows import AttemptRow, row_of, words_of
from pipeline.results.run import Results
from pipeline.rundir import RunDir

ALIKE = (
    *("instance", "repo", "outcome", "blame", "cause", "trust", "official", "moved"),
    *("patch", "unknown_exit", "tries", "reward"),
)
"""Attempts that agree in these count alike in every statistic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """What tables are made of."""

    plan: Mapping[str, Any]
    frame: pd.DataFrame
    """A row an attempt; columns as `AttemptRow` has them, `usage` laid flat. `official` and `patch`
    are 1, 0 or missing; a missing `cost_usd` is unknown."""
    book: Book
    """Its controls, at least."""

    @property
    def recorded(self) -> bool:
        """As `Results` has it."""
        return bool(self.plan["agent"] != "predictions")

    @property
    def usage(self) -> Usage:
        """Of every try with a row."""
        frame = self.frame
        cost = None if frame["cost_usd"].isna().any() else float(frame["cost_usd"].sum())
        return Usage(cost_usd=cost, **{name: int(frame[name].sum()) for name in USAGE})

    def summary(self) -> dict[str, Any]:
        """The run in numbers, as `Results` has it: attempts that count alike are one row here."""
        k = int(self.frame["attempt"].max()) if len(self.frame) else 0
        least = least_of(self.plan) if stops_early(self.plan) else k
        frame = self.frame.assign(counts_as=np.where(self.frame["attempt"] <= least, least, k))
        keys = [*ALIKE, "counts_as"]
        codes = frame.groupby(keys, sort=False, dropna=False, observed=True).ngroup()
        first = ~codes.duplicated()
        found = (row_from(record, record["counts_as"]) for record in records_of(frame[first]))
        alike = dict(zip(codes[first], found, strict=True))
        rows = list(map(alike.__getitem__, codes.tolist()))
        return Results(plan=self.plan, rows=rows, book=self.book, spent=self.usage).summary()


def records_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as dictionaries; what is missing is None, never NaN."""
    names = list(frame.columns)
    columns = [
        [None if missing else value for value, missing in zip(column.tolist(), gone, strict=True)]
        for column, gone in ((frame[name], frame[name].isna()) for name in names)
    ]
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def row_from(record: Mapping[str, Any], attempt: int) -> AttemptRow:
    """A row that stands for all that count as it does."""
    return AttemptRow(
        instance_id=record["instance"],
        attempt=attempt,
        official=None if record["official"] is None else bool(record["official"]),
        patch=None if record["patch"] is None else bool(record["patch"]),
        usage=Usage(),
        detail="",
        **{
            name: record[name]
            for name in (
                *("repo", "outcome", "blame", "cause", "moved", "trust", "unknown_exit", "stop"),
                *("tries", "steps", "seconds", "reward", "fail_to_pass", "pass_to_pass"),
            )
        },
    )


def sheet_of(results: Results) -> Sheet:
    """Of results that are in memory."""
    frame = frame_of(results.rows)
    return Sheet(plan=results.plan, frame=frame, book=results.book)


def frame_of(rows: Sequence[AttemptRow]) -> pd.DataFrame:
    own = [name for name in (*TEXTS, *TYPES) if name not in (*USAGE, "cost_usd", "instance")]
    return typed(
        {"instance": [row.instance_id for row in rows]}
        | {name: [getattr(row, name) for row in rows] for name in own}
        | {name: [getattr(row.usage, name) for row in rows] for name in (*USAGE, "cost_usd")}
    )


def typed(taken: Mapping[str, Any]) -> pd.DataFrame:
    """The same types, wherever the values came from."""
    frame = pd.DataFrame({name: list(values) for name, values in taken.items()}, dtype=object)
    for name in TEXTS:
        words = WORDS.get(name) or list(dict.fromkeys(frame[name]))
        frame[name] = pd.Categorical(frame[name], categories=list(words))
    return frame.astype(TYPES)


def replaced(frame: pd.DataFrame, at: np.ndarray, rows: Sequence[AttemptRow]) -> pd.DataFrame:
    """The frame with other rows at these places."""
    if not rows:
        return frame
    taken = frame_of(rows)
    for name in frame.columns:
        column = frame[name]
        if name in TEXTS:
            known = set(column.cat.categories)
            words = [word for word in taken[name].cat.categories if word not in known]
            column = column.cat.add_categories(words)
        column = column.copy()
        column.iloc[at] = taken[name].tolist() if name in TEXTS else taken[name].array
        frame[name] = column
    return frame


def read_sheet(run: RunDir, *, untrusted: bool = False) -> Sheet:
    """Read a run by the column, finished or not, while another process may be driving it.

    Args:
        untrusted: as `pipeline.results.load` has it.

    Raises:
        UserError: there is no such run, or it cannot be read.
    """
    plan = read_plan(run)
    if not run.ledger.exists():
        raise UserError(f"{run.root}: the run has no ledger; start it with `passone run`")
    ids, k = plan["selection"]["ids"], plan["attempts"]
    columns = read_columns(run.ledger, ids)
    frame, singly = laid_out(columns, ids, [plan["repos"][id_] for id_ in ids], k)
    if untrusted:
        singly |= frame["moved"].to_numpy()
    places = np.flatnonzero(singly)
    attempts = [Attempt(ids[at // k], at % k + 1) for at in places.tolist()]
    found = (*columns.controls, *read_rows(run.ledger, attempts))
    book = Book.of(sorted(found, key=lambda row: row.seq))
    rows = [
        row_of(
            book,
            attempt,
            plan["repos"][attempt.instance_id],
            has_control=plan["has_control"],
            untrusted=untrusted,
        )
        for attempt in attempts
    ]
    return Sheet(plan=plan, frame=due_only(replaced(frame, places, rows), plan), book=book)


def due_only(frame: pd.DataFrame, plan: Mapping[str, Any]) -> pd.DataFrame:
    """The whole grid without the attempts that are not due."""
    k = int(plan["attempts"])
    if not stops_early(plan):
        return frame
    words = zip(frame["outcome"].tolist(), frame["blame"].tolist(), frame["moved"], strict=True)
    votes = [
        None if moved or outcome == "pending" else words_of(outcome, blame)
        for outcome, blame, moved in words
    ]
    begun = np.where(frame["tries"] > 0, frame["attempt"], 0).reshape(-1, k).max(axis=1)
    number = [due_of(plan, votes[at * k : at * k + some]) for at, some in enumerate(begun.tolist())]
    return frame[frame["attempt"] <= np.repeat(number, k)].reset_index(drop=True)
