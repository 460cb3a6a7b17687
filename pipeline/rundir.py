"""Know every path of a run, and write files so that a crash leaves the old or the new one.

logs/<run>/
├── README             what this directory is, for a stranger
├── plan.json          the resolved plan, its digest, versions; out of a bundle, instances.jsonl
├── ledger.sqlite      the truth
├── lock               held while a process drives the run
├── attempts/<instance>/<n>/try-<t>/   agent.log  trajectory.*  steps.jsonl  patch.diff
│                                      tape.jsonl.zst  artifacts/  artifacts.json
├── cut-off/           tapes of what came to no row, and is billed: tries cut off, the doctor's look
├── scoring/<instance>/<n | gold-…>/   eval.sh  test_output.txt  report.json  patch.diff
├── preds.<n>.jsonl    export in the official format, one file an attempt number
└── report/            summary.json, attempts.csv, instances.csv, table.md, table.tex,
                       diagnosis.json; index.html, audit.json, select.json (and select/) if asked
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pipeline.domain import Attempt
from pipeline.outcomes import UserError
from pipeline.process import end_orphans

README = """\
This directory is one evaluation run of passone.

plan.json      what was asked: instances, agent, model, limits; its digest names the experiment
ledger.sqlite  what happened: one row for every finished try, verdict and settlement
attempts/      what the agent did, by instance, attempt and try; artifacts/ is what it made,
               as it left it: look before you open or run any of that
cut-off/       what was said and came to no row: in tries that were stopped half-way and are done
               again, and in the look at the endpoint before a run
scoring/       what the official tests printed, by instance and attempt; gold is the control
preds.*.jsonl  the submissions in the official format, one file an attempt number
report/        the tables; written again from the ledger at the end of every `passone run`
lock, label    hold the run for one process, and name its containers

Running the same config again continues this run; nothing that is finished is done twice.
"""

HALF_WRITTEN = re.compile(r"\..+\.(\d+)-[a-z0-9_]{8}")


@contextlib.contextmanager
def whole(path: Path) -> Iterator[IO[bytes]]:
    """Write a file piece by piece; it takes its place once all of it is there, or never."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.{os.getpid()}-")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write_atomically(path: Path, content: str | bytes) -> None:
    """Replace a file by a whole new one, or leave it as it was."""
    data = content.encode() if isinstance(content, str) else content
    with whole(path) as file:
        file.write(data)


def sweep(*places: Path) -> None:
    """Remove what a process that was killed amid `write_atomically` left in these directories."""
    for path in (path for place in places for path in place.glob(".*-*")):
        found = HALF_WRITTEN.fullmatch(path.name)
        if found and not alive(int(found[1])):
            path.unlink(missing_ok=True)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        # It is somebody else's.
        return True
    return True


