"""Machines that are graded as an agent left them: started, handed in, started again, removed."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from pipeline.docker.artifacts import Artifact, absolute, keep
from pipeline.docker.changes import (
    Change,
    Original,
    Surroundings,
    changes_of,
    label,
    labelled,
    remove,
)
from pipeline.docker.container import ERRORS, DockerSandbox
from pipeline.docker.creation import wake
from pipeline.docker.images import cause_of, short
from pipeline.docker.sandbox import RUN_LABEL, DockerSandboxes
from pipeline.docker.shapes import Shape
from pipeline.domain import Attempt, Cause, Fault, Instance, Snapshot
from pipeline.outcomes import InfraError, UserError
from pipeline.sites import MachineSite, Site

REPOSITORY = "passone/snapshot"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Docker's own, where an image says nothing."""
UNSTARTED = "OCI runtime create failed"
"""What the daemon says of a container that cannot be as it is to be."""
OUTPUT_CAP_BYTES = 16 * 1024 * 1024


class Handed(Protocol):
    """A container that nobody works in any more."""

    @property
    def id(self) -> str: ...
    @property
    def workdir(self) -> str: ...
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
    bearing: Callable[[Iterable[Change], Surroundings], Sequence[Change]] = lambda found, around: ()
    """Which of an agent's changes are to be remembered with what it hands in."""
    artifacts: Callable[[Instance], Sequence[Artifact]] = lambda instance: ()
    """What else is to be kept of an agent's container."""
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
        self,
        instance: Instance,
        shape: Shape,
        snapshot: Snapshot | None = None,
        *,
        without: Collection[Change] = (),
    ) -> Iterator[DockerSandbox]:
        """A container of a snapshot, or of the instance's image.

        Args:
            without: what is as the image has it again before anything runs there.

        Raises:
            InfraError: no image, no daemon, no room; the snapshot is gone; or, `died`, it is one
                that cannot be started.
        """
        digest = self._kept(snapshot) if snapshot else self.plain.digest(instance)
        shape = replace(shape, workdir=shape.workdir or self._config(digest, "WorkingDir") or "/")

        def put_back(sandbox: DockerSandbox) -> None:
            if without:
                with self.original(instance) as original:
                    original.put_back(without, sandbox)

        with contextlib.ExitStack() as stack:
            try:
                made = self.plain.start(digest, instance.id, shape, before=put_back)
                sandbox = stack.enter_context(made)
            except InfraError as error:
                if snapshot is None or UNSTARTED not in error.detail:
                    raise
                # Perhaps for what an agent has left in it, as with a link where a folder was.
                raise InfraError(error.cause, error.detail, died=True) from error
            sandbox.cap_bytes = OUTPUT_CAP_BYTES
            if without:
                remove(without, sandbox)
            try:
                wake(sandbox.client.api, sandbox.id, self._configured(digest), shape.command)
            except ERRORS as error:
                raise sandbox.failure(error) from error
            yield sandbox

    def _kept(self, snapshot: Snapshot) -> str:
        found = self.plain.images.local(snapshot.image)
        if found is None:
            text = f"the snapshot {snapshot.image} is no longer here, so it cannot be graded"
            raise InfraError(Cause.IMAGE, text, final=True)
        return found

    @contextlib.contextmanager
    def original(self, instance: Instance) -> Iterator[Original]:
        """The files of an instance's image. Raises InfraError: no image, no daemon, no room."""
        with self.plain.unstarted(self.plain.digest(instance), instance.id) as identifier:
            try:
                yield Original(self.plain.client.api, identifier)
            except ERRORS as error:
                raise InfraError(cause_of(error, Cause.SANDBOX), short(error)) from error

    def changes(self, snapshot: Snapshot) -> tuple[Sequence[Change], Surroundings]:
        """What was remembered with a snapshot, and where commands are begun there.

        Raises:
            InfraError: it is gone.
        """
        digest = self._kept(snapshot)
        labels = self._configured(digest).get("Labels")
        return labelled(labels), self._surroundings(digest)

    def _surroundings(self, digest: str, workdir: str = "") -> Surroundings:
        variables = self._configured(digest).get("Env") or ()
        path = next((item[5:] for item in variables if item.startswith("PATH=")), PATH)
        workdir = workdir or self._config(digest, "WorkingDir") or "/"
        return Surroundings(workdir=workdir, path=tuple(filter(None, path.split(":"))))

    def _config(self, digest: str, key: str) -> str:
        return str(self._configured(digest).get(key) or "")

    def _configured(self, digest: str) -> Mapping[str, Any]:
        try:
            config = self.plain.client.images.get(digest).attrs.get("Config")
        except ERRORS as error:
            raise InfraError(cause_of(error, Cause.SANDBOX), short(error)) from error
        return config or {}

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
                    hand_in=lambda place: self.hand_in(instance, sandbox, place),
                )
            finally:
                del self._sites[sandbox.id]

    def hand_in(self, instance: Instance, sandbox: Handed, place: Path | None = None) -> Snapshot:
        """End all that runs in a container, and keep its state as an image.

        Args:
            place: the folder on this machine for its artefacts; None: they are not kept.

        Raises:
            InfraError: it is gone, or there is no room.
        """
        api = self.plain.client.api
        digest = self.digest(instance)
        around = self._surroundings(digest, sandbox.workdir)
        try:
            api.kill(sandbox.id)
            changes = self.bearing(changes_of(api, sandbox.id), around)
        except ERRORS as error:
            raise sandbox.failure(error) from error
        if place is not None:
            wanted = absolute(self.artifacts(instance), around.workdir)
            keep(api, sandbox.id, list(wanted), place)
        tag = f"{self.plain.run_key}-{secrets.token_hex(6)}"
        # Whoever worked in it may have been somebody else than the image says.
        user = self._config(digest, "User") or "root"
        told = {"Labels": label(changes), "WorkingDir": around.workdir}
        try:
            api.commit(
                sandbox.id, REPOSITORY, tag, pause=False, changes=[f"USER {user}"], conf=told
            )
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
