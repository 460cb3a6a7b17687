"""Carry out a plan: refuse early, drive it, write the tables, say how it went."""

from __future__ import annotations

import contextlib
import json
import platform
import signal
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline import __version__
from pipeline.outcomes import Blame, UserError

if TYPE_CHECKING:
    from pipeline.cli.voice import Voice
    from pipeline.config import Recipe
    from pipeline.contracts import Agent, Sandboxes, Scorer
    from pipeline.domain import Instance
    from pipeline.ledger import Ledger
    from pipeline.plan import RunPlan
    from pipeline.rundir import RunDir
    from pipeline.runner import Lanes
    from pipeline.schedule import Brake, Stages


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Everything that a plan is carried out with."""

    plan: RunPlan
    run: RunDir
    instances: Sequence[Instance]
    agent: Agent
    sandboxes: Sandboxes
    scorer: Scorer
    lanes: Lanes
    brake: Brake
    voice: Voice


def differences(old: Mapping[str, Any], new: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Dotted names of the keys in which two trees differ."""
    found: list[str] = []
    for key in sorted({*old, *new}):
        a, b = old.get(key), new.get(key)
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            found += differences(a, b, f"{prefix}{key}.")
        elif a != b:
            found.append(f"{prefix}{key}")
    return found


def adopt_plan(parts: Parts, ledger: Ledger) -> dict[str, Any]:
    """Write plan.json, or continue under the one that is there.

    Raises:
        UserError: the directory holds another experiment, or more attempts.
    """
    from pipeline.results import read_plan
    from pipeline.rundir import write_atomically

    plan, run = parts.plan, parts.run
    identity = json.loads(json.dumps(plan.identity, default=str))
    if run.plan.exists():
        old = read_plan(run)
        if old.get("digest") != plan.digest:
            keys = ", ".join(differences(old.get("identity", {}), identity)) or "its form"
            raise UserError(
                f"{run.root}: holds another experiment ({old.get('digest')}, this one is "
                f"{plan.digest}); they differ in {keys}. Give this one another name: --set name=…"
            )
        if old["attempts"] > plan.attempts:
            raise UserError(
                f"{run.root}: has {old['attempts']} attempts; attempts may grow, never shrink"
            )
    recorded = ledger.read_meta("digest")
    if recorded not in (None, plan.digest):
        raise UserError(f"{run.ledger}: belongs to another plan ({recorded}); move it away")
    ledger.write_meta("digest", plan.digest)
    content = asdict(plan) | {
        "digest": plan.digest,
        "identity": identity,
        "grader": parts.scorer.grader,
        "has_control": parts.scorer.has_control,
        "sandbox_kind": parts.sandboxes.name,
        "repos": {item.id: item.stratum for item in parts.instances},
        "versions": versions() | {f"agent {plan.agent}": parts.agent.version},
    }
    write_atomically(run.plan, json.dumps(content, indent=2, default=str) + "\n")
    return json.loads(json.dumps(content, default=str))  # type: ignore[no-any-return]


