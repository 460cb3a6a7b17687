"""Drive every attempt of a plan to an outcome, and its instance to a settlement.

Scoring starts as rollouts land; an instance is looked at with its controls once the attempts at
it are over; a vote may call for more. Workers return values; only this loop writes the ledger.
"""

from __future__ import annotations

import heapq
import itertools
import random
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from typing import TypeAlias

from pipeline.brake import Brake
from pipeline.contracts import Doubt, Executor, Stages
from pipeline.domain import Attempt, Controls, Fault, Rollout, Verdict
from pipeline.ledger import Kind, Ledger, Row
from pipeline.outcomes import RETRYABLE
from pipeline.plan import RunPlan
from pipeline.trust import CLEARS_FLAKY, Trust, earlier_gold_settles
from pipeline.votes import due

GRACE_SECONDS = 30.0
TICK_SECONDS = 0.2
POOL = {Kind.ROLLOUT: Kind.ROLLOUT, Kind.VERDICT: Kind.VERDICT, Kind.CONTROL: Kind.VERDICT}
"""Controls are scored by the scorer's workers."""

Result: TypeAlias = Rollout | Verdict | Controls | Fault


@dataclass(frozen=True, slots=True, order=True)
class Job:
    """Something to be done, not before its time."""

    due: float
    order: int
    kind: Kind = field(compare=False)
    attempt: Attempt = field(compare=False)


