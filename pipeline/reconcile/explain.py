"""Say in sentences what parts a bill, the tapes and the agent, and why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import timedelta

from pipeline.bill import Bill, Entry, discount_of, plain
from pipeline.domain import Usage
from pipeline.reconcile.findings import Figures, Finding, Kind, listed, many, money
from pipeline.reconcile.ledgers import LOCAL, SPEAKING, Fate, Request, Try, Window, clock, total
from pipeline.reconcile.matching import Matching, Pair, without

NOISE_USD = 1e-9
"""Of sums of floating-point numbers."""
NEAR = 0.02
PRICED = (Kind.AGREED, Kind.DISCARDED_AND_BILLED, Kind.UNCACHED_INPUT)
"""Of the same tokens on both sides."""
PAIRED = {
    Kind.AGREED: ("request", "on the tapes and on the bill, with equal tokens"),
    Kind.RETRIED_AND_BILLED: (
        "request",
        "billed without any answer: sent again after that, and both sendings are billed",
    ),
    Kind.DISCARDED_AND_BILLED: ("reply", "billed that the gateway discarded: no agent saw it"),
    Kind.BILLED_TWICE: ("line", "more for requests that the tapes have once: billed twice"),
    Kind.CUT_TAPE: ("line", "of requests that were under way when their try was killed"),
    Kind.UNCACHED_INPUT: ("request", "billed without the cached tokens of its input"),
    Kind.OTHER_TOKENS: ("request", "billed with other tokens than the server said"),
    Kind.NO_USAGE: ("answer", "without usage, billed; met by time"),
}


def of_entries(
    kind: Kind, entries: Sequence[Entry], noun: str, words: str, *, sums: bool = False
) -> Iterator[Finding]:
    """About lines of the bill, if any, with what they come to."""
    if entries:
        figures = Figures.of_entries(entries, sums=sums)
        text = f"{many(len(entries), noun)} {words} ({figures.words})"
        lines = [entry.line for entry in entries]
        yield Finding(kind=kind, text=text, figures=figures, lines=lines)


def of_requests(kind: Kind, requests: Sequence[Request], words: str) -> Iterator[Finding]:
    """About requests of the tapes, if any."""
    if requests:
        figures = Figures.of_usage(total(requests))
        yield Finding(kind=kind, text=words.format(figures.words), figures=figures)


def of_bill(
    found: Matching, bill: Bill, requests: Sequence[Request], *, window: Window, where: str
) -> Iterator[Finding]:
    """A bill against the tapes."""
    words = (
        "of the run's model, inside its window, that no tape knows: another run or somebody else "
        "uses the same key, or the run's key is used outside the gateway"
    )
    if found.repeats:
        words += f"; {found.repeats:,} with the tokens of requests that have their line already"
    yield from of_entries(Kind.NOT_ON_TAPES, found.entries, "line", words)
    for name, entries in found.others.items():
        words = f"{'is' if len(entries) == 1 else 'are'} of run {name}, whose tapes know them"
        yield from of_entries(Kind.ANOTHER_RUN, entries, "line", words)
    if not found.ours:
        yield of_nothing(bill, requests, found.shift, window=window, where=where)
        return
    yield from of_sums(found.sums, bill, requests) if bill.aggregated else of_pairs(found)
    yield from of_others(found, window, sums=bill.aggregated)
    if not bill.aggregated:
        yield from of_rest(found, bill)


def of_pairs(found: Matching) -> Iterator[Finding]:
    by_kind: dict[Kind, list[Pair]] = {kind: [] for kind in PAIRED}
    for pair in found.pairs:
        by_kind[pair.kind].append(pair)
    for kind, pairs in by_kind.items():
        yield from of_entries(kind, [pair.entry for pair in pairs], *PAIRED[kind])
    names = {pair.entry.model for pair in found.pairs if pair.entry.model}
    aliases = sorted(name for name in names if plain(name) not in found.names)
    if aliases:
        text = f"the bill calls the run's model {listed(aliases)}"
        yield Finding(kind=Kind.OTHER_NAME, text=text)


def of_others(found: Matching, window: Window, *, sums: bool) -> Iterator[Finding]:
    """Lines that need not be the run's."""
    outside, strangers = found.outside, found.strangers
    before = sum(entry.until < window.begun for entry in outside)
    after = sum(entry.time > window.ended for entry in outside)
    still = len(outside) - before - after
    words = (
        f"outside the run's window, {window.words}: {before:,} before it, {after:,} after it"
        f"{f', {still:,} while it stood still' if still else ''}"
    )
    yield from of_entries(Kind.OUTSIDE_WINDOW, outside, "line", words, sums=sums)
    names = listed(sorted({entry.model for entry in strangers}))
    words = f"of other models, none of them this run's: {names}"
    yield from of_entries(Kind.OTHER_MODEL, strangers, "line", words, sums=sums)
    yield from of_entries(Kind.LEFT_OUT, found.free, "line", "at no charge left out")


