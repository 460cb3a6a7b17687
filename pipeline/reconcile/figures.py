"""Requests, tokens and money of any ledger, added up and written out; unknown stays unknown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pipeline.bill import Entry
from pipeline.domain import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What one ledger says of some requests. None: it does not say."""

    requests: int | None = None
    input_tokens: int | None = None
    """Includes cached tokens."""
    cached_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None

    def __sub__(self, other: Figures) -> Figures:
        return Figures(
            requests=less(self.requests, other.requests),
            input_tokens=less(self.input_tokens, other.input_tokens),
            cached_tokens=less(self.cached_tokens, other.cached_tokens),
            output_tokens=less(self.output_tokens, other.output_tokens),
            cost_usd=None
            if self.cost_usd is None or other.cost_usd is None
            else self.cost_usd - other.cost_usd,
        )

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


def less(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one - other


def many(number: int, noun: str) -> str:
    plural = f"{noun[:-1]}ies" if noun.endswith("y") and noun != "day" else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def money(usd: float) -> str:
    return f"{'-' if usd < 0 else ''}${abs(usd):,.4f}"


def of_usage(usage: Usage) -> Figures:
    return Figures(
        requests=usage.requests,
        input_tokens=usage.input_tokens,
        cached_tokens=usage.cached_tokens,
        output_tokens=usage.output_tokens,
        cost_usd=usage.cost_usd,
    )


def known(values: Iterable[int | None]) -> int | None:
    """The sum of what is said; None where nothing is."""
    said = [value for value in values if value is not None]
    return sum(said) if said else None


def of_entries(entries: Sequence[Entry], *, aggregated: bool = False) -> Figures:
    """Lines of a bill, added up; no line at all is zero."""
    if not entries:
        return Figures(requests=0, input_tokens=0, cached_tokens=0, output_tokens=0, cost_usd=0.0)
    costs = [entry.cost_usd for entry in entries if entry.cost_usd is not None]
    counted = known(entry.requests for entry in entries)
    return Figures(
        requests=counted if aggregated else len(entries),
        input_tokens=known(entry.input_tokens for entry in entries),
        cached_tokens=known(entry.cached_tokens for entry in entries),
        output_tokens=known(entry.output_tokens for entry in entries),
        cost_usd=sum(costs) if costs else None,
    )
