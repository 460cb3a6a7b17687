"""Explain a bill that lists every request: what met, what did not, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipeline.bill import Entry
from pipeline.reconcile.figures import Figures, many, of_entries, of_usage
from pipeline.reconcile.findings import Finding, Kind
from pipeline.reconcile.matching import Matcher, Matching
from pipeline.reconcile.pairing import How, Pair, without
from pipeline.reconcile.requests import Fate, Request, usage_of
from pipeline.reconcile.window import Window, clock, names_of

MOST_LINES = 50


def finding(
    kind: Kind, entries: Sequence[Entry], text: str, *, aggregated: bool = False
) -> Finding:
    figures = of_entries(entries, aggregated=aggregated)
    lines = [entry.line for entry in entries][:MOST_LINES]
    return Finding(kind=kind, text=f"{text} ({figures.words})", figures=figures, lines=lines)


def of_matching(found: Matching, matcher: Matcher, window: Window) -> Iterator[Finding]:
    """Everything but the costs."""
    yield from of_pairs(found)
    yield from of_further_lines(found)
    yield from of_spare_lines(found, matcher, window)
    yield from of_spare_requests(found.requests, matcher)
    if found.strangers:
        yield finding(
            Kind.OTHER_MODEL,
            found.strangers,
            f"{many(len(found.strangers), 'line')} of other models, none of them this run's: "
            f"{names_of(found.strangers)}",
        )


def of_pairs(found: Matching) -> Iterator[Finding]:
    by_how: dict[How, list[Pair]] = {how: [] for how in How}
    for pair in found.pairs:
        by_how[pair.how].append(pair)
    tokens = [*by_how[How.ID], *by_how[How.TOKENS], *by_how[How.TIME]]
    other = [*by_how[How.SIMILAR], *(pair for pair in by_how[How.ID] if not same_tokens(pair))]
    agreed = [pair for pair in tokens if same_tokens(pair) and not is_discarded(pair)]
    if agreed:
        how = "by time alone: it has no tokens" if by_how[How.TIME] else "with equal tokens"
        text = f"{many(len(agreed), 'request')} on the tapes and on the bill, {how}"
        yield finding(Kind.AGREED, [pair.entry for pair in agreed], text)
    if by_how[How.FREE]:
        text = f"{many(len(by_how[How.FREE]), 'request')} failed and listed at no charge"
        yield Finding(kind=Kind.NOT_BILLED, text=text)
    if found.free:
        text = f"{many(len(found.free), 'line')} at no charge, and of no request: left out"
        yield finding(Kind.LEFT_OUT, found.free, text)
    if found.aliases:
        text = "the bill calls the run's model " + ", ".join(sorted(found.aliases))
        yield Finding(kind=Kind.OTHER_NAME, text=text)
    yield from of_mute_pairs([*by_how[How.RESENT], *by_how[How.SILENT]])
    discarded = [pair for pair in found.pairs if is_discarded(pair)]
    if discarded:
        text = f"{many(len(discarded), 'reply')} billed that the gateway discarded: no agent saw it"
        yield finding(Kind.DISCARDED_AND_BILLED, [pair.entry for pair in discarded], text)
    if by_how[How.UNCACHED]:
        cached = sum(
            pair.request.usage.cached_tokens for pair in by_how[How.UNCACHED] if pair.request.usage
        )
        text = (
            f"the bill leaves {cached:,} cached tokens out of the input of "
            f"{many(len(by_how[How.UNCACHED]), 'request')}"
        )
        yield finding(Kind.UNCACHED_INPUT, [pair.entry for pair in by_how[How.UNCACHED]], text)
    if other:
        yield other_tokens(other)


def of_mute_pairs(mute: Sequence[Pair]) -> Iterator[Finding]:
    """Requests of which the server counted nothing, and that are billed."""
    failed = [pair for pair in mute if pair.request.fate is Fate.FAILED]
    if failed:
        resent = sum(pair.how is How.RESENT for pair in failed)
        how = (
            "sent again after that, and both sendings are billed"
            if resent == len(failed)
            else f"{resent:,} of them told by tokens and time, the others by their time alone"
        )
        text = f"{many(len(failed), 'request')} billed without any answer: {how}"
        yield finding(Kind.RETRIED_AND_BILLED, [pair.entry for pair in failed], text)
    unsaid = [pair.entry for pair in mute if pair.request.fate is Fate.ANSWERED]
    if unsaid:
        text = f"{many(len(unsaid), 'answer')} without usage, billed; met by time"
        yield finding(Kind.NO_USAGE, unsaid, text)


def of_further_lines(found: Matching) -> Iterator[Finding]:
    """Lines of the run that are no tape's own."""
    if found.twice:
        text = (
            f"{many(len(found.twice), 'line')} over and above the one of a request that the tapes "
            "have once: billed twice, or sent again behind the endpoint"
        )
        yield finding(Kind.BILLED_TWICE, [entry for _, entry in found.twice], text)
    if found.cut:
        tapes = len({id(item) for item, _ in found.cut})
        text = (
            f"{many(len(found.cut), 'line')} of requests that were under way when "
            f"{many(tapes, 'try')} ended without a whole tape"
        )
        yield finding(Kind.CUT_TAPE, [entry for _, entry in found.cut], text)


