"""Faults of our own: files spoilt, clocks that jump, what was left before, odd predictions."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from tests.faults import driving, fulldisk, harness, kills, scene, stops
from tests.faults.case import REFUSED, RESOLVED, UNRESOLVED, Case, Peer, Right, Seen
from tests.faults.deadly import Rule, program
from tests.faults.material import ID, SceneError, gold, new_file, row
from tests.faults.programs import Done, start
from tests.faults.talking import SOLVES

GROUP = "us"
RUN = kills.RUN
FAKETIME = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
HOURS_BACK = 3
OUTLIVES = """\
import os, pathlib, subprocess, sys, time
place = pathlib.Path(PLACE)
if not (place / "again").exists():
    loop = "import time; time.sleep(300)"
    subprocess.Popen([sys.executable, "-c", loop], start_new_session=True)
    (place / "begun").touch()
    time.sleep(300)
"""
"""An agent's program whose helper is in a session of its own; at the second time it just ends."""
WRONG = new_file("note.txt", "no")
Spoil = Callable[[Path], None]


def noted(seen: Seen, *wrong: str) -> Seen:
    return replace(seen, wrong="; ".join(filter(None, [seen.wrong, *wrong])))


def halve(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def spoilt(place: Path, *, name: str) -> Seen:
    """A file of a finished run is cut in half: the next run says which, and touches nothing."""
    arguments = kills.score_command(place)
    kills.passone(place, arguments)
    run = place / "logs" / RUN
    table = (run / "report" / "attempts.csv").read_bytes()
    halve(run / name)
    done = kills.passone(place, arguments)
    same = (run / "report" / "attempts.csv").read_bytes() == table
    return Seen(
        answer=REFUSED if done.status == 2 else Right(f"exit {done.status}"),
        said=scene.last(done.err, run),
        wrong="; ".join(
            filter(
                None,
                [
                    "" if name in done.err else f"{name} is not named",
                    "a traceback was printed" if "Traceback (most" in done.err else "",
                    "" if same else "the tables were written again",
                ],
            )
        ),
    )


def cache_spoilt(place: Path, *, spoil: Spoil) -> Seen:
    """What is kept of gold cannot be read or written: that costs time, never a result."""
    arguments = kills.score_command(place)
    kills.passone(place, [*arguments, "--logs", "first"])
    spoil(place / "cache")
    return kills.compared(place, kills.passone(place, arguments), kills.SCORING)


def halve_golds(cache: Path) -> None:
    golds = [path for path in cache.rglob("*") if path.is_file()]
    if not golds:
        raise SceneError("no gold was kept")
    for path in golds:
        halve(path)


def file_instead(cache: Path) -> None:
    cache.rename(cache.with_name("old"))
    cache.write_text("no directory")


def clock_set_back(place: Path) -> Seen:
    """The wall clock jumps back between a rollout and its scoring, and again before the rows."""
    clock = place / "clock"
    clock.write_text("+0")

    def back(hours: int) -> fulldisk.Deed:
        def deed(logs: Path) -> None:
            clock.write_text(f"-{hours}h")

        return deed

    acts = [
        (r"sql row rollout", back(HOURS_BACK)),
        (r"sql row verdict", back(2 * HOURS_BACK)),
        (r"sql row settlement", back(3 * HOURS_BACK)),
    ]
    env = {
        "LD_PRELOAD": str(FAKETIME[0]),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "DONT_FAKE_MONOTONIC": "1",
    }
    # In containers: whoever sleeps by an absolute time cannot under this library.
    done = fulldisk.stopped_at(place, fulldisk.in_docker(place), *acts, env=env)
    seen = scene.read(place / "logs" / RUN, done, ID)
    table = (place / "logs" / RUN / "report" / "attempts.csv").read_text().splitlines()
    seconds = [float(line.split(",")[table[0].split(",").index("seconds")]) for line in table[1:]]
    return noted(seen, "" if all(0 <= s < 60 for s in seconds) else f"seconds: {seconds}")


def outlived(place: Path) -> Seen:
    """Killed with -9 while its agent works, whose helper lives on: the next run ends that one."""
    begun, again = place / "begun", place / "again"
    # Not by their paths as arguments: those would be known by what stands in them.
    agent = driving.told(OUTLIVES.replace("PLACE", repr(str(place))))
    killing = program(place / "writes", Rule(r"never\Z."))

    def strike(_: object) -> None:
        deadline = time.monotonic() + 60
        while not begun.exists():
            if time.monotonic() > deadline:
                raise SceneError("the agent did not begin")
            time.sleep(0.05)
        os.kill(fulldisk.process_of(place / "writes"), signal.SIGKILL)

    with driving.swept(place):
        driving.drive(place, SOLVES, agent=agent, strike=strike, program=killing)
        if not list((place / "logs" / RUN / ".partial").glob("*")):
            raise SceneError("no scratch directory was left")
        again.touch()
        # A sentence that nobody said is no answer of a model: whatever it comes to, it is clean.
        return driving.drive(place, SOLVES, agent=agent).seen()


def scored(place: Path, *predictions: tuple[str, str], run: str = RUN) -> Done:
    """`passone score` of files of one prediction each: (model, patch)."""
    rows, _ = scene.write_inputs(place, [(row(), gold())])
    files = []
    for number, (model, patch) in enumerate(predictions, 1):
        line = {"instance_id": ID, "model_name_or_path": model, "model_patch": patch}
        files.append(place / f"preds-{number}.jsonl")
        files[-1].write_text(json.dumps(line) + "\n")
    sets = [part for setting in scene.LIMITS for part in ("--set", setting)]
    names = [str(path) for path in files]
    return scene.passone(place, run, "score", *names, "--dataset", str(rows), "--run", run, *sets)


def odd_model(place: Path) -> Seen:
    done = scored(place, ("some-org/a model:1", gold()))
    return scene.read(place / "logs" / RUN, done, ID)


def several_files(place: Path) -> Seen:
    """Three files are three attempts, each with its own outcome."""
    done = scored(place, ("m", gold()), ("m", WRONG), ("m", ""))
    run = place / "logs" / RUN
    found = [scene.read(run, done, ID, number) for number in (1, 2, 3)]
    wanted = (RESOLVED, UNRESOLVED, Right("no_submission"))
    wrong = [
        f"attempt {number}: {seen.answer}"
        for number, (seen, right) in enumerate(zip(found, wanted, strict=True), 1)
        if seen.answer != right
    ]
    return noted(found[0], *wrong)


def several_files_theirs(place: Path) -> Peer:
    """The official harness takes one file: three predictions for one instance stand in it."""
    rows, preds = scene.write_inputs(place, [(row(), patch) for patch in (gold(), "", WRONG)])
    rows.write_text(json.dumps(row()) + "\n")
    argv = ["-m", "swebench.harness.run_evaluation", "-d", str(rows), "-s", "test"]
    done = start([sys.executable, *argv, "-p", str(preds), "-id", "three"], place)
    report = harness.read(place, "three", ID, done, left=False)
    if not report.bucket:
        return Peer(words=report.words, right=None)
    return Peer(words=f"{report.words}, of three", right=False)


def new_patch(place: Path) -> Seen:
    """Another patch under the name of a run that is over never gets the old verdict."""
    scored(place, ("m", gold()))
    done = scored(place, ("m", WRONG))
    run = place / "logs" / RUN
    told = "another experiment" in done.err and "--run" in done.err
    return Seen(
        answer=REFUSED if done.status == 2 else Right(f"exit {done.status}"),
        said=scene.last(done.err, run),
        wrong="" if told else "no remedy was told",
    )


def new_patch_theirs(place: Path) -> Peer:
    harness.evaluate(place, row(), gold(), run_id="same")
    report = harness.evaluate(place, row(), WRONG, run_id="same")
    words = f"{report.words}, for a patch that mends nothing"
    return Peer(words=words, right=report.bucket != "resolved")


def case(name: str, right: Right, ours: Callable[[Path], Seen], needs: str = "nothing") -> Case:
    return Case(name=name, group=GROUP, right=right, ours=ours, needs=needs)


OWN: Sequence[Case] = (
    case("a ledger cut in half", REFUSED, partial(spoilt, name="ledger.sqlite")),
    case("a plan.json cut in half", REFUSED, partial(spoilt, name="plan.json")),
    case("what is kept, cut in half", RESOLVED, partial(cache_spoilt, spoil=halve_golds)),
    case(
        "an agent's helper that outlived its killed process",
        Right("infra", "agent_crash"),
        outlived,
        "docker",
    ),
    Case(
        name="a new patch under an old run's name",
        group=GROUP,
        right=REFUSED,
        ours=new_patch,
        peers={"swebench": new_patch_theirs},
    ),
)
CLOCK = (
    [case("the clock is set back, three times", RESOLVED, clock_set_back, "docker")]
    if FAKETIME
    else []
)
"""Only where the library is that shows a child another clock; nobody sets this machine's."""
CASES: tuple[Case, ...] = (
    *stops.CASES,
    *OWN,
    *(CLOCK if FAKETIME else ()),
    *fulldisk.CASES,
    *kills.CASES,
)
