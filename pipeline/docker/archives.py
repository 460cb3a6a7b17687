"""Files, in the form in which Docker takes and gives them."""

from __future__ import annotations

import contextlib
import io
import tarfile
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import IO


def packed(name: str, content: bytes) -> bytes:
    """A file for `put_archive`."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        info = tarfile.TarInfo(name)
        info.size, info.mode, info.mtime = len(content), 0o644, int(time.time())
        tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def packed_places(*places: str) -> bytes:
    """Folders that anybody may write to."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for place in places:
            info = tarfile.TarInfo(place.strip("/"))
            info.type, info.mode, info.mtime = tarfile.DIRTYPE, 0o777, int(time.time())
            tar.addfile(info)
    return buffer.getvalue()


@contextlib.contextmanager
def packed_folders(
    *folders: Path,
    prefix: str = "",
    change: Callable[[str, bytes], bytes] | None = None,
    programs: Collection[Path] = (),
) -> Iterator[IO[bytes]]:
    """What lies in folders, one after the other, as root's; a later one's files win.

    Args:
        prefix: before every name; a folder of its own, which is made with them.
        change: what a file is to hold, by its name and what it holds.
        programs: files that anybody may execute, whatever their mode here.
    """
    with tempfile.TemporaryFile() as file:
        with tarfile.open(fileobj=file, mode="w") as tar:
            for folder in folders:
                _add(tar, folder, prefix, change, programs)
        file.seek(0)
        yield file


def _add(
    tar: tarfile.TarFile,
    folder: Path,
    prefix: str,
    change: Callable[[str, bytes], bytes] | None,
    programs: Collection[Path],
) -> None:
    for path in sorted(folder.rglob("*")) if folder.is_dir() else [folder]:
        inside = str(path.relative_to(folder)) if folder.is_dir() else path.name
        info = tar.gettarinfo(path, f"{prefix}{inside}")
        info.uid = info.gid = 0
        info.uname = info.gname = "root"
        # Whoever runs in there may be somebody else than root.
        info.mode |= 0o555 if info.isdir() or path in programs else 0o444
        if not info.isfile():
            tar.addfile(info)
            continue
        if info.type == tarfile.LNKTYPE:
            info.type = tarfile.REGTYPE
        with path.open("rb") as source:
            if change is None:
                tar.addfile(info, source)
                continue
            content = change(path.name, source.read())
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


def unpacked(stream: Iterator[bytes], most_bytes: int | None = None) -> bytes | None:
    """The file that `get_archive` gave; None where that was a link or a directory.

    Args:
        most_bytes: of a larger one, so many and one more; the rest is not taken.
    """
    with tarfile.open(fileobj=_Reader(stream), mode="r|") as tar:
        member = tar.next()
        file = tar.extractfile(member) if member is not None and member.isfile() else None
        return file.read(-1 if most_bytes is None else most_bytes + 1) if file else None


def reader(stream: Iterator[bytes]) -> IO[bytes]:
    """A stream of chunks, to be read as a file."""
    return _Reader(stream)  # type: ignore[return-value]


class _Reader(io.RawIOBase):
    """A stream of chunks, read as a file."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._left = iter(chunks), b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        parts, wanted = [self._left], size
        have = len(self._left)
        while size < 0 or have < wanted:
            chunk = next(self._chunks, None)
            if chunk is None:
                break
            parts.append(chunk)
            have += len(chunk)
        data = b"".join(parts)
        cut = len(data) if size < 0 else size
        self._left = data[cut:]
        return data[:cut]
