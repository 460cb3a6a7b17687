"""Name the files that a run has kept of an attempt: logs, trajectory, tape, and its artefacts.

A report holds none of them. It names them, so that a person finds them.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

from pipeline.domain import Attempt
from pipeline.ledger import Entry
from pipeline.report.texts import cut
from pipeline.rundir import RunDir

File: TypeAlias = list[Any]
"""[path below the run's directory, bytes]."""
ARTIFACTS, LIST = "artifacts", "artifacts.json"
"""Beside a trajectory, as `pipeline.docker.artifacts` has them."""
MOST_FILES = 60
"""Artefacts that are named of one attempt; there may be a thousand."""


def kept_files(run: RunDir, attempt: Attempt, entry: Entry) -> dict[str, Any]:
    """Of every try with a row and of its scoring.

    Returns:
        `files` and `artefacts`: of the latter at most `MOST_FILES`; `more`: how many others there
        are; `left_out`: what was to be kept and was not, in words.
    """
    files: list[File] = []
    artefacts: list[File] = []
    left_out: list[Any] = []
    for row in entry.rollouts:
        place = run.attempt(attempt, row.try_number)
        artefacts += files_in(place / ARTIFACTS, run.root)
        files += files_in(place, run.root, without=ARTIFACTS)
        left_out += [cut(text) for text in not_kept(place / LIST)]
    files += files_in(run.scoring(attempt.instance_id, attempt.number), run.root)
    return {
        "files": files,
        "artefacts": artefacts[:MOST_FILES],
        "more": max(len(artefacts) - MOST_FILES, 0),
        "left_out": left_out[:MOST_FILES],
    }


def files_in(place: Path, root: Path, *, without: str = "") -> Iterator[File]:
    """Regular files only: a link may lead anywhere. A run that still goes may take one away."""
    for folder, folders, names in os.walk(place):
        folders[:] = sorted(name for name in folders if name != without)
        for name in sorted(names):
            path = Path(folder, name)
            with contextlib.suppress(OSError):
                if stat.S_ISREG((facts := path.lstat()).st_mode):
                    yield [path.relative_to(root).as_posix(), facts.st_size]


def not_kept(path: Path) -> list[str]:
    try:
        return [str(text) for text in json.loads(path.read_text(encoding="utf-8"))["left_out"]]
    except (OSError, ValueError, KeyError, TypeError):
        return []
