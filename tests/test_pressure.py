"""One endpoint is asked for what it can give: in a loop whose time passes only while all wait."""

from __future__ import annotations

import asyncio
import contextlib
import selectors
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from pipeline.gateway.pressure import Down, Pressure, Turn
from pipeline.recipe import GatewayRecipe


class Jump(selectors.SelectSelector):
    """Nothing happens from outside: it is at once whenever the next thing is due."""

    now = 1000.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise AssertionError("everybody waits for ever")
        self.now += timeout
        return super().select(0)


class Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.jump = Jump()
        super().__init__(self.jump)

    def time(self) -> float:
        return self.jump.now


@dataclass
class World:
    """One endpoint's pressure, and what it said."""

    loop: asyncio.AbstractEventLoop
    settings: dict[str, Any]
    said: list[str] = field(default_factory=list)
    halts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.began = self.loop.time()
        self.pressure = Pressure(
            GatewayRecipe(**self.settings),
            say=self.said.append,
            halt=lambda *words: self.halts.append(words[0]),
            clock=self.loop.time,
        )

    @property
    def now(self) -> float:
        return round(self.loop.time() - self.began, 3)

    async def turns(self, number: int, tokens: int = 0) -> list[Turn]:
        return [await self.pressure.turn(tokens) for _ in range(number)]

    def fail(self, turn: Turn, whose: str = "a", *, overloaded: bool = False) -> None:
        self.pressure.failed(turn, whose, "503", overloaded=overloaded)

    async def go_down(self) -> None:
        for number, turn in enumerate(await self.turns(5)):
            self.fail(turn, "ab"[number % 2])
        assert self.pressure.is_down

    async def ask(self, seconds: float = 1.0, tokens: int = 0) -> float:
        """One request that is answered; when it was sent."""
        turn = await self.pressure.turn(tokens)
        sent = self.now
        await asyncio.sleep(seconds)
        self.pressure.answered(turn, tokens=tokens or None)
        return sent


def within(story: Callable[[World], Awaitable[None]], **settings: Any) -> World:
    """Live through a story; afterwards nobody is in flight or in line."""
    with asyncio.Runner(loop_factory=Loop) as runner:
        world = World(runner.get_loop(), settings)
        runner.run(asyncio.wait_for(story(world), 100_000))
    assert world.pressure.in_flight == 0
    assert not world.pressure._queue
    return world


def test_a_cut_halves_once_for_all_that_were_under_way_together() -> None:
    async def story(world: World) -> None:
        for number, limit in ((10, 32), (3, 16)):
            turns = await world.turns(number)
            for turn in turns:
                await asyncio.sleep(1)
                world.fail(turn, overloaded=True)
                assert world.pressure.limit == limit
            await asyncio.sleep(1)

    within(story, in_flight=64)


def test_a_limit_never_falls_below_one_and_one_is_enough_to_recover() -> None:
    async def story(world: World) -> None:
        for _ in range(20):
            world.fail((await world.turns(1))[0], overloaded=True)
            await asyncio.sleep(1)
        assert world.pressure.limit == 1
        await asyncio.gather(*(world.ask() for _ in range(40)))
        assert world.pressure.limit > 5

    within(story, in_flight=16)


def test_a_limit_grows_by_one_a_round_and_not_beyond_the_setting() -> None:
    async def story(world: World) -> None:
        world.fail((await world.turns(1))[0], overloaded=True)
        assert world.pressure.limit == 4
        await asyncio.gather(*(world.ask() for _ in range(4)))
        assert world.pressure.limit == pytest.approx(5, abs=0.2)
        await asyncio.gather(*(world.ask() for _ in range(200)))
        assert world.pressure.limit == 8

    within(story, in_flight=8)


def test_a_failure_that_is_no_overload_leaves_the_limit() -> None:
    async def story(world: World) -> None:
        for turn in await world.turns(3):
            world.fail(turn)
        assert world.pressure.limit == 8

    within(story, in_flight=8)


def test_no_more_are_in_flight_than_allowed_and_the_first_come_goes_first() -> None:
    order: list[int] = []
    most = 0

    async def one(world: World, number: int) -> None:
        nonlocal most
        turn = await world.pressure.turn(0)
        order.append(number)
        most = max(most, world.pressure.in_flight)
        await asyncio.sleep(1 + number % 3)
        world.pressure.answered(turn)

    async def story(world: World) -> None:
        await asyncio.gather(*(one(world, number) for number in range(20)))

    within(story, in_flight=3)
    assert order == list(range(20))
    assert most == 3


def test_who_comes_late_does_not_push_in() -> None:
    order: list[str] = []

    async def one(world: World, name: str) -> None:
        turn = await world.pressure.turn(0)
        order.append(name)
        await asyncio.sleep(1)
        world.pressure.answered(turn)

    async def story(world: World) -> None:
        (held,) = await world.turns(1)
        first = asyncio.create_task(one(world, "first"))
        await asyncio.sleep(1)
        world.pressure.answered(held)
        # There is room now, but somebody was there before.
        second = asyncio.create_task(one(world, "second"))
        await asyncio.gather(first, second)

    within(story, in_flight=1)
    assert order == ["first", "second"]


