"""Our process told to stop, killed, or met by a second one, while containers of its run exist."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from tests.faults import harness, kills, scene
from tests.faults.case import REFUSED, RESOLVED, STOPPED, Case, Peer, Seen
from tests.faults.material import ID, OTHER, SceneError, before_tests, daemon, gold, row
from tests.faults.programs import Done, Hunt, start

GROUP = "us"
SLOWLY = 3
SETTINGS = (*scene.LIMITS, "execution.scorer_workers=1", "sandbox.network=off")
WAIT_SECONDS = 0.3


def noted(seen: Seen, *wrong: str) -> Seen:
    return replace(seen, wrong="; ".join(filter(None, [seen.wrong, *wrong])))


def command(place: Path) -> list[str]:
    """Gold of two instances in containers, one after the other, the first one slowly."""
    slow = before_tests(row(ID), f"sleep {SLOWLY}")
    scene.write_inputs(place, [(slow, gold(ID)), (row(OTHER), gold(OTHER))])
    sets = [part for setting in SETTINGS for part in ("--set", setting)]
    return ["score", "preds.jsonl", "--dataset", "dataset.jsonl", "--run", kills.RUN, *sets]


def process_of(place: Path, module: str) -> int:
    """The process of a program that was started in this place."""
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            here = (entry / "cwd").readlink() == place
            if here and module.encode() in (entry / "cmdline").read_bytes():
                return int(entry.name)
    raise SceneError(f"no process of {module} in {place.name}")


def while_tests_run(place: Path, deed: Callable[[int], None]) -> Done:
    """Do something to our process as the first container runs its tests."""

    def strike(hunt: Hunt) -> None:
        hunt.testing()
        deed(process_of(place, "pipeline.cli"))

    return scene.passone(place, kills.RUN, *command(place), strike=strike)


def signalled(*signals: int) -> Callable[[int], None]:
    def deed(pid: int) -> None:
        for signum in signals:
            os.kill(pid, signum)
            time.sleep(WAIT_SECONDS)

    return deed


def ended(place: Path) -> str:
    """What is wrong with the next run, which ends it all."""
    run = place / "logs" / kills.RUN
    done = scene.passone(place, kills.RUN, *command(place))
    found = [scene.read(run, done, id_) for id_ in (ID, OTHER)]
    notes = [seen.wrong for seen in found]
    notes += [f"the next run comes to {s.answer}" for s in found if s.answer != RESOLVED]
    notes += ["a scratch directory is left"] if (run / ".partial").exists() else []
    return "; ".join(dict.fromkeys(filter(None, notes)))


def told_to_stop(place: Path, *, signals: Sequence[int]) -> Seen:
    """The instance whose turn had not come is pending; the next run does it."""
    done = while_tests_run(place, signalled(*signals))
    run = place / "logs" / kills.RUN
    both = [scene.read(run, done, id_) for id_ in (OTHER, ID)]
    # Which of them comes first is nobody's promise.
    seen = min(both, key=lambda seen: seen.answer.outcome != "pending")
    wrong = [] if done.status == 130 else [f"it ended with {done.status}"]
    wrong += ["a scratch directory is left"] if (run / ".partial").exists() else []
    wrong += [] if "run the same command again" in done.err else ["nobody was told how to go on"]
    answer = STOPPED if seen.answer.outcome == "pending" else seen.answer
    return noted(replace(seen, answer=answer), *wrong, ended(place))


def theirs_told_to_stop(place: Path, *, signals: Sequence[int]) -> Peer:
    rows, preds = scene.write_inputs(place, [(before_tests(row(), f"sleep {SLOWLY}"), gold())])
    run_id = f"f{secrets.token_hex(4)}"
    module = "swebench.harness.run_evaluation"
    files = ["-d", str(rows), "-s", "test", "-p", str(preds), "-id", run_id]
    with daemon() as client:
        hunt = Hunt(client, lambda: {"name": f"\\.{run_id}"})

        def strike() -> None:
            hunt.testing()
            signalled(*signals)(process_of(place, module))

        done = start([sys.executable, "-m", module, *files], place, strike=strike, over=hunt.over)
        left = client.containers.list(all=True, filters={"name": f"\\.{run_id}"})
        for container in left:
            container.remove(force=True)
    report = harness.read(place, run_id, ID, done, left=bool(left))
    return Peer(words=report.words, right=False if left else harness.judge(report, STOPPED))


def stopping(name: str, *signals: int) -> Case:
    return Case(
        name=name,
        group=GROUP,
        right=STOPPED,
        ours=partial(told_to_stop, signals=signals),
        peers={"swebench": partial(theirs_told_to_stop, signals=signals)},
    )


def left_behind(place: Path) -> Seen:
    """Killed with a container at work: whoever comes next removes it, and ends the run."""
    done = while_tests_run(place, signalled(signal.SIGKILL))
    run = place / "logs" / kills.RUN
    if done.status != -signal.SIGKILL or not scene.containers_of(run):
        raise SceneError("nothing was left behind")
    old = scene.containers_of(run)
    wrong = ended(place)
    wrong += "".join(
        f"; container left: {name}" for name in scene.containers_of(run) if name in old
    )
    done = scene.passone(place, kills.RUN, *command(place))
    return noted(scene.read(run, done, ID), wrong)


def moved(place: Path) -> Seen:
    """Killed, and its directory then renamed: containers are still known to be its own."""
    while_tests_run(place, signalled(signal.SIGKILL))
    logs = place / "logs"
    before = scene.containers_of(logs / kills.RUN)
    if not before:
        raise SceneError("nothing was left behind")
    (place / "elsewhere").mkdir()
    logs.rename(place / "elsewhere" / "logs")
    argv = [*scene.PASSONE, *command(place), "--logs", str(place / "elsewhere" / "logs")]
    run = place / "elsewhere" / "logs" / kills.RUN
    done = start(argv, place)
    left = [name for name in scene.containers_of(run) if name in before]
    return noted(scene.read(run, done, ID), *(f"container left: {name}" for name in left))


def copied(place: Path) -> Seen:
    """A copy of a run that is under way is driven, too: neither touches the other's containers."""
    seen: list[Seen] = []

    def deed(pid: int) -> None:
        shutil.copytree(place / "logs", place / "copy", symlinks=True)
        argv = [*scene.PASSONE, *command(place), "--logs", str(place / "copy")]
        done = start(argv, place)
        seen.append(scene.read(place / "copy" / kills.RUN, done, ID))

    done = while_tests_run(place, deed)
    mine = scene.read(place / "logs" / kills.RUN, done, ID)
    faults = [line for line in done.err.splitlines() if " fault: " in line and " try " in line]
    wrong = [
        f"the copy came to {s.answer}: {s.wrong}" for s in seen if s.answer != RESOLVED or s.wrong
    ]
    return noted(mine, *wrong, *(f"struck by its copy: {line}" for line in faults))


