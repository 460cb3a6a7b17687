"""Hold a bill against the tapes, line by line or sum by sum."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.bill import Entry
from pipeline.domain import Attempt
from pipeline.reconcile.alarm import alarm, shifted
from pipeline.reconcile.costs import of_costs
from pipeline.reconcile.findings import Finding
from pipeline.reconcile.lines import of_matching, of_strange_lines
from pipeline.reconcile.matching import Matcher, Matching
from pipeline.reconcile.pairing import without
from pipeline.reconcile.requests import Request
from pipeline.reconcile.totals import Share, of_totals
from pipeline.reconcile.window import Window


def lines_by_attempt(found: Matching) -> dict[Attempt, list[Entry]]:
    lines: defaultdict[Attempt, list[Entry]] = defaultdict(list)
    for pair in found.pairs:
        lines[pair.request.attempt].append(pair.entry)
    for request, entry in found.twice:
        lines[request.attempt].append(entry)
    for item, entry in found.cut:
        lines[item.attempt].append(entry)
    return lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A bill against the tapes."""

    findings: Sequence[Finding]
    ours: Sequence[Entry]
    unmatched: Sequence[Entry]
    others: Sequence[Entry]
    by_attempt: dict[Attempt, list[Entry]] | None
    """None: its lines are sums."""


def alarms(matcher: Matcher, window: Window, hint: str) -> list[Finding]:
    """Loud, unless no endpoint was ever asked."""
    asked = any("://" in item.where for item in matcher.tries)
    return [alarm(matcher.bill, matcher.tries, window, hint)] if asked else []


def compare_sums(matcher: Matcher, requests: Sequence[Request], window: Window) -> Compared:
    share = Share.of(matcher.bill, requests, window)
    others = [*share.outside, *share.strangers]
    if share.empty:
        findings = alarms(matcher, window, "")
    else:
        findings = list(of_totals(matcher.bill, share, requests, window))
    return Compared(
        findings=findings, ours=share.ours, unmatched=(), others=others, by_attempt=None
    )


def compare_lines(matcher: Matcher, window: Window) -> Compared:
    found = matcher.match()
    by_attempt = lines_by_attempt(found)
    ours = [entry for lines in by_attempt.values() for entry in lines]
    unmatched = [e for e in found.entries if window.holds(e.time, matcher.tolerance)]
    outside = without(found.entries, unmatched)
    findings: list[Finding] = []
    if not ours:
        findings += alarms(matcher, window, shifted(matcher))
        findings += of_strange_lines(unmatched)
    else:
        findings += of_matching(found, matcher, window)
        findings += of_costs(found.pairs, matcher.bill.cost_step_usd)
    return Compared(
        findings=findings,
        ours=ours,
        unmatched=unmatched,
        others=[*outside, *found.strangers],
        by_attempt=by_attempt,
    )
