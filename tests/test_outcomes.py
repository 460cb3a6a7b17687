"""Who is to blame, as a table; and what a vote over k may conclude."""

import errno
import itertools
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.domain import (
    Cause,
    Departure,
    Fault,
    Finding,
    Limits,
    Patch,
    Rollout,
    Stop,
    Usage,
    Verdict,
)
from pipeline.outcomes import (
    BLAME,
    RETRYABLE,
    UNCERTAIN,
    Blame,
    InfraError,
    Outcome,
    PipelineError,
    Settled,
    UserError,
    attribute,
    conclude,
    fault_of,
    judge,
    settle,
)
from pipeline.trust import Trust, earlier_gold_settles
from pipeline.votes import Ballot, Vote
from tests.fakes import (
    CONTESTED,
    DID_NOT_RUN,
    DIED,
    PROPERTY,
    REJECTED,
    RESOLVED,
    SUBMITTED,
    TIMED_OUT,
    UNRESOLVED,
    UNRESOLVED_AND_BROKEN,
    WITHOUT_PATCH,
    fault,
    verdict,
)

NOBODY, MODEL, AMBIGUOUS, INFRA = Blame


# Vocabularies and their tables


def test_every_outcome_has_somebody_to_blame() -> None:
    assert BLAME.keys() == set(Outcome)


def test_every_cause_says_whether_another_try_can_help() -> None:
    assert RETRYABLE.keys() == set(Cause)


def test_every_finding_is_an_outcome_of_the_same_name() -> None:
    assert {finding.value for finding in Finding} <= {outcome.value for outcome in Outcome}


def test_what_could_be_either_is_graded_and_not_resolved() -> None:
    assert {Outcome.TESTS_TIMED_OUT, Outcome.TESTS_DID_NOT_RUN, Outcome.DIED} == UNCERTAIN


def test_errors_are_the_callers_or_ours() -> None:
    assert issubclass(UserError, PipelineError)
    assert issubclass(InfraError, PipelineError)
    assert not issubclass(UserError, InfraError)


@pytest.mark.parametrize("cause", [Cause.CREDENTIALS, Cause.DISK, Cause.UNKNOWN])
def test_asking_again_at_once_does_not_mend_a_key_a_disk_or_a_bug(cause: Cause) -> None:
    assert not RETRYABLE[cause]


# judge

JUDGED: list[tuple[Rollout | Fault, Verdict | Fault | None, Outcome]] = [
    (SUBMITTED, RESOLVED, Outcome.RESOLVED),
    (SUBMITTED, UNRESOLVED, Outcome.UNRESOLVED),
    (SUBMITTED, REJECTED, Outcome.PATCH_REJECTED),
    (SUBMITTED, TIMED_OUT, Outcome.TESTS_TIMED_OUT),
    (SUBMITTED, DID_NOT_RUN, Outcome.TESTS_DID_NOT_RUN),
    (SUBMITTED, CONTESTED, Outcome.CONTESTED),
    (SUBMITTED, verdict(Finding.UNRESOLVED, tampered=True), Outcome.UNRESOLVED),
    (SUBMITTED, fault(Cause.GRADER), Outcome.INFRA),
    (SUBMITTED, DIED, Outcome.DIED),
    (WITHOUT_PATCH, None, Outcome.NO_SUBMISSION),
    (fault(), None, Outcome.INFRA),
    (DIED, None, Outcome.DIED),
    (fault(), RESOLVED, Outcome.INFRA),
]


@pytest.mark.parametrize(("rollout", "graded", "outcome"), JUDGED)
def test_judge(rollout: Rollout | Fault, graded: Verdict | Fault | None, outcome: Outcome) -> None:
    assert judge(rollout, graded) is outcome


def test_judge_names_every_outcome() -> None:
    assert {outcome for _, _, outcome in JUDGED} == set(Outcome)


@pytest.mark.parametrize("stop", Stop)
def test_a_limit_with_a_patch_is_graded_and_without_one_is_the_models(stop: Stop) -> None:
    with_patch = Rollout(stop=stop, submission=Patch("diff"), exit_status=stop)
    without = Rollout(stop=stop, submission=None, exit_status=stop)
    assert judge(with_patch, RESOLVED) is Outcome.RESOLVED
    assert settle(judge(without, None), Trust.TRUSTED) == (Outcome.NO_SUBMISSION, MODEL)


def test_a_submission_without_a_verdict_has_no_outcome_yet() -> None:
    with pytest.raises(ValueError, match="no outcome yet"):
        judge(SUBMITTED, None)


