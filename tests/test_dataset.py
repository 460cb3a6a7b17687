"""Rows of SWE-bench Verified, from wherever they come, or a refusal that says what to do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import datasets
import pandas as pd
import pytest

from pipeline.benchmarks.dataset import EMBEDDED, NEEDED, Dataset, canonical, load, to_instances
from pipeline.outcomes import UserError
from pipeline.sampler import fingerprint

ROWS: list[dict[str, Any]] = [
    json.loads(line) for line in EMBEDDED.read_text(encoding="utf-8").split("\n") if line
]


def rows_in_lists() -> list[dict[str, Any]]:
    """The same rows, with test lists as lists and not as JSON text."""
    return [
        row | {name: json.loads(row[name]) for name in ("FAIL_TO_PASS", "PASS_TO_PASS")}
        for row in ROWS
    ]


def to_json(path: Path) -> str:
    path.with_suffix(".json").write_text(json.dumps(ROWS), encoding="utf-8")
    return str(path.with_suffix(".json"))


def to_jsonl(path: Path) -> str:
    text = "\n\n".join(json.dumps(row, ensure_ascii=False) for row in ROWS)
    path.with_suffix(".jsonl").write_text(f"\n{text}\n\n", encoding="utf-8")
    return str(path.with_suffix(".jsonl"))


def to_jsonl_of_lists(path: Path) -> str:
    text = "".join(json.dumps(row) + "\n" for row in rows_in_lists())
    path.with_suffix(".jsonl").write_text(text, encoding="utf-8")
    return str(path.with_suffix(".jsonl"))


def to_parquet(path: Path) -> str:
    pd.DataFrame(ROWS).to_parquet(path.with_suffix(".parquet"))
    return str(path.with_suffix(".parquet"))


def to_parquet_of_lists(path: Path) -> str:
    pd.DataFrame(rows_in_lists()).to_parquet(path.with_suffix(".parquet"))
    return str(path.with_suffix(".parquet"))


def to_directory(path: Path) -> str:
    path.mkdir()
    pd.DataFrame(ROWS).to_parquet(path / "test.parquet")
    return str(path)


def to_hub_layout(path: Path) -> str:
    (path / "data").mkdir(parents=True)
    pd.DataFrame(ROWS).to_parquet(path / "data" / "test-00000-of-00001.parquet")
    return str(path)


def to_saved_dataset(path: Path) -> str:
    datasets.Dataset.from_list(ROWS).save_to_disk(str(path))
    return str(path)


def to_saved_dict(path: Path) -> str:
    both = datasets.DatasetDict(
        test=datasets.Dataset.from_list(ROWS), dev=datasets.Dataset.from_list(ROWS[:1])
    )
    both.save_to_disk(str(path))
    return str(path)


FORMS = [
    to_json,
    to_jsonl,
    to_jsonl_of_lists,
    to_parquet,
    to_parquet_of_lists,
    to_directory,
    to_hub_layout,
    to_saved_dataset,
    to_saved_dict,
]


def mark(dataset: Dataset) -> str:
    return fingerprint(canonical(instance) for instance in dataset.instances)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_the_same_rows_are_the_same_whatever_holds_them(form: Any, tmp_path: Path) -> None:
    loaded = load(form(tmp_path / "rows"))
    embedded = load("demo")
    assert [item.id for item in loaded.instances] == [row["instance_id"] for row in ROWS]
    assert list(loaded.instances) == list(embedded.instances)
    assert mark(loaded) == mark(embedded)
    # The published row is kept: the official grader sees it and nothing else.
    assert loaded.instances[0].row["eval_script"] == ROWS[0]["eval_script"]


def test_loading_leaves_nothing_behind(tmp_path: Path) -> None:
    place = to_directory(tmp_path / "rows")
    before = sorted(tmp_path.rglob("*"))
    load(place)
    assert sorted(tmp_path.rglob("*")) == before


def test_another_split_is_another_set(tmp_path: Path) -> None:
    place = to_saved_dict(tmp_path / "rows")
    assert len(load(place, "dev").instances) == 1
    with pytest.raises(UserError, match=r"\(split 'nowhere'\): cannot be read"):
        load(place, "nowhere")


def test_the_embedded_benchmark_has_ten_instances_of_five_repositories() -> None:
    dataset = load("demo")
    assert set(Counter(item.stratum for item in dataset.instances).values()) == {2}
    assert len(dataset.instances) == 10
    assert dataset.gold(dataset.instances[0]).diff == ROWS[0]["patch"]


def test_the_published_rows_are_read_in_full(shared: Path) -> None:
    dataset = load(str(shared / "verified.parquet"))
    counts = Counter(item.stratum for item in dataset.instances)
    assert len(dataset.instances) == 500
    assert counts["django/django"] == 231
    assert counts["pallets/flask"] == 1
    assert Counter(item.difficulty for item in dataset.instances) == {
        "<15 min fix": 194,
        "15 min - 1 hour": 261,
        "1-4 hours": 42,
        ">4 hours": 3,
    }
    # Eleven instances have no PASS_TO_PASS.
    lists = [canonical(item) for item in dataset.instances]
    assert sum(not row["PASS_TO_PASS"] for row in lists) == 11
    assert all(row["FAIL_TO_PASS"] for row in lists)


def test_rows_of_the_older_form_are_refused_with_what_is_missing_and_where_the_newer_is(
    shared: Path,
) -> None:
    with pytest.raises(UserError) as caught:
        load(str(shared / "verified-legacy-20.parquet"))
    said = str(caught.value)
    assert "image, eval_script, log_parser" in said
    assert "SWE-bench/SWE-bench_Verified" in said
    assert "verified-legacy-20.parquet" in said


def test_a_line_separator_within_a_text_ends_no_row(tmp_path: Path) -> None:
    row = ROWS[0] | {"problem_statement": "before\u2028after\x85end\x0b"}
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row, ensure_ascii=False) + "\n", encoding="utf-8")
    assert load(str(path)).instances[0].prompt == "before\u2028after\x85end\x0b"


@pytest.mark.parametrize("column", NEEDED)
@pytest.mark.parametrize("how", ["absent", "null"])
def test_a_row_without_a_needed_column_is_refused_by_name(column: str, how: str) -> None:
    row = {name: value for name, value in ROWS[1].items() if name != column or how == "null"}
    if how == "null":
        row[column] = None
    with pytest.raises(UserError) as caught:
        to_instances([ROWS[0], row], "mine")
    assert f"no {column}" in str(caught.value)
    assert "'mine', row 2" in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"instance_id": "a b"}, "row 1: strange id 'a b'"),
        ({"instance_id": "../../etc/passwd"}, "strange id"),
        ({"instance_id": ""}, "strange id ''"),
        ({"instance_id": "-rf"}, "strange id '-rf'"),
        ({"FAIL_TO_PASS": "test_a, test_b"}, "passone__almanac-12: test lists"),
        ({"FAIL_TO_PASS": '["test_a"'}, "test lists"),
        ({"PASS_TO_PASS": 3}, "test lists"),
    ],
)
def test_a_strange_row_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as caught:
        to_instances([ROWS[0] | change], "mine")
    assert message in str(caught.value)
    assert "'mine'" in str(caught.value)


@pytest.mark.parametrize("text", ['{"a": 1}', '"a, b"', "3", "null"])
def test_a_test_list_that_is_json_but_no_list_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="test lists"):
        to_instances([ROWS[0] | {"FAIL_TO_PASS": text}], "mine")


def test_an_id_that_stands_there_twice_is_refused() -> None:
    with pytest.raises(UserError, match=f"'mine': {ROWS[0]['instance_id']} stands there twice"):
        to_instances([ROWS[0], ROWS[1], ROWS[0]], "mine")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.json", b"", "not json"),
        ("x.json", b'[{"instance_id": "a"', "not json"),
        ("x.jsonl", json.dumps(ROWS[0]).encode()[:200], "not jsonl"),
        ("x.json", b"{}", "expected a list of rows"),
        ("x.json", b"[1]", "expected a list of rows"),
        ("x.jsonl", b"[1]\n", "expected a list of rows"),
        ("x.json", b"[]", "has no rows"),
        ("x.jsonl", b"\n\n", "has no rows"),
        ("x.json", b'["caf\xe9"]', "cannot be read"),
        ("x.parquet", b"PAR1 no parquet PAR1", "cannot be read"),
        ("x.parquet", b"", "cannot be read"),
    ],
)
def test_a_file_that_is_none_is_refused(
    name: str, content: bytes, message: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UserError, match=message) as caught:
        load(str(path))
    assert str(path) in str(caught.value)


def test_half_a_parquet_file_is_refused(tmp_path: Path) -> None:
    path = Path(to_parquet(tmp_path / "rows"))
    path.write_bytes(path.read_bytes()[:3000])
    with pytest.raises(UserError, match="cannot be read"):
        load(str(path))


@pytest.mark.parametrize(
    "name",
    [
        "nowhere.parquet",
        "../shared/data/verified.parquet",
        "/nowhere/rows",
        "verfied",
        "a/b/c",
        "",
        "https://host/rows",
    ],
)
def test_a_name_that_names_nothing_is_refused_with_what_would(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as caught:
        load(name)
    assert "no such file, alias (demo, verified) or hub id (owner/name)" in str(caught.value)


@pytest.mark.parametrize("name", ["nowhere.json", "x/nowhere.jsonl"])
def test_a_json_file_that_is_not_there_is_refused(name: str) -> None:
    with pytest.raises(UserError, match=f"dataset {name}: cannot be read"):
        load(name)


def test_an_empty_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        load(str(tmp_path))


# A hub on loopback. Its client reads its settings once, so it gets a process of its own.

COMMIT = "0123456789abcdef0123456789abcdef01234567"
DATA_FILE = "data/test-00000-of-00001.parquet"
ASK = """
from pipeline.benchmarks.dataset import load
from pipeline.outcomes import UserError
try:
    dataset = load("owner/rows")
    print(len(dataset.instances), dataset.revision)
