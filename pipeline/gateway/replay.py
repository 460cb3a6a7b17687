"""Play a recorded try again, with no endpoint: by attempt, try and ordinal.

The agent runs for real; only what the endpoint said comes from the tape. Its
requests are held against the recorded ones, with what differs from run to run
(times, temporary paths, dates, hashes, container ids) taken out.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pipeline.domain import Cause, Fault, Usage
from pipeline.gateway.replies import CONVERSATION, Ending, Reply, describe, refusal
from pipeline.gateway.tapes import Exchange, Tape

SAME = ("model", "temperature", "top_p", "seed", "max_tokens", "max_completion_tokens")
"""Where these differ, the answers on the tape are answers to something else."""
MONTHS = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
VOLATILE = (
    (r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?)?(Z|[+-]\d\d:?\d\d)?", "<date>"),
    (rf"\b({MONTHS}) +\d{{1,2}}( +(\d{{4}}|\d\d:\d\d(:\d\d)?))?", "<date>"),
    (r"\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun)\b", "<day>"),
    (r"\b\d\d:\d\d(:\d\d(\.\d+)?)?\b", "<time>"),
    (r"/tmp/[\w./+-]+|/var/folders/[\w./+-]+|/[\w./+-]*/\.partial/[\w./+-]+", "<path>"),
    (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<uuid>"),
    (r"0x[0-9a-fA-F]+", "<address>"),
    (r"\b(?=[0-9a-f]*\d)[0-9a-f]{7,64}\b", "<hash>"),
    (r"\b\d+(\.\d+)?(e-?\d+)? ?(ms|µs|us|s|sec|seconds?|minutes?)\b", "<seconds>"),
    (r"\b\d+\.\d{3,}\b", "<number>"),
    (r"\bpid[ =:]+\d+", "<pid>"),
)
PATTERNS = [(re.compile(pattern), word) for pattern, word in VOLATILE]
AROUND = 40
"""Characters shown on either side of a first difference."""


def normalised(text: str) -> str:
    """A text without what differs from run to run though nothing has changed."""
    for pattern, word in PATTERNS:
        text = pattern.sub(word, text)
    return text


def difference(recorded: object, found: object) -> str:
    """Where two messages first differ, in their own words; empty: nowhere that counts."""
    if recorded == found:
        return ""
    old, new = (
        normalised(item if isinstance(item, str) else json.dumps(item, sort_keys=True))
        for item in (recorded, found)
    )
    if old == new:
        return ""
    at = next(
        (i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b),
        min(len(old), len(new)),
    )
    around = slice(max(0, at - AROUND), at + AROUND)
    return f"recorded {old[around]!r}, now {new[around]!r}"


def drift_of(exchange: Exchange, request: Mapping[str, Any], seen: int) -> str:
    """The first difference between a recorded request and this one, past `seen` messages."""
    key = CONVERSATION[exchange.api]
    found = request.get(key)
    now: list[Any] = found if isinstance(found, list) else [found]
    before = exchange.conversation
    for number in range(seen, max(len(before), len(now))):
        if number >= len(now) or number >= len(before):
            return f"message {number + 1}: {len(before)} messages recorded, {len(now)} now"
        said = difference(before[number], now[number])
        if said:
            return f"message {number + 1}: {said}"
    for name in sorted({*exchange.request, *request} - {key, "stream_options"}):
        said = difference(exchange.request.get(name), request.get(name))
        if said:
            return f"{name}: {said}"
    return ""


@dataclass(slots=True)
class Replay:
    """The answers of one recorded try, in their order."""

    exchanges: Sequence[Exchange]
    """The last sending of every request: what its agent saw."""
    usages: Mapping[int, Usage]
    """Of all sendings of a request, by its ordinal."""
    outcome: Ending
    """What the recorded try ended in, if that was not its agent's own doing."""
    broken: str = ""
    strict: bool = False
    where: str = "the tape"
    played: int = 0
    seen: int = 0
    drift: str = ""
    """The first difference."""

    @staticmethod
    def of(tape: Tape | None, outcome: Ending, *, strict: bool = False) -> Replay:
        """A try's tape, and how the try ended; None: it never came to a request."""
        last: dict[int, Exchange] = {}
        usages: dict[int, Usage] = {}
        for exchange in tape.exchanges if tape else ():
            number = exchange.ordinal
            last[number] = exchange
            usages[number] = usages.get(number, Usage()) + (exchange.usage or Usage())
        return Replay(
            exchanges=[last[ordinal] for ordinal in sorted(last)],
            usages=usages,
            outcome=outcome,
            broken=tape.broken if tape else "",
            strict=strict,
        )

    def redacted(self, content: bytes) -> bytes:
        return content

    async def ask(self, api: str, body: bytes) -> Reply:
        """The next recorded answer; after the last one, what the recorded try ended in."""
        if self.played >= len(self.exchanges):
            return self.over()
        exchange = self.exchanges[self.played]
        self.played += 1
        wrong = self.compare(exchange, api, json.loads(body))
        if wrong:
            fault = Fault(cause=Cause.UNKNOWN, detail=f"replay: {wrong}", final=True)
            return replace(refusal(400, describe(fault)), ending=fault)
        return self.answer(exchange)

    def over(self) -> Reply:
        ending = self.outcome
        if ending is None:
            text = f"replay: the tape ends after {len(self.exchanges)} requests, the agent asks on"
            text += f" ({self.broken})" if self.broken else ""
            text += f"; it first differed at {self.drift}" if self.drift else ""
            ending = Fault(cause=Cause.UNKNOWN, detail=text, final=True)
        return replace(refusal(400, describe(ending)), ending=ending)

    def compare(self, exchange: Exchange, api: str, request: Mapping[str, Any]) -> str:
        """Why a recorded answer cannot stand for an answer to this request; empty: it can."""
        where = f"request {exchange.ordinal}"
        if api != exchange.api:
            return f"{where} was to {exchange.api}, now to {api}"
        for name in SAME:
            old, new = exchange.request.get(name), request.get(name)
            if old != new:
                return f"{where} had {name} {old!r}, now {new!r}"
        if self.drift:
            return ""
        said = drift_of(exchange, request, self.seen)
        self.seen = len(exchange.conversation)
        if said:
            self.drift = f"{where}, {said}"
        return self.drift if self.strict else ""

    def answer(self, exchange: Exchange) -> Reply:
        """The recorded answer, in the form in which it came."""
        last = self.played == len(self.exchanges)
        # A fault that was no answer's (a container that died, say) ended it after the last one.
        ending = exchange.ending or (
            self.outcome if last and isinstance(self.outcome, Fault) else None
        )
        usage = self.usages[exchange.ordinal]
        if exchange.events is not None:

            async def played(events: Sequence[str]) -> AsyncIterator[bytes]:
                for data in events:
                    yield f"data: {data}\n\n".encode()

            return Reply(200, chunks=played(exchange.events), ending=ending, usage=usage)
        text = exchange.answer if isinstance(exchange.answer, str) else json.dumps(exchange.answer)
        status = exchange.status if exchange.ending is None or exchange.status >= 400 else 502
        return Reply(status, text.encode(), ending=ending, usage=usage)