def install(source: Path, target: Path) -> None:
    """Move a finished directory into place; what a killed process left there goes first."""
    if target.exists():
        shutil.rmtree(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    source.rename(target)


def claim(file: IO[str]) -> None:
    """Lock a file for good. Who only asks whether it is locked holds it for a moment.

    Raises:
        BlockingIOError: another process holds it.
    """
    how = fcntl.LOCK_EX | fcntl.LOCK_NB
    for _ in range(4):
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(file, how)
            return
        time.sleep(0.05)
    fcntl.flock(file, how)


@dataclass(frozen=True, slots=True)
class RunDir:
    """Every path of one run."""

    root: Path

    @property
    def readme(self) -> Path:
        return self.root / "README"

    @property
    def plan(self) -> Path:
        return self.root / "plan.json"

    @property
    def instances(self) -> Path:
        return self.root / "instances.jsonl"

    @property
    def ledger(self) -> Path:
        return self.root / "ledger.sqlite"

    @property
    def lock(self) -> Path:
        return self.root / "lock"

    @property
    def report(self) -> Path:
        return self.root / "report"

    @property
    def endpoint(self) -> Path:
        """What the driver has last said of its endpoint; absent: nothing was amiss."""
        return self.scratch / "endpoint.json"

    @property
    def scratch(self) -> Path:
        """Work in progress; of no use once its process is gone."""
        return self.root / ".partial"

    @property
    def cut_off(self) -> Path:
        return self.root / "cut-off"

    def cut_off_tapes(self) -> list[Path]:
        """Each once: a process may be killed between packing one and removing the plain one."""
        found = {p for p in self.cut_off.glob("*.jsonl*") if p.suffix in (".jsonl", ".zst")}
        return sorted(path for path in found if path.with_name(f"{path.name}.zst") not in found)

    def salvage(self, *places: Path) -> None:
        """Keep what was said in tries that came to no row: somebody is billed for it."""
        for tape in (tape for place in places for tape in place.glob("tape.jsonl*")):
            self.cut_off.mkdir(exist_ok=True)
            # Twice in the same place: its number tells them apart.
            parts = (
                *tape.parent.relative_to(self.root).parts[1:],
                f"{tape.parent.stat().st_ino:x}",
            )
            name = "-".join(parts)
            tape.replace(self.cut_off / tape.name.replace("tape", name, 1))

    @property
    def key(self) -> str:
        """This directory and no copy of it, wherever it is mounted; for container labels.

        Raises:
            UserError: the directory cannot be written.
        """
        path = self.root / "label"
        try:
            if not path.exists():
                write_atomically(path, secrets.token_hex(8))
            place = self.root.stat()
            text = f"{path.read_text()} {place.st_dev} {place.st_ino}"
        except OSError as error:
            raise self._unwritable(error) from None
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def _unwritable(self, error: OSError) -> UserError:
        return UserError(
            f"{self.root}: cannot be written: {error.strerror or error}; "
            "choose another place with --logs DIR"
        )

    def tries(self, attempt: Attempt) -> Path:
        return self.root / "attempts" / attempt.instance_id / str(attempt.number)

    def attempt(self, attempt: Attempt, try_number: int) -> Path:
        return self.tries(attempt) / f"try-{try_number}"

    def scoring(self, instance_id: str, label: str | int) -> Path:
        return self.root / "scoring" / instance_id / str(label)

    def preds(self, number: int) -> Path:
        return self.root / f"preds.{number}.jsonl"

    def partial(self, *parts: str | int) -> Path:
        """A fresh, empty scratch directory, which no earlier process knows."""
        self.scratch.mkdir(parents=True, exist_ok=True)
        name = "-".join(str(part) for part in parts)
        return Path(tempfile.mkdtemp(dir=self.scratch, prefix=f"{name}-"))

    def discard_unbegun(self) -> None:
        """Leave no directory of a run that was refused before it began."""
        with contextlib.suppress(OSError):
            if {path.name for path in self.root.iterdir()} <= {"label"}:
                shutil.rmtree(self.root)

    @property
    def driver(self) -> str:
        """The process id of who drives this run now; empty: nobody does."""
        try:
            with self.lock.open("r") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    return file.read().strip() or "unknown"
        except OSError:
            pass
        return ""

    @property
    def under_way(self) -> list[str]:
        """Tries that are being made, by name, while somebody drives this run."""
        names = (place.name for place in self.scratch.glob("try-*"))
        return sorted(name.removeprefix("try-").rpartition("-")[0] for name in names)

    def write(self, path: Path, content: str | bytes) -> None:
        """Write one of this run's files.

        Raises:
            UserError: there is no room, or it may not be written.
        """
        try:
            write_atomically(path, content)
        except OSError as error:
            raise UserError(
                f"{path}: cannot be written: {error.strerror or error}; make room and run the same "
                "command again, all finished work is kept"
            ) from None

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Be the one process that drives this run.

        The lock goes with the process, also when it is killed with -9.

        Raises:
            UserError: another process drives it, or the directory cannot be written.
        """
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            file = self.lock.open("a+")
        except OSError as error:
            raise self._unwritable(error) from None
        with file:
            try:
                claim(file)
            except BlockingIOError:
                file.seek(0)
                owner = file.read().strip() or "unknown"
                raise UserError(
                    f"{self.root}: another process (pid {owner}) drives this run; "
                    "wait for it, or look at it with `passone status`"
                ) from None
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            # An agent that outlived its killed process must not write into a later try.
            end_orphans(self.scratch)
            sweep(self.root, self.report)
            self.salvage(*self.scratch.glob("try-*"))
            shutil.rmtree(self.scratch, ignore_errors=True)
            if not self.readme.exists():
                write_atomically(self.readme, README)
            yield
            self.salvage(*self.scratch.glob("try-*"))
            shutil.rmtree(self.scratch, ignore_errors=True)
