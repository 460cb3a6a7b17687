"""Talk to an endpoint, each question once, and keep what was said and how long it took."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from pipeline.domain import Stop, Usage
from pipeline.gateway import Upstream
from pipeline.gateway.replies import CHAT, Reading, Reply, read, words_of
from pipeline.gateway.streams import assembled, events_of

REQUEST_SECONDS = 120.0
"""A tiny answer that takes longer is none that an agent could wait for."""
TRIES = 3
LONGEST_WAIT_SECONDS = 5.0
TINY_TOKENS = 64
GENEROUS_TOKENS = 2048
"""What a model that thinks before it speaks may need."""
CEILING, OTHER_CEILING = "max_tokens", "max_completion_tokens"
MOST_CHARACTERS = 240
MOST_RAW = 1200
NOTHING = "(nothing came back)"


def excerpt(text: str, most: int = MOST_CHARACTERS) -> str:
    """On one line, and nothing that a terminal would obey."""
    plain = "".join(c if c.isprintable() else " " for c in text)
    short = " ".join(plain.split())
    return short if len(short) <= most else f"{short[:most]}…"


def escaped(text: str, most: int = MOST_RAW) -> str:
    """As it is, with its beginning and its end, and nothing in it that a terminal would obey."""
    if len(text) > most:
        kept = 3 * most // 4
        left = len(text) - most
        text = f"{text[:kept]} … {left:,} characters more … {text[-(most - kept) :]}"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def lasted(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One question and what came back."""

    request: Mapping[str, Any]
    reply: Reply | None = None
    """None: nothing did."""
    error: Exception | None = None
    seconds: float = 0.0
    first_seconds: float | None = None
    """Of a stream: until its first chunk."""
    tree: Any = None
    """The answer as JSON, of a stream what it adds up to; None: it is no JSON."""
    reading: Reading | None = None

    @property
    def status(self) -> int:
        return self.reply.status if self.reply is not None else 0

    @property
    def words(self) -> str:
        """What an error says of itself."""
        text = self.reply.content.decode(errors="replace") if self.reply is not None else ""
        return words_of(self.tree, text)

    @property
    def said(self) -> str:
        return excerpt(self.words)

    @property
    def fine(self) -> bool:
        """Whether it is a completion."""
        return self.reading is not None and self.reading.ending is None

    def refuses(self, *names: str) -> bool:
        """Whether the request was refused for something that it held."""
        mentioned = any(re.search(rf"\b{name}\b", self.words, re.IGNORECASE) for name in names)
        return self.status in (400, 404, 422, 500, 501) and mentioned

    @property
    def choice(self) -> Mapping[str, Any]:
        return self.tree["choices"][0] if self.fine else {}

    @property
    def message(self) -> Mapping[str, Any]:
        return self.choice.get("message") or {}

    @property
    def calls(self) -> Sequence[Mapping[str, Any]]:
        found = self.message.get("tool_calls")
        return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []

    @property
    def text(self) -> str:
        content = self.message.get("content")
        return content if isinstance(content, str) else ""

    @property
    def starved(self) -> bool:
        """Whether its tokens ran out before it had said anything."""
        return (
            self.choice.get("finish_reason") == "length"
            and not self.text.strip()
            and not self.calls
        )

    @property
    def usage(self) -> Mapping[str, Any]:
        found = self.tree.get("usage") if isinstance(self.tree, dict) else None
        return found if isinstance(found, dict) else {}