def test_requests_a_minute_are_kept() -> None:
    async def story(world: World) -> None:
        sent = await asyncio.gather(*(world.ask() for _ in range(7)))
        assert sent == pytest.approx([0, 0, 0, 60, 60, 60, 120], abs=0.1)

    within(story, requests_a_minute=3)


def test_requests_a_minute_are_any_minutes_not_the_clocks() -> None:
    async def story(world: World) -> None:
        for pause in (0, 50, 5):
            await asyncio.sleep(pause)
            await world.ask(0)
        assert world.now == 60

    within(story, requests_a_minute=2)


def test_tokens_a_minute_are_those_that_the_server_counted() -> None:
    async def story(world: World) -> None:
        turn = await world.pressure.turn(10)
        world.pressure.answered(turn, tokens=1000)
        assert await world.ask() == pytest.approx(60, abs=0.1)

    within(story, tokens_a_minute=500)


def test_a_reservation_that_was_too_large_is_given_back() -> None:
    async def story(world: World) -> None:
        turn = await world.pressure.turn(1000)
        world.pressure.answered(turn, tokens=10)
        assert await world.ask() == 0

    within(story, tokens_a_minute=500)


def test_two_requests_that_do_not_fit_into_one_minute_are_a_minute_apart() -> None:
    async def story(world: World) -> None:
        sent = await asyncio.gather(world.ask(tokens=900), world.ask(tokens=900))
        assert sent == pytest.approx([0, 60], abs=0.1)

    within(story, tokens_a_minute=1000)


def test_one_request_of_more_than_a_minutes_tokens_is_sent_all_the_same() -> None:
    async def story(world: World) -> None:
        assert await world.ask(tokens=5000) == 0

    within(story, tokens_a_minute=1000)


@pytest.mark.parametrize(
    ("whose", "opens"),
    [
        ("ababa", True),
        ("aaaab", True),
        ("abab", False),
        ("aaaaaaaaaaaa", False),
        ("aaaa.bbbb", False),
        ("ab.ababa", True),
    ],
)
def test_a_breaker_opens_after_five_failures_in_a_row_of_two_attempts(
    whose: str, opens: bool
) -> None:
    async def story(world: World) -> None:
        for name in whose:
            (turn,) = await world.turns(1)
            if name == ".":
                world.pressure.answered(turn)
            else:
                world.fail(turn, name)
        assert world.pressure.is_down is opens
        assert len(world.said) == opens

    within(story)


def test_a_breaker_says_why_it_is_open_and_when_it_is_closed() -> None:
    async def story(world: World) -> None:
        await world.go_down()
        assert "the endpoint is down (503)" in world.said[0]
        await world.ask()
        assert world.said[1:] == ["the endpoint answers again after 6 s"]
        assert not world.pressure.is_down
        assert await asyncio.gather(*(world.ask() for _ in range(9))) == [6] * 9

    assert within(story).halts == []


def test_one_at_a_time_looks_whether_an_endpoint_is_back() -> None:
    sent: list[float] = []

    async def one(world: World, number: int) -> None:
        turn = await world.pressure.turn(0)
        assert world.pressure.in_flight == 1
        sent.append(world.now)
        await asyncio.sleep(2)
        if world.now < 40:
            world.fail(turn, f"n{number}")
        else:
            world.pressure.answered(turn)

    async def story(world: World) -> None:
        await world.go_down()
        tasks = [asyncio.create_task(one(world, number)) for number in range(4)]
        await asyncio.gather(*tasks)

    within(story)
    # After 5 s, then twice as long each time, after each failure.
    assert sent == pytest.approx([5, 17, 39, 41], abs=0.1)


def test_what_was_under_way_when_an_endpoint_went_down_does_not_put_the_first_look_off() -> None:
    """64 in flight meet the same short outage: five open the breaker, the rest come after."""

    async def story(world: World) -> None:
        for number, turn in enumerate(await world.turns(64)):
            world.fail(turn, "ab"[number % 2])
        assert await world.ask() == pytest.approx(5, abs=0.1)

    within(story, in_flight=64)


def test_an_answer_to_what_was_under_way_closes_the_breaker() -> None:
    async def story(world: World) -> None:
        *failing, last = await world.turns(6)
        for number, turn in enumerate(failing):
            world.fail(turn, "ab"[number % 2])
        waiting = asyncio.create_task(world.ask())
        await asyncio.sleep(1)
        world.pressure.answered(last)
        assert await waiting == 1

    within(story)


def test_a_look_that_is_cancelled_lets_the_next_one_look() -> None:
    async def story(world: World) -> None:
        await world.go_down()
        probe = asyncio.create_task(world.ask(10_000))
        waiting = asyncio.create_task(world.ask())
        await asyncio.sleep(6)
        probe.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await probe
        # As a call does whose try is over.
        assert world.pressure._probe is not None
        world.pressure.leave(world.pressure._probe)
        assert await waiting == pytest.approx(6, abs=0.1)

    within(story)