def of_late(requests: Sequence[Request], entries: Sequence[Entry]) -> Iterator[Finding]:
    words = (
        f"the bill may not be complete yet: it goes from {clock(entries[0].time)} to "
        f"{clock(entries[-1].until)} UTC, and {{}} of the run are outside that; export it again"
    )
    yield from of_requests(Kind.LATE, requests, words)


def of_rest(found: Matching, bill: Bill) -> Iterator[Finding]:
    """Requests that the bill does not have, and what it asks for the others."""
    # What failed is rightly not on it.
    rest = [request for request in found.requests if request.fate is not Fate.FAILED]
    low, high = bill.entries[0].time - found.tolerance, bill.entries[-1].until + found.tolerance
    missing = [request for request in rest if request.begun <= high and request.ended >= low]
    yield from of_late(without(rest, missing), bill.entries)
    yield from of_requests(Kind.NOT_ON_BILL, missing, "on the tapes and not on the bill: {}")
    priced = [
        (pair.request.usage, pair.entry.cost_usd)
        for pair in found.pairs
        if pair.kind in PRICED and pair.request.usage and pair.entry.cost_usd is not None
    ]
    yield from of_costs(priced, bill.cost_step_usd, discount_of([usage for usage, _ in priced]))


def of_sums(ours: Sequence[Entry], bill: Bill, requests: Sequence[Request]) -> Iterator[Finding]:
    """A bill that counts by hour or day, or no tokens at all: in total only."""
    late = [r for r in requests if r.begun >= max(entry.until for entry in ours)]
    yield from of_late(late, ours)
    failed = [request for request in requests if request.fate is Fate.FAILED]
    counted = without(requests, [*late, *failed])
    seen, billed = Figures.of_usage(total(counted)), Figures.of_entries(ours, sums=True)
    apart = billed - seen
    more = [value for value in (apart.requests, apart.input_tokens, apart.output_tokens) if value]
    largest = max((request.usage.tokens for request in counted if request.usage), default=0)
    again = apart.requests or 0
    kind, text = (
        Kind.TOTALS_DIFFER,
        f"in total, the bill has {billed.words}, the tapes {seen.words}",
    )
    if not more:
        kind, text = (
            Kind.AGREED,
            f"bill and tapes agree in total, its lines being sums: {billed.words}",
        )
    elif min(more) < 0:
        text += ": what the tapes have is missing from it"
    elif 0 < again <= len(failed) and sum(more) <= again * (1 + largest):
        kind = Kind.RETRIED_AND_BILLED
        text += f", and {many(len(failed), 'request')} failed: such as were sent again are billed"
    else:
        text += ": it may hold what others asked; an export by request would tell"
    yield Finding(kind=kind, text=text, figures=apart if more else billed)
    if kind is Kind.AGREED and billed.cost_usd is not None:
        discount = discount_of([request.usage for request in counted if request.usage])
        priced = [(total(counted), billed.cost_usd)]
        yield from of_costs(priced, bill.cost_step_usd * len(ours), discount)


def of_costs(
    priced: Sequence[tuple[Usage, float]], step_usd: float, discount: float
) -> Iterator[Finding]:
    """What the same tokens cost on the tapes and on the bill, by line or in total."""
    costs = [(usage.cost_usd, cost) for usage, cost in priced if usage.cost_usd is not None]
    unknown = [(usage.requests, cost) for usage, cost in priced if usage.cost_usd is None]
    if unknown:
        number, asked = sum(number for number, _ in unknown), sum(cost for _, cost in unknown)
        text = (
            f"the tapes do not know the price of {many(number, 'request')}; the bill asks "
            f"{money(asked)} (model.prices in the config gives the tapes a price)"
        )
        yield Finding(kind=Kind.PRICE_UNKNOWN, text=text, figures=Figures(cost_usd=asked))
    ours, billed = sum(one for one, _ in costs), sum(other for _, other in costs)
    apart, noise = billed - ours, NOISE_USD * sum(usage.requests for usage, _ in priced)
    tolerance = step_usd + noise / max(len(priced), 1)
    differing = sum(abs(other - one) > tolerance for one, other in costs)
    if not differing and abs(apart) <= noise:
        return
    cached = sum(usage.cached_tokens for usage, _ in priced if usage.cost_usd is not None)
    full, factor = discount * cached, billed / ours if ours else 0.0
    kind = Kind.COST_DIFFERS
    text = f"the bill asks {money(billed)} and the tapes {money(ours)} for the same tokens"
    if not differing:
        kind = Kind.ROUNDING
        text += f", no line more apart than its last decimal ({step_usd:g})"
    elif full > 0 and abs(apart - full) <= NEAR * full + tolerance * len(costs):
        kind = Kind.CACHED_IN_FULL
        text = (
            f"the bill asks {money(apart / cached * 1_000_000)} more for each million cached "
            f"tokens than the tapes do, {money(apart)} for {cached:,}: exactly what uncached ones "
            "cost; cached tokens are priced in full"
        )
    elif len(costs) > 1 and all(abs(b - factor * a) <= tolerance + NEAR / 2 * b for a, b in costs):
        kind = Kind.OTHER_PRICE
        text += f", {factor:.4g} times as much on every line: a fee, a discount or a currency"
    else:
        text += (
            f", another sum on {differing:,} of {many(len(costs), 'line')}: compare model.prices "
            "in the config with the bill's"
        )
    yield Finding(kind=kind, text=text, figures=Figures(cost_usd=apart))


