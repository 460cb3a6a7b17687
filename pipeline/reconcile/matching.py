"""Find the line of the bill that belongs to each request.

A bill knows no attempts. Lines and requests meet by, in this order: the server's id;
equal tokens, of the run's model and then of any other name; equal tokens without the
cached ones; equal input, of a failed request whose repetition the server counted; equal
tokens of a request that was sent again and has a line (billed twice); and last the time
alone. Where ids tell, no request that has one meets a line of another. All but the first
ask that the line's time lies between sending and end of the request, give or take the
slack and what the bill's times are rounded to. Of several requests with equal tokens at
one time any may get the line: sums of a run are exact, an attempt's nearly so.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeAlias, TypeVar

from pipeline.bill import Bill, Entry, plain, shift_of
from pipeline.reconcile.findings import Kind
from pipeline.reconcile.ledgers import Fate, Request, Try, Window, total

T = TypeVar("T")
Met: TypeAlias = list[tuple[Request, Entry]]
Runs: TypeAlias = Callable[[], Mapping[str, Sequence[Request]]]
SIMILAR = 1.5
"""Two tokenizers differ by less than this factor."""
FATED = {
    (Kind.AGREED, Fate.DISCARDED): Kind.DISCARDED_AND_BILLED,
    (Kind.DISCARDED_AND_BILLED, Fate.ANSWERED): Kind.NO_USAGE,
}
UNBILLED = range(400, 500)
"""Refused before the model was asked; nobody bills these."""
UNDER_WAY = timedelta(hours=1)
"""No request takes longer."""


def without(items: Sequence[T], gone: Iterable[object]) -> list[T]:
    identities = {id(item) for item in gone}
    return [item for item in items if id(item) not in identities]


def tokens_of(request: Request) -> Hashable:
    return request.usage and (request.usage.input_tokens, request.usage.output_tokens)


def uncached_of(request: Request) -> Hashable:
    usage = request.usage
    return usage and (usage.input_tokens - usage.cached_tokens, usage.output_tokens)


def entry_tokens(entry: Entry) -> Hashable:
    return entry.input_tokens, entry.output_tokens


def sweep(requests: Iterable[Request], entries: Iterable[Entry], tolerance: timedelta) -> Met:
    """As many pairs within time as there can be: each line takes what closes first."""
    waiting = sorted(requests, key=lambda request: request.begun)
    open_now: list[tuple[datetime, int]] = []
    met: Met = []
    following = 0
    for entry in sorted(entries, key=lambda entry: entry.time):
        while following < len(waiting) and waiting[following].begun - tolerance <= entry.time:
            heapq.heappush(open_now, (waiting[following].ended, following))
            following += 1
        while open_now and open_now[0][0] + tolerance < entry.time:
            heapq.heappop(open_now)
        if open_now:
            met.append((waiting[heapq.heappop(open_now)[1]], entry))
    return met


@dataclass(frozen=True, slots=True)
class Pair:
    """A line that is the run's, and what that says."""

    kind: Kind
    request: Request
    """Of a line that was under way when its try was killed: the one before it."""
    entry: Entry


