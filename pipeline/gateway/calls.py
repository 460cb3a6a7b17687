"""Send one request of an agent's, and know what came of it: each sending booked and taped."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any

import httpx

from pipeline.domain import Cause, Fault, Usage
from pipeline.gateway import streams
from pipeline.gateway.lanes import Lane
from pipeline.gateway.pressure import Down, Turn
from pipeline.gateway.replies import CHAT, Ending, Reading, Reply, infra, parsed, read, refusal
from pipeline.gateway.tapes import Exchange, now
from pipeline.gateway.wire import Held


def this_task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task


class Call:
    """One request of the agent's: every time it is sent, and what each sending cost."""

    def __init__(
        self, lane: Lane, api: str, held: Held, request: Mapping[str, Any], body: bytes
    ) -> None:
        self.lane = lane
        self.api = api
        self.as_planned = held.as_planned
        self.request = held.request
        self.streams = bool(request.get("stream"))
        options = request.get("stream_options") or {}
        known = isinstance(options, dict)
        self.wants_usage = known and bool(options.get("include_usage"))
        if self.streams and api == CHAT and known and not self.wants_usage:
            # A stream tells its usage only where it is asked to.
            self.request = self.request | {"stream_options": {**options, "include_usage": True}}
        # As it came, where nothing had to be changed.
        self.body = body if self.request == request else json.dumps(self.request).encode()
        # A stream is sent by a child of this one, which may be waiting for its client.
        self.task = this_task()
        self.ordinal = lane.ordinal
        self.again = -1
        self.asked = ""
        self.began = 0.0
        self.first_seconds: float | None = None

    async def ask(self) -> tuple[Reply, Reading]:
        """Send it once."""
        lane = self.lane
        self.again += 1
        try:
            turn = await lane.leave_to_ask(self.body)
        except Down as error:
            text = f"{lane.source.where}: {error}"
            return refusal(503, text), infra(Cause.ENDPOINT, text)
        self.asked, self.began = now(), time.monotonic()
        lane.asking_since = self.began
        settled = False
        try:
            reply, reading = await self.first_words()
            if reply.chunks is not None:
                settled = True
                return replace(reply, chunks=self.relayed(reply, turn)), reading
            reading = self.settle(turn, reply, reading)
            settled = True
            return self.as_wanted(reply, reading), reading
        finally:
            if not settled:
                # Cut off with its try: says nothing about the endpoint.
                lane.asking_since = None
                lane.terms.pressure.leave(turn)

    async def first_words(self) -> tuple[Reply, Reading]:
        """An answer, as far as it must be known before the agent may see any of it."""
        lane = self.lane
        try:
            async with asyncio.timeout(lane.patience.left()):
                reply = await lane.source.ask(self.api, self.body)
                if reply.chunks is not None and not self.streams:
                    reply = await self.heard_out(reply)
                if reply.chunks is None:
                    return reply, read(reply, lane.source.where, self.api)
                return await self.peeked(reply)
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
            late = "no answer within the deadline (gateway.deadline_seconds)"
            why = late if isinstance(error, TimeoutError) else str(error) or "the connection broke"
            # A client names the header that it cannot send.
            text = lane.source.redacted(
                f"{lane.source.where}: {type(error).__name__}: {why}".encode()
            ).decode()
            never = isinstance(error, httpx.UnsupportedProtocol | httpx.InvalidURL)
            return refusal(502, text), infra(Cause.ENDPOINT, text, retry=not never)

    async def heard_out(self, reply: Reply) -> Reply:
        """A stream that nobody asked for, as the whole answer that it adds up to."""
        assert reply.chunks is not None
        events = [event.data async for event in streams.events_of(reply.chunks)]
        content = json.dumps(streams.assembled(self.api, events)).encode()
        return replace(reply, content=self.lane.source.redacted(content), chunks=None)

    async def peeked(self, reply: Reply) -> tuple[Reply, Reading]:
        """A stream whose first event is good; one that begins with an error is a whole answer."""
        assert reply.chunks is not None
        events = streams.events_of(reply.chunks)
        first = await anext(events, None)
        self.first_seconds = round(time.monotonic() - self.began, 3)
        body = streams.assembled(self.api, [first.data]) if first else streams.BROKE_OFF
        if (
            first is None
            or first.data == streams.DONE
            or (body.get("error") and body != streams.BROKE_OFF)
        ):
            whole = Reply(200, json.dumps(body).encode())
            return whole, read(whole, self.lane.source.where, self.api)

        async def chained() -> AsyncIterator[bytes]:
            yield first.raw
            async for event in events:
                yield event.raw

        return replace(reply, chunks=chained()), Reading(None)

    async def relayed(self, reply: Reply, turn: Turn) -> AsyncIterator[bytes]:
        """Pass a stream on as it comes; once it is over, know what it was."""
        lane = self.lane
        assert reply.chunks is not None
        heard: list[str] = []
        trouble, over = "", False
        with lane.working(self.task):
            try:
                async for event in streams.events_of(reply.chunks):
                    raw = lane.source.redacted(event.raw)
                    heard.append(lane.source.redacted(event.data.encode()).decode())
                    if self.wants_usage or not streams.is_usage_alone(event):
                        yield raw
                over = True
            except asyncio.CancelledError:
                if not lane.over:
                    raise
            except httpx.HTTPError as error:
                trouble, over = f"{lane.source.where}: {type(error).__name__}: {error}", True
            finally:
                try:
                    ending = self.stream_over(reply, heard, turn, trouble, cut=not over)
                finally:
                    lane.terms.pressure.leave(turn)
            if isinstance(ending, Fault):
                yield streams.event({"error": {"code": 502, "message": ending.detail}}, "error")

    def stream_over(
        self, reply: Reply, heard: list[str], turn: Turn, trouble: str, *, cut: bool
    ) -> Ending:
        """Settle a stream that ended, broke off, or was cut by who asked for it."""
        whole = streams.assembled(self.api, heard)
        reply = replace(reply, content=json.dumps(whole).encode(), chunks=None)
        reading = read(reply, self.lane.source.where, self.api)
        if trouble:
            reading = replace(infra(Cause.ENDPOINT, trouble, retry=True), usage=reading.usage)
        if cut:
            reading = Reading(None)
        reading = self.settle(turn, reply, reading, events=heard)
        self.lane.ending = reading.ending
        return reading.ending

    def as_wanted(self, reply: Reply, reading: Reading) -> Reply:
        """A whole completion in the shape that the client asked for."""
        if not self.streams or reading.ending is not None or reply.status >= 400:
            return reply
        wire = streams.as_events(self.api, json.loads(reply.content), usage=self.wants_usage)

        async def played() -> AsyncIterator[bytes]:
            for event in wire:
                yield event

        return replace(reply, chunks=played())

    def counted(self, reading: Reading) -> Usage:
        """What one sending adds to the usage; a completion without figures has no known price."""
        used = reading.ending is None
        return replace(
            reading.usage or Usage(cost_usd=None if used else 0.0),
            requests=int(used),
            failed=int(not used),
            as_planned=int(used and self.as_planned),
        )

    def settle(
        self, turn: Turn, reply: Reply, reading: Reading, events: list[str] | None = None
    ) -> Reading:
        """Book, count and record one sending; what it means once that is done."""
        lane, pressure = self.lane, self.lane.terms.pressure
        seconds, lane.asking_since = time.monotonic() - self.began, None
        recorded = reply.reading
        reading = recorded or reading
        usage = lane.pay((recorded and recorded.usage) or self.counted(reading))
        if isinstance(reading.ending, Fault):
            lane.lost_seconds += seconds
        if reading.retry:
            lane.patience.failed(self.began)
            why = reading.ending.detail if isinstance(reading.ending, Fault) else ""
            pressure.failed(turn, lane.attempt, why, overloaded=reading.overloaded)
        elif recorded:
            pressure.leave(turn)
        else:
            lane.patience.answered()
            refused = reading.ending if isinstance(reading.ending, Fault) else None
            pressure.answered(turn, tokens=usage.tokens or None, useful=refused is None)
            if refused:
                pressure.refused(lane.attempt, refused.detail)
        whole = parsed(reply.content)
        if whole is None:
            whole = reply.content.decode(errors="replace")
        exchange = Exchange(
            ordinal=self.ordinal,
            again=self.again,
            api=self.api,
            request=self.request,
            asked=self.asked,
            seconds=round(seconds, 3),
            first_seconds=self.first_seconds,
            status=reply.status,
            answer=whole if events is None else None,
            events=events,
            ending=reading.ending,
            usage=usage,
            discarded=isinstance(reading.ending, Fault),
        )
        try:
            lane.recorder.write(exchange)
        except OSError as error:
            # A conversation without its record is not one that we may count.
            return infra(Cause.DISK, f"{lane.recorder.path}: {error}")
        return reading
