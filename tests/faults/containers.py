"""What can happen to the container in which the tests run."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from docker.errors import APIError
from docker.models.containers import Container

from tests.faults import disks
from tests.faults.case import RESOLVED, Case, Right, infra
from tests.faults.material import SceneError, at_import, before_tests, gold, row
from tests.faults.programs import Hunt, Strike
from tests.faults.scoring import Scored, slow

S = Scored(group="containers")
FOR_EVER = 99
TIMED_OUT, DIED = Right("tests_timed_out"), Right("died")
DID_NOT_RUN = Right("tests_did_not_run")
FEW_TRIES = "execution.tries=2"


def strike(act: Callable[[Container], object], *, times: int = 1) -> Callable[[], Strike]:
    """Do something to the first containers whose tests run, gold's included."""

    def strikes(hunt: Hunt) -> None:
        for number in range(times):
            try:
                container = hunt.testing()
            except SceneError:
                if number and times == FOR_EVER:
                    return
                raise
            act(container)

    return lambda: strikes


def kill_tests(container: Container) -> None:
    """From the machine, as its own out-of-memory killer would: the test process alone."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        top = container.top(ps_args="-eo pid,args")
        found = [line for line in top["Processes"] or () if "unittest" in line[-1]]
        if found:
            os.kill(int(found[0][0]), 9)
            return
        time.sleep(0.02)
    raise SceneError("no test process was seen")


def kill_script(container: Container) -> None:
    find = "grep -l eval.sh /proc/[0-9]*/cmdline | cut -d/ -f3"
    container.exec_run(["sh", "-c", f"kill -9 $({find})"])


def restart(container: Container) -> None:
    try:
        container.restart(timeout=0)
    except APIError as error:
        # Whoever saw it die has removed it before it was up again.
        if "removal" not in str(error) and "No such container" not in str(error):
            raise


def pause_a_while(container: Container) -> None:
    container.pause()
    time.sleep(2)
    container.unpause()


STRUCK = (
    S.case("killed once", RESOLVED, of=slow, strike=strike(lambda c: c.kill()), broken=True),
    S.case(
        "killed on every try",
        infra("sandbox"),
        FEW_TRIES,
        of=slow,
        strike=strike(lambda c: c.kill(), times=FOR_EVER),
    ),
    S.case(
        "removed by somebody else",
        RESOLVED,
        of=slow,
        strike=strike(lambda c: c.remove(force=True)),
        broken=True,
    ),
    S.case(
        "sent TERM, which its first process ignores",
        RESOLVED,
        of=slow,
        strike=strike(lambda c: c.kill(signal="TERM")),
        broken=True,
    ),
    S.case(
        "restarted once",
        RESOLVED,
        of=slow,
        strike=strike(restart),
        broken=True,
    ),
    S.case(
        "paused for two seconds",
        RESOLVED,
        of=slow,
        strike=strike(pause_a_while),
        broken=True,
    ),
    S.case(
        "paused for good, once",
        RESOLVED,
        "sandbox.scoring_seconds=6",
        of=slow,
        strike=strike(lambda c: c.pause()),
        timeout=6,
        broken=True,
    ),
    S.case(
        "paused for good on every try: exec never returns",
        infra("sandbox"),
        FEW_TRIES,
        "sandbox.scoring_seconds=4",
        of=slow,
        strike=strike(lambda c: c.pause(), times=FOR_EVER),
        timeout=4,
    ),
    S.case(
        "eval script killed by signal 9 from outside, once",
        RESOLVED,
        of=slow,
        strike=strike(kill_script),
        broken=True,
    ),
    S.case(
        "test process killed by the machine, once",
        RESOLVED,
        of=lambda: before_tests(row(), "sleep 1"),
        patch=gold() + at_import("import time; time.sleep(2)"),
        strike=strike(kill_tests),
        broken=True,
        needs="root",
    ),
)

HOG = "hog = [bytearray(1 << 20) for _ in range(2000)]"
FORKS = """\
import os, time
for _ in range(1000):
    if os.fork() == 0:
        time.sleep(600)
"""
OUTLIVES = """\
import subprocess
subprocess.Popen(["sleep", "600"])
"""
DEAF = """\
import signal, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
time.sleep(600)
"""

MODELS_OWN = (
    S.case("patch eats all memory", DID_NOT_RUN, patch=gold() + at_import(HOG), peer=False),
    S.case(
        "patch ends its tests with signal 9",
        DID_NOT_RUN,
        patch=gold() + at_import("import os; os.kill(os.getpid(), 9)"),
    ),
    S.case(
        "patch kills the eval script: 137 without OOMKilled",
        DIED,
        FEW_TRIES,
        patch=gold() + at_import("import os; os.kill(os.getppid(), 9)"),
    ),
    S.case(
        "patch forks until no process is left",
        DID_NOT_RUN,
        "sandbox.pids=64",
        "sandbox.scoring_seconds=8",
        patch=gold() + at_import(FORKS),
        peer=False,
    ),
    S.case(
        "patch makes the tests hang",
        TIMED_OUT,
        "sandbox.scoring_seconds=4",
        patch=gold() + at_import("import time; time.sleep(600)"),
        timeout=4,
    ),
    S.case(
        "a process of the patch outlives the tests and keeps their output open",
        RESOLVED,
        "sandbox.scoring_seconds=8",
        patch=gold() + at_import(OUTLIVES),
        timeout=8,
    ),
    S.case(
        "patch fills the container's tmpfs",
        DID_NOT_RUN,
        patch=gold() + at_import("open('/dev/shm/hog', 'wb').write(bytes(100 << 20))"),
    ),
)

NEEDS_SHM = "head -c 100M /dev/zero > /dev/shm/x || exit 1"

PLACES_OWN = (
    S.case("too little memory for gold", infra("instance"), "sandbox.memory_gb=0.007", peer=False),
    S.case(
        "too few processes for gold",
        infra("instance"),
        "sandbox.pids=2",
        "sandbox.scoring_seconds=5",
        peer=False,
    ),
    S.case(
        "tmpfs too small for the tests",
        infra("instance"),
        of=lambda: before_tests(row(), NEEDS_SHM),
    ),
    S.case(
        "eval script ends by signal 9 in this place, whatever the patch",
        infra("instance"),
        FEW_TRIES,
        of=lambda: before_tests(row(), "kill -9 $$"),
    ),
)

CASES: tuple[Case, ...] = (*STRUCK, *MODELS_OWN, *PLACES_OWN, *disks.CASES)