@pytest.mark.parametrize("finding", Finding)
@pytest.mark.parametrize("tampered", [False, True])
def test_nothing_that_tests_print_makes_an_outcome_infra(finding: Finding, tampered: bool) -> None:
    graded = verdict(finding, tampered=tampered)
    assert judge(SUBMITTED, graded) not in (Outcome.INFRA, Outcome.DIED)


# settle

TABLE: dict[Outcome, tuple[Settled | Blame, Settled | Blame, Settled | Blame]] = {
    # outcome: gold passed, no control yet, imported. Gold stumbled is the same for all.
    Outcome.RESOLVED: (NOBODY, NOBODY, NOBODY),
    Outcome.UNRESOLVED: (MODEL, AMBIGUOUS, MODEL),
    Outcome.PATCH_REJECTED: (MODEL, AMBIGUOUS, MODEL),
    Outcome.NO_SUBMISSION: (MODEL, MODEL, MODEL),
    Outcome.CONTESTED: (MODEL, AMBIGUOUS, MODEL),
    Outcome.TESTS_TIMED_OUT: (MODEL, AMBIGUOUS, AMBIGUOUS),
    Outcome.TESTS_DID_NOT_RUN: (MODEL, AMBIGUOUS, AMBIGUOUS),
    Outcome.DIED: (MODEL, AMBIGUOUS, AMBIGUOUS),
    Outcome.INFRA: (INFRA, INFRA, INFRA),
}


def test_settlement_table_is_complete() -> None:
    assert TABLE.keys() == set(Outcome)


@pytest.mark.parametrize("outcome", Outcome)
def test_settle(outcome: Outcome) -> None:
    passed, absent, imported = TABLE[outcome]
    assert settle(outcome, Trust.TRUSTED) == (outcome, passed)
    assert settle(outcome, Trust.UNKNOWN) == (outcome, absent)
    assert settle(outcome, Trust.IMPORTED) == (outcome, imported)


@pytest.mark.parametrize("outcome", Outcome)
def test_a_stumbling_gold_moves_every_outcome_to_infra(outcome: Outcome) -> None:
    assert settle(outcome, Trust.BROKEN) == (Outcome.INFRA, INFRA)


@pytest.mark.parametrize(
    ("rollout", "graded", "trust", "cause", "moved"),
    [
        (SUBMITTED, RESOLVED, Trust.BROKEN, Cause.INSTANCE, True),
        (SUBMITTED, UNRESOLVED, Trust.BROKEN, Cause.INSTANCE, True),
        (WITHOUT_PATCH, None, Trust.BROKEN, Cause.INSTANCE, True),
        (DIED, None, Trust.BROKEN, Cause.INSTANCE, True),
        (fault(Cause.ENDPOINT), None, Trust.BROKEN, Cause.ENDPOINT, False),
        (fault(Cause.ENDPOINT), None, Trust.TRUSTED, Cause.ENDPOINT, False),
        (SUBMITTED, fault(Cause.GRADER), Trust.UNKNOWN, Cause.GRADER, False),
        (SUBMITTED, RESOLVED, Trust.TRUSTED, None, False),
        (SUBMITTED, UNRESOLVED, Trust.TRUSTED, None, False),
        (DIED, None, Trust.TRUSTED, None, False),
    ],
)
def test_a_settlement_counts_as_moved_only_what_gold_moved(
    rollout: Rollout | Fault,
    graded: Verdict | Fault | None,
    trust: Trust,
    cause: Cause | None,
    moved: bool,
) -> None:
    found = conclude(rollout, graded, trust)
    assert (found.cause, found.moved, found.trust) == (cause, moved, trust)
    assert (found.outcome is Outcome.INFRA) == (cause is not None)


@pytest.mark.parametrize(
    ("basis", "speaks"),
    [
        (UNRESOLVED, True),
        (UNRESOLVED_AND_BROKEN, False),
        (verdict(Finding.UNRESOLVED, kept=(0, 0)), False),
        (REJECTED, False),
        (TIMED_OUT, False),
        (DID_NOT_RUN, False),
        (RESOLVED, True),
        (verdict(Finding.RESOLVED, kept=(0, 0)), True),  # nothing to settle
        (CONTESTED, True),
        (verdict(Finding.RESOLVED, kept=(0, 0), tampered=True), False),
        (WITHOUT_PATCH, True),
        (fault(), True),
        (DIED, False),
        (None, True),
    ],
)
def test_a_kept_gold_speaks_only_where_all_pass_to_pass_passed_and_there_are_some(
    basis: Rollout | Verdict | Fault | None, speaks: bool
) -> None:
    assert earlier_gold_settles(basis) is speaks


# attribute and fault_of

LIMITS = Limits(seconds=100)
BUSY = Usage(requests=5)


