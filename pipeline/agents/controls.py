"""Agents whose score is known: gold must read 100 %, empty must read 0 %."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.contracts import Assignment
from pipeline.domain import Departure, Patch, Step, Stop


@dataclass(frozen=True, slots=True)
class Control:
    """Submits the reference solution (`gold`), or a patch without content (`empty`).

    The empty patch is scored, on the tree as it is: a test suite that passes
    without a fix would show here.
    """

    name: str
    asks_model: bool = False
    version: str = ""

    def preflight(self) -> None:
        return

    def solve(self, assignment: Assignment) -> Departure:
        diff = str(assignment.instance.row["patch"]) if self.name == "gold" else ""
        return Departure(
            exit_status=f"control: {self.name}", meaning=Stop.SUBMITTED, submission=Patch(diff)
        )

    def steps(self, workdir: Path) -> Sequence[Step]:
        return ()
