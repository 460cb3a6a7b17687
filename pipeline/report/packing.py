"""Pack records so that a page holds them as text and unpacks only what somebody opens."""

from __future__ import annotations

import base64
import gzip
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO, Any

from pipeline.domain import Attempt
from pipeline.report.details import Source, attempt_record, instance_record
from pipeline.report.level import Level, chosen, others
from pipeline.results import AttemptRow

BASE_BYTES = 2_500
"""What an attempt takes without its trajectory, as a rule: room that is kept for the others."""
SHARED_BYTES = 8_000
"""What an instance takes: its issue, gold, and the names of its tests."""


def packed(record: Any) -> bytes:
    """Gzip in base64: no character of it can end an element or begin one."""
    try:
        text = as_json(record)
    except ValueError:
        text = as_json(finite(record))
    return base64.b64encode(gzip.compress(text.encode("ascii"), 9, mtime=0))


def as_json(record: Any) -> str:
    """With escapes, for half a surrogate pair is no UTF-8; a browser reads no NaN."""
    return json.dumps(record, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def finite(value: Any) -> Any:
    """The same, with nothing known where a number is none."""
    if isinstance(value, dict):
        return {key: finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def tag(name: str, data: bytes) -> bytes:
    """A block of data that no browser runs."""
    head = f'<script type="application/gzip" id="{name}">'.encode()
    return head + data + b"</script>\n"


@dataclass(slots=True, kw_only=True)
class Room:
    """How many bytes of a page are left."""

    most: int | None
    """None: there is no end."""
    used: int = 0

    def takes(self, size: int, *, keeping: int = 0) -> bool:
        return self.most is None or self.used + size + keeping <= self.most


@dataclass(slots=True, kw_only=True)
class Filling:
    """One run's attempts, packed into a file while there is room."""

    source: Source
    number: int
    """Of the run in its report, from 0."""
    room: Room
    every: bool
    """Trajectories of all attempts, not only of those that are chosen."""
    levels: dict[Attempt, Level] = field(default_factory=dict)

    def write(self, file: IO[bytes]) -> Iterator[Attempt]:
        """Write the blocks of all attempts, then those of the instances; yields what is done."""
        groups = self.source.results.groups
        rows = {Attempt(row.instance_id, row.attempt): row for row in self.source.results.rows}
        places = {id_: place for place, id_ in enumerate(groups)}
        first, rest = chosen(groups), others(groups)
        if self.every:
            first, rest = [*first, *rest], []
        left, level = len(rows), Level.WHOLE
        self.room.used += len(places) * SHARED_BYTES
        for attempt in (*first, *rest):
            left -= 1
            level = Level.BASE if attempt in rest[:1] else level
            name = f"a-{self.number}-{places[attempt.instance_id]}-{attempt.number}"
            level = self.fill(file, rows[attempt], level, name, keeping=left * BASE_BYTES)
            yield attempt
        self.room.used -= len(places) * SHARED_BYTES
        for id_, place in places.items():
            data = tag(f"i-{self.number}-{place}", packed(instance_record(self.source, id_)))
            self.room.used += file.write(data)

    def fill(
        self, file: IO[bytes], row: AttemptRow, level: Level, name: str, keeping: int
    ) -> Level:
        """Write one attempt; returns how much there is room for of the next."""
        attempt = Attempt(row.instance_id, row.attempt)
        if not self.source.entry(attempt).rollouts:
            return level
        record = attempt_record(self.source, row, level)
        data = tag(name, packed(record))
        if level is Level.WHOLE and not self.room.takes(len(data), keeping=keeping):
            # From here on nobody's: a report that holds some by chance is hard to read.
            level = Level.BASE
            data = tag(name, packed(attempt_record(self.source, row, level)))
        if self.room.takes(len(data)):
            self.room.used += file.write(data)
            self.levels[attempt] = level if "steps" in record else Level.BASE
        return level