@dataclass(slots=True)
class Dialogue:
    """What is said to one endpoint, at one base URL or at several."""

    key: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    request_seconds: float = REQUEST_SECONDS
    in_flight: int = 5
    heard: Callable[[Exchange], None] = lambda said: None
    """Told of every completion that was asked for and answered: somebody is billed for it."""
    spent: Usage = field(default_factory=Usage)
    completions: list[Exchange] = field(default_factory=list)
    """All that came back whole, of any question."""
    _runner: asyncio.Runner = field(default_factory=asyncio.Runner)
    _upstreams: dict[str, Upstream] = field(default_factory=dict)
    _known: dict[tuple[str, str], Exchange] = field(default_factory=dict)
    _ceiling: str = CEILING
    _tokens: int = TINY_TOKENS

    def close(self) -> None:
        for upstream in self._upstreams.values():
            self._runner.run(upstream.close())
        self._runner.close()

    def upstream(self, base: str) -> Upstream:
        if base not in self._upstreams:
            self._upstreams[base] = Upstream(
                base, self.key, headers=self.headers, request_seconds=self.request_seconds
            )
        return self._upstreams[base]

    def get(self, base: str, path: str) -> Exchange:
        """Ask for a page of the API; costs nothing."""
        if (base, path) not in self._known:
            self._known[base, path] = self._runner.run(self._send(base, "GET", path, {}))
        return self._known[base, path]

    def ask(self, base: str, question: Mapping[str, Any]) -> Exchange:
        """A completion for `question` (all of a request but its ceiling), asked once.

        A ceiling of another name is tried where the usual one is refused, a higher one
        where nothing was said below it, and what passes is waited for.
        """
        name = json.dumps(question, sort_keys=True)
        if (base, name) in self._known:
            return self._known[base, name]
        said = self._persistently(base, question)
        if said.refuses(self._ceiling):
            self._ceiling = OTHER_CEILING if self._ceiling == CEILING else CEILING
            said = self._persistently(base, question)
        if said.starved and self._tokens < GENEROUS_TOKENS:
            self._tokens = GENEROUS_TOKENS
            said = self._persistently(base, question)
        self._known[base, name] = said
        return said

    def _persistently(self, base: str, question: Mapping[str, Any]) -> Exchange:
        said = self._runner.run(self._complete(base, question))
        for number in range(TRIES - 1):
            passes = said.reading is not None and said.reading.retry and said.status >= 400
            if said.reply is None or not passes:
                break
            wait = said.reply.retry_after_seconds
            time.sleep(min(2.0**number if wait is None else wait, LONGEST_WAIT_SECONDS))
            said = self._runner.run(self._complete(base, question))
        return said

    def ask_often(self, base: str, question: Mapping[str, Any], times: int) -> list[Exchange]:
        """The same question many times over, a few at a time."""

        async def all_of_them() -> list[Exchange]:
            gate = asyncio.Semaphore(self.in_flight)

            async def one() -> Exchange:
                async with gate:
                    return await self._complete(base, question)

            return await asyncio.gather(*(one() for _ in range(times)))

        return self._runner.run(all_of_them())

    def stream(self, base: str, question: Mapping[str, Any]) -> Exchange:
        return self._runner.run(self._stream(base, self._bounded(question)))

    def _bounded(self, question: Mapping[str, Any]) -> dict[str, Any]:
        return {**question, self._ceiling: self._tokens}

    async def _complete(self, base: str, question: Mapping[str, Any]) -> Exchange:
        said = await self._send(base, "POST", f"/{CHAT}", self._bounded(question))
        return self._counted(said, base)

    def _counted(self, said: Exchange, base: str) -> Exchange:
        if said.reply is None:
            return said
        reading = read(said.reply, base)
        if reading.usage is not None:
            self.spent += reading.usage
        found = Exchange(
            request=said.request,
            reply=said.reply,
            seconds=said.seconds,
            first_seconds=said.first_seconds,
            tree=said.tree,
            reading=reading,
        )
        self.heard(found)
        if found.fine:
            self.completions.append(found)
        return found

    async def _send(
        self, base: str, method: str, path: str, request: Mapping[str, Any]
    ) -> Exchange:
        started = time.monotonic()
        body = json.dumps(request).encode() if request else None
        try:
            reply = await self.upstream(base).send(method, path, body)
        # A proxy's scheme may need a package that is not here, or be none.
        except (httpx.HTTPError, httpx.InvalidURL, ImportError, ValueError, OSError) as error:
            return Exchange(request=request, error=error, seconds=time.monotonic() - started)
        return Exchange(
            request=request,
            reply=reply,
            seconds=time.monotonic() - started,
            tree=parsed(reply.content),
        )

    async def _stream(self, base: str, request: Mapping[str, Any]) -> Exchange:
        started = time.monotonic()
        first: float | None = None
        events: list[str] = []
        upstream = self.upstream(base)
        try:
            reply = await upstream.ask(CHAT, json.dumps(request).encode())
            if reply.chunks is None:
                said = Exchange(request=request, reply=reply, tree=parsed(reply.content))
                return self._counted(said, base)
            async for event in events_of(reply.chunks):
                first = first or time.monotonic() - started
                events.append(event.data)
        except (httpx.HTTPError, httpx.InvalidURL, ImportError, ValueError, OSError) as error:
            return Exchange(request=request, error=error, seconds=time.monotonic() - started)
        content = upstream.redacted(json.dumps(assembled(CHAT, events)).encode())
        said = Exchange(
            request=request,
            reply=Reply(reply.status, content, reply.headers),
            seconds=time.monotonic() - started,
            # None marks an answer that came whole.
            first_seconds=first or 0.0,
            tree=parsed(content),
        )
        return self._counted(said, base)


def raw(said: Exchange) -> str:
    """What came back, word for word, as far as it goes."""
    if said.reply is None:
        return NOTHING
    return escaped(said.reply.content.decode(errors="backslashreplace")) or "(an empty body)"


def parsed(content: bytes) -> Any:
    """JSON; None where it is none."""
    try:
        return json.loads(content)
    except ValueError:
        return None


def is_refusal(exchange: Exchange) -> bool:
    """Whether the model itself would not answer."""
    return exchange.reading is not None and exchange.reading.ending is Stop.REFUSED
