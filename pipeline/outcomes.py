"""Say who is to blame for every outcome: this file, and no other.

A model's failure is a value (`Rollout`, `Verdict`), a broken part of ours is a
`Fault`: the type decides, never a text that the model can write. What could be
either is *ambiguous* until the gold control, scored in the same image under the
same limits, settles it. The errors of the package are drawn here too:

    PipelineError
    ├── UserError    the caller can mend it: exit status 2
    └── InfraError   becomes a Fault at the border of a stage
"""

from __future__ import annotations

import errno
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeAlias

from pipeline.domain import (
    Cause,
    Departure,
    Fault,
    Finding,
    Limits,
    Rollout,
    Stop,
    Usage,
    Verdict,
)
from pipeline.trust import Trust


class PipelineError(Exception):
    """Whatever this package raises on purpose."""


class UserError(PipelineError):
    """Names the thing, the place and the remedy."""


class InfraError(PipelineError):
    """A part of ours broke; says nothing about the model."""

    def __init__(
        self, cause: Cause, detail: str, *, died: bool = False, final: bool = False
    ) -> None:
        super().__init__(detail)
        self.fault = Fault(cause=cause, detail=detail, died=died, final=final)
        self.cause, self.detail = cause, detail


RETRYABLE: dict[Cause, bool] = {
    Cause.IMAGE: True,
    Cause.SANDBOX: True,
    Cause.INSTANCE: False,
    Cause.ENDPOINT: True,
    Cause.CREDENTIALS: False,
    Cause.AGENT_CRASH: True,
    Cause.GRADER: False,
    Cause.DISK: False,
    Cause.UNKNOWN: False,
}
"""Whether another try within one invocation can help; the next takes up every fault."""
HUNG_SECONDS = 110.0
"""Of silence before an agent that has limits of its own was killed all the same."""


def fault_of(error: BaseException, *, seconds: float, spent: Sequence[Usage] = ()) -> Fault:
    """The fault that an exception is, at the border of a stage."""
    usage = sum(spent, Usage())
    seconds = round(seconds, 3)
    if isinstance(error, InfraError):
        return replace(error.fault, usage=usage, seconds=seconds)
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return Fault(cause=Cause.DISK, detail=str(error), usage=usage, seconds=seconds)
    # Our bug: loud, kept whole, and never the model's.
    detail = "".join(traceback.format_exception(error))[-4000:]
    return Fault(cause=Cause.UNKNOWN, detail=detail, usage=usage, seconds=seconds)


def attribute(
    departure: Departure,
    *,
    ending: Stop | Fault | None,
    usage: Usage,
    limits: Limits,
    seconds: float,
    waited_seconds: float,
    silent_seconds: float = 0.0,
    asked: bool = True,
) -> Rollout:
    """Make a rollout of how an agent left and of what its endpoint did.

    Args:
        ending: what ended the conversation, as the gateway saw it; None: nothing.
        seconds: wall clock of the try, of which `waited_seconds` were the gateway's.
        silent_seconds: how long it had asked nothing when it ended.
        asked: whether this agent asks a model at all.

    Raises:
        InfraError: it left because a part of ours broke; whatever patch it
            submitted on its way out is not the model's.
    """
    meaning = departure.meaning
    if ending is not None:
        if isinstance(ending, Fault):
            raise InfraError(ending.cause, ending.detail, died=ending.died, final=ending.final)
        meaning = ending
    if isinstance(meaning, Cause):
        # Who asks nobody looks it up, and would find the same again.
        detail = departure.detail or departure.exit_status
        raise InfraError(meaning, detail, died=departure.died, final=not asked)
    if departure.killed and silent_seconds > HUNG_SECONDS and usage.requests:
        # Its commands have limits too: it hangs, or what the model did to it does.
        text = f"it had to be killed, and had asked nothing for {silent_seconds:.0f} s"
        raise InfraError(Cause.AGENT_CRASH, text, died=True)
    lost = seconds - waited_seconds < limits.seconds
    # By its own clock, which began later than ours: the time for one turn more.
    turn = (limits.seconds - waited_seconds) / max(usage.requests, 1)
    lost = lost or (not departure.killed and waited_seconds > turn)
    if meaning is Stop.TIME_LIMIT and asked and lost and limits.seconds <= seconds:
        text = f"{waited_seconds:.0f} of {seconds:.0f} s went by waiting for the endpoint"
        raise InfraError(Cause.ENDPOINT, text)
    empty = departure.submission is None or meaning is Stop.TIME_LIMIT
    if asked and ending is None and not usage.requests and empty:
        raise InfraError(Cause.AGENT_CRASH, "it left without one answer of the model")
    return Rollout(
        stop=meaning,
        submission=departure.submission,
        exit_status=departure.exit_status,
        usage=usage,
        steps=departure.steps,
        seconds=round(seconds, 3),
    )


