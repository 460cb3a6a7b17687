"""What makes a line of a bill and a request fit: names, tokens, and time."""

from __future__ import annotations

import heapq
import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TypeVar

from pipeline.bill import Entry
from pipeline.reconcile.requests import Request

TaggedT = TypeVar("TaggedT")
VARIANT = re.compile(r":(free|nitro|floor|online|extended|exacto|beta)$")
SNAPSHOT = re.compile(r"[-@](\d{4}-\d{2}-\d{2}|\d{8}|latest)$")
SIMILAR = 1.5
"""Two tokenizers differ by less than this factor."""


def plain(model: str) -> str:
    """A model's name without provider, variant and date."""
    name = VARIANT.sub("", model.strip().lower().rsplit("/", 1)[-1])
    return SNAPSHOT.sub("", name)


class How(StrEnum):
    """By what a line and a request met."""

    ID = "id"
    TOKENS = "tokens"
    UNCACHED = "tokens without cached ones"
    TIME = "time"
    """The bill counts no tokens."""
    FREE = "failed, and listed at no charge"
    RESENT = "failed, and sent again"
    SIMILAR = "similar input"
    SILENT = "failed"


@dataclass(frozen=True, slots=True)
class Pair:
    request: Request
    entry: Entry
    how: How


def without(items: Sequence[TaggedT], gone: Iterable[object]) -> list[TaggedT]:
    identities = {id(item) for item in gone}
    return [item for item in items if id(item) not in identities]


def sweep(
    requests: Iterable[Request], entries: Iterable[Entry], tolerance: timedelta
) -> list[tuple[Request, Entry]]:
    """As many pairs within time as there can be."""
    waiting = sorted(requests, key=lambda request: request.begun)
    open_now: list[tuple[datetime, int]] = []
    met: list[tuple[Request, Entry]] = []
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


def factor(request: Request, entry: Entry) -> float:
    """Of a line's count of the input, to a request's; zero where one of them has none."""
    one = request.usage.input_tokens if request.usage else 0
    return (entry.input_tokens or 0) / one if one else 0.0


def usual_factor(requests: Iterable[Request], entries: Iterable[Entry]) -> float:
    """By which another tokenizer differs, on the whole."""
    ours = sum(request.usage.input_tokens for request in requests if request.usage)
    theirs = sum(entry.input_tokens or 0 for entry in entries)
    return min(max(theirs / ours, 1 / SIMILAR), SIMILAR) if ours and theirs else 1.0


def is_free(entry: Entry) -> bool:
    figures = (entry.input_tokens, entry.output_tokens, entry.cost_usd)
    return not any(figures) and figures != (None, None, None)


def entry_tokens(entry: Entry) -> Hashable:
    tokens = (entry.input_tokens, entry.output_tokens)
    return None if tokens == (None, None) else tokens
