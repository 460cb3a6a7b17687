"""What a fault is made of: embedded rows, gold patches, and images that are damaged on the spot."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import docker
from docker.errors import ImageNotFound

from pipeline.benchmarks import dataset
from pipeline.docker import EmbeddedImages, connect
from pipeline.domain import Instance

ID = "passone__almanac-27"
"""The instance that is broken where it does not matter which."""
OTHER = "passone__ember-24"
MADE_LABEL = "passone.fault"
KILL = "printf '#!/bin/sh\\nkill \"$@\"\\n' > /usr/local/bin/kill; chmod +x /usr/local/bin/kill"
"""The official harness wants one, and real images have it."""
START = ": '>>>>> Start Test Output'"

Row: TypeAlias = Mapping[str, Any]


class SceneError(Exception):
    """A fault could not be brought about: says nothing about who should have met it."""


@cache
def embedded() -> Mapping[str, Instance]:
    return {item.id: item for item in dataset.load("demo").instances}


@contextlib.contextmanager
def daemon() -> Iterator[docker.DockerClient]:
    client = connect()
    try:
        yield client
    finally:
        client.close()


@contextlib.contextmanager
def alone(name: str) -> Iterator[None]:
    """One thread of one process at a time."""
    with (Path(tempfile.gettempdir()) / f"passone-faults.{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def variant(
    name: str,
    script: str = "true",
    *,
    of: str = ID,
    changes: Sequence[str] = (),
    add: Mapping[str, bytes] | None = None,
) -> str:
    """An image made from an instance's by a script that bash runs in it; built once.

    Args:
        changes: further lines of a Dockerfile.
        add: directories, each with a tar archive that is unpacked there; they are
            no part of what tells two variants apart, so the script should name them.
    """
    with alone("images"), daemon() as client:
        images = EmbeddedImages(client)
        images.ensure_base()
        images(embedded()[of])
        parent = str(client.images.get(embedded()[of].image).id)
        reference = f"passone/fault.{name}:1"
        return built(client, reference, parent, script, changes=changes, add=add)


def built(
    client: docker.DockerClient,
    reference: str,
    parent: str,
    script: str,
    *,
    changes: Sequence[str] = (),
    add: Mapping[str, bytes] | None = None,
    given: Callable[[], Mapping[str, bytes]] | None = None,
    stamp: str = "",
) -> str:
    """An image made from another one by a script that bash runs in it; built once.

    Args:
        changes: further lines of a Dockerfile.
        add: as `variant` has it.
        given: makes what the script finds already, in the form of `add`.
        stamp: tells two images apart whose scripts are the same.
    """
    parts = [parent, KILL, script, *changes, *filter(None, [stamp])]
    made_of = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    with contextlib.suppress(ImageNotFound):
        if client.images.get(reference).labels.get(MADE_LABEL) == made_of:
            return reference
    before = given() if given else {}
    # The official harness waits 15 s for whoever ignores TERM, as its first process does.
    container = client.containers.create(
        parent, ["bash", "-ec", f"{KILL}\n{script}"], stop_signal="SIGKILL"
    )
    try:
        for place, archive in before.items():
            container.put_archive(place, archive)
        container.start()
        if container.wait()["StatusCode"]:
            raise SceneError(f"{reference}: {container.logs(tail=3).decode()}")
        for place, archive in (add or {}).items():
            container.put_archive(place, archive)
        own = ["WORKDIR /testbed", "CMD bash", f"LABEL {MADE_LABEL}={made_of} passone.run="]
        container.commit(*reference.split(":"), changes=[*own, *changes])
    finally:
        container.remove(force=True)
    return reference


def row(instance_id: str = ID, *, image: str = "", **changes: Any) -> dict[str, Any]:
    """An embedded row, whose image is the undamaged one unless another is named."""
    published = dict(embedded()[instance_id].row)
    return published | {"image": image or plain(instance_id)} | changes


def plain(instance_id: str = ID) -> str:
    return variant(f"plain.{instance_id}", of=instance_id)


def before_tests(of: Row, lines: str) -> dict[str, Any]:
    """A row whose eval script says something more, right before the tests."""
    script = str(of["eval_script"]).replace(START, f"{lines}\n{START}")
    assert script != of["eval_script"]
    return {**of, "eval_script": script}


def during_tests(of: Row, lines: str) -> dict[str, Any]:
    """A row whose eval script says something more, between the marker and the tests."""
    script = str(of["eval_script"]).replace(START, f"{START}\n{lines}")
    assert script != of["eval_script"]
    return {**of, "eval_script": script}


def gold(instance_id: str = ID) -> str:
    return str(embedded()[instance_id].row["patch"])


def new_file(path: str, text: str, *, mode: str = "100644") -> str:
    """A patch that adds one file."""
    lines = text.splitlines()
    return (
        f"diff --git a/{path} b/{path}\nnew file mode {mode}\n--- /dev/null\n+++ b/{path}\n"
        f"@@ -0,0 +1,{len(lines)} @@\n" + "".join(f"+{line}\n" for line in lines)
    )


def at_import(code: str) -> str:
    """A patch whose code runs as the embedded tests are imported; they run on after it."""
    lines = code.splitlines()
    path = "tests/__init__.py"
    return (
        f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -0,0 +1,{len(lines)} @@\n"
        + "".join(f"+{line}\n" for line in lines)
    )


WRONG_FIX = gold().replace("+ ONE_DAY", "+ 2 * ONE_DAY")
"""Applies as gold does, and mends nothing."""
