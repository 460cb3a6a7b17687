"""One try's own way through the gateway: what was asked, what came back, what ended it."""

from __future__ import annotations

import asyncio
import json
import random
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import httpx

from pipeline.domain import Cause, Fault, Stop, Usage
from pipeline.gateway.replies import Ending, Reading, Reply, infra, read

MOST_REQUESTS = 4
LONGEST_WAIT_SECONDS = 60.0
HANGS_AFTER_SECONDS = 60.0
"""A request that nobody has answered for so long when a try is ended hangs."""


class Source(Protocol):
    """Where answers come from: an upstream server, or a script."""

    @property
    def where(self) -> str: ...
    async def ask(self, body: bytes) -> Reply: ...


@dataclass(slots=True)
class Lane:
    """The record of one try's conversation; retries live here, once."""

    source: Source
    base_url: str
    model: str
    tape: Path
    backoff_seconds: float = 1.0
    cost_limit_usd: float = 0.0
    """0: none. Holds only where the endpoint reports what a request cost."""
    usage: Usage = field(default_factory=Usage)
    ending: Ending = None
    lost_seconds: float = 0.0
    """Of pauses, and of requests that failed."""
    asking_since: float | None = None
    """When the request that is under way was sent."""
    seen: list[Any] = field(default_factory=list)
    """Messages of the latest request: the tape holds each of them once."""
    under_way: dict[asyncio.Task[Any], asyncio.AbstractEventLoop] = field(default_factory=dict)

    @property
    def waited_seconds(self) -> float:
        """Time that the endpoint took and gave nothing for; an unanswered request counts."""
        since = self.asking_since
        pending = time.monotonic() - since if since is not None else 0.0
        return self.lost_seconds + (pending if pending >= HANGS_AFTER_SECONDS else 0.0)

    async def exchange(self, body: bytes) -> Reply:
        """Pass one request on while the try lasts; whatever goes wrong here is ours."""
        task = asyncio.current_task()
        assert task is not None
        self.under_way[task] = asyncio.get_running_loop()
        try:
            return await self.pass_on(body)
        except Exception as error:  # noqa: BLE001 - the border of the gateway
            self.asking_since = None
            detail = "".join(traceback.format_exception(error))[-2000:]
            self.ending = Fault(cause=Cause.UNKNOWN, detail=detail)
            return refusal(500, "the gateway failed (passone)")
        finally:
            del self.under_way[task]

    def close(self) -> None:
        """The try is over: nobody waits for an answer any more, and none is paid for."""
        for task, loop in list(self.under_way.items()):
            loop.call_soon_threadsafe(task.cancel)

    def refuse(self, message: str) -> Reply:
        """Answer a request that we cannot pass on; the model never saw it."""
        self.ending = Fault(cause=Cause.AGENT_CRASH, detail=message)
        return refusal(400, f"{message} (passone)")

    async def pass_on(self, body: bytes) -> Reply:
        """One request, again where that can help, and how it ended."""
        over = self.cost_limit_usd and (self.usage.cost_usd or 0.0) >= self.cost_limit_usd
        if over:
            self.ending = Stop.COST_LIMIT
            return refusal(400, f"cost limit of ${self.cost_limit_usd:g} reached (passone)")
        reply, reading = await self.ask(body)
        for again in range(1, MOST_REQUESTS):
            if not reading.retry:
                break
            await self.pause(again, reply)
            reply, reading = await self.ask(body)
        self.ending = reading.ending
        if reading.ending is not None and reply.status < 400:
            # A 200 that holds no completion must not reach an agent as one.
            return refusal(502, describe(reading.ending) or "")
        return reply

    async def pause(self, again: int, reply: Reply) -> None:
        wait = reply.retry_after_seconds
        if wait is None:
            wait = self.backoff_seconds * 2 ** (again - 1) * random.uniform(0.75, 1.25)
        wait = min(wait, LONGEST_WAIT_SECONDS)
        self.lost_seconds += wait
        await asyncio.sleep(wait)

    async def ask(self, body: bytes) -> tuple[Reply, Reading]:
        self.asking_since = started = time.monotonic()
        try:
            reply = await self.source.ask(body)
            reading = read(reply, self.source.where)
        except httpx.HTTPError as error:
            text = f"{self.source.where}: {type(error).__name__}: {error}"
            reading = infra(
                Cause.ENDPOINT, text, retry=not isinstance(error, httpx.UnsupportedProtocol)
            )
            reply = refusal(502, text)
        seconds, self.asking_since = time.monotonic() - started, None
        if reading.usage is not None:
            self.usage += reading.usage
        if isinstance(reading.ending, Fault):
            self.lost_seconds += seconds
        try:
            self.record(body, reply, reading, seconds)
        except OSError as error:
            # A conversation without its record is not one that we may count.
            return refusal(500, str(error)), infra(Cause.DISK, f"{self.tape}: {error}")
        return reply, reading

    def record(self, body: bytes, reply: Reply, reading: Reading, seconds: float) -> None:
        """One line on the tape. Messages that an earlier line holds are not written again."""
        request = json.loads(body)
        messages = request.pop("messages", [])
        same = 0
        while same < min(len(messages), len(self.seen)) and messages[same] == self.seen[same]:
            same += 1
        self.seen = messages
        try:
            answer = json.loads(reply.content)
        except ValueError:
            answer = reply.content.decode(errors="replace")
        line = {
            "request": request,
            "messages_before": same,
            "messages": messages[same:],
            "status": reply.status,
            "answer": answer,
            "ending": describe(reading.ending),
            "seconds": round(seconds, 3),
        }
        # JSON may hold half a surrogate pair; a reply that does is a reply all the same.
        with self.tape.open("a", encoding="utf-8", errors="surrogatepass") as tape:
            tape.write(json.dumps(line, ensure_ascii=False) + "\n")


def describe(ending: Ending) -> str | None:
    return f"{ending.cause}: {ending.detail}" if isinstance(ending, Fault) else ending


def refusal(status: int, message: str) -> Reply:
    """An error in the shape that OpenAI's clients know."""
    error = {"message": message, "type": "passone", "code": None}
    return Reply(status, json.dumps({"error": error}).encode())
