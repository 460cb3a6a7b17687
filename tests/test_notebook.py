"""The notebook runs from top to bottom on a run that was just made, and draws what it promises."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from pipeline.benchmarks.dataset import load
from pipeline.cli import app

ROOT = Path(__file__).parent.parent
NOTEBOOK = ROOT / "notebooks/01_five_instances.ipynb"
STRICT = """
import warnings
for category in (DeprecationWarning, FutureWarning, RuntimeWarning, UserWarning):
    warnings.simplefilter("error", category)
"""
CALM = "warnings.resetwarnings()"
"""The kernel's own warnings at its end are not the notebook's."""


def predict(path: Path, verdicts: dict[str, str]) -> None:
    """Predictions of one attempt, and a swebench report beside them."""
    patches = {id_: "" if verdict == "empty" else "a patch" for id_, verdict in verdicts.items()}
    lines = [
        {"instance_id": id_, "model_name_or_path": "somebody", "model_patch": patch}
        for id_, patch in patches.items()
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    groups = ("resolved_ids", "unresolved_ids", "error_ids")
    report = {
        group: [id_ for id_, verdict in verdicts.items() if f"{verdict}_ids" == group]
        for group in groups
    }
    path.with_suffix(".report.json").write_text(json.dumps(report), encoding="utf-8")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two attempts at five embedded instances with imported verdicts: every blame occurs."""
    a, b, c, d, e = [item.id for item in load("demo").instances[:5]]
    first, second = tmp_path / "run1.jsonl", tmp_path / "run2.jsonl"
    predict(first, {a: "resolved", b: "resolved", c: "unresolved", d: "empty", e: "error"})
    # e is absent here: agents leave out what broke.
    predict(second, {a: "resolved", b: "unresolved", c: "unresolved", d: "empty"})
    reports = [str(path.with_suffix(".report.json")) for path in (first, second)]
    arguments = ["score", str(first), str(second), "--dataset", "demo", "--run", "small"]
    for report in reports:
        arguments += ["--verdicts", report]
    with pytest.raises(SystemExit) as ended:
        app([*arguments, "--logs", str(tmp_path / "logs"), "--quiet"])
    assert ended.value.code == 3  # done, but one attempt is infra and one ambiguous
    return tmp_path / "logs" / "small"


def read_notebook() -> Any:
    return nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]


def cell_of(source: str) -> Any:
    return nbformat.v4.new_code_cell(source)  # type: ignore[no-untyped-call]


def test_the_notebook_is_committed_without_outputs() -> None:
    code = [cell for cell in read_notebook().cells if cell.cell_type == "code"]
    assert code
    assert all(not cell.outputs and cell.execution_count is None for cell in code)


def test_the_notebook_reads_a_finished_run(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PASSONE_RUN", str(run))
    # Whatever Jupyter and matplotlib keep, they keep here.
    for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR", "MPLCONFIGDIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    notebook = read_notebook()
    notebook.cells.insert(0, cell_of(STRICT))
    notebook.cells.append(cell_of(CALM))
    where = {"metadata": {"path": str(ROOT)}}
    NotebookClient(notebook, timeout=60, kernel_name="python3", resources=where).execute()

    data = [
        output.data
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if "data" in output
    ]
    assert sum("image/png" in item for item in data) == 3
    [headline] = [item["text/markdown"] for item in data if "text/markdown" in item]
    assert "5 × 2 · 3 resolved" in headline
    assert "1 ambiguous · 1 infra (1 unknown)" in headline
    assert "imported, no control" in headline
    [frame] = [item["text/html"] for item in data if "text/html" in item]
    for outcome in ("resolved", "unresolved", "no_submission", "tests_did_not_run", "infra"):
        assert f"<td>{outcome}</td>" in frame
