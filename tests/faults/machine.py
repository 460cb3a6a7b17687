"""What the suite finds here: a Docker daemon, or one that it starts, and the other programs."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from pipeline import __version__
from pipeline.docker import connect
from pipeline.outcomes import UserError

STARTS_SECONDS = 60


def daemon_problem() -> str:
    """Empty if a Docker daemon answers."""
    try:
        connect().close()
    except UserError as error:
        return str(error).partition(";")[0]
    return ""


def root_problem() -> str:
    """Empty if a daemon of one's own can be started."""
    if shutil.which("dockerd") is None:
        return "dockerd is not installed"
    return "only root can start a daemon" if os.geteuid() else ""


@contextlib.contextmanager
def docker_daemon(scratch: Path) -> Iterator[str]:
    """The daemon that answers, or one that is started for as long as this lasts.

    Yields:
        Why there is none; empty: there is one.
    """
    problem = daemon_problem()
    if not problem:
        yield ""
        return
    if root_problem():
        yield f"{problem}; {root_problem()}"
        return
    with (scratch / "dockerd.log").open("wb") as log:
        process = subprocess.Popen(["dockerd"], stdout=log, stderr=log, start_new_session=True)
    try:
        deadline = time.monotonic() + STARTS_SECONDS
        while problem and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.5)
            problem = daemon_problem()
        yield problem and f"{problem}; dockerd was started, and does not answer"
    finally:
        process.terminate()
        process.wait(STARTS_SECONDS)


def versions() -> Mapping[str, str]:
    """Of everything that is measured, as far as it is here."""
    found = {"passone": __version__}
    for name in ("swebench", "mini-swe-agent"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    if sweagent_version():
        found["SWE-agent"] = sweagent_version()
    with contextlib.suppress(UserError):
        client = connect()
        found["Docker"] = str(client.version()["Version"])
        client.close()
    return found | {"Python": platform.python_version(), "Linux": platform.release()}


def sweagent_version() -> str:
    """Of the program that PASSONE_SWEAGENT names; empty: none."""
    python = Path(os.environ.get("PASSONE_SWEAGENT") or "none").with_name("python")
    if not python.exists():
        return ""
    ask = "import importlib.metadata as m; print(m.version('sweagent'))"
    done = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def absent_peers() -> dict[str, str]:
    """The programs that cannot be measured here, and why."""
    absent = {}
    if not sweagent_version():
        absent["sweagent"] = "not installed (PASSONE_SWEAGENT names no program)"
    if not Path(sys.executable).with_name("mini-extra").exists():
        absent["miniswe"] = "not installed (no mini-extra beside this Python)"
    return absent
