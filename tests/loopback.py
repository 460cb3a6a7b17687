"""A scripted OpenAI-compatible server on loopback: what stands behind the gateway in tests.

It is an upstream and no part of ours: real sockets, so that a reset is a reset and
half a body is half a body.
"""

from __future__ import annotations

import json
import socket
import ssl
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
    """cut: half a body, or a stream without its end; reset: not even a status line."""
    seconds: float = 0.0
    """Before it answers."""
    chunks: Sequence[bytes | float | threading.Event] = ()
    """Sent one by one in place of the content; a number is a pause, an event is waited for."""


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


def event(tree: object, end: str = "\n\n") -> bytes:
    """One server-sent event."""
    return f"data: {tree if isinstance(tree, str) else json.dumps(tree)}{end}".encode()


def piece(delta: Mapping[str, Any], reason: str | None = None, **more: Any) -> dict[str, Any]:
    """One chunk of a streamed completion, in OpenAI's shape."""
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return {"id": "scripted", "object": "chat.completion.chunk", "choices": [choice], **more}


def streams(*chunks: bytes | float | threading.Event, **more: Any) -> Answer:
    """A stream of these chunks, with an end of its own only where it is among them."""
    kind = {"content-type": "text/event-stream"}
    return Answer(headers=kind, chunks=chunks, **more)


def says(*words: str, usage: Mapping[str, Any] | None = None) -> Answer:
    """A streamed completion; its last chunk has the usage if there is one."""
    events = [event(piece({"role": "assistant", "content": ""}))]
    events += [event(piece({"content": word})) for word in words]
    events.append(event(piece({}, "stop")))
    if usage is not None:
        events.append(event({"id": "scripted", "choices": [], "usage": usage}))
    return streams(*events, event("[DONE]"))


@dataclass(slots=True)
class Server:
    """What is served, and what was asked."""

    answering: Answering
    base_url: str = ""
    requests: list[Received] = field(default_factory=list)
    hung_up: threading.Event = field(default_factory=threading.Event)
    """Somebody left before a stream was over."""
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
            if answer.chunks:
                self.send_chunks(answer)
                return
            self.send_header("content-length", str(len(answer.content)))
            self.end_headers()
            if answer.manner == "cut":
                self.wfile.write(answer.content[: len(answer.content) // 2])
                self.close_connection = True
                return
            self.wfile.write(answer.content)

        def send_chunks(self, answer: Answer) -> None:
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            try:
                for chunk in answer.chunks:
                    if isinstance(chunk, bytes):
                        self.wfile.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
                    elif isinstance(chunk, float):
                        time.sleep(chunk)
                    else:
                        chunk.wait(30)
                if answer.manner == "cut":
                    self.close_connection = True
                else:
                    self.wfile.write(b"0\r\n\r\n")
            except OSError:
                server.hung_up.set()
                self.close_connection = True

        def do_GET(self) -> None:
            self.do_POST()

    return Handler


class Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is no news."""


class QuietSix(Quiet):
    address_family = socket.AF_INET6


@contextmanager
def serve(
    answering: Answering, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> Iterator[Server]:
    """`with serve(in_turn(completes())) as server: … server.base_url … server.requests`"""
    server = Server(answering)
    six = ":" in host
    http = (QuietSix if six else Quiet)((host, 0), handler_of(server))
    scheme, written = "http", f"[{host}]" if six else host
    if tls is not None:
        scheme = "https"
        http.socket = tls.wrap_socket(http.socket, server_side=True)
    server.base_url = f"{scheme}://{written}:{http.server_port}/v1"
    thread = threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join(10)
