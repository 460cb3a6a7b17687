"""What an agent itself says that it used, from the trajectory that it left."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pipeline.agents import miniswe, sweagent
from pipeline.domain import Usage

LOCAL = ("sweagent",)
"""Agents that count tokens by a tokenizer of their own, not by the server's word."""


def number(tree: object, *names: str) -> int:
    """The first of these counts that is there."""
    for name in names:
        value = tree.get(name) if isinstance(tree, Mapping) else None
        if isinstance(value, int | float):
            return int(value)
    return 0


def of_mini(tree: Mapping[str, Any]) -> Usage:
    """Its messages hold the server's own words, those of unreadable replies included."""
    total = Usage()
    for message in tree.get("messages") or ():
        extra = message.get("extra") or {}
        response = extra.get("response")
        if response is None:
            continue
        usage = response.get("usage") if isinstance(response, Mapping) else None
        details = "prompt_tokens_details", "input_tokens_details"
        cached = [usage.get(name) for name in details] if isinstance(usage, Mapping) else []
        total += Usage(
            requests=1,
            input_tokens=number(usage, "prompt_tokens", "input_tokens"),
            cached_tokens=max((number(part, "cached_tokens") for part in cached), default=0),
            output_tokens=number(usage, "completion_tokens", "output_tokens"),
            # It writes zero for a price that it does not know.
            cost_usd=extra.get("cost") or None,
        )
    return total


def of_sweagent(tree: Mapping[str, Any]) -> Usage:
    stats = (tree.get("info") or {}).get("model_stats") or {}
    calls = number(stats, "api_calls")
    return Usage(
        requests=calls,
        input_tokens=number(stats, "tokens_sent"),
        output_tokens=number(stats, "tokens_received"),
        # Likewise.
        cost_usd=(stats.get("instance_cost") or None) if calls else 0.0,
    )


SPEAKING: dict[str, tuple[str, Callable[[Mapping[str, Any]], Usage]]] = {
    "miniswe": (miniswe.TRAJECTORY, of_mini),
    "sweagent": (sweagent.TRAJECTORY, of_sweagent),
}
"""Agents that leave a count, the file that holds it, and how to read it."""


def spoken(agent: str, directory: Path) -> Usage | None:
    """What this try's agent says; None: it left nothing that says it."""
    if agent not in SPEAKING:
        return None
    name, read = SPEAKING[agent]
    try:
        return read(json.loads((directory / name).read_bytes()))
    except (OSError, ValueError, TypeError, AttributeError):
        return None
