"""The rows of one run on disk: append-only, one writer, many readers."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pipeline.domain import Attempt
from pipeline.ledger.book import Book
from pipeline.ledger.rows import TYPES, Kind, Row, Value
from pipeline.outcomes import UserError

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
TABLES: dict[str, tuple[str, ...]] = {
    "meta": ("key", "value"),
    "rows": ("seq", "kind", "instance", "attempt", "try", "type", "body", "at"),
}
"""Columns by table, the primary key first."""


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

    def ask(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """What a query finds.

        Raises:
            UserError: the file is no ledger of ours.
        """
        try:
            return list(self._db.execute(query, values))
        except sqlite3.Error as error:
            raise UserError(f"{self.path}: is no ledger of this version: {error}") from None

    def dump(self, table: str) -> Iterator[str]:
        """A line of JSON for every record, in the order of the primary key: the same records
        give the same lines, whatever pages they lie on.

        Raises:
            UserError: the file is no ledger of ours.
        """
        columns = TABLES[table]
        query = f"SELECT {', '.join(columns)} FROM {table} ORDER BY {columns[0]}"
        try:
            for values in self._db.execute(query):
                record = dict(zip(columns, values, strict=True))
                if "body" in record:
                    record["body"] = json.loads(record["body"])
                yield json.dumps(record) + "\n"
        except (sqlite3.Error, ValueError) as error:
            raise UserError(f"{self.path}: is no ledger of this version: {error}") from None

    def restore(self, table: str, records: Iterable[Mapping[str, Any]]) -> None:
        """Fill an empty table with what `dump` gave.

        Raises:
            ValueError: a record is none of this table's.
        """
        columns = TABLES[table]
        marks = ", ".join("?" * len(columns))

        def values(record: Mapping[str, Any]) -> list[Any]:
            if record.keys() != set(columns):
                raise ValueError(f"a record of {table} has {', '.join(record)}")
            return [json.dumps(record[c]) if c == "body" else record[c] for c in columns]

        try:
            with self._db:
                self._db.executemany(f"INSERT INTO {table} VALUES ({marks})", map(values, records))
        except sqlite3.Error as error:
            raise ValueError(str(error)) from None

    def rows(
        self, kind: Kind | None = None, attempt: Attempt | None = None, *, after: int = 0
    ) -> Iterator[Row]:
        """All rows, or those of a kind or an attempt, in the order in which they were committed.

        Args:
            after: only those behind this number.

        Raises:
            UserError: the file is no ledger of ours.
        """
        wanted: dict[str, str | int] = {} if kind is None else {"kind": kind.value}
        if attempt is not None:
            wanted |= {"instance": attempt.instance_id, "attempt": attempt.number}
        where = " AND ".join([*(f"{name} = ?" for name in wanted), "seq > ?"])
        try:
            found = self._db.execute(
                "SELECT seq, kind, instance, attempt, try, type, body FROM rows"
                f" WHERE {where} ORDER BY seq",
                (*wanted.values(), after),
            )
            for seq, stage, instance, number, try_number, name, body in found:
                yield Row(
                    seq=seq,
                    kind=Kind(stage),
                    attempt=Attempt(instance, number),
                    try_number=try_number,
                    value=TYPES[name].validate_python(json.loads(body)),
                )
        except (sqlite3.Error, KeyError, ValueError) as error:
            raise UserError(f"{self.path}: is no ledger of this version: {error}") from None

    def book(self) -> Book:
        """All rows, as they can be looked up."""
        return Book.of(self.rows())
