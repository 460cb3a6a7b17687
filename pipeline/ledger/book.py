"""Read the rows of a run by attempt and by instance; what schedule and tables look things up in."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field

from pipeline.domain import Attempt, Controls, Fault, Rollout, Verdict
from pipeline.ledger.rows import Kind, Row
from pipeline.outcomes import Blame, Settled, Settlement, conclude
from pipeline.trust import Trust, earlier_gold_settles, shaky, trust_of, worth_a_look


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

    def begun(self) -> dict[str, int]:
        """The highest number of an attempt that has a row, by instance; where none has, none."""
        found: dict[str, int] = {}
        for attempt, entry in self.entries.items():
            if entry.rollouts:
                found[attempt.instance_id] = max(attempt.number, found.get(attempt.instance_id, 0))
        return found

    def voted(self, attempt: Attempt) -> Settled | None:
        """What an attempt came to; None: nothing yet, or its place cannot be trusted as it is."""
        settlement = self.entry(attempt).settlement
        if settlement is None or settlement.moved:
            return None
        return settlement.outcome, settlement.blame

    def looks(self, instance_id: str, digest: str = "") -> list[tuple[int, Controls]]:
        """(seq, look) of each that did not end in a fault, in one image or in any."""
        found = []
        for row in self.controls.get(instance_id, []):
            # A row that holds one verdict is a look of an earlier version.
            look = Controls(gold=(row.value,)) if isinstance(row.value, Verdict) else row.value
            if isinstance(look, Controls) and (not look.gold or digest in ("", look.image_digest)):
                found.append((row.seq, look))
        return found

    def place(self, instance_id: str) -> Trust:
        """How far an instance can be trusted here, as the rows stand."""
        return trust_of(look for _, look in self.looks(instance_id))

    def worth_a_look(self, instance_id: str) -> bool:
        """Whether a later invocation should look at it again by itself."""
        return worth_a_look([look for _, look in self.looks(instance_id)])

    def trust(self, attempt: Attempt) -> Trust:
        """What the controls say about the place where this attempt was graded."""
        entry = self.entry(attempt)
        basis = entry.basis
        looks = self.looks(attempt.instance_id, image_of(basis))
        trust = trust_of(look for _, look in looks)
        if trust is not Trust.TRUSTED:
            return trust
        seq, look = looks[-1]
        after = entry.last is not None and seq > entry.last.seq
        again = self.again(attempt)
        if again or not (after or again is False or earlier_gold_settles(basis)):
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

    def again(self, attempt: Attempt) -> bool | None:
        """Whether it has to be scored again: an outage that is over may have made its outcome.

        A gold that passes after a shaky outcome says nothing about the time of that outcome. So
        it is scored once more then, and a third time if the two disagree.

        Returns:
            None: it is not shaky, or no gold has passed after it. False: it has been.
        """
        scorings, seq = self.scorings(attempt), 0
        for seq, look in self.looks(attempt.instance_id):
            if scorings and seq > scorings[0][0] and trust_of([look]) is Trust.TRUSTED:
                break
        else:
            return None
        before = [value for at, value in scorings if at < seq]
        since = [value for at, value in scorings if at > seq]
        if not shaky(before[-1]):
            return None
        agree = len(since) > 1 or (since and passes(since[0]) == passes(before[-1]))
        return not agree

    def uncertain(self, attempt: Attempt) -> bool:
        """It was graded, and has to be once more."""
        return self.doubted(attempt) or bool(self.again(attempt))

    def scorings(self, attempt: Attempt) -> list[tuple[int, Verdict | Fault]]:
        """Those of its latest submission that said anything, since its place was in order.

        A plain fault begins anew: what it ended is done again anyway.
        """
        entry = self.entry(attempt)
        looks = self.looks(attempt.instance_id)
        wrong = [seq for seq, look in looks if trust_of([look]) is not Trust.TRUSTED]
        start = max([row.seq for row in entry.rollouts[-1:]] + wrong, default=0)
        images = [image_of(row.value) for row in entry.verdicts]
        digest = next(filter(None, reversed(images)), "")
        found: list[tuple[int, Verdict | Fault]] = []
        for row in entry.verdicts:
            value = row.value
            plain = isinstance(value, Fault) and not value.died
            if plain:
                found = []
            elif row.seq > start and image_of(value) in ("", digest):
                assert isinstance(value, Verdict | Fault)
                found.append((row.seq, value))
        return found

    def doubted(self, attempt: Attempt) -> bool:
        """Graded in a place that was moved, or made anew, and is trusted since: grade it again."""
        entry = self.entry(attempt)
        if not isinstance(entry.verdict, Verdict):
            return False
        seq = entry.verdicts[-1].seq
        looks = self.looks(attempt.instance_id)
        if looks and looks[-1][0] > seq and looks[-1][1].image_digest != image_of(entry.verdict):
            return trust_of([looks[-1][1]]) is Trust.TRUSTED
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


def image_of(value: object) -> str:
    """Where it was graded; empty: nowhere that has a name."""
    return value.evidence.image_digest if isinstance(value, Verdict) else ""


def passes(value: object) -> bool:
    return isinstance(value, Verdict) and value.passed
