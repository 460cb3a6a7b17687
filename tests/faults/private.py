"""A Docker daemon of one's own, to be killed, stopped and started again beside the shared one."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import docker
import requests
from docker.errors import DockerException

from pipeline.process import tethered
from tests.faults.material import SceneError

INIT = """\
go=$1; shift
while true; do
    dockerd "$@"
    while [ ! -e "$go" ]; do sleep 0.05; done
    rm -f "$go"
done
"""
"""The first process of the daemon's own PID namespace: with it goes all that ran there."""
SHUTDOWN_SECONDS = 1
STARTS_SECONDS = 30.0
COMES_SECONDS = 0.05
TEMPLATE = "passone-t-"
GUARD = threading.Lock()
"""One template, whoever asks for it first."""


@dataclass(slots=True)
class PrivateDaemon:
    """One daemon: where it lives, and whether it does."""

    place: Path
    """Short: a socket's path has 107 bytes at most."""
    process: subprocess.Popen[bytes] | None = None

    @property
    def socket(self) -> Path:
        return self.place / "sock"

    @property
    def url(self) -> str:
        return f"unix://{self.socket}"

    @property
    def env(self) -> dict[str, str]:
        return {"DOCKER_HOST": self.url}

    @contextlib.contextmanager
    def client(self) -> Iterator[docker.DockerClient]:
        found = docker.DockerClient(base_url=self.url, timeout=60)
        try:
            yield found
        finally:
            found.close()

    def up(self) -> None:
        """Start it, for the first time or again, and wait until it answers."""
        if self.process is None:
            self._launch()
        else:
            (self.place / "go").touch()
        deadline = time.monotonic() + STARTS_SECONDS
        while time.monotonic() < deadline:
            if self.answers():
                return
            time.sleep(COMES_SECONDS)
        log = (self.place / "log").read_text(errors="replace")
        raise SceneError(f"a daemon of our own does not start: {log[-300:]}")

    def _launch(self) -> None:
        # No bridge: a daemon without one deletes docker0 where it finds it, and that is the
        # shared daemon's. Hence a network namespace of its own, below.
        options = [
            f"--host={self.url}",
            f"--data-root={self.place / 'data'}",
            f"--exec-root={self.place / 'exec'}",
            f"--pidfile={self.place / 'pid'}",
            f"--cgroup-parent=/{self.place.name}",
            f"--shutdown-timeout={SHUTDOWN_SECONDS}",
            "--bridge=none",
            "--iptables=false",
            "--ip6tables=false",
            "--ip-forward=false",
        ]
        spaces = ["--net", "--pid", "--mount", "--mount-proc"]
        unshared = ["unshare", *spaces, "--fork", "--kill-child"]
        with (self.place / "log").open("ab") as log:
            self.process = subprocess.Popen(
                tethered([*unshared, "sh", "-c", INIT, "init", str(self.place / "go"), *options]),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def answers(self) -> bool:
        try:
            with self.client() as client:
                client.ping()
        except (DockerException, requests.RequestException):
            return False
        return True

    def down(self, signum: int = signal.SIGKILL) -> None:
        """End the daemon; KILL leaves its containers running, TERM stops them first."""
        for number in self._pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signum)
        deadline = time.monotonic() + STARTS_SECONDS
        while self._pids():
            if time.monotonic() > deadline:
                raise SceneError("a daemon of our own does not end")
            time.sleep(COMES_SECONDS)

    def freeze(self, seconds: float) -> None:
        """Let it do nothing for a while; its containers go on."""
        for number in self._pids():
            os.kill(number, signal.SIGSTOP)
        time.sleep(seconds)
        for number in self._pids():
            os.kill(number, signal.SIGCONT)

    def _pids(self) -> list[int]:
        """The daemon's process as this machine numbers it."""
        assert self.process is not None
        return [
            number
            for init in children(self.process.pid)
            for number in children(init)
            if name_of(number) == "dockerd"
        ]

    def restart(self, signum: int = signal.SIGTERM) -> None:
        self.down(signum)
        self.up()

    def end(self) -> None:
        """Everything goes: daemon, containers, mounts, files."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        for _ in range(50):
            shutil.rmtree(self.place, ignore_errors=True)
            for root in Path("/sys/fs/cgroup").glob(f"*/{self.place.name}"):
                remove_cgroup(root)
            if not self.place.exists():
                return
            time.sleep(0.1)


def children(number: int) -> list[int]:
    try:
        text = Path(f"/proc/{number}/task/{number}/children").read_text()
    except OSError:
        return []
    return [int(word) for word in text.split()]


def name_of(number: int) -> str:
    try:
        return Path(f"/proc/{number}/comm").read_text().strip()
    except OSError:
        return ""


def remove_cgroup(root: Path) -> None:
    for directory, _, _ in os.walk(root, topdown=False):
        with contextlib.suppress(OSError):
            Path(directory).rmdir()


@cache
def template(images: tuple[str, ...]) -> Path:
    """The data of a daemon that holds these images of the shared one; goes with this process."""
    sweep()
    own = PrivateDaemon(Path(tempfile.mkdtemp(prefix=f"{TEMPLATE}{os.getpid()}-")))
    atexit.register(own.end)
    own.up()
    with (
        subprocess.Popen(["docker", "save", *images], stdout=subprocess.PIPE) as saving,
        subprocess.Popen(["docker", "-H", own.url, "load", "-q"], stdin=saving.stdout) as loading,
    ):
        if saving.wait() or loading.wait():
            raise SceneError(f"{', '.join(images)}: cannot be copied to a daemon of our own")
    own.down(signal.SIGTERM)
    return own.place / "data"


def sweep() -> None:
    """Remove what processes have left that were killed: their daemons went with them."""
    for place in Path(tempfile.gettempdir()).glob(f"{TEMPLATE}*-*"):
        pid = place.name.removeprefix(TEMPLATE).partition("-")[0]
        if pid.isdecimal() and not Path(f"/proc/{pid}").exists():
            PrivateDaemon(place).end()


def copy(data: Path, target: Path) -> None:
    """Layers are only ever read: links will do. The rest is written to."""
    target.mkdir()
    for entry in sorted(data.iterdir()):
        how = "-al" if entry.name == "overlay2" else "-a"
        subprocess.run(["cp", how, str(entry), str(target / entry.name)], check=True)


@contextlib.contextmanager
def private(*images: str) -> Iterator[PrivateDaemon]:
    """A daemon that runs, with these images in it."""
    with GUARD:
        data = template(images) if images else None
    own = PrivateDaemon(Path(tempfile.mkdtemp(prefix=f"{TEMPLATE}{os.getpid()}-")))
    try:
        if data is not None:
            copy(data, own.place / "data")
        own.up()
        yield own
    finally:
        own.end()
