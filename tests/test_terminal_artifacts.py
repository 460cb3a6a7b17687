"""What an agent made is kept beside its trajectory; what only looks like a file is not."""

from __future__ import annotations

import json
import time
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from pipeline.docker.artifacts import FOLDER, LIST, MOST_BYTES, MOST_FILES, excluded
from pipeline.domain import Finding
from tests.workshop import Workshop, base, workshop

__all__ = ["base", "workshop"]


def listed(place: Path) -> dict[str, Any]:
    tree: dict[str, Any] = json.loads((place / LIST).read_text(encoding="utf-8"))
    return tree


def kept(place: Path) -> dict[str, int]:
    """Every file there, and its size: no link is followed."""
    found = {}
    for path in sorted((place / FOLDER).rglob("*")):
        assert not path.is_symlink()
        if path.is_file():
            found[path.relative_to(place / FOLDER).as_posix()] = path.stat().st_size
    return found


def left(workshop: Workshop, tmp_path: Path, artifacts: str, script: str) -> Path:
    """Where the artefacts of an agent are kept that runs one script."""
    place = tmp_path / "try"
    place.mkdir()
    instance = workshop.task("a", toml=f"[[artifacts]]\n{artifacts}\n" if artifacts else "")
    snapshot = workshop.left_by(instance, f"echo yes > done; {script}", place)
    assert workshop.score(instance, snapshot).finding is Finding.RESOLVED
    return place


@pytest.mark.docker
def test_files_and_folders_are_kept_under_the_names_that_a_task_wants(
    workshop: Workshop, tmp_path: Path
) -> None:
    artifacts = (
        'source = "/work/图 1.png"\n[[artifacts]]\nsource = "site"\ndestination = "made/web"\n'
        'exclude = ["*.tmp", "cache"]\n[[artifacts]]\nsource = "/work/absent"'
    )
    script = (
        "head -c 3000 /dev/urandom > '图 1.png'; mkdir -p site/css site/cache; echo a > site/a; "
        "echo b > site/css/b; echo c > site/c.tmp; echo d > site/cache/d; chmod 777 site/a; "
        "mkdir -p /logs/artifacts; echo e > /logs/artifacts/e"
    )
    place = left(workshop, tmp_path, artifacts, script)
    sizes = {"图 1.png": 3000, "made/web/a": 2, "made/web/css/b": 2, "artifacts/e": 2}
    assert kept(place) == sizes
    assert listed(place)["left_out"] == ["/work/absent: is not there"]
    assert {item["path"]: item["bytes"] for item in listed(place)["files"]} == sizes
    assert {item["source"] for item in listed(place)["files"]} >= {"/work/site/css/b"}
    # Nothing of it is to be run by mistake.
    assert not (place / FOLDER / "made/web/a").stat().st_mode & 0o111


@pytest.mark.docker
def test_what_is_no_file_is_not_kept_and_said(workshop: Workshop, tmp_path: Path) -> None:
    script = (
        "mkdir out; cd out; ln -s /etc/passwd link; ln -s / root; mkfifo pipe; mknod dev c 1 5; "
        "echo x > fine; ln fine same; printf x > \"$(printf 'a\\nb')\"; "
        "ln -s / .. 2>/dev/null; cd ..; ln -s /etc whole"
    )
    artifacts = 'source = "out"\n[[artifacts]]\nsource = "whole"'
    place = left(workshop, tmp_path, artifacts, script)
    assert list(kept(place)) in (["out/fine"], ["out/same"])
    said = listed(place)["left_out"]
    assert {text.partition(": ")[2] for text in said} == {
        *("a link", "no file", "its name cannot be printed")
    }
    assert "/work/whole: a link" in said
    assert len(said) == 7


@pytest.mark.docker
def test_two_gigabytes_are_not_kept_and_not_waited_for(workshop: Workshop, tmp_path: Path) -> None:
    script = "mkdir out; echo a > out/a; truncate --size 2G out/b; echo c > out/c"
    began = time.monotonic()
    place = left(workshop, tmp_path, 'source = "out"', script)
    assert sum(kept(place).values()) < MOST_BYTES
    assert "out/b" not in kept(place)
    assert any("2147 MB" in text for text in listed(place)["left_out"])
    assert time.monotonic() - began < 90


@pytest.mark.docker
def test_of_very_many_files_the_first_are_kept(workshop: Workshop, tmp_path: Path) -> None:
    place = left(workshop, tmp_path, 'source = "out"', "mkdir out; cd out; touch $(seq 5000)")
    assert len(kept(place)) == MOST_FILES
    assert len(listed(place)["left_out"]) == 1


@pytest.mark.docker
def test_where_nothing_is_asked_for_and_nothing_is_there_nothing_is_written(
    workshop: Workshop, tmp_path: Path
) -> None:
    assert list(left(workshop, tmp_path, "", "true").iterdir()) == []


@pytest.mark.parametrize(
    ("path", "out"),
    [("a.tmp", True), ("b/a.tmp", True), ("cache/x/y", True), ("b/c", True), ("a.txt", False)],
)
def test_patterns_are_of_names_and_of_paths(path: str, out: bool) -> None:
    assert excluded(PurePosixPath(path), ("*.tmp", "cache/", "b/c")) is out
