"""One side of a comparison: what it came to at each instance, and why some of it does not count.

An attempt that is infra, unsettled or pending does not count for a model that did not get to try.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.compare.words import listed
from pipeline.outcomes import Blame
from pipeline.results import AttemptRow, Results
from pipeline.stats import interval
from pipeline.votes import Ballot, Vote
from pipeline.wording import count


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What one side came to at one instance."""

    resolved: int
    counted: int
    """Attempts that count for or against the model."""
    attempts: int
    """That enter the mean: all, or the first ones where others may be left out."""
    ballot: Ballot
    """Of all attempts."""
    why: str = ""
    """Why some attempts do not count; empty: all do."""
    k: int | None = None
    """Attempts that the vote is over; None: those that enter the mean."""

    @property
    def mean(self) -> float | None:
        """Over the counted attempts; None: there is none."""
        return self.resolved / self.counted if self.counted else None

    @property
    def values(self) -> list[float]:
        return [1.0] * self.resolved + [0.0] * (self.counted - self.resolved)


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A run, or a published table."""

    name: str
    cells: Mapping[str, Cell]
    """By instance, in the order of the selection."""
    plan: Mapping[str, Any] | None = None
    """None: a published table, of which only the verdicts are known."""
    place: str = ""
    """Its path, as somebody wrote it."""
    repos: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()

    @property
    def k(self) -> int:
        """Attempts that a vote is over, at most."""
        return max((cell.k or cell.attempts for cell in self.cells.values()), default=0)

    @property
    def model(self) -> str:
        return str(self.plan["model"]) if self.plan else "published"

    def is_same(self, other: Side) -> bool:
        """Whether both are one directory, by whatever path."""
        return bool(self.place) and Path(self.place).resolve() == Path(other.place).resolve()

    def rate(self, ids: Iterable[str]) -> tuple[float, float, float] | None:
        """pass@1 over valid with its 95 % interval; None: nothing counts."""
        return interval([self.cells[id_].values for id_ in ids])

    def uncounted(self, ids: Iterable[str]) -> tuple[int, Counter[str]]:
        """Instances of which an attempt does not count, and why, by attempts."""
        found = [self.cells[id_] for id_ in ids if self.cells[id_].why]
        reasons: Counter[str] = Counter()
        for cell in found:
            for part in cell.why.split(", "):
                size, _, reason = part.partition(" ")
                reasons[reason] += int(size)
        return len(found), reasons


def side_of(results: Results, *, place: str = "", driver: str = "") -> Side:
    """A run as a side.

    Args:
        driver: the process that drives it now; empty: nobody does.
    """
    groups = results.groups
    return Side(
        name=results.name,
        cells={
            vote.instance_id: cell_of(groups[vote.instance_id], first, vote)
            for vote, first in zip(results.votes, results.firsts.values(), strict=True)
        },
        plan=results.plan,
        place=place,
        repos={id_: rows[0].repo for id_, rows in groups.items()},
        notes=notes_of(results, driver),
    )


def cell_of(rows: Sequence[AttemptRow], first: Sequence[AttemptRow], vote: Vote) -> Cell:
    reasons = Counter(reason_of(row) for row in rows if not row.counted)
    return Cell(
        resolved=sum(row.resolved for row in first if row.counted),
        counted=sum(row.counted for row in first),
        attempts=len(first),
        ballot=vote.ballot,
        k=vote.k,
        why=", ".join(f"{times} {reason}" for reason, times in reasons.items()),
    )


def reason_of(row: AttemptRow) -> str:
    if row.blame == Blame.INFRA:
        return f"infra ({row.cause})"
    return f"ambiguous ({row.outcome})" if row.blame else "pending"


def notes_of(results: Results, driver: str) -> list[str]:
    """What a reader has to know of a run before they quote a number of it."""
    plan, notes = results.plan, []
    pending = sum(row.outcome == "pending" for row in results.rows)
    if driver:
        notes.append(f"still going (pid {driver}), {count(pending, 'attempt')} pending")
    elif pending:
        notes.append(f"not finished, {count(pending, 'attempt')} pending")
    notes += [f"no single score should be quoted: {doubt}" for doubt in results.doubts()]
    if results.stops_early:
        notes.append(
            f"attempts that cannot change a vote are left out: means are over the first "
            f"{results.least} at each instance, votes over up to {results.k}"
        )
    if not plan["has_control"]:
        notes.append("imported verdicts, nobody ran a control")
    if plan.get("replies"):
        notes.append("scripted replies, no model was measured")
    if plan.get("replayed"):
        notes.append(f"replayed from {plan['replayed']}, no endpoint was asked")
    return notes


def dropped(side: Side, ids: Sequence[str]) -> str:
    """How much of a side does not count here, and why; empty: all does."""
    instances, reasons = side.uncounted(ids)
    if not instances:
        return ""
    total = sum(reasons.values())
    verb = "does" if total == 1 else "do"
    why = listed([f"{times} {reason}" for reason, times in reasons.items()])
    return f"{count(total, 'attempt')} at {count(instances, 'instance')} {verb} not count: {why}"


def labels(sides: Sequence[Side]) -> list[str]:
    """A name for each that no other has: its own, with its place beside it, or with its number."""
    names = [side.name for side in sides]
    for beside in (
        [f" ({side.place})" for side in sides],
        [f" #{n + 1}" for n in range(len(sides))],
    ):
        longer = [name + more for name, more in zip(names, beside, strict=True)]
        if len(set(longer)) == len(sides):
            return [
                long if names.count(name) > 1 else name
                for name, long in zip(names, longer, strict=True)
            ]
    raise AssertionError("numbers differ")
