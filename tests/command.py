"""What a command of ours says and how it ends; the fixture that gives it is in conftest.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Said:
    """How a command ended, and what it printed."""

    status: int
    out: str
    err: str


Passone: TypeAlias = Callable[..., Said]
