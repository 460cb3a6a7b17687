"""Count the k attempts at one instance as a vote. An outage never decides it."""

from __future__ import annotations

from collections.abc import Iterable
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

    @staticmethod
    def of(instance_id: str, attempts: Iterable[Settled | None]) -> Vote:
        """Count the settled outcomes at one instance; None: pending."""
        votes = list(attempts)
        open_blames = (Blame.INFRA, Blame.AMBIGUOUS)
        return Vote(
            instance_id=instance_id,
            k=len(votes),
            resolved=sum(1 for vote in votes if vote and vote[0] is Outcome.RESOLVED),
            unknown=sum(1 for vote in votes if vote is None or vote[1] in open_blames),
        )

    @property
    def ballot(self) -> Ballot:
        """Resolved iff r > k/2; rejected iff r + u <= k/2 (a tie is a no)."""
        if self.resolved > self.k / 2:
            return Ballot.RESOLVED
        if self.resolved + self.unknown <= self.k / 2:
            return Ballot.REJECTED
        return Ballot.UNDETERMINED

    @property
    def against(self) -> int:
        """Attempts that count against the model."""
        return self.k - self.resolved - self.unknown

    @property
    def split(self) -> bool:
        """Whether the attempts that count disagree."""
        return self.resolved > 0 and self.against > 0

    @property
    def unanimous(self) -> bool:
        """Whether all k attempts count, and agree."""
        return self.k in (self.resolved, self.against)
