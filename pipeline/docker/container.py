"""One running container: commands with a limit that really kills, and files put into it."""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from threading import Event
from typing import IO, Any

import docker
import requests
from docker.errors import APIError, DockerException, NotFound

from pipeline.docker.archives import packed, unpacked
from pipeline.docker.images import cause_of, short, unfit
from pipeline.docker.shapes import IDLE
from pipeline.docker.streaming import END_VARIABLE, ONE_STREAM, Heard, listen, scratch, unstarted
from pipeline.docker.watch import Watch
from pipeline.domain import Cause
from pipeline.outcomes import InfraError
from pipeline.process import Completed, tail

KILLED = 137
OUTPUT_CAP_BYTES = 256 * 1024 * 1024
SETTLES_SECONDS = 2.0
"""Within which the daemon knows that a container is gone or a command over."""
SLOW_SECONDS = 2.0
"""A daemon that takes longer to answer was not at work, nor was a container paused so long."""
ERRORS = (DockerException, requests.RequestException, OSError)


@dataclass(slots=True)
class DockerSandbox:
    """One running container. Its first process is ours, and no signal from inside ends that."""

    client: docker.DockerClient
    id: str
    digest: str
    probe: docker.DockerClient
    """Asks the daemon with little patience: one that hangs is no reason to wait."""
    watch: Watch
    cancelled: Event
    workdir: str = ""
    """Where commands run, and as whom; empty: as the container has it."""
    user: str = ""
    started_at: str = ""
    """By the daemon's clock: another time later, and somebody has started it again."""
    cap_bytes: int = OUTPUT_CAP_BYTES
    timed_out: bool = False
    broken: InfraError | None = None
    """Why running out of time was not the command's doing."""

    def begin(self) -> None:
        """Start it, and remember when that was.

        Raises:
            InfraError: it did not stay up, as with an image for another machine.
        """
        self.client.api.start(self.id)
        state = self._state()
        self.started_at = str(state["StartedAt"])
        if not state["Running"]:
            raise self._unfit(state)

    def run(
        self,
        command: Sequence[str],
        *,
        timeout_seconds: float,
        output: Path | None = None,
    ) -> Completed:
        """Run a command in the tree; over time, the whole container is killed.

        Raises:
            InfraError: the daemon failed, or the command was killed; `died`: perhaps by itself.
        """
        if self.cancelled.is_set():
            raise InfraError(Cause.SANDBOX, "stopped before it began")
        started = time.monotonic()
        path = output or scratch()
        # Of this call alone, and out of the command's sight: it cannot print it by chance.
        nonce = secrets.token_hex(16)
        try:
            exec_id = self.client.api.exec_create(
                self.id,
                [*ONE_STREAM, *command],
                workdir=self.workdir or None,
                user=self.user,
                stdin=True,
                environment={END_VARIABLE: nonce},
            )["Id"]
            heard = self._stream(exec_id, path, nonce, timeout_seconds)
            return Completed(
                returncode=self._exit(exec_id, heard, path),
                output=tail(path),
                seconds=time.monotonic() - started,
                timed_out=self.timed_out,
                truncated=heard.truncated,
            )
        except ERRORS as error:
            raise self.failure(error) from error
        finally:
            if output is None:
                path.unlink(missing_ok=True)

    def _stream(self, exec_id: str, path: Path, nonce: str, timeout_seconds: float) -> Heard:
        """Copy output into a file until the command ends or its time is over."""
        stream = self.client.api.exec_start(exec_id, socket=True)
        raw: Any = getattr(stream, "_sock", stream)
        began, over = time.time(), Event()

        def expire() -> None:
            # Only a container that lives, in a daemon that answers, can run out of time.
            self.broken = self._trouble(began)
            if not self.broken and self._has_ended(exec_id):
                # In time, as far as anybody knows: it is the news of it that is late.
                over.wait(SETTLES_SECONDS)
            else:
                self.timed_out = not self.broken
                with contextlib.suppress(*ERRORS):
                    self.probe.api.kill(self.id)
            with contextlib.suppress(OSError):
                raw.shutdown(2)

        timer = threading.Timer(timeout_seconds, expire)
        timer.daemon = True
        timer.start()
        try:
            return listen(stream, path, nonce=nonce, cap_bytes=self.cap_bytes)
        finally:
            over.set()
            timer.cancel()
            # Where it has expired already, it says why before we go on.
            timer.join()
            stream.close()
            raw.close()

    def _trouble(self, since: float) -> InfraError | None:
        """What is wrong with the container or its daemon, if anything is."""
        asked = time.monotonic()
        try:
            state = self._state()
        except ERRORS as error:
            text = f"time ran out while Docker did not answer: {short(error)}"
            return InfraError(Cause.SANDBOX, text)
        waited = time.monotonic() - asked
        paused, how = self.watch.paused_seconds(since), ""
        if state["Paused"] or not state["Running"]:
            how = str(state["Status"])
        elif self._restarted(state):
            how = "restarted from outside"
        elif paused > SLOW_SECONDS:
            how = f"paused for {paused:.0f} s of it"
        if how:
            return InfraError(Cause.SANDBOX, f"time ran out in a container that was {how}")
        if waited > SLOW_SECONDS:
            # A daemon that was frozen, or a patch that left the machine no time to answer.
            text = f"time ran out while Docker did not answer: not for {waited:.0f} s"
            return InfraError(Cause.SANDBOX, text, died=True)
        return None

    def _has_ended(self, exec_id: str) -> bool:
        with contextlib.suppress(*ERRORS):
            state = self.probe.api.exec_inspect(exec_id)
            return not (state["Running"] and self._goes_on(state["Pid"]))
        return False

    def _exit(self, exec_id: str, heard: Heard, path: Path) -> int | None:
        """How the command ended; None: its time was over.

        Raises:
            InfraError: it was killed, or part of its output never came.
        """
        if self.broken:
            raise self.broken
        if self.timed_out:
            return None
        deadline = time.monotonic() + SETTLES_SECONDS
        state = self.probe.api.exec_inspect(exec_id)
        if not heard.whole and self._goes_on(state["Pid"]):
            # The daemon ends a stream after the command, whatever that does to its output.
            text = "the connection to Docker was cut while the command ran"
            raise self._death(InfraError(Cause.SANDBOX, text))
        while state["Running"] and time.monotonic() < deadline:
            time.sleep(0.05)
            state = self.probe.api.exec_inspect(exec_id)
        code = state["ExitCode"]
        if code is None and heard.whole:
            text = "Docker does not know how the command ended"
            raise self._death(InfraError(Cause.SANDBOX, text, died=True))
        if code == KILLED:
            text = "the command was killed by signal 9 inside its container"
            raise self._death(InfraError(Cause.SANDBOX, text, died=True))
        if not heard.whole and not unstarted(code, path):
            # The connection was cut, or the command killed its shell, or took the end out of
            # their common pipe: it may have been either side, so gold has to say.
            text = f"the end of the command's output never came; it exited with {code}"
            raise self._death(InfraError(Cause.SANDBOX, text, died=True))
        return int(code)

    def _goes_on(self, pid: int) -> bool:
        """Whether a shell still has its command, even if Docker calls it ended with 126."""
        return any(parent == str(pid) for _, parent, _ in self._processes())

    def _processes(self) -> list[list[str]]:
        return self.probe.api.top(self.id, ps_args="-eo pid,ppid,args")["Processes"] or []

    def _state(self) -> Any:
        return self.probe.api.inspect_container(self.id)["State"]

    def _restarted(self, state: Any) -> bool:
        return bool(self.started_at) and state["StartedAt"] != self.started_at

    def _death(self, otherwise: InfraError) -> InfraError:
        """Whose death it was that ended the command.

        Signals from inside do not reach the container's first process, so a container
        that is gone was ended from outside, unless the kernel says that memory ran out,
        or nobody told the daemon: root inside can write over that process's memory.
        Otherwise: what it was if the container lives.
        """
        deadline = time.monotonic() + SETTLES_SECONDS
        while True:
            try:
                state = self._state()
            except NotFound:
                return InfraError(Cause.SANDBOX, "the container was removed by somebody else")
            if self.id in self.watch.heavy:
                how = self.watch.heavy[self.id]
                return InfraError(Cause.SANDBOX, f"the container {how}", died=True)
            if state["OOMKilled"]:
                return InfraError(Cause.SANDBOX, "the container ran out of memory", died=True)
            if state["Paused"]:
                return InfraError(Cause.SANDBOX, "the container was paused from outside")
            if not state["Running"]:
                return self._ended()
            if self._restarted(state):
                return InfraError(Cause.SANDBOX, "the container was restarted from outside")
            if time.monotonic() > deadline:
                return otherwise
            time.sleep(0.1)

    def _ended(self) -> InfraError:
        unasked = self.watch.unasked(self.id)
        how = "ended, and nobody told Docker to end it" if unasked else "was killed from outside"
        return InfraError(Cause.SANDBOX, f"the container {how}", died=unasked)

    def _unfit(self, state: Any) -> InfraError:
        """Why its first process did not start."""
        words = str(state.get("Error") or "")
        with contextlib.suppress(*ERRORS):
            words += self.probe.api.logs(self.id, tail=5).decode(errors="replace")
        return unfit(self.probe, self.digest, words)

    def failure(self, error: Exception) -> InfraError:
        cause = cause_of(error, Cause.SANDBOX)
        failed = InfraError(cause, f"Docker failed: {short(error)}")
        # A container that has just ended is spoken of in many ways, "ttrpc: closed" among them.
        if isinstance(error, APIError) and cause is Cause.SANDBOX:
            with contextlib.suppress(*ERRORS):
                return self._death(failed)
        return failed

    def put(self, content: bytes, target: str) -> None:
        """Write a file into the container. Raises InfraError: the daemon failed, or no room."""
        path = PurePosixPath(target)
        self.put_all(packed(path.name, content), str(path.parent))

    def put_all(self, archive: bytes | IO[bytes], target: str) -> None:
        """Unpack a tar archive into a folder that is there. Raises InfraError: as `put`."""
        try:
            self.client.api.put_archive(self.id, target, archive)
        except ERRORS as error:
            raise self.failure(error) from error

    def get(self, source: str, *, most_bytes: int | None = None) -> bytes | None:
        """See `pipeline.contracts.Sandbox`; of a larger file, its beginning."""
        try:
            stream, _ = self.client.api.get_archive(self.id, source)
            return unpacked(stream, most_bytes)
        except NotFound:
            return None
        except ERRORS as error:
            raise self.failure(error) from error

    @property
    def alive(self) -> Sequence[str]:
        try:
            return [words for *_, words in self._processes() if words != IDLE]
        except ERRORS as error:
            raise self.failure(error) from error
