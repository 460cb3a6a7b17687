"""How a person stops a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Event


@dataclass(slots=True)
class Brake:
    """Pressed once it stops softly, pressed twice at once."""

    soft: Event = field(default_factory=Event)
    hard: Event = field(default_factory=Event)
    halted: str = ""
    """What would mend why nobody needed to press it."""

    def press(self) -> None:
        (self.hard if self.soft.is_set() else self.soft).set()
