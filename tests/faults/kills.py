"""Our process killed with -9 before chosen writes, and held against a run that nobody struck."""

from __future__ import annotations

import csv
import json
import signal
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from pipeline.cli.demo import demo_recipe
from tests.faults import scene
from tests.faults.case import RESOLVED, Case, Seen
from tests.faults.deadly import Rule, program
from tests.faults.material import ID, OTHER, SceneError, embedded, gold, new_file, row
from tests.faults.programs import Done, start

GROUP = "us"
RUN = "fault"
LOCAL = (
    "sandbox.kind=local",
    "sandbox.scoring_seconds=60",
    "execution.backoff_seconds=0.2",
    # One thing after the other, so that the n-th write is the same one each time.
    "execution.agent_workers=1",
    "execution.scorer_workers=1",
)
TIMES = ("seconds",)
"""Columns that no two runs have alike."""


def score_command(place: Path) -> list[str]:
    """Two instances in the local sandbox: gold, and a patch that mends nothing."""
    rows = [row(id_, image=embedded()[id_].image) for id_ in (ID, OTHER)]
    scene.write_inputs(place, list(zip(rows, (gold(ID), new_file("note.txt", "no")), strict=True)))
    sets = [part for setting in LOCAL for part in ("--set", setting)]
    # By relative paths: those go into the plan.
    return ["score", "preds.jsonl", "--dataset", "dataset.jsonl", "--run", RUN, *sets]


def agent_command(place: Path) -> list[str]:
    """mini-swe-agent with scripted words, on one instance in the local sandbox."""
    tree: dict[str, Any] = demo_recipe(size=1, attempts=1, sandbox="local")
    tree |= {"name": RUN, "selection": {"dataset": "demo", "strategy": "ids", "ids": [ID]}}
    (place / "run.json").write_text(json.dumps(tree))
    return ["run", "run.json"]


def passone(place: Path, arguments: Sequence[str], *rules: Rule) -> Done:
    """Once, to its end or to a strike."""
    argv = program(place / "writes", *rules) if rules else list(scene.PASSONE)
    return start([*argv, *arguments, "--logs", "logs"], place)


def struck(place: Path, arguments: Sequence[str], *rules: Rule) -> bool:
    """Whether a run was killed there; where not, it came to its end."""
    done = passone(place, arguments, *rules)
    if done.status == -signal.SIGKILL:
        return True
    if done.status:
        raise SceneError(f"status {done.status}: {done.err[-300:]}")
    return False


def records(table: Path) -> list[dict[str, str]]:
    with table.open(newline="") as file:
        return [
            {name: value for name, value in record.items() if name not in TIMES}
            for record in csv.DictReader(file)
        ]


def written(run: Path) -> dict[str, Any]:
    """All that a run says when it is over, without its times; and the names of its files."""
    names = [
        str(path.relative_to(run))
        for folder in ("attempts", "scoring")
        for path in sorted((run / folder).rglob("*"))
    ]
    return {
        "attempts.csv": records(run / "report" / "attempts.csv"),
        "instances.csv": records(run / "report" / "instances.csv"),
        "summary.json": json.loads((run / "report" / "summary.json").read_text()),
        "plan.json": json.loads((run / "plan.json").read_text()),
        "preds.1.jsonl": (run / "preds.1.jsonl").read_text(),
        "files": names,
    }


def leftovers(run: Path) -> list[str]:
    """Files half written by somebody who is dead; without the random end of their names."""
    hidden = (path for path in run.rglob(".*") if "attempts" not in path.parts)
    return sorted(str(path.relative_to(run)).rpartition(".")[0] for path in hidden)


@dataclass(slots=True)
class Unbroken:
    """What a command comes to that nobody strikes; run once a process."""

    command: Callable[[Path], list[str]]
    found: Mapping[str, Any] = field(default_factory=dict)
    writes: Sequence[str] = ()
    lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self) -> Unbroken:
        with self.lock:
            if not self.found:
                with tempfile.TemporaryDirectory(prefix="passone-unbroken-") as name:
                    place = Path(name)
                    # Never reached: it only writes the writes down.
                    never = Rule(r"\Z.")
                    if struck(place, self.command(place), never):
                        raise SceneError("an unbroken run was broken")
                    self.writes = (place / "writes").read_text().splitlines()
                    self.found = written(place / "logs" / RUN)
        return self


SCORING, SOLVING = Unbroken(score_command), Unbroken(agent_command)


def compared(place: Path, done: Done, unbroken: Unbroken) -> Seen:
    """The outcome after all, and where it differs from a run that nobody struck."""
    run = place / "logs" / RUN
    seen = scene.read(run, done, ID)
    if not (run / "report" / "summary.json").exists():
        return seen
    mine, whole = written(run), unbroken.get().found
    other = [f"{name} differs" for name in whole if mine[name] != whole[name]]
    other += [f"left: {name}.…" for name in leftovers(run)]
    return replace(seen, wrong="; ".join(filter(None, [seen.wrong, *other])))


def killed(place: Path, rules: Sequence[tuple[str, int]], unbroken: Unbroken) -> Seen:
    """Killed at each of these in turn, continued each time, and let go on to its end."""
    arguments = unbroken.command(place)
    for pattern, number in rules:
        if not struck(place, arguments, Rule(pattern, number)):
            raise SceneError(f"there was no write {number} of {pattern!r}")
    return compared(place, passone(place, arguments), unbroken)


def case(name: str, *rules: tuple[str, int], unbroken: Unbroken = SCORING) -> Case:
    return Case(
        name=f"killed with -9 {name}",
        group=GROUP,
        right=RESOLVED,
        ours=partial(killed, rules=rules, unbroken=unbroken),
        needs="nothing",
    )


CASES: tuple[Case, ...] = (
    case("before and after plan.json", (r"rename .*/plan\.json", 1), (r"sql SELECT seq", 1)),
    case("before an artefact is in place", (r"rename .*/attempts/", 1), (r"rename .*/scoring/", 1)),
    case("between an artefact and its row", (r"sql row rollout", 2), (r"sql row verdict", 1)),
    case("in the middle of a commit", (r"sql COMMIT", 2), (r"sql COMMIT", 3)),
    case("between a verdict and its control", (r"sql row control", 1)),
    case(
        "between a row and its settlement", (r"sql row settlement", 1), (r"sql row settlement", 1)
    ),
    case("while a verdict is kept", (r"rename .*/verdicts/", 1)),
    case(
        "while the report is written",
        (r"rename .*/summary\.json", 1),
        (r"rename .*/attempts\.csv", 1),
        (r"rename .*/preds\.1\.jsonl", 1),
    ),
    case(
        "under an agent, and where its files are put in place",
        (r"write .*/tape\.jsonl", 1),
        (r"rename .*/attempts/", 1),
        (r"sql row rollout", 1),
        unbroken=SOLVING,
    ),
)
