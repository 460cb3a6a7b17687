"""A bill as entries: one form for every export, sorted, in UTC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from pathlib import Path
from typing import Any

from pipeline.bill.cells import amount, count, moment, text_of, zone_of
from pipeline.bill.columns import HOW, Columns, cells, is_there
from pipeline.bill.files import Table, pick, read_table
from pipeline.bill.presets import PRESETS, recognised
from pipeline.outcomes import UserError

DAY, HOUR, MINUTE = 86400.0, 3600.0, 60.0
MARK = timezone(timedelta(seconds=1))
"""Nobody's zone: a time that is read in it names none."""
MOST_NAMES = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of a bill. None: the bill does not say."""

    line: int
    time: datetime
    until: datetime
    """Later than `time` only where the line counts a span."""
    model: str = ""
    requests: int | None = None
    input_tokens: int | None = None
    """Includes cached tokens."""
    cached_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    request_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """An export, read."""

    path: Path
    preset: str
    """Empty: by a mapping of the user's own."""
    entries: Sequence[Entry]
    resolution_seconds: float = 0.0
    """What its times are rounded to."""
    cost_step_usd: float = 0.0
    """The last decimal of its costs."""
    aggregated: bool = False
    """Its lines count several requests each."""
    naive: bool = False
    """Its times name no zone."""
    offset_minutes: int = 0
    """From UTC, of the zone in which they were read."""
    left_out: int = 0
    """Lines without a time: sums, mostly."""


def resolution_of(times: Sequence[datetime]) -> float:
    """The coarsest clock that could have written all of these."""
    if not times:
        return 0.0
    if any(time.microsecond for time in times):
        return 0.0
    for fraction, seconds in (("second", 1.0), ("minute", MINUTE), ("hour", HOUR)):
        if any(getattr(time, fraction) for time in times):
            return seconds
    return DAY


def total(found: Sequence[Any], **units: Any) -> int | None:
    """Counts added up; None where none of the cells says one."""
    counts = [count(cell, **units) for cell in found]
    known = [number for number in counts if number is not None]
    return sum(known) if known else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """Rows into entries, by one set of columns."""

    path: Path
    columns: Columns
    zone: tzinfo
    decimal_comma: bool

    def wanted(self, row: Mapping[str, Any]) -> bool:
        """A row that lacks the column counts: an export may hold one kind of line only."""
        return all(
            text_of(pick(row, name)) in ("", *values) for name, values in self.columns.only.items()
        )

    def entry(self, line: int, row: Mapping[str, Any]) -> tuple[Entry, datetime, Decimal | None]:
        """With the time and the cost as they were written.

        Raises:
            ValueError: a cell cannot be read.
            LookupError: the line has no time.
        """
        at, comma = self.columns, self.decimal_comma
        time = self.moment(row, at.time)
        if time is None:
            raise LookupError
        until = self.moment(row, at.until)
        tokens = {"unit": at.tokens_per_unit, "decimal_comma": comma}
        input_tokens = total(cells(row, at.input), **tokens)
        cached = total(cells(row, at.cached), **tokens)
        if at.input_excludes_cached and input_tokens is not None:
            input_tokens += cached or 0
        foreign = at.usd_per_unit != 1
        costs = [amount(cell, decimal_comma=comma, foreign=foreign) for cell in cells(row, at.cost)]
        known = [cost for cost in costs if cost is not None]
        cost = sum(known, Decimal()) if known else None
        entry = Entry(
            line=line,
            time=time.astimezone(UTC),
            until=(until or time).astimezone(UTC),
            model=self.text(row, at.model),
            requests=total(cells(row, at.requests), decimal_comma=comma),
            input_tokens=input_tokens,
            cached_tokens=cached,
            output_tokens=total(cells(row, at.output), **tokens),
            cost_usd=None if cost is None else float(cost * Decimal(str(at.usd_per_unit))),
            request_id=self.text(row, at.request_id),
        )
        return entry, time, cost

    def moment(self, row: Mapping[str, Any], names: Sequence[str]) -> datetime | None:
        """`date + time` are parts of one."""
        found = " ".join(text_of(cell) for cell in cells(row, names))
        return moment(found, self.zone, self.columns.time_format)

    def names_no_zone(self, row: Mapping[str, Any]) -> bool:
        time = replace(self, zone=MARK).moment(row, self.columns.time)
        return time is not None and time.tzinfo is MARK

    def text(self, row: Mapping[str, Any], names: Sequence[str]) -> str:
        found = cells(row, names)
        return text_of(found[0]) if found else ""


