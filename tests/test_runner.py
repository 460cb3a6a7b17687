"""The border of the first stage: a place, a lane and an agent in, a rollout or a fault out."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

import pytest

from pipeline.contracts import Assignment
from pipeline.domain import (
    Attempt,
    Cause,
    Departure,
    Fault,
    Instance,
    Limits,
    Patch,
    Rollout,
    SandboxLimits,
    Snapshot,
    Step,
    Stop,
    Usage,
)
from pipeline.rundir import RunDir
from pipeline.runner import Runner, within
from pipeline.sites import ContainerSite, MachineSite, Site
from tests.fakes import make_plan

ATTEMPT = Attempt("a", 1)
PATCH = Patch("diff --git a/x b/x\n")


@dataclass
class Lane:
    """What the gateway saw."""

    base_url: str = "http://127.0.0.1:9/v1"
    model: str = "m"
    usage: Usage = field(default_factory=lambda: Usage(requests=3, input_tokens=30))
    ending: Stop | Fault | None = None
    waited_seconds: float = 0.0
    asked_seconds: float = 0.0
    silent_seconds: float = 0.0
    drift: str = ""

    def close(self) -> None:
        return


@dataclass
class Place:
    """Sandboxes in which one container died at a given time."""

    name: str = "docker"
    died_at: float | None = None
    out_of_memory: bool = False
    machine: bool = False
    handed_in: int = 0

    def hand_in(self, place: Path) -> Snapshot:
        self.handed_in += 1
        return Snapshot("passone/snapshot:1")

    def preflight(self, instances: Sequence[Instance]) -> Sequence[str]:
        return ()

    def open(self, instance: Instance) -> contextlib.AbstractContextManager[object]:
        raise NotImplementedError

    @contextlib.contextmanager
    def site(self, instance: Instance, attempt: Attempt) -> Iterator[Site]:
        if self.machine:
            yield MachineSite(container="c", image="i", workdir="/", hand_in=self.hand_in)
        else:
            yield ContainerSite(image="i", labels={}, limits=SandboxLimits())

    def casualty(self, site: Site, *, until: float) -> Fault | None:
        dead = self.died_at is not None and self.died_at < until
        detail = "the agent's container died (137) while it worked"
        return Fault(cause=Cause.SANDBOX, detail=detail, died=self.out_of_memory) if dead else None

    def reap(self) -> int:
        return 0


@dataclass
class Leaving:
    """An agent that leaves in a given way."""

    departure: Departure | Exception
    name: str = "fake"
    asks_model: bool = True
    version: str = ""

    def preflight(self) -> None:
        return

    def solve(self, assignment: Assignment) -> Departure:
        (assignment.workdir / "agent.log").write_text("worked\n")
        if isinstance(self.departure, Exception):
            raise self.departure
        return self.departure

    def steps(self, workdir: Path) -> Sequence[Step]:
        return [Step(thought="t", action="a", observation="o")]


def roll(
    tmp_path: Path,
    departure: Departure | Exception,
    *,
    lane: Lane | None = None,
    place: Place | None = None,
    cancelled: bool = False,
) -> Rollout | Fault:
    stop = Event()
    if cancelled:
        stop.set()
    runner = Runner(
        plan=make_plan("a", k=1),
        run=RunDir(tmp_path),
        instances={"a": Instance(id="a", stratum="a/repo", prompt="p", image="i")},
        agent=Leaving(departure),
        lanes=lambda attempt, number, tape: contextlib.nullcontext(lane or Lane()),
        sandboxes=place or Place(),  # type: ignore[arg-type]
        cancelled=stop,
    )
    return runner.roll(ATTEMPT, 1)


def left(meaning: Stop | Cause, **more: object) -> Departure:
    return Departure(exit_status="x", meaning=meaning, submission=PATCH, **more)  # type: ignore[arg-type]


def test_a_clean_submission_is_a_rollout_with_what_the_gateway_counted(tmp_path: Path) -> None:
    value = roll(tmp_path, left(Stop.SUBMITTED, steps=3))
    assert isinstance(value, Rollout)
    assert (value.stop, value.submission, value.usage.input_tokens) == (Stop.SUBMITTED, PATCH, 30)
    place = tmp_path / "attempts" / "a" / "1" / "try-1"
    assert {p.name for p in place.iterdir()} == {"agent.log", "steps.jsonl", "patch.diff"}


@pytest.mark.parametrize("meaning", [Stop.SUBMITTED, Stop.STEP_LIMIT, Cause.UNKNOWN])
def test_a_fault_of_the_endpoint_outranks_the_agents_words_and_its_patch(
    meaning: Stop | Cause, tmp_path: Path
) -> None:
    lane = Lane(ending=Fault(cause=Cause.ENDPOINT, detail="503"))
    value = roll(tmp_path, left(meaning), lane=lane)
    assert isinstance(value, Fault)
    assert (value.cause, value.detail, value.died) == (Cause.ENDPOINT, "503", False)
    assert value.usage.requests == 3
    assert not (tmp_path / "attempts" / "a" / "1" / "try-1" / "patch.diff").exists()


def test_a_full_context_with_a_patch_is_graded(tmp_path: Path) -> None:
    value = roll(tmp_path, left(Cause.UNKNOWN), lane=Lane(ending=Stop.CONTEXT_LIMIT))
    assert isinstance(value, Rollout)
    assert (value.stop, value.submission) == (Stop.CONTEXT_LIMIT, PATCH)


@pytest.mark.parametrize("out_of_memory", [True, False])
def test_an_agent_that_talks_to_a_dead_container_has_not_failed(
    out_of_memory: bool, tmp_path: Path
) -> None:
    now = time.time()
    place = Place(died_at=now + 1, out_of_memory=out_of_memory)
    value = roll(tmp_path, left(Stop.STEP_LIMIT, worked_until=now + 9), place=place)
    assert isinstance(value, Fault)
    # Killed from outside it is ours; where memory ran out, the model may have eaten it.
    assert (value.cause, value.died) == (Cause.SANDBOX, out_of_memory)


@pytest.mark.parametrize(
    "ending", [Stop.CONTEXT_LIMIT, Stop.REFUSED, Fault(cause=Cause.ENDPOINT, detail="404")]
)
def test_what_ends_the_talk_with_a_dead_container_came_after_its_death(
    ending: Stop | Fault, tmp_path: Path
) -> None:
    """Errors fill a context as well as anything: that limit is not the model's."""
    now = time.time()
    departure = left(Cause.UNKNOWN, worked_until=now + 9)
    value = roll(tmp_path, departure, lane=Lane(ending=ending), place=Place(died_at=now + 1))
    assert isinstance(value, Fault)
    assert (value.cause, value.died) == (Cause.SANDBOX, False)


