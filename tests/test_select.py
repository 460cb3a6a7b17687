"""`passone select`: chosen patches, what they are worth, and nothing moved by it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command import Passone
from tests.test_cli import IDS, ROWS, file_of, prediction, print_of, verdicts_of

GOLD = {id_: str(row["patch"]) for id_, row in ROWS.items()}
ONE, TWO, THREE = IDS[:3]


def broken(patch: str) -> str:
    """The same patch with a line more, which ends every import."""
    lines = patch.split("\n")
    at = next(number for number, line in enumerate(lines) if line.startswith("@@"))
    old, new = lines[at].split(" ")[1:3]
    first, count = new.split(",")
    lines[at] = f"@@ {old} {first},{int(count) + 1} @@"
    added = next(n for n, line in enumerate(lines) if n > at and line.startswith("+"))
    lines.insert(added, "+raise SystemExit(3)")
    return "\n".join(lines)


def test_a_patch_that_breaks_what_everybody_can_see_is_not_chosen(passone: Passone) -> None:
    bad, good = broken(GOLD[ONE]), GOLD[ONE]
    files = [
        file_of(f"{number}.jsonl", prediction(ONE, one), prediction(TWO, GOLD[TWO]))
        for number, one in enumerate((bad, bad, good), 1)
    ]
    said = passone(
        *("score", *files, "--dataset", "demo", "--run", "r", "--set", "sandbox.kind=local")
    )
    assert said.status == 0, said.err
    before = print_of(Path("logs/r"))
    said = passone("select", "logs/r", "-o", "chosen.jsonl")
    assert said.status == 0, said.err
    rows = {line.split()[0]: line.split() for line in said.out.splitlines() if line}
    assert rows[ONE][1:5] == ["#3", "1", "of", "3"]
    assert rows[ONE][-1] == "resolved"
    assert rows[TWO][1:5] == ["#1", "3", "of", "3"]
    assert "chosen 100.0 %" in said.out
    assert "pass@1 66.7 % (+33.3 points) · pass@3 100.0 % (+0.0 points)" in said.out
    chosen = [json.loads(line) for line in Path("chosen.jsonl").read_text().splitlines()]
    assert {line["instance_id"]: line["model_patch"] for line in chosen} == {
        ONE: good,
        TWO: GOLD[TWO],
    }
    tree = json.loads(Path("logs/r/report/select.json").read_text())
    assert tree["instances"][ONE]["broken"] == 0
    assert tree["instances"][ONE]["tests"] > 0
    # Only what is its own has been added.
    after = print_of(Path("logs/r"))
    assert {path for path in after if before.get(path) != after[path]} == {
        path for path in after if path.startswith("select/") or path == "report/select.json"
    }
    # The hidden tests are nowhere in it.
    scripts = Path("logs/r/select", ONE).rglob("test_output.txt")
    hidden = json.loads(str(ROWS[ONE]["FAIL_TO_PASS"]))[0].split()[0]
    assert all(hidden not in path.read_text() for path in scripts)
    # Once more nothing runs, and the texts alone would have gone with the majority.
    again = passone("select", "logs/r")
    assert again.out == said.out
    alone = passone("select", "logs/r", "--text-only")
    assert "#1" in next(line for line in alone.out.splitlines() if line.startswith(ONE))


def test_a_run_of_imported_verdicts_has_texts_alone(passone: Passone) -> None:
    files = [
        file_of(f"{n}.jsonl", prediction(ONE, patch), prediction(TWO, None))
        for n, patch in enumerate(("x", "y", "y"), 1)
    ]
    runs = {f"run{n}": {ONE: int(n == 1), TWO: 0} for n in (1, 2, 3)}
    verdicts = verdicts_of("v.json", **runs)
    passone("score", *files, "--dataset", "demo", "--verdicts", verdicts, "--run", "r")
    refused = passone("select", "logs/r")
    assert refused.status == 2
    assert "take --text-only" in refused.err
    said = passone("select", "logs/r", "--text-only", "--json")
    tree = json.loads(said.out)
    assert (tree["instances"][ONE]["attempt"], tree["instances"][TWO]["attempt"]) == (2, None)
    assert tree["worth"]["harmed"] == 1
    written = passone("select", "logs/r", "--text-only", "-o", "logs")
    assert written.status == 2
    assert "cannot be written" in written.err


def test_five_real_runs(passone: Passone, shared: Path) -> None:
    study = shared / "reliability"
    passone(
        *("score", *(study / f"preds.run{number}.json" for number in range(1, 6))),
        *("--dataset", shared / "verified.parquet", "--run", "r"),
        *("--verdicts", study / "per_run_results.json"),
    )
    said = passone("select", "logs/r", "--text-only")
    assert "chosen 77.0 % [67.8–84.2] of 100 instances · pass@1 75.8 % (+1.2 points)" in said.out
    assert "pass@5 84.0 % (−7.0 points)" in said.out


@pytest.mark.parametrize("run", ["nowhere", "."])
def test_what_is_no_run_is_refused(run: str, passone: Passone) -> None:
    said = passone("select", run)
    assert said.status == 2
    assert said.err.startswith("error: ")
