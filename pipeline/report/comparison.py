"""Several runs side by side: the paired test, and what each instance came to in each of them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, TypeAlias

from pipeline.compare import Told, compare, side_of
from pipeline.compare.records import by_instance, by_pair, by_side
from pipeline.compare.sides import labels
from pipeline.outcomes import UserError
from pipeline.report.details import Source

Record: TypeAlias = dict[str, Any]
MOST_RUNS = 4


def names_of(sources: Sequence[Source]) -> list[str]:
    """A name for each run that no other has."""
    return labels([side_of(s.results, place=str(s.run.root)) for s in sources])


def comparison_record(sources: Sequence[Source]) -> Record:
    """What `passone compare` says of these runs, over the instances that all of them have.

    Returns:
        `refused`: why they cannot be compared; the rest is as `pipeline.compare.records` has it.
    """
    sides = [side_of(s.results, place=str(s.run.root), driver=s.run.driver) for s in sources]
    try:
        found = compare(sides, intersect=True, rng=random.Random(0))
    except UserError as error:
        return {"refused": str(error)}
    return {
        "title": found.title,
        "sentences": found.sentences,
        "confounds": found.confounds,
        "notes": list(found.notes),
        "differences": [[item.key, *item.values] for item in found.differences],
        "sides": by_side(found),
        "rewards": [source.results.reward(list(found.ids)) for source in sources],
        "pairs": by_pair(found),
        "instances": [
            [item["instance"], item["told"]]
            + [
                [item[f"{letter}_{what}"] for what in ("resolved", "counted", "attempts", "vote")]
                for letter in "abcd"[: len(found.sides)]
            ]
            for item in by_instance(found)
        ],
        "apart": [Told.ONLY_FIRST.value, Told.ONLY_SECOND.value, Told.OPEN.value, "apart"],
    }