@dataclass(slots=True, kw_only=True)
class Matching:
    """Who met whom, and who is left."""

    tolerance: timedelta
    names: set[str]
    """Of the run's model."""
    requests: list[Request]
    """Still without a line."""
    entries: list[Entry]
    """Still without a request, of the run's model and time."""
    strangers: list[Entry] = field(default_factory=list)
    """Of other models."""
    outside: list[Entry] = field(default_factory=list)
    """Of other times."""
    free: list[Entry] = field(default_factory=list)
    """At no charge: some gateways list what failed."""
    sums: list[Entry] = field(default_factory=list)
    """That count requests of the run, though nobody can say which."""
    pairs: list[Pair] = field(default_factory=list)
    others: dict[str, list[Entry]] = field(default_factory=dict)
    """Of other runs, by their names."""
    shift: timedelta = timedelta()
    """By which all of the bill's times are off."""
    repeats: int = 0
    """Of `entries`: with the tokens of a request that has a line."""

    @property
    def ours(self) -> list[Entry]:
        return [*self.sums, *(pair.entry for pair in self.pairs)]

    def keyed(
        self,
        requests: Iterable[Request],
        entries: Iterable[Entry],
        of_request: Callable[[Request], Hashable] = tokens_of,
        of_entry: Callable[[Entry], Hashable] = entry_tokens,
    ) -> Met:
        """Pairs within time and of equal keys; None is nobody's key."""
        groups: defaultdict[Hashable, tuple[list[Request], list[Entry]]]
        groups = defaultdict(lambda: ([], []))
        for request in requests:
            groups[of_request(request)][0].append(request)
        for entry in entries:
            groups[of_entry(entry)][1].append(entry)
        groups.pop(None, None)
        return [pair for group in groups.values() for pair in sweep(*group, self.tolerance)]

    def settle(self, kind: Kind, met: Met) -> None:
        self.pairs += [Pair(FATED.get((kind, r.fate), kind), r, entry) for r, entry in met]
        self.requests = without(self.requests, [request for request, _ in met])
        self.entries = without(self.entries, [entry for _, entry in met])

    def by_id(self) -> None:
        owners = {request.id: request for request in self.requests if request.id}
        lines = [entry for entry in self.entries if entry.request_id in owners]
        first = {entry.request_id: entry for entry in reversed(lines)}
        met = [(owners[name], entry) for name, entry in first.items()]
        for kind, tokens in ((Kind.AGREED, tokens_of), (Kind.UNCACHED_INPUT, uncached_of)):
            same = [pair for pair in met if tokens(pair[0]) in (None, entry_tokens(pair[1]))]
            self.settle(kind, same)
            met = without(met, same)
        self.settle(Kind.OTHER_TOKENS, met)
        again = without(lines, first.values())
        self.settle(Kind.BILLED_TWICE, [(owners[entry.request_id], entry) for entry in again])

    def part(self) -> None:
        """Set lines of other models apart."""
        names = self.names | {plain(pair.entry.model) for pair in self.pairs}
        self.strangers = [e for e in self.entries if e.model and plain(e.model) not in names]
        self.entries = without(self.entries, self.strangers)

    def by_tokens(self, others: Mapping[str, Sequence[Request]]) -> None:
        self.settle(Kind.AGREED, self.keyed(self.requests, self.entries))
        for name, asked in others.items():
            self.others[name] += [entry for _, entry in self.keyed(asked, self.entries)]
            self.entries = without(self.entries, self.others[name])
        met = self.keyed(self.requests, self.strangers)
        self.settle(Kind.AGREED, met)
        self.strangers = without(self.strangers, [entry for _, entry in met])
        self.settle(Kind.UNCACHED_INPUT, self.keyed(self.requests, self.entries, uncached_of))
        met = self.keyed(
            self.requests, self.entries, lambda r: r.expected_input, lambda e: e.input_tokens
        )
        self.settle(Kind.RETRIED_AND_BILLED, met)
        resent = [pair.request for pair in self.pairs if pair.request.again]
        met = self.keyed(resent, self.entries)
        self.settle(Kind.BILLED_TWICE, met)

    def by_time(self, tries: Iterable[Try]) -> None:
        """What another tokenizer may have counted; what was under way; what nobody counted."""
        met = sweep([r for r in self.requests if r.usage], self.entries, self.tolerance)
        ours = total(request for request, _ in met).input_tokens
        theirs = sum(entry.input_tokens or 0 for _, entry in met)
        if ours < theirs * SIMILAR and theirs < ours * SIMILAR:
            self.settle(Kind.OTHER_TOKENS, met)
        for item in tries:
            if item.cut and item.requests:
                last = max(item.requests, key=lambda request: request.ended)
                low, high = last.ended - self.tolerance, last.ended + UNDER_WAY + self.tolerance
                lost = [entry for entry in self.entries if low <= entry.time <= high][:1]
                self.pairs += [Pair(Kind.CUT_TAPE, last, entry) for entry in lost]
                self.entries = without(self.entries, lost)
        mute = [r for r in self.requests if r.usage is None and r.status not in UNBILLED]
        self.settle(Kind.DISCARDED_AND_BILLED, sweep(mute, self.entries, self.tolerance))


def match(
    bill: Bill, tries: Sequence[Try], window: Window, slack: timedelta, beside: Runs = dict
) -> Matching:
    """All steps, in order; of sums, none but the model and the time."""
    requests = [request for item in tries for request in item.requests]
    free = [e for e in bill.entries if not (e.input_tokens or e.output_tokens or e.cost_usd)]
    found = Matching(
        tolerance=slack + timedelta(seconds=bill.resolution_seconds),
        names={plain(name) for request in requests for name in request.names},
        requests=requests,
        entries=without(bill.entries, free),
        free=free,
    )
    if bill.aggregated:
        found.part()
        begun, ended = window.begun - slack, window.ended + slack
        found.sums = [e for e in found.entries if e.until > begun and e.time <= ended]
        found.outside, found.entries = without(found.entries, found.sums), []
        return found
    found.by_id()
    if not found.pairs:
        found.shift = shift_of(bill, [(r.usage, r.begun, r.ended) for r in requests if r.usage])
    if found.shift:
        found.outside, found.entries = found.entries, []
        return found
    found.part()
    runs = beside() if found.entries else {}
    for name, asked in runs.items():
        known = {request.id for request in asked if request.id}
        found.others[name] = [e for e in found.entries if e.request_id in known]
        found.entries = without(found.entries, found.others[name])
    # Ids tell where some have met, and no line is left that has none.
    ids = any((found.pairs, *found.others.values())) and all(e.request_id for e in found.entries)
    named = [request for request in found.requests if request.id and ids]
    found.requests = without(found.requests, named)
    found.by_tokens({n: [r for r in rs if not (r.id and ids)] for n, rs in runs.items()})
    found.by_time(tries)
    found.requests += named
    inside = [e for e in found.entries if window.holds(e.time, found.tolerance)]
    found.outside, found.entries = without(found.entries, inside), inside
    if not ids:
        found.repeats = len(found.keyed([pair.request for pair in found.pairs], inside))
    return found
