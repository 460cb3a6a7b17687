"""Say what is asked for: which instances, which agent and model, how often, within what.

A plan decides the result, its execution decides the speed; the digest covers the
first and leaves out the second.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from pipeline.domain import Attempt, Limits, Sampling, SandboxLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which instances, of which release of a benchmark, and how they were drawn."""

    benchmark: str
    dataset: str
    revision: str
    """What the dataset's host calls this release; empty where nobody says."""
    fingerprint: str
    """sha256 over the canonical rows of the drawn instances."""
    recipe: Mapping[str, Any]
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """How a plan is carried out; may change whenever a run is continued."""

    executor: Literal["threads"] = "threads"
    agent_workers: int = 2
    scorer_workers: int = 2
    tries: int = 3
    """At most this many tries an attempt and stage within one invocation."""
    backoff_seconds: float = 5.0
    """Before the second try; doubled before each further one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustTerms:
    """How far a result is believed; may change whenever a run is continued."""

    repeats: int = 3
    """Golds in one look at an instance, where one of them failed or its attempts disagree."""
    rescore_share: float = 0.05
    """Of the submissions whose verdict is kept, how many are scored all the same."""
    empty_share: float = 0.2
    """With more of the attempts without a submission than this, no single score is printed."""
    infra_share: float = 0.2
    """The same for attempts that are infra."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """Everything that decides a run's result, resolved and pinned."""

    name: str
    selection: Selection
    agent: str
    model: str
    grader: str = ""
    """What verdicts rest on: the grader and its version, or the hash of imported ones."""
    agent_options: Mapping[str, Any] = field(default_factory=dict)
    """Handed to the agent; files among them are named by content hash."""
    replies: str = ""
    """sha256 of the scripted replies that stand in for a model; empty: a model was asked."""
    attempts: int = 1
    """At one instance; where `min_attempts` is given, at most."""
    min_attempts: int | None = None
    """Every instance gets so many, and more while they can change its vote. None: all."""
    sampling: Sampling = field(default_factory=Sampling)
    limits: Limits = field(default_factory=Limits)
    sandbox: SandboxLimits = field(default_factory=SandboxLimits)
    execution: Execution = field(default_factory=Execution)
    trust: TrustTerms = field(default_factory=TrustTerms)

    def grid(self) -> Iterator[Attempt]:
        """Round-robin over instances, so an early stop still covers all of them."""
        for number in range(1, self.attempts + 1):
            for instance_id in self.selection.ids:
                yield Attempt(instance_id, number)

    @property
    def least(self) -> int:
        """Attempts that every instance gets."""
        return self.attempts if self.min_attempts is None else self.min_attempts

    @property
    def identity(self) -> dict[str, Any]:
        """What the digest covers: all that can change a result, and nothing else."""
        content = asdict(self)
        for key in ("name", "execution", "trust", "attempts", "min_attempts"):
            del content[key]
        content["selection"] = {
            "ids": sorted(self.selection.ids),
            "fingerprint": self.selection.fingerprint,
        }
        return content

    @property
    def digest(self) -> str:
        """Identity of the experiment: everything but how it is carried out."""
        text = json.dumps(self.identity, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def least_of(plan: Mapping[str, Any]) -> int:
    """Attempts that every instance gets, by plan.json; those before them are never left out."""
    return int(plan.get("min_attempts") or plan["attempts"])


def stops_early(plan: Mapping[str, Any]) -> bool:
    """Whether attempts are left out that cannot change a vote, by plan.json."""
    return plan.get("min_attempts") is not None and least_of(plan) < int(plan["attempts"])


def attempts_in_words(plan: Mapping[str, Any]) -> str:
    """As `--set` takes them, by plan.json."""
    if not stops_early(plan):
        return f"attempts={plan['attempts']}"
    return f"'attempts={{min: {least_of(plan)}, max: {plan['attempts']}, stop: decided}}'"
