"""Ask one endpoint for no more than it can give: all lanes together, and nothing while it is down.

Three valves before every request: how many are in flight (additive increase,
multiplicative decrease on 429 and overload, as TCP does since Jacobson 1988),
how many requests and tokens a minute, and a circuit breaker. All of it lives in
the gateway's one event loop, so nothing here needs a lock.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from pipeline.recipe import GatewayRecipe

OPENS_AFTER = 5
"""Failed requests in a row, of two attempts at least: one alone may be at fault itself."""
HALTS_AFTER = 3
"""Attempts in a row that were refused for good: the next ones would be too."""
PROBE_SECONDS = 5.0
LONGEST_PROBE_SECONDS = 60.0
MINUTE = 60.0
NEVER = math.inf


class Down(Exception):
    """Nobody may ask now, and nobody waits for ever."""


@dataclass(slots=True)
class Turn:
    """One request's leave to be sent."""

    at: float
    tokens: int
    """Reserved; corrected once the server has counted."""
    over: bool = False


@dataclass(slots=True)
class Pressure:
    """What all lanes ask of one endpoint."""

    settings: GatewayRecipe = field(default_factory=GatewayRecipe)
    say: Callable[[str], None] = lambda text: None
    """Told when the endpoint goes down, and when it is back."""
    halt: Callable[[str, str], None] = lambda reason, remedy: None
    """Told why going on makes no sense, and what would mend it."""
    clock: Callable[[], float] = time.monotonic
    limit: float = 0.0
    """Requests in flight, at most; adapts."""
    in_flight: int = 0
    down_since: float | None = None
    _probe_at: float = 0.0
    _probe_seconds: float = PROBE_SECONDS
    _probe: Turn | None = None
    """The one request that may be out while the endpoint is down."""
    _cut_at: float = 0.0
    _row: list[Hashable] = field(default_factory=list)
    """Whose requests failed since the last answer."""
    _row_since: float = 0.0
    _refused: set[Hashable] = field(default_factory=set)
    _queue: deque[asyncio.Event] = field(default_factory=deque)
    _minute: deque[Turn] = field(default_factory=deque)
    _said: str = ""
    _told_at: float = -NEVER

    def __post_init__(self) -> None:
        self.limit = self.limit or float(self.settings.in_flight)

    @property
    def is_down(self) -> bool:
        return self.down_since is not None

    async def turn(self, tokens: int, *, patient_for: float = NEVER) -> Turn:
        """Wait for leave to send one request; first come, first served.

        Raises:
            Down: the endpoint has been down for longer than the caller waits.
        """
        if self._queue or self._wait_seconds(tokens) > 0:
            await self._stand_in_line(tokens, patient_for)
        self.in_flight += 1
        turn = Turn(self.clock(), tokens)
        self._probe = turn if self.is_down else None
        if self.settings.requests_a_minute or self.settings.tokens_a_minute:
            self._minute.append(turn)
        return turn

    async def _stand_in_line(self, tokens: int, patient_for: float) -> None:
        gives_up_at = self.clock() + patient_for
        place = asyncio.Event()
        self._queue.append(place)
        try:
            while True:
                first = self._queue[0] is place
                wait = self._wait_seconds(tokens) if first else NEVER
                if wait <= 0:
                    return
                if self.is_down:
                    self._look_at_the_clock()
                    left = gives_up_at - self.clock()
                    if left <= 0:
                        raise Down(f"the endpoint has been down for {self.down_seconds:.0f} s")
                    wait = min(wait, left)
                place.clear()
                try:
                    async with asyncio.timeout(None if wait == NEVER else wait):
                        await place.wait()
                except TimeoutError:
                    continue
        finally:
            self._queue.remove(place)
            self._wake()

    def _wake(self) -> None:
        """The first in line looks again; all do where the endpoint has just gone down."""
        for place in self._queue if self.is_down else list(self._queue)[:1]:
            place.set()

    def _wait_seconds(self, tokens: int) -> float:
        """How long the first in line must wait at least; NEVER: until something changes."""
        now = self.clock()
        if self.is_down:
            return NEVER if self._probe else self._probe_at - now
        if self.in_flight >= max(1, int(self.limit)):
            return NEVER
        return self._rate_wait(now, tokens)

    def _rate_wait(self, now: float, tokens: int) -> float:
        most_requests, most = self.settings.requests_a_minute, self.settings.tokens_a_minute
        while self._minute and now - self._minute[0].at >= MINUTE:
            self._minute.popleft()
        if not self._minute:
            return 0.0
        used = sum(turn.tokens for turn in self._minute)
        full = (most_requests and len(self._minute) >= most_requests) or (
            most and used + tokens > most
        )
        return self._minute[0].at + MINUTE - now if full else 0.0

    def answered(self, turn: Turn, *, tokens: int | None = None, useful: bool = True) -> None:
        """The endpoint works: it answered, be it with a limit of the model's or with a no."""
        if tokens is not None:
            turn.tokens = tokens
        if useful:
            self.limit = min(self.limit + 1 / self.limit, float(self.settings.in_flight))
            self._refused.clear()
        self._row.clear()
        self._probe_seconds = PROBE_SECONDS
        if self.is_down:
            seconds, self.down_since = self.down_seconds, None
            self.say(f"the endpoint answers again after {seconds:.0f} s")
        self.leave(turn)

    def failed(self, turn: Turn, whose: Hashable, why: str, *, overloaded: bool) -> None:
        """No usable answer, but another may come."""
        now = self.clock()
        if overloaded and turn.at >= self._cut_at:
            # One cut for all that were under way together: they met the same wall.
            self.limit, self._cut_at = max(1.0, self.limit / 2), now
            if now - self._told_at >= MINUTE:
                self._told_at = now
                most = f"{int(self.limit)} request{'' if int(self.limit) == 1 else 's'}"
                self.say(f"the endpoint asks for less ({why[:120]}): {most} at a time for now")
        if not self._row:
            self._row_since = turn.at
        self._row.append(whose)
        if self.is_down:
            # Others were under way when the endpoint went down: nothing new.
            if turn is self._probe:
                self._probe_seconds = min(self._probe_seconds * 2, LONGEST_PROBE_SECONDS)
                self._probe_at = now + self._probe_seconds
                self._look_at_the_clock()
        elif len(self._row) >= OPENS_AFTER and len(set(self._row)) > 1:
            self.down_since, self._probe_at, self._said = self._row_since, now + PROBE_SECONDS, why
            self.say(
                f"the endpoint is down ({why}): the run pauses and goes on when it answers, "
                f"for {self.settings.deadline_seconds:.0f} s at most"
            )
        self.leave(turn)

    def refused(self, whose: Hashable, why: str) -> None:
        """An answer that asking again will not change: a wrong key, a wrong address."""
        self._refused.add(whose)
        if len(self._refused) >= HALTS_AFTER:
            self.halt(
                f"{len(self._refused)} attempts in a row were refused: {why}",
                "mend that (a valid key, say) and run the same command again",
            )

    def leave(self, turn: Turn) -> None:
        """A request is over, whatever came of it; said twice, it is over once."""
        if turn.over:
            return
        turn.over = True
        self.in_flight -= 1
        if self._probe is turn:
            self._probe = None
        self._wake()

    @property
    def down_seconds(self) -> float:
        return self.clock() - self.down_since if self.down_since is not None else 0.0

    def _look_at_the_clock(self) -> None:
        if self.down_seconds > self.settings.deadline_seconds:
            self.halt(
                f"the endpoint has been down for {self.down_seconds:.0f} s ({self._said})",
                "run the same command again when it answers",
            )
