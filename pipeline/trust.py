"""Say how far a place can be trusted, and for which outcomes its controls can speak."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

from pipeline.domain import Controls, Fault, Finding, Rollout, Verdict


class Trust(StrEnum):
    """What the controls say about the place where an outcome was graded."""

    TRUSTED = "trusted"
    """Gold resolves there."""
    FLAKY = "flaky"
    """Gold disagreed with itself there."""
    BROKEN = "broken"
    """Gold does not resolve there, or an empty patch does."""
    UNKNOWN = "unknown"
    """No control yet that speaks for it; one that ended in a fault settles nothing."""
    IMPORTED = "imported"
    """Nobody can run its control: the verdict came from elsewhere, or there is no reference."""


WORDS_CHARACTERS = 400
CLEARS_FLAKY = 5
"""Golds in a row, in one look: running once more does not make a coin honest."""


def trust_of(looks: Iterable[Controls]) -> Trust:
    """How far a place can be trusted after these looks at it, oldest first.

    The latest counts: what was broken may have been the network. Only a flake stays, until
    `CLEARS_FLAKY` golds pass in one look.
    """
    trust, flaky = Trust.UNKNOWN, False
    for look in looks:
        if not look.gold:
            trust = Trust.IMPORTED
            continue
        passed = [verdict.passed for verdict in look.gold]
        broken = not any(passed) or any(verdict.passed for verdict in look.empty)
        whole = all(passed) and not broken
        if whole and len(passed) >= CLEARS_FLAKY:
            flaky = False
        flaky = flaky or not (whole or broken)
        trust = Trust.BROKEN if broken else Trust.FLAKY if flaky else Trust.TRUSTED
    return trust


def last_words(look: Controls) -> str:
    """Why gold did not resolve when it last did not, as far as its grader says; else empty."""
    failed = [verdict.evidence.reasons for verdict in look.gold if not verdict.passed]
    return ", ".join(failed[-1])[:WORDS_CHARACTERS] if failed else ""


def worth_a_look(looks: Sequence[Controls]) -> bool:
    """Whether a later invocation should look again by itself.

    What was broken may have been the network. What flickered once is looked at closely, once.
    """
    trust = trust_of(looks)
    short = bool(looks) and len(looks[-1].gold) < CLEARS_FLAKY
    return trust is Trust.BROKEN or (trust is Trust.FLAKY and short)


def earlier_gold_settles(basis: Rollout | Verdict | Fault | None) -> bool:
    """Whether gold that passed before this value can speak for it.

    Only where every PASS_TO_PASS test passed, and there are some: then the place still
    worked. Anything else may be a network that has dropped since.
    """
    if isinstance(basis, Fault):
        return not basis.died
    if not isinstance(basis, Verdict):
        return True
    tally = basis.pass_to_pass
    # What was copied has been settled in this place before.
    return bool(basis.evidence.origin) or basis.passed or 0 < tally.total == tally.passed


def shaky(value: Rollout | Verdict | Fault | None) -> bool:
    """Whether an outage that is over by now may have made this value.

    A gold that passes afterwards says nothing about then: it has to come out so again.
    """
    if isinstance(value, Fault):
        return value.died
    if not isinstance(value, Verdict) or value.finding is Finding.PATCH_REJECTED:
        return False
    return not earlier_gold_settles(value)