class Schedule:
    """One invocation over one plan."""

    def __init__(
        self,
        plan: RunPlan,
        ledger: Ledger,
        stages: Stages,
        *,
        executors: dict[Kind, Executor],
        brake: Brake | None = None,
        landed: Callable[[Row], None] = lambda row: None,
        clock: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
    ) -> None:
        self.plan = plan
        self.ledger = ledger
        self.book = ledger.book()
        self.stages = stages
        self.executors = executors
        self.brake = brake or Brake()
        self.landed = landed
        self.clock = clock
        self.rng = rng or random.Random()
        workers = plan.execution
        self.slots = {Kind.ROLLOUT: workers.agent_workers, Kind.VERDICT: workers.scorer_workers}
        self.queues: dict[Kind, list[Job]] = {Kind.ROLLOUT: [], Kind.VERDICT: []}
        self.running: dict[Future[Result], Job] = {}
        self.tries: dict[tuple[Kind, Attempt], int] = {}
        begun = self.book.begun()
        self.due = {id_: max(plan.least, begun.get(id_, 0)) for id_ in plan.selection.ids}
        self.resting: dict[str, set[Attempt]] = {id_: set() for id_ in plan.selection.ids}
        self.before_look: dict[Job, int] = {}
        self.asked: dict[str, Doubt] = {}
        self.again = set(plan.grid()) if stages.rescore else set()
        self.counter = itertools.count()
        self.soft_since: float | None = None

    def drive(self) -> bool:
        """Work until nothing is left (True), or until the brake is pressed (False).

        Raises UserError: the ledger could not be written.
        """
        for instance_id in self.plan.selection.ids:
            if self.stages.has_control and self.book.worth_a_look(instance_id):
                self.push(Kind.CONTROL, Attempt(instance_id, 0))
        for attempt in [one for one in self.plan.grid() if one.number <= self.due[one.instance_id]]:
            self.next_for(attempt)
        while not self.brake.hard.is_set():
            self.launch()
            if not self.running and not any(self.queues.values()):
                return True
            if self.brake.soft.is_set():
                self.soft_since = self.soft_since or self.clock()
                waits = len(self.running) > self.stages.stuck()
                if not waits or self.clock() - self.soft_since > GRACE_SECONDS:
                    return False
            self.collect()
        return False

    def idle(self, *, wait_seconds: float = 1.0) -> bool:
        """Whether every worker is done with what it was given."""
        return not wait(self.running, timeout=wait_seconds).not_done

    def push(self, kind: Kind, attempt: Attempt, *, delay: float = 0.0) -> None:
        job = Job(self.clock() + delay, next(self.counter), kind, attempt)
        heapq.heappush(self.queues[POOL[kind]], job)

    def launch(self) -> None:
        """Start what is due, as far as there are workers."""
        if self.brake.soft.is_set():
            return
        busy = [POOL[job.kind] for job in self.running.values()]
        for pool, queue in self.queues.items():
            free = self.slots[pool] - busy.count(pool)
            if pool is Kind.ROLLOUT and self.stages.held():
                free = min(free, int(pool not in busy))
            while free > 0 and queue and queue[0].due <= self.clock():
                job = heapq.heappop(queue)
                self.running[self.start(job)] = job
                free -= 1

    def start(self, job: Job) -> Future[Result]:
        key = (job.kind, job.attempt)
        self.tries[key] = self.tries.get(key, 0) + 1
        if job.kind is Kind.ROLLOUT:
            number = len(self.book.entry(job.attempt).rollouts) + 1
            return self.executors[Kind.ROLLOUT].submit(self.stages.roll, job.attempt, number)
        scorers = self.executors[Kind.VERDICT]
        if job.kind is Kind.CONTROL:
            instance_id = job.attempt.instance_id
            self.before_look[job] = self.newest(instance_id)
            number = len(self.book.controls.get(instance_id, [])) + 1
            doubt = self.asked[instance_id] = self.doubt(instance_id)
            return scorers.submit(self.stages.look, instance_id, number, doubt)
        self.again.discard(job.attempt)
        rollout = self.book.entry(job.attempt).rollout
        assert isinstance(rollout, Rollout)
        return scorers.submit(self.stages.score, job.attempt, rollout.submission)

    def collect(self) -> None:
        """Wait a little, and write down whatever has landed."""
        if not self.running:
            self.brake.soft.wait(TICK_SECONDS)
            return
        done, _ = wait(self.running, timeout=TICK_SECONDS, return_when=FIRST_COMPLETED)
        for future in sorted(done, key=lambda item: self.running[item].order):
            job = self.running.pop(future)
            if self.brake.hard.is_set():
                # It was cut off by us: that says nothing about anybody.
                continue
            self.land(job, future.result())

    def write(self, kind: Kind, attempt: Attempt, value: Result | None) -> None:
        """Append one row; for None, the attempt's settlement."""
        if value is None:
            settled = self.book.conclude(attempt, has_control=self.stages.has_control)
            if settled is None or settled == self.book.entry(attempt).settlement:
                return
            rows = self.book.entry(attempt).settlements
            row = self.ledger.append(kind, attempt, len(rows) + 1, settled)
        else:
            entry = self.book.entry(attempt)
            earlier = {
                Kind.ROLLOUT: entry.rollouts,
                Kind.VERDICT: entry.verdicts,
                Kind.CONTROL: self.book.controls.get(attempt.instance_id, []),
            }[kind]
            row = self.ledger.append(kind, attempt, len(earlier) + 1, value)
        self.book.add(row)
        self.landed(row)

    def newest(self, instance_id: str) -> int:
        """The latest row that the controls could be asked about."""
        lasts = [self.book.entry(attempt).last for attempt in self.attempts_at(instance_id)]
        return max((row.seq for row in lasts if row), default=0)

    def land(self, job: Job, value: Result) -> None:
        if job.kind is Kind.CONTROL:
            before = self.before_look.pop(job)
            if isinstance(value, Controls) and before != self.newest(job.attempt.instance_id):
                # It began before something that it would speak for: row order would lie.
                self.push(Kind.CONTROL, job.attempt)
                return
        self.write(job.kind, job.attempt, value)
        if isinstance(value, Fault) and self.retry(job, value):
            return
        if job.kind is Kind.CONTROL:
            self.after_look(job.attempt.instance_id)
        elif isinstance(value, Fault):
            self.rest(job.attempt)
        else:
            self.next_for(job.attempt)

    def retry(self, job: Job, fault: Fault) -> bool:
        """Whether another try was put in the queue."""
        used = self.tries[job.kind, job.attempt]
        replayed = job.kind is Kind.ROLLOUT and self.stages.tries_of is not None
        hopeful = (RETRYABLE[fault.cause] or fault.died) and not fault.final
        more = hopeful and used < self.plan.execution.tries
        if self.spent(job.attempt) if replayed else not more:
            return False
        base = 0 if replayed else self.plan.execution.backoff_seconds * 2 ** (used - 1)
        self.push(job.kind, job.attempt, delay=base * self.rng.uniform(0.75, 1.25))
        return True

    def spent(self, attempt: Attempt) -> bool:
        """Whether a replay has made every try that was recorded."""
        tries_of = self.stages.tries_of
        return tries_of is not None and len(self.book.entry(attempt).rollouts) >= tries_of(attempt)

    def next_for(self, attempt: Attempt) -> None:
        """Queue the next stage of an attempt, or let it rest."""
        entry = self.book.entry(attempt)
        rollout = entry.rollout
        spent = isinstance(rollout, Fault) and self.spent(attempt)
        again = attempt in self.again and isinstance(entry.verdict, Verdict)
        if spent or (entry.over and not again and not self.book.uncertain(attempt)):
            self.rest(attempt)
        elif rollout is None or isinstance(rollout, Fault):
            self.push(Kind.ROLLOUT, attempt)
        else:
            self.push(Kind.VERDICT, attempt)

    def rest(self, attempt: Attempt) -> None:
        """Nothing more happens to this attempt; its instance may now be settled."""
        resting = self.resting[attempt.instance_id]
        resting.add(attempt)
        if len(resting) < self.due[attempt.instance_id]:
            return
        queued = [*self.running.values(), *self.queues[Kind.VERDICT]]
        control = Attempt(attempt.instance_id, 0)
        if any(job.kind is Kind.CONTROL and job.attempt == control for job in queued):
            return
        if self.stages.has_control and self.wants_look(attempt.instance_id):
            self.push(Kind.CONTROL, control)
        else:
            self.settle(attempt.instance_id)

    def attempts_at(self, instance_id: str) -> list[Attempt]:
        """All that are due there by now."""
        return [Attempt(instance_id, number) for number in range(1, self.due[instance_id] + 1)]

    def doubt(self, instance_id: str) -> Doubt:
        """How closely this instance has to be looked at, as the rows stand."""
        attempts = self.attempts_at(instance_id)
        perished = [self.book.entry(attempt).perished_seconds for attempt in attempts]
        golds = self.plan.trust.repeats if self.book.disagree(attempts) else 1
        return Doubt(
            golds=CLEARS_FLAKY if self.book.place(instance_id) is Trust.FLAKY else golds,
            idle_seconds=max((seconds for seconds in perished if seconds), default=0.0),
        )

    def wants_look(self, instance_id: str) -> bool:
        """Whether it must be looked at now; a kept look is entered instead where it will do."""
        looks, attempts = self.book.looks(instance_id), self.attempts_at(instance_id)
        doubt = self.doubt(instance_id)
        if looks:
            trusted = self.book.place(instance_id) is Trust.TRUSTED
            few = len(looks[-1][1].gold) < doubt.golds and self.asked.get(instance_id) != doubt
            unknown = any(self.book.trust(attempt) is Trust.UNKNOWN for attempt in attempts)
            return unknown or (trusted and few)
        if instance_id in self.asked:
            return True
        values = [self.book.entry(attempt).basis for attempt in attempts]
        digests = {v.evidence.image_digest for v in values if isinstance(v, Verdict)}
        if len(digests) == 1 and all(earlier_gold_settles(value) for value in values):
            kept = self.stages.kept(instance_id, digests.pop())
            if kept is not None and len(kept.gold) >= doubt.golds:
                self.write(Kind.CONTROL, Attempt(instance_id, 0), kept)
                return False
        return True

    def after_look(self, instance_id: str) -> None:
        """Grade again what an earlier look had moved, or an outage may have made; else settle."""
        for attempt in self.attempts_at(instance_id):
            if self.stages.has_control and self.book.uncertain(attempt):
                self.resting[instance_id].discard(attempt)
                if self.book.doubted(attempt):
                    self.tries.pop((Kind.VERDICT, attempt), None)
                self.push(Kind.VERDICT, attempt)
        if len(self.resting[instance_id]) == self.due[instance_id]:
            self.settle(instance_id)

    def settle(self, instance_id: str) -> None:
        for attempt in self.attempts_at(instance_id):
            self.write(Kind.SETTLEMENT, attempt, None)
        self.further(instance_id)

    def further(self, instance_id: str) -> None:
        """Begin one more attempt there, if it is due; a replay begins what was recorded."""
        votes = [self.book.voted(attempt) for attempt in self.attempts_at(instance_id)]
        attempt = Attempt(instance_id, due(votes, least=self.plan.least, most=self.plan.attempts))
        if attempt.number > self.due[instance_id] and not self.spent(attempt):
            self.due[instance_id] = attempt.number
            self.next_for(attempt)
