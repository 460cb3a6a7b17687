"""Containers whose life is ours: labelled, limited, and gone at once when we are done."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import docker
import requests
from docker.errors import APIError, DockerException, NotFound

from pipeline.contracts import ContainerSite, Site
from pipeline.docker.container import DockerSandbox
from pipeline.docker.images import Images, cause_of, short
from pipeline.docker.watch import Watch
from pipeline.domain import Attempt, Cause, Fault, Instance, SandboxLimits
from pipeline.outcomes import InfraError, UserError

API_SECONDS = 120
PROBE_SECONDS = 20
RUN_LABEL = "passone.run"
TRY_LABEL = "passone.try"
log = logging.getLogger(__name__)


def connect(*, timeout_seconds: int = API_SECONDS) -> docker.DockerClient:
    """The daemon that DOCKER_HOST or the current platform names.

    Raises:
        UserError: none answers.
    """
    client = None
    try:
        client = docker.from_env(timeout=timeout_seconds, max_pool_size=64)
        client.ping()
    except (DockerException, requests.RequestException) as error:
        if client is not None:
            client.close()
        place = os.environ.get("DOCKER_HOST", "the default socket")
        raise UserError(
            f"Docker does not answer at {place}: {short(error)}; start it, set DOCKER_HOST, "
            "or try the embedded benchmark, which needs none: passone demo"
        ) from None
    return client


@dataclass(slots=True)
class DockerSandboxes:
    """Makes containers for one run, and removes every one of them."""

    client: docker.DockerClient
    images: Images
    run_key: str
    limits: SandboxLimits
    prepare: Callable[[Instance], None] = lambda instance: None
    """Makes an image that no registry has (the embedded benchmark's)."""
    cancelled: Event = field(default_factory=Event)
    """Set when the run is stopped at once: nothing more is started."""
    name: str = "docker"
    _probe: docker.DockerClient | None = None
    _watches: dict[str, Watch] = field(default_factory=dict)
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

    def digest(self, instance: Instance) -> str:
        """The id of the instance's image. Raises InfraError: it is not here and cannot be had."""
        self.prepare(instance)
        return self.images.ensure(instance.image)

    @contextlib.contextmanager
    def open(self, instance: Instance) -> Iterator[DockerSandbox]:
        """A fresh container of the instance's image, as the official harness starts it.

        No capability is added, and it is killed and removed at once on leaving.

        Raises:
            InfraError: no image, no daemon, no room.
        """
        digest = self.digest(instance)
        container = None
        try:
            container = self._create(digest, instance.id)
            # Whoever stopped the run meanwhile has looked for containers already.
            if self.cancelled.is_set():
                raise InfraError(Cause.SANDBOX, "stopped before it began")
            container.start()
            yield DockerSandbox(container, digest, self.probe, self.cancelled)
        except (DockerException, requests.RequestException) as error:
            cause = cause_of(error, Cause.SANDBOX)
            raise InfraError(cause, f"Docker failed: {short(error)}") from error
        finally:
            if container is not None:
                with contextlib.suppress(DockerException, requests.RequestException):
                    container.remove(force=True, v=True)

    @property
    def probe(self) -> docker.DockerClient:
        if self._probe is None:
            self._probe = connect(timeout_seconds=PROBE_SECONDS)
        return self._probe

    def _create(self, digest: str, instance_id: str) -> Any:
        limits = self.limits
        return self.client.containers.create(
            digest,
            # An entrypoint of the image's own would stand in the way.
            entrypoint=["tail", "-f", "/dev/null"],
            user="root",
            labels=self._labels(instance_id),
            mem_limit=f"{round(limits.memory_gb * 1024)}m" if limits.memory_gb else None,
            pids_limit=limits.pids or None,
            network_disabled=limits.network == "off",
        )

    @contextlib.contextmanager
    def site(self, instance: Instance, attempt: Attempt) -> Iterator[Site]:
        """Labels for an agent's own containers; all that carry them go on leaving.

        Raises:
            InfraError: no image.
        """
        self.digest(instance)
        site = ContainerSite(
            image=instance.image, labels=self._labels(instance.id), limits=self.limits
        )
        label = f"{TRY_LABEL}={site.labels[TRY_LABEL]}"
        with Watch(self.client, label) as watch:
            self._watches[label] = watch
            try:
                yield site
            finally:
                del self._watches[label]
                self._remove(label)

    def casualty(self, site: Site, *, until: float) -> Fault | None:
        """What ended a container of this site before a moment, by the daemon's own events."""
        if not isinstance(site, ContainerSite):
            return None
        return self._watches[f"{TRY_LABEL}={site.labels[TRY_LABEL]}"].casualty(until)

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
