"""Remember what is over. A row means that a try is over; no row means do it again.

The table is append-only and nothing stores "running", so that a process killed
at any moment is continued by simply running again.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias

from pydantic import TypeAdapter

from pipeline.domain import Attempt, Fault, Finding, Rollout, Verdict
from pipeline.outcomes import (
    Blame,
    Control,
    Settlement,
    UserError,
    conclude,
    kept_control_settles,
)

SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS rows (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL, instance TEXT NOT NULL, attempt INTEGER NOT NULL, try INTEGER NOT NULL,
    type TEXT NOT NULL, body TEXT NOT NULL,
    at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    UNIQUE (kind, instance, attempt, try)
);
"""


class Kind(StrEnum):
    ROLLOUT = "rollout"
    VERDICT = "verdict"
    CONTROL = "control"
    """A gold scoring of the instance; its attempt number is 0."""
    SETTLEMENT = "settlement"


Value: TypeAlias = Rollout | Verdict | Fault | Settlement
TYPES: dict[str, TypeAdapter[Value]] = {
    kind.__name__: TypeAdapter(kind) for kind in (Rollout, Verdict, Fault, Settlement)
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One finished try at one stage."""

    seq: int
    kind: Kind
    attempt: Attempt
    try_number: int
    value: Value


@dataclass(slots=True)
class Entry:
    """All rows of one attempt, in order."""

    rollouts: list[Row] = field(default_factory=list)
    verdicts: list[Row] = field(default_factory=list)
    settlements: list[Row] = field(default_factory=list)

    @property
    def rollout(self) -> Rollout | Fault | None:
        value = self.rollouts[-1].value if self.rollouts else None
        assert value is None or isinstance(value, Rollout | Fault)
        return value

    @property
    def verdict(self) -> Verdict | Fault | None:
        """The latest that came after the latest rollout."""
        if not self.verdicts or self.verdicts[-1].seq < self.rollouts[-1].seq:
            return None
        value = self.verdicts[-1].value
        assert isinstance(value, Verdict | Fault)
        return value

    @property
    def last(self) -> Row | None:
        """The row that its outcome rests on."""
        return max((*self.rollouts, *self.verdicts), key=lambda row: row.seq, default=None)

    @property
    def basis(self) -> Rollout | Verdict | Fault | None:
        """The value that its outcome rests on."""
        value = self.last.value if self.last else None
        assert not isinstance(value, Settlement)
        return value

    @property
    def settlement(self) -> Settlement | None:
        """The latest, if nothing has happened since."""
        last = self.last
        if last is None or not self.settlements or self.settlements[-1].seq < last.seq:
            return None
        value = self.settlements[-1].value
        assert isinstance(value, Settlement)
        return value

    @property
    def over(self) -> bool:
        """Nothing is left to do here, in this or any later invocation."""
        rollout, verdict = self.rollout, self.verdict
        if rollout is None:
            return False
        if isinstance(rollout, Fault) or isinstance(verdict, Fault):
            # Settled as the model's: gold passes where this died, again and again.
            return self.settlement is not None and self.settlement.blame is Blame.MODEL
        return rollout.submission is None or verdict is not None

    @property
    def judged(self) -> bool:
        """It has an outcome, if perhaps only an infra one."""
        rollout = self.rollout
        if rollout is None:
            return False
        return isinstance(rollout, Fault) or rollout.submission is None or self.verdict is not None


@dataclass(slots=True)
class Book:
    """All rows of a run, by attempt; what the schedule and the tables read."""

    entries: dict[Attempt, Entry] = field(default_factory=dict)
    controls: dict[str, list[Row]] = field(default_factory=dict)

    def entry(self, attempt: Attempt) -> Entry:
        return self.entries.setdefault(attempt, Entry())

    def add(self, row: Row) -> None:
        if row.kind is Kind.CONTROL:
            self.controls.setdefault(row.attempt.instance_id, []).append(row)
            return
        entry = self.entry(row.attempt)
        {
            Kind.ROLLOUT: entry.rollouts,
            Kind.VERDICT: entry.verdicts,
            Kind.SETTLEMENT: entry.settlements,
        }[row.kind].append(row)

    def golds(self, instance_id: str, digest: str = "") -> list[tuple[int, bool]]:
        """(seq, passed) of each gold scoring that ended in a verdict, in one image or in any."""
        return [
            (row.seq, row.value.finding is Finding.RESOLVED)
            for row in self.controls.get(instance_id, [])
            if isinstance(row.value, Verdict) and digest in ("", row.value.evidence.image_digest)
        ]

    def control(self, attempt: Attempt) -> Control:
        """What gold says about the place where this attempt was graded."""
        entry = self.entry(attempt)
        basis = entry.basis
        digest = basis.evidence.image_digest if isinstance(basis, Verdict) else ""
        golds = self.golds(attempt.instance_id, digest)
        if not golds:
            return Control.ABSENT
        seq, passed = golds[-1]
        if not passed:
            return Control.STUMBLED
        after = entry.last is not None and seq > entry.last.seq
        return Control.PASSED if after or kept_control_settles(basis) else Control.ABSENT

    def conclude(self, attempt: Attempt, *, has_control: bool) -> Settlement | None:
        """The attempt's outcome as the rows stand; None: pending."""
        entry = self.entry(attempt)
        if not entry.judged:
            return None
        rollout = entry.rollout
        assert rollout is not None
        control = self.control(attempt) if has_control else Control.IMPORTED
        return conclude(rollout, entry.verdict, control)

    def doubted(self, attempt: Attempt) -> bool:
        """Graded before a gold that stumbled, which has passed since: grade it again."""
        entry = self.entry(attempt)
        if not isinstance(entry.verdict, Verdict):
            return False
        golds = self.golds(attempt.instance_id)
        seq = entry.verdicts[-1].seq
        stumbled_after = any(at > seq and not passed for at, passed in golds)
        return stumbled_after and golds[-1][1]


class Ledger:
    """The rows of one run on disk. One process writes; any may read."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        try:
            if read_only:
                # Where we may not write, SQLite cannot make the files that it shares with a
                # writer; without a log there is none, and it need not.
                alone = not os.access(path.parent, os.W_OK) and not Path(f"{path}-wal").exists()
                mode = "ro&immutable=1" if alone else "ro"
                self._db = sqlite3.connect(f"{path.resolve().as_uri()}?mode={mode}", uri=True)
            else:
                self._db = sqlite3.connect(path)
                self._db.execute("PRAGMA journal_mode=WAL")
                # FULL: a row that was reported survives a power cut too.
                self._db.execute("PRAGMA synchronous=FULL")
                self._db.executescript(SCHEMA)
        except sqlite3.Error as error:
            raise UserError(f"{path}: cannot be opened as a ledger: {error}") from None

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *exc: object) -> None:
        self._db.close()

    def read_meta(self, key: str) -> str | None:
        row = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return str(row[0]) if row else None

    @contextlib.contextmanager
    def _commit(self) -> Iterator[sqlite3.Connection]:
        try:
            with self._db:
                yield self._db
        except sqlite3.OperationalError as error:
            remedy = "make it writable" if "readonly" in str(error) else "free some space"
            raise UserError(
                f"{self.path}: {error}; {remedy} and run again, all finished work is kept"
            ) from None

    def write_meta(self, key: str, value: str) -> None:
        with self._commit() as db:
            db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    def append(self, kind: Kind, attempt: Attempt, try_number: int, value: Value) -> Row:
        """Commit one row: from here on, the try is over.

        Raises:
            UserError: the disk is full or the file is gone; nothing else is lost.
        """
        name = type(value).__name__
        # Not pydantic's own JSON: it refuses the bytes of a patch that are not UTF-8.
        body = json.dumps(TYPES[name].dump_python(value, mode="json"))
        with self._commit() as db:
            cursor = db.execute(
                "INSERT INTO rows (kind, instance, attempt, try, type, body)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (kind.value, attempt.instance_id, attempt.number, try_number, name, body),
            )
        assert cursor.lastrowid is not None
        return Row(
            seq=cursor.lastrowid, kind=kind, attempt=attempt, try_number=try_number, value=value
        )

    def rows(self) -> Iterator[Row]:
        """All rows in the order in which they were committed.

        Raises:
            UserError: the file is no ledger of ours.
        """
        try:
            found = self._db.execute(
                "SELECT seq, kind, instance, attempt, try, type, body FROM rows ORDER BY seq"
            )
            for seq, kind, instance, number, try_number, name, body in found:
                yield Row(
                    seq=seq,
                    kind=Kind(kind),
                    attempt=Attempt(instance, number),
                    try_number=try_number,
                    value=TYPES[name].validate_python(json.loads(body)),
                )
        except (sqlite3.Error, KeyError, ValueError) as error:
            raise UserError(f"{self.path}: is no ledger of this version: {error}") from None

    def book(self) -> Book:
        book = Book()
        for row in self.rows():
            book.add(row)
        return book
