"""What a person sees of trust: controls before and after a run, the other reading, evidence."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from pipeline.benchmarks.dataset import EMBEDDED
from pipeline.benchmarks.reported import LISTS, reported
from pipeline.cli import main
from pipeline.ledger import Kind, Ledger

ROWS = [json.loads(line) for line in EMBEDDED.read_text(encoding="utf-8").split("\n") if line]
WHOLE, BROKEN = "passone__almanac-12", "passone__almanac-27"
Passone = Callable[..., tuple[int, str, str]]


@pytest.fixture
def passone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Passone:
    """The command in this process, in an empty directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")

    def call(*argv: str | Path) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["passone", *map(str, argv)])
        capsys.readouterr()
        try:
            main()
            status: Any = 0
        except SystemExit as leaving:
            status = leaving.code
        out, err = capsys.readouterr()
        return int(status or 0), out, err

    return call


def write(name: str, **changes: str) -> Path:
    """Two instances, one of which has a changed row."""
    rows = [row | (changes if row["instance_id"] == BROKEN else {}) for row in ROWS]
    chosen = [row for row in rows if row["instance_id"] in (WHOLE, BROKEN)]
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in chosen), encoding="utf-8")
    return Path(name)


def without_runner() -> str:
    """An evaluation script that calls a test runner which is not there."""
    script = next(str(row["eval_script"]) for row in ROWS if row["instance_id"] == BROKEN)
    assert "python3 -m" in script or "python -m" in script
    return script.replace("python3 -m", "python-of-another-age -m").replace(
        "python -m", "python-of-another-age -m"
    )


def gold(name: str) -> Path:
    """Predictions that are gold, for both."""
    lines = [
        {
            "instance_id": row["instance_id"],
            "model_name_or_path": "gold",
            "model_patch": row["patch"],
        }
        for row in ROWS
        if row["instance_id"] in (WHOLE, BROKEN)
    ]
    Path(name).write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return Path(name)


def attempts_of(text: str) -> dict[str, dict[str, str]]:
    return {row["instance"]: row for row in csv.DictReader(io.StringIO(text))}


def config(dataset: Path, **execution: Any) -> Path:
    tree = {
        "name": "ahead",
        "selection": {"dataset": str(dataset), "strategy": "all"},
        "agent": {"name": "miniswe"},
        "model": {"name": "openai/YOUR_MODEL_ID", "base_url": "https://host/v1"},
        "sandbox": {"kind": "local"},
        "execution": execution,
    }
    Path("c.yaml").write_text(yaml.safe_dump(tree), encoding="utf-8")
    return Path("c.yaml")


def contents(run: Path) -> dict[Path, bytes]:
    """Every file but the two by which SQLite's readers and writers meet."""
    files = (path for path in run.rglob("*") if path.is_file())
    return {path: path.read_bytes() for path in files if not path.name.endswith(("-shm", "-wal"))}


# A broken place


@pytest.fixture
def scored(passone: Passone) -> tuple[int, str]:
    """Gold, scored where one of two instances has no test runner."""
    dataset = write("rows.jsonl", eval_script=without_runner())
    status, out, _ = passone(
        *("score", gold("p.jsonl"), "--dataset", dataset, "--run", "r"),
        *("--set", "sandbox.kind=local"),
    )
    return status, out


def test_a_broken_place_moves_its_outcome_and_no_single_score_is_printed(
    passone: Passone, scored: tuple[int, str]
) -> None:
    status, out = scored
    assert status == 3
    assert "pass@1 between 50.0 and 100.0 %, no single score: 1 of 2 attempts (50.0 %)" in out
    assert f"{BROKEN} #1: broken: gold resolves 0 of 3 times here" in out
    rows = attempts_of(passone("table", "logs/r", "--by", "attempt", "--format", "csv")[1])
    assert (rows[WHOLE]["outcome"], rows[WHOLE]["trust"]) == ("resolved", "trusted")
    assert (rows[BROKEN]["outcome"], rows[BROKEN]["trust"]) == ("infra", "broken")
    assert (rows[BROKEN]["cause"], rows[BROKEN]["official"]) == ("instance", "0")


def test_the_other_reading_lets_the_official_findings_stand(
    passone: Passone, scored: tuple[int, str]
) -> None:
    argv = ("table", "logs/r", "--by", "attempt", "--format", "csv", "--include-untrusted")
    rows = attempts_of(passone(*argv)[1])
    assert rows[WHOLE]["outcome"] == "resolved"
    assert (rows[BROKEN]["outcome"], rows[BROKEN]["blame"]) == ("tests_did_not_run", "model")
    assert rows[BROKEN]["trust"] == "broken"
    assert json.loads(Path("logs/r/report/summary.json").read_text())["outcomes"]["infra"] == 1


