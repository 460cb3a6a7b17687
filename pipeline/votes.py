"""Count the k attempts at one instance as a vote. An outage never decides it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pipeline.outcomes import Blame, Outcome, Settled


class Ballot(StrEnum):
    """How a vote over k attempts ended."""

    RESOLVED = "resolved"
    REJECTED = "rejected"
    UNDETERMINED = "undetermined"


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """The majority over the k attempts at one instance. An outage never decides it."""

    instance_id: str
    k: int
    resolved: int
    unknown: int
    """Attempts that are infra, unsettled or pending."""
    unmade: int = 0
    """Attempts that are not due: yet, or ever, since the vote is decided."""

    @staticmethod
    def of(instance_id: str, attempts: Iterable[Settled | None], *, k: int | None = None) -> Vote:
        """Count the settled outcomes at one instance; None: pending.

        Args:
            k: attempts that the vote is over, where fewer may be due. None: these are all.
        """
        votes = list(attempts)
        k = len(votes) if k is None else k
        open_blames = (Blame.INFRA, Blame.AMBIGUOUS)
        return Vote(
            instance_id=instance_id,
            k=k,
            resolved=sum(1 for vote in votes if vote and vote[0] is Outcome.RESOLVED),
            unknown=sum(1 for vote in votes if vote is None or vote[1] in open_blames),
            unmade=k - len(votes),
        )

    @property
    def ballot(self) -> Ballot:
        """Resolved iff r > k/2; rejected iff r + u <= k/2 (a tie is a no).

        u are all that may yet resolve, so nothing to come changes what is decided.
        """
        if self.resolved > self.k / 2:
            return Ballot.RESOLVED
        if self.resolved + self.unknown + self.unmade <= self.k / 2:
            return Ballot.REJECTED
        return Ballot.UNDETERMINED

    @property
    def against(self) -> int:
        """Attempts that count against the model."""
        return self.made - self.resolved - self.unknown

    @property
    def made(self) -> int:
        """Attempts that are made or due."""
        return self.k - self.unmade

    @property
    def split(self) -> bool:
        """Whether the attempts that count disagree."""
        return self.resolved > 0 and self.against > 0

    @property
    def unanimous(self) -> bool:
        """Whether all attempts count, and agree."""
        return self.made in (self.resolved, self.against)


def due(settled: Sequence[Settled | None], *, least: int, most: int) -> int:
    """How many attempts at one instance are due; one that is due is never taken back.

    The first `least` are. A further one is when all before it are settled and their vote over
    `most` is not decided. An infra attempt has not voted.

    Args:
        settled: those that are begun, by their number. None: not over, or settled again once its
            place is in order.
    """
    number = max(least, len(settled))
    waits = len(settled) < number or any(
        one is None or one[1] is Blame.AMBIGUOUS for one in settled
    )
    if number >= most or waits:
        return number
    open_vote = Vote.of("", settled, k=most).ballot is Ballot.UNDETERMINED
    return number + open_vote
