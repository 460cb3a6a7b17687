"""Read what a gateway's owner says was used: any export, one form, sorted, in UTC."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import Decimal
from operator import mul
from pathlib import Path
from typing import Any

from pipeline.bill.columns import PRESETS, Columns, columns_of, decide
from pipeline.bill.rows import (
    Row,
    amount,
    count,
    moment,
    pick,
    plain,
    read_table,
    text_of,
    zone_of,
)
from pipeline.domain import Usage
from pipeline.outcomes import UserError

__all__ = [
    "PRESETS",
    "Bill",
    "Columns",
    "Entry",
    "columns_of",
    "discount_of",
    "plain",
    "read_bill",
    "shift_of",
]

DAY, HOUR, MINUTE = 86400.0, 3600.0, 60.0
QUARTER = timedelta(minutes=15)
ZONES = range(-12 * 4, 14 * 4 + 1)
"""Every offset that a zone has, in quarters of an hour."""
CLOCK_SECONDS = 5.0
"""By which clocks may differ where nothing but the time tells one zone from another."""


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
    """Its lines are sums, or do not tell requests apart."""
    left_out: int = 0
    """Lines without a time: sums, mostly."""
    ahead: timedelta | None = None
    """Of UTC, by the zone in which its times were read; None: they name their own."""

    def zone_of(self, shift: timedelta) -> str:
        """What `--timezone` has to say where its times are off so far; empty: it has no say."""
        if self.ahead is None:
            return ""
        minutes = (self.ahead + shift) // timedelta(minutes=1)
        return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"


def resolution_of(times: Sequence[datetime]) -> float:
    """The coarsest clock that could have written all of these."""
    if not times or any(time.microsecond for time in times):
        return 0.0
    for fraction, seconds in (("second", 1.0), ("minute", MINUTE), ("hour", HOUR)):
        if any(getattr(time, fraction) for time in times):
            return seconds
    return DAY


def shift_of(bill: Bill, asked: Iterable[tuple[Usage, datetime, datetime]]) -> timedelta:
    """By how many quarters of an hour its times are off; zero: nothing says that they are.

    Of each request: its tokens, begin and end. Most of them must have a line at that
    time, and less than half of them one at their own.
    """
    times: defaultdict[tuple[int | None, int | None], list[datetime]] = defaultdict(list)
    for entry in bill.entries:
        times[entry.input_tokens, entry.output_tokens].append(entry.time)
    there = [(times[u.input_tokens, u.output_tokens], low, high) for u, low, high in asked]
    near = timedelta(seconds=bill.resolution_seconds + CLOCK_SECONDS)

    def met(quarters: int) -> int:
        shift, found = quarters * QUARTER, 0
        for lines, low, high in there:
            place = bisect_left(lines, low + shift - near)
            found += place < len(lines) and lines[place] <= high + shift + near
        return found

    if bill.aggregated or 2 * max(met(0), sum(not lines for lines, _, _ in there)) >= len(there):
        return timedelta()
    here = (bill.ahead or timedelta()) // QUARTER
    # Whole hours first: of a request that took long, both may hold.
    shifts = sorted((zone - here for zone in ZONES), key=lambda n: (n % 4 > 0, abs(n)))
    best = max(shifts, key=met)
    return best * QUARTER if 2 * met(best) > len(there) else timedelta()


def entry_of(
    row: Row, at: Columns, zone: tzinfo, *, line: int, decimal_comma: bool
) -> tuple[Entry, datetime, Decimal | None] | None:
    """With its time and its cost as they were written; None: the line has no time.

    Raises:
        ValueError: a cell cannot be read.
    """

    def cell(names: Sequence[str]) -> Any:
        return next((found for name in names if text_of(found := pick(row, name))), None)

    time = moment(cell(at.time), zone, at.time_format)
    if time is None:
        return None
    until = moment(cell(at.until), zone, at.time_format) or time
    cost = amount(cell(at.cost), decimal_comma=decimal_comma, foreign=at.usd_per_unit != 1)
    entry = Entry(
        line=line,
        time=time.astimezone(UTC),
        until=until.astimezone(UTC),
        model=text_of(cell(at.model)),
        requests=count(cell(at.requests)),
        input_tokens=count(cell(at.input)),
        cached_tokens=count(cell(at.cached)),
        output_tokens=count(cell(at.output)),
        cost_usd=None if cost is None else float(cost * Decimal(str(at.usd_per_unit))),
        request_id=text_of(cell(at.request_id)),
    )
    return entry, time, cost


def sums_up(entries: Sequence[Entry], resolution: float) -> bool:
    """Whether lines count several requests, or nothing that tells one from another."""
    whole = any(None not in (entry.input_tokens, entry.output_tokens) for entry in entries)
    several = any(entry.requests not in (None, 1) for entry in entries)
    return several or resolution == DAY or not whole


def read_bill(path: Path, columns: Columns | None = None, *, zone_name: str = "") -> Bill:
    """An export, by the columns given or else by those that are recognised.

    Raises:
        UserError: it cannot be read, its columns are not known, or a cell makes no sense.
    """
    table = read_table(path)
    if not table.rows:
        return Bill(path=path, preset="", entries=[])
    at, name = decide(path, table.header, columns)
    zone = zone_of(zone_name or at.timezone)
    entries: list[Entry] = []
    times: list[datetime] = []
    steps: list[float] = []
    left_out = 0
    for line, row in table.rows:
        # A row that lacks the column counts: an export may hold one kind of line only.
        if any(text_of(pick(row, key)) not in ("", *values) for key, values in at.only.items()):
            continue
        try:
            read = entry_of(row, at, zone, line=line, decimal_comma=table.decimal_comma)
        except (ValueError, OverflowError, OSError) as error:
            raise UserError(f"{path}: line {line}: {error}") from None
        if read is None:
            left_out += 1
            continue
        entry, time, cost = read
        entries.append(entry)
        times.append(time)
        if cost is not None:
            steps.append(10.0 ** int(cost.as_tuple().exponent) * at.usd_per_unit)
    resolution = resolution_of(times)
    aggregated = at.aggregated or sums_up(entries, resolution)
    if aggregated:
        span = timedelta(seconds=resolution)
        entries = [replace(e, until=max(e.until, e.time + span)) for e in entries]
    return Bill(
        path=path,
        preset=name,
        entries=sorted(entries, key=lambda entry: (entry.time, entry.line)),
        resolution_seconds=resolution,
        cost_step_usd=min(steps, default=0.0),
        aggregated=aggregated,
        left_out=left_out,
        ahead=times[0].utcoffset() if times and all(t.tzinfo is zone for t in times) else None,
    )


def discount_of(usages: Sequence[Usage]) -> float:
    """What the tapes price a cached token lower than any other; zero where they do not tell.

    By least squares over input, cached input and output, in whole numbers: exact.
    """
    known = [usage for usage in usages if usage.cost_usd is not None]
    names = ("input_tokens", "cached_tokens", "output_tokens")
    columns = [[int(getattr(usage, name)) for usage in known] for name in names]
    costs = [round((usage.cost_usd or 0.0) * 10**12) for usage in known]

    def determinant(a: Sequence[int], b: Sequence[int], c: Sequence[int]) -> int:
        return sum(a[i] * (b[i - 2] * c[i - 1] - b[i - 1] * c[i - 2]) for i in range(3))

    first, second, third = ([sum(map(mul, one, other)) for one in columns] for other in columns)
    whole = determinant(first, second, third)
    priced = [sum(map(mul, column, costs)) for column in columns]
    return -determinant(first, priced, third) / whole / 10**12 if whole else 0.0
