"""Say what was found: figures of any ledger, the vocabulary of differences, a sentence each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum

from pipeline.bill import Entry
from pipeline.domain import Usage

MOST_NAMES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What one ledger says of some requests. None: it does not say."""

    requests: int | None = None
    input_tokens: int | None = None
    """Includes cached tokens."""
    cached_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None

    @classmethod
    def of_usage(cls, usage: Usage) -> Figures:
        return cls(**{field.name: getattr(usage, field.name) for field in fields(cls)})

    @classmethod
    def of_entries(cls, entries: Sequence[Entry], *, sums: bool = False) -> Figures:
        """Lines of a bill, added up; no line at all is zero."""
        if not entries:
            return cls.of_usage(Usage())
        cells = {f.name: [getattr(entry, f.name) for entry in entries] for f in fields(cls)}
        told = {name: [v for v in values if v is not None] for name, values in cells.items()}
        said = {name: sum(values) if values else None for name, values in told.items()}
        return cls(**said if sums else said | {"requests": len(entries)})

    def __sub__(self, other: Figures) -> Figures:
        pairs = {f.name: (getattr(self, f.name), getattr(other, f.name)) for f in fields(self)}
        return Figures(**{n: None if None in (a, b) else a - b for n, (a, b) in pairs.items()})

    @property
    def words(self) -> str:
        """`12 requests, 3,400 tokens in, 120 out, $0.1200`; what is unknown is left out."""
        said = [] if self.requests is None else [many(self.requests, "request")]
        if self.input_tokens is not None:
            said.append(f"{self.input_tokens:,} tokens in")
        if self.output_tokens is not None:
            said.append(f"{self.output_tokens:,} out")
        if self.cost_usd is not None:
            said.append(money(self.cost_usd))
        return ", ".join(said)


def many(number: int, noun: str) -> str:
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def money(usd: float) -> str:
    return f"{'-' if usd < 0 else ''}${abs(usd):,.4f}"


def listed(names: Iterable[str]) -> str:
    every = [name or "no model" for name in names]
    more = f" and {len(every) - MOST_NAMES} more" if len(every) > MOST_NAMES else ""
    return ", ".join(every[:MOST_NAMES]) + more


class Standing(StrEnum):
    """What a finding is worth; the loudest first."""

    ALARM = "alarm"
    UNEXPLAINED = "unexplained"
    EXPLAINED = "explained"
    NOTE = "note"
    """No difference: something that a reader should know."""


class Kind(StrEnum):
    """What can be found between an agent, the tapes and a bill, and what that is worth."""

    standing: Standing

    def __new__(cls, word: str, standing: Standing) -> Kind:
        kind = str.__new__(cls, word)
        kind._value_, kind.standing = word, standing
        return kind

    ELSEWHERE = "elsewhere", Standing.ALARM
    NO_LINES = "no_lines", Standing.UNEXPLAINED
    OTHER_ZONE = "other_zone", Standing.UNEXPLAINED
    NOT_ON_BILL = "not_on_bill", Standing.UNEXPLAINED
    NOT_ON_TAPES = "not_on_tapes", Standing.UNEXPLAINED
    NO_TAPE = "no_tape", Standing.UNEXPLAINED
    OTHER_TOKENS = "other_tokens", Standing.UNEXPLAINED
    COST_DIFFERS = "cost_differs", Standing.UNEXPLAINED
    TOTALS_DIFFER = "totals_differ", Standing.UNEXPLAINED
    AGENT_DIFFERS = "agent_differs", Standing.UNEXPLAINED
    RETRIED_AND_BILLED = "retried_and_billed", Standing.EXPLAINED
    DISCARDED_AND_BILLED = "discarded_and_billed", Standing.EXPLAINED
    BILLED_TWICE = "billed_twice", Standing.EXPLAINED
    CUT_TAPE = "cut_tape", Standing.EXPLAINED
    ANOTHER_RUN = "another_run", Standing.EXPLAINED
    OWN_LOOK = "own_look", Standing.EXPLAINED
    OUTSIDE_WINDOW = "outside_window", Standing.EXPLAINED
    OTHER_MODEL = "other_model", Standing.EXPLAINED
    LATE = "late", Standing.EXPLAINED
    UNCACHED_INPUT = "uncached_input", Standing.EXPLAINED
    CACHED_IN_FULL = "cached_in_full", Standing.EXPLAINED
    OTHER_PRICE = "other_price", Standing.EXPLAINED
    ROUNDING = "rounding", Standing.EXPLAINED
    LOCAL_COUNT = "local_count", Standing.EXPLAINED
    UNSAID = "unsaid", Standing.EXPLAINED
    AGREED = "agreed", Standing.NOTE
    OTHER_NAME = "other_name", Standing.NOTE
    LEFT_OUT = "left_out", Standing.NOTE
    NO_USAGE = "no_usage", Standing.NOTE
    PRICE_UNKNOWN = "price_unknown", Standing.NOTE


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was found, in a sentence with figures."""

    kind: Kind
    text: str
    figures: Figures | None = None
    lines: Sequence[int] = ()
    """Of the bill's file, that it is about."""

    @property
    def settled(self) -> bool:
        """Whether nobody has to look any further."""
        return self.kind.standing in (Standing.NOTE, Standing.EXPLAINED)
