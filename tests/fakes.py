"""Stand-ins that are handed in: a scripted world, a clock without waiting, a ledger in memory.

Nothing of ours is patched. A test says what each try at each stage comes to, drives the
real schedule over it, and reads the real results.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Event
from typing import Any, ParamSpec, TypeVar

from hypothesis import settings

from pipeline.brake import Brake
from pipeline.contracts import Doubt, Executor, Stages
from pipeline.domain import (
    Attempt,
    Cause,
    Controls,
    Evidence,
    Fault,
    Finding,
    Instance,
    Patch,
    Rollout,
    Stop,
    Submission,
    Tally,
    Usage,
    Verdict,
)
from pipeline.ledger import Kind, Ledger, Row
from pipeline.plan import Execution, RunPlan, Selection
from pipeline.results import Results, of_book
from pipeline.schedule import Schedule

T = TypeVar("T")
P = ParamSpec("P")

PROPERTY = settings(database=None, deadline=None, derandomize=True, max_examples=60)
"""For tests of properties: the same examples each time, no files, no stopwatch."""

DIGEST = "sha256:image"
SUBMITTED = Rollout(
    stop=Stop.SUBMITTED,
    submission=Patch("diff --git a/x b/x\n"),
    exit_status="Submitted",
    usage=Usage(requests=2, input_tokens=100, output_tokens=10, cost_usd=0.25, as_planned=2),
    steps=2,
    seconds=1.5,
)
WITHOUT_PATCH = Rollout(stop=Stop.CONTEXT_LIMIT, submission=None, exit_status="ContextWindow")


def verdict(finding: Finding, *, kept: tuple[int, int] = (3, 3), tampered: bool = False) -> Verdict:
    """A finding; `kept` says how many PASS_TO_PASS tests passed, of how many."""
    return Verdict(
        finding=finding,
        grader="fake 1",
        fail_to_pass=Tally(int(finding is Finding.RESOLVED), 1),
        pass_to_pass=Tally(*kept),
        evidence=Evidence(tampered=tampered, exit_code=0, image_digest=DIGEST),
        seconds=0.5,
    )


RESOLVED = verdict(Finding.RESOLVED)
UNRESOLVED = verdict(Finding.UNRESOLVED)
UNRESOLVED_AND_BROKEN = verdict(Finding.UNRESOLVED, kept=(2, 3))
"""Some PASS_TO_PASS failed: no gold from before can speak for it."""
REJECTED = verdict(Finding.PATCH_REJECTED, kept=(0, 0))
TIMED_OUT = verdict(Finding.TESTS_TIMED_OUT, kept=(0, 0))
DID_NOT_RUN = verdict(Finding.TESTS_DID_NOT_RUN, kept=(0, 0))
CONTESTED = verdict(Finding.RESOLVED, tampered=True)
STUMBLE = verdict(Finding.UNRESOLVED, kept=(0, 3))


def fault(cause: Cause = Cause.ENDPOINT, *, died: bool = False, spent: int = 0) -> Fault:
    usage = Usage(requests=1, input_tokens=spent, cost_usd=0.1) if spent else Usage()
    return Fault(cause=cause, detail=f"{cause} broke", died=died, usage=usage)


DIED = fault(Cause.SANDBOX, died=True)


def instance(instance_id: str, repo: str = "owner/repo", **row: Any) -> Instance:
    return Instance(
        id=instance_id, stratum=repo, prompt="fix it", image=f"image/{instance_id}", row=row
    )


def make_plan(
    *ids: str,
    k: int = 1,
    tries: int = 3,
    backoff: float = 0.0,
    workers: int = 2,
    name: str = "test",
    agent: str = "fake",
    least: int | None = None,
) -> RunPlan:
    selection = Selection(
        benchmark="swebench", dataset="d", revision="", fingerprint="f" * 64, recipe={}, ids=ids
    )
    execution = Execution(
        agent_workers=workers, scorer_workers=workers, tries=tries, backoff_seconds=backoff
    )
    return RunPlan(
        name=name,
        selection=selection,
        agent=agent,
        model="openai/fake",
        attempts=k,
        min_attempts=least,
        execution=execution,
    )


def plan_json(plan: RunPlan, *, has_control: bool = True) -> dict[str, Any]:
    """plan.json, as a run has it."""
    content = asdict(plan) | {
        "digest": plan.digest,
        "grader": "fake 1",
        "has_control": has_control,
        "repos": {id_: f"{id_.partition('-')[0]}/repo" for id_ in plan.selection.ids},
    }
    loaded: dict[str, Any] = json.loads(json.dumps(content))
    return loaded


def memory_ledger(rows: Iterable[Row] = ()) -> Ledger:
    """The real ledger without a disk, with rows in it that were committed before a crash."""
    ledger = Ledger(Path(":memory:"))
    for row in rows:
        ledger.append(row.kind, row.attempt, row.try_number, row.value)
    return ledger


class Immediately:
    """An executor that has done it by the time it returns."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


@dataclass(frozen=True, slots=True)
class Never:
    """An executor whose work never ends."""

    begun: Callable[[], None]

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        self.begun()
        return Future()


