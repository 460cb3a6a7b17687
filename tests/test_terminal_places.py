"""From a task to its containers: what is built, what each container is, and what goes into it."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.benchmarks.terminal.places import (
    BYTECODE,
    grading,
    normalised,
    scant,
    smaller,
    solving,
    working,
)
from pipeline.benchmarks.terminal.taskset import load
from pipeline.docker.archives import packed_folders, unpacked
from pipeline.domain import SandboxLimits
from tests.terminal import current, read

LIMITS = SandboxLimits(memory_gb=1, disk_gb=4, pids=100)
ASKS = """
[environment]
cpus = 2
memory_mb = 512
storage_mb = 1000
network_mode = "no-network"
workdir = "/srv"
env = {A = "1", B = "2"}

[verifier]
env = {B = "3"}
network_mode = "public"
user = "root"

[agent]
user = "clerk"
"""


def test_an_agent_gets_what_its_task_says(tmp_path: Path) -> None:
    shape = working(read(current(tmp_path / "a", ASKS)), LIMITS)
    assert (shape.cpus, shape.memory_mb, shape.disk_gb, shape.pids) == (2, 512, 1, 100)
    assert (shape.workdir, shape.user, shape.offline) == ("/srv", "clerk", True)
    assert shape.variables == {"A": "1", "B": "2"}
    assert shape.blank == ()


def test_tests_run_where_nothing_lies_at_their_places_with_variables_of_their_own(
    tmp_path: Path,
) -> None:
    task = read(current(tmp_path / "a", ASKS))
    assert task.verifier is not None
    shape = grading(task, task.verifier, LIMITS)
    assert shape.blank == ("/tests", "/logs/verifier", BYTECODE)
    assert shape.variables == {"A": "1", "B": "3", "PYTHONPYCACHEPREFIX": BYTECODE}
    assert (shape.user, shape.offline) == ("root", False)


def test_the_config_can_turn_the_network_off_and_never_on(tmp_path: Path) -> None:
    task = read(current(tmp_path / "a"))
    assert not working(task, LIMITS).offline
    assert working(task, SandboxLimits(network="off")).offline
    assert working(read(current(tmp_path / "b", ASKS)), SandboxLimits(network="on")).offline


def test_the_smaller_limit_counts_and_what_is_short_is_told(tmp_path: Path) -> None:
    current(tmp_path / "a", "[environment]\nmemory_mb = 4096\nstorage_mb = 9000\n")
    release = load(str(tmp_path))
    [instance] = [release.whole(one) for one in release.instances]
    said = scant(instance, LIMITS)
    assert said == (
        "a asks for 4 GB of memory, sandbox.memory_gb allows 1 and 9 GB of disk, sandbox.disk_gb "
        "allows 4: it gets that"
    )
    assert scant(instance, SandboxLimits(memory_gb=8, disk_gb=20)) == ""
    assert smaller(None, 3) == 3
    assert smaller(2, 0) == 2


def test_a_solution_has_its_own_variables(tmp_path: Path) -> None:
    toml = '[environment]\nenv = {A = "1"}\n[solution]\nenv = {A = "9"}\n'
    task = read(current(tmp_path / "a", toml, {"solution/solve.sh": "true\n"}))
    assert task.solution is not None
    assert solving(task, task.solution, LIMITS).variables == {
        "A": "9",
        "DEBIAN_FRONTEND": "noninteractive",
    }


def test_only_scripts_of_the_build_with_windows_line_ends_are_changed_for_it(
    tmp_path: Path,
) -> None:
    files = {
        "environment/run.sh": b"a\r\nb\r\n",
        "environment/data.txt": b"a\r\n",
        "tests/test.sh": b"x\r\n",
    }
    task = read(current(tmp_path / "a", files=files))
    assert normalised(task, tmp_path / "a" / "environment") == {"run.sh": b"a\nb\n"}


def test_files_go_in_as_roots_and_a_later_folder_wins(tmp_path: Path) -> None:
    for name, content in (("one/a", "1"), ("one/b", "1"), ("two/a", "2"), ("alone", "3")):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
        path.chmod(0o600)
    places = (tmp_path / "one", tmp_path / "two", tmp_path / "alone")
    with (
        packed_folders(*places, prefix="tests/", change=lambda name, content: content) as file,
        tarfile.open(fileobj=file) as tar,
    ):
        found = {one.name: (one, tar.extractfile(one)) for one in tar}
        held = {name: data.read() for name, (_, data) in found.items() if data}
    assert held == {"tests/a": b"2", "tests/b": b"1", "tests/alone": b"3"}
    assert {(m.uid, m.uname, oct(m.mode)) for m, _ in found.values()} == {(0, "root", "0o644")}


@pytest.mark.parametrize(("most", "size"), [(None, 500_000), (10, 11), (900_000, 500_000)])
def test_of_a_large_file_only_a_beginning_is_read(most: int | None, size: int) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        info = tarfile.TarInfo("reward.txt")
        info.size = 500_000
        tar.addfile(info, io.BytesIO(b"x" * 500_000))
    content = buffer.getvalue()
    taken = []

    def chunks() -> Iterator[bytes]:
        for start in range(0, len(content), 700):
            taken.append(start)
            yield content[start : start + 700]

    found = unpacked(chunks(), most)
    assert found == b"x" * size
    if most == 10:
        assert len(taken) < len(content) // 700