def decide(path: Path, table: Table, given: Columns | None) -> tuple[Columns, str]:
    """The columns of this table.

    Raises:
        UserError: nobody knows them, or they are not those that were named.
    """
    header = ", ".join(table.header[:MOST_NAMES]) or "none"
    if given is None:
        name = recognised(table.header)
        if name is None:
            raise UserError(
                f"{path}: its columns are not known: {header}. Known exports: "
                f"{', '.join(PRESETS)}. Otherwise {HOW}"
            )
        return PRESETS[name].columns, name
    preset = next((name for name, known in PRESETS.items() if known.columns is given), "")
    rows = [row for _, row in table.rows]
    missing = [
        f"{' or '.join(names)} (for {figure})"
        for figure, names in given.named().items()
        if names and not is_there(rows, names, set(table.header))
    ]
    if preset:
        # Exports grow and shed columns: only what nothing can be said without must be there.
        measures = any(
            is_there(rows, names, set(table.header))
            for names in (given.input, given.output, given.cost)
        )
        missing = [text for text in missing if text.endswith("(for time)") or not measures]
    if missing:
        raise UserError(f"{path}: has no column {'; '.join(missing)}. It has: {header}")
    if not (given.input or given.output or given.cost):
        raise UserError(f"{path}: the mapping names neither input, output nor cost; {HOW}")
    return given, preset


def sums_up(entries: Sequence[Entry], resolution: float, columns: Columns) -> bool:
    """Whether lines are sums: they say so, or each is the only one of its day and model."""
    if columns.aggregated or any(entry.requests not in (None, 1) for entry in entries):
        return True
    days = {(entry.time, entry.model) for entry in entries}
    nameless = not any(entry.request_id or entry.requests for entry in entries)
    return bool(entries) and resolution == DAY and nameless and len(days) == len(entries)


def read_bill(path: Path, columns: Columns | None = None, *, zone_name: str = "") -> Bill:
    """An export, by the columns given or else by those that are recognised.

    Raises:
        UserError: it cannot be read, its columns are not known, or a cell makes no sense.
    """
    zone = zone_of(zone_name) if zone_name else None
    table = read_table(path, columns.rows if columns else "")
    if table.nothing:
        return Bill(path=path, preset="", entries=[])
    if not table.header:
        raise UserError(f"{path}: is empty: not even a header; export the bill again")
    at, preset = decide(path, table, columns)
    reader = Reader(
        path=path,
        columns=at,
        zone=zone or zone_of(at.timezone),
        decimal_comma=table.decimal_comma,
    )
    read: list[tuple[Entry, datetime, Decimal | None]] = []
    left_out = 0
    for line, row in table.rows:
        if not reader.wanted(row):
            continue
        try:
            read.append(reader.entry(line, row))
        except LookupError:
            left_out += 1
        except (ValueError, OverflowError, OSError) as error:
            raise UserError(f"{path}: line {line}: {error}") from None
    offset = read[0][1].utcoffset() if read else None
    resolution = resolution_of([time for _, time, _ in read])
    entries = [entry for entry, _, _ in read]
    aggregated = sums_up(entries, resolution, at)
    if aggregated:
        entries = [with_end(entry, resolution) for entry in entries]
    exponents = [cost.as_tuple().exponent for _, _, cost in read if cost is not None]
    finest = min((part for part in exponents if isinstance(part, int)), default=None)
    return Bill(
        path=path,
        preset=preset,
        entries=sorted(entries, key=lambda entry: (entry.time, entry.line)),
        resolution_seconds=resolution,
        cost_step_usd=0.0 if finest is None else 10.0**finest * at.usd_per_unit,
        aggregated=aggregated,
        naive=any(reader.names_no_zone(row) for _, row in table.rows[:1]),
        offset_minutes=round(offset.total_seconds() / MINUTE) if offset else 0,
        left_out=left_out,
    )


def with_end(entry: Entry, seconds: float) -> Entry:
    """A line that counts a span, with the end of that span."""
    return replace(entry, until=max(entry.until, entry.time + timedelta(seconds=seconds)))
