"""What a command prints, from the daemon's socket into a file: bounded, and known to be whole."""

from __future__ import annotations

import contextlib
import os
import shutil
import struct
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

END_VARIABLE = "PASSONE_END"
ONE_STREAM = (
    "sh",
    "-c",
    f"passone_end=${END_VARIABLE}; unset {END_VARIABLE}; "
    "trap 'printf %s \"$passone_end\"; read -r passone_end' EXIT; "
    '(exec "$@" 2>&1 </dev/null); exit $?',
    "sh",
)
"""Runs the command behind it, and ends its output with what END_VARIABLE holds.

Docker sends two streams in no order of their own, and a log's markers stand on one of them.
The end is told however the shell leaves, unless a signal ends the shell itself; what the
shell has to say of its own (`Killed`) goes to the other stream, which nobody keeps.
The shell leaves when it is told that the end was heard: of what a command printed, a busy
daemon drops what it has not passed on two seconds after the command's end (moby,
daemon/monitor.go). While it waits it has no child, and the command is over all the same.
"""
RECEIVED = b"\n"
STDOUT = 1
HEADER = struct.Struct(">BxxxL")
CHUNK_BYTES = 1 << 16
NO_SHELL = (126, 127)
UNSTARTED = b"OCI runtime exec failed"
"""What the daemon itself writes where a command's shell could not be started."""
LINGERS_SECONDS = 5.0
"""For how long output is still taken after the command's end. The daemon takes it for two seconds;
whoever leaves before it has made up its mind is told that the command exited with 126.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What came out of a command's stream, beside the log."""

    whole: bool
    """Its end was told: all that it printed has come."""
    truncated: bool


@dataclass(slots=True)
class Connection:
    """What the SDK gives of a command's stream, beneath the buffer that it read the header with.

    A client that is slow finds output behind the header of Docker's answer, and has both by then.
    """

    raw: Any
    _early: bytes

    @classmethod
    def of(cls, stream: Any) -> Connection:
        raw = getattr(stream, "_sock", stream)
        # Not waited for: there may be nothing yet.
        raw.settimeout(0)
        early = b""
        with contextlib.suppress(AttributeError, OSError):
            early = stream._response.raw._fp.fp.peek() or b""
        raw.settimeout(None)
        return cls(raw, early)

    def recv(self, size: int) -> bytes:
        if not self._early:
            return bytes(self.raw.recv(size))
        part, self._early = self._early[:size], self._early[size:]
        return part


def listen(stream: Any, path: Path, *, nonce: str, cap_bytes: int) -> Heard:
    """Copy output into a file until the stream ends, or soon after the command does.

    Raises:
        OSError: the connection broke, or the file could not be written.
    """
    sieve = Sieve(nonce.encode())
    deadline = None
    connection = Connection.of(stream)
    raw = connection.raw
    with Log(path, cap_bytes) as log:
        try:
            for chunk in frames(connection):
                log.write(sieve.sift(chunk))
                if not sieve.seen:
                    continue
                if deadline is None:
                    raw.sendall(RECEIVED)
                    # What outlives a command and keeps its output open is not waited for.
                    deadline = time.monotonic() + LINGERS_SECONDS
                if time.monotonic() >= deadline:
                    break
                raw.settimeout(deadline - time.monotonic() + 0.001)
        except TimeoutError:
            if not sieve.seen:
                raise
        log.write(sieve.rest())
    return Heard(whole=sieve.seen, truncated=log.truncated)


def scratch() -> Path:
    """An empty file, for output that nobody keeps."""
    handle, name = tempfile.mkstemp(prefix="passone-")
    os.close(handle)
    return Path(name)


def unstarted(code: int | None, path: Path) -> bool:
    """Whether there was no shell to tell an end: the instance's own lack, as gold will show."""
    if code not in NO_SHELL:
        return False
    with path.open("rb") as file:
        return file.read(len(UNSTARTED)) == UNSTARTED


