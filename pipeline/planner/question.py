"""What is asked: how near a rate, or how small a difference between two models."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

from pipeline.outcomes import UserError
from pipeline.planner.basis import Basis
from pipeline.planner.facts import facts
from pipeline.stats import (
    Z95,
    detectable,
    expected_error,
    instances_for_difference,
    instances_for_width,
)
from pipeline.stats.variance import variance

NOTHING = 1e-12
"""A variance below this is rounding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A rate to within so much, or a difference of so much, from k attempts at each instance."""

    target: float | None
    """Half the width of the 95 % interval, or the difference; in (0, 1). None: a budget decides."""
    between: float
    """omega^2 of the instances, or of their differences."""
    within: tuple[float, ...]
    """sigma^2 of one attempt, of each model that is run."""
    power: float | None = None
    """None: it asks for a rate."""
    split: bool = True
    """Whether what attempts bring is known."""
    supposed: str = ""
    """What was supposed about the second model."""

    @property
    def models(self) -> int:
        return len(self.within)

    def reach(self, counted: float, k: int) -> float:
        """What so many counted instances come to: half a width, or the least difference found."""
        error = expected_error(counted, between=self.between, within=sum(self.within), k=k)
        return Z95 * error if self.power is None else detectable(error, power=self.power)

    def counted(self, k: int) -> float:
        """Counted instances that it needs at k attempts.

        Raises:
            ValueError: it has no target.
        """
        if self.target is None:
            raise ValueError("a question without a target needs no number of instances")
        if self.power is None:
            [within] = self.within
            return instances_for_width(self.target, between=self.between, within=within, k=k)
        first, second = self.within
        return instances_for_difference(
            self.target,
            between=self.between,
            within=(first, second),
            attempts=(k, k),
            power=self.power,
        )


def within(basis: Basis, half: float | None) -> Question:
    """How near is the rate of the model that this rests on?"""
    known = basis.outcomes
    return Question(target=half, between=known.between, within=(known.within,), split=known.split)


def apart(basis: Basis, delta: float | None, power: float) -> Question:
    """Is another model better, of which nothing is known but that it varies like this one?

    Two outcomes at one instance correlate as published ones do, so the covariance is
    r (omega^2 + sigma^2), and omega^2 of the differences twice what it leaves of omega^2.
    """
    known, correlation = basis.outcomes, facts()["correlation"]
    shared = correlation["value"] * known.total
    return Question(
        target=delta,
        between=max(2 * (known.between - shared), 0.0),
        within=(known.within, known.within),
        power=power,
        split=known.split,
        supposed=(
            f"the other model varies like this one, and their outcomes at an instance correlate by "
            f"{correlation['value']:g} (published pairs: {correlation['lowest']:g} to "
            f"{correlation['highest']:g}); --other RUN measures it"
        ),
    )


def paired(first: Basis, second: Basis, delta: float | None, power: float) -> Question:
    """Is the second model better, by what the two came to at the instances that both have?

    Raises:
        UserError: they share fewer than two, or differ at none.
    """
    ids = sorted(first.groups.keys() & second.groups.keys())
    gaps = [[fmean(first.groups[id_]) - fmean(second.groups[id_])] for id_ in ids]
    place = f"{first.source} and {second.source}"
    if len(ids) < 2:
        raise UserError(
            f"{place}: {len(ids)} shared instances with an attempt that counts, too few to pair; "
            "leave --other out"
        )
    found = variance(gaps)
    assert found is not None
    assert found.error is not None
    total = found.error**2 * len(ids)
    sides = [variance([basis.groups[id_] for id_ in ids]) for basis in (first, second)]
    known = [
        (side.within, side.within / side.attempts)
        for side in sides
        if side is not None and side.within is not None
    ]
    split = len(known) == len(sides)
    noise = (known[0][0], known[1][0]) if split else (0.0, 0.0)
    if total + sum(noise) < NOTHING:
        raise UserError(
            f"{place}: they differ by the same at every one of {len(ids)} shared instances, which "
            "shows no variance; leave --other out"
        )
    return Question(
        target=delta,
        between=max(total - sum(part for _, part in known), 0.0) if split else total,
        within=noise,
        power=power,
        split=split,
        supposed=f"differences vary as at the {len(ids)} instances that both runs have",
    )
