"""Find the tapes of a recorded run, and refuse what they cannot answer for."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.outcomes import UserError
from pipeline.wording import count

if TYPE_CHECKING:
    from pipeline.domain import Attempt
    from pipeline.gateway import Replay
    from pipeline.gateway.replies import Ending
    from pipeline.ledger import Book, Row
    from pipeline.plan import RunPlan
    from pipeline.rundir import RunDir


@dataclass(frozen=True, slots=True)
class Recording:
    """Another run's tries, to be played again."""

    run: RunDir
    book: Book
    strict: bool

    def tries_of(self, attempt: Attempt) -> int:
        return len(self.book.entry(attempt).rollouts)

    def source(self, attempt: Attempt, number: int) -> Replay:
        """The answers of one try.

        Raises:
            UserError: its tape is another's, or is gone.
        """
        from pipeline.gateway import Replay, find_tape, read_tape

        row = self.book.entry(attempt).rollouts[number - 1]
        path = find_tape(self.run.attempt(attempt, number))
        tape = read_tape(path) if path else None
        if tape is not None:
            whose = (tape.header.instance_id, tape.header.attempt, tape.header.try_number)
            if whose != (*attempt, number):
                raise UserError(f"{tape.path}: is the tape of {whose}, not of this try")
        return Replay.of(tape, ending_of(row), strict=self.strict)


def ending_of(row: Row) -> Ending:
    """What a recorded try ended in, where its agent did not end it."""
    from pipeline.domain import Fault, Rollout, Stop

    if isinstance(row.value, Fault):
        return row.value
    timed_out = isinstance(row.value, Rollout) and row.value.stop is Stop.TIME_LIMIT
    return Stop.TIME_LIMIT if timed_out else None


def open_recording(run: RunDir, plan: RunPlan, target: RunDir, *, strict: bool) -> Recording:
    """A run that can stand in for the endpoint of this plan.

    Raises:
        UserError: no such run, another experiment, tries that were not recorded, or
            the run that the replay itself would be written to.
    """
    from pipeline.cli.adopt import differences
    from pipeline.ledger import Ledger
    from pipeline.plan import attempts_in_words
    from pipeline.results import read_plan

    if run.root.resolve() == target.root.resolve():
        raise UserError(
            f"{run.root}: a replay needs a run of its own: --set name={plan.name}-replayed"
        )
    recorded = read_plan(run)
    if recorded.get("digest") != plan.digest:
        identity = json.loads(json.dumps(plan.identity, default=str))
        keys = ", ".join(differences(recorded.get("identity", {}), identity)) or "its form"
        raise UserError(
            f"{run.root}: holds tapes of another plan ({recorded.get('digest')}, this one is "
            f"{plan.digest}); they differ in {keys}. Replay it with the config that recorded it"
        )
    with Ledger(run.ledger, read_only=True) as ledger:
        recording = Recording(run, ledger.book(), strict)
    needed = (attempt for attempt in plan.grid() if attempt.number <= plan.least)
    without = [attempt for attempt in needed if not recording.tries_of(attempt)]
    if without:
        names = ", ".join(f"{id_} #{number}" for id_, number in without[:3])
        raise UserError(
            f"{run.root}: recorded no try for {count(len(without), 'attempt')} ({names}); "
            f"finish that run, or replay fewer attempts: --set {attempts_in_words(recorded)}"
        )
    return recording


def check_tapes(recording: Recording, plan: RunPlan) -> list[str]:
    """Warnings about tapes that are cut.

    Raises:
        UserError: an answer was counted, and its tape is gone or cannot be read.
    """
    from pipeline.domain import Fault, Rollout
    from pipeline.gateway import find_tape, read_tape

    warnings = []
    for attempt in plan.grid():
        for number, row in enumerate(recording.book.entry(attempt).rollouts, start=1):
            place = recording.run.attempt(attempt, number)
            asked = isinstance(row.value, Rollout | Fault) and row.value.usage.requests
            path = find_tape(place)
            if asked and path is None:
                raise UserError(f"{place}: its tape is gone; without it there is no replay")
            tape = read_tape(path) if path else None
            if tape and (tape.attempt, tape.header.try_number) != (attempt, number):
                whose = f"{tape.header.instance_id} #{tape.header.attempt}"
                raise UserError(
                    f"{tape.path}: is the tape of {whose} try {tape.header.try_number}, "
                    "not of this try; was it copied there?"
                )
            if tape and tape.broken:
                warnings.append(f"{tape.path} is {tape.broken}; its replay ends there")
    return warnings
