"""One file, in the form in which Docker takes and gives it."""

from __future__ import annotations

import io
import tarfile
import time


def packed(name: str, content: bytes) -> bytes:
    """A file for `put_archive`."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        info = tarfile.TarInfo(name)
        info.size, info.mode, info.mtime = len(content), 0o644, int(time.time())
        tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def unpacked(archive: bytes) -> bytes | None:
    """The file that `get_archive` gave; None where that was a link or a directory."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        member = tar.next()
        file = tar.extractfile(member) if member is not None and member.isfile() else None
        return file.read() if file else None
