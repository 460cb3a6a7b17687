"""Hold a bill that counts by hour or day against the tapes: in total only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipeline.bill import Bill, Entry
from pipeline.reconcile.costs import NEAR, NOISE_USD, parts, prices, vector
from pipeline.reconcile.figures import Figures, many, money, of_entries, of_usage
from pipeline.reconcile.findings import Finding, Kind
from pipeline.reconcile.lines import finding
from pipeline.reconcile.pairing import plain
from pipeline.reconcile.requests import Fate, Request, usage_of
from pipeline.reconcile.window import Window, clock, names_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The lines of such a bill, by whether they can be the run's."""

    ours: Sequence[Entry]
    outside: Sequence[Entry]
    strangers: Sequence[Entry]

    @classmethod
    def of(cls, bill: Bill, requests: Sequence[Request], window: Window) -> Share:
        names = {plain(name) for request in requests for name in request.names}
        ours: list[Entry] = []
        outside: list[Entry] = []
        strangers: list[Entry] = []
        for entry in bill.entries:
            if entry.model and plain(entry.model) not in names:
                strangers.append(entry)
            elif entry.until > window.begun and entry.time <= window.ended:
                ours.append(entry)
            else:
                outside.append(entry)
        return cls(ours=ours, outside=outside, strangers=strangers)

    @property
    def empty(self) -> bool:
        figures = of_entries(self.ours, aggregated=True)
        return not (figures.requests or figures.input_tokens or figures.output_tokens)


def of_totals(
    bill: Bill, share: Share, requests: Sequence[Request], window: Window
) -> Iterator[Finding]:
    """What the sums say; an alarm for none at all is the caller's."""
    yield Finding(
        kind=Kind.AGGREGATED,
        text="the bill sums requests up by the hour or day: it is compared in total, and no "
        "attempt's share can be told",
    )
    if share.outside:
        text = f"{many(len(share.outside), 'line')} outside the run's window, {window.words}"
        yield finding(Kind.OUTSIDE_WINDOW, share.outside, text, aggregated=True)
    if share.strangers:
        text = (
            f"{many(len(share.strangers), 'line')} of other models, none of them this run's: "
            f"{names_of(share.strangers)}"
        )
        yield finding(Kind.OTHER_MODEL, share.strangers, text, aggregated=True)
    end = max(entry.until for entry in share.ours)
    late = [request for request in requests if request.begun >= end]
    covered = [request for request in requests if request.begun < end]
    if late:
        figures = of_usage(usage_of(late))
        text = (
            f"the bill may not be complete yet: it ends at {clock(end)} UTC, and "
            f"{figures.words} of the run are after that; export it again later"
        )
        yield Finding(kind=Kind.LATE, text=text, figures=figures)
    yield from of_sums(bill, share.ours, covered)


def of_sums(bill: Bill, ours: Sequence[Entry], requests: Sequence[Request]) -> Iterator[Finding]:
    counted = [request for request in requests if request.fate is not Fate.FAILED]
    failed = [request for request in requests if request.fate is Fate.FAILED]
    seen, billed = of_usage(usage_of(counted)), of_entries(ours, aggregated=True)
    apart = billed - seen
    more, more_in, more_out = apart.requests, apart.input_tokens, apart.output_tokens
    figures = Figures(requests=more, input_tokens=more_in, output_tokens=more_out)
    if not (more or more_in or more_out):
        text = f"bill and tapes agree in total: {billed.words}"
        yield Finding(kind=Kind.AGREED, text=text, figures=billed)
        yield from of_sum_costs(bill, ours, counted)
        return
    if not (more or more_out) and more_in == -(seen.cached_tokens or 0):
        text = f"the bill leaves {seen.cached_tokens or 0:,} cached tokens out of its input"
        yield Finding(kind=Kind.UNCACHED_INPUT, text=text, figures=figures)
        yield from of_sum_costs(bill, ours, counted)
        return
    largest = max((request.usage.input_tokens for request in counted if request.usage), default=0)
    if more and 0 < more <= len(failed) and 0 <= (more_in or 0) <= more * largest:
        text = (
            f"the bill has {many(more, 'request')} more than the tapes have answers "
            f"({figures.words}), and {many(len(failed), 'request')} failed: such as were sent "
            "again are billed too"
        )
        yield Finding(kind=Kind.RETRIED_AND_BILLED, text=text, figures=figures)
        return
    least = min(value for value in (more, more_in, more_out, 0) if value is not None)
    why = (
        "what the tapes have is missing from it"
        if least < 0
        else "it may hold what others asked in the same hours; an export by request would tell"
    )
    text = f"the bill has {billed.words}, the tapes {seen.words}: {why}"
    yield Finding(kind=Kind.TOTALS_DIFFER, text=text, figures=apart)


def of_sum_costs(
    bill: Bill, ours: Sequence[Entry], requests: Sequence[Request]
) -> Iterator[Finding]:
    """For equal tokens: the price."""
    usage, billed = usage_of(requests), of_entries(ours, aggregated=True).cost_usd
    if billed is None:
        return
    if usage.cost_usd is None:
        text = (
            f"the tapes do not know what every request cost; the bill asks {money(billed)} "
            "(model.prices in the config gives the tapes a price)"
        )
        yield Finding(kind=Kind.PRICE_UNKNOWN, text=text, figures=Figures(cost_usd=billed))
        return
    apart = billed - usage.cost_usd
    figures = Figures(cost_usd=apart)
    if abs(apart) <= NOISE_USD * len(requests):
        return
    if abs(apart) <= bill.cost_step_usd * len(ours):
        text = (
            f"costs differ by {money(apart)} over {many(len(ours), 'line')}, by no more than the "
            f"last decimal ({bill.cost_step_usd:g}) of each: rounding"
        )
        yield Finding(kind=Kind.ROUNDING, text=text, figures=figures)
        return
    usages = [request.usage for request in requests if request.usage]
    fitted = prices(parts(usages), vector([item.cost_usd or 0.0 for item in usages]), NOISE_USD)
    full = float(fitted[0] - fitted[1]) * usage.cached_tokens if fitted is not None else 0.0
    if full > 0 and abs(apart - full) <= NEAR * full + bill.cost_step_usd * len(ours):
        text = (
            f"the bill asks {money(apart)} more, which is the discount of the "
            f"{usage.cached_tokens:,} cached tokens: they are priced in full"
        )
        yield Finding(kind=Kind.CACHED_IN_FULL, text=text, figures=figures)
        return
    text = (
        f"the bill asks {money(billed)} and the tapes {money(usage.cost_usd)} for the same tokens: "
        "compare model.prices with the bill's"
    )
    yield Finding(kind=Kind.COST_DIFFERS, text=text, figures=figures)
