"""Find the line of the bill that belongs to each request.

A bill knows no attempts. Lines and requests of one model meet by, in this order:
the server's id; equal tokens; equal tokens where the bill leaves cached ones out;
equal input, of a failed request whose repetition the server counted; equal tokens
of a request that is paired already (billed twice); similar input; and last the time
alone, of a failed request, or of one that was under way when its try was killed.
Each of these but the first asks that the line's time lies between the moment when
the request was sent and the moment when it was over, give or take the slack and what
the bill's times are rounded to. Within one step the number of pairs is the largest
possible: each line, in order of time, takes of the requests that are open the one
that closes first. Among equals, then, it may take a neighbour's line: sums of a run
are exact, those of an attempt as exact as times and tokens tell requests apart.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import TypeAlias

from pipeline.bill import Bill, Entry
from pipeline.bill.entries import HOUR
from pipeline.reconcile.pairing import (
    SIMILAR,
    How,
    Pair,
    entry_tokens,
    factor,
    is_free,
    plain,
    sweep,
    usual_factor,
    without,
)
from pipeline.reconcile.requests import UNBILLED, Fate, Request, Try

UNDER_WAY_SECONDS = 3600.0
"""No request takes longer."""

RequestKey: TypeAlias = Callable[[Request], Hashable]
EntryKey: TypeAlias = Callable[[Entry], Hashable]


@dataclass(slots=True)
class Matching:
    """Who met whom, and who is left."""

    requests: list[Request]
    """Still without a line."""
    entries: list[Entry]
    """Still without a request, of the run's model."""
    strangers: list[Entry] = field(default_factory=list)
    """Of other models."""
    free: list[Entry] = field(default_factory=list)
    """At no charge, and no request's."""
    pairs: list[Pair] = field(default_factory=list)
    twice: list[tuple[Request, Entry]] = field(default_factory=list)
    """Lines that repeat the one of a request."""
    cut: list[tuple[Try, Entry]] = field(default_factory=list)
    """Lines of requests that a cut tape lost."""
    aliases: set[str] = field(default_factory=set)
    """Names that the bill has for the run's model, and nobody else."""

    def settle(self, met: Iterable[tuple[Request, Entry]], how: How) -> None:
        pairs = [Pair(request, entry, how) for request, entry in met]
        self.pairs += pairs
        self.requests = without(self.requests, [pair.request for pair in pairs])
        self.entries = without(self.entries, [pair.entry for pair in pairs])


