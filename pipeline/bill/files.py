"""Turn a file into rows: CSV of any delimiter, JSON with or without a wrapper, JSON lines."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from pipeline.outcomes import UserError

WRAPPERS = (
    *("data", "items", "rows", "results", "result", "records", "entries", "logs", "usage"),
    *("activity", "generations", "list"),
)
NESTED = ("results", "result")
"""Of OpenAI's buckets: each holds the rows of its hour or day."""
MAGIC = {
    b"PK\x03\x04": "a spreadsheet or an archive",
    b"\xd0\xcf\x11\xe0": "a spreadsheet",
    b"%PDF": "a PDF",
    b"\x1f\x8b": "compressed",
}
MOST_CELL_CHARACTERS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Table:
    """Rows as they stand in a file."""

    rows: Sequence[tuple[int, Mapping[str, Any]]]
    """With the number of its line; of its object, in JSON."""
    header: Sequence[str]
    nothing: bool = False
    """JSON that says by an empty list that there is nothing to bill."""
    decimal_comma: bool = False
    """A file that parts its cells by semicolons writes 0,5 for a half."""


def read_table(path: Path, rows: str = "") -> Table:
    """Every row of an export. `rows`: where they are in a JSON wrapper, if that is not plain.

    Raises:
        UserError: there is no such file, or it is neither CSV nor JSON.
    """
    text = read_text(path)
    if text.lstrip()[:1] in ("{", "["):
        return json_table(text, path, rows)
    return csv_table(text, path)


def read_text(path: Path) -> str:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise UserError(f"{path}: no such bill; export one from your gateway") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from None
    for magic, kind in MAGIC.items():
        if content.startswith(magic):
            raise UserError(f"{path}: is {kind}; export the bill as CSV or JSON")
    wide = content.startswith((b"\xff\xfe", b"\xfe\xff"))
    try:
        return content.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: is not UTF-8 ({error.reason}); save the bill as UTF-8") from None


def csv_table(text: str, path: Path) -> Table:
    told = re.match(r"sep=(.)\r?\n", text)
    if told:
        text = text[told.end() :]
    first = next((line for line in text.splitlines() if line.strip()), "")
    bare = re.sub(r'"[^"]*"', "", first)
    delimiter = told[1] if told else max(",;\t|", key=bare.count)
    csv.field_size_limit(MOST_CELL_CHARACTERS)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    header: list[str] = []
    rows: list[tuple[int, Mapping[str, Any]]] = []
    try:
        for cells in reader:
            number = reader.line_num + (1 if told else 0)
            if not any(cell.strip() for cell in cells):
                continue
            if not header:
                header = [cell.strip() for cell in cells]
            elif len(cells) > len(header) and any(cell.strip() for cell in cells[len(header) :]):
                raise UserError(
                    f"{path}: line {number} has {len(cells)} cells, its header {len(header)}; "
                    "export the bill again, or quote cells that hold a delimiter"
                )
            else:
                rows.append((number, dict(zip(header, cells, strict=False))))
    except csv.Error as error:
        raise UserError(f"{path}: line {reader.line_num} is no CSV: {error}") from None
    return Table(rows=rows, header=header, decimal_comma=delimiter == ";")


def json_table(text: str, path: Path, place: str) -> Table:
    try:
        trees = [json.loads(text, parse_float=Decimal)]
    except RecursionError:
        raise UserError(f"{path}: is nested too deeply for a bill") from None
    except ValueError as whole:
        trees = []
        for number, line in enumerate(text.split("\n"), start=1):
            if not line.strip():
                continue
            try:
                trees.append(json.loads(line, parse_float=Decimal))
            except (ValueError, RecursionError) as error:
                one = number == 1 or not trees
                said = whole if one else error
                where = "" if one else f" (line {number})"
                raise UserError(f"{path}: is neither JSON nor JSON lines{where}: {said}") from None
    found: list[Mapping[str, Any]] = []
    for tree in trees:
        for row in within(tree, place, path):
            if not isinstance(row, dict):
                raise UserError(f"{path}: expected objects, found {row!r:.60}")
            found += unnested(row)
    header = list(dict.fromkeys(key for row in found for key in row))
    return Table(rows=list(enumerate(found, start=1)), header=header, nothing=not found)


def within(tree: object, place: str, path: Path) -> list[Any]:
    """The rows of one JSON value: a list, what wraps one, or one row."""
    if place:
        for part in place.split("."):
            if not isinstance(tree, dict) or part not in tree:
                raise UserError(f"{path}: `rows` names {place}, which is not there")
            tree = tree[part]
    if isinstance(tree, list):
        return tree
    if not isinstance(tree, dict):
        raise UserError(f"{path}: expected a list of objects, found {tree!r:.60}")
    for name in () if place else WRAPPERS:
        inner = tree.get(name)
        if isinstance(inner, dict):
            return within(inner, "", path)
        if isinstance(inner, list) and all(isinstance(item, dict) for item in inner):
            # A bucket that stands alone is a row with rows in it.
            return [tree] if name in NESTED and "start_time" in tree else inner
    return [tree]


def unnested(row: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """A bucket's rows, each with what its bucket says; any other row as it is."""
    for name in NESTED:
        inner = row.get(name)
        if isinstance(inner, list) and all(isinstance(item, dict) for item in inner):
            outer = {key: value for key, value in row.items() if key != name}
            return [outer | item for item in inner]
    return [row]


def pick(row: Mapping[str, Any], name: str) -> Any:
    """A cell by its column, or by a path such as `metadata.usage.cached`; None: not there."""
    if name in row:
        return row[name]
    value: Any = row
    for part in name.split("."):
        if isinstance(value, str) and value.lstrip().startswith("{"):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                return None
        if not isinstance(value, Mapping) or part not in value:
            return None
        value = value[part]
    return value
