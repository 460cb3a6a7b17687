"""When a run asked, and whose lines a bill has for that time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pipeline.bill import Entry
from pipeline.reconcile.requests import Request

MOST_NAMES = 5
STILL_SECONDS = 1800.0
"""A run that asks nothing for so long stands still."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """From a run's first request to the end of its last."""

    begun: datetime
    ended: datetime
    spans: Sequence[tuple[datetime, datetime]] = ()
    """In which it did not stand still."""

    @classmethod
    def of(cls, requests: Sequence[Request]) -> Window:
        spans: list[tuple[datetime, datetime]] = []
        for request in sorted(requests, key=lambda request: request.begun):
            still = request.begun - spans[-1][1] if spans else None
            if still is not None and still.total_seconds() <= STILL_SECONDS:
                spans[-1] = (spans[-1][0], max(spans[-1][1], request.ended))
            else:
                spans.append((request.begun, request.ended))
        return cls(begun=spans[0][0], ended=max(end for _, end in spans), spans=spans)

    def holds(self, time: datetime, tolerance: timedelta) -> bool:
        return any(low - tolerance <= time <= high + tolerance for low, high in self.spans)

    @property
    def words(self) -> str:
        return f"{clock(self.begun)} to {clock(self.ended)} UTC"


def clock(time: datetime) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S")


def names_of(entries: Iterable[Entry]) -> str:
    names = [name or "no model" for name, _ in Counter(e.model for e in entries).most_common()]
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more
