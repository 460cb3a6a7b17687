"""Ask a server over many lanes at once, and keep how long each answer took.

The client is a few lines over a socket: a client library would take longer than
the gateway that is to be measured.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

KEY = "sk-bench-5a0d47e29c81b36f5a0d47e29c81b36f"
"""LiteLLM's proxy wants one of its own; the gateway takes any."""


@dataclass(slots=True)
class Times:
    """Seconds of every answer, until its first bytes and until its last."""

    first: list[float] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)
    seconds: float = 0.0
    """That all of them took together."""

    def __iadd__(self, other: Times) -> Times:
        self.first += other.first
        self.whole += other.whole
        self.seconds += other.seconds
        return self

    @property
    def a_second(self) -> float:
        return len(self.whole) / self.seconds


def percentile(values: Sequence[float], share: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[share - 1]


@dataclass(slots=True)
class Line:
    """One lane of one server: a connection that is kept open."""

    base_url: str
    asked: int = 0
    """Over all its connections."""
    _reader: asyncio.StreamReader = field(init=False)
    _writer: asyncio.StreamWriter = field(init=False)

    async def open(self) -> None:
        url = urlsplit(self.base_url)
        self._reader, self._writer = await asyncio.open_connection(url.hostname, url.port)

    def close(self) -> None:
        self._writer.close()

    async def ask(self, body: bytes) -> tuple[float, float]:
        """Seconds until the first bytes of an answer's body, and until its last."""
        url = urlsplit(self.base_url)
        head = (
            f"POST {url.path}/chat/completions HTTP/1.1\r\nhost: {url.netloc}\r\n"
            f"authorization: Bearer {KEY}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\n\r\n"
        )
        began = time.perf_counter()
        self._writer.write(head.encode() + body)
        raw = await self._reader.readuntil(b"\r\n\r\n")
        status, *fields = raw.decode().lower().split("\r\n")
        headers = dict(line.split(": ", 1) for line in fields if line)
        if "content-length" in headers:
            answer = await self._reader.readexactly(int(headers["content-length"]))
            first = time.perf_counter()
        else:
            answer = await self._chunk()
            first = time.perf_counter()
            while chunk := await self._chunk():
                answer += chunk
        ended = time.perf_counter()
        if " 200 " not in f"{status} " or b'"choices"' not in answer:
            raise RuntimeError(f"{self.base_url}: {status}: {answer[:300]!r}")
        return first - began, ended - began

    async def _chunk(self) -> bytes:
        size = int(await self._reader.readline(), 16)
        return (await self._reader.readexactly(size + 2))[:-2]


async def _take_turns(
    line: Line, bodies: Sequence[bytes], *, every: float, until: float, chance: random.Random
) -> Times:
    times, began = Times(), time.perf_counter()
    for number in itertools.count():
        # Anywhere in its slot: lanes that keep step would wait for each other.
        now = time.perf_counter()
        due = max(now, began + every * (number + chance.random()))
        if due >= until:
            return times
        await asyncio.sleep(due - now)
        first, whole = await line.ask(bodies[line.asked % len(bodies)])
        line.asked += 1
        times.first.append(first)
        times.whole.append(whole)
    raise AssertionError


async def ask_all(
    lines: Sequence[Line], bodies: Sequence[bytes], *, seconds: float, every: float = 0.0
) -> Times:
    """Ask over all lines at once.

    Args:
        every: one request in so many seconds on each line; 0: as fast as answers come.
    """
    for line in lines:
        await line.open()
    try:
        began = time.perf_counter()
        lanes = [
            _take_turns(
                line, bodies, every=every, until=began + seconds, chance=random.Random(number)
            )
            for number, line in enumerate(lines)
        ]
        times = Times()
        for of_one in await asyncio.gather(*lanes):
            times += of_one
        times.seconds = time.perf_counter() - began
    finally:
        for line in lines:
            line.close()
    return times
