"""Turn an export into rows, and a cell into a number or a moment; None is an empty cell."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
import zoneinfo
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, TypeAlias

from pipeline.outcomes import UserError

Row: TypeAlias = Mapping[str, Any]
WRAPPERS = ("data", "items", "rows", "results", "records", "logs")
"""What JSON exports call the list of their rows."""
SPAN = ("start_time", "end_time")
"""Of OpenAI's buckets: each holds the rows of its hour or day."""
EMPTY = {"", "-", "–", "null", "none", "n/a", "nan"}
GROUPED = re.compile(r"[1-9]\d{0,2}([.,'’\s]\d{3})+")
THOUSANDS = re.compile(r"-?[1-9]\d{0,2}(,\d{3})+(\.\d*)?")
MONEY = re.compile(r"usd|us\$|['’$\s]", re.IGNORECASE)
CURRENCY = re.compile(r"[a-z]{3}|['’\s$€£¥₹元]", re.IGNORECASE)
MOST = Decimal(10) ** 18
YEARS = range(2000, 2101)
UNIX = re.compile(r"\d{9,19}(\.\d+)?")
"""Seconds since 1970, or milli-, micro- or nanoseconds; eight digits are a date."""
VARIANT = re.compile(r":(free|nitro|floor|online|extended|exacto|beta)$")
SNAPSHOT = re.compile(r"[-@](\d{4}-\d{2}-\d{2}|\d{8}|latest)$")
MOST_CELL_CHARACTERS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Table:
    """Rows as they stand in a file."""

    header: Sequence[str]
    rows: Sequence[tuple[int, Row]]
    """With the number of its line; of its object, in JSON."""
    decimal_comma: bool = False
    """A file that parts its cells by semicolons writes 0,5 for a half."""


def read_table(path: Path) -> Table:
    """Every row of an export.

    Raises:
        UserError: there is no such file, or it is neither CSV nor JSON.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise UserError(f"{path}: no such bill; export one from your gateway") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}: is not UTF-8 ({error.reason}); export the bill as CSV or JSON in UTF-8"
        ) from None
    if not text.strip():
        raise UserError(f"{path}: is empty: not even a header; export the bill again")
    return json_table(text, path) if text.lstrip()[0] in "{[" else csv_table(text, path)


def csv_table(text: str, path: Path) -> Table:
    first = next(line for line in text.splitlines() if line.strip())
    delimiter = max(",;\t|", key=re.sub(r'"[^"]*"', "", first).count)
    csv.field_size_limit(MOST_CELL_CHARACTERS)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    header: list[str] = []
    rows: list[tuple[int, Row]] = []
    try:
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if not header:
                header = [cell.strip() for cell in cells]
            elif any(cell.strip() for cell in cells[len(header) :]):
                raise UserError(
                    f"{path}: line {reader.line_num} has {len(cells)} cells, its header "
                    f"{len(header)}; export the bill again, or quote cells that hold a delimiter"
                )
            else:
                rows.append((reader.line_num, dict(zip(header, cells, strict=False))))
    except csv.Error as error:
        raise UserError(f"{path}: line {reader.line_num} is no CSV: {error}") from None
    return Table(header, rows, decimal_comma=delimiter == ";")


def json_table(text: str, path: Path) -> Table:
    found: list[Row] = []
    try:
        found = parsed(text)
    except ValueError as whole:
        for number, line in enumerate(text.split("\n"), start=1):
            try:
                found += parsed(line) if line.strip() else []
            except ValueError as error:
                said = f"line {number}: {error}" if found else whole
                raise UserError(f"{path}: is neither JSON nor JSON lines: {said}") from None
    header = list(dict.fromkeys(name for row in found for name in row))
    return Table(header, list(enumerate(found, start=1)))


def parsed(text: str) -> list[Row]:
    try:
        return list(unwrapped(json.loads(text, parse_float=Decimal), {}))
    except RecursionError:
        raise ValueError("it is nested too deeply for a bill") from None


def unwrapped(tree: object, span: Row) -> Iterator[Row]:
    """The rows in whatever wraps them; those of a bucket with its span."""
    if isinstance(tree, list):
        for item in tree:
            yield from unwrapped(item, span)
    elif isinstance(tree, dict):
        inside = (tree[name] for name in WRAPPERS if isinstance(tree.get(name), dict | list))
        inner = next(inside, None)
        if inner is None:
            yield {**span, **tree}
        else:
            yield from unwrapped(inner, {name: tree[name] for name in SPAN if name in tree})
    elif tree is not None:
        raise ValueError(f"expected objects, found {tree!r:.60}")


def pick(row: Row, name: str) -> Any:
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


def plain(model: str) -> str:
    """A model's name without provider, variant and date."""
    name = VARIANT.sub("", model.strip().lower().rsplit("/", 1)[-1])
    return SNAPSHOT.sub("", name)


