"""What a plan rests on: how outcomes vary and what an attempt takes, of a run or as published."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, quantiles
from typing import Any

from pipeline.domain import Attempt, Fault, Rollout, Usage, Verdict
from pipeline.ledger import Book
from pipeline.outcomes import UserError
from pipeline.planner.facts import facts
from pipeline.results import AttemptRow, Results
from pipeline.stats import wilson
from pipeline.stats.variance import variance

FEW = 30
"""With fewer instances a run tells its own variances only roughly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """What one attempt takes: a budget is a sum and grows by the mean, one attempt may take p90."""

    mean: float
    median: float
    p90: float

    @staticmethod
    def of(values: Sequence[float]) -> Spread:
        """Of at least one value; quantiles are interpolated between them, ends included."""
        tenths = quantiles(values, n=10, method="inclusive") if len(values) > 1 else [*values] * 9
        return Spread(mean=fmean(values), median=tenths[4], p90=tenths[8])


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """How outcomes vary from instance to instance, and from attempt to attempt."""

    rate: float
    between: float
    """omega^2. Not split: all of the variance of one attempt."""
    within: float
    """sigma^2. Not split: zero, as if further attempts brought nothing."""
    split: bool
    """Whether the two could be told apart."""
    supposed: str = ""
    """Why these are not what was measured; empty: they are."""

    @property
    def total(self) -> float:
        """The variance of one attempt at one instance."""
        return self.between + self.within


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """What a plan rests on."""

    source: str
    instances: int
    """Of which some attempt counts."""
    attempts: float
    """Counted at one instance; the harmonic mean where they differ."""
    outcomes: Outcomes
    lost: float = 0.0
    """Share of the attempts that count for nobody: infra and unsettled ones."""
    infra: float = 0.0
    """Share of the attempts that are infra."""
    tries: float | None = None
    """An attempt; None: nobody recorded them."""
    tokens: Spread | None = None
    dollars: Spread | None = None
    """None: at least one attempt has no known price, as with the other two."""
    agent_seconds: Spread | None = None
    scoring_seconds: float | None = None
    """The mean of an attempt, every scoring of it counted."""
    control_seconds: float = 0.0
    """An instance: what gold and the empty patch took."""
    agent_workers: int = 2
    scorer_workers: int = 2
    groups: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """By instance: its counted attempts, for pairing."""
    pending: int = 0
    recorded: bool = True
    """Whether it is a run of one's own."""
    verified: bool = True
    """Whether it was drawn from Verified."""


def nearest_half(rate: float, instances: int) -> float:
    """The end of a rate's 95 % interval that is nearest to one half, where variance is largest."""
    low, high = wilson(rate, instances)
    return min(max(0.5, low), high)


def outcomes_of(groups: Sequence[Sequence[float]]) -> Outcomes | None:
    """Split the variance if it can be; suppose p (1 - p) if not. None: nothing is counted."""
    found = variance(groups)
    if found is None:
        return None
    if found.between is not None and found.within is not None and found.between + found.within:
        return Outcomes(rate=found.rate, between=found.between, within=found.within, split=True)
    rate = found.rate
    why = "one attempt an instance: its variance is p (1 - p), and what repeating brings is unknown"
    if rate in (0.0, 1.0) or found.instances == 1:
        rate = nearest_half(rate, found.instances)
        all_of = "nothing" if found.rate == 0 else "everything"
        seen = "one instance" if found.instances == 1 else f"{all_of} was resolved"
        why = f"{seen}, which shows no variance: p is taken as {100 * rate:.1f} %, so p (1 - p)"
    return Outcomes(
        rate=found.rate, between=rate * (1 - rate), within=0.0, split=False, supposed=why
    )


def of_facts() -> Basis:
    """The published figures, which are of two models and of one agent."""
    known, attempt = facts()["outcomes"], facts()["attempt"]
    return Basis(
        source="published figures",
        instances=known["instances"],
        attempts=known["attempts"],
        outcomes=Outcomes(
            rate=known["rate"], between=known["between"], within=known["within"], split=True
        ),
        tokens=Spread(**attempt["tokens"]),
        dollars=Spread(**attempt["dollars"]),
        agent_seconds=Spread(**attempt["agent_seconds"]),
        recorded=False,
    )


def of_run(results: Results, name: str) -> Basis:
    """What a run tells, finished or not; an attempt is paid for with all of its tries.

    Raises:
        UserError: none of its attempts counts.
    """
    over = [row for row in results.rows if row.outcome != "pending"]
    # Further ones are made where outcomes call for them: they would make variances larger.
    firsts = [row for rows in results.firsts.values() for row in rows if row.outcome != "pending"]
    groups: dict[str, list[float]] = {id_: [] for id_ in results.ids}
    for row in firsts:
        groups[row.instance_id] += [float(row.resolved)] if row.counted else []
    groups = {id_: group for id_, group in groups.items() if group}
    outcomes = outcomes_of(list(groups.values()))
    if outcomes is None:
        raise UserError(
            f"{name}: no attempt of this run counts yet; go on with `passone run`, or plan "
            "without a run"
        )
    counted = sum(map(len, groups.values()))
    return Basis(
        source=name,
        instances=len(groups),
        attempts=len(groups) / sum(1 / len(group) for group in groups.values()),
        outcomes=outcomes,
        lost=1 - counted / len(firsts),
        infra=sum(row.blame == "infra" for row in firsts) / len(firsts),
        groups=groups,
        pending=len(results.rows) - len(over),
        verified="verified" in str(results.plan["selection"]["dataset"]).lower(),
        **(expense(results, over) if results.recorded else {}),
    )


def expense(results: Results, over: Sequence[AttemptRow]) -> dict[str, Any]:
    """The part of a `Basis` that says what attempts took."""
    book, execution = results.book, results.plan["execution"]
    times = [seconds_of(book, row) for row in over]
    usages = [row.usage for row in over]
    looked = [row.instance_id for row in over if row.attempt == 1]
    return {
        "tries": fmean(row.tries for row in over),
        "tokens": Spread.of([float(usage.tokens) for usage in usages]),
        "dollars": dollars_of(usages),
        "agent_seconds": Spread.of([agent for agent, _ in times]),
        "scoring_seconds": fmean(scoring for _, scoring in times),
        "control_seconds": fmean(control_seconds(book, id_) for id_ in looked) if looked else 0.0,
        "agent_workers": int(execution["agent_workers"]),
        "scorer_workers": int(execution["scorer_workers"]),
    }


def dollars_of(usages: Sequence[Usage]) -> Spread | None:
    """Unknown is contagious, never zero."""
    known = [usage.cost_usd for usage in usages if usage.cost_usd is not None]
    return Spread.of(known) if len(known) == len(usages) else None


def seconds_of(book: Book, row: AttemptRow) -> tuple[float, float]:
    """Of one attempt, all tries together: the agent's time, and that of scoring."""
    entry = book.entry(Attempt(row.instance_id, row.attempt))
    agent = [row.value for row in entry.rollouts]
    scoring = [row.value for row in entry.verdicts]
    return (
        math.fsum(value.seconds for value in agent if isinstance(value, Rollout | Fault)),
        math.fsum(value.seconds for value in scoring if isinstance(value, Verdict | Fault)),
    )


def control_seconds(book: Book, instance_id: str) -> float:
    looks = (look for _, look in book.looks(instance_id))
    return math.fsum(verdict.seconds for look in looks for verdict in (*look.gold, *look.empty))
