"""Turn a cell of a bill into a number or a moment, whoever wrote it; None is an empty cell."""

from __future__ import annotations

import re
import zoneinfo
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import Decimal, InvalidOperation

from pipeline.outcomes import UserError

EMPTY = {"", "-", "–", "null", "none", "n/a", "nan"}
GROUPED = re.compile(r"[+-]?\d{1,3}([.,'’ \u00a0\u202f]\d{3})+")
MONEY = re.compile(r"usd|us\$|\$|credits?", re.IGNORECASE)
CURRENCY = re.compile(r"[a-z]{3}|[€£¥￥₹₩元]", re.IGNORECASE)
OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2}):?(\d{2})?", re.IGNORECASE)
SPOKEN_UTC = re.compile(r"\s*(?:[+-]00:?00)?\s*(?:UTC|GMT)$", re.IGNORECASE)
MOST = Decimal(10) ** 18
YEARS = range(2000, 2101)
UNIX = re.compile(r"\d{9,19}(\.\d+)?")
"""Seconds since 1970, or milli-, micro- or nanoseconds; eight digits are a date."""


def zone_of(name: str) -> tzinfo:
    """`UTC`, `+08:00` or `Europe/Berlin`.

    Raises:
        UserError: nobody knows this zone.
    """
    offset = OFFSET.fullmatch(name.strip())
    if offset:
        minutes = int(offset[2]) * 60 + int(offset[3] or 0)
        if minutes < 24 * 60:
            return timezone(timedelta(minutes=-minutes if offset[1] == "-" else minutes))
    try:
        return UTC if name.upper() in ("UTC", "Z") else zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise UserError(
            f"time zone {name!r} is not known; give a name such as Asia/Shanghai, or +08:00"
        ) from None


def text_of(cell: object) -> str:
    text = "" if cell is None else str(cell).strip()
    return "" if text.lower() in EMPTY else text


def amount(cell: object, *, decimal_comma: bool = False, foreign: bool = False) -> Decimal | None:
    """Money, or any number with a fraction; of any currency, where its rate is known.

    Raises:
        ValueError: it is no number.
    """
    text = (CURRENCY if foreign else MONEY).sub("", text_of(cell)).replace("$", "").strip()
    if not text:
        return None
    if text.startswith("(") and text.endswith(")"):
        text = f"-{text[1:-1]}"
    text = re.sub(r"['’\s\u00a0\u202f]", "", text)
    if decimal_comma and "," in text:
        text = text.replace(".", "").replace(",", ".")
    elif "," in text:
        last = max(text.rfind(","), text.rfind("."))
        whole, fraction = text[:last], text[last + 1 :]
        # 0,123 is a fraction: no thousand begins with a nought.
        groups = text[last] == "," and whole.lstrip("-") != "0" and len(fraction) == 3
        whole = re.sub(r"[.,]", "", whole)
        text = whole + fraction if groups else f"{whole}.{fraction}"
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise ValueError(f"{cell!r} is no number") from None
    if not value.is_finite() or abs(value) > MOST:
        raise ValueError(f"{cell!r} is no number")
    return value


def count(cell: object, *, unit: float = 1.0, decimal_comma: bool = False) -> int | None:
    """A number of tokens or requests; `1,204` and `1.204` are grouped, whatever the file.

    Raises:
        ValueError: it is none.
    """
    text = text_of(cell)
    # 1.204 that counts millions is no group of thousands.
    if unit == 1 and GROUPED.fullmatch(text):
        text = re.sub(r"[^\d+-]", "", text)
    value = amount(text, decimal_comma=decimal_comma)
    if value is None:
        return None
    number = value * Decimal(str(unit))
    if number < 0 or (unit == 1 and number % 1):
        raise ValueError(f"{cell!r} is no count")
    return round(number)


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
        said_utc = SPOKEN_UTC.search(text)
        if said_utc:
            text = text[: said_utc.start()] + "+00:00"
        text = re.sub(r"^(\d{4})/(\d{1,2})/(\d{1,2})", r"\1-\2-\3", text)
        text = re.sub(r"^(\d{4})-(\d)(?=\D)", r"\1-0\2", text)
        text = re.sub(r"^(\d{4}-\d{2})-(\d)(?=\D|$)", r"\1-0\2", text)
        try:
            found = datetime.fromisoformat(text)
        except ValueError:
            raise ValueError(
                f"{cell!r} is no time that reads in one way only; say how it is written: "
                "`time_format: '%m/%d/%Y %H:%M'` in a --columns file"
            ) from None
    if found.year not in YEARS:
        raise ValueError(f"{cell!r} is no time of a bill: it is of the year {found.year}")
    return found if found.tzinfo else found.replace(tzinfo=zone)
