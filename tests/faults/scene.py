"""passone as a user runs it on a fault, and what came of it, read from what it wrote."""

from __future__ import annotations

import contextlib
import csv
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from docker.errors import APIError

from pipeline.rundir import RunDir
from tests.faults.case import REFUSED, STOPPED, Right, Seen, infra
from tests.faults.forks import PASSONE_CODE
from tests.faults.material import Row, daemon
from tests.faults.programs import Done, Hunt, Strike, start

SAID_CHARACTERS = 200
LIMITS = (
    "sandbox.kind=docker",
    "sandbox.memory_gb=0.5",
    "sandbox.pids=256",
    "sandbox.scoring_seconds=60",
    "execution.backoff_seconds=0.2",
)
"""Of every scoring; what a case sets comes after and wins."""

PASSONE = (sys.executable, "-c", PASSONE_CODE)


def run_label(run: Path) -> dict[str, Any] | None:
    """The filter for containers of a run; None: it has not begun."""
    return {"label": f"passone.run={RunDir(run).key}"} if (run / "label").exists() else None


def passone(
    place: Path,
    run: str,
    *arguments: str,
    env: Mapping[str, str] | None = None,
    seconds: float = 180,
    strike: Strike | None = None,
) -> Done:
    """`passone …` in a directory of its own, with its runs below `logs`."""
    root = place / "logs" / run
    with daemon() as client:
        hunt = Hunt(client, lambda: run_label(root))
        return start(
            [*PASSONE, *arguments, "--logs", str(place / "logs")],
            place,
            env=env,
            seconds=seconds,
            strike=(lambda: strike(hunt)) if strike else None,
            over=hunt.over,
        )


def write_inputs(place: Path, pairs: Sequence[tuple[Row, str | None]]) -> tuple[Path, Path]:
    """A dataset and predictions in the official form."""
    rows, preds = place / "dataset.jsonl", place / "preds.jsonl"
    rows.write_text("".join(json.dumps(dict(of)) + "\n" for of, _ in pairs))
    lines = [
        {"instance_id": of["instance_id"], "model_name_or_path": "m", "model_patch": patch}
        for of, patch in pairs
    ]
    preds.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return rows, preds


def score(
    place: Path,
    of: Row,
    patch: str | None,
    *settings: str,
    beside: Sequence[tuple[Row, str | None]] = (),
    strike: Strike | None = None,
    env: Mapping[str, str] | None = None,
    seconds: float = 180,
    invocations: int = 1,
    between: Callable[[], object] = lambda: None,
) -> Seen:
    """What `passone score` makes of one patch.

    Args:
        invocations: how often the same command is run; the first one is struck.
        between: done before each further one.
        settings: `key=value`, after LIMITS.
        beside: further rows and patches of the same run, which are not looked at.
    """
    rows, preds = write_inputs(place, [(of, patch), *beside])
    sets = [part for setting in (*LIMITS, *settings) for part in ("--set", setting)]
    arguments = ["score", str(preds), "--dataset", str(rows), "--run", "fault", *sets]
    run = place / "logs" / "fault"
    try:
        done = passone(place, "fault", *arguments, env=env, seconds=seconds, strike=strike)
        for _ in range(invocations - 1):
            between()
            done = passone(place, "fault", *arguments, env=env, seconds=seconds)
        return read(run, done, str(of["instance_id"]))
    finally:
        remove_containers(run)


def containers_of(run: Path) -> list[str]:
    filters = run_label(run)
    if filters is None:
        return []
    with daemon() as client:
        return [str(c.name) for c in client.containers.list(all=True, filters=filters)]


def remove_containers(run: Path) -> None:
    for name in containers_of(run):
        with daemon() as client, contextlib.suppress(APIError):
            client.api.remove_container(name, force=True, v=True)


def read(run: Path, done: Done, instance_id: str, number: int = 1) -> Seen:
    """What passone wrote and said of one attempt, and what should not be."""
    wrong = [f"container left: {name}" for name in containers_of(run)]
    table = run / "report" / "attempts.csv"
    if not table.exists():
        if done.status != 2:
            wrong.append(f"no table, exit status {done.status}")
        return Seen(answer=REFUSED, said=last(done.err, run), wrong="; ".join(wrong))
    with table.open(newline="") as file:
        records = list(csv.DictReader(file))
    mine = [
        record
        for record in records
        if (record["instance"], record["attempt"]) == (instance_id, str(number))
    ]
    if len(mine) != 1:
        return Seen(answer=Right("lost"), wrong=f"{len(mine)} rows of one attempt")
    wrong += wrong_sums(run, records)
    outcome, blame, cause = (mine[0][name] for name in ("outcome", "blame", "cause"))
    if blame == "ambiguous":
        wrong.append("its blame was not settled")
    summary = json.loads((run / "report" / "summary.json").read_text())
    is_open = any(record["blame"] in ("infra", "ambiguous", "") for record in records)
    is_open = is_open or bool(summary["doubts"])
    if done.status not in ((3, 130) if is_open else (0,)):
        wrong.append(f"exit status {done.status}")
    return Seen(
        answer=infra(cause) if outcome == "infra" else Right(outcome) if outcome else STOPPED,
        said=said(done, run, instance_id),
        wrong="; ".join(wrong),
    )


def wrong_sums(run: Path, records: Sequence[Mapping[str, str]]) -> list[str]:
    """Whether every attempt that was asked for is counted, once."""
    plan = json.loads((run / "plan.json").read_text())
    summary = json.loads((run / "report" / "summary.json").read_text())
    asked = len(plan["selection"]["ids"]) * plan["attempts"]
    counted = sum(summary["outcomes"].values()) + summary["pending"]
    ok = asked == counted == len(records)
    return [] if ok else [f"{asked} attempts, {counted} counted, {len(records)} rows"]


def said(done: Done, run: Path, instance_id: str) -> str:
    """What a person was told about this attempt: the loss, else the last fault, else nothing."""
    lines = [line for line in done.out.splitlines() if line.startswith("lost")]
    lines = lines or [line for line in done.err.splitlines() if " fault: " in line]
    mine = [line for line in lines if instance_id in line]
    return shorten(mine[-1], run) if mine else ""


def last(text: str, run: Path) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return shorten(lines[-1], run) if lines else ""


def shorten(text: str, run: Path) -> str:
    """On one line, and with nothing in it that is another one each time."""
    line = " ".join(text.split()).replace(str(run.parent.parent), "…")
    return line if len(line) <= SAID_CHARACTERS else line[: SAID_CHARACTERS - 1] + "…"