def is_discarded(pair: Pair) -> bool:
    return pair.request.fate is Fate.DISCARDED


def same_tokens(pair: Pair) -> bool:
    """As far as both say."""
    usage, entry = pair.request.usage, pair.entry
    return usage is None or (
        entry.input_tokens in (None, usage.input_tokens, usage.input_tokens - usage.cached_tokens)
        and entry.output_tokens in (None, usage.output_tokens)
    )


def other_tokens(pairs: Sequence[Pair]) -> Finding:
    ours = of_usage(usage_of(pair.request for pair in pairs))
    theirs = of_entries([pair.entry for pair in pairs])
    apart = theirs - ours
    text = (
        f"{many(len(pairs), 'request')} billed with other tokens than the server reported: "
        f"{theirs.input_tokens or 0:,} in and {theirs.output_tokens or 0:,} out, reported "
        f"{ours.input_tokens:,} and {ours.output_tokens:,}; an export with the model's native "
        "counts would tell whether the bill uses another tokenizer"
    )
    lines = [pair.entry.line for pair in pairs][:MOST_LINES]
    return Finding(kind=Kind.OTHER_TOKENS, text=text, figures=apart, lines=lines)


def of_spare_lines(found: Matching, matcher: Matcher, window: Window) -> Iterator[Finding]:
    """Lines of the run's model that are no request of it."""
    tolerance = matcher.tolerance
    within = [entry for entry in found.entries if window.holds(entry.time, tolerance)]
    outside = without(found.entries, within)
    if outside:
        before = sum(entry.time < window.begun for entry in outside)
        after = sum(entry.time > window.ended for entry in outside)
        still = len(outside) - before - after
        while_still = f", {still:,} while it stood still" if still else ""
        text = (
            f"{many(len(outside), 'line')} outside the run's window, {window.words}: "
            f"{before:,} before it, {after:,} after it{while_still}"
        )
        yield finding(Kind.OUTSIDE_WINDOW, outside, text)
    yield from of_strange_lines(within)


def of_strange_lines(entries: Sequence[Entry]) -> Iterator[Finding]:
    """Lines that should be the run's, and are not."""
    if entries:
        text = (
            f"{many(len(entries), 'line')} of the run's model, inside its window, that no tape "
            "knows: somebody else uses the same key, or the run's key is used outside the gateway"
        )
        yield finding(Kind.NOT_ON_TAPES, entries, text)


def of_spare_requests(requests: Sequence[Request], matcher: Matcher) -> Iterator[Finding]:
    """Requests of the run that the bill does not have."""
    entries, tolerance = matcher.bill.entries, matcher.tolerance
    failed = [r for r in requests if r.fate is Fate.FAILED]
    rest = [r for r in requests if r.fate is not Fate.FAILED]
    if failed:
        text = f"{many(len(failed), 'request')} failed and not on the bill: rightly so"
        yield Finding(kind=Kind.NOT_BILLED, text=text, figures=Figures(requests=len(failed)))
    if not rest or not entries:
        return
    low, high = entries[0].time - tolerance, entries[-1].until + tolerance
    late = [request for request in rest if request.begun > high]
    early = [request for request in rest if request.ended < low]
    missing = [request for request in rest if request.begun <= high and request.ended >= low]
    if late:
        figures = of_usage(usage_of(late))
        text = (
            f"the bill may not be complete yet: its last line is of "
            f"{clock(entries[-1].until)} UTC, and {figures.words} of the run are after it; "
            "export it again later"
        )
        yield Finding(kind=Kind.LATE, text=text, figures=figures)
    if early:
        figures = of_usage(usage_of(early))
        text = (
            f"the bill begins at {clock(entries[0].time)} UTC, and {figures.words} of the run "
            "are before that; export it from an earlier time"
        )
        yield Finding(kind=Kind.BEGINS_LATER, text=text, figures=figures)
    if missing:
        figures = of_usage(usage_of(missing))
        text = f"on the tapes and not on the bill: {figures.words}"
        yield Finding(kind=Kind.NOT_ON_BILL, text=text, figures=figures)
