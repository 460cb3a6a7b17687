"""One patch of an instance's attempts: of the largest group that breaks least."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pipeline.choice.patches import normalised
from pipeline.domain import Attempt, Patch, Rollout
from pipeline.results import Results

Shown: TypeAlias = Mapping[str, bool]
"""Tests of the repository, and whether each passed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A patch that may be chosen. What the hidden tests say of it is not in here."""

    attempt: Attempt
    diff: str
    text: str
    """Equal for patches that are the same, but for white space, offsets and comments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What was chosen for an instance, and why."""

    attempt: Attempt
    diff: str
    candidates: int
    texts: int
    """So many different patches there are."""
    alike: int
    """Attempts whose patch does the same to the visible tests, itself included."""
    same: int
    """Attempts with the same patch, itself included."""
    behaviours: int
    """So many different effects on the visible tests; 0: none was run."""
    tests: int = 0
    """Visible tests that pass without any patch."""
    broken: int | None = None
    """Of them, how many fail with it; None: it never came to their end, or none was run."""


def candidates(results: Results) -> dict[str, list[Candidate]]:
    """The patches of each instance's attempts that count for or against the model.

    Where nobody submitted one the list is empty; where no attempt counts, there is none. Attempts
    that there may be or not, by what the hidden tests say of the others, are none either.
    """
    found: dict[str, list[Candidate]] = {}
    for instance_id, rows in results.firsts.items():
        counted = [row for row in rows if row.counted]
        if not counted:
            continue
        group = found.setdefault(instance_id, [])
        for row in counted:
            attempt = Attempt(instance_id, row.attempt)
            rollout = results.book.entry(attempt).rollout
            submission = rollout.submission if isinstance(rollout, Rollout) else None
            if isinstance(submission, Patch) and submission.diff.strip():
                diff = submission.diff
                group.append(Candidate(attempt=attempt, diff=diff, text=normalised(diff)))
    return found


def choose(
    group: Sequence[Candidate],
    shown: Mapping[str, Shown | None] | None = None,
    base: Shown | None = None,
) -> Choice | None:
    """The earliest of the most frequent patch of the largest group that breaks least.

    Args:
        shown: what became of the visible tests with each patch, by its text; None in it: they
            came to no end. None: they were not run, and only equal texts make a group.
        base: the same without any patch.

    Returns:
        None where there is no candidate.
    """
    if not group:
        return None
    texts = Counter(candidate.text for candidate in group)
    effects = {text: effect(shown, text) for text in texts}
    alike = Counter(effects[candidate.text] for candidate in group)
    passing = [test for test, passed in (base or {}).items() if passed]

    def broken(text: str) -> float:
        if shown is None:
            return 0
        seen = shown.get(text)
        # What takes its tests along has broken all of them.
        return float("inf") if seen is None else sum(not seen.get(test) for test in passing)

    def rank(candidate: Candidate) -> tuple[float, int, int, int]:
        text = candidate.text
        size = alike[effects[text]]
        return broken(text), -size, -texts[text], candidate.attempt.number

    best = min(group, key=rank)
    count = broken(best.text)
    return Choice(
        attempt=best.attempt,
        diff=best.diff,
        candidates=len(group),
        texts=len(texts),
        alike=alike[effects[best.text]],
        same=texts[best.text],
        behaviours=len(alike) if shown is not None else 0,
        tests=len(passing),
        broken=None if shown is None or count == float("inf") else int(count),
    )


def effect(shown: Mapping[str, Shown | None] | None, text: str) -> object:
    """What makes two patches do the same; without tests run: their text."""
    if shown is None:
        return text
    seen = shown.get(text)
    return None if seen is None else frozenset(seen.items())
