"""Say it loudly: nothing of the run is on the bill."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from datetime import datetime, timedelta

from pipeline.bill import Bill
from pipeline.reconcile.figures import Figures, many
from pipeline.reconcile.findings import Finding, Kind
from pipeline.reconcile.matching import Matcher
from pipeline.reconcile.pairing import entry_tokens
from pipeline.reconcile.requests import Try
from pipeline.reconcile.window import Window, clock, names_of

QUARTER = timedelta(minutes=15)
FURTHEST = 14 * 4
"""Zones are quarters of an hour apart, and none is further from another than this."""
MOST_ASKED = 500
"""Requests that are tried: enough to tell a zone."""


def shifted(matcher: Matcher) -> str:
    """A hint, where the bill's lines are the run's but for the clock; empty: they are not."""
    asked = [request for item in matcher.tries for request in item.requests if request.usage]
    asked = asked[:: len(asked) // MOST_ASKED + 1]
    lines: defaultdict[Hashable, list[datetime]] = defaultdict(list)
    for entry in matcher.bill.entries:
        lines[entry_tokens(entry)].append(entry.time)
    hits: Counter[int] = Counter()
    for request in asked:
        within = matcher.tolerance + (request.ended - request.begun)
        apart = [time - request.begun for time in lines.get(matcher.tokens(request), ())]
        quarters = {round(delta / QUARTER): delta for delta in apart}
        hits.update(n for n, delta in quarters.items() if abs(delta - n * QUARTER) <= within)
    far = [(number, -abs(n), n) for n, number in hits.items() if 0 < abs(n) <= FURTHEST]
    if not far or 2 * max(far)[0] < len(asked):
        return ""
    wrong = 15 * max(far)[2]
    minutes = matcher.bill.offset_minutes + wrong
    zone = f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
    if matcher.bill.naive:
        return f"Its lines would fit if its times were of the zone {zone}: --timezone {zone}."
    return f"Its lines would fit if its clock were wrong by {wrong} minutes."


def alarm(bill: Bill, tries: Sequence[Try], window: Window, hint: str) -> Finding:
    """Nothing of the run is on the bill."""
    number = sum(len(item.requests) for item in tries)
    where = ", ".join(sorted({item.where for item in tries if item.where})) or "an unknown place"
    text = (
        f"NOT ONE of the run's {many(number, 'request')} is on this bill: the traffic went "
        f"elsewhere. The run asked {where} from {window.words}."
    )
    if not bill.entries:
        text += " The bill has no line at all."
    else:
        text += (
            f" The bill runs from {clock(bill.entries[0].time)} to "
            f"{clock(bill.entries[-1].until)} UTC, of {names_of(bill.entries)}."
        )
    if hint:
        text += f" {hint}"
    else:
        text += (
            " Is it the bill of that endpoint, of that account and key? Was a base URL or a key "
            "of the environment used in place of the config's?"
        )
        if bill.entries and bill.entries[-1].until < window.begun:
            text += " Or it is older than the run, and not settled yet."
    return Finding(kind=Kind.ELSEWHERE, text=text, figures=Figures(requests=0))
