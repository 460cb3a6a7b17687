"""One running container: commands with a limit that really kills, and files put into it."""

from __future__ import annotations

import contextlib
import io
import tarfile
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import requests
from docker.errors import APIError, DockerException, NotFound
from docker.utils.socket import frames_iter

from pipeline.docker.images import cause_of, short
from pipeline.domain import Cause
from pipeline.outcomes import InfraError
from pipeline.process import Completed, tail

WORKDIR = "/testbed"
KILLED = 137
OUTPUT_CAP_BYTES = 256 * 1024 * 1024


@dataclass(slots=True)
class DockerSandbox:
    """One running container."""

    container: Any
    digest: str
    cap_bytes: int = OUTPUT_CAP_BYTES
    timed_out: bool = False

    def run(
        self, command: Sequence[str], *, timeout_seconds: float, output: Path | None = None
    ) -> Completed:
        """Run a command in the tree; over time, the whole container is killed.

        Raises:
            InfraError: the daemon failed, or the container died (then `died` is set).
        """
        started = time.monotonic()
        api = self.container.client.api
        path = output or Path(tempfile.mkstemp(prefix="passone-")[1])
        try:
            created = api.exec_create(
                self.container.id, list(command), workdir=WORKDIR, user="root"
            )
            truncated = self._stream(created["Id"], path, timeout_seconds)
            code = None if self.timed_out else api.exec_inspect(created["Id"])["ExitCode"]
            if not self.timed_out and code in (None, KILLED):
                # With the container or alone, by us or by the patch: nobody can tell from here.
                raise self._death()
            return Completed(
                returncode=code,
                output=tail(path),
                seconds=time.monotonic() - started,
                timed_out=self.timed_out,
                truncated=truncated,
            )
        except (DockerException, requests.RequestException, OSError) as error:
            raise self._broken(error) from error
        finally:
            if output is None:
                path.unlink(missing_ok=True)

    def _stream(self, exec_id: str, path: Path, timeout_seconds: float) -> bool:
        """Copy output into a file until the command ends; whether the cap cut it."""
        stream = self.container.client.api.exec_start(exec_id, socket=True)
        raw = getattr(stream, "_sock", stream)
        raw.settimeout(None)

        def expire() -> None:
            self.timed_out = True
            with contextlib.suppress(DockerException, requests.RequestException):
                self.container.kill()
            # A daemon that hangs must not hold us: the socket goes too.
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
            stream.close()
            raw.close()
        return written > self.cap_bytes

    def _death(self) -> InfraError:
        try:
            state = self.container.client.api.inspect_container(self.container.id)["State"]
            how = "out of memory" if state["OOMKilled"] else "by signal 9"
        except NotFound:
            how = "its container was removed by somebody else"
        return InfraError(Cause.SANDBOX, f"the command was killed: {how}", died=True)

    def _broken(self, error: Exception) -> InfraError:
        cause = cause_of(error, Cause.SANDBOX)
        if isinstance(error, NotFound) or (
            isinstance(error, APIError) and error.status_code == 409
        ):
            return InfraError(cause, f"the container died: {short(error)}", died=True)
        return InfraError(cause, f"Docker failed: {short(error)}")

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
        except (DockerException, requests.RequestException) as error:
            raise self._broken(error) from error