@dataclass(frozen=True, kw_only=True)
class Matcher:
    """One bill against one run."""

    bill: Bill
    tries: Sequence[Try]
    slack: timedelta

    @property
    def tolerance(self) -> timedelta:
        return self.slack + timedelta(seconds=self.bill.resolution_seconds)

    def keyed(
        self,
        requests: Iterable[Request],
        entries: Iterable[Entry],
        *,
        of_request: RequestKey,
        of_entry: EntryKey,
    ) -> list[tuple[Request, Entry]]:
        """Pairs within time and of equal keys; None is nobody's key."""
        groups: defaultdict[Hashable, tuple[list[Request], list[Entry]]]
        groups = defaultdict(lambda: ([], []))
        for request in requests:
            groups[of_request(request)][0].append(request)
        for entry in entries:
            groups[of_entry(entry)][1].append(entry)
        groups.pop(None, None)
        return [pair for group in groups.values() for pair in sweep(*group, self.tolerance)]

    def tokens(self, request: Request, *, cached: bool = True) -> Hashable:
        """As far as the bill counts them; None where there is nothing to compare."""
        usage = request.usage
        if usage is None or not (self.counts_input or self.counts_output):
            return None
        given = usage.input_tokens - (0 if cached else usage.cached_tokens)
        return (
            given if self.counts_input else None,
            usage.output_tokens if self.counts_output else None,
        )

    @cached_property
    def counts_input(self) -> bool:
        return any(entry.input_tokens is not None for entry in self.bill.entries)

    @cached_property
    def counts_output(self) -> bool:
        return any(entry.output_tokens is not None for entry in self.bill.entries)

    def match(self) -> Matching:
        """All steps, in order."""
        requests = [request for item in self.tries for request in item.requests]
        found = Matching(requests=requests, entries=list(self.bill.entries))
        self.by_id(found)
        self.part_strangers(found)
        self.at_no_charge(found)
        self.by_tokens(found)
        self.resent(found)
        self.repeated(found)
        self.alike(found)
        self.under_way(found)
        self.silent(found)
        return found

    def by_id(self, found: Matching) -> None:
        lines = {entry.request_id: entry for entry in reversed(found.entries) if entry.request_id}
        met = [
            (request, lines.pop(request.id))
            for request in found.requests
            if request.id and request.id in lines
        ]
        found.settle(met, How.ID)
        owners = {pair.entry.request_id: pair.request for pair in found.pairs}
        self.repeat(
            found,
            [(owners[e.request_id], e) for e in found.entries if e.request_id in owners],
        )

    def repeat(self, found: Matching, met: Sequence[tuple[Request, Entry]]) -> None:
        found.twice += met
        found.entries = without(found.entries, [entry for _, entry in met])

    def part_strangers(self, found: Matching) -> None:
        """Set lines of other models apart, unless they are the run's by another name."""
        every = [request for item in self.tries for request in item.requests]
        asked = {plain(name) for request in every for name in request.names}
        named = {pair.entry.model for pair in found.pairs}
        ours = asked | {plain(name) for name in named}
        apart = [e for e in found.entries if e.model and plain(e.model) not in ours]
        met = self.keyed(found.requests, apart, of_request=self.tokens, of_entry=entry_tokens)
        hits, lines = Counter(e.model for _, e in met), Counter(e.model for e in apart)
        named |= {name for name, number in hits.items() if 2 * number >= lines[name]}
        found.aliases = {name for name in named if name and plain(name) not in asked}
        found.strangers = [entry for entry in apart if entry.model not in found.aliases]
        found.entries = without(found.entries, found.strangers)

    def at_no_charge(self, found: Matching) -> None:
        """Some gateways list what failed."""
        free = [entry for entry in found.entries if is_free(entry)]
        failed = [request for request in found.requests if request.fate is Fate.FAILED]
        found.settle(sweep(failed, free, self.tolerance), How.FREE)
        found.free = [entry for entry in found.entries if is_free(entry)]
        found.entries = without(found.entries, found.free)

    def by_tokens(self, found: Matching) -> None:
        met = self.keyed(
            found.requests, found.entries, of_request=self.tokens, of_entry=entry_tokens
        )
        found.settle(met, How.TOKENS)
        met = self.keyed(
            [r for r in found.requests if r.usage and r.usage.cached_tokens],
            found.entries,
            of_request=lambda request: self.tokens(request, cached=False),
            of_entry=entry_tokens,
        )
        found.settle(met, How.UNCACHED)

    def resent(self, found: Matching) -> None:
        met = self.keyed(
            [request for request in found.requests if request.usage is None],
            found.entries,
            of_request=lambda request: request.expected_input,
            of_entry=lambda entry: entry.input_tokens,
        )
        found.settle(met, How.RESENT)

    def repeated(self, found: Matching) -> None:
        met = self.keyed(
            [pair.request for pair in found.pairs],
            found.entries,
            of_request=self.tokens,
            of_entry=entry_tokens,
        )
        self.repeat(found, met)

    def alike(self, found: Matching) -> None:
        """Within time, input that another tokenizer may have counted; the likeliest counts."""
        if not self.counts_input and not self.counts_output:
            used = [request for request in found.requests if request.fate is not Fate.FAILED]
            found.settle(sweep(used, found.entries, self.tolerance), How.TIME)
            return
        if self.bill.resolution_seconds >= HOUR:
            return  # anything is within time then
        lines = sorted(found.entries, key=lambda entry: entry.time)
        times = [entry.time for entry in lines]
        usual = usual_factor(found.requests, lines)
        taken: set[int] = set()
        met = []
        for request in sorted(found.requests, key=lambda request: request.begun):
            first = bisect_left(times, request.begun - self.tolerance)
            last = bisect_right(times, request.ended + self.tolerance)
            near = [
                (abs(math.log(by / usual)), place)
                for place in range(first, last)
                if place not in taken
                and 1 / SIMILAR <= (by := factor(request, lines[place])) <= SIMILAR
            ]
            if near:
                place = min(near)[1]
                taken.add(place)
                met.append((request, lines[place]))
        found.settle(met, How.SIMILAR)

    def under_way(self, found: Matching) -> None:
        """Lines of what was asked after the last word of a cut tape."""
        for item in self.tries:
            if not item.cut or item.ended is None:
                continue
            until = item.ended + timedelta(seconds=UNDER_WAY_SECONDS) + self.tolerance
            lost = [e for e in found.entries if item.ended - self.tolerance <= e.time <= until]
            lost = lost if item.many_lost else lost[:1]
            found.cut += [(item, entry) for entry in lost]
            found.entries = without(found.entries, lost)

    def silent(self, found: Matching) -> None:
        mute = [r for r in found.requests if r.usage is None and r.status not in UNBILLED]
        found.settle(sweep(mute, found.entries, self.tolerance), How.SILENT)
