"""Programs forked from a zygote where that comes to the same, and started afresh elsewhere."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.process import tail
from tests.faults.material import SceneError

PASSONE_CODE = "from pipeline.cli import main; main()"
HARNESS_MODULE = "swebench.harness.run_evaluation"
KINDS: Mapping[tuple[str, ...], str] = {
    ("-c", PASSONE_CODE): "passone",
    ("-m", "tests.faults.deadly"): "passone",
    ("-m", HARNESS_MODULE): "swebench",
}
"""Which zygote forks what a Python is told to run. Whoever has no zygote is started afresh."""
IMPORTS: Mapping[str, Sequence[str]] = {
    "passone": ("pipeline.*",),
    "swebench": (HARNESS_MODULE,),
}
"""What each has behind it. What a program imports beside this, it imports itself."""
LATE = frozenset({"DOCKER_HOST", "HF_HOME", "OPENAI_API_KEY", "PASSONE_CACHE"})
"""Variables that mean the same whether they are set before the imports or after them.

All but HF_HOME are read when they are needed. That one is read at import, by what loads a
dataset from a hub, and no case does.
"""
QUIET = {"OPENBLAS_NUM_THREADS": "1"}
"""Of a zygote alone: numpy starts no threads in it, for they would not outlive a fork."""
ROOM = 1 << 15
"""Bytes for the command that a fork shows to others."""
PIECE = 1 << 16


class Forked:
    """A program that was forked: as much of a `subprocess.Popen` as is asked of one."""

    def __init__(self, argv: Sequence[str], report: socket.socket, out: int, err: int) -> None:
        self.argv = argv
        self.report = report
        self.said: dict[int, bytearray] = {fd: bytearray() for fd in (out, err, report.fileno())}
        self.fds = (out, err, report.fileno())
        told = self.said[report.fileno()]
        while b"\n" not in told:
            piece = report.recv(PIECE)
            if not piece:
                raise SceneError("the zygote is gone")
            told += piece
        self.pid = int(told.split()[0])

    @property
    def returncode(self) -> int:
        told = self.said[self.fds[2]].split()
        if len(told) < 2:
            raise SceneError("the zygote is gone")
        return int(told[1])

    def communicate(self, timeout: float) -> tuple[bytes, bytes]:
        """What it says until it has ended, and whoever else may write there.

        Raises:
            subprocess.TimeoutExpired: it has not ended by then.
        """
        self._read(self.fds, timeout)
        return bytes(self.said[self.fds[0]]), bytes(self.said[self.fds[1]])

    def wait(self) -> None:
        """Until it has ended; nothing more is heard of it."""
        if self.report.fileno() >= 0:
            self._read(self.fds[2:], None)
            for fd in self.fds[:2]:
                os.close(fd)
            self.report.close()

    def _read(self, fds: Sequence[int], timeout: float | None) -> None:
        deadline = None if timeout is None else time.monotonic() + timeout
        with selectors.DefaultSelector() as selector:
            for fd in fds:
                selector.register(fd, selectors.EVENT_READ)
            while selector.get_map():
                left = None if deadline is None else max(0.0, deadline - time.monotonic())
                for key, _ in selector.select(left):
                    piece = os.read(key.fd, PIECE)
                    self.said[key.fd] += piece
                    if not piece:
                        selector.unregister(key.fd)
                if left == 0 and timeout is not None and selector.get_map():
                    raise subprocess.TimeoutExpired(self.argv, timeout)


@dataclass(slots=True)
class Zygote:
    """One process that has some imports behind it."""

    place: Path
    env: Mapping[str, str]
    control: socket.socket
    process: subprocess.Popen[bytes]

    @classmethod
    def begin(cls, place: Path, env: Mapping[str, str], modules: Sequence[str]) -> Zygote:
        """Start one; it goes when its control is closed, and so at the latest with us."""
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        number = its.fileno()
        names = ",".join(modules)
        with its, (place / "log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.zygote", str(number), names, "." * ROOM],
                cwd=place,
                env={**env, **QUIET},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[number],
                start_new_session=True,
            )
        return cls(place, env, ours, process)

    def fits(self, env: Mapping[str, str]) -> bool:
        """Whether this environment differs from the one of the imports in what is read late."""
        names = env.keys() | self.env.keys()
        return all(env.get(name) == self.env.get(name) for name in names - LATE)

    def fork(self, argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> Forked:
        order = json.dumps({"argv": list(argv), "cwd": str(cwd), "env": dict(env)}).encode()
        ours, its = socket.socketpair()
        (out, write_out), (err, write_err) = os.pipe(), os.pipe()
        nothing = os.open(os.devnull, os.O_RDONLY)
        try:
            socket.send_fds(self.control, [order], [nothing, write_out, write_err, its.fileno()])
        finally:
            its.close()
            for fd in (nothing, write_out, write_err):
                os.close(fd)
        try:
            return Forked(argv, ours, out, err)
        except SceneError as error:
            raise SceneError(f"{error}: {tail(self.place / 'log')[-300:]}") from None

    def end(self) -> None:
        self.control.close()
        self.process.wait()


@dataclass(slots=True)
class Nursery:
    """The zygotes of this process: each is made when it is first asked for."""

    place: Path | None = None
    """None: everything is started afresh."""
    env: Mapping[str, str] = field(default_factory=dict)
    zygotes: dict[str, Zygote] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def fork(self, argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> Forked | None:
        """The program, if a fork comes to the same as a start."""
        kind = KINDS.get(tuple(argv[1:3])) if argv[0] == sys.executable else None
        if self.place is None or kind is None:
            return None
        with self.lock:
            if kind not in self.zygotes:
                place = Path(tempfile.mkdtemp(dir=self.place))
                self.zygotes[kind] = Zygote.begin(place, self.env, IMPORTS[kind])
        zygote = self.zygotes[kind]
        return zygote.fork(argv, cwd, env) if zygote.fits(env) else None

    @contextlib.contextmanager
    def open(self, place: Path | None, env: Mapping[str, str]) -> Iterator[None]:
        """Fork for as long as this lasts, from processes in this environment.

        Args:
            place: for their logs; None: nothing is forked.
        """
        self.place, self.env = place, env
        try:
            yield
        finally:
            self.place = None
            for zygote in self.zygotes.values():
                zygote.end()
            self.zygotes.clear()


NURSERY = Nursery()
