"""A folder of terminal tasks as a benchmark: instances to draw from, and tasks once drawn."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pipeline.benchmarks.terminal.folders import Outline, outline_of, outlines, read_task
from pipeline.benchmarks.terminal.tasks import Layout, Task
from pipeline.domain import Instance
from pipeline.outcomes import UserError

EMBEDDED = Path(__file__).parents[2] / "demo" / "terminal"
NOWHERE = "uncategorised"
"""The stratum of tasks that name no category."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSet:
    """See `pipeline.contracts.Release`."""

    name: str
    revision: str
    instances: Sequence[Instance]
    """Without prompt and image until they are `whole`."""
    skipped: Mapping[str, str]

    def whole(self, instance: Instance) -> Instance:
        """See `pipeline.contracts.Release`."""
        task = read_task(instance.id, Path(instance.row["folder"]))
        row = {
            **instance.row,
            "fingerprint": task.fingerprint,
            "unknown": task.unknown,
            "crlf": task.crlf,
            "solution": task.solution is not None,
            "built": not task.environment.image,
        }
        return replace(
            instance,
            prompt=task.prompt,
            image=image_of(task),
            seconds=task.agent.seconds,
            row=row,
        )

    def canonical(self, instance: Instance) -> dict[str, Any]:
        """See `pipeline.contracts.Release`."""
        return {"id": instance.id, "fingerprint": instance.row["fingerprint"]}

    def remarks(self, instances: Sequence[Instance]) -> Sequence[str]:
        """See `pipeline.contracts.Release`."""
        found = []
        if self.skipped:
            total = len(self.skipped) + len(self.instances)
            found.append(f"{len(self.skipped)} of {total} tasks are skipped: {told(self.skipped)}")
        keys = sorted({key for one in instances for key in one.row["unknown"]})
        if keys:
            found.append(f"keys that passone does not know, and does without: {', '.join(keys)}")
        windows = [one.id for one in instances if one.row["crlf"]]
        if windows:
            found.append(f"scripts with Windows line ends, copied in without: {shown(windows)}")
        bare = [one.id for one in instances if not one.row["solution"]]
        if bare:
            found.append(f"no reference solution, and so no control: {shown(bare)}")
        return found


def load(name: str, split: str = "") -> TaskSet:
    """A folder that is a task, holds tasks, or holds sets of them.

    Args:
        name: of the folder, or `demo` for the embedded tasks.
        split: not used; folders have none.

    Raises:
        UserError: no such folder, no task in it, or none that can be run.
    """
    root = EMBEDDED if name == "demo" else Path(name).expanduser().absolute()
    if not root.is_dir():
        raise UserError(f"dataset {name!r}: no such folder; name one that holds terminal tasks")
    found = list(outlines(root))
    skipped = {one.id: one.reason for one in found if one.reason}
    if not found:
        raise UserError(
            f"dataset {name!r}: no task there; name a folder whose own folders, up to three deep, "
            "have a task.toml or a task.yaml"
        )
    if len(skipped) == len(found):
        reasons = told(skipped).replace("; ", ", ")
        raise UserError(
            f"dataset {name!r}: no task there can be run: {reasons}; name another folder, or mend "
            "one of them"
        )
    instances = [to_instance(one) for one in found if not one.reason]
    return TaskSet(name=name, revision="", instances=instances, skipped=skipped)


def to_instance(outline: Outline) -> Instance:
    """An instance without prompt and image."""
    return Instance(
        id=outline.id,
        stratum=outline.category or NOWHERE,
        prompt="",
        image="",
        difficulty=outline.difficulty,
        row={"folder": str(outline.folder), "layout": str(outline.layout)},
    )


def task_of(instance: Instance) -> Task:
    """The task behind an instance.

    Raises:
        UserError: it is no longer what was drawn, or cannot be run.
    """
    folder = Path(instance.row["folder"])
    task = read_task(instance.id, folder)
    if task.fingerprint != instance.row["fingerprint"]:
        raise UserError(
            f"{folder}: has changed since it was drawn; put its files back, or begin another run"
        )
    reason = outline_of(task.id, folder, Layout(instance.row["layout"])).reason
    if reason:
        raise UserError(f"{folder}: {reason}; draw another task")
    return task


def image_of(task: Task) -> str:
    """The published image, or a name for the one to be built: other files, another name."""
    slug = re.sub(r"[^a-z0-9]+", "-", task.id.lower()).strip("-")
    return task.environment.image or f"passone/terminal.{slug}:{task.fingerprint[:12]}"


def told(skipped: Mapping[str, str]) -> str:
    """Reasons with how many they hold for, the most frequent first."""
    counts = Counter(skipped.values()).most_common()
    parts = [f"{count} × {' '.join(reason.split())}" for reason, count in counts[:5]]
    return "; ".join(parts) + (f"; and {len(counts) - 5} more reasons" * (len(counts) > 5))


def shown(ids: Sequence[str], *, most: int = 5) -> str:
    """A few ids, and how many there are beside them."""
    more = f" and {len(ids) - most} more" if len(ids) > most else ""
    return f"{', '.join(ids[:most])}{more}"
