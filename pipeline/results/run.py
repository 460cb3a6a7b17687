"""All attempts of a run: votes, rates and a summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from pipeline.domain import Usage
from pipeline.ledger import Book
from pipeline.outcomes import Blame, Outcome
from pipeline.plan import TrustTerms, least_of, stops_early
from pipeline.results.rows import AttemptRow
from pipeline.stats import Rate, expected_majority, interval
from pipeline.trust import Trust, last_words, trust_of
from pipeline.votes import Ballot, Vote
from pipeline.wording import count


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """Everything that a run's tables say."""

    plan: Mapping[str, Any]
    """plan.json as it stands in the run."""
    rows: Sequence[AttemptRow]
    """Of all attempts that are due: the plan may leave out some, and there is none of those."""
    book: Book
    cut_off: Usage = field(default_factory=Usage)
    """Of what came to no row: tries that were stopped half-way, a look before the run."""
    spent: Usage | None = None
    """Of all rows together, where somebody has added it up already."""

    @property
    def name(self) -> str:
        return str(self.plan["name"])

    @property
    def recorded(self) -> bool:
        """Whether anybody counted what the agent used: predictions come without."""
        return bool(self.plan["agent"] != "predictions")

    @property
    def ids(self) -> Sequence[str]:
        return list(dict.fromkeys(row.instance_id for row in self.rows))

    @property
    def groups(self) -> Mapping[str, Sequence[AttemptRow]]:
        """The attempts of each instance, in one walk over all of them."""
        found: dict[str, list[AttemptRow]] = {}
        for row in self.rows:
            found.setdefault(row.instance_id, []).append(row)
        return found

    @property
    def stops_early(self) -> bool:
        return stops_early(self.plan)

    @property
    def k(self) -> int:
        """Attempts that a vote is over."""
        made = max((row.attempt for row in self.rows), default=0)
        return int(self.plan["attempts"]) if self.stops_early else made

    @property
    def least(self) -> int:
        """Attempts at every instance: all, or those before any may be left out."""
        return least_of(self.plan) if self.stops_early else self.k

    @property
    def firsts(self) -> Mapping[str, Sequence[AttemptRow]]:
        """Of each instance the attempts that no outcome had a say in: what rates are made of."""
        least, groups = self.least, self.groups.items()
        return {id_: [row for row in rows if row.attempt <= least] for id_, rows in groups}

    def at(self, instance_id: str) -> list[AttemptRow]:
        return [row for row in self.rows if row.instance_id == instance_id]

    @property
    def votes(self) -> list[Vote]:
        k = self.k if self.stops_early else None
        groups = self.groups.items()
        return [Vote.of(id_, [row.settled for row in rows], k=k) for id_, rows in groups]

    @property
    def usage(self) -> Usage:
        return self.spent or sum((row.usage for row in self.rows), Usage())

    @property
    def unknown_exits(self) -> int:
        """Imported submissions of which nobody recorded how their agent left."""
        return sum(row.unknown_exit for row in self.rows)

    def pass_at_1(self) -> dict[str, Any]:
        """The four readings, and 95 % intervals of two of them. Source: DESIGN, section 3."""
        groups = self.firsts.values()
        official = interval([[float(row.official or False) for row in group] for group in groups])
        everyone = interval([[float(row.resolved) for row in group] for group in groups])
        valid = interval(
            [[float(row.resolved) for row in group if row.counted] for group in groups]
        )
        high = interval([[float(row.possible) for row in group] for group in groups])
        return {
            "official": official[0] if official else None,
            "all": everyone[0] if everyone else None,
            "all_ci95": list(everyone[1:]) if everyone else None,
            "valid": valid[0] if valid else None,
            "valid_ci95": list(valid[1:]) if valid else None,
            "high": high[0] if high else None,
        }

    def reward(self, ids: Sequence[str] | None = None) -> dict[str, Any] | None:
        """The mean over valid attempts, as pass@1 is; None: the benchmark gives no fractions.

        Its interval is Wilson's, as if each reward were 0 or 1: it may be too wide, never too
        narrow.

        Args:
            ids: only over these instances; None: over all.
        """
        if all(row.reward is None for row in self.rows):
            return None
        groups = self.firsts
        chosen = groups.values() if ids is None else [groups[id_] for id_ in ids]
        found = interval([[row.earned for row in group if row.counted] for group in chosen])
        return {"mean": found[0], "ci95": list(found[1:])} if found else None

    def majority(self) -> dict[str, Any]:
        counts = Counter(vote.ballot for vote in self.votes)
        resolved, rejected = counts[Ballot.RESOLVED], counts[Ballot.REJECTED]
        undetermined, n = counts[Ballot.UNDETERMINED], counts.total()
        decided = resolved + rejected
        return {
            "k": self.k,
            "resolved": resolved,
            "rejected": rejected,
            "undetermined": undetermined,
            "rate": resolved / decided if decided else None,
            "low": resolved / n if n else None,
            "high": (resolved + undetermined) / n if n else None,
        }

    def stopping(self) -> dict[str, Any]:
        """What leaving out attempts that cannot change a vote has saved; of no use without that."""
        left_out = [vote.unmade for vote in self.votes if vote.ballot is not Ballot.UNDETERMINED]
        return {
            "min": self.least,
            "max": self.k,
            "at_most": self.k * len(self.ids),
            "instances": sum(map(bool, left_out)),
            "saved": sum(left_out),
        }

    def expected_majorities(self) -> dict[int, Rate]:
        """What a majority of fewer, odd attempts would have resolved, by their number.

        Over all sets of so many among the recorded attempts that count; an instance with fewer
        counts nowhere.
        """
        firsts = self.firsts.values()
        groups = [[float(row.resolved) for row in rows if row.counted] for rows in firsts]
        most = self.least + 1 if self.stops_early else self.k
        found = {k: expected_majority(groups, k) for k in range(3, most, 2)}
        return {k: rate for k, rate in found.items() if rate is not None}

    def controls(self) -> dict[str, Any]:
        """Gold and empty by instance: gold must read 100 %, empty 0 %."""
        seen = {id_: self.book.place(id_) for id_ in self.ids if self.book.looks(id_)}
        places = {id_: trust for id_, trust in seen.items() if trust is not Trust.IMPORTED}
        looks = [self.book.looks(id_)[-1][1] for id_ in places]
        empties = [any(v.passed for v in look.empty) for look in looks if look.empty]
        if self.plan["agent"] == "empty":
            empties += [row.resolved for row in self.rows if row.counted]
        return {
            "gold": {"passed": list(places.values()).count(Trust.TRUSTED), "of": len(places)},
            "empty": {"passed": sum(empties), "of": len(empties)},
            "moved": sum(row.moved for row in self.rows),
        }

    def grounds(self, instance_id: str) -> str:
        """Why a place is not to be trusted, from the look that decided it; empty: no such look."""
        looks = [look for _, look in self.book.looks(instance_id)]
        wrong = [look for look in looks if look.idle_death or trust_of([look]) is not Trust.TRUSTED]
        if not wrong:
            return ""
        look = wrong[-1]
        passed = sum(verdict.passed for verdict in look.gold)
        said = []
        if passed < len(look.gold):
            found = ", ".join(verdict.finding for verdict in look.gold)
            why = f": {words}" if (words := last_words(look)) else ""
            said.append(f"gold resolves {passed} of {len(look.gold)} times here ({found}{why})")
        if any(verdict.passed for verdict in look.empty):
            said.append("an empty patch resolves here")
        if look.idle_death:
            said.append(f"an idle container dies here ({look.idle_death})")
        return "; ".join(said)

    def doubts(self) -> list[str]:
        """Why no single score of this run should be quoted; empty: one may be."""
        over = [row for rows in self.firsts.values() for row in rows if row.outcome != "pending"]
        terms = asdict(TrustTerms()) | self.plan.get("trust", {})
        infra = [row for row in over if row.blame == Blame.INFRA]
        empty = [row for row in over if row.outcome == Outcome.NO_SUBMISSION]
        if self.plan["agent"] == "empty":
            empty = []
        return [
            f"{len(rows)} of {count(len(over), 'attempt')} ({100 * len(rows) / len(over):.1f} %) "
            f"{what}, more than {100 * terms[share]:.1f} %"
            for rows, what, share in (
                (infra, "are infra", "infra_share"),
                (empty, "submitted nothing", "empty_share"),
            )
            if over and len(rows) / len(over) > terms[share]
        ]

    def bounds(self) -> tuple[float, float] | None:
        """Between what pass@1 is if all that is in doubt failed, or resolved; None: no attempt."""
        doubted = Outcome.NO_SUBMISSION if self.doubts() else None
        groups = self.firsts.values()
        low = interval([[float(row.resolved) for row in group] for group in groups])
        high = interval(
            [[float(row.possible or row.outcome == doubted) for row in group] for group in groups]
        )
        return (low[0], high[0]) if low and high else None

    def summary(self) -> dict[str, Any]:
        """The run in numbers: counts are integers, rates floats or null."""
        outcomes = Counter(row.outcome for row in self.rows)
        blames = Counter(row.blame for row in self.rows)
        usage = self.usage
        return {
            "run": self.name,
            "plan_digest": self.plan["digest"],
            "grader": self.plan["grader"],
            "instances": len(self.ids),
            "k": self.k,
            "attempts": len(self.rows),
            "tries": sum(row.tries for row in self.rows),
            "outcomes": {outcome.value: outcomes[outcome] for outcome in Outcome},
            "pending": outcomes["pending"],
            "blame": {blame.value: blames[blame] for blame in Blame},
            "causes": dict(sorted(Counter(row.cause for row in self.rows if row.cause).items())),
            "pass_at_1": self.pass_at_1(),
            **({"reward": reward} if (reward := self.reward()) else {}),
            "majority": self.majority(),
            **({"stopping": self.stopping()} if self.stops_early else {}),
            "usage": {
                "requests": usage.requests,
                "input_tokens": usage.input_tokens,
                "cached_tokens": usage.cached_tokens,
                "output_tokens": usage.output_tokens,
                "cost_usd": usage.cost_usd if self.recorded else None,
            },
            "controls": self.controls(),
            "doubts": self.doubts(),
        }
