"""Open the gateway for the life of a run, and a lane for every try."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from pipeline.contracts import Endpoint
    from pipeline.domain import Attempt, Limits
    from pipeline.gateway.lanes import Source
    from pipeline.runner import Lanes

SCRIPTED_BACKOFF_SECONDS = 0.1
Sources: TypeAlias = "Callable[[Attempt, int], Source]"


class Unasked:
    """The lane of an agent that asks no model."""

    base_url = ""
    model = "none"
    ending = None
    waited_seconds = 0.0

    @property
    def usage(self):  # type: ignore[no-untyped-def]
        from pipeline.domain import Usage

        return Usage()


@contextlib.contextmanager
def open_lanes(source: Sources | None, *, model: str, limits: Limits) -> Iterator[Lanes]:
    """Lanes for every try; without a source, of nothing."""
    if source is None:
        yield lambda attempt, number, tape: contextlib.nullcontext(Unasked())
        return
    from pipeline.gateway import Gateway, Script

    with Gateway() as gateway:

        def lane(
            attempt: Attempt, number: int, tape: Path
        ) -> contextlib.AbstractContextManager[Endpoint]:
            found = source(attempt, number)
            # Nobody waits for a script to recover.
            backoff = SCRIPTED_BACKOFF_SECONDS if isinstance(found, Script) else 1.0
            return gateway.lane(
                found,
                model=model,
                tape=tape,
                cost_limit_usd=limits.cost_usd,
                backoff_seconds=backoff,
            )

        yield lane
