"""Gather what travels of a run: its files as they are, its ledger as text, its tables."""

from __future__ import annotations

import hashlib
import os
import stat
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import zstandard

from pipeline.bundle.archive import CHUNK
from pipeline.bundle.manifest import LEDGER, PLAIN, TREES, Member, Part, belongs, part_of
from pipeline.gateway.tapes import SUFFIX
from pipeline.ledger import Ledger
from pipeline.outcomes import UserError
from pipeline.rundir import HALF_WRITTEN, RunDir

FOUND = ("report/audit.json", "report/select.json")
"""What other commands have found, and `passone bundle` does not look for again."""
REDACTED = b"[redacted by passone]"
STAYS = ("ledger.sqlite", "ledger.sqlite-wal", "ledger.sqlite-shm", "lock", "label", ".partial")
"""What is of one machine alone; the ledger travels as text."""


@dataclass(slots=True)
class Contents:
    """Where every member's bytes are."""

    scratch: Path
    """A directory for what has to be made first; it outlives the bundling."""
    secrets: Sequence[bytes] = ()
    """Each is replaced wherever it stands, in packed tapes too."""
    files: dict[str, Path] = field(default_factory=dict)
    left_out: dict[str, Counter[str]] = field(default_factory=dict)
    redacted: list[str] = field(default_factory=list)

    def add(self, name: str, content: bytes) -> None:
        """A member that is no file of the run, or replaces one."""
        place = self.scratch / "made" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
        self.files[name] = place

    def add_ledger(self, run: RunDir) -> None:
        """Raises UserError: it cannot be read."""
        with Ledger(run.ledger, read_only=True) as ledger:
            for name in LEDGER:
                place = self.scratch / "made" / name
                place.parent.mkdir(parents=True, exist_ok=True)
                with place.open("w", encoding="utf-8") as file:
                    file.writelines(ledger.dump(place.stem))
                self.files[name] = place

    def add_files(self, run: RunDir, without: Collection[Part]) -> None:
        """What the run has on disk.

        Raises:
            UserError: something there is no plain file, or has a name that cannot travel.
        """
        for name, path in files_of(run):
            part = part_of(name)
            if part in without:
                assert part is not None
                counter = self.left_out.setdefault(part.value, Counter(files=0, bytes=0))
                counter.update(files=1, bytes=path.stat().st_size)
                continue
            if not belongs(name):
                raise UserError(f"{path}: has a name that cannot travel; rename or remove it")
            self.files[name] = path
        for part in without:
            self.left_out.setdefault(part.value, Counter(files=0, bytes=0))

    def members(self) -> list[Member]:
        """Every member with its size and hash, by name; secrets are gone by then.

        Raises:
            UserError: a file cannot be read.
        """
        found = []
        for name in sorted(self.files):
            try:
                if self.secrets and self.holds_secret(self.files[name]):
                    self.redact(name)
                digest, size = hashlib.sha256(), 0
                for chunk in self.read(name):
                    digest.update(chunk)
                    size += len(chunk)
            except OSError as error:
                place = self.files[name]
                raise UserError(f"{place}: cannot be read: {error.strerror or error}") from None
            found.append(Member(name=name, size=size, sha256=digest.hexdigest()))
        return found

    def read(self, name: str) -> Iterator[bytes]:
        with self.files[name].open("rb") as file:
            yield from iter(lambda: file.read(CHUNK), b"")

    def holds_secret(self, path: Path) -> bool:
        keep = max(map(len, self.secrets)) - 1
        last = b""
        for chunk in unpacked(path):
            window = last + chunk
            if any(secret in window for secret in self.secrets):
                return True
            last = window[-keep:] if keep else b""
        return False

    def redact(self, name: str) -> None:
        content = b"".join(unpacked(self.files[name]))
        for secret in self.secrets:
            content = content.replace(secret, REDACTED)
        if name.endswith(SUFFIX):
            content = zstandard.ZstdCompressor(write_checksum=True).compress(content)
        self.add(name, content)
        self.redacted.append(name)


def unpacked(path: Path) -> Iterator[bytes]:
    """The bytes of a file, or of what is packed in it, up to where it is whole."""
    with path.open("rb") as file:
        if path.suffix != SUFFIX:
            yield from iter(lambda: file.read(CHUNK), b"")
            return
        with zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True) as packed:
            try:
                yield from iter(lambda: packed.read(CHUNK), b"")
            except zstandard.ZstdError:
                return


def files_of(run: RunDir) -> Iterator[tuple[str, Path]]:
    """Names and places of what the run itself has written, but for its ledger and its tables.

    Raises:
        UserError: something there is no plain file.
    """
    for path in sorted(run.root.iterdir()):
        if PLAIN.fullmatch(path.name):
            yield path.name, plain(path)
    for top in TREES:
        for place, _, names in os.walk(run.root / top, onerror=refuse):
            for name in sorted(names):
                path = Path(place, name)
                if not HALF_WRITTEN.fullmatch(name):
                    yield path.relative_to(run.root).as_posix(), plain(path)
    for name in FOUND:
        if (run.root / name).exists():
            yield name, plain(run.root / name)


def refuse(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise UserError(f"{error.filename}: cannot be read: {error.strerror or error}")


def plain(path: Path) -> Path:
    """Raises UserError: it is a link, a device or the like."""
    if not stat.S_ISREG(path.lstat().st_mode):
        raise UserError(f"{path}: is no plain file; a bundle follows no links: put the file there")
    return path


def strangers(run: RunDir, files: Mapping[str, Path]) -> list[str]:
    """What lies in the run's directory and does not travel, for a person to know."""
    tops = {name.partition("/")[0] for name in files} | {*TREES, *STAYS, "report"}
    return sorted(path.name for path in run.root.iterdir() if path.name not in tops)
