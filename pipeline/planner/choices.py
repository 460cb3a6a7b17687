"""Instances times attempts: what each choice reaches, what it costs, what the budget allows."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from pipeline.outcomes import UserError
from pipeline.planner.basis import Basis
from pipeline.planner.facts import gigabytes
from pipeline.planner.question import Question

VERIFIED = 500
"""Instances that there are."""
USUAL = (1, 2, 3, 5)
"""Attempts that are compared unless others are asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What may be spent, all models together. None: no limit."""

    dollars: float | None = None
    hours: float | None = None
    gigabytes: float | None = None
    pulls: float | None = None

    @property
    def limits(self) -> Mapping[str, float]:
        return {name: limit for name, limit in asdict(self).items() if limit is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What instances times attempts take, all models together. None: not known."""

    attempts: int
    tokens: float | None
    dollars: float | None
    hours: float | None
    gigabytes: float
    """Of images on disk, the layers that they share counted once."""
    pulls: int
    """One an instance, however many attempts and models."""

    def over(self, budget: Budget) -> tuple[str, ...]:
        """Which limits it breaks."""
        mine = asdict(self)
        # A hair of rounding breaks no limit.
        return tuple(k for k, most in budget.limits.items() if mine[k] > most * (1 + 1e-9))


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """So many instances, k attempts at each."""

    k: int
    needed: int | None
    """Instances that the question needs at k. None: it has no target."""
    allowed: int
    """Instances that the budget and Verified have room for."""
    binds: tuple[str, ...]
    """What has no room for one more than allowed: limits, or `Verified`."""
    instances: int
    """What is needed as far as it is allowed."""
    reach: float | None
    """None: not one instance is allowed."""
    cost: Cost

    @property
    def answers(self) -> bool:
        return self.needed is not None and self.needed <= self.allowed


def cost_of(instances: int, k: int, bases: Sequence[Basis]) -> Cost:
    """What every one of these models takes over the same instances, one run after the other."""
    number = instances * k
    tokens, dollars, hours = 0.0, 0.0, 0.0
    known = {"tokens": True, "dollars": True, "hours": True}
    for basis in bases:
        known["tokens"] &= basis.tokens is not None
        known["dollars"] &= basis.dollars is not None
        known["hours"] &= basis.agent_seconds is not None
        tokens += number * (basis.tokens.mean if basis.tokens else 0)
        dollars += number * (basis.dollars.mean if basis.dollars else 0)
        hours += hours_of(instances, k, basis)
    return Cost(
        attempts=number * len(bases),
        tokens=tokens if known["tokens"] else None,
        dollars=dollars if known["dollars"] else None,
        hours=hours if known["hours"] else None,
        gigabytes=gigabytes(instances),
        pulls=instances,
    )


def hours_of(instances: int, k: int, basis: Basis) -> float:
    """Agents and scorers work side by side, so the slower of the two stages decides."""
    number = instances * k
    agents = number * (basis.agent_seconds.mean if basis.agent_seconds else 0)
    scoring = number * (basis.scoring_seconds or 0) + instances * basis.control_seconds
    return max(agents / basis.agent_workers, scoring / basis.scorer_workers) / 3600


def check(budget: Budget, bases: Sequence[Basis]) -> None:
    """Refuse a limit on what nobody knows.

    Raises:
        UserError: the price or the time of an attempt is not known.
    """
    one = asdict(cost_of(1, 1, bases))
    remedies = {
        "dollars": "give its model a price in model.prices, or leave the limit out",
        "hours": "plan from a run that passone drove, or leave the limit out",
    }
    for name in budget.limits:
        if one[name] is None:
            places = " and ".join(dict.fromkeys(basis.source for basis in bases))
            raise UserError(f"--{name}: {places} does not say it of an attempt; {remedies[name]}")


def offers(
    question: Question, bases: Sequence[Basis], budget: Budget, ks: Sequence[int] = USUAL
) -> list[Choice]:
    """One choice for each k, in their order.

    Raises:
        UserError: the budget limits what nobody knows.
    """
    check(budget, bases)
    return [offer(question, bases, budget, k) for k in ks]


def offer(question: Question, bases: Sequence[Basis], budget: Budget, k: int) -> Choice:
    # Both models must have an attempt that counts; an instance that lost one is taken for lost.
    kept = math.prod(1 - basis.lost for basis in bases)
    numbers = range(1, VERIFIED + 1)
    allowed = bisect_left(numbers, True, key=lambda n: bool(cost_of(n, k, bases).over(budget)))
    full = allowed == VERIFIED
    binds = ("Verified",) if full else cost_of(allowed + 1, k, bases).over(budget)
    needed = None
    if question.target is not None:
        needed = max(1, math.ceil(question.counted(k) / kept - 1e-9))
    instances = allowed if needed is None else min(needed, allowed)
    return Choice(
        k=k,
        needed=needed,
        allowed=allowed,
        binds=binds,
        instances=instances,
        reach=question.reach(instances * kept, k) if instances else None,
        cost=cost_of(instances, k, bases),
    )


def pick(choices: Sequence[Choice]) -> Choice | None:
    """The fewest attempts that answer; where none do, what comes nearest. None: nothing is allowed.

    Nearness is by reach, and by attempts where that is the same.
    """
    if answering := [choice for choice in choices if choice.answers]:
        return min(answering, key=lambda choice: (choice.cost.attempts, choice.k))
    possible = [(c.reach, c.cost.attempts, c.k, c) for c in choices if c.reach is not None]
    # Differences in the last digits are rounding, and no reason to pay for attempts.
    return min(possible, key=lambda one: (round(one[0], 9), *one[1:3]))[3] if possible else None
