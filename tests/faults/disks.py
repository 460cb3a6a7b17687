"""Disks that are full: ours, the run's, Docker's. Each is a small file system of its own."""

from __future__ import annotations

import errno
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from tests.faults import harness
from tests.faults.case import RESOLVED, Case, Peer, Seen, infra
from tests.faults.material import gold, new_file, plain, row
from tests.faults.private import PrivateDaemon
from tests.faults.programs import Hunt
from tests.faults.scene import score
from tests.faults.scoring import slow

GROUP = "containers"
DISK = infra("disk")
MEGABYTE = 1 << 20
DOCKER_MEGABYTES = 1500
"""Sparse: room for one image, whatever its base is."""


@contextmanager
def small_disk(place: Path, size: str) -> Iterator[None]:
    """A file system in memory."""
    place.mkdir(parents=True)
    options = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
    subprocess.run(options, check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(place)], check=False, capture_output=True)


def fill(place: Path) -> Path:
    """Take whatever room is left; remove the file to give it back."""
    filler = place / "filler"
    with filler.open("wb", buffering=0) as file:
        for piece in (MEGABYTE, 4096):
            try:
                while True:
                    file.write(bytes(piece))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
    return filler


def temporary_directory(place: Path) -> Seen:
    """Room for a note, so that Python takes it for usable; none for what `git apply` says."""
    full = place / "full"
    talkative = "".join(new_file(f"note{number}.txt", "note") for number in range(300))
    with small_disk(full, "64k"):
        with fill(full).open("r+b") as filler:
            filler.truncate(filler.seek(0, os.SEEK_END) - 4096)
        return score(place, row(), gold() + talkative, env={"TMPDIR": str(full)})


def run_directory(place: Path) -> Seen:
    """Full while tests run: nothing can be written down; freed, the run goes on."""
    logs = place / "logs"

    def strike(hunt: Hunt) -> None:
        hunt.testing()
        fill(logs)

    def free() -> None:
        (logs / "filler").unlink()

    with small_disk(logs, "4m"):
        return score(place, slow(), gold(), strike=strike, invocations=2, between=free)


@contextmanager
def full_docker() -> Iterator[PrivateDaemon]:
    """A daemon whose disk has room for one image and for nothing else."""
    own = PrivateDaemon(Path(tempfile.mkdtemp(prefix="passone-d-")))
    disk, data = own.place / "disk", own.place / "data"
    data.mkdir()
    with disk.open("wb") as file:
        file.truncate(DOCKER_MEGABYTES * MEGABYTE)
    try:
        for command in (
            ["mkfs.ext4", "-q", "-m", "0", str(disk)],
            ["mount", "-o", "loop", str(disk), str(data)],
        ):
            subprocess.run(command, check=True, capture_output=True)
        own.up()
        with (
            subprocess.Popen(["docker", "save", plain()], stdout=subprocess.PIPE) as saving,
            own.client() as client,
        ):
            assert saving.stdout is not None
            client.images.load(saving.stdout)
        fill(data)
        yield own
    finally:
        if own.process is not None:
            own.process.kill()
            own.process.wait()
        subprocess.run(["umount", "-l", str(data)], check=False, capture_output=True)
        own.end()


def docker_disk(place: Path) -> Seen:
    of = row()
    with full_docker() as own:
        seen = score(place, of, gold(), env=own.env)
        with own.client() as client:
            left = [str(c.name) for c in client.containers.list(all=True)]
        return replace(seen, wrong=seen.wrong or ", ".join(f"container left: {n}" for n in left))


def docker_disk_swebench(place: Path) -> Peer:
    of = row()
    with full_docker() as own:
        return harness.grade(place, of, gold(), DISK, env=own.env, connected=own.client)


CASES: tuple[Case, ...] = (
    Case(
        name="temporary directory full",
        group=GROUP,
        right=DISK,
        ours=temporary_directory,
        needs="root",
    ),
    Case(
        name="disk of the run full while tests run, freed before the next run",
        group=GROUP,
        right=RESOLVED,
        ours=run_directory,
        needs="root",
    ),
    Case(
        name="disk of Docker full",
        group=GROUP,
        right=DISK,
        ours=docker_disk,
        peers={"swebench": docker_disk_swebench},
        needs="root",
    ),
)
