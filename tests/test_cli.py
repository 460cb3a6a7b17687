"""The door, as a person uses it: what they get, and what a mistake costs them."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from pipeline import __version__
from pipeline.benchmarks.dataset import EMBEDDED
from pipeline.cli import app
from pipeline.config import load
from pipeline.ledger import Ledger
from tests.command import Passone, Said
from tests.loopback import by_step, completes, refuses, serve
from tests.tries import KEY

ROOT = Path(__file__).parent.parent
ROWS = {
    row["instance_id"]: row
    for row in (
        json.loads(line) for line in EMBEDDED.read_text(encoding="utf-8").split("\n") if line
    )
}
IDS = list(ROWS)
COMMANDS = (
    *("plan", "sample", "doctor", "run", "score", "table", "status", "diagnose", "compare"),
    *("export", "tape", "reconcile", "report", "serve", "bundle", "verify"),
    "demo",
)


def prediction(instance_id: str, patch: str | None, model: str | None = "org/m") -> dict[str, Any]:
    return {"instance_id": instance_id, "model_name_or_path": model, "model_patch": patch}


def file_of(path: str, *entries: dict[str, Any]) -> Path:
    text = "".join(json.dumps(entry) + "\n" for entry in entries)
    Path(path).write_text(text, encoding="utf-8")
    return Path(path)


def verdicts_of(path: str, **runs: dict[str, int]) -> Path:
    Path(path).write_text(json.dumps(runs), encoding="utf-8")
    return Path(path)


def summary_of(run: str) -> dict[str, Any]:
    tree: dict[str, Any] = json.loads(Path("logs", run, "report", "summary.json").read_text())
    return tree


def attempts_of(run: str) -> list[dict[str, str]]:
    text = Path("logs", run, "report", "attempts.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(io.StringIO(text)))


def print_of(root: Path) -> dict[str, str]:
    """Every file below a directory, by content; a ledger by its rows."""
    found = {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.name != "lock" and "ledger.sqlite" not in path.name
    }
    for path in root.rglob("ledger.sqlite"):
        with Ledger(path, read_only=True) as ledger:
            found["rows"] = repr(list(ledger.rows()))
    return found


@pytest.fixture
def finished(passone: Passone) -> Path:
    """A small run that is over, by verdicts that exist."""
    file_of("one.jsonl", *(prediction(id_, "diff") for id_ in IDS[:3]))
    verdicts = verdicts_of("v.json", run1={IDS[0]: 1, IDS[1]: 0, IDS[2]: 1})
    said = passone("score", "one.jsonl", "--dataset", "demo", "--verdicts", verdicts, "--run", "r")
    assert said.status == 0, said.err
    return Path("logs/r")


# The reliability study: 100 instances of Verified, five runs of mini-swe-agent.


def test_the_reliability_study_comes_out_as_it_was_published(
    passone: Passone, shared: Path
) -> None:
    study = shared / "reliability"
    said = passone(
        "score",
        *(study / f"preds.run{number}.json" for number in range(1, 6)),
        *("--dataset", shared / "verified.parquet"),
        *("--verdicts", study / "per_run_results.json"),
        *("--run", "reliability"),
    )
    assert said.status == 0
    summary = summary_of("reliability")
    rows = attempts_of("reliability")
    per_run = Counter(row["attempt"] for row in rows if row["outcome"] == "resolved")
    assert [per_run[str(number)] for number in range(1, 6)] == [79, 75, 77, 76, 72]
    assert summary["pass_at_1"]["all"] == pytest.approx(0.758)
    assert summary["pass_at_1"]["official"] == pytest.approx(0.758)
    assert summary["majority"]["rate"] == pytest.approx(0.760)
    assert (summary["instances"], summary["k"], summary["attempts"]) == (100, 5, 500)
    # The four empty patches are attempts without a submission, and stay in the denominator.
    assert summary["outcomes"]["no_submission"] == 4
    assert sum(summary["outcomes"].values()) == 500
    empty = [row for row in rows if row["outcome"] == "no_submission"]
    assert len(empty) == 4
    assert {row["patch"] for row in empty} == {"no"}
    # Nobody recorded why: the empty ones may have been an outage.
    assert summary["pass_at_1"]["high"] == pytest.approx(0.766)
    assert "exit unknown for 500 of 500" in said.out
    assert "imported, no control" in said.out
    assert "75.8 %" in said.out
    assert "76.0 %" in said.out
    # Further runs are named, and ignored.
    assert "'i1c'" in said.err
    assert "'i1d'" in said.err


def test_the_reliability_study_in_every_estimate(passone: Passone, shared: Path) -> None:
    """Oracle: the study's own figures, to the printed digits."""
    study = shared / "reliability"
    passone(
        "score",
        *(study / f"preds.run{number}.json" for number in range(1, 6)),
        *("--dataset", shared / "verified.parquet"),
        *("--verdicts", study / "per_run_results.json"),
        *("--run", "reliability"),
    )
    said = passone("table", "logs/reliability", "--by", "estimate", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(said.out)))
    first = {row["estimate"]: row["value"] for row in reversed(rows)}
    chances = [first[f"pass{sign}{k}"] for sign in "@^" for k in (2, 3, 4, 5)]
    expected = (0.797, 0.814, 0.828, 0.840, 0.719, 0.697, 0.678, 0.660)
    assert [round(float(chance), 3) for chance in chances] == list(expected)
    assert first["pass@1"] == "0.758"
    assert round(float(first["majority of 3"]), 3) == 0.763
    assert first["majority of 5"] == "0.76"
    errors = {row["method"]: row["error"] for row in rows if row["estimate"] == "pass@1"}
    assert errors["normal, SE over instances"] == "0.03921"
    assert errors["normal, the same instances again"] == "0.00883"
    assert errors["clustered by repository, t(10)"] == "0.04768"


