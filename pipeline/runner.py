"""Run one try of one attempt: a place, a lane and an agent in, a `Rollout` or a `Fault` out."""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from threading import Event

from pipeline.contracts import Agent, Assignment, Endpoint, Sandboxes
from pipeline.domain import Attempt, Fault, Instance, Limits, Patch, Rollout, Stop, Usage
from pipeline.outcomes import InfraError, attribute, fault_of
from pipeline.plan import RunPlan
from pipeline.rundir import RunDir, install
from pipeline.sites import MachineSite

Lanes = Callable[[Attempt, int, Path], contextlib.AbstractContextManager[Endpoint]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """The first stage."""

    plan: RunPlan
    run: RunDir
    instances: Mapping[str, Instance]
    agent: Agent
    lanes: Lanes
    sandboxes: Sandboxes
    cancelled: Event

    def roll(self, attempt: Attempt, try_number: int) -> Rollout | Fault:
        """One try. Never raises; what it wrote is in place before it returns."""
        started = time.monotonic()
        spent: list[Usage] = []
        workdir = None
        try:
            workdir = self.run.partial("try", attempt.instance_id, attempt.number, try_number)
            value: Rollout | Fault = self._solve(attempt, try_number, workdir, spent)
        except Exception as error:  # noqa: BLE001 - the border of the stage
            value = fault_of(error, spent=spent, seconds=time.monotonic() - started)
        try:
            if workdir is not None and not self.cancelled.is_set():
                self._file(workdir, attempt, try_number, value)
        except Exception as error:  # noqa: BLE001 - likewise: whatever an agent left is read here
            return fault_of(error, spent=spent, seconds=time.monotonic() - started)
        return value

    def _solve(
        self,
        attempt: Attempt,
        try_number: int,
        workdir: Path,
        spent: list[Usage],
    ) -> Rollout:
        instance = self.instances[attempt.instance_id]
        limits = within(self.plan.limits, instance.seconds)
        with contextlib.ExitStack() as stack:
            lane = stack.enter_context(self.lanes(attempt, try_number, workdir / "tape.jsonl"))
            site = None
            if self.agent.asks_model:
                site = stack.enter_context(self.sandboxes.site(instance, attempt))
            begun = time.monotonic()
            try:
                departure = self.agent.solve(
                    Assignment(
                        attempt=attempt,
                        instance=instance,
                        endpoint=lane,
                        site=site,
                        limits=limits,
                        sampling=self.plan.sampling,
                        workdir=workdir,
                        cancelled=self.cancelled,
                    )
                )
            finally:
                waited_seconds, silent_seconds = lane.waited_seconds, lane.silent_seconds
                # An answer that is still on its way is booked, or given up, before we count.
                lane.close()
                spent.append(lane.usage)
            if site is not None and departure.worked_until is not None:
                # Later deaths are its own clean-up. An agent may go on talking to a dead container.
                killed = self.sandboxes.casualty(site, until=departure.worked_until)
                # It came first: whatever ended the talk with a dead container followed from that.
                # Only a fault of the endpoint is surer than a death that the model may have made.
                surer = isinstance(lane.ending, Fault) and killed is not None and killed.died
                if killed and not surer and departure.meaning is not Stop.SUBMITTED:
                    raise InfraError(killed.cause, killed.detail, died=killed.died)
            try:
                rollout = attribute(
                    departure,
                    ending=lane.ending,
                    usage=lane.usage,
                    limits=limits,
                    # Not the time that its image took: that is no part of its limit.
                    seconds=time.monotonic() - begun,
                    waited_seconds=waited_seconds,
                    silent_seconds=silent_seconds,
                    asked=self.agent.asks_model,
                )
            except InfraError as error:
                error.fault = replace(error.fault, drift=lane.drift)
                raise
            if isinstance(site, MachineSite):
                # However it stopped: what is graded is what it left.
                rollout = replace(rollout, submission=site.hand_in(workdir))
            return replace(rollout, drift=lane.drift, asked_seconds=round(lane.asked_seconds, 3))

    def _file(self, workdir: Path, attempt: Attempt, number: int, value: Rollout | Fault) -> None:
        """Put the artefacts where a reader looks for them."""
        lines = [json.dumps(asdict(step), ensure_ascii=False) for step in self.agent.steps(workdir)]
        if lines:
            # A model may write half a surrogate pair.
            (workdir / "steps.jsonl").write_text(
                "\n".join(lines) + "\n", encoding="utf-8", errors="replace"
            )
        if isinstance(value, Rollout) and isinstance(value.submission, Patch):
            diff = value.submission.diff.encode("utf-8", "surrogateescape")
            (workdir / "patch.diff").write_bytes(diff)
        if isinstance(value, Fault):
            text = f"{value.cause}: {value.detail}\n"
            (workdir / "fault.txt").write_text(text, encoding="utf-8", errors="replace")
        target = self.run.attempt(attempt, number)
        # A process that was killed before its row left one there; somebody is billed for it.
        self.run.salvage(target)
        install(workdir, target)


def within(limits: Limits, seconds: float | None) -> Limits:
    """The plan's limits, with an instance's own time where that is shorter."""
    if not seconds or 0 < limits.seconds <= seconds:
        return limits
    return replace(limits, seconds=math.ceil(seconds))
