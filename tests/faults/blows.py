"""What befalls an agent from outside: its container, its process, its files."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from docker.errors import APIError
from docker.models.containers import Container

from pipeline.process import SCRATCH_VARIABLE
from tests.faults.driving import RUN
from tests.faults.material import daemon
from tests.faults.programs import Hunt, Strike
from tests.faults.talking import LOOK, SOLVES, Asked, Talk
from tests.loopback import Answer, runs

COMES_SECONDS = 0.7
CONTAINER = re.compile(r"\b[0-9a-f]{12}\b")
WORKS = "sleep 20"
Blow = Callable[[Container], None]


def killed(container: Container) -> None:
    container.kill()


def removed(container: Container) -> None:
    container.remove(force=True)


def paused(container: Container) -> None:
    container.pause()


def strike(name: str, blow: Blow) -> None:
    with daemon() as client, contextlib.suppress(APIError):
        blow(client.containers.get(name))


def struck(blow: Blow, *, times: int = 100, then: Talk = SOLVES) -> Talk:
    """A container that tells its name is struck while its next command works.

    Args:
        times: containers in all; whoever comes later hears `then`.
    """
    seen: set[str] = set()
    lock = threading.Lock()

    def talk(asked: Asked) -> Answer:
        if asked.step == 0:
            with lock:
                spared = len(seen) >= times
            return then(asked) if spared else runs("echo '# edited' >> README.md; hostname")
        found = CONTAINER.search(asked.heard) if asked.step == 1 else None
        if found is None:
            with lock:
                spared = len(seen) >= times
            # Whoever was struck goes on asking, as if it were the model's affair.
            return then(asked) if spared else LOOK
        with lock:
            seen.add(found[0])
        threading.Timer(COMES_SECONDS, strike, (found[0], blow)).start()
        return runs(WORKS, "I wait for something.")

    return talk


def agent_gets(signum: signal.Signals, place: Path) -> Strike:
    """The agent's own process, while a command of its works."""
    marker = f"{SCRATCH_VARIABLE}={place / 'logs' / RUN}{os.sep}".encode()

    def act(hunt: Hunt) -> None:
        hunt.find(WORKS)
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                argv = (entry / "cmdline").read_bytes().split(b"\0")
                if marker in (entry / "environ").read_bytes() and b"swebench" in argv:
                    os.kill(int(entry.name), signum)

    return act


WRAPPER = """\
#!{python}
import json, os, subprocess, sys
from pathlib import Path
done = subprocess.run([{program!r}, *sys.argv[1:]])
out = Path(sys.argv[sys.argv.index("-o") + 1])
trajectory = next(out.glob("*/*.traj.json"))
{damage}
sys.exit(done.returncode)
"""


def wrapped(place: Path, damage: str = "") -> Sequence[str]:
    """passone in an environment whose `mini-extra` is the real one, and then does damage.

    Args:
        damage: lines of Python that know `out`, `trajectory` and `done`; without any,
            no mini-swe-agent is there at all.
    """
    venv = place / "venv"
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True, capture_output=True
    )
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = sysconfig.get_path("purelib")
    lines = f"import site; site.addsitedir({packages!r})\n"
    (venv / "lib" / version / "site-packages" / "real.pth").write_text(lines)
    if damage:
        program = venv / "bin" / "mini-extra"
        real = str(Path(sys.executable).with_name("mini-extra"))
        program.write_text(WRAPPER.format(python=sys.executable, program=real, damage=damage))
        program.chmod(0o755)
    return (str(venv / "bin" / "python"), "-c", "from pipeline.cli import main; main()")
