"""Read a bundle, and hold every byte of it against its manifest. What is read is taken for hostile.

Plain files only, at places that a run has, and no more bytes than the manifest says.
"""

from __future__ import annotations

import hashlib
import shutil
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol, cast

import zstandard

from pipeline.bundle.archive import BLOCK, CHUNK, NAME, TRAILER, TRAILER_BYTES, head_of, padding
from pipeline.bundle.manifest import Manifest, Member, belongs, digest_of
from pipeline.outcomes import UserError

MAGIC = b"\x28\xb5\x2f\xfd"
LARGEST_MANIFEST = 64 << 20
LONGEST_NAME = 4096
MOST_SKIPPED = 1 << 30
"""Bytes of what is in no manifest that are read to find what follows them."""
MOST_FAULTS = 100
KINDS = {
    tarfile.SYMTYPE: "a symbolic link",
    tarfile.LNKTYPE: "a hard link",
    tarfile.DIRTYPE: "a directory",
    tarfile.CHRTYPE: "a device",
    tarfile.BLKTYPE: "a device",
    tarfile.FIFOTYPE: "a pipe",
}


class Readable(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


@dataclass(slots=True)
class Frame:
    """The packed bytes before the trailer."""

    file: IO[bytes]
    left: int
    hash: hashlib._Hash = field(default_factory=hashlib.sha256)

    def read(self, size: int = -1) -> bytes:
        found = self.file.read(self.left if size < 0 else min(size, self.left))
        self.left -= len(found)
        self.hash.update(found)
        return found


class CutError(Exception):
    """The stream ends, or stops making sense, before it should."""


@dataclass(slots=True)
class Stream:
    """The unpacked bytes; what is not there is an error."""

    source: Readable

    def exactly(self, size: int) -> bytes:
        return b"".join(self.chunks(size))

    def chunks(self, size: int) -> Iterator[bytes]:
        while size:
            try:
                found = self.source.read(min(size, CHUNK))
            except zstandard.ZstdError as error:
                raise CutError(str(error)) from None
            if not found:
                raise CutError("the file ends here")
            size -= len(found)
            yield found

    def skip(self, size: int) -> None:
        for _ in self.chunks(size):
            pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpacked:
    """What a file turned out to hold."""

    manifest: Manifest | None
    """None: not even that could be read."""
    digest: str = ""
    faults: tuple[str, ...] = ()
    """What differs from the manifest, each with its name; empty: every byte is as written."""


def unpack(path: Path, into: Path | None) -> Unpacked:
    """Read a bundle from end to end and hold every byte against its manifest.

    Args:
        into: an empty directory for its members; None: they are only looked at.

    Raises:
        UserError: it cannot be read, is no bundle, holds what no bundle may hold, or there is no
            room.
    """
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            file.seek(max(0, size - TRAILER_BYTES))
            trailer = file.read()
            sealed = trailer.startswith(TRAILER) and len(trailer) == TRAILER_BYTES
            file.seek(0)
            frame = Frame(file, size - TRAILER_BYTES if sealed else size)
            unpacked = read(path, frame, into)
            for _ in iter(lambda: frame.read(CHUNK), b""):
                pass
    except OSError as error:
        raise UserError(f"{path}: cannot be unpacked: {error.strerror or error}") from None
    if not unpacked.faults and not sealed:
        return replaced(unpacked, "its end was cut off or altered")
    if not unpacked.faults and trailer != TRAILER + frame.hash.digest():
        return replaced(unpacked, "its packed form was altered, in a byte that no member needs")
    return unpacked


def replaced(unpacked: Unpacked, fault: str) -> Unpacked:
    return Unpacked(manifest=unpacked.manifest, digest=unpacked.digest, faults=(fault,))


def read(path: Path, frame: Frame, into: Path | None) -> Unpacked:
    stream = Stream(zstandard.ZstdDecompressor().stream_reader(cast("IO[bytes]", frame)))
    try:
        name, size, _ = next_head(path, stream) or ("", 0, b"")
        if name != NAME or size > LARGEST_MANIFEST:
            raise UserError(f"{path}: is no bundle of passone: its first member is no manifest")
        content = stream.exactly(size)
        stream.skip(padding(size))
    except CutError as error:
        if frame.file.seek(0) or frame.file.read(4) != MAGIC:
            raise UserError(f"{path}: is no bundle of passone") from None
        return Unpacked(manifest=None, faults=(f"{NAME}: cannot be read: {error}",))
    try:
        manifest = Manifest.parse(content)
    except ValueError as error:
        raise UserError(f"{path}: {NAME} cannot be used: {error}") from None
    if into is not None:
        check_room(path, manifest.bytes, into)
    faults = tuple(Members(path, stream, manifest, into).faults())
    return Unpacked(manifest=manifest, digest=digest_of(content), faults=faults)


def check_room(path: Path, size: int, place: Path) -> None:
    """Raises UserError: it would not fit."""
    free = shutil.disk_usage(place).free
    if size > free:
        raise UserError(
            f"{path}: unpacks to {size:,} bytes, and {place.parent} has {free:,} free; "
            "set TMPDIR to where there is room"
        )


def next_head(path: Path, stream: Stream) -> tuple[str, int, bytes] | None:
    """Name, size and header of the next member; None: the end.

    Raises:
        CutError: what comes is no header.
        UserError: it is no plain file.
    """
    raw = block = stream.exactly(BLOCK)
    if not any(block):
        return None
    name = ""
    try:
        info = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        if info.type == tarfile.GNUTYPE_LONGNAME and 0 < info.size <= LONGEST_NAME:
            text = stream.exactly(info.size + padding(info.size))
            name = text.rstrip(b"\0").decode("utf-8", "surrogateescape")
            block = stream.exactly(BLOCK)
            raw += text + block
            info = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError as error:
        raise CutError(f"no member begins here: {error}") from None
    name = name or info.name
    if info.size < 0:
        raise CutError(f"{name!r} has {info.size} bytes")
    if info.type != tarfile.REGTYPE:
        kind = KINDS.get(info.type, "no plain file")
        raise UserError(f"{path}: {name!r} in it is {kind}; passone packs plain files only")
    return name, info.size, raw


@dataclass(slots=True)
class Members:
    """All that comes after the manifest."""

    path: Path
    stream: Stream
    manifest: Manifest
    into: Path | None
    skipped: int = 0
    last: str = NAME

    def faults(self) -> Iterator[str]:
        """What is altered, missing or added.

        Raises:
            UserError: a member that no bundle may have.
        """
        wanted = {member.name: member for member in self.manifest.members}
        number = 0
        try:
            while found := next_head(self.path, self.stream):
                name, size, raw = found
                if not belongs(name):
                    raise UserError(f"{self.path}: {name!r} in it is no place in a run")
                member = wanted.pop(name, None)
                self.last = name
                fault = self.fault(member, name, size, raw)
                if fault:
                    number += 1
                    yield f"{name}: {fault}"
                if number >= MOST_FAULTS:
                    yield "and more: the rest was not read"
                    return
            if any(self.stream.exactly(BLOCK)) or self.stream.source.read(1):
                yield f"something follows {self.last}"
        except (CutError, zstandard.ZstdError) as error:
            left = f"; {len(wanted)} of {len(self.manifest.members)} were not reached"
            yield f"at or after {self.last}: cannot be read: {error}{left if wanted else ''}"
            return
        for name in wanted:
            yield f"{name}: is missing"

    def fault(self, member: Member | None, name: str, size: int, raw: bytes) -> str:
        """Why it is not what it should be; empty: it is."""
        if member is None or size != member.size:
            self.skipped += size
            if self.skipped > MOST_SKIPPED:
                raise CutError(f"{name} has {size:,} bytes, which no manifest says")
            self.stream.skip(size + padding(size))
            if member is None:
                return "was added: the manifest does not name it"
            return f"is altered: has {size:,} bytes, not {member.size:,}"
        digest = self.copy(name, size)
        odd = any(self.stream.exactly(padding(size))) or raw != head_of(name, size)
        if digest != member.sha256:
            return "is altered"
        return "its header is altered" if odd else ""

    def copy(self, name: str, size: int) -> str:
        """Its sha256; its bytes are where they belong by then."""
        found = hashlib.sha256()
        if self.into is None:
            for chunk in self.stream.chunks(size):
                found.update(chunk)
            return found.hexdigest()
        target = self.into / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as file:
            for chunk in self.stream.chunks(size):
                found.update(chunk)
                file.write(chunk)
        return found.hexdigest()