except UserError as error:
    print(error)
"""


def hub_of(content: bytes) -> type[BaseHTTPRequestHandler]:
    class Hub(BaseHTTPRequestHandler):
        """As much of the hub's interface as its client asks for one parquet file."""

        def log_message(self, *arguments: object) -> None:
            return

        def send(self, status: int, body: bytes, **headers: str) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def do_GET(self) -> None:
            path = urlsplit(self.path).path
            folder = {"type": "directory", "oid": "d", "size": 0, "path": "data"}
            file = {"type": "file", "oid": "f", "size": len(content), "path": DATA_FILE}
            tree: object = None
            if path.startswith("/api/datasets/owner/rows/tree"):
                tree = [file] if path.endswith("/data") else [folder]
            elif path.startswith("/api/datasets/owner/rows"):
                tree = {"id": "owner/rows", "sha": COMMIT, "siblings": [{"rfilename": DATA_FILE}]}
            if tree is not None:
                self.send(200, json.dumps(tree).encode(), content_type="application/json")
            elif path.endswith(DATA_FILE):
                self.send(200, content, ETag='"e"', X_Repo_Commit=COMMIT)
            else:
                self.send(404, b"{}", X_Error_Code="EntryNotFound", X_Repo_Commit=COMMIT)

        do_HEAD = do_GET

    return Hub


def asked_of_the_hub(tmp_path: Path, **environment: str) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    done = subprocess.run(
        [sys.executable, "-c", ASK],
        env=clean | {"HF_HOME": str(tmp_path / "huggingface"), **environment},
        cwd=Path(__file__).parent.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_a_hub_dataset_has_a_revision_and_its_warm_cache_works_offline(tmp_path: Path) -> None:
    content = Path(to_parquet(tmp_path / "rows")).read_bytes()
    server = ThreadingHTTPServer(("127.0.0.1", 0), hub_of(content))
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        online = asked_of_the_hub(tmp_path, HF_ENDPOINT=f"http://127.0.0.1:{server.server_port}")
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert online == f"{len(ROWS)} {COMMIT}"
    assert asked_of_the_hub(tmp_path, HF_HUB_OFFLINE="1") == online


def test_a_hub_id_without_network_or_cache_says_what_else_there_is(tmp_path: Path) -> None:
    said = asked_of_the_hub(tmp_path, HF_HUB_OFFLINE="1")
    assert "dataset 'owner/rows' (split 'test') cannot be loaded" in said
    assert "without a network, name a local .parquet, .jsonl or directory" in said
