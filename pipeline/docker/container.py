"""One running container: commands with a limit that really kills, and files put into it."""

from __future__ import annotations

import contextlib
import io
import os
import tarfile
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from threading import Event
from typing import Any

import docker
import requests
from docker.errors import APIError, DockerException, NotFound
from docker.utils.socket import frames_iter

from pipeline.docker.images import cause_of, short
from pipeline.domain import Cause
from pipeline.outcomes import InfraError
from pipeline.process import Completed, tail

WORKDIR = "/testbed"
ONE_STREAM = ("sh", "-c", 'exec "$@" 2>&1', "sh")
"""Docker sends two streams in no order of their own; a log's markers stand on one of them."""
KILLED = 137
OUTPUT_CAP_BYTES = 256 * 1024 * 1024
SETTLES_SECONDS = 2.0
"""Within which the daemon knows that a container is gone."""
ERRORS = (DockerException, requests.RequestException, OSError)


@dataclass(slots=True)
class DockerSandbox:
    """One running container. Its first process is ours, and nothing inside can kill that."""

    container: Any
    digest: str
    probe: docker.DockerClient
    """Asks the daemon with little patience: one that hangs is no reason to wait."""
    cancelled: Event
    cap_bytes: int = OUTPUT_CAP_BYTES
    timed_out: bool = False
    broken: str = ""
    """Why running out of time was not the command's doing."""

    def run(
        self, command: Sequence[str], *, timeout_seconds: float, output: Path | None = None
    ) -> Completed:
        """Run a command in the tree; over time, the whole container is killed.

        Raises:
            InfraError: the daemon failed, or the command was killed; `died` is set
                where the command may have done that to itself.
        """
        if self.cancelled.is_set():
            raise InfraError(Cause.SANDBOX, "stopped before it began")
        started = time.monotonic()
        path = output or self._scratch()
        try:
            api = self.container.client.api
            created = api.exec_create(
                self.container.id, [*ONE_STREAM, *command], workdir=WORKDIR, user="root"
            )
            truncated = self._stream(created["Id"], path, timeout_seconds)
            if self.broken:
                raise InfraError(Cause.SANDBOX, self.broken)
            code = None if self.timed_out else api.exec_inspect(created["Id"])["ExitCode"]
            if not self.timed_out and code in (None, KILLED):
                raise self._death()
            return Completed(
                returncode=code,
                output=tail(path),
                seconds=time.monotonic() - started,
                timed_out=self.timed_out,
                truncated=truncated,
            )
        except ERRORS as error:
            raise self._failure(error) from error
        finally:
            if output is None:
                path.unlink(missing_ok=True)

    @staticmethod
    def _scratch() -> Path:
        handle, name = tempfile.mkstemp(prefix="passone-")
        os.close(handle)
        return Path(name)

    def _stream(self, exec_id: str, path: Path, timeout_seconds: float) -> bool:
        """Copy output into a file until the command ends; whether the cap cut it."""
        stream = self.container.client.api.exec_start(exec_id, socket=True)
        raw = getattr(stream, "_sock", stream)
        raw.settimeout(None)

        def expire() -> None:
            # Only a container that lives, in a daemon that answers, can run out of time.
            self.broken = self._trouble()
            self.timed_out = not self.broken
            with contextlib.suppress(*ERRORS):
                self.probe.api.kill(self.container.id)
            with contextlib.suppress(OSError):
                raw.shutdown(2)

        timer = threading.Timer(timeout_seconds, expire)
        timer.daemon = True
        timer.start()
        written = 0
        try:
            with path.open("wb") as file:
                for _, chunk in frames_iter(stream, tty=False):  # type: ignore[no-untyped-call]
                    room = self.cap_bytes - written
                    file.write(chunk[: max(room, 0)])
                    written += len(chunk)
        finally:
            timer.cancel()
            # Where it has expired already, it says why before we go on.
            timer.join()
            stream.close()
            raw.close()
        return written > self.cap_bytes

    def _trouble(self) -> str:
        """What is wrong with the container or its daemon; empty if nothing is."""
        try:
            state = self.probe.api.inspect_container(self.container.id)["State"]
        except ERRORS as error:
            return f"time ran out while Docker did not answer: {short(error)}"
        if state["Paused"] or not state["Running"]:
            return f"time ran out in a container that was {state['Status']}"
        return ""

    def _death(self) -> InfraError:
        """Whose death it was that ended the command.

        Signals from inside do not reach the container's first process, so a container
        that is gone was ended from outside, unless the kernel says that memory ran out.
        """
        deadline = time.monotonic() + SETTLES_SECONDS
        while True:
            try:
                state = self.probe.api.inspect_container(self.container.id)["State"]
            except NotFound:
                return InfraError(Cause.SANDBOX, "the container was removed by somebody else")
            if state["OOMKilled"]:
                return InfraError(Cause.SANDBOX, "the container ran out of memory", died=True)
            if state["Paused"]:
                return InfraError(Cause.SANDBOX, "the container was paused from outside")
            if not state["Running"]:
                return InfraError(Cause.SANDBOX, "the container was killed from outside")
            if time.monotonic() > deadline:
                text = "the command was killed by signal 9 inside its container"
                return InfraError(Cause.SANDBOX, text, died=True)
            time.sleep(0.1)

    def _failure(self, error: Exception) -> InfraError:
        cause = cause_of(error, Cause.SANDBOX)
        gone = isinstance(error, APIError) and error.status_code in (404, 409)
        return self._death() if gone else InfraError(cause, f"Docker failed: {short(error)}")

    def put(self, content: bytes, target: str) -> None:
        """Write a file into the container.

        Raises:
            InfraError: the daemon failed or there is no room.
        """
        path = PurePosixPath(target)
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            info = tarfile.TarInfo(path.name)
            info.size, info.mode, info.mtime = len(content), 0o644, int(time.time())
            tar.addfile(info, io.BytesIO(content))
        try:
            self.container.put_archive(str(path.parent), buffer.getvalue())
        except ERRORS as error:
            raise self._failure(error) from error
