"""Read back the trajectory of a try, in the form that all agents share."""

from __future__ import annotations

import json
from pathlib import Path

from pipeline.domain import Step


def read_steps(path: Path) -> list[Step] | None:
    """A kept trajectory; None: there is none, or it cannot be read to its end."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        return [Step(**json.loads(line)) for line in lines if line.strip()] or None
    except (OSError, ValueError, TypeError):
        return None