def versions() -> dict[str, str]:
    """Of everything that has a say in a result."""
    import importlib.metadata

    found = {"passone": __version__, "python": platform.python_version()}
    for name in ("swebench", "mini-swe-agent", "datasets", "docker"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


@contextlib.contextmanager
def stoppable(brake: Brake, voice: Voice) -> Iterator[None]:
    """^C once stops softly, twice at once; SIGTERM stops at once. Nothing is lost either way."""

    def interrupt(signum: int, frame: object) -> None:
        brake.press()
        if signum == signal.SIGTERM:
            brake.press()
        word = (
            "stopping now"
            if brake.hard.is_set()
            else ("finishing what is nearly done (30 s at most); press ^C again to stop now")
        )
        voice.note(f"{word}; run the same command again to continue")

    old = {s: signal.signal(s, interrupt) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for signum, handler in old.items():
            signal.signal(signum, handler)


def carry_out(parts: Parts) -> int:
    """Drive a plan as far as it goes.

    Returns:
        The exit status: 0, 3 or 130.

    Raises:
        UserError: refused before anything started, or the ledger could not be written.
    """
    from pipeline.cli.exports import conclude
    from pipeline.ledger import Ledger

    with parts.run.held(), Ledger(parts.run.ledger) as ledger:
        for warning in parts.sandboxes.preflight(parts.instances):
            parts.voice.note(warning)
        plan = adopt_plan(parts, ledger)
        parts.sandboxes.reap()
        finished = drive(parts, ledger)
        results = conclude(parts.run, plan, ledger)
    parts.voice.report(results)
    if not finished:
        return 130
    open_blames = (Blame.INFRA, Blame.AMBIGUOUS, "")
    return 3 if any(row.blame in open_blames for row in results.rows) else 0


def drive(parts: Parts, ledger: Ledger) -> bool:
    from pipeline.ledger import Kind
    from pipeline.schedule import Schedule

    execution, brake = parts.plan.execution, parts.brake
    agents = ThreadPoolExecutor(execution.agent_workers, "agent")
    scorers = ThreadPoolExecutor(execution.scorer_workers, "scorer")
    schedule = Schedule(
        parts.plan,
        ledger,
        make_stages(parts),
        executors={Kind.ROLLOUT: agents, Kind.VERDICT: scorers},
        brake=brake,
        landed=parts.voice.landed,
    )
    parts.voice.start(parts.plan, schedule.book)
    finished = False
    try:
        with stoppable(brake, parts.voice):
            finished = schedule.drive()
    finally:
        if not finished:
            brake.soft.set()
            brake.hard.set()
            parts.sandboxes.reap()
        for executor in (agents, scorers):
            executor.shutdown(wait=True, cancel_futures=True)
        parts.sandboxes.reap()
        parts.voice.stop()
    return finished


def make_stages(parts: Parts) -> Stages:
    from pipeline.domain import Patch
    from pipeline.runner import Runner
    from pipeline.schedule import Stages
    from pipeline.scorer import Scoring
    from pipeline.verdicts import GoldStore, cache_dir

    instances = {item.id: item for item in parts.instances}
    cancelled = parts.brake.hard
    runner = Runner(
        plan=parts.plan,
        run=parts.run,
        instances=instances,
        agent=parts.agent,
        lanes=parts.lanes,
        sandboxes=parts.sandboxes,
        cancelled=cancelled,
    )
    scoring = Scoring(
        run=parts.run,
        instances=instances,
        scorer=parts.scorer,
        gold_patch=lambda instance: Patch(str(instance.row["patch"])),
        store=GoldStore(
            root=cache_dir(),
            grader=parts.scorer.grader,
            sandbox=parts.sandboxes.name,
            limits=parts.plan.sandbox,
        ),
        cancelled=cancelled,
    )
    return Stages(
        roll=runner.roll,
        score=scoring.score,
        gold=scoring.gold,
        kept_gold=scoring.kept_gold,
        has_control=parts.scorer.has_control,
        recorded=parts.plan.agent == "predictions",
    )


class Desk:
    """One invocation: a resolved plan, its directory, its brake and its voice."""

    def __init__(self, recipe: Recipe, plan: RunPlan, logs: Path, *, quiet: bool) -> None:
        from pipeline.cli.parts import Place
        from pipeline.cli.voice import Voice
        from pipeline.rundir import RunDir
        from pipeline.schedule import Brake

        self.plan = plan
        # Agents run elsewhere: every path that they get must be whole.
        self.run = RunDir((logs / plan.name).absolute())
        self.brake = Brake()
        self.voice = Voice(quiet=quiet)
        self.place = Place(
            kind=recipe.sandbox.kind,
            limits=plan.sandbox,
            mirrors=recipe.sandbox.mirrors,
            run=self.run,
            cancelled=self.brake.hard,
            say=self.voice.note,
        )

    def carry_out(
        self,
        instances: Sequence[Instance],
        agent: Agent,
        sandboxes: Sandboxes,
        scorer: Scorer,
        lanes: Lanes,
    ) -> int:
        """See `carry_out`."""
        return carry_out(
            Parts(
                plan=self.plan,
                run=self.run,
                instances=instances,
                agent=agent,
                sandboxes=sandboxes,
                scorer=scorer,
                lanes=lanes,
                brake=self.brake,
                voice=self.voice,
            )
        )