def leave(
    departure: Departure,
    *,
    ending: Stop | Fault | None = None,
    usage: Usage = BUSY,
    seconds: float = 10.0,
    waited: float = 0.0,
    silent: float = 0.0,
    asked: bool = True,
) -> Rollout:
    return attribute(
        departure,
        ending=ending,
        usage=usage,
        limits=LIMITS,
        seconds=seconds,
        waited_seconds=waited,
        silent_seconds=silent,
        asked=asked,
    )


def departure(meaning: Stop | Cause | None, *, patch: bool = True, detail: str = "") -> Departure:
    return Departure(
        exit_status="its words",
        meaning=meaning,
        submission=Patch("diff") if patch else None,
        detail=detail,
        steps=4,
    )


@pytest.mark.parametrize("stop", [stop for stop in Stop if stop is not Stop.TIME_LIMIT])
def test_a_stop_keeps_the_agents_own_words_and_its_patch(stop: Stop) -> None:
    found = leave(departure(stop))
    assert (found.stop, found.exit_status, found.steps) == (stop, "its words", 4)
    assert found.submission == Patch("diff")
    assert found.usage == BUSY


@pytest.mark.parametrize("cause", Cause)
def test_a_broken_part_outranks_the_patch_that_was_submitted_on_the_way_out(cause: Cause) -> None:
    with pytest.raises(InfraError) as caught:
        leave(departure(cause, detail="what broke"))
    assert (caught.value.cause, caught.value.detail) == (cause, "what broke")


def test_a_fault_of_the_endpoint_outranks_what_the_agent_makes_of_it() -> None:
    with pytest.raises(InfraError) as caught:
        leave(departure(Stop.GAVE_UP), ending=fault(Cause.CREDENTIALS))
    assert caught.value.cause is Cause.CREDENTIALS


def test_a_full_context_outranks_the_crash_that_the_agent_makes_of_it() -> None:
    found = leave(departure(Cause.UNKNOWN), ending=Stop.CONTEXT_LIMIT)
    assert found.stop is Stop.CONTEXT_LIMIT


def test_a_submission_after_the_endpoint_had_failed_is_not_the_models() -> None:
    with pytest.raises(InfraError) as caught:
        leave(departure(Stop.SUBMITTED), ending=fault(Cause.ENDPOINT))
    assert caught.value.cause is Cause.ENDPOINT


def test_a_submission_forced_by_a_limit_of_the_gateway_is_graded_and_keeps_that_stop() -> None:
    found = leave(departure(Stop.SUBMITTED), ending=Stop.COST_LIMIT)
    assert (found.stop, found.submission) == (Stop.COST_LIMIT, Patch("diff"))


@pytest.mark.parametrize(
    ("seconds", "waited", "killed", "cause"),
    [
        (100.0, 0.0, True, None),
        (130.0, 30.0, True, None),  # reached without the waiting too
        (130.0, 31.0, True, Cause.ENDPOINT),
        (100.5, 60.0, True, Cause.ENDPOINT),
        # Its own clock began later than ours, by the time that its container took.
        (130.0, 0.0, False, None),
        (130.0, 4.0, False, None),  # less than one of its turns
        (130.0, 40.0, False, Cause.ENDPOINT),
        # A command that took too long, and no total: the waiting is no part of it.
        (90.0, 40.0, False, None),
    ],
)
def test_a_time_limit_that_waiting_alone_reached_is_the_endpoints(
    seconds: float, waited: float, killed: bool, cause: Cause | None
) -> None:
    late = replace(departure(Stop.TIME_LIMIT), killed=killed)
    if cause is None:
        assert leave(late, seconds=seconds, waited=waited).stop is Stop.TIME_LIMIT
        return
    with pytest.raises(InfraError) as caught:
        leave(late, seconds=seconds, waited=waited)
    assert caught.value.cause is cause


@pytest.mark.parametrize(
    ("silent", "killed", "hung"), [(300, True, True), (300, False, False), (60, True, False)]
)
def test_an_agent_that_was_killed_in_a_long_silence_hangs_and_a_control_tells_why(
    silent: float, killed: bool, hung: bool
) -> None:
    late = replace(departure(Stop.TIME_LIMIT), killed=killed)
    if not hung:
        assert leave(late, seconds=320.0, silent=silent).stop is Stop.TIME_LIMIT
        return
    with pytest.raises(InfraError) as caught:
        leave(late, seconds=320.0, silent=silent)
    assert (caught.value.cause, caught.value.fault.died) == (Cause.AGENT_CRASH, True)


def test_an_agent_that_never_asked_the_model_did_not_run_out_of_time() -> None:
    with pytest.raises(InfraError) as caught:
        leave(departure(Stop.TIME_LIMIT), usage=Usage(), seconds=100.0)
    assert caught.value.cause is Cause.AGENT_CRASH


