"""What choosing is worth: beside pass@1 of any attempt, and pass@k of the best one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.choice.chosen import Choice
from pipeline.results import Results
from pipeline.stats import interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """Rates from 0 to 1, over the same instances: those with an attempt that counts."""

    instances: int
    chosen: float
    """Share of instances whose chosen patch the official tests resolve."""
    chosen_ci95: tuple[float, float]
    first: float
    """pass@1: the mean over attempts, then over instances."""
    best: float
    """Share of instances that any attempt resolves."""
    most: int
    """Attempts of an instance, at most."""
    helped: int
    """Instances where the chosen patch does better than the mean of attempts."""
    harmed: int

    @property
    def above_first(self) -> float:
        return self.chosen - self.first

    @property
    def below_best(self) -> float:
        return self.best - self.chosen


def gain(results: Results, choices: Mapping[str, Choice | None]) -> Gain | None:
    """Hold what was chosen against what is known of it.

    Args:
        choices: by instance; None: nobody submitted a patch there, which resolves nothing.

    Returns:
        None where no attempt counts anywhere.
    """
    groups = {
        instance_id: {row.attempt: float(row.resolved) for row in rows if row.counted}
        for instance_id, rows in results.firsts.items()
        if instance_id in choices
    }
    groups = {instance_id: rows for instance_id, rows in groups.items() if rows}
    taken = {
        instance_id: rows[choice.attempt.number] if (choice := choices[instance_id]) else 0.0
        for instance_id, rows in groups.items()
    }
    found = interval([[value] for value in taken.values()])
    if found is None:
        return None
    means = {instance_id: sum(rows.values()) / len(rows) for instance_id, rows in groups.items()}
    return Gain(
        instances=len(groups),
        chosen=found[0],
        chosen_ci95=found[1:],
        first=sum(means.values()) / len(means),
        best=sum(max(rows.values()) for rows in groups.values()) / len(groups),
        most=max(len(rows) for rows in groups.values()),
        helped=sum(taken[instance_id] > mean for instance_id, mean in means.items()),
        harmed=sum(taken[instance_id] < mean for instance_id, mean in means.items()),
    )
