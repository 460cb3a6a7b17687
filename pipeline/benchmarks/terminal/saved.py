"""Read again, without its folder, how a terminal task was graded: from what its tests left.

Of a task only its name travels, its fingerprint, and by which parser its output is read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from pipeline.benchmarks.terminal.parsers import Unread, read_tests
from pipeline.benchmarks.terminal.rewards import JSON, TEXT, NoReward, read_reward
from pipeline.benchmarks.terminal.scorer import LOG
from pipeline.benchmarks.terminal.tasks import Parser
from pipeline.benchmarks.terminal.taskset import task_of
from pipeline.domain import Finding, Instance, Tally

Grade: TypeAlias = tuple[Finding, float | None, Tally]
"""Finding, reward, and tests that passed."""
COLUMNS = ("id", "stratum", "difficulty", "fingerprint", "parser")


def row_of(instance: Instance) -> dict[str, Any]:
    """What of a task has to be known to read its gradings again.

    Raises:
        UserError: its folder is no longer what was drawn.
    """
    if "folder" in instance.row:
        verifier = task_of(instance).verifier
        parser = verifier.parser if verifier else None
    else:
        # It came out of a bundle.
        parser = instance.row["parser"]
    return {
        "id": instance.id,
        "stratum": instance.stratum,
        "difficulty": instance.difficulty,
        "fingerprint": instance.row["fingerprint"],
        "parser": str(parser or ""),
    }


def instance_in(row: Mapping[str, Any]) -> Instance:
    """An instance without a folder: it can be read about, and not be run.

    Raises:
        ValueError: a column is missing, or none of ours.
    """
    if row.keys() != set(COLUMNS) or not all(isinstance(value, str) for value in row.values()):
        raise ValueError(f"a task has {', '.join(row)}, not {', '.join(COLUMNS)}")
    return Instance(
        id=row["id"],
        stratum=row["stratum"],
        prompt="",
        image="",
        difficulty=row["difficulty"],
        row={"fingerprint": row["fingerprint"], "parser": row["parser"]},
    )


def read_instances(path: Path) -> list[Instance]:
    """Raises ValueError: a line is no task."""
    with path.open(encoding="utf-8") as file:
        return [instance_in(json.loads(line)) for line in file]


def grade_again(instance: Instance, place: Path) -> Grade | None:
    """What the files of a scoring come to; None: it has none to read.

    Args:
        place: the directory of that scoring.
    """
    if parser := instance.row["parser"]:
        if not (place / LOG).is_file():
            return None
        text = (place / LOG).read_text(encoding="utf-8", errors="replace")
        found = read_tests(Parser(parser), text)
        if isinstance(found, Unread):
            return Finding.TESTS_DID_NOT_RUN, None, Tally()
        finding = Finding.RESOLVED if found.resolved else Finding.UNRESOLVED
        return finding, float(found.resolved), found.tally
    left = [path.read_bytes() if path.is_file() else None for path in (place / TEXT, place / JSON)]
    if left == [None, None]:
        return None
    reward = read_reward(*left)
    if isinstance(reward, NoReward):
        return Finding.TESTS_DID_NOT_RUN, None, Tally()
    finding = Finding.RESOLVED if reward.value == 1 else Finding.UNRESOLVED
    return finding, reward.value, Tally()
