"""What was settled on this machine is kept, for exactly what it was settled for."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.domain import Attempt, Controls, Instance, Patch, SandboxLimits, Verdict
from pipeline.verdicts import Kept, Store, cache_dir, pack, this_machine
from tests.fakes import (
    CONTESTED,
    DID_NOT_RUN,
    DIGEST,
    REJECTED,
    RESOLVED,
    TIMED_OUT,
    UNRESOLVED,
    instance,
)

HERE = instance("a", eval_script="pytest", patch="diff")
PATCH = Patch("diff --git a/x b/x\n+caf\udce9\n")
"""Its last letter is one byte of latin-1."""
LOOK = Controls(gold=(RESOLVED,))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(
        root=tmp_path / "cache", grader="swebench 5", sandbox="docker", limits=SandboxLimits()
    )


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    place = tmp_path / "scoring"
    place.mkdir()
    (place / "test_output.txt").write_bytes(b"PASSED \xe9\n")
    (place / "report.json").write_text("{}")
    (place / "secret.txt").write_text("not ours to keep")
    return place


def keep(store: Store, verdict: Verdict, logs: Path, patch: Patch = PATCH) -> str:
    key = store.verdict_key(HERE, DIGEST, patch)
    store.keep_verdict(key, Kept(verdict=verdict, run="r", attempt=Attempt("a", 2)), logs)
    return key


ELSEWHERE = [
    {"grader": "swebench 6"},
    {"sandbox": "local"},
    {"limits": SandboxLimits(network="off")},
    {"limits": SandboxLimits(memory_gb=1)},
    {"limits": SandboxLimits(scoring_seconds=1)},
]
OTHERS = [
    instance("a", eval_script="pytest -x", patch="diff"),
    instance("a", eval_script="pytest", patch="another solution"),
]


# Verdicts


@pytest.mark.parametrize("verdict", [RESOLVED, UNRESOLVED, REJECTED])
def test_a_verdict_is_found_again_with_its_logs_and_its_origin(
    store: Store, logs: Path, tmp_path: Path, verdict: Verdict
) -> None:
    key = keep(store, verdict, logs)
    kept = store.verdict(key)
    assert kept is not None
    assert (kept.verdict, kept.origin) == (verdict, "r, a #2")
    (tmp_path / "again").mkdir()
    store.unpack(key, tmp_path / "again")
    found = {path.name: path.read_bytes() for path in (tmp_path / "again").iterdir()}
    assert found == {"test_output.txt": b"PASSED \xe9\n", "report.json": b"{}"}


@pytest.mark.parametrize("verdict", [TIMED_OUT, DID_NOT_RUN, CONTESTED])
def test_what_may_be_a_matter_of_the_day_is_not_kept(
    store: Store, logs: Path, verdict: Verdict
) -> None:
    assert store.verdict(keep(store, verdict, logs)) is None
    assert not store.root.exists()


@pytest.mark.parametrize(
    "patch",
    [
        Patch(PATCH.diff + " "),
        Patch(PATCH.diff.replace("\n", "\r\n")),
        Patch(PATCH.diff.replace("\udce9", "é")),
        Patch(PATCH.diff.rstrip("\n")),
    ],
    ids=["blank", "CRLF", "another encoding", "no final newline"],
)
def test_a_new_patch_never_gets_an_old_verdict(store: Store, logs: Path, patch: Patch) -> None:
    keep(store, RESOLVED, logs)
    assert store.verdict(store.verdict_key(HERE, DIGEST, patch)) is None


@pytest.mark.parametrize("elsewhere", ELSEWHERE, ids=repr)
def test_a_verdict_under_another_grader_sandbox_or_limit_does_not_count(
    store: Store, logs: Path, elsewhere: dict[str, Any]
) -> None:
    keep(store, RESOLVED, logs)
    other = replace(store, **elsewhere)
    assert other.verdict(other.verdict_key(HERE, DIGEST, PATCH)) is None


def test_a_verdict_on_another_row_or_in_another_image_does_not_count(
    store: Store, logs: Path
) -> None:
    keys = [store.verdict_key(other, DIGEST, PATCH) for other in OTHERS]
    keys.append(store.verdict_key(HERE, "sha256:rebuilt", PATCH))
    assert keep(store, RESOLVED, logs) not in keys
    assert [store.verdict(key) for key in keys] == [None] * 3


@pytest.mark.parametrize("content", [b"", b"{", b'{"verdict": "splendid"}', b"\xff"])
def test_a_kept_file_that_cannot_be_read_is_as_if_it_were_not_there(
    store: Store, logs: Path, content: bytes
) -> None:
    key = keep(store, RESOLVED, logs)
    (path,) = store.root.rglob("*.json")
    path.write_bytes(content)
    assert store.verdict(key) is None
    keep(store, RESOLVED, logs)
    assert store.verdict(key) is not None


def test_a_verdict_without_its_logs_is_none(store: Store, logs: Path) -> None:
    key = keep(store, RESOLVED, logs)
    (packed,) = store.root.rglob("*.tar.zst")
    packed.unlink()
    assert store.verdict(key) is None


def test_logs_that_are_too_large_are_not_kept_nor_is_their_verdict(
    store: Store, logs: Path
) -> None:
    with (logs / "test_output.txt").open("wb") as file:
        file.truncate(65 * 1024 * 1024)
    assert pack(logs) is None
    assert store.verdict(keep(store, RESOLVED, logs)) is None


def test_a_cache_that_cannot_be_written_costs_no_result(store: Store, logs: Path) -> None:
    store.root.write_text("a file where the directory belongs")
    assert store.verdict(keep(store, RESOLVED, logs)) is None
    store.keep_controls(HERE, LOOK, trusted=True)
    assert store.controls(HERE, DIGEST) is None


# Controls


def test_a_look_that_found_a_place_in_order_is_found_again(store: Store) -> None:
    assert store.controls(HERE, DIGEST) is None
    store.keep_controls(HERE, LOOK, trusted=True)
    assert store.controls(HERE, DIGEST) == LOOK
    assert store.controls(HERE, "sha256:rebuilt") is None
    assert store.controls(HERE, "") is None


def test_a_longer_look_is_not_replaced_by_a_shorter_one(store: Store) -> None:
    longer = Controls(gold=(RESOLVED,) * 3, empty=(UNRESOLVED,))
    store.keep_controls(HERE, longer, trusted=True)
    store.keep_controls(HERE, LOOK, trusted=True)
    assert store.controls(HERE, DIGEST) == longer


def test_a_place_that_is_not_in_order_any_more_has_nothing_kept(store: Store) -> None:
    store.keep_controls(HERE, LOOK, trusted=True)
    store.keep_controls(HERE, Controls(gold=(RESOLVED, UNRESOLVED)), trusted=False)
    assert store.controls(HERE, DIGEST) is None


@pytest.mark.parametrize("elsewhere", [*ELSEWHERE, {"machine": "another"}], ids=repr)
def test_a_look_under_another_grader_sandbox_limit_or_machine_does_not_count(
    store: Store, elsewhere: dict[str, Any]
) -> None:
    store.keep_controls(HERE, LOOK, trusted=True)
    assert replace(store, **elsewhere).controls(HERE, DIGEST) is None


@pytest.mark.parametrize("other", OTHERS, ids=["other tests", "other solution"])
def test_a_look_at_another_row_does_not_count(store: Store, other: Instance) -> None:
    store.keep_controls(HERE, LOOK, trusted=True)
    assert store.controls(other, DIGEST) is None


def test_cache_stands_where_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PASSONE_CACHE", str(tmp_path))
    assert cache_dir() == tmp_path
    monkeypatch.setenv("PASSONE_CACHE", "")
    assert cache_dir().name == "passone"


def test_a_machine_has_a_name() -> None:
    assert this_machine()
