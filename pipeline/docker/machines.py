"""Machines that are graded as an agent left them: started, handed in, started again, removed."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from pipeline.docker.container import ERRORS, DockerSandbox
from pipeline.docker.images import cause_of, short
from pipeline.docker.sandbox import RUN_LABEL, DockerSandboxes
from pipeline.docker.shapes import IDLES, Shape
from pipeline.domain import Attempt, Cause, Fault, Instance, Snapshot
from pipeline.outcomes import InfraError, UserError
from pipeline.sites import MachineSite, Site

REPOSITORY = "passone/snapshot"
UNSTARTED = "OCI runtime create failed"
"""What the daemon says of a container that cannot be as it is to be."""
OUTPUT_CAP_BYTES = 16 * 1024 * 1024


class Handed(Protocol):
    """A container that nobody works in any more."""

    @property
    def id(self) -> str: ...
    def failure(self, error: Exception) -> InfraError:
        """What an error of the daemon's means, if the container died of it."""


@dataclass(slots=True)
class DockerMachines:
    """Containers that agents work in and that are handed in, on top of what makes and removes them.

    See `pipeline.contracts.Sandboxes`.
    """

    plain: DockerSandboxes
    shape: Callable[[Instance], Shape]
    """Of the container that an agent works in."""
    ready: Callable[[Instance, DockerSandbox], None] = lambda instance, sandbox: None
    """Makes it what its publisher says it is before an agent may start."""
    warn: Callable[[Instance], str] = lambda instance: ""
    built: Callable[[Instance], bool] = lambda instance: False
    """Whether its image is made here, once it is needed."""
    name: str = "docker"
    _sites: dict[str, DockerSandbox] = field(default_factory=dict)

    def preflight(self, instances: Sequence[Instance]) -> Sequence[str]:
        """Warnings. Images are built when they are needed; only published ones are looked for.

        Raises:
            UserError: Docker does not answer, or none of the published images can be had.
        """
        warnings = [text for one in instances if (text := self.warn(one))]
        published = [one for one in instances if not self.built(one)]
        if published:
            quiet = replace(self.plain, prepare=lambda instance: None)
            warnings += quiet.preflight(published)
        return warnings

    def digest(self, instance: Instance) -> str:
        """See `pipeline.contracts.Sandboxes`."""
        return self.plain.digest(instance)

    @contextlib.contextmanager
    def open(self, instance: Instance, *, offline: bool = False) -> Iterator[DockerSandbox]:
        """A container as an agent gets it, ready to work in.

        Raises:
            InfraError: no image, no daemon, no room, or it does not become ready.
        """
        shape = self.shape(instance)
        shape = replace(shape, offline=True) if offline else shape
        with self.start(instance, shape) as sandbox:
            self.ready(instance, sandbox)
            yield sandbox

    @contextlib.contextmanager
    def start(
        self, instance: Instance, shape: Shape, snapshot: Snapshot | None = None
    ) -> Iterator[DockerSandbox]:
        """A container of a snapshot, or of the instance's image.

        Raises:
            InfraError: no image, no daemon, no room; the snapshot is gone; or, `died`, it is one
                that cannot be started.
        """
        digest = self.plain.digest(instance)
        if snapshot is not None:
            found = self.plain.images.local(snapshot.image)
            if found is None:
                text = f"the snapshot {snapshot.image} is no longer here, so it cannot be graded"
                raise InfraError(Cause.IMAGE, text, final=True)
            digest = found
        own = str(self._config(digest, "WorkingDir") or "/")
        shape = replace(shape, workdir=shape.workdir or own)
        with contextlib.ExitStack() as stack:
            try:
                sandbox = stack.enter_context(self.plain.start(digest, instance.id, shape))
            except InfraError as error:
                if snapshot is None or UNSTARTED not in error.detail:
                    raise
                # Perhaps for what an agent has left in it, as with a link where a folder was.
                raise InfraError(error.cause, error.detail, died=True) from error
            sandbox.cap_bytes = OUTPUT_CAP_BYTES
            self._wake(sandbox, shape.command)
            yield sandbox

    def _wake(self, sandbox: DockerSandbox, command: Sequence[str]) -> None:
        """Start what a machine's publisher starts in it, as its image's user; it is not waited for.

        Raises:
            InfraError: there is no such program, or the daemon failed.
        """
        if not command:
            return
        entrypoint = self._config(sandbox.digest, "Entrypoint") or ()
        if not entrypoint and IDLES.fullmatch(" ".join(command)):
            return
        api = self.plain.client.api
        try:
            user = str(self._config(sandbox.digest, "User") or "root")
            made = api.exec_create(
                sandbox.id, [*entrypoint, *command], user=user, stdout=False, stderr=False
            )
            api.exec_start(made["Id"], detach=True)
        except ERRORS as error:
            raise sandbox.failure(error) from error

    def _config(self, digest: str, key: str) -> Any:
        try:
            config = self.plain.client.images.get(digest).attrs.get("Config") or {}
        except ERRORS as error:
            raise InfraError(cause_of(error, Cause.SANDBOX), short(error)) from error
        return config.get(key)

    @contextlib.contextmanager
    def site(self, instance: Instance, attempt: Attempt) -> Iterator[Site]:
        """A container that runs already; it goes on leaving, its snapshot stays.

        Raises:
            InfraError: as `open`.
        """
        with self.open(instance) as sandbox:
            self._sites[sandbox.id] = sandbox
            try:
                yield MachineSite(
                    container=sandbox.id,
                    image=instance.image,
                    workdir=sandbox.workdir,
                    hand_in=lambda: self.hand_in(instance, sandbox),
                )
            finally:
                del self._sites[sandbox.id]

    def hand_in(self, instance: Instance, sandbox: Handed) -> Snapshot:
        """End all that runs in a container, and keep its state as an image.

        Raises:
            InfraError: it is gone, or there is no room.
        """
        api = self.plain.client.api
        try:
            api.kill(sandbox.id)
        except ERRORS as error:
            raise sandbox.failure(error) from error
        tag = f"{self.plain.run_key}-{secrets.token_hex(6)}"
        # Whoever worked in it may have been somebody else than the image says.
        user = str(self._config(self.digest(instance), "User") or "root")
        try:
            api.commit(sandbox.id, REPOSITORY, tag, pause=False, changes=[f"USER {user}"])
        except ERRORS as error:
            cause = cause_of(error, Cause.SANDBOX)
            raise InfraError(cause, f"its state could not be kept: {short(error)}") from error
        return Snapshot(f"{REPOSITORY}:{tag}")

    @property
    def snapshots(self) -> Collection[str]:
        """See `pipeline.contracts.Sandboxes`."""
        label = f"{RUN_LABEL}={self.plain.run_key}"
        try:
            found = self.plain.client.api.images(REPOSITORY, filters={"label": label})
        except ERRORS as error:
            raise UserError(f"Docker does not answer: {short(error)}; start it") from None
        return [tag for image in found for tag in image["RepoTags"] or ()]

    def discard(self, names: Collection[str]) -> None:
        """See `pipeline.contracts.Sandboxes`."""
        for name in names:
            # What is no snapshot of ours is somebody's image.
            if name.startswith(f"{REPOSITORY}:"):
                self._discard(name)

    def _discard(self, name: str) -> None:
        try:
            self.plain.client.api.remove_image(name, force=True)
        except ERRORS:
            # Gone, or in the way of nothing: it is found again when the run is taken up.
            return

    def casualty(self, site: Site, *, until: float) -> Fault | None:
        """See `pipeline.contracts.Sandboxes`."""
        if not isinstance(site, MachineSite):
            return None
        return self._sites[site.container].watch.casualty(until)

    @property
    def left(self) -> Sequence[str]:
        """See `pipeline.contracts.Sandboxes`."""
        return self.plain.left

    def reap(self) -> int:
        """See `pipeline.contracts.Sandboxes`."""
        return self.plain.reap()
