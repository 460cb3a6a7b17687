"""Score one submission, or the gold control: a `Verdict` or a `Fault` out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from threading import Event

from pipeline.contracts import Scorer
from pipeline.domain import Attempt, Fault, Instance, Submission, Verdict
from pipeline.outcomes import fault_of
from pipeline.rundir import RunDir, install
from pipeline.verdicts import GoldStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Scoring:
    """The second stage, and its control."""

    run: RunDir
    instances: Mapping[str, Instance]
    scorer: Scorer
    gold_patch: Callable[[Instance], Submission]
    store: GoldStore
    cancelled: Event

    def score(self, attempt: Attempt, submission: Submission | None) -> Verdict | Fault:
        """One scoring. Never raises; its logs are in place before it returns."""
        value = self._score(attempt, submission, str(attempt.number))
        if isinstance(value, Verdict) and submission == self._gold_of(attempt.instance_id):
            # The gold agent's passes are gold passes.
            self.store.keep(self.instances[attempt.instance_id], value)
        return value

    def gold(self, instance_id: str) -> Verdict | Fault:
        """The reference solution in the same place; a pass is kept for this machine."""
        value = self._score(Attempt(instance_id, 0), self._gold_of(instance_id), "gold")
        if isinstance(value, Verdict):
            self.store.keep(self.instances[instance_id], value)
        return value

    def kept_gold(self, instance_id: str, digest: str) -> Verdict | None:
        """A pass of an earlier run, in exactly this image."""
        verdict = self.store.find(self.instances[instance_id], digest)
        if verdict is None:
            return None
        evidence = replace(verdict.evidence, reasons=("kept from an earlier scoring",))
        return replace(verdict, evidence=evidence)

    def _gold_of(self, instance_id: str) -> Submission:
        return self.gold_patch(self.instances[instance_id])

    def _score(
        self, attempt: Attempt, submission: Submission | None, label: str
    ) -> Verdict | Fault:
        started = time.monotonic()
        try:
            workdir = self.run.partial("score", attempt.instance_id, label)
            instance = self.instances[attempt.instance_id]
            try:
                value: Verdict | Fault = self.scorer.score(attempt, instance, submission, workdir)
            finally:
                if not self.cancelled.is_set():
                    install(workdir, self.run.scoring(attempt.instance_id, label))
        except Exception as error:  # noqa: BLE001 - the border of the stage
            value = fault_of(error, seconds=time.monotonic() - started)
        return value
