"""Carry out a plan: refuse early, drive it, write the tables, say how it went."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from pipeline.outcomes import Blame

if TYPE_CHECKING:
    from pipeline.brake import Brake
    from pipeline.cli.parts import Parts
    from pipeline.cli.voice import Voice
    from pipeline.contracts import Stages
    from pipeline.domain import Attempt, Fault, Rollout
    from pipeline.ledger import Book, Entry, Ledger, Row
    from pipeline.results import Results
    from pipeline.scorer import Scoring


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
        for warning in (*parts.sandboxes.preflight(parts.instances), *ill_repute(parts)):
            parts.voice.note(warning)
        plan = adopt_plan(parts, ledger)
        parts.sandboxes.reap()
        # Of tries that were killed before their row, say: nobody asks for them any more.
        parts.sandboxes.discard(set(parts.sandboxes.snapshots) - wanted(ledger.book()))
        finished = drive(parts, ledger)
        results = conclude(parts.run, plan, ledger, parts.instances)
    parts.voice.report(results)
    parts.voice.closing(results, parts.run.root, remedy=parts.brake.halted)
    if not finished and not parts.brake.halted:
        return 130
    return exit_status(results)


def ill_repute(parts: Parts) -> list[str]:
    """A warning about instances that others found broken or flaky; never more than that."""
    from pipeline.benchmarks.reported import reported

    said = reported(item.id for item in parts.instances)
    if not said or not parts.scorer.has_control:
        return []
    some = "; ".join(f"{id_}: {words}" for id_, words in list(said.items())[:3])
    more = " …" if len(said) > 3 else ""
    count = f"{len(said)} of these instances {'is' if len(said) == 1 else 'are'}"
    return [f"{count} reported as broken or flaky ({some}{more}); their own gold decides here"]


def exit_status(results: Results) -> int:
    """3: something is infra, unsettled or pending, or no single score should be quoted."""
    open_blames = (Blame.INFRA, Blame.AMBIGUOUS, "")
    unsure = any(row.blame in open_blames for row in results.rows) or results.doubts()
    return 3 if unsure else 0


def drive(parts: Parts, ledger: Ledger) -> bool:
    from pipeline.ledger import Kind
    from pipeline.outcomes import Settlement
    from pipeline.schedule import Schedule

    execution, brake, scoring = parts.plan.execution, parts.brake, make_scoring(parts)

    def landed(row: Row) -> None:
        parts.voice.landed(row, due=sum(schedule.due.values()))
        if isinstance(row.value, Settlement):
            entry = schedule.book.entry(row.attempt)
            parts.sandboxes.discard(snapshots_of(entry) - kept_for(entry))
            scoring.settled(row.attempt, entry.rollout, entry.verdict, row.value)

    agents = ThreadPoolExecutor(execution.agent_workers, "agent")
    scorers = ThreadPoolExecutor(execution.scorer_workers, "scorer")
    schedule = Schedule(
        parts.plan,
        ledger,
        make_stages(parts, scoring),
        executors={Kind.ROLLOUT: agents, Kind.VERDICT: scorers},
        brake=brake,
        landed=landed,
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
        parts.voice.left(parts.sandboxes.left)
    return finished


def snapshots_of(entry: Entry) -> set[str]:
    """The machine that an attempt has handed in, if it has."""
    from pipeline.domain import Rollout, Snapshot

    rollout = entry.rollout
    handed = rollout.submission if isinstance(rollout, Rollout) else None
    return {handed.image} if isinstance(handed, Snapshot) else set()


def kept_for(entry: Entry) -> set[str]:
    """The same, unless it is settled for or against the model: nobody grades it again."""
    settlement = entry.settlement
    over = settlement is not None and settlement.blame in (Blame.NOBODY, Blame.MODEL)
    return set() if over else snapshots_of(entry)


def wanted(book: Book) -> set[str]:
    """Machines that are still to be graded, perhaps again."""
    return set().union(*map(kept_for, book.entries.values()))


def make_scoring(parts: Parts) -> Scoring:
    """The second stage, with the store that this machine's runs share."""
    from pipeline.cli.parts import gold_of
    from pipeline.scorer import Scoring
    from pipeline.verdicts import Store, cache_dir, this_machine

    store = Store(
        root=cache_dir(),
        grader=parts.scorer.grader,
        sandbox=parts.sandboxes.name,
        limits=parts.plan.sandbox,
        machine=this_machine(),
    )
    store.sweep()
    return Scoring(
        run=parts.run,
        instances={item.id: item for item in parts.instances},
        scorer=parts.scorer,
        gold_of=gold_of,
        store=store,
        cancelled=parts.brake.hard,
        terms=parts.plan.trust,
        seed=parts.plan.digest,
        rescore=parts.rescore,
    )


def make_stages(parts: Parts, scoring: Scoring) -> Stages:
    from pipeline.contracts import Stages
    from pipeline.runner import Runner

    runner = Runner(
        plan=parts.plan,
        run=parts.run,
        instances=scoring.instances,
        agent=parts.agent,
        lanes=parts.lanes,
        sandboxes=parts.sandboxes,
        cancelled=parts.brake.hard,
    )

    def roll(attempt: Attempt, number: int) -> Rollout | Fault:
        if parts.agent.asks_model:
            parts.voice.began(attempt, number)
        return runner.roll(attempt, number)

    return Stages(
        roll=roll,
        score=scoring.score,
        look=scoring.look,
        kept=scoring.kept_controls,
        has_control=parts.scorer.has_control,
        tries_of=parts.tries_of,
        held=lambda: parts.terms.pressure.is_down,
        stuck=lambda: parts.terms.stuck,
        rescore=parts.rescore,
    )
