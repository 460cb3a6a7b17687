"""Run a child so that it, and all that it started, ends when we say so."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event

POLL_SECONDS = 0.05
SCRATCH_VARIABLE = "PASSONE_SCRATCH"
"""Tells every child, and what it starts, whose they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """How a command ended."""

    returncode: int | None
    """None: it was killed by us, or its container died under it."""
    output: str
    """The last few thousand characters, decoded with replacement."""
    seconds: float
    timed_out: bool = False
    truncated: bool = False
    """Output went over the cap; the file holds its two ends."""


TAIL_CHARACTERS = 8000


def tail(path: Path, characters: int = TAIL_CHARACTERS) -> str:
    """The end of a log, decoded with replacement; empty where there is no file."""
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - 4 * characters))
            return file.read().decode(errors="replace")[-characters:]
    except OSError:
        return ""


def tethered(argv: Sequence[str]) -> list[str]:
    """The command, made to die with us even when we are killed with -9 (Linux)."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", "--", *argv] if setpriv else list(argv)


def kill_group(process: subprocess.Popen[bytes], *, grace_seconds: float = 5.0) -> None:
    """End a child's whole process group: TERM, a grace, then KILL."""
    for signum, wait in ((signal.SIGTERM, grace_seconds), (signal.SIGKILL, 5.0)):
        try:
            os.killpg(process.pid, signum)
        except ProcessLookupError:
            return
        try:
            process.wait(wait)
        except subprocess.TimeoutExpired:
            continue
    # The leader is gone; what it left behind in its group goes too.
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def run(
    argv: Sequence[str],
    *,
    output: Path,
    timeout_seconds: float,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    cancelled: Event | None = None,
) -> Completed:
    """Run a command to its end, a time limit, or a cancellation.

    Args:
        argv: the command; no shell reads it.
        output: file that receives stdout and stderr; appended to.
        timeout_seconds: wall clock, after which the process group is ended.
        env: the whole environment of the child; None: ours.
        cancelled: once set, the process group is ended at once.

    Raises:
        OSError: the program could not be started.
    """
    started = time.monotonic()
    with output.open("ab") as log:
        process = subprocess.Popen(
            tethered(argv),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env={**(os.environ if env is None else env), SCRATCH_VARIABLE: str(output)},
            start_new_session=True,
        )
        timed_out = False
        try:
            while process.poll() is None:
                timed_out = time.monotonic() - started > timeout_seconds
                if timed_out or (cancelled is not None and cancelled.is_set()):
                    kill_group(process, grace_seconds=0.5 if not timed_out else 5.0)
                    break
                time.sleep(POLL_SECONDS)
        finally:
            kill_group(process, grace_seconds=0.0)
            end_marked(str(output))
    killed = timed_out or (cancelled is not None and cancelled.is_set())
    return Completed(
        returncode=None if killed else process.returncode,
        output=tail(output),
        seconds=time.monotonic() - started,
        timed_out=timed_out,
    )


def end_orphans(scratch: Path) -> int:
    """Kill what an earlier process of this run started and could not end (Linux).

    They are known by PASSONE_SCRATCH in their environment, which `run` sets.

    Returns:
        How many there were.
    """
    return end_marked(f"{scratch}{os.sep}", whole=False)


def end_marked(place: str, *, whole: bool = True) -> int:
    """Kill whatever `run` marked with this place, or with one below it; how many there were."""
    marker = f"{SCRATCH_VARIABLE}={place}".encode()
    ended = 0
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            variables = (entry / "environ").read_bytes().split(b"\0")
            if marker in variables or (not whole and any(v.startswith(marker) for v in variables)):
                os.kill(int(entry.name), signal.SIGKILL)
                ended += 1
        except (OSError, ValueError):
            # Gone meanwhile, or somebody else's.
            continue
    return ended


def forget(variable: str) -> None:
    """Take a variable out of our environment, and what /proc shows of it to others of this user."""
    value = os.environb[variable.encode()]
    libc = ctypes.CDLL(None)
    libc.getenv.restype = ctypes.c_void_p
    address = libc.getenv(variable.encode())
    if address:
        ctypes.memset(address, 0, len(value))
    del os.environ[variable]