def test_a_cancelled_waiter_does_not_wedge_the_line() -> None:
    async def story(world: World) -> None:
        held = await world.turns(2)
        waiting = [asyncio.create_task(world.ask()) for _ in range(6)]
        await asyncio.sleep(1)
        for place in (0, 3, 5):
            waiting[place].cancel()
        await asyncio.sleep(1)
        for turn in held:
            world.pressure.leave(turn)
        # Woken and cancelled at the same moment.
        waiting[1].cancel()
        done = await asyncio.gather(*waiting, return_exceptions=True)
        assert [isinstance(one, asyncio.CancelledError) for one in done] == [
            True,
            True,
            False,
            True,
            False,
            True,
        ]

    within(story, in_flight=2)


def test_all_waiters_may_be_cancelled_while_an_endpoint_is_down() -> None:
    async def story(world: World) -> None:
        await world.go_down()
        waiting = [asyncio.create_task(world.ask()) for _ in range(5)]
        await asyncio.sleep(1)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert await world.ask() == pytest.approx(5, abs=0.1)

    within(story)


def test_nobody_waits_for_longer_than_its_patience() -> None:
    async def story(world: World) -> None:
        async def ask(patience: float) -> float:
            with pytest.raises(Down, match=r"has been down for \d+ s"):
                await world.pressure.turn(0, patient_for=patience)
            return world.now

        await world.go_down()
        (probe,) = [await world.pressure.turn(0)]
        gone = await asyncio.gather(*(ask(patience) for patience in (30.0, 10.0, 20.0)))
        assert gone == pytest.approx([35, 15, 25], abs=0.1)
        world.pressure.answered(probe)

    within(story)


def test_who_stood_in_line_before_an_endpoint_went_down_gives_up_like_all() -> None:
    async def story(world: World) -> None:
        held = await world.turns(5)

        async def ask() -> float:
            with pytest.raises(Down):
                await world.pressure.turn(0, patient_for=8.0)
            return world.now

        waiting = [asyncio.create_task(ask()) for _ in range(2)]
        await asyncio.sleep(4)
        for number, turn in enumerate(held):
            world.fail(turn, "ab"[number % 2])
        # A third looks first and hangs.
        assert await asyncio.gather(*waiting) == pytest.approx([8, 8], abs=0.1)

    within(story, in_flight=5)


def test_a_run_halts_once_an_endpoint_has_been_down_for_the_deadline() -> None:
    async def story(world: World) -> None:
        await world.go_down()
        while not world.halts:
            turn = await world.pressure.turn(0)
            world.fail(turn)
            assert world.now < 250
        assert world.now > 100

    world = within(story, deadline_seconds=100)
    assert "has been down for" in world.halts[0]
    assert "503" in world.halts[0]


def test_three_attempts_refused_in_a_row_halt_a_run() -> None:
    async def story(world: World) -> None:
        for name in "aabb":
            world.pressure.refused(name, "401")
        assert world.halts == []
        world.pressure.refused("c", "401")

    assert within(story).halts == ["3 attempts in a row were refused: 401"]


def test_an_answer_in_between_says_that_attempts_differ() -> None:
    async def story(world: World) -> None:
        for name in "ab.cd":
            if name == ".":
                await world.ask()
            else:
                world.pressure.refused(name, "401")

    assert within(story).halts == []


def test_an_endpoint_that_comes_back_refusing_does_not_use_up_every_attempt() -> None:
    """503 at first, 401 from then on: it answers, so it is not down, and it refuses all."""

    async def story(world: World) -> None:
        await world.go_down()
        for number in range(10):
            turn = await world.pressure.turn(0)
            # As a lane does with an answer that asking again will not change.
            world.pressure.leave(turn)
            world.pressure.refused(number, "401")
            if world.halts:
                break
        assert world.halts
        assert number == 2

    within(story)


def outcomes() -> Sequence[Callable[[World, Turn, int], None]]:
    return (
        lambda world, turn, n: world.pressure.answered(turn, tokens=5),
        lambda world, turn, n: world.fail(turn, f"n{n}", overloaded=n % 2 == 0),
        lambda world, turn, n: world.pressure.leave(turn),
    )


@pytest.mark.parametrize("settings", [{}, {"requests_a_minute": 9}, {"tokens_a_minute": 40}])
def test_whatever_comes_of_them_nobody_stays_in_flight(settings: dict[str, int]) -> None:
    async def one(world: World, number: int) -> None:
        try:
            turn = await world.pressure.turn(4, patient_for=200.0 + number)
        except Down:
            return
        try:
            await asyncio.sleep(number % 7)
        except asyncio.CancelledError:
            world.pressure.leave(turn)
            raise
        outcomes()[number * 7919 % 3](world, turn, number)

    async def story(world: World) -> None:
        tasks = [asyncio.create_task(one(world, number)) for number in range(60)]
        for task in tasks[::9]:
            await asyncio.sleep(1)
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await world.ask()

    within(story, in_flight=4, **settings)