def frames(raw: Any) -> Iterator[bytes]:
    """The payload of a command's own stream, in Docker's framing, until no more comes."""
    while len(header := _exactly(raw, HEADER.size)) == HEADER.size:
        stream, left = HEADER.unpack(header)
        while left:
            chunk = raw.recv(min(left, CHUNK_BYTES))
            if not chunk:
                return
            left -= len(chunk)
            if stream == STDOUT:
                yield chunk


def _exactly(raw: Any, size: int) -> bytes:
    data = b""
    while len(data) < size and (more := raw.recv(size - len(data))):
        data += more
    return data


@dataclass(slots=True)
class Sieve:
    """Takes one secret out of what passes through it, wherever the chunks are cut."""

    nonce: bytes
    seen: bool = False
    _held: bytes = b""

    def sift(self, chunk: bytes) -> bytes:
        """What may be passed on by now."""
        if self.seen:
            return chunk
        data = self._held + chunk
        before, found, after = data.partition(self.nonce)
        if found:
            self.seen, self._held = True, b""
            return before + after
        # Its beginning may be here, and its rest still to come.
        cut = max(len(data) - len(self.nonce) + 1, 0)
        self._held = data[cut:]
        return data[:cut]

    def rest(self) -> bytes:
        """What was held back, when nothing more comes."""
        held, self._held = self._held, b""
        return held


@dataclass(slots=True)
class Log:
    """A file that keeps the two ends of what is written to it, each up to half of a cap.

    The result of the tests stands at the end, and what went wrong before them at the
    beginning. Its middle is left out by whole lines, and a line says so.
    """

    path: Path
    cap_bytes: int
    truncated: bool = False
    _head: IO[bytes] = field(init=False)
    _tail: IO[bytes] | None = None
    """The later half, written round and round. It has no name, so no kill leaves it behind."""
    _room: int = field(init=False)
    _beyond: int = 0

    def __post_init__(self) -> None:
        self._room = self.cap_bytes // 2
        self._head = self.path.open("w+b")

    def __enter__(self) -> Log:
        return self

    def __exit__(self, kind: object, *exc: object) -> None:
        with self._head:
            if self._tail is not None:
                with self._tail:
                    if kind is None:
                        self._join(self._tail)

    def write(self, data: bytes) -> None:
        head, rest = data[: self._room], memoryview(data)[self._room :]
        self._head.write(head)
        self._room -= len(head)
        if rest and self._tail is None:
            self._tail = tempfile.TemporaryFile(dir=self.path.parent)  # noqa: SIM115
        half = self.cap_bytes - self.cap_bytes // 2
        while rest and self._tail is not None:
            place = self._beyond % half
            part, rest = rest[: half - place], rest[half - place :]
            self._tail.seek(place)
            self._tail.write(part)
            self._beyond += len(part)

    def _join(self, tail: IO[bytes]) -> None:
        half = self.cap_bytes - self.cap_bytes // 2
        lost = self._beyond - half
        if lost <= 0:
            tail.seek(0)
            shutil.copyfileobj(tail, self._head, CHUNK_BYTES)
            return
        self.truncated = True
        oldest = self._beyond % half
        tail.seek(oldest)
        # Half a line can say the opposite of the whole one.
        skipped = tail.read(min(CHUNK_BYTES, half - oldest)).find(b"\n") + 1
        lost += skipped + self._cut_half_a_line()
        self._head.write(f"\n[passone left out {lost} bytes here: over the cap]\n".encode())
        tail.seek(oldest + skipped)
        shutil.copyfileobj(tail, self._head, CHUNK_BYTES)
        tail.seek(0)
        left = oldest
        while left and (chunk := tail.read(min(left, CHUNK_BYTES))):
            self._head.write(chunk)
            left -= len(chunk)

    def _cut_half_a_line(self) -> int:
        """Take it off the end of the head, unless the line is a very long one; its length."""
        size = self._head.tell()
        start = max(size - CHUNK_BYTES, 0)
        self._head.seek(start)
        newline = self._head.read().rfind(b"\n")
        end = size if newline < 0 else start + newline + 1
        self._head.seek(end)
        self._head.truncate()
        return size - end