def text_of(cell: object) -> str:
    text = "" if cell is None else str(cell).strip()
    return "" if text.lower() in EMPTY else text


def amount(cell: object, *, decimal_comma: bool = False, foreign: bool = False) -> Decimal | None:
    """Money, or any number with a fraction; of any currency, where its rate is known.

    Raises:
        ValueError: it is no number.
    """
    text = (CURRENCY if foreign else MONEY).sub("", text_of(cell))
    if not text:
        return None
    if decimal_comma and "," in text:
        text = text.replace(".", "").replace(",", ".")
    elif THOUSANDS.fullmatch(text):
        text = text.replace(",", "")
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise ValueError(f"{cell!r} is no number") from None
    if not value.is_finite() or abs(value) > MOST:
        raise ValueError(f"{cell!r} is no number")
    return value


def count(cell: object) -> int | None:
    """A number of tokens or requests; `1,204` and `1.204` are grouped, whatever the file.

    Raises:
        ValueError: it is none.
    """
    text = text_of(cell)
    value = amount(re.sub(r"\D", "", text) if GROUPED.fullmatch(text) else text)
    if value is None:
        return None
    if value < 0 or value % 1:
        raise ValueError(f"{cell!r} is no count")
    return int(value)


def zone_of(name: str) -> tzinfo:
    """`UTC`, `+08:00` or `Europe/Berlin`.

    Raises:
        UserError: nobody knows this zone.
    """
    if name.upper() == "UTC":
        # Not UTC itself: which times named no zone is seen by whose zone they have.
        return timezone(timedelta(), "UTC")
    with contextlib.suppress(ValueError):
        zone = datetime.fromisoformat(f"2000-01-01T00:00{name}").tzinfo
        if zone is not None:
            return zone
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise UserError(
            f"time zone {name!r} is not known; give a name such as Asia/Shanghai, or +08:00"
        ) from None


def moment(cell: object, zone: tzinfo, form: str = "") -> datetime | None:
    """A point in time, in the zone in which it was written.

    Raises:
        ValueError: it cannot be read, or could be read in two ways.
    """
    text = text_of(cell)
    if not text:
        return None
    if form:
        found = datetime.strptime(text, form)  # noqa: DTZ007 - its zone is the bill's
    elif UNIX.fullmatch(text):
        digits = len(text.partition(".")[0])
        scale = 10 ** max(0, (digits - 9) // 3 * 3) if digits > 11 else 1
        found = datetime.fromtimestamp(float(Decimal(text) / scale), UTC)
    else:
        iso = re.sub(r"\s*([+-]00:?00)?\s*(UTC|GMT)$", "+00:00", text)
        iso = re.sub(r"^(\d{4})/(\d\d)/(\d\d)", r"\1-\2-\3", iso)
        try:
            found = datetime.fromisoformat(iso)
        except ValueError:
            raise ValueError(
                f"{cell!r} is no time that reads in one way only; say how it is written: "
                "`time_format: '%m/%d/%Y %H:%M'` in a --columns file"
            ) from None
    if found.year not in YEARS:
        raise ValueError(f"{cell!r} is no time of a bill: it is of the year {found.year}")
    return found if found.tzinfo else found.replace(tzinfo=zone)