def of_agent(agent: str, tries: Sequence[Try]) -> Iterator[Finding]:
    """Where its own count is another than the gateway's."""
    apart: defaultdict[Kind, list[Try]] = defaultdict(list)
    for item in (item for item in tries if agent in SPEAKING and not item.own):
        said, seen = item.said or Usage(), total(item.answered)
        same = (said.input_tokens, said.output_tokens) == (seen.input_tokens, seen.output_tokens)
        if said.requests < seen.requests and (agent in LOCAL or said.tokens <= seen.tokens):
            apart[Kind.UNSAID].append(item)
        elif said.requests != seen.requests:
            # A tape that is not whole says nothing against the agent.
            if not (item.cut or item.damage):
                apart[Kind.AGENT_DIFFERS].append(item)
        elif not same:
            unsaid = agent in LOCAL or any(request.usage is None for request in item.answered)
            apart[Kind.LOCAL_COUNT if unsaid else Kind.AGENT_DIFFERS].append(item)
    why = {
        Kind.UNSAID: "it ended before it wrote its last replies down",
        Kind.LOCAL_COUNT: f"{agent} counts tokens by itself, without the server's word",
        Kind.AGENT_DIFFERS: "nothing explains it",
    }
    for kind, items in apart.items():
        ours = Figures.of_usage(sum((item.said or Usage() for item in items), Usage()))
        theirs = Figures.of_usage(total(r for item in items for r in item.answered))
        where = listed(f"{i.attempt.instance_id} #{i.attempt.number} try {i.number}" for i in items)
        text = f"{agent} says {ours.words}, the gateway {theirs.words}: {why[kind]} ({where})"
        yield Finding(kind=kind, text=text, figures=ours - theirs)


def of_tapes(tries: Sequence[Try]) -> Iterator[Finding]:
    """What the tapes themselves leave open."""
    damage = [item.damage for item in tries if item.damage]
    if damage:
        text = f"not everything that was asked can be held against the bill: {listed(damage)}"
        yield Finding(kind=Kind.NO_TAPE, text=text)
    quiet = [r for item in tries for r in item.answered if r.usage is None]
    words = f"{many(len(quiet), 'answer')} without usage: the gateway's figures lack their tokens"
    yield from of_requests(Kind.NO_USAGE, quiet, words)
    look = [r for item in tries if item.own for r in item.requests]
    words = f"{many(len(look), 'request')} of passone's own look before the run, no agent's: {{}}"
    yield from of_requests(Kind.OWN_LOOK, look, words)


def of_nothing(
    bill: Bill, requests: Sequence[Request], shift: timedelta, *, window: Window, where: str
) -> Finding:
    """Nothing of the run is on the bill; say it loudly, unless it is seen why."""
    asked, number = f"The run asked {where} from {window.words}", many(len(requests), "request")
    if not bill.entries:
        gone = f" with a time ({bill.left_out:,} without one)" if bill.left_out else ""
        kind, text = (
            Kind.NO_LINES,
            f"the bill has no lines{gone}, and so none of the run's {number}: it may be exported "
            f"for another period, account, key or filter, or before it was settled. {asked}",
        )
    elif shift:
        zone, late = bill.zone_of(shift), "late" if shift > timedelta() else "early"
        remedy = f"try again with --timezone {zone}" if zone else "export it again in UTC"
        kind, text = (
            Kind.OTHER_ZONE,
            f"the bill has the run's requests {abs(shift) / timedelta(hours=1):g} h too {late}: "
            f"its times are of another zone{'' if zone else ' than they say'}; {remedy}. {asked}",
        )
    else:
        names = listed(sorted({entry.model for entry in bill.entries}))
        first, last = clock(bill.entries[0].time), clock(bill.entries[-1].until)
        kind, text = (
            Kind.ELSEWHERE,
            f"NOT ONE of the run's {number} is on this bill: the traffic went elsewhere. {asked}. "
            f"The bill runs from {first} to {last} UTC, of {names}. Is it the bill of that "
            "endpoint, of that account and key, and settled already? Are its times of another "
            "zone (--timezone)? Was a base URL or a key of the environment used in place of the "
            "config's?",
        )
    return Finding(kind=kind, text=text, figures=Figures(requests=0))