class Clock(Event):
    """Time that passes only while somebody waits; stands in for the brake's soft event."""

    def __init__(self, now: float = 1000.0) -> None:
        super().__init__()
        self.now = now

    def __call__(self) -> float:
        return self.now

    def wait(self, timeout: float | None = None) -> bool:
        self.now += timeout or 0.0
        return self.is_set()


@dataclass(slots=True)
class World:
    """What each try comes to. A list is used up one by one; its last value stays."""

    rolls: Mapping[tuple[str, int], Sequence[Rollout | Fault]] = field(default_factory=dict)
    scores: Mapping[tuple[str, int], Sequence[Verdict | Fault]] = field(default_factory=dict)
    golds: Mapping[str, Sequence[Verdict | Controls | Fault]] = field(default_factory=dict)
    """A verdict stands for as many looks at gold as are asked for, all of which come out so."""
    kept: Mapping[str, Verdict | Controls] = field(default_factory=dict)
    has_control: bool = True
    rescore: bool = False
    doubts: list[Doubt] = field(default_factory=list)
    calls: list[tuple[str, str, int]] = field(default_factory=list)
    done: Counter[tuple[Kind, Attempt]] = field(default_factory=Counter)
    before: Callable[[str, Attempt], None] = lambda stage, attempt: None

    @classmethod
    def after(cls, world: World, rows: Iterable[Row]) -> World:
        """The same world, met again by a process that finds these rows."""
        done = Counter((row.kind, row.attempt) for row in rows)
        return cls(world.rolls, world.scores, world.golds, world.kept, world.has_control, done=done)

    def roll(self, attempt: Attempt, try_number: int) -> Rollout | Fault:
        self.note("roll", attempt)
        values = self.rolls.get(attempt, [SUBMITTED])
        return values[min(try_number, len(values)) - 1]

    def score(self, attempt: Attempt, submission: Submission | None) -> Verdict | Fault:
        assert submission is not None
        self.note("score", attempt)
        return self.next(Kind.VERDICT, attempt, self.scores.get(attempt, [RESOLVED]))

    def look(self, instance_id: str, number: int, doubt: Doubt) -> Controls | Fault:
        self.note("gold", Attempt(instance_id, 0))
        self.doubts.append(doubt)
        values = self.golds.get(instance_id, [RESOLVED])
        value = self.next(Kind.CONTROL, Attempt(instance_id, 0), values)
        if not isinstance(value, Verdict):
            return value
        return Controls(gold=(value,) * doubt.golds, idled_seconds=doubt.idle_seconds)

    def kept_controls(self, instance_id: str, digest: str) -> Controls | None:
        assert digest == DIGEST
        self.done[Kind.CONTROL, Attempt(instance_id, 0)] += instance_id in self.kept
        kept = self.kept.get(instance_id)
        return Controls(gold=(kept,)) if isinstance(kept, Verdict) else kept

    def note(self, stage: str, attempt: Attempt) -> None:
        self.before(stage, attempt)
        self.calls.append((stage, *attempt))

    def next(self, kind: Kind, attempt: Attempt, values: Sequence[T]) -> T:
        self.done[kind, attempt] += 1
        return values[min(self.done[kind, attempt], len(values)) - 1]

    def stages(self) -> Stages:
        return Stages(
            roll=self.roll,
            score=self.score,
            look=self.look,
            kept=self.kept_controls,
            rescore=self.rescore,
            has_control=self.has_control,
        )


def drive(
    plan: RunPlan,
    ledger: Ledger,
    world: World,
    *,
    brake: Brake | None = None,
    executor: Executor | None = None,
    **options: Any,
) -> bool:
    """One invocation. Without an executor nothing is concurrent and nothing waits."""
    clock = Clock()
    options.setdefault("clock", clock)
    worker = executor or Immediately()
    schedule = Schedule(
        plan,
        ledger,
        world.stages(),
        executors={Kind.ROLLOUT: worker, Kind.VERDICT: worker},
        brake=brake or Brake(soft=clock),
        **options,
    )
    return schedule.drive()


def results_of(plan: RunPlan, ledger: Ledger, *, has_control: bool = True) -> Results:
    return of_book(plan_json(plan, has_control=has_control), ledger.book())


def results_after(world: World, *ids: str, k: int = 1, agent: str = "fake") -> Results:
    """What one invocation over these instances comes to."""
    plan, ledger = make_plan(*ids, k=k, agent=agent), memory_ledger()
    drive(plan, ledger, world)
    return results_of(plan, ledger, has_control=world.has_control)


def settled(plan: RunPlan, ledger: Ledger) -> dict[tuple[str, int], tuple[str, str]]:
    """Outcome and blame, by attempt."""
    return {
        (row.instance_id, row.attempt): (row.outcome, row.blame)
        for row in results_of(plan, ledger).rows
    }


def shapes(ledger: Ledger) -> list[str]:
    """The rows in short: `rollout a#1.2 fault`."""
    return [
        f"{row.kind} {row.attempt.instance_id}#{row.attempt.number}.{row.try_number} "
        f"{type(row.value).__name__.lower()}"
        for row in ledger.rows()
    ]
