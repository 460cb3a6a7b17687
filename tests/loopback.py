"""A scripted OpenAI-compatible server on loopback: what stands behind the gateway in tests.

It is an upstream and no part of ours: real sockets, so that a reset is a reset and
half a body is half a body.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the server sends back, and in what manner."""

    status: int = 200
    content: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    manner: Literal["whole", "cut", "reset"] = "whole"
    """cut: half a body, then the end; reset: not even a status line."""
    seconds: float = 0.0
    """Before it answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """One request, as it came over the wire."""

    path: str
    headers: Mapping[str, str]
    content: bytes
    at: float

    @property
    def body(self) -> Any:
        return json.loads(self.content)


Answering = Callable[[Received, int], Answer]
"""From a request and its number (from 0) to the answer."""


def in_turn(*answers: Answer) -> Answering:
    """One after the other, the last one for ever."""
    return lambda request, number: answers[min(number, len(answers) - 1)]


def by_step(*answers: Answer) -> Answering:
    """By how far the conversation is; the last one for ever."""

    def answer(request: Received, number: int) -> Answer:
        step = sum(1 for message in request.body["messages"] if message["role"] == "assistant")
        return answers[min(step, len(answers) - 1)]

    return answer


def as_json(tree: object, status: int = 200, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status=status, content=json.dumps(tree).encode(), headers=named)


def refuses(status: int, message: str = "refused", code: str = "", **headers: str) -> Answer:
    """An error in OpenAI's shape."""
    return as_json({"error": {"message": message, "code": code or None}}, status, **headers)


def completes(
    content: str | None = "done",
    *,
    calls: Sequence[tuple[str, Mapping[str, Any]]] = (),
    usage: Mapping[str, Any] | None = None,
) -> Answer:
    """A completion in OpenAI's shape, with calls of (tool, arguments)."""
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if calls:
        message["tool_calls"] = [
            {
                "id": f"call_{number}",
                "type": "function",
                "function": {"name": tool, "arguments": json.dumps(arguments)},
            }
            for number, (tool, arguments) in enumerate(calls)
        ]
    reason = "tool_calls" if calls else "stop"
    return as_json(
        {
            "id": "scripted",
            "object": "chat.completion",
            "created": 0,
            "model": "scripted",
            "choices": [{"index": 0, "finish_reason": reason, "message": message}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
            if usage is None
            else usage,
        }
    )


def runs(command: str, thought: str = "", tool: str = "bash") -> Answer:
    """A completion that runs one shell command."""
    return completes(thought, calls=[(tool, {"command": command})])


@dataclass(slots=True)
class Server:
    """What is served, and what was asked."""

    answering: Answering
    base_url: str = ""
    requests: list[Received] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def receive(self, request: Received) -> Answer:
        with self.lock:
            number = len(self.requests)
            self.requests.append(request)
        answer = self.answering(request, number)
        time.sleep(answer.seconds)
        return answer


def handler_of(server: Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Headers and body are two writes: together they would wait for an acknowledgement.
        disable_nagle_algorithm = True

        def log_message(self, *arguments: object) -> None:
            return

        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer = server.receive(
                Received(path=self.path, headers=headers, content=content, at=time.monotonic())
            )
            if answer.manner == "reset":
                # With a linger of zero seconds, closing sends RST.
                linger = struct.pack("ii", 1, 0)
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                self.close_connection = True
                self.connection.close()
                return
            self.send_response(answer.status)
            for name, value in {"content-type": "application/json", **answer.headers}.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(answer.content)))
            self.end_headers()
            if answer.manner == "cut":
                self.wfile.write(answer.content[: len(answer.content) // 2])
                self.close_connection = True
                return
            self.wfile.write(answer.content)

        def do_GET(self) -> None:
            self.do_POST()

    return Handler


class Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is no news."""


@contextmanager
def serve(answering: Answering) -> Iterator[Server]:
    """`with serve(in_turn(completes())) as server: … server.base_url … server.requests`"""
    server = Server(answering)
    http = Quiet(("127.0.0.1", 0), handler_of(server))
    server.base_url = f"http://127.0.0.1:{http.server_port}/v1"
    thread = threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join(10)
