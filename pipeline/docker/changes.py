"""What somebody has changed in a container, and how to put it back out of reach of what he left."""

from __future__ import annotations

import base64
import io
import json
import tarfile
import tempfile
import time
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from http import HTTPStatus
from pathlib import PurePosixPath
from typing import Any

from docker.errors import NotFound

from pipeline.docker.container import DockerSandbox
from pipeline.docker.creation import status_of

LABEL = "passone.changes"
AT_ONCE = 200
"""So many paths fit into the arguments of one command."""
MANY = 100
"""From so many files of one folder on, the whole folder is put back: it takes one request."""
IN_MEMORY_BYTES = 8 << 20
REMOVE_SECONDS = 120.0


class How(StrEnum):
    """What became of a path, in the letters of `docker diff`."""

    CHANGED = "C"
    ADDED = "A"
    DELETED = "D"


KINDS = (How.CHANGED, How.ADDED, How.DELETED)
"""By Docker's own numbers (Engine API, /containers/{id}/changes)."""


@dataclass(frozen=True, slots=True, order=True)
class Change:
    """One path of a container that is not what its image has there."""

    path: str
    how: How


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Where commands are begun in a container."""

    workdir: str
    path: tuple[str, ...]
    """Folders with programs, in the order in which they are looked through."""


def changes_of(api: Any, container: str) -> list[Change]:
    """All of them, but folders in which something else has changed.

    Raises:
        docker.errors.APIError: the container is gone, or the daemon failed.
    """
    found = {item["Path"]: KINDS[item["Kind"]] for item in api.diff(container) or ()}
    holding = {str(parent) for path in found for parent in PurePosixPath(path).parents}
    return sorted(
        Change(path, how)
        for path, how in found.items()
        if not (how is How.CHANGED and path in holding)
    )


def label(changes: Iterable[Change]) -> dict[str, str]:
    """A label that tells them, for the image that is made of the container."""
    text = json.dumps([[change.path, change.how] for change in changes])
    return {LABEL: base64.b64encode(zlib.compress(text.encode())).decode()}


def labelled(labels: Mapping[str, str] | None) -> list[Change]:
    """What such a label tells; of an image without one: nothing."""
    text = (labels or {}).get(LABEL, "")
    pairs = json.loads(zlib.decompress(base64.b64decode(text))) if text else []
    return [Change(path, How(how)) for path, how in pairs]


@dataclass(frozen=True, slots=True)
class Original:
    """A container of the image as it was. It is never started."""

    api: Any
    id: str

    def has(self, path: str) -> bool:
        """Whether it has something at a path. Raises requests.RequestException: no daemon."""
        return status_of(self.api, self.id, path) == HTTPStatus.OK

    def put_back(self, changes: Collection[Change], machine: DockerSandbox) -> None:
        """Let a container that has not been started begin as its image was, in some places.

        What was changed or deleted there is the image's again. What was added is an empty file
        that cannot be executed, so that nothing of it acts before it is removed.

        Raises:
            InfraError: the daemon failed, or there is no room.
        """
        known = [change.path for change in changes if change.how is not How.ADDED]
        for path in together(known):
            try:
                stream, _ = self.api.get_archive(self.id, path)
            except NotFound:
                continue
            # A folder of libraries is large.
            with tempfile.SpooledTemporaryFile(IN_MEMORY_BYTES) as archive:
                archive.writelines(stream)
                archive.seek(0)
                machine.put_all(archive, str(PurePosixPath(path).parent))
        added = [change.path for change in changes if change.how is How.ADDED]
        machine.put_all(empty_files(added), "/")


def remove(changes: Collection[Change], machine: DockerSandbox) -> None:
    """Take away what was added, by the container's own `rm`, which must be the image's by now.

    Raises:
        InfraError: the daemon failed.
    """
    added = [change.path for change in changes if change.how is How.ADDED]
    machine = replace(machine, user="root")
    for start in range(0, len(added), AT_ONCE):
        paths = added[start : start + AT_ONCE]
        machine.run(["rm", "-rf", "--", *paths], timeout_seconds=REMOVE_SECONDS)


def together(paths: Sequence[str]) -> list[str]:
    """The same paths, and in place of very many of one folder the folder; parents come first."""
    by_folder: dict[str, list[str]] = {}
    for path in paths:
        parts = PurePosixPath(path).parts
        by_folder.setdefault(str(PurePosixPath(*parts[:3])), []).append(path)
    found = []
    for folder, many in by_folder.items():
        found += [folder] if len(many) > MANY else many
    return sorted(found)


def empty_files(paths: Sequence[str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path in paths:
            info = tarfile.TarInfo(path.lstrip("/"))
            info.mode, info.mtime = 0o644, int(time.time())
            tar.addfile(info)
    return buffer.getvalue()