def second(place: Path) -> Seen:
    """A second process on a run: sent away with the first one's pid; the first is not disturbed."""
    sent: list[Done] = []
    pids: list[int] = []

    def deed(pid: int) -> None:
        pids.append(pid)
        # It keeps its lock for as long as the second one takes.
        os.kill(pid, signal.SIGSTOP)
        argv = [*scene.PASSONE, *command(place), "--logs", str(place / "logs")]
        sent.append(start(argv, place))
        os.kill(pid, signal.SIGKILL)

    while_tests_run(place, deed)
    run = place / "logs" / kills.RUN
    wrong = [] if sent[0].status == 2 else [f"the second ended with {sent[0].status}"]
    wrong += [] if f"pid {pids[0]}" in sent[0].err else ["nobody was told who drives the run"]
    # The first was killed meanwhile: the lock went with it.
    return Seen(
        answer=REFUSED,
        said=scene.last(sent[0].err, run),
        wrong="; ".join([*wrong, ended(place)]).strip("; "),
    )


def at_once(place: Path) -> Seen:
    """Two runs of one name, kept in two places, at the same time."""
    seen: list[Seen] = []

    def deed(pid: int) -> None:
        argv = [*scene.PASSONE, *command(place), "--logs", str(place / "other")]
        seen.append(scene.read(place / "other" / kills.RUN, start(argv, place), ID))

    done = while_tests_run(place, deed)
    mine = scene.read(place / "logs" / kills.RUN, done, ID)
    return noted(mine, *(f"the other: {s.answer}" for s in seen if s.answer != RESOLVED))


CASES: tuple[Case, ...] = (
    stopping("^C once while tests run", signal.SIGINT),
    stopping("SIGTERM while tests run", signal.SIGTERM),
    Case(
        name="killed with -9 beside its container",
        group=GROUP,
        right=RESOLVED,
        ours=left_behind,
        peers={"swebench": partial(theirs_told_to_stop, signals=[signal.SIGKILL])},
    ),
    Case(name="a second process on a run", group=GROUP, right=REFUSED, ours=second),
)
