"""Programs as a user starts them, and what strikes their containers meanwhile."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import docker
from docker.errors import APIError, NotFound
from docker.models.containers import Container

from pipeline.process import tethered
from tests.faults.forks import NURSERY, Forked
from tests.faults.material import SceneError

ROOT = Path(__file__).parents[2]


@dataclass(slots=True)
class Hunt:
    """Finds the containers of one program while it runs."""

    client: docker.DockerClient
    filters: Callable[[], dict[str, Any] | None]
    """For the daemon's list; None: not known yet."""
    over: threading.Event = field(default_factory=threading.Event)
    """Set when the program has ended."""
    known: set[str] = field(default_factory=set)

    def testing(self, *, seconds: float = 90) -> Container:
        """The next container that runs its tests, and that was not given out before."""
        return self.find("/eval.sh", seconds=seconds)

    def find(self, words: str = "", *, seconds: float = 90) -> Container:
        """The next container that has a process with such words in its command."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not self.over.is_set():
            filters = self.filters()
            found = (
                self.client.containers.list(filters=filters, ignore_removed=True) if filters else []
            )
            for container in found:
                if container.id not in self.known and self._runs(container, words):
                    self.known.add(str(container.id))
                    return container
            time.sleep(0.05)
        raise SceneError(f"no container with {words!r} was seen")

    @staticmethod
    def _runs(container: Container, words: str) -> bool:
        with contextlib.suppress(APIError, NotFound):
            return words in json.dumps(container.top(ps_args="-eo pid,args"))
        return False


Strike: TypeAlias = Callable[[Hunt], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """How a program ended that a user would have started."""

    status: int
    out: str
    err: str
    seconds: float


def clean_environment(place: Path, changes: Mapping[str, str] | None = None) -> dict[str, str]:
    """No key, no endpoint and no cache of this machine."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("OPENAI_", "MSWEA_"))}
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    own = {
        "PASSONE_CACHE": str(place / "cache"),
        "HF_HOME": str(place / "huggingface"),
        "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": os.pathsep.join(paths),
    }
    return kept | own | dict(changes or {})


def launch(
    argv: Sequence[str], place: Path, env: Mapping[str, str]
) -> subprocess.Popen[bytes] | Forked:
    forked = NURSERY.fork(argv, place, env)
    return forked or subprocess.Popen(
        tethered(argv),
        cwd=place,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def start(
    argv: Sequence[str],
    place: Path,
    *,
    env: Mapping[str, str] | None = None,
    seconds: float = 180,
    strike: Callable[[], None] | None = None,
    over: threading.Event | None = None,
) -> Done:
    """Run a program to its end beside whatever strikes it; no process of it outlives this.

    It is forked from a process that has its imports behind it, where `forks.NURSERY` is
    open and that comes to the same; else it is started afresh.

    Raises:
        SceneError: it took too long; or what the strike raised.
    """
    raised: list[BaseException] = []

    def act() -> None:
        try:
            if strike is not None:
                strike()
        except BaseException as error:  # noqa: BLE001 - raised again in the case's own thread
            raised.append(error)

    began = time.monotonic()
    process = launch(argv, place, clean_environment(place, env))
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        raise SceneError(f"{argv[-1]}: no end within {seconds:.0f} s") from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if over is not None:
            over.set()
        thread.join(30)
    if raised:
        raise raised[0]
    taken = time.monotonic() - began
    texts = out.decode(errors="replace"), err.decode(errors="replace")
    return Done(status=process.returncode, out=texts[0], err=texts[1], seconds=taken)
