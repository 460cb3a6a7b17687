"""The main job from end to end, as a user starts it: real agent, real grader, scripted words."""

from __future__ import annotations

import csv
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pipeline import config
from pipeline.cli import planning
from pipeline.cli.demo import demo_recipe
from pipeline.domain import Cause, Fault
from pipeline.gateway import read_tape
from pipeline.ledger import Kind, Ledger
from pipeline.rundir import RunDir

PASSONE = Path(sys.executable).with_name("passone")
SHAPE = {
    "passone__almanac-27": ("resolved", "submitted", 1),
    "passone__ballast-42": ("resolved", "submitted", 2),
    "passone__cartouche-27": ("unresolved", "submitted", 1),
    "passone__dovetail-35": ("no_submission", "context_limit", 1),
    "passone__ember-24": ("resolved", "submitted", 1),
}


def command(logs: Path, *arguments: str) -> list[str]:
    return [str(PASSONE), "demo", "--sandbox", "local", "--logs", str(logs), *arguments]


def run(logs: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(logs, *arguments), capture_output=True, text=True, check=False)


def rows(run: Path) -> list[dict[str, str]]:
    """attempts.csv without its times."""
    with (run / "report" / "attempts.csv").open(newline="") as file:
        found = list(csv.DictReader(file))
    for row in found:
        del row["seconds"]
    return found