class Outcome(StrEnum):
    """The table's word for an attempt that is over."""

    RESOLVED = "resolved"
    UNRESOLVED = "unresolved"
    PATCH_REJECTED = "patch_rejected"
    NO_SUBMISSION = "no_submission"
    CONTESTED = "contested"
    TESTS_TIMED_OUT = "tests_timed_out"
    TESTS_DID_NOT_RUN = "tests_did_not_run"
    DIED = "died"
    INFRA = "infra"


class Blame(StrEnum):
    """Who pays for an outcome."""

    NOBODY = "nobody"
    MODEL = "model"
    AMBIGUOUS = "ambiguous"
    INFRA = "infra"


BLAME: dict[Outcome, Blame] = {
    Outcome.RESOLVED: Blame.NOBODY,
    Outcome.UNRESOLVED: Blame.MODEL,
    Outcome.PATCH_REJECTED: Blame.MODEL,
    Outcome.NO_SUBMISSION: Blame.MODEL,
    Outcome.CONTESTED: Blame.MODEL,
    Outcome.TESTS_TIMED_OUT: Blame.MODEL,
    Outcome.TESTS_DID_NOT_RUN: Blame.MODEL,
    Outcome.DIED: Blame.MODEL,
    Outcome.INFRA: Blame.INFRA,
}
"""Who pays once the gold control has passed in the same place. Without a control,
`settle` leaves every graded outcome but a resolved one ambiguous."""


def judge(rollout: Rollout | Fault, verdict: Verdict | Fault | None) -> Outcome:
    """The outcome of a finished attempt, before any control has spoken.

    A fault outranks whatever patch an agent submitted on its way out.

    Raises:
        ValueError: a submission without a verdict: the attempt is not over.
    """
    for stage in (rollout, verdict):
        if isinstance(stage, Fault):
            return Outcome.DIED if stage.died else Outcome.INFRA
    assert isinstance(rollout, Rollout)
    if rollout.submission is None:
        return Outcome.NO_SUBMISSION
    if verdict is None:
        raise ValueError("a submission without a verdict has no outcome yet")
    assert isinstance(verdict, Verdict)
    if verdict.finding is Finding.RESOLVED and verdict.evidence.tampered:
        return Outcome.CONTESTED
    return Outcome(verdict.finding.value)


Settled: TypeAlias = tuple[Outcome, Blame]


def settle(outcome: Outcome, trust: Trust) -> Settled:
    """Hold an outcome against the controls of its place, and say who pays.

    Broken or flaky: infra, for *all* attempts at the instance; keeping the passes
    alone would flatter the model.
    """
    if outcome is Outcome.INFRA:
        return outcome, Blame.INFRA
    if trust in (Trust.BROKEN, Trust.FLAKY):
        return Outcome.INFRA, Blame.INFRA
    graded = outcome not in (Outcome.RESOLVED, Outcome.NO_SUBMISSION)
    unsettled = graded if trust is Trust.UNKNOWN else outcome in UNCERTAIN
    if trust in (Trust.UNKNOWN, Trust.IMPORTED) and unsettled:
        return outcome, Blame.AMBIGUOUS
    return outcome, BLAME[outcome]


UNCERTAIN = frozenset({Outcome.TESTS_TIMED_OUT, Outcome.TESTS_DID_NOT_RUN, Outcome.DIED})
"""Either side may have caused these; only a control tells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """What an attempt came to, written down: a row of its own in the ledger."""

    outcome: Outcome
    blame: Blame
    trust: Trust
    cause: Cause | None = None
    """Of an infra outcome."""
    moved: bool = False
    """Its place is broken or flaky, so this outcome is not the one that was judged."""


def conclude(rollout: Rollout | Fault, verdict: Verdict | Fault | None, trust: Trust) -> Settlement:
    """Judge a finished attempt and settle it against the controls of its place."""
    judged = judge(rollout, verdict)
    outcome, blame = settle(judged, trust)
    moved = outcome is not judged
    fault = next((stage for stage in (rollout, verdict) if isinstance(stage, Fault)), None)
    cause = Cause.INSTANCE if moved else fault.cause if fault else None
    return Settlement(
        outcome=outcome,
        blame=blame,
        trust=trust,
        cause=cause if outcome is Outcome.INFRA else None,
        moved=moved,
    )
