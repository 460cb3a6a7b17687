"""Hold every request against the plan's sampling: an agent that drops temperature is found out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.domain import Sampling
from pipeline.gateway.replies import CHAT

LENGTH = {CHAT: ("max_tokens", "max_completion_tokens"), "responses": ("max_output_tokens",)}


@dataclass(frozen=True, slots=True)
class Held:
    """A request as it may leave, and how it came."""

    request: dict[str, Any]
    strays: tuple[str, ...]
    """What lacked or differed from the plan, and still does unless it was corrected."""
    as_planned: bool
    """The request as it leaves carries the plan's sampling."""


def hold(request: Mapping[str, Any], sampling: Sampling, api: str) -> Held:
    """Compare, and correct where the plan says so.

    `seed` and `max_tokens` are the plan's alone to set, so they are always put in.
    """
    body = dict(request)
    if sampling.seed is not None:
        body["seed"] = sampling.seed
    if sampling.max_tokens is not None:
        names = LENGTH[api]
        found = [name for name in names if name in body] or [names[0]]
        body |= dict.fromkeys(found, sampling.max_tokens)
    wanted = {"temperature": sampling.temperature, "top_p": sampling.top_p}
    strays = tuple(
        f"{name} {body.get(name, 'absent')} instead of {value:g}"
        for name, value in wanted.items()
        if not matches(body.get(name), value)
    )
    if strays and sampling.on_wire == "correct":
        body |= wanted
    return Held(body, strays, not strays or sampling.on_wire == "correct")


def matches(value: object, wanted: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == wanted
