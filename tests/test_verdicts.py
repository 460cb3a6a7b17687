"""Gold that passed on this machine is kept; nothing else is."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.domain import Evidence, Finding, Instance, SandboxLimits, Verdict
from pipeline.verdicts import GoldStore, cache_dir
from tests.fakes import CONTESTED, DIGEST, REJECTED, RESOLVED, instance

HERE = instance("a", eval_script="pytest", patch="diff")


@pytest.fixture
def store(tmp_path: Path) -> GoldStore:
    return GoldStore(root=tmp_path, grader="swebench 5", sandbox="docker", limits=SandboxLimits())


def test_a_pass_is_found_again(store: GoldStore) -> None:
    assert store.find(HERE, DIGEST) is None
    store.keep(HERE, RESOLVED)
    assert store.find(HERE, DIGEST) == RESOLVED


@pytest.mark.parametrize(
    "unkept",
    [
        REJECTED,
        CONTESTED,
        Verdict(finding=Finding.UNRESOLVED, grader="g", evidence=Evidence(image_digest=DIGEST)),
        Verdict(finding=Finding.RESOLVED, grader="g"),  # a place without a name
    ],
)
def test_only_a_clean_pass_in_a_place_with_a_name_is_kept(
    store: GoldStore, tmp_path: Path, unkept: Verdict
) -> None:
    store.keep(HERE, unkept)
    assert list(tmp_path.rglob("*.json")) == []
    assert store.find(HERE, "") is None


@pytest.mark.parametrize(
    "elsewhere",
    [
        {"grader": "swebench 6"},
        {"sandbox": "local"},
        {"limits": SandboxLimits(network="off")},
        {"limits": SandboxLimits(memory_gb=1)},
        {"limits": SandboxLimits(scoring_seconds=1)},
    ],
    ids=repr,
)
def test_a_pass_under_another_grader_sandbox_or_limit_does_not_count(
    store: GoldStore, elsewhere: dict[str, Any]
) -> None:
    store.keep(HERE, RESOLVED)
    assert replace(store, **elsewhere).find(HERE, DIGEST) is None


@pytest.mark.parametrize(
    "other",
    [
        instance("a", eval_script="pytest -x", patch="diff"),
        instance("a", eval_script="pytest", patch="another solution"),
    ],
    ids=["other tests", "other solution"],
)
def test_a_pass_of_another_row_does_not_count(store: GoldStore, other: Instance) -> None:
    store.keep(HERE, RESOLVED)
    assert store.find(other, DIGEST) is None


def test_a_pass_in_another_image_does_not_count(store: GoldStore) -> None:
    store.keep(HERE, RESOLVED)
    assert store.find(HERE, "sha256:rebuilt") is None


@pytest.mark.parametrize("content", [b"", b"{", b'{"finding": "splendid"}', b"\xff"])
def test_a_kept_file_that_cannot_be_read_is_as_if_it_were_not_there(
    store: GoldStore, content: bytes
) -> None:
    store.keep(HERE, RESOLVED)
    store.path(HERE, DIGEST).write_bytes(content)
    assert store.find(HERE, DIGEST) is None
    store.keep(HERE, RESOLVED)
    assert store.find(HERE, DIGEST) == RESOLVED


def test_a_cache_that_cannot_be_written_costs_no_result(store: GoldStore, tmp_path: Path) -> None:
    (tmp_path / "gold").write_text("a file where the directory belongs")
    store.keep(HERE, RESOLVED)
    assert store.find(HERE, DIGEST) is None


def test_cache_stands_where_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PASSONE_CACHE", str(tmp_path))
    assert cache_dir() == tmp_path
    monkeypatch.setenv("PASSONE_CACHE", "")
    assert cache_dir().name == "passone"
