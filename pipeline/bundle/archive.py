"""Write one file of many members, so that the same members give the same bytes.

A tar in one zstd frame, the manifest first, names sorted, no times, no owners; behind it, in a
frame that zstd skips, the sha256 of the first. `tar --zstd -xf` unpacks it, too.
"""

from __future__ import annotations

import hashlib
import struct
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, cast

import zstandard

from pipeline.bundle.manifest import Manifest, digest_of
from pipeline.outcomes import UserError

NAME = "MANIFEST.json"
LEVEL = 9
CHUNK = 1 << 20
BLOCK = tarfile.BLOCKSIZE
TRAILER = struct.pack("<II", 0x184D2A50, hashlib.sha256().digest_size)
TRAILER_BYTES = len(TRAILER) + hashlib.sha256().digest_size


def head_of(name: str, size: int) -> bytes:
    """The only header that a member may have."""
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, 0o644
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "strict")


def padding(size: int) -> int:
    return -size % BLOCK


class Sink:
    """Passes bytes on and knows the hash of all of them."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.hash = file, hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.hash.update(data)
        return self.file.write(data)


def write(file: IO[bytes], manifest: Manifest, read: Callable[[str], Iterable[bytes]]) -> str:
    """Write a whole bundle.

    Args:
        read: the content of a member by its name.

    Returns:
        The digest of its manifest.

    Raises:
        UserError: a member is no longer what the manifest says.
    """
    content = manifest.to_bytes()
    sink = Sink(file)
    packer = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True, write_content_size=False)
    with packer.stream_writer(cast("IO[bytes]", sink), closefd=False) as target:
        target.write(head_of(NAME, len(content)) + content + bytes(padding(len(content))))
        for member in manifest.members:
            target.write(head_of(member.name, member.size))
            found, size = hashlib.sha256(), 0
            for chunk in read(member.name):
                found.update(chunk)
                size += len(chunk)
                target.write(chunk)
            if (found.hexdigest(), size) != (member.sha256, member.size):
                raise UserError(f"{member.name}: has changed while it was read; bundle it again")
            target.write(bytes(padding(size)))
        target.write(bytes(2 * BLOCK))
    file.write(TRAILER + sink.hash.digest())
    return digest_of(content)


def is_bundle(path: Path) -> bool:
    """Whether a file begins as a bundle does."""
    try:
        with path.open("rb") as file:
            source = zstandard.ZstdDecompressor().stream_reader(file)
            return source.read(len(NAME) + 1) == NAME.encode() + b"\0"
    except (OSError, zstandard.ZstdError):
        return False
