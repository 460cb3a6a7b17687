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

CHUNK = 65536
VERSION = re.compile(r"^/v[\d.]+")
CREATE = r"POST /containers/create"
START = r"POST /containers/\w+/start"
EXEC_CREATE = r"POST /containers/\w+/exec"
EXEC_START = r"POST /exec/\w+/start"
EXEC_INSPECT = r"GET /exec/\w+/json"
PUT = r"PUT /containers/\w+/archive"
INSPECT = r"GET /containers/\w+/json"
REMOVE = r"DELETE /containers/\w+"
IMAGE = r"GET /images/.+/json"
EVENTS = r"GET /events"


@dataclass(slots=True)
class Call:
    """One request of a client: one a connection, for each is told to close."""

    name: str
    """Method and path, without the version."""
    head: bytes
    body: bytes
    client: socket.socket
    upstream: str

    def relay(
        self, until: bytes = b"", *, drain: bool = False, later: float = 0.0, held: float = 0.0
    ) -> None:
        """Pass it on, and its answer back.

        Args:
            until: words of the answer after which no more of it is passed on.
            drain: what comes after them is read to its end first, and thrown away.
            later: so many seconds after the daemon the client learns that it is over.
            held: what comes in so many seconds is passed on in one piece.
        """
        with socket.socket(socket.AF_UNIX) as server:
            server.connect(self.upstream)
            server.sendall(self.head + self.body)
            back = threading.Thread(target=copy, args=(self.client, server), daemon=True)
            back.start()
            copy(server, self.client, until=until, drain=drain, held=held)
            if later:
                server.shutdown(socket.SHUT_RDWR)
                time.sleep(later)
            with contextlib.suppress(OSError):
                self.client.shutdown(socket.SHUT_RDWR)
            back.join()

    def answer(self, status: int, message: str) -> None:
        content = json.dumps({"message": message}).encode()
        head = (
            f"HTTP/1.1 {status} Refused\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(content)}\r\nConnection: close\r\n\r\n"
        )
        self.client.sendall(head.encode() + content)

    def lose(self) -> None:
        """Have it done, and tell nobody: the connection just closes."""
        self.relay(until=b"HTTP/1.1", drain=True)


Act: TypeAlias = Callable[[Call], None]


def copy(
    source: socket.socket,
    target: socket.socket,
    *,
    until: bytes = b"",
    drain: bool = False,
    held: float = 0.0,
) -> None:
    """Bytes from one end to the other until there are no more, or until some words came by."""
    seen = b""
    with contextlib.suppress(OSError):
        while chunk := source.recv(CHUNK):
            if held:
                time.sleep(held)
                chunk += source.recv(CHUNK)
                held = 0.0
            seen = (seen + chunk)[-2 * CHUNK :]
            if until and until in seen:
                while drain and source.recv(CHUNK):
                    pass
                return
            target.sendall(chunk)
        if not until:
            target.shutdown(socket.SHUT_WR)


def refuse(status: int, message: str = "injected") -> Act:
    """Answer with an error, and do nothing."""
    return lambda call: call.answer(status, message)


def cut(words: str, *, later: float = 0.0) -> Act:
    """Close the connection once these words would come by.

    Args:
        later: so many seconds after the daemon the client learns of it.
    """
    return lambda call: call.relay(until=words.encode(), later=later)


def swallow(words: str) -> Act:
    """Lose these words and all that follows; close when there is no more."""
    return lambda call: call.relay(until=words.encode(), drain=True)


def lose(call: Call) -> None:
    call.lose()


def hang(call: Call) -> None:
    """Say nothing for as long as the client waits."""
    with contextlib.suppress(OSError):
        while call.client.recv(CHUNK):
            pass


def drop(call: Call) -> None:
    """Close without a word, and without doing anything."""


def late(seconds: float) -> Act:
    """Pass the call on, and not at once."""

    def act(call: Call) -> None:
        time.sleep(seconds)
        call.relay()

    return act


def in_one_piece(seconds: float) -> Act:
    """Pass on at once what the daemon says in its first seconds, as to a client that is slow."""
    return lambda call: call.relay(held=seconds)


def first(deed: Callable[[], None]) -> Act:
    """Do something else, and then pass the call on."""

    def act(call: Call) -> None:
        deed()
        call.relay()

    return act


def read(client: socket.socket, upstream: str) -> Call | None:
    """One request, whole; None: there is none."""
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = client.recv(CHUNK)
        if not chunk:
            return None
        data += chunk
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    fields = {
        name.lower(): value.strip()
        for name, _, value in (line.partition(":") for line in lines[1:])
    }
    length = int(fields.get("content-length", 0))
    chunked = fields.get("transfer-encoding", "") == "chunked"
    while len(body) < length or (chunked and not body.endswith(b"0\r\n\r\n")):
        chunk = client.recv(CHUNK)
        if not chunk:
            return None
        body += chunk
    if "upgrade" not in fields:
        lines = [line for line in lines if not line.lower().startswith("connection:")]
        lines.append("Connection: close")
    method, target, _ = lines[0].split(" ", 2)
    name = f"{method} {VERSION.sub('', target.partition('?')[0])}"
    whole = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"
    return Call(name, whole, body, client, upstream)


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
            call = read(client, self.upstream)
            if call is not None:
                acts = (act for words, act in self.rules.items() if re.fullmatch(words, call.name))
                next(acts, Call.relay)(call)


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