# Bad input: exit status 2, a message with thing, place and remedy, and nothing is lost.

CONFIG: dict[str, Any] = {
    "name": "r",
    "selection": {"dataset": "demo", "strategy": "even", "size": 2},
    "agent": {"name": "miniswe"},
    "model": {"name": "openai/m", "base_url": "http://127.0.0.1:9/v1"},
    "sandbox": {"kind": "local"},
}


def a_config(**changes: Any) -> str:
    tree: dict[str, Any] = json.loads(json.dumps(CONFIG))
    for name, value in changes.items():
        branch = tree
        *parents, leaf = name.split("__")
        for parent in parents:
            branch = branch.setdefault(parent, {})
        branch[leaf] = value
    Path("c.yaml").write_text(yaml.safe_dump(tree), encoding="utf-8")
    return "c.yaml"


def run_of(**changes: Any) -> Callable[[], list[str]]:
    return lambda: ["run", a_config(**changes)]


def score_of(
    *lines: str, name: str = "p.jsonl", more: tuple[str, ...] = ()
) -> Callable[[], list[str]]:
    def make() -> list[str]:
        Path(name).write_text("\n".join(lines) + "\n", encoding="utf-8")
        verdicts_of("none.json", run1={})
        return ["score", name, "--dataset", "demo", "--run", "r", "--verdicts", "none.json", *more]

    return make


ONE = json.dumps(prediction(IDS[0], "diff"))
TWO = json.dumps(prediction(IDS[1], "diff"))
DOCKER_ROW = ROWS[IDS[0]] | {"image": "127.0.0.1:1/nobody/has/this:1"}


def real_rows() -> str:
    """Rows that are not the embedded ones: they need Docker."""
    Path("real.jsonl").write_text(json.dumps(DOCKER_ROW) + "\n", encoding="utf-8")
    return "real.jsonl"


