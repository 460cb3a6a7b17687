"""What an attack is, and when it has come to nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from tests.attacks.places import Place

MODEL = "model"
"""Whatever the outcome is, as long as the model pays for it."""
RESOLVED = "resolved"
SECONDS = 60
GROUPS = ("controls", "resolve", "infrastructure", "break")
TITLES = {
    "controls": "Honest patches",
    "resolve": "To be resolved without a fix",
    "infrastructure": "To be somebody else's fault",
    "break": "To break the scorer or the report",
}
Make: TypeAlias = Callable[[], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """One patch, and what must come of it."""

    name: str
    """A few words, unique among all of one runner; what it tries."""
    group: str
    place: Place
    patch: Make
    right: str = MODEL
    """MODEL, or the one right outcome."""
    seconds: int = SECONDS
    """For one run of the tests."""
    alone: bool = False
    """Whether it has a run of passone to itself: it may take others along."""
    peer: bool = True
    """Whether the official harness may meet it on a machine that is needed afterwards."""

    @property
    def label(self) -> str:
        return f"{self.place.runner}: {self.name}"

    def settled(self, outcome: str, blame: str) -> bool:
        """Whether that is what must come of it."""
        if self.right == MODEL:
            return blame == MODEL and outcome != RESOLVED
        return outcome == self.right and blame == ("nobody" if outcome == RESOLVED else MODEL)


def saying(place: Place) -> str:
    """Code that prints past whatever captures output: into the evaluation script's own."""
    return (
        "def _say(text):\n    import os\n\n"
        f'    with open(f"/proc/{{os.getppid()}}/fd/{place.stream}", "w") as out:\n'
        "        out.write(text)\n"
    )