def test_an_agent_without_a_model_may_run_out_of_time() -> None:
    found = leave(departure(Stop.TIME_LIMIT), usage=Usage(), seconds=100.0, asked=False)
    assert found.stop is Stop.TIME_LIMIT


def test_an_imported_submission_has_no_recorded_stop() -> None:
    assert leave(departure(None), usage=Usage(), asked=False).stop is None


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (InfraError(Cause.IMAGE, "no image"), Cause.IMAGE),
        (OSError(errno.ENOSPC, "No space left on device"), Cause.DISK),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), Cause.DISK),
        (OSError(errno.ENOENT, "No such file"), Cause.UNKNOWN),
        (KeyError("a bug"), Cause.UNKNOWN),
        (UserError("in a stage, this too is our bug"), Cause.UNKNOWN),
    ],
)
def test_an_exception_at_the_border_of_a_stage_is_a_fault(error: Exception, cause: Cause) -> None:
    found = fault_of(error, seconds=1.23456, spent=[Usage(requests=1), Usage(requests=2)])
    assert found.cause is cause
    assert found.usage.requests == 3
    assert found.seconds == 1.235
    assert not found.died


def test_our_bug_keeps_its_traceback() -> None:
    def broken() -> None:
        raise ZeroDivisionError("ours")

    with pytest.raises(ZeroDivisionError) as caught:
        broken()
    found = fault_of(caught.value, seconds=0)
    assert "in broken" in found.detail
    assert found.detail.rstrip().endswith("ZeroDivisionError: ours")


def test_a_container_that_died_under_the_models_content_says_so() -> None:
    assert fault_of(InfraError(Cause.SANDBOX, "OOM", died=True), seconds=0).died


# Vote

YES: Settled = (Outcome.RESOLVED, NOBODY)
NO: Settled = (Outcome.UNRESOLVED, MODEL)
BROKEN: Settled = (Outcome.INFRA, INFRA)
OPEN: Settled = (Outcome.TESTS_TIMED_OUT, AMBIGUOUS)
PENDING = None


@pytest.mark.parametrize(
    ("attempts", "ballot"),
    [
        ([YES], Ballot.RESOLVED),
        ([NO], Ballot.REJECTED),
        ([BROKEN], Ballot.UNDETERMINED),
        ([YES, YES, NO], Ballot.RESOLVED),
        ([YES, NO, NO], Ballot.REJECTED),
        ([YES, YES, BROKEN], Ballot.RESOLVED),
        ([NO, NO, BROKEN], Ballot.REJECTED),
        ([YES, NO, BROKEN], Ballot.UNDETERMINED),
        ([YES, NO, OPEN], Ballot.UNDETERMINED),
        ([YES, NO, PENDING], Ballot.UNDETERMINED),
        ([BROKEN, BROKEN, BROKEN], Ballot.UNDETERMINED),
        ([YES, NO], Ballot.REJECTED),  # a tie is a no
        ([YES, YES, NO, NO], Ballot.REJECTED),
        ([YES, BROKEN], Ballot.UNDETERMINED),
        ([NO, BROKEN], Ballot.REJECTED),  # at best a tie
        ([YES, YES, YES, BROKEN, BROKEN], Ballot.RESOLVED),
    ],
)
def test_vote(attempts: Sequence[Settled | None], ballot: Ballot) -> None:
    assert Vote.of("a", attempts).ballot is ballot


@given(st.lists(st.sampled_from([YES, NO, BROKEN, OPEN, PENDING]), min_size=1, max_size=6))
@PROPERTY
def test_a_vote_is_decided_only_where_no_outage_could_have_turned_it(
    attempts: list[Settled | None],
) -> None:
    """Play every world in which the unknown attempts had ended one way or the other."""
    choices = [
        [True] if vote == YES else [False] if vote == NO else [True, False] for vote in attempts
    ]
    majorities = {sum(world) > len(world) / 2 for world in itertools.product(*choices)}
    expected = {
        frozenset({True}): Ballot.RESOLVED,
        frozenset({False}): Ballot.REJECTED,
        frozenset({True, False}): Ballot.UNDETERMINED,
    }
    assert Vote.of("a", attempts).ballot is expected[frozenset(majorities)]


@given(st.lists(st.sampled_from([YES, NO, BROKEN, OPEN, PENDING]), min_size=1, max_size=6))
@PROPERTY
def test_a_vote_does_not_depend_on_the_order_of_attempts(attempts: list[Settled | None]) -> None:
    assert Vote.of("a", attempts) == Vote.of("a", attempts[::-1])
