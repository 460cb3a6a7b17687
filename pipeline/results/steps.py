"""Read back the trajectory of a try, in the form that all agents share."""

from __future__ import annotations

import json
from pathlib import Path

from pipeline.domain import Step


def read_steps(path: Path) -> list[Step] | None:
    """A kept trajectory; None: there is none, or it cannot be read to its end."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        steps = [Step(**json.loads(line)) for line in lines if line.strip()]
    except (OSError, ValueError, TypeError):
        return None
    texts = (text for step in steps for text in (step.thought, step.action, step.observation))
    return steps if steps and all(isinstance(text, str) for text in texts) else None
