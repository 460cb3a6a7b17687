"""Read the rows of a run by attempt and by instance; what schedule and tables look things up in."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field

from pipeline.domain import Attempt, Controls, Fault, Rollout, Verdict
from pipeline.ledger.rows import Kind, Row
from pipeline.outcomes import Blame, Settlement, Trust, conclude, earlier_gold_settles, trust_of


@dataclass(slots=True)
class Entry:
    """All rows of one attempt, in order."""

    rollouts: list[Row] = field(default_factory=list)
    verdicts: list[Row] = field(default_factory=list)
    settlements: list[Row] = field(default_factory=list)

    @property
    def rollout(self) -> Rollout | Fault | None:
        value = self.rollouts[-1].value if self.rollouts else None
        assert value is None or isinstance(value, Rollout | Fault)
        return value

    @property
    def verdict(self) -> Verdict | Fault | None:
        """The latest that came after the latest rollout."""
        if not self.verdicts or self.verdicts[-1].seq < self.rollouts[-1].seq:
            return None
        value = self.verdicts[-1].value
        assert isinstance(value, Verdict | Fault)
        return value

    @property
    def last(self) -> Row | None:
        """The row that its outcome rests on."""
        return max((*self.rollouts, *self.verdicts), key=lambda row: row.seq, default=None)

    @property
    def basis(self) -> Rollout | Verdict | Fault | None:
        """The value that its outcome rests on."""
        value = self.last.value if self.last else None
        assert not isinstance(value, Settlement | Controls)
        return value

    @property
    def perished_seconds(self) -> float | None:
        """How long the agent had worked when its container died under it; None: it did not."""
        rollout = self.rollout
        return rollout.seconds if isinstance(rollout, Fault) and rollout.died else None

    @property
    def settlement(self) -> Settlement | None:
        """The latest, if nothing has happened since."""
        last = self.last
        if last is None or not self.settlements or self.settlements[-1].seq < last.seq:
            return None
        value = self.settlements[-1].value
        assert isinstance(value, Settlement)
        return value

    @property
    def over(self) -> bool:
        """Nothing is left to do here, in this or any later invocation."""
        rollout, verdict = self.rollout, self.verdict
        if rollout is None:
            return False
        if isinstance(rollout, Fault) or isinstance(verdict, Fault):
            # Settled as the model's: gold passes where this died, again and again.
            return self.settlement is not None and self.settlement.blame is Blame.MODEL
        return rollout.submission is None or verdict is not None

    @property
    def judged(self) -> bool:
        """It has an outcome, if perhaps only an infra one."""
        rollout = self.rollout
        if rollout is None:
            return False
        return isinstance(rollout, Fault) or rollout.submission is None or self.verdict is not None


@dataclass(slots=True)
class Book:
    """All rows of a run, by attempt; what the schedule and the tables read."""

    entries: dict[Attempt, Entry] = field(default_factory=dict)
    controls: dict[str, list[Row]] = field(default_factory=dict)

    @staticmethod
    def of(rows: Iterable[Row]) -> Book:
        book = Book()
        for row in rows:
            book.add(row)
        return book

    def entry(self, attempt: Attempt) -> Entry:
        return self.entries.setdefault(attempt, Entry())

    def add(self, row: Row) -> None:
        if row.kind is Kind.CONTROL:
            self.controls.setdefault(row.attempt.instance_id, []).append(row)
            return
        entry = self.entry(row.attempt)
        {
            Kind.ROLLOUT: entry.rollouts,
            Kind.VERDICT: entry.verdicts,
            Kind.SETTLEMENT: entry.settlements,
        }[row.kind].append(row)

    def looks(self, instance_id: str, digest: str = "") -> list[tuple[int, Controls]]:
        """(seq, look) of each that did not end in a fault, in one image or in any."""
        found = []
        for row in self.controls.get(instance_id, []):
            # A row that holds one verdict is a look of an earlier version.
            look = Controls(gold=(row.value,)) if isinstance(row.value, Verdict) else row.value
            if isinstance(look, Controls) and digest in ("", look.image_digest):
                found.append((row.seq, look))
        return found

    def place(self, instance_id: str) -> Trust:
        """How far an instance can be trusted here, as the rows stand."""
        return trust_of(look for _, look in self.looks(instance_id))

    def trust(self, attempt: Attempt) -> Trust:
        """What the controls say about the place where this attempt was graded."""
        entry = self.entry(attempt)
        basis = entry.basis
        digest = basis.evidence.image_digest if isinstance(basis, Verdict) else ""
        looks = self.looks(attempt.instance_id, digest)
        trust = trust_of(look for _, look in looks)
        if trust is not Trust.TRUSTED:
            return trust
        seq, look = looks[-1]
        after = entry.last is not None and seq > entry.last.seq
        if not (after or earlier_gold_settles(basis)):
            return Trust.UNKNOWN
        if entry.perished_seconds is None:
            return trust
        if look.idle_death:
            return Trust.BROKEN
        return trust if look.idled_seconds >= entry.perished_seconds else Trust.UNKNOWN

    def conclude(self, attempt: Attempt, *, has_control: bool) -> Settlement | None:
        """The attempt's outcome as the rows stand; None: pending."""
        entry = self.entry(attempt)
        if not entry.judged:
            return None
        rollout = entry.rollout
        assert rollout is not None
        trust = self.trust(attempt) if has_control else Trust.IMPORTED
        return conclude(rollout, entry.verdict, trust)

    def doubted(self, attempt: Attempt) -> bool:
        """Graded before a look that moved it, in a place that is trusted since: grade it again."""
        entry = self.entry(attempt)
        if not isinstance(entry.verdict, Verdict):
            return False
        seq = entry.verdicts[-1].seq
        looks = self.looks(attempt.instance_id)
        so_far = itertools.accumulate(([look] for _, look in looks), lambda a, b: [*a, *b])
        trusts = [trust_of(some) for some in so_far]
        moved = any(
            at > seq and trust is not Trust.TRUSTED
            for (at, _), trust in zip(looks, trusts, strict=True)
        )
        return moved and trusts[-1] is Trust.TRUSTED

    def disagree(self, attempts: Iterable[Attempt]) -> bool:
        """Whether some of these are graded as resolved and some as not, or one as both."""
        verdicts = [self.entry(attempt).verdict for attempt in attempts]
        graded = [value for value in verdicts if isinstance(value, Verdict)]
        contradicted = any(value.evidence.contradicted for value in graded)
        return contradicted or len({value.passed for value in graded}) > 1
