"""Grade a machine as its task's publisher does: tests go in once nobody works there any more."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from pipeline.benchmarks.terminal.apart import Apart, Terms
from pipeline.benchmarks.terminal.parsers import Unread, read_tests
from pipeline.benchmarks.terminal.places import (
    Machine,
    grading,
    make_ready,
    put_solution,
    put_tests,
    solving,
    task_in,
)
from pipeline.benchmarks.terminal.rewards import JSON, LIMIT_BYTES, TEXT, NoReward, read_reward
from pipeline.benchmarks.terminal.signs import signs
from pipeline.benchmarks.terminal.tasks import GRADER, REWARDS, Parser, Task
from pipeline.benchmarks.terminal.taskset import shown
from pipeline.docker.changes import Change, Original, Surroundings
from pipeline.docker.shapes import Shape
from pipeline.domain import (
    Attempt,
    Cause,
    Evidence,
    Finding,
    Instance,
    Patch,
    Reference,
    SandboxLimits,
    Snapshot,
    Submission,
    Tally,
    Verdict,
)
from pipeline.outcomes import InfraError
from pipeline.process import Completed

PLAIN = Terms()
LOG = "test_output.txt"
SOLUTION_LOG = "solution.txt"
NO_LIMIT_SECONDS = 24 * 3600.0
NAMES = (TEXT, JSON)
BESIDE = ("test-stdout.txt", "ctrf.json")
"""What many tests write there rather than print; a person may want to read it."""
KEPT_BYTES = 1024 * 1024
SAID_CHARACTERS = 200


class Machines(Protocol):
    """What makes and removes the machines that are graded."""

    def digest(self, instance: Instance) -> str: ...
    def open(self, instance: Instance) -> AbstractContextManager[Machine]: ...
    def start(
        self,
        instance: Instance,
        shape: Shape,
        snapshot: Snapshot | None = None,
        *,
        without: Collection[Change] = (),
    ) -> AbstractContextManager[Machine]: ...
    def original(self, instance: Instance) -> AbstractContextManager[Original]: ...
    def changes(self, snapshot: Snapshot) -> tuple[Sequence[Change], Surroundings]: ...
    def hand_in(self, instance: Instance, sandbox: Machine) -> Snapshot: ...
    def discard(self, names: Collection[str]) -> None: ...


@dataclass(frozen=True, slots=True)
class TerminalScorer:
    """Starts a snapshot anew, copies the tests in, runs them and reads what they left."""

    machines: Machines
    limits: SandboxLimits
    grader: str = GRADER
    has_control: bool = True

    def place(self, instance: Instance) -> str:
        """See `pipeline.contracts.Scorer`."""
        return self.machines.digest(instance)

    def idle(self, instance: Instance, seconds: float) -> str:
        """See `pipeline.contracts.Scorer`."""
        with self.machines.open(instance) as machine:
            try:
                machine.run(["sleep", f"{seconds:.1f}"], timeout_seconds=seconds + 60)
            except InfraError as error:
                death = error.detail
            else:
                return ""
        # The daemon still starts one: it was the container that went.
        with self.machines.open(instance):
            return death

    def score(
        self, attempt: Attempt, instance: Instance, submission: Submission | None, workdir: Path
    ) -> Verdict:
        """See `pipeline.contracts.Scorer`.

        Raises:
            InfraError: no image or container, or it died while the tests ran.
        """
        assert not isinstance(submission, Patch)
        started = time.monotonic()
        task = task_in(instance)
        digest = self.machines.digest(instance)
        given = isinstance(submission, Snapshot) and submission.image != instance.image
        if given:
            assert isinstance(submission, Snapshot)
            verdict = self._graded(task, instance, submission, workdir)
            verdict = self._believed(task, instance, submission, verdict, workdir)
        else:
            made, how = self._made(
                task, instance, workdir, solved=isinstance(submission, Reference)
            )
            verdict = self._passing(task, instance, made, workdir)
            if how and not verdict.passed:
                reasons = (how, *verdict.evidence.reasons)
                verdict = replace(verdict, evidence=replace(verdict.evidence, reasons=reasons))
        return replace(
            verdict,
            evidence=replace(verdict.evidence, image_digest=digest),
            seconds=round(time.monotonic() - started, 3),
        )

    def _passing(
        self, task: Task, instance: Instance, made: Snapshot | Verdict, workdir: Path
    ) -> Verdict:
        """Of a machine that nobody grades again."""
        if isinstance(made, Verdict):
            return made
        try:
            return self._graded(task, instance, made, workdir)
        finally:
            self.machines.discard([made.image])

    def _made(
        self, task: Task, instance: Instance, workdir: Path, *, solved: bool
    ) -> tuple[Snapshot | Verdict, str]:
        """A machine in which nobody, or the reference solution, has worked.

        Returns:
            A verdict where that solution comes to no end: then there is nothing to grade. And what
            may be why it does not pass: how it failed, and what it left running.

        Raises:
            InfraError: there is no such solution, no container, or it died.
        """
        if not solved:
            with self.machines.open(instance) as machine:
                return self.machines.hand_in(instance, machine), ""
        solution = task.solution
        if solution is None:
            text = f"{task.folder}: has no reference solution that can be run"
            raise InfraError(Cause.INSTANCE, text, final=True)
        with self.machines.start(instance, solving(task, solution, self.limits)) as machine:
            make_ready(task, machine)
            put_solution(task, solution, machine)
            seconds = solution.seconds or NO_LIMIT_SECONDS
            log = workdir / SOLUTION_LOG
            done = machine.run(solution.command, timeout_seconds=seconds, output=log)
            if done.timed_out:
                text = f"the reference solution took longer than {seconds:g} s"
                return self._verdict(Finding.TESTS_DID_NOT_RUN, done, text), ""
            said = [ended("the reference solution", done)] if done.returncode else []
            if left := [f"`{words[:60]}`" for words in machine.alive]:
                said.append(f"what ran after it was ended before the tests: {shown(left, most=3)}")
            return self.machines.hand_in(instance, machine), "; ".join(said)

    def _believed(
        self, task: Task, instance: Instance, snapshot: Snapshot, verdict: Verdict, workdir: Path
    ) -> Verdict:
        """The verdict on what an agent has left, looked at again where it earned anything."""
        made: list[Snapshot | Verdict] = []

        def oracle() -> Snapshot | None:
            if task.solution is not None and not made:
                made.append(self._made(task, instance, workdir, solved=True)[0])
            return next((one for one in made if isinstance(one, Snapshot)), None)

        def grade(snapshot: Snapshot, terms: Terms, label: str) -> Verdict:
            place = workdir / label
            place.mkdir(exist_ok=True)
            return self._graded(task, instance, snapshot, place, terms)

        def bearing(snapshot: Snapshot) -> Collection[Change]:
            found, around = self.machines.changes(snapshot)
            if not found:
                return ()
            with self.machines.original(instance) as original:
                return signs(found, around, original.has)

        assert task.verifier is not None, "a task without one is skipped"
        try:
            return Apart(grade, bearing, oracle).believed(verdict, snapshot, task.verifier)
        finally:
            self.machines.discard([one.image for one in made if isinstance(one, Snapshot)])

    def _graded(
        self,
        task: Task,
        instance: Instance,
        snapshot: Snapshot,
        workdir: Path,
        terms: Terms = PLAIN,
    ) -> Verdict:
        verifier = task.verifier
        assert verifier is not None, "a task without one is skipped"
        shape = grading(task, verifier, self.limits)
        with self.machines.start(instance, shape, snapshot, without=terms.without) as machine:
            put_tests(task, verifier, machine, terms.planted)
            log = workdir / LOG
            seconds = verifier.seconds
            done = machine.run(verifier.command, timeout_seconds=seconds, output=log)
            if done.timed_out:
                return self._verdict(
                    Finding.TESTS_TIMED_OUT, done, f"the tests took over {seconds:g} s"
                )
            if verifier.parser is not None:
                return self._parsed(verifier.parser, log, done)
            return self._rewarded(machine, workdir, done)

    def _verdict(
        self,
        finding: Finding,
        done: Completed,
        reason: str = "",
        *,
        reward: float | None = None,
        tally: Tally | None = None,
    ) -> Verdict:
        evidence = Evidence(exit_code=done.returncode, reasons=(reason,) if reason else ())
        return Verdict(
            finding=finding,
            grader=self.grader,
            reward=reward,
            fail_to_pass=tally or Tally(),
            evidence=evidence,
        )

    def _parsed(self, parser: Parser, log: Path, done: Completed) -> Verdict:
        """The verdict of the older layout: by what the tests printed."""
        if done.truncated:
            reason = "the tests printed more than is kept"
            return self._verdict(Finding.TESTS_DID_NOT_RUN, done, reason)
        found = read_tests(parser, log.read_text(encoding="utf-8", errors="replace"))
        if isinstance(found, Unread):
            reason = f"{found.reason}; {ended('the tests', done)}"
            return self._verdict(Finding.TESTS_DID_NOT_RUN, done, reason)
        finding = Finding.RESOLVED if found.resolved else Finding.UNRESOLVED
        reason = f"failed: {shown(found.failed, most=3)}" if found.failed else "no test passed"
        reward = float(found.resolved)
        said = "" if found.resolved else reason
        return self._verdict(finding, done, said, reward=reward, tally=found.tally)

    def _rewarded(self, machine: Machine, workdir: Path, done: Completed) -> Verdict:
        """The verdict of the current layout: by the reward that the tests left."""
        left = {name: machine.get(f"{REWARDS}/{name}", most_bytes=LIMIT_BYTES) for name in NAMES}
        beside = {name: machine.get(f"{REWARDS}/{name}", most_bytes=KEPT_BYTES) for name in BESIDE}
        for name, content in (beside | left).items():
            if content is not None:
                (workdir / name).write_bytes(content)
        found = read_reward(left[TEXT], left[JSON])
        if isinstance(found, NoReward):
            reason = f"{found.detail}; {ended('the tests', done)}"
            return self._verdict(Finding.TESTS_DID_NOT_RUN, done, reason)
        (workdir / "rewards.json").write_text(
            json.dumps({"reward": found.value, "source": found.source, "named": dict(found.named)}),
            encoding="utf-8",
        )
        finding = Finding.RESOLVED if found.value == 1 else Finding.UNRESOLVED
        reason = f"reward {found.value:g}"
        return self._verdict(finding, done, reason, reward=found.value)


def ended(what: str, done: Completed) -> str:
    """How a command ended, and what it said last."""
    said = " ".join(done.output.split())[-SAID_CHARACTERS:]
    return f"{what} exited with {done.returncode}{': ' if said else ''}{said}"