def test_an_endpoint_that_failed_is_surer_than_memory_that_ran_out(tmp_path: Path) -> None:
    now = time.time()
    lane = Lane(ending=Fault(cause=Cause.ENDPOINT, detail="503"))
    place = Place(died_at=now + 1, out_of_memory=True)
    value = roll(tmp_path, left(Cause.UNKNOWN, worked_until=now + 9), lane=lane, place=place)
    assert isinstance(value, Fault)
    assert (value.cause, value.died) == (Cause.ENDPOINT, False)


def test_a_container_that_goes_after_the_last_observation_is_the_agents_own_clean_up(
    tmp_path: Path,
) -> None:
    now = time.time()
    place = Place(died_at=now + 9)
    value = roll(tmp_path, left(Stop.STEP_LIMIT, worked_until=now + 1), place=place)
    assert isinstance(value, Rollout)
    assert value.stop is Stop.STEP_LIMIT


def test_what_the_model_may_have_killed_is_ambiguous_only_while_the_endpoint_was_fine(
    tmp_path: Path,
) -> None:
    departure = left(Cause.UNKNOWN, died=True)
    value = roll(tmp_path, departure)
    assert isinstance(value, Fault)
    assert value.died
    lane = Lane(ending=Fault(cause=Cause.ENDPOINT, detail="503"))
    value = roll(tmp_path, departure, lane=lane)
    assert isinstance(value, Fault)
    assert not value.died


def test_a_bug_of_ours_is_a_loud_fault_with_its_traceback(tmp_path: Path) -> None:
    value = roll(tmp_path, ZeroDivisionError("ours"))
    assert isinstance(value, Fault)
    assert value.cause is Cause.UNKNOWN
    assert "Traceback" in value.detail
    assert "ZeroDivisionError: ours" in value.detail
    assert value.usage.requests == 3
    text = (tmp_path / "attempts" / "a" / "1" / "try-1" / "fault.txt").read_text()
    assert "ZeroDivisionError" in text


def test_a_full_disk_is_the_disks(tmp_path: Path) -> None:
    value = roll(tmp_path, OSError(28, "No space left on device"))
    assert isinstance(value, Fault)
    assert value.cause is Cause.DISK


def test_a_try_that_we_cut_off_leaves_nothing_in_place(tmp_path: Path) -> None:
    roll(tmp_path, left(Stop.SUBMITTED), cancelled=True)
    assert not (tmp_path / "attempts").exists()


def test_what_a_killed_process_left_in_its_place_goes_first(tmp_path: Path) -> None:
    old = tmp_path / "attempts" / "a" / "1" / "try-1"
    old.mkdir(parents=True)
    (old / "stale").write_text("of a process that died between its rename and its row")
    roll(tmp_path, left(Stop.SUBMITTED))
    assert not (old / "stale").exists()
    assert (old / "agent.log").exists()


@pytest.mark.parametrize("stop", list(Stop))
def test_a_machine_is_handed_in_as_it_was_left_however_its_agent_stopped(
    stop: Stop, tmp_path: Path
) -> None:
    place = Place(machine=True)
    lane = Lane(asked_seconds=12.0)
    value = roll(tmp_path, left(stop, steps=2), place=place, lane=lane)
    assert isinstance(value, Rollout)
    assert (value.stop, value.submission) == (stop, Snapshot("passone/snapshot:1"))
    assert value.asked_seconds == 12.0


def test_a_machine_of_a_try_that_broke_is_not_handed_in(tmp_path: Path) -> None:
    place = Place(machine=True)
    assert isinstance(roll(tmp_path, left(Cause.AGENT_CRASH), place=place), Fault)
    assert place.handed_in == 0


@pytest.mark.parametrize(
    ("planned", "own", "seconds"),
    [(3600, None, 3600), (3600, 900.0, 900), (60, 900.0, 60), (0, 900.5, 901), (0, None, 0)],
)
def test_an_instances_own_time_counts_where_it_is_shorter(
    planned: int, own: float | None, seconds: int
) -> None:
    assert within(Limits(seconds=planned), own).seconds == seconds
