"""A relay in front of a Docker socket, which strikes chosen calls so and so often."""

from __future__ import annotations

import contextlib
import re
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.docker import connect
from tests.relay import Act, read

FOR_EVER = 1 << 30


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
