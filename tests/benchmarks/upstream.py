"""A server that answers at once, or after a given time, with always the same."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.sharedctypes import Synchronized
from typing import Any, TypeAlias

import uvicorn

KEEP_ALIVE_SECONDS = 600
CHUNKS = 20
STREAM = re.compile(rb'"stream":\s*true')
WORDS = "The scheduler drops the last occurrence because the bound is exclusive. " * 8
USAGE = {"prompt_tokens": 900, "completion_tokens": 140, "total_tokens": 1040}
NAMES = {"id": "chatcmpl-1", "created": 1_700_000_000, "model": "bench"}
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]


def plain() -> bytes:
    """A completion of about one kilobyte."""
    message = {
        "role": "assistant",
        "content": WORDS,
        "tool_calls": [
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "bash", "arguments": '{"command": "git diff --stat"}'},
            }
        ],
    }
    choice = {"index": 0, "finish_reason": "tool_calls", "message": message}
    tree = {**NAMES, "object": "chat.completion", "choices": [choice], "usage": USAGE}
    return json.dumps(tree).encode()


def streamed() -> list[bytes]:
    """Much the same as a stream."""
    shared = {**NAMES, "object": "chat.completion.chunk"}
    size = len(WORDS) // CHUNKS
    deltas: list[tuple[dict[str, Any], str | None]] = [
        ({"content": WORDS[at * size : (at + 1) * size]}, None) for at in range(CHUNKS - 2)
    ]
    deltas[0][0]["role"] = "assistant"
    trees = [
        {**shared, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
        for delta, reason in [*deltas, ({}, "stop")]
    ]
    trees.append({**shared, "choices": [], "usage": USAGE})
    return [*(f"data: {json.dumps(tree)}\n\n".encode() for tree in trees), b"data: [DONE]\n\n"]


@dataclass(frozen=True, slots=True)
class Fixed:
    """An ASGI application without a framework."""

    pause: Synchronized[float]
    """Seconds before an answer begins; a tenth of it before each further chunk."""
    body: bytes
    chunks: tuple[bytes, ...]

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"no answer for {scope['type']}")
        asked, more = bytearray(), True
        while more:
            part = await receive()
            asked += part.get("body", b"")
            more = part.get("more_body", False)
        pause = self.pause.value
        if pause:
            await asyncio.sleep(pause)
        # Wherever a client puts it: first, or after a long conversation.
        if STREAM.search(asked):
            await self.stream(send, pause / 10)
        else:
            await self.whole(send)

    async def whole(self, send: Send) -> None:
        length = str(len(self.body)).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", length)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})

    async def stream(self, send: Send, pause: float) -> None:
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for number, chunk in enumerate(self.chunks):
            if number and pause:
                await asyncio.sleep(pause)
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body"})


def serve(link: Connection, pause: Synchronized[float]) -> None:
    """The life of the server's process; it says its base URL first."""
    app = Fixed(pause, plain(), tuple(streamed()))
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
    )
    # Only a socket that says TCP gets TCP_NODELAY from asyncio.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        link.send(f"http://127.0.0.1:{listener.getsockname()[1]}/v1")
        uvicorn.Server(config).run([listener])
