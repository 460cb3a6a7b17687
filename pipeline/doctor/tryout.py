"""One small try through the whole pipe, as its tape and its trajectory tell it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.doctor.dialogue import Exchange
from pipeline.domain import Fault, Rollout, Step
from pipeline.gateway import tapes
from pipeline.gateway.replies import CHAT, Reading, Reply

OURS = "passone"
"""The type of an error that the gateway wrote, for want of an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tryout:
    """What came of letting the agent do one thing."""

    instance_id: str
    image: str
    place: str
    """`docker` or `local`."""
    value: Rollout | Fault
    exchanges: Sequence[tapes.Exchange]
    """Every sending of every request."""
    steps: Sequence[Step]
    history: str = ""
    """How requests follow from each other, as an export says it; empty: nothing was said."""
    replies: Sequence[Mapping[str, Any]] = ()
    """What an export would know of each reply."""
    files: str = ""
    """Where the agent's files are."""

    @property
    def turns(self) -> list[Exchange]:
        """What came of each request of the agent's, at its last sending."""
        return [heard_in(one) for one in self._last.values()]

    @property
    def again(self) -> list[int]:
        """How often each request had been sent before."""
        return [one.again for one in self._last.values()]

    @property
    def _last(self) -> dict[int, tapes.Exchange]:
        return {one.ordinal: one for one in self.exchanges}

    @property
    def acted(self) -> list[Step]:
        """The steps in which something was run."""
        return [step for step in self.steps if step.action.strip()]

    @property
    def told(self) -> str:
        """What the second request adds to the first, as JSON; empty: there was none."""
        requests = [one.conversation for one in self._last.values()]
        if len(requests) < 2:
            return ""
        return json.dumps(requests[1][len(requests[0]) :], ensure_ascii=False)


def heard_in(one: tapes.Exchange) -> Exchange:
    """A line of a tape as the doctor reads what it asks itself."""
    answer = one.answer
    text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
    error = answer.get("error") if isinstance(answer, dict) else None
    silent = isinstance(error, dict) and error.get("type") == OURS
    readable = one.api == CHAT and isinstance(answer, dict)
    return Exchange(
        request=one.request,
        reply=None if silent else Reply(one.status, text.encode(errors="replace")),
        seconds=one.seconds,
        first_seconds=one.first_seconds,
        tree=answer if readable else None,
        reading=Reading(one.ending),
    )
