"""Audit every attempt of a run, keep what was found, and read the rates without what is tainted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from pipeline.audit.images import Image
from pipeline.audit.signs import Found, Own, Sign
from pipeline.audit.trajectory import read_try
from pipeline.domain import Attempt, Patch, Rollout
from pipeline.outcomes import UserError
from pipeline.results import Results, read_steps
from pipeline.rundir import RunDir
from pipeline.stats import interval


class State(StrEnum):
    """What an audit came to at one attempt."""

    CLEAN = "clean"
    TAINTED = "tainted"
    NOT_AUDITED = "not_audited"


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """One attempt. Only the try that it rests on can taint it: each begins in a fresh place."""

    instance_id: str
    attempt: int
    try_number: int
    """0: none is over yet."""
    steps: int
    signs: Mapping[int, Sequence[Found]]
    """By try."""
    why_not: str = ""
    """Why it could not be audited."""

    @property
    def state(self) -> State:
        if self.why_not:
            return State.NOT_AUDITED
        tainted = any(found.taints for found in self.signs.get(self.try_number, ()))
        return State.TAINTED if tainted else State.CLEAN


def audit(
    results: Results, run: RunDir, owns: Mapping[str, Own], images: Mapping[str, Image]
) -> list[Audited]:
    """Every attempt of a run, in its order."""
    return [
        audit_attempt(
            results, run, Attempt(row.instance_id, row.attempt), owns[row.instance_id], images
        )
        for row in results.rows
    ]


def audit_attempt(
    results: Results, run: RunDir, attempt: Attempt, own: Own, images: Mapping[str, Image]
) -> Audited:
    rows = results.book.entry(attempt).rollouts
    last = rows[-1].try_number if rows else 0
    signs: dict[int, Sequence[Found]] = {}
    why_not, count = "" if rows else "no try is over yet", 0
    for row in rows:
        steps = read_steps(run.attempt(attempt, row.try_number) / "steps.jsonl")
        if row.try_number == last:
            why_not = "" if steps else "there is no trajectory, or it cannot be read"
            count = len(steps or ())
        value = row.value
        submission = value.submission if isinstance(value, Rollout) else None
        patch = submission.diff if isinstance(submission, Patch) else ""
        found = read_try(steps or (), own, patch)
        signs[row.try_number] = settled(found, images.get(attempt.instance_id))
    return Audited(
        instance_id=attempt.instance_id,
        attempt=attempt.number,
        try_number=last,
        steps=count,
        signs=signs,
        why_not=why_not,
    )


def settled(found: Sequence[Found], image: Image | None) -> list[Found]:
    """Hold looks at the history against an image that was looked at: what it lacks, nobody got."""
    fetched = any(item.sign in (Sign.REMOTE, Sign.UPSTREAM) and item.got for item in found)
    if image is None or not image.without_history or fetched:
        return list(found)
    return [replace(item, got=item.got and item.sign is not Sign.HISTORY) for item in found]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """pass@1 over all: as it is, and in two readings without what is tainted."""

    everything: float | None
    left_out: float | None
    """Tainted attempts are left out; an instance of which none is left drops out too."""
    as_failed: float | None
    """Tainted attempts stay, and count as failed."""


def rates(results: Results, tainted: frozenset[Attempt]) -> Rates:
    def mean(value: Callable[[Attempt, bool], float | None]) -> float | None:
        groups = [
            [
                known
                for row in results.at(id_)
                if (known := value(Attempt(id_, row.attempt), row.resolved)) is not None
            ]
            for id_ in results.ids
        ]
        found = interval(groups)
        return found[0] if found else None

    return Rates(
        everything=mean(lambda attempt, resolved: float(resolved)),
        left_out=mean(lambda attempt, resolved: None if attempt in tainted else float(resolved)),
        as_failed=mean(lambda attempt, resolved: float(resolved and attempt not in tainted)),
    )


def tainted_of(audited: Sequence[Audited]) -> frozenset[Attempt]:
    return frozenset(
        Attempt(item.instance_id, item.attempt) for item in audited if item.state is State.TAINTED
    )


def sign_records(audited: Sequence[Audited]) -> Iterator[dict[str, Any]]:
    """One record a sign, in the order of the run."""
    for item in audited:
        for number, signs in item.signs.items():
            for found in signs:
                yield {
                    "instance": item.instance_id,
                    "attempt": item.attempt,
                    "try": number,
                    "step": found.step,
                    "sign": found.sign.value,
                    "got": found.got,
                    "counts": number == item.try_number,
                    "taints": found.taints and number == item.try_number and not item.why_not,
                    "excerpt": found.excerpt,
                    "why": found.why,
                }


def to_json(
    results: Results, audited: Sequence[Audited], images: Mapping[str, Image]
) -> dict[str, Any]:
    """Everything that an audit has found, for a machine and for the tables."""
    return {
        "run": results.name,
        "attempts": [
            {
                "instance": item.instance_id,
                "attempt": item.attempt,
                "state": item.state.value,
                "try": item.try_number,
                "steps": item.steps,
                "why_not": item.why_not,
            }
            for item in audited
        ],
        "signs": list(sign_records(audited)),
        "images": {id_: asdict(image) for id_, image in images.items()},
        "pass_at_1": asdict(rates(results, tainted_of(audited))),
    }


def read_states(results: Results, run: RunDir) -> dict[Attempt, State]:
    """What the last audit of a run found; an attempt that was tried again since is not audited.

    Raises:
        UserError: there was none, or it cannot be read.
    """
    path = run.report / "audit.json"
    states = {Attempt(row.instance_id, row.attempt): State.NOT_AUDITED for row in results.rows}
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
        for item in tree["attempts"]:
            attempt = Attempt(item["instance"], item["attempt"])
            rows = results.book.entry(attempt).rollouts
            if attempt in states and rows and rows[-1].try_number == item["try"]:
                states[attempt] = State(item["state"])
    except FileNotFoundError:
        raise UserError(
            f"{run.root}: nobody has audited this run; do it with `passone audit {run.root}`"
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: cannot be read ({error}); run `passone audit` again") from None
    return states


def without_tainted(results: Results, tainted: frozenset[Attempt]) -> Results:
    """The same results, their tainted attempts left out."""
    kept = [row for row in results.rows if Attempt(row.instance_id, row.attempt) not in tainted]
    return replace(results, rows=kept)
