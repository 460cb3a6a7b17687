"""A relay in front of a Docker socket, which does to chosen calls what a bad day does."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from pipeline.docker import connect

FOR_EVER = 1 << 30
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


@dataclass(slots=True)
class Call:
    """One request of a client: one a connection, for each is told to close."""

    name: str
    """Method and path, without the version."""
    head: bytes
    body: bytes
    client: socket.socket
    upstream: str

    def relay(self, until: bytes = b"", *, drain: bool = False) -> None:
        """Pass it on, and its answer back.

        Args:
            until: words of the answer after which no more of it is passed on.
            drain: what comes after them is read to its end first, and thrown away.
        """
        with socket.socket(socket.AF_UNIX) as server:
            server.connect(self.upstream)
            server.sendall(self.head + self.body)
            back = threading.Thread(target=copy, args=(self.client, server), daemon=True)
            back.start()
            copy(server, self.client, until=until, drain=drain)
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
    source: socket.socket, target: socket.socket, *, until: bytes = b"", drain: bool = False
) -> None:
    """Bytes from one end to the other until there are no more, or until some words came by."""
    seen = b""
    with contextlib.suppress(OSError):
        while chunk := source.recv(CHUNK):
            seen = (seen + chunk)[-2 * CHUNK :]
            if until and until in seen:
                while drain and source.recv(CHUNK):
                    pass
                return
            target.sendall(chunk)
        if not until:
            target.shutdown(socket.SHUT_WR)


def refuse(status: int) -> Act:
    """Answer with an error, and do nothing."""
    return lambda call: call.answer(status, f"injected {status}")


def cut(words: str) -> Act:
    """Close the connection once these words would come by."""
    return lambda call: call.relay(until=words.encode())


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


def first(deed: Callable[[], None]) -> Act:
    """Do something else, and then pass the call on."""

    def act(call: Call) -> None:
        deed()
        call.relay()

    return act


@dataclass(slots=True)
class Rule:
    """What happens to which calls."""

    pattern: str
    act: Act
    times: int = 1
    skip: int = 0
    """So many of them pass first."""

    def takes(self, name: str) -> bool:
        if not re.fullmatch(self.pattern, name) or not self.times:
            return False
        if self.skip:
            self.skip -= 1
            return False
        self.times -= 1
        return True


@dataclass(slots=True)
class Proxy:
    """A socket of its own, before another."""

    place: Path
    upstream: str
    rules: list[Rule]
    asked: list[str] = field(default_factory=list)
    struck: list[str] = field(default_factory=list)
    """Calls that a rule took; a fault that struck nothing was none."""
    _guard: threading.Lock = field(default_factory=threading.Lock)

    @property
    def env(self) -> dict[str, str]:
        return {"DOCKER_HOST": f"unix://{self.place / 'sock'}"}

    def serve(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            call = read(client, self.upstream)
            if call is None:
                return
            with self._guard:
                self.asked.append(call.name)
                rule = next((rule for rule in self.rules if rule.takes(call.name)), None)
                if rule:
                    self.struck.append(call.name)
            if rule:
                rule.act(call)
            else:
                call.relay()


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


def shared_socket() -> str:
    """Of the daemon that everything here uses."""
    client = connect()
    try:
        base = str(client.api.base_url)
        adapter = client.api.get_adapter(base)
        return str(getattr(adapter, "socket_path", "/var/run/docker.sock"))
    finally:
        client.close()


@contextlib.contextmanager
def before(*rules: Rule, upstream: str = "") -> Iterator[Proxy]:
    """A relay with these rules, before the shared daemon or another one's socket."""
    place = Path(tempfile.mkdtemp(prefix="passone-p-"))
    proxy = Proxy(place, upstream or shared_socket(), list(rules))
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(place / "sock"))
            listener.listen(128)
            threading.Thread(target=proxy.serve, args=(listener,), daemon=True).start()
            yield proxy
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
    finally:
        shutil.rmtree(place, ignore_errors=True)
