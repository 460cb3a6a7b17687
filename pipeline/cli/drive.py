"""Carry out a plan: refuse early, drive it, write the tables, say how it went."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.outcomes import Blame

if TYPE_CHECKING:
    from pipeline.cli.parts import Parts
    from pipeline.cli.replays import Recording
    from pipeline.cli.voice import Voice
    from pipeline.contracts import Agent, Sandboxes, Scorer
    from pipeline.domain import Attempt, Fault, Instance, Rollout
    from pipeline.ledger import Ledger
    from pipeline.plan import RunPlan
    from pipeline.recipe import Recipe
    from pipeline.runner import Lanes
    from pipeline.schedule import Brake, Stages


STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def stoppable(brake: Brake, voice: Voice) -> Iterator[None]:
    """^C once stops softly, twice at once; TERM and HUP stop at once. Nothing is lost."""

    def interrupt(signum: int, frame: object) -> None:
        brake.press()
        if signum != signal.SIGINT:
            brake.press()
        word = (
            "stopping now"
            if brake.hard.is_set()
            else ("finishing what is nearly done (30 s at most); press ^C again to stop now")
        )
        voice.note(f"{word}; run the same command again to continue")

    old = {s: signal.signal(s, interrupt) for s in STOPPING}
    try:
        yield
    finally:
        for signum, handler in old.items():
            signal.signal(signum, handler)


def carry_out(parts: Parts) -> int:
    """Drive a plan as far as it goes.

    Returns:
        The exit status: 0, 3 or 130.

    Raises:
        UserError: refused before anything started, or the ledger could not be written.
    """
    from pipeline.cli.adopt import adopt_plan
    from pipeline.cli.exports import conclude
    from pipeline.cli.lanes import pay_before
    from pipeline.ledger import Ledger

    with parts.run.held(), Ledger(parts.run.ledger) as ledger:
        pay_before(parts.terms.purse, parts.run)
        for warning in parts.sandboxes.preflight(parts.instances):
            parts.voice.note(warning)
        plan = adopt_plan(parts, ledger)
        parts.sandboxes.reap()
        finished = drive(parts, ledger)
        results = conclude(parts.run, plan, ledger)
    parts.voice.report(results)
    parts.voice.closing(results, parts.run.root, remedy=parts.brake.halted)
    if not finished and not parts.brake.halted:
        return 130
    open_blames = (Blame.INFRA, Blame.AMBIGUOUS, "")
    return 3 if any(row.blame in open_blames for row in results.rows) else 0


def finished(desk: Desk) -> bool:
    """Print a run on which nothing is left to do: no agent, Docker, key or endpoint is needed.

    Raises:
        UserError: another process drives it.
    """
    from pipeline.cli.exports import conclude
    from pipeline.ledger import Ledger
    from pipeline.results import load, read_plan

    if not desk.run.plan.exists() or not desk.run.ledger.exists():
        return False
    plan = read_plan(desk.run)
    if plan.get("digest") != desk.plan.digest or plan["attempts"] != desk.plan.attempts:
        return False
    results = load(desk.run)
    if any(row.blame not in (Blame.NOBODY, Blame.MODEL) for row in results.rows):
        return False
    # Stopped before its gold control: a zero may yet turn out to be nobody's.
    if any(not results.book.entry(attempt).settlements for attempt in desk.plan.grid()):
        return False
    with desk.run.held(), Ledger(desk.run.ledger) as ledger:
        book = ledger.book()
        results = conclude(desk.run, plan, ledger)
    desk.voice.start(desk.plan, book)
    desk.voice.stop()
    desk.voice.report(results)
    desk.voice.closing(results, desk.run.root)
    return True


def drive(parts: Parts, ledger: Ledger) -> bool:
    from pipeline.ledger import Kind
    from pipeline.schedule import Schedule

    execution, brake = parts.plan.execution, parts.brake
    agents = ThreadPoolExecutor(execution.agent_workers, "agent")
    scorers = ThreadPoolExecutor(execution.scorer_workers, "scorer")
    schedule = Schedule(
        parts.plan,
        ledger,
        make_stages(parts),
        executors={Kind.ROLLOUT: agents, Kind.VERDICT: scorers},
        brake=brake,
        landed=parts.voice.landed,
    )
    parts.voice.start(parts.plan, schedule.book)
    finished = False
    try:
        with stoppable(brake, parts.voice):
            finished = schedule.drive()
    finally:
        if not finished:
            brake.soft.set()
            brake.hard.set()
            # What was being started while we looked is found the next time.
            while parts.sandboxes.reap() or not schedule.idle():
                continue
        for executor in (agents, scorers):
            executor.shutdown(wait=True, cancel_futures=True)
        parts.sandboxes.reap()
        parts.voice.stop()
    return finished


def make_stages(parts: Parts) -> Stages:
    from pipeline.domain import Patch
    from pipeline.runner import Runner
    from pipeline.schedule import Stages
    from pipeline.scorer import Scoring
    from pipeline.verdicts import GoldStore, cache_dir

    instances = {item.id: item for item in parts.instances}
    cancelled = parts.brake.hard
    runner = Runner(
        plan=parts.plan,
        run=parts.run,
        instances=instances,
        agent=parts.agent,
        lanes=parts.lanes,
        sandboxes=parts.sandboxes,
        cancelled=cancelled,
    )
    scoring = Scoring(
        run=parts.run,
        instances=instances,
        scorer=parts.scorer,
        gold_patch=lambda instance: Patch(str(instance.row["patch"])),
        store=GoldStore(
            root=cache_dir(),
            grader=parts.scorer.grader,
            sandbox=parts.sandboxes.name,
            limits=parts.plan.sandbox,
        ),
        cancelled=cancelled,
    )

    def roll(attempt: Attempt, number: int) -> Rollout | Fault:
        if parts.agent.asks_model:
            parts.voice.began(attempt, number)
        return runner.roll(attempt, number)

    return Stages(
        roll=roll,
        score=scoring.score,
        gold=scoring.gold,
        kept_gold=scoring.kept_gold,
        has_control=parts.scorer.has_control,
        tries_of=parts.tries_of,
        held=lambda: parts.terms.pressure.is_down,
        stuck=lambda: parts.terms.stuck,
    )


class Desk:
    """One invocation: a resolved plan, its directory, its brake and its voice."""

    def __init__(
        self,
        recipe: Recipe,
        plan: RunPlan,
        logs: Path,
        *,
        quiet: bool,
        replayed: bool = False,
    ) -> None:
        from pipeline.cli.lanes import make_terms
        from pipeline.cli.parts import Place
        from pipeline.cli.voice import Voice
        from pipeline.rundir import RunDir
        from pipeline.schedule import Brake

        self.plan = plan
        # Agents run elsewhere: every path that they get must be whole.
        self.run = RunDir((logs / plan.name).absolute())
        self.brake = Brake()
        self.voice = Voice(quiet=quiet)
        self.terms = make_terms(recipe, say=self.voice.endpoint, halt=self.halt, replayed=replayed)
        self.place = Place(
            kind=recipe.sandbox.kind,
            limits=plan.sandbox,
            mirrors=recipe.sandbox.mirrors,
            run=self.run,
            cancelled=self.brake.hard,
            say=self.voice.note,
        )

    def halt(self, reason: str, remedy: str) -> None:
        """Going on makes no sense: stop as ^C does, and let it be known why."""
        if not self.brake.halted:
            self.brake.halted = remedy
            self.brake.soft.set()
            self.voice.note(f"{reason}: stopping; nothing is lost, {remedy}")

    def carry_out(
        self,
        instances: Sequence[Instance],
        agent: Agent,
        sandboxes: Sandboxes,
        scorer: Scorer,
        lanes: Lanes,
        *,
        recording: Recording | None = None,
    ) -> int:
        """See `carry_out`."""
        from pipeline.cli.parts import Parts

        return carry_out(
            Parts(
                plan=self.plan,
                run=self.run,
                instances=instances,
                agent=agent,
                sandboxes=sandboxes,
                scorer=scorer,
                lanes=lanes,
                terms=self.terms,
                brake=self.brake,
                voice=self.voice,
                replayed=recording.run.root.name if recording else "",
                tries_of=recording.tries_of if recording else None,
            )
        )
