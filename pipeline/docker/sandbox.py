"""Containers whose life is ours: labelled, limited, and gone at once when we are done."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import docker
import requests
from docker.errors import APIError, DockerException, NotFound
from docker.utils.socket import frames_iter

from pipeline.contracts import ContainerSite, Site
from pipeline.docker.images import Images, cause_of, short
from pipeline.domain import Attempt, Cause, Instance, SandboxLimits
from pipeline.outcomes import InfraError, UserError
from pipeline.process import Completed, tail

WORKDIR = "/testbed"
OUTPUT_CAP_BYTES = 256 * 1024 * 1024
API_SECONDS = 120
RUN_LABEL = "passone.run"
TRY_LABEL = "passone.try"
log = logging.getLogger(__name__)


def connect() -> docker.DockerClient:
    """The daemon that DOCKER_HOST or the current platform names.

    Raises:
        UserError: none answers.
    """
    try:
        client = docker.from_env(timeout=API_SECONDS, max_pool_size=64)
        client.ping()
    except (DockerException, requests.RequestException) as error:
        place = os.environ.get("DOCKER_HOST", "the default socket")
        raise UserError(
            f"Docker does not answer at {place}: {short(error)}; start it, set DOCKER_HOST, "
            "or try the embedded benchmark, which needs none: passone demo"
        ) from None
    return client


@dataclass(slots=True)
class DockerSandbox:
    """One running container."""

    container: Any
    digest: str
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
            created = api.exec_create(self.container.id, list(command), workdir=WORKDIR, user="root")
            truncated = self._stream(created["Id"], path, timeout_seconds)
            code = None if self.timed_out else api.exec_inspect(created["Id"])["ExitCode"]
            if not self.timed_out and (code is None or not self._alive()):
                raise self._death(code)
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
                for _, chunk in frames_iter(stream, tty=False):
                    room = OUTPUT_CAP_BYTES - written
                    file.write(chunk[: max(room, 0)])
                    written += len(chunk)
        finally:
            timer.cancel()
            stream.close()
        return written > OUTPUT_CAP_BYTES

    def _alive(self) -> bool:
        self.container.reload()
        return bool(self.container.attrs["State"]["Running"])

    def _death(self, code: int | None) -> InfraError:
        try:
            state = self.container.client.api.inspect_container(self.container.id)["State"]
            how = f"exit code {state['ExitCode']}" + (", out of memory" if state["OOMKilled"] else "")
        except NotFound:
            how = "removed by somebody else"
        return InfraError(Cause.SANDBOX, f"the container died: {how}", died=True)

    def _broken(self, error: Exception) -> InfraError:
        cause = cause_of(error, Cause.SANDBOX)
        if isinstance(error, NotFound) or (isinstance(error, APIError) and error.status_code == 409):
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


@dataclass(slots=True)
class DockerSandboxes:
    """Makes containers for one run, and removes every one of them."""

    client: docker.DockerClient
    images: Images
    run_key: str
    limits: SandboxLimits
    prepare: Callable[[Instance], None] = lambda instance: None
    """Makes an image that no registry has (the embedded benchmark's)."""
    name: str = "docker"
    _serial: Iterator[int] = field(default_factory=lambda: iter(range(1 << 62)))

    def preflight(self, instances: Sequence[Instance]) -> Sequence[str]:
        """Warnings about single images and the architecture.

        Raises:
            UserError: not one image of the selection is here or can be had.
        """
        warnings, missing = [], {}
        try:
            host = self.client.info().get("Architecture", "")
            for instance in instances:
                self.prepare(instance)
                if self.images.local(instance.image) is None:
                    missing[instance.id] = instance.image
                else:
                    warnings += self._foreign(instance.image, host)
        except InfraError as error:
            raise UserError(f"{error.detail}; start Docker and run again") from None
        said = ""
        for reference in list(missing.values())[:3]:
            said = self.images.offered(reference)
            if not said:
                return warnings
        if missing and len(missing) == len(instances):
            raise UserError(
                f"no image of the {len(instances)} instances is here, and none can be pulled "
                f"({said}); load them with `docker load`, or name a mirror in sandbox.mirrors"
            )
        if missing:
            warnings.append(
                f"{len(missing)} of {len(instances)} images are not here and may not be pullable "
                f"({said}); their instances will end as infra, cause image"
            )
        return warnings

    def _foreign(self, reference: str, host: str) -> list[str]:
        names = {"x86_64": "amd64", "aarch64": "arm64"}
        own = names.get(host, host)
        image = self.client.images.get(reference).attrs.get("Architecture", own)
        if image == own:
            return []
        return [f"image {reference} is for {image}, this machine is {own}: slow, if it runs at all"]

    def _labels(self, instance_id: str) -> dict[str, str]:
        return {
            RUN_LABEL: self.run_key,
            TRY_LABEL: f"{self.run_key}-{os.getpid()}-{next(self._serial)}",
            "passone.instance": instance_id,
        }

    @contextlib.contextmanager
    def open(self, instance: Instance) -> Iterator[DockerSandbox]:
        """A fresh container of the instance's image, as the official harness starts it.

        No capability is added, and it is killed and removed at once on leaving.

        Raises:
            InfraError: no image, no daemon, no room.
        """
        self.prepare(instance)
        digest = self.images.ensure(instance.image)
        container = None
        try:
            container = self.client.containers.create(
                digest,
                # An entrypoint of the image's own would stand in the way.
                entrypoint=["tail", "-f", "/dev/null"],
                user="root",
                labels=self._labels(instance.id),
                mem_limit=f"{round(self.limits.memory_gb * 1024)}m" if self.limits.memory_gb else None,
                pids_limit=self.limits.pids or None,
                network_disabled=self.limits.network == "off",
            )
            container.start()
            yield DockerSandbox(container, digest)
        except (DockerException, requests.RequestException) as error:
            cause = cause_of(error, Cause.SANDBOX)
            raise InfraError(cause, f"Docker failed: {short(error)}") from error
        finally:
            if container is not None:
                with contextlib.suppress(DockerException, requests.RequestException):
                    container.remove(force=True, v=True)

    @contextlib.contextmanager
    def site(self, instance: Instance, attempt: Attempt) -> Iterator[Site]:
        """Labels for an agent's own containers; all that carry them go on leaving.

        Raises:
            InfraError: no image.
        """
        self.prepare(instance)
        self.images.ensure(instance.image)
        site = ContainerSite(
            image=instance.image, labels=self._labels(instance.id), limits=self.limits
        )
        try:
            yield site
        finally:
            self._remove(f"{TRY_LABEL}={site.labels[TRY_LABEL]}")

    def casualty(self, site: Site, *, since: float, until: float) -> str:
        """What ended a container of this site in between, by the daemon's own events."""
        if not isinstance(site, ContainerSite):
            return ""
        label = f"{TRY_LABEL}={site.labels[TRY_LABEL]}"
        try:
            events = self.client.api.events(
                since=f"{since:.6f}",
                until=f"{until:.6f}",
                filters={"label": label, "event": ["die", "oom"]},
                decode=True,
            )
            for event in events:
                code = event["Actor"]["Attributes"].get("exitCode", "")
                word = "ran out of memory" if event["Action"] == "oom" else f"died ({code})"
                return f"the agent's container {word} while it worked"
        except (DockerException, requests.RequestException) as error:
            raise InfraError(Cause.SANDBOX, f"Docker failed: {short(error)}") from error
        return ""

    def _remove(self, label: str) -> int:
        removed = 0
        try:
            for container in self.client.containers.list(
                all=True, filters={"label": label}, ignore_removed=True
            ):
                with contextlib.suppress(NotFound, APIError):
                    container.remove(force=True, v=True)
                    removed += 1
        except (DockerException, requests.RequestException) as error:
            log.warning("containers labelled %s could not be removed: %s", label, short(error))
        return removed

    def reap(self) -> int:
        """Remove every container of this run: whoever made them is gone."""
        return self._remove(f"{RUN_LABEL}={self.run_key}")
