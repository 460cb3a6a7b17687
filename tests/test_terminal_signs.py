"""Which of an agent's changes may steer tests, by place and name and by what the image has."""

from __future__ import annotations

import pytest

from pipeline.benchmarks.terminal.signs import candidates, named, signs
from pipeline.docker.changes import (
    MANY,
    Change,
    How,
    Surroundings,
    changes_of,
    label,
    labelled,
    together,
)

AROUND = Surroundings(
    workdir="/app",
    path=("/opt/venv/bin", "/usr/local/bin", "/usr/bin", "/bin"),
)
IMAGE = {
    "/usr/bin/git",
    "/usr/lib/x86_64-linux-gnu/libm.so.6",
    "/usr/lib/python3/dist-packages/yaml",
}


def found(*lines: str) -> list[str]:
    """The paths of what are signs among changes in the form of `docker diff`."""
    changes = [Change(line[2:], How(line[0])) for line in lines]
    kept = candidates(changes, AROUND)
    return [change.path for change in signs(kept, AROUND, IMAGE.__contains__)]


@pytest.mark.parametrize(
    "line",
    [
        *("C /usr/bin/python3.11", "D /bin/bash", "C /usr/lib/x86_64-linux-gnu/libc.so.6"),
        *("C /usr/lib/python3.11/unittest/case.py", "C /usr/share/perl/5.36/Test/More.pm"),
        *("C /opt/venv/lib/python3.12/site-packages/_pytest/python.py", "C /usr/local/bin"),
        *("A /etc/ld.so.preload", "C /etc/ld.so.cache", "A /etc/ld.so.conf.d/own.conf"),
        *("A /etc/profile.d/own.sh", "C /root/.bashrc", "A /home/ada/.profile"),
        *("A /root/.gitconfig", "A /root/.config/pip/pip.conf", "C /etc/alternatives/awk"),
        *("A /conftest.py", "A /pyproject.toml", "A /app/conftest.py", "A /app/pytest.ini"),
        *("A /app/unittest.py", "A /app/json", "C /app/csv.py"),
        *("A /usr/lib/python3.11/sitecustomize.py", "A /etc/python3.11/sitecustomize.py"),
        *("A /opt/venv/lib/python3.12/site-packages/own.pth", "A /root/.local/bin/uv"),
        "A /root/.local/lib/python3.12/site-packages/own-1.dist-info/entry_points.txt",
        *("A /usr/local/bin/pytest", "A /usr/local/bin/git", "A /opt/venv/bin/curl"),
        "A /usr/local/lib/libm.so.6",
        "A /usr/local/lib/python3.11/dist-packages/yaml",
        "A /usr/local/lib/python3.11/dist-packages/pytest-8.4.1.dist-info",
    ],
)
def test_it_is_a_sign(line: str) -> None:
    assert found(line) == [line[2:]]


@pytest.mark.parametrize(
    "line",
    [
        *("A /app/result.txt", "C /app/bin/run", "A /app/setup.cfg", "D /app/lib/old.py"),
        *("A /usr/local/bin/hello", "A /usr/lib/x86_64-linux-gnu/libown.so.1", "A /srv/own"),
        *("A /usr/local/lib/python3.11/dist-packages/own", "A /etc/nginx/nginx.conf"),
        *("C /usr/lib/python3.11/unittest/__pycache__", "C /usr/share/nginx/html/index.html"),
        "A /usr/lib/python3.11/unittest/__pycache__/case.cpython-311.pyc",
        *("C /usr/share/doc/git/README", "A /etc/alternatives/vi", "C /var/log/dpkg.log"),
        *("C /var/lib/dpkg/status", "A /tmp/x", "A /libexec-own", "A /library"),
    ],
)
def test_it_is_none(line: str) -> None:
    assert found(line) == []


def test_what_a_package_manager_has_written_goes_the_way_of_the_files() -> None:
    books = "C /var/lib/dpkg/status"
    assert found(books, "D /usr/bin/git") == ["/usr/bin/git", books[2:]]
    assert named([Change(books[2:], How.CHANGED), Change("/usr/bin/git", How.DELETED)]) == (
        "/usr/bin/git"
    )


def test_of_many_signs_three_are_named() -> None:
    many = [Change(f"/usr/bin/{letter}", How.CHANGED) for letter in "abcde"]
    assert named(many) == "/usr/bin/a, /usr/bin/b, /usr/bin/c and 2 more"


class Daemon:
    """What a daemon says of a container."""

    def diff(self, container: str) -> list[dict[str, object]] | None:
        kinds = {"/usr": 0, "/usr/bin": 0, "/usr/bin/git": 2, "/app": 0, "/app/x": 1, "/opt": 0}
        return [{"Path": path, "Kind": kind} for path, kind in kinds.items()] if container else None


def test_a_folder_counts_only_where_nothing_in_it_explains_it() -> None:
    changes = [
        Change("/app/x", How.ADDED),
        Change("/opt", How.CHANGED),
        Change("/usr/bin/git", How.DELETED),
    ]
    assert changes_of(Daemon(), "one") == changes
    assert changes_of(Daemon(), "") == []
    assert labelled(label(changes)) == changes
    assert labelled(None) == labelled({"other": "label"}) == []


def test_many_files_of_a_folder_are_put_back_with_the_folder() -> None:
    many = [f"/usr/lib/own/{number}" for number in range(MANY + 1)]
    assert together([*many, "/usr/bin/git", "/etc/ld.so.cache"]) == [
        "/etc/ld.so.cache",
        "/usr/bin/git",
        "/usr/lib",
    ]
