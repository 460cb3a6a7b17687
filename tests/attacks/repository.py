"""Small repositories that are kept as text: their trees, their history, and patches to them."""

from __future__ import annotations

import atexit
import io
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TypeAlias

PLACE = Path(__file__).parent / "repositories"
HEADING = re.compile(r"^=== (base|fix|other|tests) (\S+)( \+x)?\n", re.MULTILINE)
UPSTREAM = "refs/remotes/origin/main"
"""Where published images had what came after the base commit."""


@dataclass(frozen=True, slots=True)
class Script:
    """A file that may be executed."""

    text: str


@dataclass(frozen=True, slots=True)
class Link:
    """A symbolic link."""

    target: str


Content: TypeAlias = str | bytes | Script | Link
Edits: TypeAlias = Mapping[str, Content | None]
"""By path; None: the file is deleted."""


def git(place: Path, *arguments: str, text: bytes = b"") -> bytes:
    """What git prints, the same on every machine and at any time."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    own = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    for who in ("AUTHOR", "COMMITTER"):
        own |= {
            f"GIT_{who}_NAME": "A Maintainer",
            f"GIT_{who}_EMAIL": "maintainer@passone.invalid",
            f"GIT_{who}_DATE": "2024-03-01T12:00:00+00:00",
        }
    command = ["git", "-c", "core.autocrlf=false", "-c", "gc.auto=0", *arguments]
    done = subprocess.run(
        command, cwd=place, input=text, env=clean | own, check=True, capture_output=True
    )
    return done.stdout


def write(tree: Path, edits: Edits) -> None:
    for name, content in edits.items():
        path = tree / name
        if path.is_symlink() or path.is_file():
            path.unlink()
        elif path.is_dir():
            shutil.rmtree(path)
        if content is None:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        match content:
            case Link(target):
                path.symlink_to(target)
            case Script(text):
                path.write_text(text, encoding="utf-8")
                path.chmod(0o755)
            case bytes():
                path.write_bytes(content)
            case str():
                path.write_text(content, encoding="utf-8")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Repository:
    """One repository, at the commit before its issue is fixed, with all that came after."""

    name: str
    stages: Mapping[str, Mapping[str, Script | str]]
    """base; fix; other: a fix that is written otherwise; tests."""
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _made: dict[str, Path] = field(default_factory=dict)

    def text(self, path: str) -> str:
        """A file at the base commit."""
        content = self.stages["base"][path]
        return content.text if isinstance(content, Script) else content

    @property
    def tree(self) -> Path:
        """A work tree at the base commit; it goes with this process."""
        with self._lock:
            if "tree" not in self._made:
                place = Path(tempfile.mkdtemp(prefix="passone-attacks-"))
                atexit.register(shutil.rmtree, place, ignore_errors=True)
                self._made["tree"] = self._plant(place / "testbed")
            return self._made["tree"]

    def _plant(self, tree: Path) -> Path:
        tree.mkdir()
        git(tree, "init", "-q", "-b", "main")
        base = self.stages["base"]
        for files, message in (
            ({"README.md": base["README.md"]}, "Begin"),
            (base, "All that there was"),
            (self.stages["fix"], "Mend it"),
            (self.stages["tests"], "Test that it is mended"),
        ):
            write(tree, files)
            git(tree, "add", "-A")
            git(tree, "commit", "-q", "-m", message)
        git(tree, "update-ref", UPSTREAM, "HEAD")
        git(tree, "reset", "-q", "--hard", "HEAD~2")
        return tree

    @property
    def base_commit(self) -> str:
        return git(self.tree, "rev-parse", "HEAD").decode().strip()

    def patch(self, edits: Edits) -> str:
        """What turns the base commit into one with these edits."""
        with self._lock:
            tree = self.tree
            try:
                write(tree, edits)
                # What the repository ignores can be in a patch all the same.
                git(tree, "add", "-A", "-f")
                return git(tree, "diff", "--cached", "--binary").decode()
            finally:
                git(tree, "reset", "-q", "--hard")
                git(tree, "clean", "-fdxq")

    def stage(self, name: str, **changes: Content) -> str:
        return self.patch({**self.stages[name], **changes})

    def archive(self) -> bytes:
        """The tree with its history, as a tar of /testbed."""
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            tar.add(self.tree, arcname="testbed", filter=as_root)
        return buffer.getvalue()


def as_root(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = "root"
    return info


@cache
def repository(name: str) -> Repository:
    """Read it from its text."""
    parts = HEADING.split((PLACE / f"{name}.txt").read_text(encoding="utf-8"))
    stages: dict[str, dict[str, Script | str]] = {}
    for number in range(1, len(parts), 4):
        stage, path, executable, text = parts[number : number + 4]
        stages.setdefault(stage, {})[path] = Script(text) if executable else text
    return Repository(name=name, stages=stages)
