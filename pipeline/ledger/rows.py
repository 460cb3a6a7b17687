"""What one row holds: a finished try at one stage."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from pydantic import TypeAdapter

from pipeline.domain import Attempt, Controls, Fault, Rollout, Verdict
from pipeline.outcomes import Settlement


class Kind(StrEnum):
    ROLLOUT = "rollout"
    VERDICT = "verdict"
    CONTROL = "control"
    """One look at the instance with its controls; its attempt number is 0."""
    SETTLEMENT = "settlement"


Value: TypeAlias = Rollout | Verdict | Controls | Fault | Settlement
TYPES: dict[str, TypeAdapter[Value]] = {
    kind.__name__: TypeAdapter(kind) for kind in (Rollout, Verdict, Controls, Fault, Settlement)
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One finished try at one stage."""

    seq: int
    kind: Kind
    attempt: Attempt
    try_number: int
    value: Value
