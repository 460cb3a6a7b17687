"""Disks that are full or may not be written, while our process runs on them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from tests.faults import kills, scene
from tests.faults.case import REFUSED, RESOLVED, Case, Right, Seen, infra
from tests.faults.deadly import Rule, program
from tests.faults.material import ID, SceneError, gold, row
from tests.faults.programs import Done, start

GROUP = "us"
MEGABYTES = 48
CHUNK = 1 << 16
WAITS_SECONDS = 60.0


@contextlib.contextmanager
def small_disk(place: Path) -> Iterator[Path]:
    """A disk of its own for the runs of a case."""
    logs = place / "logs"
    logs.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={MEGABYTES}m", "tmpfs", str(logs)], check=True
    )
    try:
        yield logs
    finally:
        subprocess.run(["umount", "-l", str(logs)], check=True)


def fill(logs: Path) -> None:
    """To the last byte."""
    with (logs / "ballast").open("wb", buffering=0) as file:
        for size in (CHUNK, 1):
            with contextlib.suppress(OSError):
                while True:
                    file.write(b"\0" * size)


def free(logs: Path) -> None:
    (logs / "ballast").unlink()


Deed = Callable[[Path], None]


def stopped_at(
    place: Path,
    arguments: Sequence[str],
    *acts: tuple[str, Deed],
    env: Mapping[str, str] | None = None,
) -> Done:
    """Run; before each of these writes, in order, do something while the process stands still."""
    rules = [Rule(pattern, signum=signal.SIGSTOP) for pattern, _ in acts]
    writes = place / "writes"

    def act() -> None:
        for number, (pattern, deed) in enumerate(acts, 1):
            deadline = time.monotonic() + WAITS_SECONDS
            while not writes.exists() or writes.read_text().splitlines().count("struck") < number:
                if time.monotonic() > deadline:
                    raise SceneError(f"there was no write {pattern!r}")
                time.sleep(0.02)
            pid = process_of(writes)
            deed(place / "logs")
            os.kill(pid, signal.SIGCONT)

    argv = [*program(writes, *rules), *arguments, "--logs", "logs"]
    return start(argv, place, strike=act, env=env)


def process_of(writes: Path) -> int:
    """The process that writes this down."""
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command = (entry / "cmdline").read_bytes().split(b"\0")
            if str(writes).encode() in command and b"tests.faults.deadly" in command:
                return int(entry.name)
    raise SceneError("the process is gone")


def full(
    place: Path,
    *,
    acts: Sequence[tuple[str, Deed]],
    status: int,
    words: str,
    command: Callable[[Path], list[str]],
) -> Seen:
    """A disk that fills up; once there is room again, the next run ends it all.

    Args:
        status: what the first run must end with.
        words: what must be told then.
    """
    with small_disk(place) as logs:
        arguments = command(place)
        done = stopped_at(place, arguments, *acts)
        first = scene.read(logs / kills.RUN, done, ID) if status == 3 else None
        wrong = [] if done.status == status else [f"the first run ended with {done.status}"]
        wrong += [] if words in done.out + done.err else [f"nobody was told of {words!r}"]
        wrong += ["a traceback was printed"] if "Traceback (most" in done.err else []
        with contextlib.suppress(FileNotFoundError):
            free(logs)
        last = kills.passone(place, arguments)
        if first is None:
            again = kills.compared(place, last, kills.SCORING)
            return replace(again, wrong="; ".join(filter(None, [again.wrong, *wrong])))
        # Its fault has a row of its own: the tables are not those of an unbroken run.
        again = scene.read(logs / kills.RUN, last, ID)
        if again.answer != RESOLVED:
            wrong.append(f"the next run comes to {again.answer}")
        return replace(first, wrong="; ".join(filter(None, [first.wrong, again.wrong, *wrong])))


def read_only(place: Path) -> Seen:
    """Runs are kept where nobody may write, not even root."""
    with small_disk(place) as logs:
        subprocess.run(["mount", "-o", "remount,ro", str(logs)], check=True)
        done = kills.passone(place, kills.score_command(place))
        seen = scene.read(logs / kills.RUN, done, ID)
    told = "cannot be written" in done.err and "--logs" in done.err
    return seen if told else replace(seen, wrong=f"no remedy was told: {seen.said}")


def in_docker(place: Path) -> list[str]:
    """Gold in a container."""
    scene.write_inputs(place, [(row(), gold())])
    sets = [part for setting in scene.LIMITS for part in ("--set", setting)]
    return ["score", "preds.jsonl", "--dataset", "dataset.jsonl", "--run", kills.RUN, *sets]


def case(
    name: str,
    right: Right,
    *acts: tuple[str, Deed],
    status: int,
    words: str,
    command: Callable[[Path], list[str]] = kills.score_command,
) -> Case:
    return Case(
        name=name,
        group=GROUP,
        right=right,
        ours=partial(full, acts=acts, status=status, words=words, command=command),
        needs="root",
    )


CASES: tuple[Case, ...] = (
    case(
        "disk full at the ledger, then freed",
        RESOLVED,
        (r"sql row verdict", fill),
        status=2,
        words="free some space",
    ),
    case(
        "disk full at plan.json, then freed",
        RESOLVED,
        (r"write .*/\.plan\.json", fill),
        status=2,
        words="No space left",
    ),
    *(
        case(
            f"disk full at a scoring's files for a moment, {where}",
            infra("disk"),
            (r"write .*/output\.raw", fill),
            (r"sql row verdict", free),
            status=3,
            words=words,
            command=command,
        )
        for where, words, command in (
            ("Docker", "No space left", in_docker),
            ("local sandbox", "is full; free some of it and run again", kills.score_command),
        )
    ),
    case(
        "disk full at a rollout's files, for a moment",
        infra("disk"),
        (r"write .*/patch\.diff", fill),
        (r"sql row rollout", free),
        status=3,
        words="No space left",
    ),
    Case(
        name="runs are kept where nobody may write",
        group=GROUP,
        right=REFUSED,
        ours=read_only,
        needs="root",
    ),
)
