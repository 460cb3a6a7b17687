"""Choose what a report holds of each attempt, and in which order it is filled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from itertools import chain, zip_longest

from pipeline.domain import Attempt
from pipeline.outcomes import Outcome
from pipeline.results import AttemptRow
from pipeline.votes import Vote


class Level(IntEnum):
    """How much of one attempt is inside."""

    ROW = 0
    """Its row of the table."""
    BASE = 1
    """Also its patch, tests, tries and evidence."""
    WHOLE = 2
    """Also its trajectory."""


def chosen(groups: Mapping[str, Sequence[AttemptRow]]) -> list[Attempt]:
    """Failures, and all attempts at an instance where the vote splits; what tells most comes first.

    One of every instance comes before the second of any, a failure before a resolved one.
    """
    return by_turns([interesting(rows) for rows in groups.values()])


def others(groups: Mapping[str, Sequence[AttemptRow]]) -> list[Attempt]:
    """Those that are not chosen."""
    taken = set(chosen(groups))
    every = by_turns([[attempt_of(row) for row in rows] for rows in groups.values()])
    return [attempt for attempt in every if attempt not in taken]


def interesting(rows: Sequence[AttemptRow]) -> list[Attempt]:
    """Of one instance."""
    failed = [row for row in rows if row.outcome not in (Outcome.RESOLVED, "pending")]
    vote = Vote.of(rows[0].instance_id, [row.settled for row in rows])
    resolved = [row for row in rows if row.resolved] if vote.split else []
    return by_turns([[attempt_of(a) for a in failed], [attempt_of(b) for b in resolved]])


def by_turns(queues: Sequence[Sequence[Attempt]]) -> list[Attempt]:
    """The first of each, then the second of each."""
    turns = zip_longest(*queues) if queues else ()
    return [attempt for attempt in chain.from_iterable(turns) if attempt is not None]


def attempt_of(row: AttemptRow) -> Attempt:
    return Attempt(row.instance_id, row.attempt)