def test_the_evidence_of_a_moved_outcome_names_every_scoring_and_its_logs(
    passone: Passone, scored: tuple[int, str]
) -> None:
    status, out, _ = passone("status", "logs/r", "--evidence")
    assert status == 0
    said = out[out.index("1 outcome moved") :]
    assert f"{BROKEN} #1: tests_did_not_run → infra (instance), its place is broken" in said
    for label in ("gold-1", "gold-1.2", "gold-1.3", "empty-1", "1"):
        place = f"scoring/{BROKEN}/{label}"
        assert place in said
        assert Path("logs/r", place, "test_output.txt").is_file()
    assert WHOLE not in said


def test_nothing_is_kept_of_a_broken_place(passone: Passone, scored: tuple[int, str]) -> None:
    status, _, err = passone(
        *("score", "p.jsonl", "--dataset", "rows.jsonl", "--run", "again"),
        *("--set", "sandbox.kind=local", "--set", "trust.rescore_share=0"),
    )
    assert status == 3
    assert f"{WHOLE} #1 resolved (fail to pass 3/3, pass to pass 12/12), same patch as r" in err
    assert f"{BROKEN} #1 resolved" not in err
    assert f"{BROKEN} gold resolves 0 of 3 times" in err


# passone controls


def test_controls_of_a_config_need_no_model_and_are_found_by_its_run(passone: Passone) -> None:
    path = config(write("rows.jsonl"), scorer_workers=1)
    status, out, err = passone("controls", path)
    assert status == 0
    assert "2 of 2 instances trusted" in out
    assert f"{WHOLE} gold resolved" in err
    assert not Path("logs/ahead").exists()
    again = passone("controls", path, "--json", "--quiet")
    assert [(r["gold"], r["empty"], r["trust"]) for r in json.loads(again[1])] == [
        ("1/1", "–", "trusted")
    ] * 2
    # A run in this place finds them kept: nobody scores gold again.
    _, _, err = passone(
        *("score", gold("p.jsonl"), "--dataset", "rows.jsonl", "--set", "sandbox.kind=local")
    )
    assert err.count("kept from an earlier scoring") == 2


def test_controls_that_find_a_broken_place_say_so_and_end_with_3(passone: Passone) -> None:
    path = config(write("rows.jsonl", eval_script=without_runner()))
    status, out, _ = passone("controls", path)
    assert status == 3
    assert "1 of 2 instances trusted" in out
    (line,) = (line for line in out.splitlines() if line.startswith(BROKEN))
    assert line.split()[:4] == [BROKEN, "0/3", "0/1", "broken"]


def test_controls_of_one_instance_as_often_as_is_asked(passone: Passone) -> None:
    path = config(write("rows.jsonl"))
    argv = ("controls", path, "--instance", WHOLE, "--repeat", "4", "--json", "--quiet")
    (record,) = json.loads(passone(*argv)[1])
    assert (record["instance"], record["gold"], record["empty"]) == (WHOLE, "4/4", "0/1")


def test_controls_of_a_run_settle_it_anew(passone: Passone) -> None:
    write("rows.jsonl")
    passone(
        *("score", gold("p.jsonl"), "--dataset", "rows.jsonl", "--run", "r"),
        *("--set", "sandbox.kind=local"),
    )
    with Ledger(Path("logs/r/ledger.sqlite")) as ledger:
        before = len(list(ledger.rows()))
    status, out, _ = passone("controls", "logs/r", "--instance", BROKEN, "--repeat", "2")
    assert (status, "1 of 1 instance trusted" in out) == (0, True)
    with Ledger(Path("logs/r/ledger.sqlite")) as ledger:
        rows = list(ledger.rows())
        assert [row.kind for row in rows[before:]] == [Kind.CONTROL]
    assert Path("logs/r/scoring", BROKEN, "gold-2.2", "test_output.txt").is_file()


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("controls", "c.yaml", "--instance", "nobody"), "is not in this selection"),
        (("controls", "nowhere.yaml"), "no such config"),
        (("controls", "."), "no run is there"),
        (("controls", "logs/r", "--set", "sandbox.memory_gb=1"), "cannot vary"),
        (("controls", "logs/imported"), "its verdicts were imported"),
        (("regrade", "logs/imported"), "its verdicts were imported"),
        (("regrade", "nowhere"), "no run is there"),
        (("regrade", "c.yaml"), "no run is there"),
    ],
)
def test_what_cannot_be_looked_at_is_refused(
    passone: Passone, argv: tuple[str, ...], said: str
) -> None:
    config(write("rows.jsonl"))
    predictions = gold("p.jsonl")
    Path("v.json").write_text(json.dumps({"run1": {WHOLE: 1, BROKEN: 0}}))
    score = ("score", predictions, "--dataset", "rows.jsonl")
    passone(*score, "--run", "imported", "--verdicts", "v.json")
    passone(*score, "--run", "r", "--set", "sandbox.kind=local")
    status, _, err = passone(*argv)
    assert status == 2
    assert said in err