BAD: dict[str, tuple[Callable[[], list[str]], dict[str, str], tuple[str, ...]]] = {
    # name: command line, environment, what the message holds
    "unknown key": (
        run_of(modle={}),
        {},
        ("c.yaml: unknown key 'modle'", "did you mean 'model'?"),
    ),
    "no config": (lambda: ["run", "nowhere.yaml"], {}, ("nowhere.yaml: no such config",)),
    "bad override": (
        lambda: ["run", a_config(), "--set", "attempts"],
        {},
        ("--set 'attempts': expected KEY=VALUE",),
    ),
    "missing key": (run_of(), {}, ("OPENAI_API_KEY is not set or empty; export OPENAI_API_KEY=",)),
    "blank key": (run_of(), {"OPENAI_API_KEY": " \n"}, ("OPENAI_API_KEY is not set or empty",)),
    "placeholder key": (
        run_of(),
        {"OPENAI_API_KEY": "YOUR_API_KEY"},
        ("OPENAI_API_KEY still holds a placeholder", "set it to the bare key"),
    ),
    "quoted key": (run_of(), {"OPENAI_API_KEY": f'"{KEY}"'}, ("is wrapped in quotes",)),
    "key in another variable": (
        run_of(model__key_variable="GATEWAY"),
        {"OPENAI_API_KEY": KEY},
        ("GATEWAY is not set or empty; export GATEWAY=",),
    ),
    "key in the config": (run_of(model__key_variable=KEY), {}, ("is it the key itself?",)),
    "key among the options": (
        run_of(agent__options={"model": {"model_kwargs": {"api_key": KEY}}}),
        {"OPENAI_API_KEY": KEY},
        ("option model.model_kwargs.api_key", "model.key_variable"),
    ),
    "placeholder model": (
        run_of(model__name="openai/YOUR_MODEL_ID"),
        {"OPENAI_API_KEY": KEY},
        ("model.name is 'openai/YOUR_MODEL_ID'", "--set model.name="),
    ),
    "placeholder base URL": (
        run_of(model__base_url="https://…/v1"),
        {"OPENAI_API_KEY": KEY},
        ("model.base_url is", "--set model.base_url="),
    ),
    "unset variable": (
        run_of(model__base_url="${NO_SUCH_VARIABLE}"),
        {"OPENAI_API_KEY": KEY},
        ("model.base_url", "NO_SUCH_VARIABLE is not set; export"),
    ),
    "unknown agent": (
        run_of(agent__name="swe-agent"),
        {},
        ("unknown agent 'swe-agent'; known: sweagent, miniswe, command, gold, oracle, empty",),
    ),
    "no agent": (
        run_of(agent={"name": "sweagent", "options": {"program": "nowhere/sweagent"}}),
        {"OPENAI_API_KEY": KEY},
        ("no SWE-agent 1.x found", "--set agent.options.program="),
    ),
    "unknown instance id": (
        run_of(selection={"dataset": "demo", "strategy": "ids", "ids": ["passone__almanac-21"]}),
        {"OPENAI_API_KEY": KEY},
        ("unknown instance id 'passone__almanac-21'; did you mean 'passone__almanac-",),
    ),
    "unknown repository": (
        run_of(selection__repos=["passone/almanach"]),
        {"OPENAI_API_KEY": KEY},
        ("unknown repository 'passone/almanach'; did you mean 'passone/almanac'?",),
    ),
    "size larger than the dataset": (
        run_of(selection__size=11),
        {"OPENAI_API_KEY": KEY},
        ("size 11 is larger than the 10 instances that match", "ask for fewer"),
    ),
    "no size": (
        run_of(selection__size=None),
        {"OPENAI_API_KEY": KEY},
        ("strategy 'even' needs a size",),
    ),
    "../shared absent": (
        run_of(selection__dataset="../shared/data/verified.parquet"),
        {"OPENAI_API_KEY": KEY},
        ("dataset '../shared/data/verified.parquet': no such file",),
    ),
    "logs directory is a file": (
        lambda: ["run", a_config(agent={"name": "gold"}), "--logs", "c.yaml"],
        {},
        ("c.yaml/r: cannot be written", "choose another place with --logs"),
    ),
    "no Docker": (
        lambda: ["run", a_config(agent={"name": "gold"}, sandbox__kind="docker")],
        {"DOCKER_HOST": "tcp://127.0.0.1:1"},
        ("Docker does not answer at tcp://127.0.0.1:1", "set DOCKER_HOST", "passone demo"),
    ),
    "no Docker for real instances": (
        lambda: [
            "run",
            a_config(
                agent={"name": "gold"},
                selection={"dataset": real_rows(), "strategy": "all"},
                sandbox__kind="auto",
            ),
        ],
        {"DOCKER_HOST": "tcp://127.0.0.1:1"},
        ("Docker does not answer", "start it"),
    ),
    "real instances without Docker": (
        lambda: [
            "run",
            a_config(agent={"name": "gold"}, selection={"dataset": real_rows(), "strategy": "all"}),
        ],
        {},
        ("the local sandbox runs the embedded benchmark only", "start Docker"),
    ),
    "no scripted replies": (
        run_of(model={"name": "x", "replies": "nowhere.yaml"}),
        {},
        ("model.replies names nowhere.yaml, which is not there",),
    ),
    "prediction outside the dataset": (
        score_of(json.dumps(prediction("django__django-1", "x"))),
        {},
        ("for no instance of demo: django__django-1", "name the dataset"),
    ),
    "two predictions for one instance": (
        score_of(ONE, TWO, ONE),
        {},
        (f"p.jsonl, line 3: a second prediction for {IDS[0]}", "k attempts are k files"),
    ),
    "predictions cut in half": (
        score_of(ONE, TWO[:60]),
        {},
        ("p.jsonl, line 2: not JSON", "is it cut off?"),
    ),
    "no predictions": (score_of("", ""), {}, ("p.jsonl: holds no predictions",)),
    "predictions absent": (
        lambda: ["score", "nowhere.json", "--dataset", "demo"],
        {},
        ("nowhere.json: cannot be read",),
    ),
    "verdicts absent": (
        score_of(ONE, more=("--verdicts", "nowhere.json")),
        {},
        ("--verdicts nowhere.json: cannot be read",),
    ),
    "trajectories absent": (
        score_of(ONE, more=("--trajectories", "nowhere")),
        {},
        ("--trajectories nowhere: no such directory",),
    ),
    "a ledger from another plan": (
        score_of(ONE),
        {},
        ("logs/r: holds another experiment", "they differ in", "selection.ids", "--run …"),
    ),
    "a run name that is a path": (
        score_of(ONE, more=("--run", "../r")),
        {},
        ("name: string should match pattern",),
    ),
    "an unknown setting": (
        score_of(ONE, more=("--set", "sandbox.memory=3")),
        {},
        ("unknown key 'sandbox.memory'; did you mean 'sandbox.memory_gb'?",),
    ),
    "an unknown strategy": (
        lambda: ["sample", "--dataset", "demo", "--strategy", "fair", "-o", "m.json"],
        {},
        ("passone sample: strategy: input should be 'even'",),
    ),
    "a sample larger than its dataset": (
        lambda: ["sample", "--dataset", "demo", "--size", "11", "-o", "m.json"],
        {},
        ("size 11 is larger than the 10 instances",),
    ),
    "a sample that cannot be written": (
        lambda: ["sample", "--dataset", "demo", "--size", "1", "-o", f"{a_config()}/m.json"],
        {},
        ("c.yaml/m.json: cannot be written",),
    ),
    "a table of nothing": (lambda: ["table", "logs/nowhere"], {}, ("logs/nowhere",)),
    "a status of nothing": (lambda: ["status", "logs/nowhere"], {}, ("logs/nowhere",)),
    "an unknown format": (
        lambda: ["table", "logs/r", "--format", "xlsx"],
        {},
        ("'xlsx' is not a valid", "known: formats csv, md, latex, html, parquet, json"),
    ),
    "an unknown grouping": (
        lambda: ["table", "logs/r", "--by", "model"],
        {},
        (
            "'model' is not a valid",
            "attempt, instance, repo, outcome, diagnosis, cost, estimate, run",
        ),
    ),
    "an export of nothing": (
        lambda: ["export", "logs/r"],
        {},
        ("say what: --leaderboard DIR, --report-json FILE",),
    ),
    "an export of an attempt that is not there": (
        lambda: ["export", "logs/r", "--report-json", "r.json", "--attempt", "4"],
        {},
        ("--attempt 4", "attempts 1 to 1"),
    ),
    "a table that cannot be written": (
        lambda: ["table", "logs/r", "-o", f"{a_config()}/t.md"],
        {},
        ("c.yaml/t.md: cannot be written",),
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_with_thing_place_and_remedy_and_nothing_is_lost(
    name: str, passone: Passone, finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, environment, fragments = BAD[name]
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    argv = make()
    before, places = print_of(finished), sorted(Path("logs").iterdir())
    said = passone(*argv)
    assert said.status == 2, said.err
    assert said.out == ""
    assert said.err.startswith("error: ")
    for fragment in fragments:
        assert fragment in said.err
    assert "Traceback" not in said.err
    assert KEY not in said.err
    assert print_of(finished) == before
    # Neither is anything begun.
    assert sorted(Path("logs").iterdir()) == places


@pytest.mark.docker
def test_an_image_that_nobody_has_is_refused_before_anything_runs(passone: Passone) -> None:
    config = a_config(
        agent={"name": "gold"},
        selection={"dataset": real_rows(), "strategy": "all"},
        sandbox__kind="docker",
    )
    said = passone("run", config)
    assert said.status == 2
    assert "no image of the 1 instance is here, and none can be pulled" in said.err
    assert "docker load" in said.err
    assert "sandbox.mirrors" in said.err


def test_no_attempt_is_taken_back(passone: Passone, finished: Path) -> None:
    file_of("two.jsonl", *(prediction(id_, "diff") for id_ in IDS[:3]))
    config = a_config(
        name="g", agent={"name": "gold"}, selection={"dataset": "demo", "size": 1}, attempts=2
    )
    assert passone("run", config, "--quiet").status == 0
    before = print_of(Path("logs/g"))
    said = passone("run", config, "--quiet", "--set", "attempts=1")
    assert said.status == 2
    assert "logs/g: has 2 attempts; attempts may grow, never shrink" in said.err
    assert print_of(Path("logs/g")) == before


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("ledger.sqlite", b"this is no database, and long enough to be none" * 50, "ledger"),
        ("plan.json", b"{", "plan.json"),
        ("plan.json", b"[]", "plan.json"),
    ],
)
def test_a_run_whose_files_are_broken_is_refused_by_name(
    name: str, content: bytes, message: str, passone: Passone, finished: Path
) -> None:
    (finished / name).write_bytes(content)
    for suffix in ("-wal", "-shm"):
        (finished / f"{name}{suffix}").unlink(missing_ok=True)
    for argv in (
        ["status", "logs/r"],
        ["table", "logs/r"],
        ["score", "one.jsonl", "--dataset", "demo", "--verdicts", "v.json", "--run", "r"],
    ):
        said = passone(*argv)
        assert said.status == 2, (argv, said.err)
        assert message in said.err
        assert "logs/r" in said.err
    assert (finished / name).read_bytes() == content


@pytest.mark.parametrize(
    "argv",
    [
        ["score", "p.json"],
        ["score", "--dataset", "demo"],
        ["run"],
        ["sample", "--dataset", "demo"],
        ["demo", "--size", "11"],
        ["demo", "--attempts", "0"],
        ["nonsense"],
        ["run", "a.yaml", "--nonsense"],
        ["sample", "--dataset", "demo", "-o", "m", "--size", "many"],
    ],
)
def test_a_command_line_that_says_nothing_is_status_2_with_the_usage(
    argv: list[str], passone: Passone
) -> None:
    said = passone(*argv)
    assert said.status == 2
    assert "Usage" in said.err


# Odd input that is no mistake.


def gold(instance_id: str) -> str:
    return str(ROWS[instance_id]["patch"])


PYC = """diff --git a/almanac/__pycache__/x.cpython-312.pyc b/almanac/__pycache__/x.cpython-312.pyc
new file mode 100644
index 0000000..1111111
Binary files /dev/null and b/almanac/__pycache__/x.cpython-312.pyc differ
"""
BINARY = """diff --git a/logo.png b/logo.png
new file mode 100644
index 0000000000000000000000000000000000000000..4ecea3b8b3b5321347bb6f3156f0953a5660b83a
GIT binary patch
literal 8
PcmWIWb7x>=V*U>R2V(*2

literal 0
HcmV?d00001

"""
ODD = {
    # patch, outcome
    "binary": (gold(IDS[0]) + BINARY, "resolved"),
    "gold": (gold(IDS[0]), "resolved"),
    "CRLF": (gold(IDS[0]).replace("\n", "\r\n"), "resolved"),
    "no final newline": (gold(IDS[0]).rstrip("\n"), "resolved"),
    # `git apply` refuses it; the harness then tries `patch`, which passes over it.
    ".pyc hunk": (gold(IDS[0]) + PYC, "resolved" if shutil.which("patch") else "patch_rejected"),
    "prose": ("I would start by reading recurrence.py.\n", "patch_rejected"),
    "null": (None, "no_submission"),
    "empty": ("", "no_submission"),
    "newline": ("\n", "no_submission"),
}


def test_odd_patches_are_scored_for_what_they_are(passone: Passone) -> None:
    """The official harness files the refused ones under its errors."""
    files = [
        file_of(f"run{number}.jsonl", prediction(IDS[0], patch, model=model))
        for number, ((patch, _), model) in enumerate(
            zip(ODD.values(), ["a/b", None, "", *["m"] * 6], strict=True), 1
        )
    ]
    said = passone(
        *("score", *files, "--dataset", "demo", "--run", "odd"),
        *("--set", "sandbox.kind=local", "--set", "execution.scorer_workers=4"),
    )
    assert said.status == 3, said.err  # a third of them is empty
    outcomes = dict(zip(ODD, (row["outcome"] for row in attempts_of("odd")), strict=True))
    assert outcomes == {name: outcome for name, (_, outcome) in ODD.items()}


def test_a_models_name_in_a_file_of_somebodys_expands_no_variable(
    passone: Passone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    file_of("p.jsonl", prediction(IDS[0], "x", model="org/${OPENAI_API_KEY}"))
    argv = ("score", "p.jsonl", "--dataset", "demo", "--verdicts")
    said = passone(*argv, verdicts_of("v.json", run1={IDS[0]: 1}))
    assert said.status == 0, said.err
    for path in Path("logs").rglob("*"):
        assert path.is_dir() or KEY.encode() not in path.read_bytes(), path
    assert json.loads(Path("logs/scored/plan.json").read_text())["model"] == "org/${OPENAI_API_KEY}"


def test_an_id_that_is_absent_from_one_file_is_missing_there_and_status_3(
    passone: Passone,
) -> None:
    files = [
        file_of("a.run1.jsonl", prediction(IDS[0], "x"), prediction(IDS[1], "x")),
        file_of("a.run2.jsonl", prediction(IDS[0], "x")),
    ]
    verdicts = verdicts_of("v.json", run1={IDS[0]: 1, IDS[1]: 1}, run2={IDS[0]: 0})
    said = passone("score", *files, "--dataset", "demo", "--verdicts", verdicts)
    assert said.status == 3
    summary = summary_of("scored")
    assert summary["outcomes"]["infra"] == 1
    assert summary["causes"] == {"unknown": 1}
    assert summary["pass_at_1"]["all"] == pytest.approx(0.5)
    assert summary["pass_at_1"]["valid"] == pytest.approx(0.75)
    assert summary["pass_at_1"]["high"] == pytest.approx(0.75)
    assert "a.run2.jsonl has no prediction" in said.out


def test_a_patch_without_a_verdict_is_a_fault_of_the_grader(passone: Passone) -> None:
    file_of("p.jsonl", prediction(IDS[0], "x"), prediction(IDS[1], "x"))
    verdicts = verdicts_of("v.json", run1={IDS[0]: 1})
    said = passone("score", "p.jsonl", "--dataset", "demo", "--verdicts", verdicts)
    assert said.status == 3
    assert summary_of("scored")["causes"] == {"grader": 1}


def test_errors_of_the_official_report_are_ambiguous_and_not_infra(passone: Passone) -> None:
    file_of("p.jsonl", *(prediction(id_, "x") for id_ in IDS[:3]))
    report = {
        "resolved_ids": [IDS[0]],
        "unresolved_ids": [],
        "error_ids": [IDS[1], IDS[2]],
        "infra_failure_ids": [IDS[2]],
        "schema_version": 2,
    }
    Path("m.r.json").write_text(json.dumps(report))
    said = passone("score", "p.jsonl", "--dataset", "demo", "--verdicts", "m.r.json")
    assert said.status == 3
    assert summary_of("scored")["blame"] == {"nobody": 1, "model": 0, "ambiguous": 2, "infra": 0}


def test_the_agents_own_files_turn_an_empty_patch_into_the_outage_that_it_was(
    passone: Passone,
) -> None:
    own = Path("own", IDS[0])
    own.mkdir(parents=True)
    sample = ROOT / "tests/data/miniswe/ServiceUnavailableError.traj.json"
    tree = json.loads(sample.read_text()) | {"instance_id": IDS[0]}
    (own / f"{IDS[0]}.traj.json").write_text(json.dumps(tree))
    file_of("p.jsonl", prediction(IDS[0], ""))
    argv = ("score", "p.jsonl", "--dataset", "demo", "--verdicts", verdicts_of("v.json", run1={}))
    assert passone(*argv, "--run", "without").status == 3
    assert summary_of("without")["outcomes"]["no_submission"] == 1
    assert summary_of("without")["pass_at_1"]["high"] == 1
    assert passone(*argv, "--run", "with", "--trajectories", "own").status == 3
    assert summary_of("with")["outcomes"]["infra"] == 1
    assert summary_of("with")["causes"] == {"endpoint": 1}
    # What is recorded does not change: it is read once, and nobody waits for it to recover.
    assert summary_of("with")["tries"] == 1


def test_own_files_that_come_later_make_it_another_experiment(passone: Passone) -> None:
    Path("own").mkdir()
    file_of("p.jsonl", prediction(IDS[0], ""))
    argv = ("score", "p.jsonl", "--dataset", "demo", "--verdicts", verdicts_of("v.json", run1={}))
    assert passone(*argv).status == 3
    said = passone(*argv, "--trajectories", "own")
    assert said.status == 2
    assert "they differ in agent_options.trajectories" in said.err


# Runs.


def test_the_same_command_again_does_nothing_twice(passone: Passone, finished: Path) -> None:
    before = print_of(finished)
    argv = ("score", "one.jsonl", "--dataset", "demo", "--verdicts", "v.json", "--run", "r")
    said = passone(*argv)
    assert said.status == 0
    assert print_of(finished) == before
    assert "3 done before" in said.err


LATIN_1 = r"""
cd {directory} &&
printf 'r\351sum\351\n' > notes.txt && git add notes.txt && git diff --cached > {patch_file} &&
env > {workdir}/environment && cat {prompt_file} > /dev/null
"""


def test_any_command_is_an_agent_its_bytes_are_kept_and_no_key_reaches_it(
    passone: Passone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key may have any name: what the config names, no child inherits."""
    monkeypatch.setenv("MY_GATEWAY", KEY)
    with serve(by_step(completes())) as server:
        config = a_config(
            agent={"name": "command", "options": {"argv": ["/bin/sh", "-c", LATIN_1]}},
            selection={"dataset": "demo", "strategy": "ids", "ids": [IDS[0]]},
            model={"name": "openai/m", "base_url": server.base_url, "key_variable": "MY_GATEWAY"},
        )
        said = passone("run", config)
    assert said.status == 0, said.err
    place = Path(f"logs/r/attempts/{IDS[0]}/1/try-1")
    assert b"+r\xe9sum\xe9" in (place / "patch.diff").read_bytes()
    assert attempts_of("r")[0]["outcome"] == "unresolved"
    environment = (place / "environment").read_text(errors="replace")
    assert "OPENAI_API_KEY=passone-gateway" in environment
    assert "MY_GATEWAY" not in environment
    for path in Path("logs").rglob("*"):
        assert path.is_dir() or KEY.encode() not in path.read_bytes(), path
    assert KEY not in said.out + said.err


def test_an_outage_is_no_zero_and_a_mended_key_takes_it_up_again(
    passone: Passone, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = (
        "curl -fsS -H 'content-type: application/json' -d '{{\"messages\": []}}' "
        "{base_url}/chat/completions > {workdir}/answer && : > {patch_file}"
    )
    good = "sk-good-0123456789"

    def answering(request: Any, number: int) -> Any:
        known = request.headers["authorization"] == f"Bearer {good}"
        return completes() if known else refuses(401, "Incorrect API key")

    with serve(answering) as server:
        config = a_config(
            agent={"name": "command", "options": {"argv": ["/bin/sh", "-c", ask]}},
            selection={"dataset": "demo", "strategy": "ids", "ids": [IDS[0]]},
            model={"name": "openai/m", "base_url": server.base_url},
        )
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        # A look beforehand finds it out before anything starts …
        refused = passone("run", config)
        assert refused.status == 2
        assert "OPENAI_API_KEY" in refused.err
        assert not Path("logs/r/ledger.sqlite").exists()
        # … and without that look, or later on, it is no zero.
        first = passone("run", config, "--no-doctor")
        assert first.status == 3
        assert summary_of("r")["causes"] == {"credentials": 1}
        assert summary_of("r")["pass_at_1"]["valid"] is None
        monkeypatch.setenv("OPENAI_API_KEY", good)
        second = passone("run", config)
    assert second.status == 3  # nothing was submitted
    summary = summary_of("r")
    assert summary["outcomes"]["no_submission"] == 1
    assert (summary["outcomes"]["infra"], summary["tries"]) == (0, 2)
    assert Path(f"logs/r/attempts/{IDS[0]}/1/try-2").is_dir()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Room for a run's beginning, and not for its end."""
    place = tmp_path / "disk"
    place.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", "size=160k", "passone-test", str(place)]
    if os.geteuid() != 0 or subprocess.run(mounting, capture_output=True, check=False).returncode:
        pytest.skip("a small file system cannot be mounted here: that takes root")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_full_disk_loses_nothing(passone: Passone, small_disk: Path) -> None:
    """The same tables come out as on a disk with room, once there is some."""
    files = [
        file_of(f"p.run{number}.jsonl", *(prediction(id_, "x" * 2000) for id_ in IDS))
        for number in range(1, 6)
    ]
    verdicts = verdicts_of(
        "v.json",
        **{f"run{n}": {id_: (n + i) % 2 for i, id_ in enumerate(IDS)} for n in range(1, 6)},
    )
    argv = ("score", *files, "--dataset", "demo", "--verdicts", verdicts, "--run", "full")
    assert passone(*argv).status == 0
    full = passone(*argv, "--logs", small_disk)
    assert full.status in (2, 3), full.err
    assert "No space left" in full.err + full.out or "disk is full" in full.err
    assert "Traceback" not in full.err
    remounting = ["mount", "-o", "remount,size=20m", str(small_disk)]
    subprocess.run(remounting, check=True)
    again = passone(*argv, "--logs", small_disk)
    assert again.status == 0, again.err
    with_room = Path("logs/full/report")
    for name in ("instances.csv", "table.md"):
        assert (small_disk / "full/report" / name).read_bytes() == (with_room / name).read_bytes()


# What is printed, and for whom.


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_two_worked_examples(command: str, passone: Passone) -> None:
    said = passone(command, "--help")
    assert said.status == 0
    assert said.out.count(f"passone {command}") >= 2 + 1
    assert "Examples" in said.out


def test_the_commands_are_those_that_are_promised(passone: Passone) -> None:
    said = passone("--help")
    assert said.status == 0
    registered = {
        command.callback.__name__ for command in app.registered_commands if command.callback
    }
    assert set(COMMANDS) <= registered
    for command in COMMANDS:
        assert command in said.out


def test_the_version_is_printed(passone: Passone) -> None:
    assert passone("--version") == Said(0, f"passone {__version__}\n", "")


@pytest.mark.parametrize("argv", [["--help"], ["run", "--help"], ["nonsense"]])
def test_help_imports_nothing_that_is_slow(argv: list[str]) -> None:
    code = (
        "import sys\n"
        "from pipeline.cli import main\n"
        f"sys.argv = ['passone', *{argv!r}]\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "slow = {'pandas', 'datasets', 'docker', 'swebench', 'httpx', 'uvicorn', 'yaml'}\n"
        "print(sorted(slow & sys.modules.keys()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_reader_who_leaves_early_is_no_error(finished: Path) -> None:
    """`passone table … | head -1`"""
    code = "from pipeline.cli import main; main()"
    argv = [sys.executable, "-c", code, "table", str(finished.resolve()), "--by", "attempt"]
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""


READERS: dict[str, Callable[[bytes], int]] = {
    "csv": lambda content: len(pd.read_csv(io.BytesIO(content))),
    "json": lambda content: len(json.loads(content)),
    "parquet": lambda content: len(pd.read_parquet(io.BytesIO(content))),
    "md": lambda content: content.decode().count("\n") - 2,
    "latex": lambda content: content.decode().count("\\\\\n") - 1,
    "html": lambda content: content.decode().count("<tr><td"),
}


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize(
    ("by", "rows"), [("attempt", 3), ("instance", 3), ("repo", 2), ("cost", 4)]
)
def test_a_table_is_what_its_format_says(
    kind: str, by: str, rows: int, passone: Passone, finished: Path
) -> None:
    said = passone("table", finished, "--format", kind, "--by", by, "-o", "table")
    assert said.status == 0
    assert READERS[kind](Path("table").read_bytes()) == rows
    assert "table" in said.out


def test_a_report_that_was_exported_is_read_back(passone: Passone, finished: Path) -> None:
    said = passone("export", finished, "--report-json", "back.json", "--leaderboard", "a/b/folder")
    assert said.status == 0, said.err
    assert "2 of 3 resolved, 1 unresolved" in said.out
    assert Path("a/b/folder/metadata.yaml").is_file()
    preds = "logs/r/preds.1.jsonl"
    again = passone(
        *("score", preds, "--dataset", "demo", "--verdicts", "back.json", "--run", "back")
    )
    assert again.status == 0, again.err
    found = [[row["outcome"] for row in attempts_of(run)] for run in ("r", "back")]
    assert found[0] == found[1]


def test_status_tells_a_machine_what_the_report_says(passone: Passone, finished: Path) -> None:
    said = passone("status", finished, "--json")
    assert said.status == 0
    assert json.loads(said.out) == summary_of("r")
    people = passone("status", finished)
    assert "2 resolved" in people.out
    assert "66.7 %" in people.out


def test_results_go_to_stdout_and_progress_to_stderr(passone: Passone) -> None:
    config = a_config(agent={"name": "gold"}, selection={"dataset": "demo", "size": 1})
    loud = passone("run", config, "--set", "name=a")
    quiet = passone("run", config, "--set", "name=b", "--quiet")
    assert loud.status == quiet.status == 0
    (instance_id,) = {row["instance"] for row in attempts_of("a")}
    for line in (f"{instance_id} #1 submitted: a patch", f"{instance_id} #1 resolved", "[1/1]"):
        assert line in loud.err
    # What limits the result is said all the same.
    assert [line[:6] for line in quiet.err.splitlines()] == ["note: "]
    assert instance_id in quiet.out
    assert "100.0 %" in quiet.out
    assert "gold 1/1" in quiet.out
    assert "\x1b" not in loud.out + loud.err


# Samples and shipped configs.


def test_a_sample_is_a_manifest_and_the_same_recipe_the_same_bytes(passone: Passone) -> None:
    argv = ("sample", "--dataset", "demo", "--strategy", "even", "--size", "5", "--seed", "3")
    said = passone(*argv, "-o", "a.json")
    passone(*argv, "-o", "b.json")
    assert said.status == 0
    assert "a.json: 5 instances, fingerprint " in said.out
    assert Path("a.json").read_bytes() == Path("b.json").read_bytes()
    manifest = json.loads(Path("a.json").read_text())
    assert next(iter(manifest)) == "ids"
    assert set(manifest) == {"ids", "recipe", "dataset", "revision", "fingerprint"}
    assert len(manifest["ids"]) == 5
    assert manifest["recipe"]["seed"] == 3
    assert passone(*argv, "-o", "-").out == Path("a.json").read_text()


def test_a_manifest_may_be_excluded_and_may_be_drawn_from(passone: Passone) -> None:
    common = ("sample", "--dataset", "demo")
    passone(*common, "--size", "5", "-o", "a.json")
    passone(*common, "--strategy", "all", "--exclude", "a.json", "-o", "b.json")
    passone(*common, "--strategy", "ids", "--id", "a.json", "-o", "c.json")
    first, rest, same = (json.loads(Path(f"{n}.json").read_text())["ids"] for n in "abc")
    assert sorted(first + rest) == sorted(IDS)
    assert same == first


@pytest.mark.parametrize("name", ["demo", "mini-5", "verified-5", "verified-10x3"])
def test_a_shipped_config_is_read_and_its_placeholders_are_refused(
    name: str, passone: Passone, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = ROOT / "configs" / f"{name}.yaml"
    recipe = load(path)
    assert recipe.name == name
    if recipe.model.replies:
        return
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    # The agent is handed in, so that this does not depend on what is installed here.
    said = passone("run", path, "--set", "agent={name: command, options: {argv: [sh]}}")
    assert said.status == 2
    assert "model.name is 'openai/YOUR_MODEL_ID'" in said.err
