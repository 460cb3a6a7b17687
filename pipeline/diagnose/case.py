"""What the rules may know of one attempt, and what they answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from pipeline.diagnose.patches import files_in, is_aside
from pipeline.diagnose.trajectory import Circle, circle_of, edits_in
from pipeline.domain import Step, Stop, Tally
from pipeline.outcomes import Outcome

LIMITS = frozenset({Stop.CONTEXT_LIMIT, Stop.STEP_LIMIT, Stop.COST_LIMIT, Stop.TIME_LIMIT})
MOST_NAMES = 3
MOST_CHARACTERS = 160


@dataclass(frozen=True, kw_only=True)
class Case:
    """One attempt that is blamed on the model."""

    outcome: Outcome
    stop: Stop | None
    """None: nobody recorded why the agent stopped."""
    patch: str
    """Empty: none was submitted."""
    gold: frozenset[str]
    """Files that the reference solution touches; those of the hidden tests are `hidden`."""
    hidden: frozenset[str]
    steps: Sequence[Step] | None
    """None: there is no trajectory, or it cannot be read."""
    no_steps: str = ""
    """Why there is none."""
    fixed: Tally = field(default_factory=Tally)
    """FAIL_TO_PASS; where the total is zero nobody recorded it, and so it is for `kept`."""
    kept: Tally = field(default_factory=Tally)
    """PASS_TO_PASS."""
    unfixed: tuple[str, ...] = ()
    """FAIL_TO_PASS tests that still fail, where their names are known; so it is for `broken`."""
    broken: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    """Why a pass is contested."""
    death: str = ""
    """What died, and while it did what."""
    scoring_seconds: int = 0
    """Within which its tests had to end."""
    machine: bool = False
    """What was submitted is a container as it was left: there is no patch to read."""
    reward: float | None = None
    """What the tests gave it, where they grade in fractions."""

    @cached_property
    def files(self) -> tuple[str, ...]:
        """That the patch touches."""
        return files_in(self.patch)

    @cached_property
    def aside(self) -> tuple[str, ...]:
        """Tests and documents among them."""
        return tuple(path for path in self.files if is_aside(path, self.gold, self.hidden))

    @cached_property
    def common(self) -> tuple[str, ...]:
        """What gold touches too."""
        return tuple(path for path in self.files if path in self.gold)

    @cached_property
    def circle(self) -> Circle | None:
        return circle_of(self.steps or ())

    @cached_property
    def edits(self) -> list[int]:
        """Steps that seem to edit a file."""
        return edits_in(self.steps or ())

    @cached_property
    def edits_of_patch(self) -> tuple[int, ...]:
        """Those that name a file of the patch."""
        names = {path.rpartition("/")[2] for path in self.files}
        steps = self.steps or ()
        return tuple(n for n in self.edits if any(name in steps[n - 1].action for name in names))


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Why a rule holds of a case."""

    text: str
    steps: tuple[int, ...] = ()
    """Numbers in the trajectory, from 1."""
    tests: tuple[str, ...] = ()


def numbers(steps: Sequence[int]) -> str:
    """`step 3`, `steps 3, 5–8`."""
    runs: list[list[int]] = []
    for number in steps:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    said = [f"{run[0]}–{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]
    if len(said) > 2 * MOST_NAMES:
        said = [*said[:MOST_NAMES], "…", said[-1]]
    return f"step{'s' if len(steps) > 1 else ''} {', '.join(said)}"


def named(names: Sequence[str]) -> str:
    """The first few names, and how many more."""
    said = ", ".join(short(name) for name in names[:MOST_NAMES])
    more = len(names) - MOST_NAMES
    return f"{said} and {more} more" if more > 0 else said


def short(text: str, most: int = MOST_CHARACTERS) -> str:
    """What fits into a line, with nothing in it that moves a cursor."""
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return text if len(text) <= most else f"{text[: most - 1]}…"
