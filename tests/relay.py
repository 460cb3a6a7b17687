"""A relay in front of the Docker socket, which does to chosen calls what a bad day does."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import docker

CREATE = r"POST /containers/create"
EXEC_START = r"POST /exec/\w+/start"
EXEC_INSPECT = r"GET /exec/\w+/json"
INSPECT = r"GET /containers/\w+/json"
REMOVE = r"DELETE /containers/\w+"
EVENTS = r"GET /events"


@dataclass(slots=True)
class Call:
    """One request of a client: one a connection, for each is told to close."""

    request: bytes
    client: socket.socket
    upstream: str

    def relay(self, until: bytes = b"", *, drain: bool = False) -> None:
        """Pass it on, and its answer back, up to some words; what follows them is lost.

        Args:
            drain: the connection closes only when there is no more, not at those words.
        """
        with socket.socket(socket.AF_UNIX) as server:
            server.connect(self.upstream)
            server.sendall(self.request)
            threading.Thread(target=copy, args=(self.client, server), daemon=True).start()
            copy(server, self.client, until=until, drain=drain)
            with contextlib.suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)

    def answer(self, status: int, message: str) -> None:
        content = json.dumps({"message": message}).encode()
        head = f"HTTP/1.1 {status} No\r\nContent-Type: application/json\r\nConnection: close\r\n"
        self.client.sendall(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)


Act: TypeAlias = Callable[[Call], None]


def copy(
    source: socket.socket, target: socket.socket, *, until: bytes = b"", drain: bool = False
) -> None:
    with contextlib.suppress(OSError):
        while chunk := source.recv(1 << 16):
            if until and until in chunk:
                while drain and source.recv(1 << 16):
                    continue
                break
            target.sendall(chunk)
        target.shutdown(socket.SHUT_WR)


def refuse(status: int, message: str = "injected") -> Act:
    return lambda call: call.answer(status, message)


def cut(words: str) -> Act:
    return lambda call: call.relay(words.encode())


def swallow(words: str) -> Act:
    return lambda call: call.relay(words.encode(), drain=True)


def late(seconds: float) -> Act:
    def act(call: Call) -> None:
        time.sleep(seconds)
        call.relay()

    return act


def hang(call: Call) -> None:
    with contextlib.suppress(OSError):
        while call.client.recv(1 << 16):
            continue


@dataclass(slots=True)
class Relay:
    """What is done to calls whose method and path are such; empty: nothing."""

    place: Path
    upstream: str
    rules: dict[str, Act] = field(default_factory=dict)
    listener: socket.socket = field(default_factory=lambda: socket.socket(socket.AF_UNIX))
    open: list[socket.socket] = field(default_factory=list)

    def client(self, *, timeout_seconds: int = 60) -> docker.DockerClient:
        return docker.DockerClient(
            base_url=f"unix://{self.place / 'sock'}", version="1.41", timeout=timeout_seconds
        )

    def cut_all(self) -> None:
        """Every connection that there is by now."""
        for each in list(self.open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def die(self) -> None:
        """As a daemon that is killed: its socket stays, and nobody listens on it."""
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.cut_all()

    def serve(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            self.open.append(client)
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            data = b""
            while not whole(data):
                chunk = client.recv(1 << 16)
                if not chunk:
                    return
                data += chunk
            name, request = rewritten(data)
            acts = (act for words, act in self.rules.items() if re.fullmatch(words, name))
            next(acts, Call.relay)(Call(request, client, self.upstream))


def whole(data: bytes) -> bool:
    head, found, body = data.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
    if re.search(rb"transfer-encoding: *chunked", head, re.IGNORECASE):
        return body.endswith(b"0\r\n\r\n")
    return bool(found) and len(body) >= (int(length[1]) if length else 0)


def rewritten(data: bytes) -> tuple[str, bytes]:
    """Method and path without the version, and the request with its connection told to close."""
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    method, target, _ = lines[0].split(" ", 2)
    if "upgrade: tcp" not in head.decode("latin-1").lower():
        lines = [line for line in lines if not line.lower().startswith("connection:")]
        lines.append("Connection: close")
    path = re.sub(r"^/v[\d.]+", "", target.partition("?")[0])
    return f"{method} {path}", "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


@contextlib.contextmanager
def relaying(client: docker.DockerClient) -> Iterator[Relay]:
    """A socket of its own before the daemon of a client."""
    adapter = client.api.get_adapter(client.api.base_url)
    upstream = str(getattr(adapter, "socket_path", "/var/run/docker.sock"))
    # A socket's path is short by law, and pytest's directories are not.
    with tempfile.TemporaryDirectory(prefix="passone-relay-") as place:
        relay = Relay(Path(place), upstream)
        relay.listener.bind(str(relay.place / "sock"))
        relay.listener.listen(64)
        threading.Thread(target=relay.serve, daemon=True).start()
        try:
            yield relay
        finally:
            relay.die()