# passone regrade


def test_regrade_reads_saved_logs_and_touches_nothing(passone: Passone) -> None:
    passone(
        *("score", gold("p.jsonl"), "--dataset", write("rows.jsonl"), "--run", "r"),
        *("--set", "sandbox.kind=local"),
    )
    before = contents(Path("logs/r"))
    status, out, _ = passone("regrade", "logs/r")
    assert status == 0
    assert out.startswith("2 logs read again under swebench ")
    assert "0 verdicts moved" in out
    assert contents(Path("logs/r")) == before


def test_regrade_lists_what_moved_and_what_has_no_log(passone: Passone) -> None:
    passone(
        *("score", gold("p.jsonl"), "--dataset", write("rows.jsonl"), "--run", "r"),
        *("--set", "sandbox.kind=local"),
    )
    log = Path("logs/r/scoring", WHOLE, "1", "test_output.txt")
    log.write_text(log.read_text().replace(" ok", " FAIL").replace("PASSED", "FAILED"))
    Path("logs/r/scoring", BROKEN, "1", "test_output.txt").unlink()
    status, out, _ = passone("regrade", "logs/r")
    assert status == 3
    assert f"moved {WHOLE} #1: resolved, fail to pass 3/3" in out
    assert "→ unresolved, fail to pass 0/3" in out
    assert "1 log read again" in out
    assert out.endswith("; 1 without a log to read\n")
    told = json.loads(passone("regrade", "logs/r", "--json")[1])
    assert (told["read"], [item["name"] for item in told["moved"]]) == (1, [f"{WHOLE} #1"])


def test_a_run_whose_dataset_has_changed_is_not_regraded(passone: Passone) -> None:
    passone(
        *("score", gold("p.jsonl"), "--dataset", write("rows.jsonl"), "--run", "r"),
        *("--set", "sandbox.kind=local"),
    )
    write("rows.jsonl", eval_script=without_runner())
    status, _, err = passone("regrade", "logs/r")
    assert status == 2
    assert "another fingerprint" in err


def test_rescore_grades_a_finished_run_again(passone: Passone) -> None:
    argv = ("score", gold("p.jsonl"), "--dataset", write("rows.jsonl"), "--run", "r")
    place = ("--set", "sandbox.kind=local")
    passone(*argv, *place)
    status, _, err = passone(*argv, *place, "--rescore")
    assert status == 0
    assert err.count("#1 resolved (fail to pass") == 2
    assert "same patch" not in err


# What others have reported


def test_every_reported_instance_is_one_of_verified(shared: Path) -> None:
    known = set(pd.read_parquet(shared / "verified.parquet")["instance_id"])
    listed = [id_ for ids in LISTS.values() for id_ in ids]
    assert set(listed) <= known
    assert len(listed) == len(set(listed))


def test_a_run_with_a_reported_instance_warns_and_lets_its_own_gold_decide(
    passone: Passone,
) -> None:
    row = next(row for row in ROWS if row["instance_id"] == WHOLE)
    row = row | {"instance_id": "psf__requests-1724"}
    Path("rows.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    line = {"instance_id": row["instance_id"], "model_name_or_path": "m", "model_patch": "x"}
    Path("p.jsonl").write_text(json.dumps(line | {"model_patch": row["patch"]}) + "\n")
    status, out, err = passone(
        *("score", "p.jsonl", "--dataset", "rows.jsonl", "--set", "sandbox.kind=local")
    )
    assert status == 0
    assert "note: 1 of these instances is reported as broken or flaky (psf__requests-1724: " in err
    assert "comes and goes, sb-cli#15" in err
    assert "1 resolved" in out


def test_a_reported_instance_is_named_with_its_source_and_any_other_is_not() -> None:
    assert reported(["psf__requests-1724", "django__django-11099"]) == {
        "psf__requests-1724": "comes and goes, sb-cli#15"
    }
