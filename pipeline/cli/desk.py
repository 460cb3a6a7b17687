"""One invocation: a resolved plan, its directory, its brake and its voice."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from pipeline.outcomes import Blame, UserError

if TYPE_CHECKING:
    from pipeline.cli.parts import Parts
    from pipeline.cli.replays import Recording
    from pipeline.contracts import Agent, Sandboxes, Scorer
    from pipeline.domain import Attempt, Instance
    from pipeline.plan import RunPlan
    from pipeline.recipe import Recipe
    from pipeline.runner import Lanes


class Desk:
    """One invocation: a resolved plan, its directory, its brake and its voice."""

    def __init__(
        self,
        recipe: Recipe,
        plan: RunPlan,
        logs: Path,
        *,
        quiet: bool,
        replayed: bool = False,
        rescore: bool = False,
    ) -> None:
        from pipeline.brake import Brake
        from pipeline.cli.lanes import make_terms
        from pipeline.cli.place import Place
        from pipeline.cli.voice import Voice
        from pipeline.rundir import RunDir

        self.plan, self.rescore = plan, rescore
        # Agents run elsewhere: every path that they get must be whole.
        self.run = RunDir((logs / plan.name).absolute())
        self.brake = Brake()
        self.voice = Voice(quiet=quiet)
        self.terms = make_terms(recipe, say=self.endpoint, halt=self.halt, replayed=replayed)
        self.place = Place(
            kind=recipe.sandbox.kind,
            benchmark=plan.selection.benchmark,
            limits=plan.sandbox,
            mirrors=recipe.sandbox.mirrors,
            run=self.run,
            cancelled=self.brake.hard,
            say=self.voice.note,
        )

    def endpoint(self, text: str, down: bool) -> None:
        """What the endpoint does: said here, and left where `passone watch` finds it."""
        self.voice.endpoint(text, down)
        with contextlib.suppress(UserError):
            self.run.write(self.run.endpoint, json.dumps({"said": text, "down": down}))

    def halt(self, reason: str, remedy: str) -> None:
        """Going on makes no sense: stop as ^C does, and let it be known why."""
        if not self.brake.halted:
            self.brake.halted = remedy
            self.brake.soft.set()
            self.voice.note(f"{reason}: stopping; nothing is lost, {remedy}")

    def finished(self, instances: Sequence[Instance]) -> int | None:
        """Print a run on which nothing is left to do: no agent, Docker, key or endpoint is needed.

        Returns:
            Its exit status; None: something is left to do.

        Raises:
            UserError: another process drives it.
        """
        from pipeline.cli.drive import exit_status
        from pipeline.cli.exports import conclude
        from pipeline.domain import Attempt
        from pipeline.ledger import Ledger
        from pipeline.plan import least_of
        from pipeline.results import load, read_plan

        if self.rescore or not self.run.plan.exists() or not self.run.ledger.exists():
            return None
        plan = read_plan(self.run)
        asked = (self.plan.digest, self.plan.least, self.plan.attempts)
        if (plan.get("digest"), least_of(plan), plan["attempts"]) != asked:
            return None
        results = load(self.run)
        if any(row.blame not in (Blame.NOBODY, Blame.MODEL) for row in results.rows):
            return None
        # Stopped before its gold control: a zero may yet turn out to be nobody's.
        attempts = [Attempt(row.instance_id, row.attempt) for row in results.rows]
        if any(not results.book.entry(attempt).settlements for attempt in attempts):
            return None
        with self.run.held(), Ledger(self.run.ledger) as ledger:
            book = ledger.book()
            results = conclude(self.run, plan, ledger, instances)
        self.voice.start(self.plan, book)
        self.voice.stop()
        self.voice.report(results)
        self.voice.closing(results, self.run.root)
        return exit_status(results)

    def for_controls(self, instances: Sequence[Instance]) -> Parts:
        """What scores gold and empty: no model is asked.

        Raises:
            UserError: Docker does not answer.
        """
        from pipeline.agents.controls import Control
        from pipeline.cli import parts

        def no_lane(attempt: Attempt, number: int, tape: Path) -> NoReturn:
            raise AssertionError("a control asks no model")

        sandboxes = parts.make_sandboxes(self.place, instances)
        return parts.Parts(
            plan=self.plan,
            run=self.run,
            instances=instances,
            agent=Control("gold"),
            sandboxes=sandboxes,
            scorer=parts.make_official_scorer(sandboxes, self.plan),
            lanes=no_lane,
            terms=self.terms,
            brake=self.brake,
            voice=self.voice,
        )

    def carry_out(
        self,
        instances: Sequence[Instance],
        agent: Agent,
        sandboxes: Sandboxes,
        scorer: Scorer,
        lanes: Lanes,
        *,
        recording: Recording | None = None,
    ) -> int:
        """See `pipeline.cli.drive.carry_out`."""
        from pipeline.cli import drive
        from pipeline.cli.parts import Parts

        return drive.carry_out(
            Parts(
                plan=self.plan,
                run=self.run,
                instances=instances,
                agent=agent,
                sandboxes=sandboxes,
                scorer=scorer,
                lanes=lanes,
                terms=self.terms,
                brake=self.brake,
                voice=self.voice,
                replayed=recording.run.root.name if recording else "",
                tries_of=recording.tries_of if recording else None,
                rescore=self.rescore,
            )
        )