def summary(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "report" / "summary.json").read_text())
    return found


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    logs = tmp_path_factory.mktemp("logs")
    environment = {**os.environ, "PASSONE_CACHE": str(logs / "cache")}
    done = subprocess.run(
        command(logs), capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    (logs / "stdout.txt").write_text(done.stdout)
    return logs / "demo"


def test_the_default_five_reproduce_the_shape_of_a_published_table(finished: Path) -> None:
    found = {r["instance"]: (r["outcome"], r["stop"], int(r["tries"])) for r in rows(finished)}
    assert found == SHAPE
    counts = summary(finished)
    assert counts["pass_at_1"]["all"] == counts["pass_at_1"]["official"] == pytest.approx(0.6)
    assert counts["pass_at_1"]["all_ci95"] == pytest.approx([0.2307, 0.8824], abs=5e-5)
    assert counts["controls"]["gold"] == {"passed": 5, "of": 5}
    assert counts["tries"] == 6
    assert sum(counts["outcomes"].values()) + counts["pending"] == 5


def test_the_table_and_the_headline_are_what_a_person_reads(finished: Path) -> None:
    text = (finished.parent / "stdout.txt").read_text()
    assert re.search(r"instance +repo +patch\? +outcome +tries +steps +tokens +seconds", text)
    assert "5 × 1 · 3 resolved · pass@1 60.0 % over all [23.1–88.2]" in text
    assert "scripted replies: no model was measured" in text


def test_every_artefact_is_where_its_place_is_drawn(finished: Path) -> None:
    attempt = finished / "attempts" / "passone__ballast-42" / "1"
    assert sorted(path.name for path in attempt.iterdir()) == ["try-1", "try-2"]
    assert "endpoint" in (attempt / "try-1" / "fault.txt").read_text()
    names = {path.name for path in (attempt / "try-2").iterdir()}
    assert names >= {"agent.log", "trajectory.traj.json", "steps.jsonl", "patch.diff"}
    assert "tape.jsonl.zst" in names
    scoring = finished / "scoring" / "passone__ballast-42"
    assert {path.name for path in scoring.iterdir()} == {"1", "gold-1"}
    assert (scoring / "1" / "report.json").stat().st_size > 0
    preds = [json.loads(line) for line in (finished / "preds.1.jsonl").read_text().splitlines()]
    assert [bool(line["model_patch"]) for line in preds] == [True, True, True, False, True]
    assert not (finished / ".partial").exists()


def test_temperature_and_top_p_went_over_the_wire_on_every_request(finished: Path) -> None:
    tapes = [read_tape(path) for path in finished.glob("attempts/*/*/*/tape.jsonl.zst")]
    requests = [exchange.request for tape in tapes for exchange in tape.exchanges]
    assert len(requests) >= 49
    assert {(r["temperature"], r["top_p"]) for r in requests} == {(0.0, 1.0)}


def test_a_finished_run_is_not_done_again(finished: Path) -> None:
    before = (finished / "report" / "summary.json").read_bytes()
    with Ledger(finished / "ledger.sqlite", read_only=True) as ledger:
        count = len(list(ledger.rows()))
    # Nothing is left to do, so nothing is needed: no Docker, no agent, no key.
    environment = {**os.environ, "DOCKER_HOST": "unix:///nowhere", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [str(PASSONE), "demo", "--sandbox", "docker", "--logs", str(finished.parent)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    assert "3 resolved" in done.stdout
    with Ledger(finished / "ledger.sqlite", read_only=True) as ledger:
        assert len(list(ledger.rows())) == count
    assert (finished / "report" / "summary.json").read_bytes() == before


def test_another_experiment_in_the_same_directory_is_refused_with_the_keys(finished: Path) -> None:
    other = finished.parent / "other.yaml"
    tree = demo_recipe(size=5, attempts=1, sandbox="local")
    tree["sampling"] = {"temperature": 0.7}
    tree["limits"]["steps"] = 7
    other.write_text(json.dumps(tree))
    done = subprocess.run(
        [str(PASSONE), "run", str(other), "--logs", str(finished.parent)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "limits.steps, sampling.temperature" in done.stderr
    assert len(rows(finished)) == 5


def test_docker_and_local_are_one_experiment() -> None:
    digests = set()
    for sandbox in ("auto", "docker", "local"):
        recipe = config.parse(demo_recipe(size=5, attempts=1, sandbox=sandbox), "test")
        selection, _ = planning.draw(recipe.selection)
        digests.add(planning.make_plan(recipe, selection).digest)
    assert len(digests) == 1


def test_killed_with_9_and_started_again_it_comes_to_the_same_table(
    finished: Path, tmp_path: Path
) -> None:
    rng = random.Random(5)
    kills = 0
    while True:
        process = subprocess.Popen(
            command(tmp_path, "-q"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            status = process.wait(rng.uniform(1, 9) if kills < 5 else None)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
            continue
        break
    assert status == 0
    assert kills >= 2
    assert rows(tmp_path / "demo") == rows(finished)
    first, second = summary(tmp_path / "demo"), summary(finished)
    assert first == second


@pytest.mark.parametrize("presses", [1, 2])
def test_an_interrupt_leaves_a_run_that_continues(presses: int, tmp_path: Path) -> None:
    process = subprocess.Popen(
        command(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    time.sleep(5)
    for _ in range(presses):
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "run the same command again to continue" in err
    assert "partial (" in out
    with Ledger(tmp_path / "demo" / "ledger.sqlite", read_only=True) as ledger:
        values = [row.value for row in ledger.rows() if row.kind is Kind.ROLLOUT]
    # The script's own 503 may have landed; nothing else may look like a fault.
    faults = [value for value in values if isinstance(value, Fault)]
    assert {fault.cause for fault in faults} <= {Cause.ENDPOINT}
    # Once lets the agents that are at work finish; twice does not wait for them.
    assert (len(values) > 0) == (presses == 1)
    assert not (tmp_path / "demo" / ".partial").exists()
    counts = summary(tmp_path / "demo")
    assert counts["pending"] + sum(counts["outcomes"].values()) == 5


@pytest.mark.docker
def test_in_docker_it_comes_to_the_same_table_and_leaves_no_container(
    finished: Path, tmp_path: Path
) -> None:
    done = subprocess.run(
        [str(PASSONE), "demo", "--sandbox", "docker", "--logs", str(tmp_path), "-q"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert rows(tmp_path / "demo") == rows(finished)
    left = subprocess.run(
        ["docker", "ps", "-aq", "--filter", f"label=passone.run={RunDir(tmp_path / 'demo').key}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert left.stdout == ""
