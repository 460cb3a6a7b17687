"""Keep files of a container in which nobody works any more.

Whoever has worked there may have left links, devices, names that lead elsewhere, and terabytes.
Nothing that is kept is ever run or followed here.
"""

from __future__ import annotations

import contextlib
import json
import tarfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import IO, Any

from docker.errors import NotFound

from pipeline.docker.archives import reader
from pipeline.docker.container import ERRORS
from pipeline.docker.images import short

FOLDER = "artifacts"
LIST = "artifacts.json"
MOST_BYTES = 256 << 20
MOST_FILES = 1000
MOST_SECONDS = 120.0
CHUNK_BYTES = 1 << 20
NAME_BYTES = 255
"""Of one part of a path, on any usual file system."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """What is to be kept of a container."""

    source: str
    destination: str = ""
    """Below a directory of artefacts; empty: as the source is called."""
    exclude: tuple[str, ...] = ()
    """Patterns of names or of paths below the source."""
    optional: bool = False
    """Whether nobody misses it where it is not there."""


@dataclass(slots=True, kw_only=True)
class Kept:
    """What was kept, and what was not and why."""

    files: list[dict[str, Any]] = field(default_factory=list)
    """`path` below the folder, `bytes`, and `source` in the container."""
    left_out: list[str] = field(default_factory=list)
    bytes: int = 0


class Full(Exception):
    """There is more than is kept."""


@dataclass(slots=True)
class Keeper:
    """Keeps what one container has, below a folder of this machine."""

    api: Any
    container: str
    folder: Path
    deadline: float
    kept: Kept = field(default_factory=Kept)

    def keep(self, artifact: Artifact) -> None:
        """One artefact. Raises Full: a limit is reached; what there is of it so far is kept."""
        try:
            stream, _ = self.api.get_archive(self.container, artifact.source)
        except NotFound:
            if not artifact.optional:
                self.kept.left_out.append(f"{artifact.source}: is not there")
            return
        top = artifact.destination or PurePosixPath(artifact.source).name
        with contextlib.closing(stream), tarfile.open(fileobj=reader(stream), mode="r|") as tar:
            for member in tar:
                self._take(tar, member, artifact, top)

    def _take(
        self, tar: tarfile.TarFile, member: tarfile.TarInfo, artifact: Artifact, top: str
    ) -> None:
        # The first part is the name that the source has itself.
        below = PurePosixPath(*PurePosixPath(member.name).parts[1:])
        source = artifact.source.rstrip("/") + ("" if below == PurePosixPath() else f"/{below}")
        if member.isdir() or excluded(below, artifact.exclude):
            return
        path = PurePosixPath(top, below)
        why = unfit(member, path)
        if why:
            self._leave_out(f"{shown(source)}: {why}")
            return
        if len(self.kept.files) >= MOST_FILES:
            raise Full(f"{shown(source)}, and what comes after it: more than {MOST_FILES} files")
        if self.kept.bytes + member.size > MOST_BYTES:
            size = f"{member.size / 1e6:.0f} MB, and no more than {MOST_BYTES >> 20} MiB are kept"
            raise Full(f"{shown(source)}, and what comes after it: it has {size}")
        content = tar.extractfile(member)
        assert content is not None, "a regular file has a content"
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as file:
            self._copy(content, file)
        self.kept.bytes += member.size
        self.kept.files.append({"path": str(path), "bytes": member.size, "source": source})

    def _copy(self, content: IO[bytes], file: IO[bytes]) -> None:
        while chunk := content.read(CHUNK_BYTES):
            if time.monotonic() > self.deadline:
                raise Full(f"the rest: it took more than {MOST_SECONDS:.0f} s")
            file.write(chunk)

    def _leave_out(self, text: str) -> None:
        if len(self.kept.left_out) < MOST_FILES:
            self.kept.left_out.append(text)


def keep(api: Any, container: str, artifacts: Sequence[Artifact], place: Path) -> Kept:
    """Copy them below `place`/artifacts, with a list of what is there and what is not.

    It never fails: an artefact that cannot be kept decides nothing about an attempt.

    Args:
        artifacts: their sources are absolute paths.
    """
    deadline = time.monotonic() + MOST_SECONDS
    keeper = Keeper(api, container, place / FOLDER, deadline)
    for artifact in artifacts:
        try:
            keeper.keep(artifact)
        except Full as error:
            keeper.kept.left_out.append(str(error))
            break
        except (*ERRORS, tarfile.TarError, ValueError) as error:
            keeper.kept.left_out.append(f"{shown(artifact.source)}: {short(error)}")
    if keeper.kept.files or keeper.kept.left_out:
        text = json.dumps(asdict(keeper.kept), indent=2, ensure_ascii=False) + "\n"
        with contextlib.suppress(OSError):
            (place / LIST).write_text(text, encoding="utf-8", errors="replace")
    return keeper.kept


def unfit(member: tarfile.TarInfo, path: PurePosixPath) -> str:
    """Why something is not kept; empty: it is."""
    if member.issym() or member.islnk():
        return "a link"
    if not member.isreg():
        return "no file"
    if path.is_absolute() or ".." in path.parts or "" in path.parts or path == PurePosixPath():
        return "its name leads elsewhere"
    if not str(path).isprintable():
        return "its name cannot be printed"
    if any(len(part.encode()) > NAME_BYTES for part in path.parts):
        return "its name is too long"
    return ""


def excluded(path: PurePosixPath, patterns: Sequence[str]) -> bool:
    names = [str(path), *path.parts]
    return any(fnmatch(name, pattern.rstrip("/")) for pattern in patterns for name in names)


def shown(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text)[:200]


def absolute(artifacts: Sequence[Artifact], workdir: str) -> Iterator[Artifact]:
    """The same with whole paths: a relative one is below the working directory."""
    for one in artifacts:
        source = str(PurePosixPath(workdir, one.source))
        yield replace(one, source=source)
