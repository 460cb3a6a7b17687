"""Containers whose life is ours: labelled, limited, and gone at once when we are done."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from threading import Event

import docker
import requests
from docker.errors import DockerException, NotFound

from pipeline.docker.container import ERRORS, DockerSandbox
from pipeline.docker.creation import create
from pipeline.docker.images import Images, cause_of, foreign, short, unoffered
from pipeline.docker.shapes import Shape, plain
from pipeline.docker.watch import Watch
from pipeline.domain import Attempt, Cause, Fault, Instance, SandboxLimits
from pipeline.outcomes import InfraError, UserError
from pipeline.sites import ContainerSite, Site

API_SECONDS = 120
PROBE_SECONDS = 20
RUN_LABEL = "passone.run"
TRY_LABEL = "passone.try"


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
    _left: dict[str, str] = field(default_factory=dict)

    def preflight(self, instances: Sequence[Instance]) -> Sequence[str]:
        """Warnings about single images and the architecture.

        Raises:
            UserError: not one image of the selection is here or can be had.
        """
        warnings, missing = [], {}
        try:
            for instance in instances:
                self.prepare(instance)
                if self.images.local(instance.image) is None:
                    missing[instance.id] = instance.image
                else:
                    warnings += self._foreign(instance.image)
        except InfraError as error:
            raise UserError(f"{error.detail}; start Docker and run again") from None
        return [*warnings, *unoffered(self.images, list(missing.values()), len(instances))]

    def _foreign(self, reference: str) -> list[str]:
        machines = foreign(self.client, reference)
        return [f"image {reference}: {machines}: slow, if it runs at all"] if machines else []

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

    def open(
        self, instance: Instance, *, offline: bool = False
    ) -> AbstractContextManager[DockerSandbox]:
        """A fresh container of the instance's image, as the official harness starts it.

        Raises:
            InfraError: no image, no daemon, no room.
        """
        digest = self.digest(instance)
        return self.start(digest, instance.id, plain(self.limits, offline=offline))

    @contextlib.contextmanager
    def start(
        self,
        digest: str,
        instance_id: str,
        shape: Shape,
        *,
        before: Callable[[DockerSandbox], None] = lambda sandbox: None,
    ) -> Iterator[DockerSandbox]:
        """A container of an image that is here. It is killed and removed at once on leaving.

        Args:
            before: what is done to it before anything runs in it.

        Raises:
            InfraError: no daemon, no room, or an image that does not run.
        """
        labels = self._labels(instance_id)
        label = f"{TRY_LABEL}={labels[TRY_LABEL]}"
        identifier = ""
        with Watch(self.client, label, most_bytes=round(shape.disk_gb * 1e9)) as watch:
            try:
                identifier = create(self.client.api, digest, labels, shape)
                # Whoever stopped the run meanwhile has looked for containers already.
                if self.cancelled.is_set():
                    raise InfraError(Cause.SANDBOX, "stopped before it began")
                sandbox = DockerSandbox(
                    self.client,
                    identifier,
                    digest,
                    self.probe,
                    watch,
                    self.cancelled,
                    workdir=shape.workdir,
                    user=shape.user,
                )
                before(sandbox)
                sandbox.begin()
                yield sandbox
            except (DockerException, requests.RequestException) as error:
                cause = cause_of(error, Cause.SANDBOX)
                machines = self._machines(digest) if cause is Cause.IMAGE else ""
                raise InfraError(cause, f"Docker failed: {machines}{short(error)}") from error
            finally:
                # Made, and the answer was lost: then it has its label all the same.
                if not (identifier and self._drop(identifier)):
                    self._remove(label)

    def _machines(self, digest: str) -> str:
        """In front of what was said, where an image is for another machine."""
        with contextlib.suppress(*ERRORS):
            machines = foreign(self.probe, digest)
            return f"{machines}: " if machines else ""
        return ""

    @property
    def probe(self) -> docker.DockerClient:
        if self._probe is None:
            self._probe = connect(timeout_seconds=PROBE_SECONDS)
        return self._probe

    @contextlib.contextmanager
    def unstarted(self, digest: str, instance_id: str) -> Iterator[str]:
        """The id of a container in which nothing ever runs: its files can be read.

        Raises:
            InfraError: no daemon, or no room.
        """
        try:
            identifier = create(self.client.api, digest, self._labels(instance_id), Shape())
        except ERRORS as error:
            raise InfraError(cause_of(error, Cause.SANDBOX), short(error)) from error
        try:
            yield identifier
        finally:
            self._drop(identifier)

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
        with Watch(self.client, label, most_bytes=round(self.limits.disk_gb * 1e9)) as watch:
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

    @property
    def left(self) -> Sequence[str]:
        """Containers that could not be removed so far, and why."""
        return tuple(self._left.values())

    @property
    def snapshots(self) -> Collection[str]:
        """None: what agents leave here is a patch."""
        return ()

    def discard(self, names: Collection[str]) -> None:
        return

    def _remove(self, label: str) -> int:
        """Everything with a label: one that resists does not save the others."""
        removed = 0
        try:
            # A list asks for none of them in particular, so that no one can spoil it.
            found = self.client.api.containers(all=True, filters={"label": label})
        except ERRORS as error:
            self._left[label] = f"all with the label {label}: {short(error)}"
            return 0
        if label == self._label:
            # All of ours that there is; what is not among them is gone.
            self._left.clear()
        self._left.pop(label, None)
        for container in found:
            removed += self._drop(str(container["Id"]))
        return removed

    def _drop(self, identifier: str) -> bool:
        """Remove one container; whether it is gone by this."""
        try:
            self.client.api.remove_container(identifier, force=True, v=True)
        except NotFound:
            self._left.pop(identifier, None)
            return False
        except ERRORS as error:
            # Somebody else removes it at the same time.
            if "already in progress" not in str(error):
                self._left[identifier] = f"{identifier[:12]}: {short(error)}"
            return False
        self._left.pop(identifier, None)
        return True

    def reap(self) -> int:
        """Remove every container of this run: whoever made them is gone."""
        return self._remove(self._label)

    @property
    def _label(self) -> str:
        return f"{RUN_LABEL}={self.run_key}"
