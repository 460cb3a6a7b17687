"""Name the files that a run has kept of an attempt: logs, trajectory, tape, and what else is there.

A report holds none of them. It names them, so that a person finds them; and an artefact that lies
beside a trajectory is named with the rest.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

from pipeline.domain import Attempt
from pipeline.ledger import Entry
from pipeline.rundir import RunDir

Kept: TypeAlias = list[Any]
"""[path below the run's directory, bytes]."""
MOST_FILES = 60
"""Of one attempt; an artefact may be a tree of thousands."""


def kept_files(run: RunDir, attempt: Attempt, entry: Entry) -> dict[str, Any]:
    """Files of every try with a row and of its scoring, in this order.

    Returns:
        `files`: at most `MOST_FILES` of them; `more`: how many others there are.
    """
    places = [run.attempt(attempt, row.try_number) for row in entry.rollouts]
    found = [file for place in places for file in files_in(place, run.root)]
    found += files_in(run.scoring(attempt.instance_id, attempt.number), run.root)
    return {"files": found[:MOST_FILES], "more": max(len(found) - MOST_FILES, 0)}


def files_in(place: Path, root: Path) -> Iterator[Kept]:
    """Regular files only: a link may lead anywhere. A run that still goes may take one away."""
    for folder, folders, names in os.walk(place):
        folders.sort()
        for name in sorted(names):
            path = Path(folder, name)
            with contextlib.suppress(OSError):
                if stat.S_ISREG((facts := path.lstat()).st_mode):
                    yield [path.relative_to(root).as_posix(), facts.st_size]
