"""The vocabulary of differences: what was found, and whether it explains anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from pipeline.reconcile.figures import Figures


class Standing(StrEnum):
    """What a finding is worth."""

    NOTE = "note"
    """No difference: something that a reader should know."""
    EXPLAINED = "explained"
    UNEXPLAINED = "unexplained"
    ALARM = "alarm"
    """Unexplained, and to be said before anything else."""


class Kind(StrEnum):
    """What can be found between an agent, the tapes and a bill."""

    ELSEWHERE = "elsewhere"
    AGREED = "agreed"
    AGGREGATED = "aggregated"
    NO_ENDPOINT = "no_endpoint"
    OTHER_NAME = "other_name"
    LEFT_OUT = "left_out"
    NOT_BILLED = "not_billed"
    NO_USAGE = "no_usage"
    PRICE_UNKNOWN = "price_unknown"
    RETRIED_AND_BILLED = "retried_and_billed"
    DISCARDED_AND_BILLED = "discarded_and_billed"
    BILLED_TWICE = "billed_twice"
    CUT_TAPE = "cut_tape"
    OUTSIDE_WINDOW = "outside_window"
    OTHER_MODEL = "other_model"
    LATE = "late"
    BEGINS_LATER = "begins_later"
    UNCACHED_INPUT = "uncached_input"
    CACHED_IN_FULL = "cached_in_full"
    OTHER_PRICE = "other_price"
    ROUNDING = "rounding"
    LOCAL_COUNT = "local_count"
    UNSAID = "unsaid"
    OTHER_TOKENS = "other_tokens"
    NOT_ON_BILL = "not_on_bill"
    NOT_ON_TAPES = "not_on_tapes"
    NO_TAPE = "no_tape"
    COST_DIFFERS = "cost_differs"
    TOTALS_DIFFER = "totals_differ"
    AGENT_DIFFERS = "agent_differs"


STANDING: dict[Kind, Standing] = {
    Kind.ELSEWHERE: Standing.ALARM,
    Kind.AGREED: Standing.NOTE,
    Kind.AGGREGATED: Standing.NOTE,
    Kind.NO_ENDPOINT: Standing.NOTE,
    Kind.OTHER_NAME: Standing.NOTE,
    Kind.LEFT_OUT: Standing.NOTE,
    Kind.NOT_BILLED: Standing.NOTE,
    Kind.NO_USAGE: Standing.NOTE,
    Kind.PRICE_UNKNOWN: Standing.NOTE,
    Kind.RETRIED_AND_BILLED: Standing.EXPLAINED,
    Kind.DISCARDED_AND_BILLED: Standing.EXPLAINED,
    Kind.BILLED_TWICE: Standing.EXPLAINED,
    Kind.CUT_TAPE: Standing.EXPLAINED,
    Kind.OUTSIDE_WINDOW: Standing.EXPLAINED,
    Kind.OTHER_MODEL: Standing.EXPLAINED,
    Kind.LATE: Standing.EXPLAINED,
    Kind.BEGINS_LATER: Standing.EXPLAINED,
    Kind.UNCACHED_INPUT: Standing.EXPLAINED,
    Kind.CACHED_IN_FULL: Standing.EXPLAINED,
    Kind.OTHER_PRICE: Standing.EXPLAINED,
    Kind.ROUNDING: Standing.EXPLAINED,
    Kind.LOCAL_COUNT: Standing.EXPLAINED,
    Kind.UNSAID: Standing.EXPLAINED,
    Kind.OTHER_TOKENS: Standing.UNEXPLAINED,
    Kind.NOT_ON_BILL: Standing.UNEXPLAINED,
    Kind.NOT_ON_TAPES: Standing.UNEXPLAINED,
    Kind.NO_TAPE: Standing.UNEXPLAINED,
    Kind.COST_DIFFERS: Standing.UNEXPLAINED,
    Kind.TOTALS_DIFFER: Standing.UNEXPLAINED,
    Kind.AGENT_DIFFERS: Standing.UNEXPLAINED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was found, in a sentence with figures."""

    kind: Kind
    text: str
    figures: Figures | None = None
    lines: Sequence[int] = ()
    """Of the bill's file, that it is about."""

    @property
    def standing(self) -> Standing:
        return STANDING[self.kind]

    @property
    def settled(self) -> bool:
        """Whether nobody has to look any further."""
        return self.standing in (Standing.NOTE, Standing.EXPLAINED)
