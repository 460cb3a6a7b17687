"""From a task to its containers: what is built, what each container is, and what goes into it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Protocol

from pipeline.benchmarks.terminal.contents import for_container
from pipeline.benchmarks.terminal.tasks import (
    ARTIFACTS,
    LOGS,
    REWARDS,
    SOLUTION,
    TESTS,
    Healthcheck,
    Layout,
    Network,
    Solution,
    Task,
    Verifier,
)
from pipeline.benchmarks.terminal.taskset import task_of
from pipeline.docker.archives import packed_folders, packed_places
from pipeline.docker.artifacts import Artifact
from pipeline.docker.building import Builder, Plan
from pipeline.docker.shapes import IDLE, Shape
from pipeline.domain import Cause, Instance, SandboxLimits
from pipeline.outcomes import InfraError, UserError
from pipeline.process import Completed

PREPARE_SECONDS = 60.0
BYTECODE = "/var/cache/passone-bytecode"
"""Where Python looks for compiled modules while tests run, instead of beside their sources."""
NOTHING: Mapping[str, bytes] = {}


class Machine(Protocol):
    """A running container of a task."""

    @property
    def id(self) -> str: ...
    @property
    def workdir(self) -> str: ...
    @property
    def alive(self) -> Sequence[str]: ...
    def run(
        self,
        command: Sequence[str],
        *,
        timeout_seconds: float,
        output: Path | None = None,
    ) -> Completed: ...
    def put_all(self, archive: bytes | IO[bytes], target: str) -> None: ...
    def get(self, source: str, *, most_bytes: int | None = None) -> bytes | None: ...
    def failure(self, error: Exception) -> InfraError: ...


def task_in(instance: Instance) -> Task:
    """The task behind an instance, inside a stage.

    Raises:
        InfraError: its files have changed since it was drawn, or are gone.
    """
    try:
        return task_of(instance)
    except UserError as error:
        raise InfraError(Cause.INSTANCE, str(error)) from error


@dataclass(frozen=True, slots=True)
class Preparation:
    """Has a task's image built where nobody publishes it."""

    builder: Builder
    limits: SandboxLimits

    def __call__(self, instance: Instance) -> None:
        """Raises InfraError: it cannot be built."""
        task = task_in(instance)
        environment = task.environment
        if environment.image:
            return
        assert environment.context is not None
        assert environment.dockerfile is not None
        plan = Plan(
            context=environment.context,
            dockerfile=environment.dockerfile,
            arguments=environment.build_arguments,
            seconds=environment.build_seconds,
            memory_mb=memory_mb(task, self.limits),
            contents=normalised(task, environment.context),
        )
        self.builder.ensure(instance.image, plan)


def is_built(instance: Instance) -> bool:
    """Whether its image is made here."""
    return bool(instance.row["built"])


def normalised(task: Task, context: Path) -> dict[str, bytes]:
    """Scripts of a build's context that have Windows line ends, without them."""
    found = {}
    for name in task.crlf:
        path = task.folder / name
        if path.is_relative_to(context):
            content = path.read_bytes()
            found[str(path.relative_to(context))] = for_container(path.name, content)
    return found


def artifacts(task: Task) -> list[Artifact]:
    """What is kept of the container that an agent has left."""
    return [*task.artifacts, Artifact(source=ARTIFACTS, optional=True)]


def memory_mb(task: Task, limits: SandboxLimits) -> int:
    """The smaller of what a task asks for and what the config allows; zero: no limit."""
    return int(smaller(task.environment.memory_mb, limits.memory_gb * 1024))


def smaller(asked: float | None, allowed: float) -> float:
    """Zero is no limit, None is not asked for."""
    return min((value for value in (asked, allowed) if value), default=0.0)


def scant(instance: Instance, limits: SandboxLimits) -> str:
    """A warning where a task gets less than it asks for; empty: it does not."""
    environment = task_in(instance).environment
    said = [
        f"{asked / scale:g} GB of {what}, sandbox.{key} allows {allowed:g}"
        for what, key, asked, scale, allowed in (
            ("memory", "memory_gb", environment.memory_mb, 1024, limits.memory_gb),
            ("disk", "disk_gb", environment.storage_mb, 1000, limits.disk_gb),
        )
        if asked and allowed and asked / scale > allowed
    ]
    return f"{instance.id} asks for {' and '.join(said)}: it gets that" if said else ""


def working(task: Task, limits: SandboxLimits) -> Shape:
    """The container that an agent works in. It keeps what Docker gives: tasks are of machines."""
    environment = task.environment
    network = task.agent.network or environment.network
    return Shape(
        workdir=environment.workdir,
        user=task.agent.user or environment.user,
        variables=environment.variables,
        cpus=environment.cpus or 0.0,
        memory_mb=memory_mb(task, limits),
        pids=limits.pids,
        disk_gb=smaller((environment.storage_mb or 0) / 1000, limits.disk_gb),
        offline=limits.network == "off" or network is Network.NONE,
        command=environment.command or tuple(IDLE.split()),
    )


def solving(task: Task, solution: Solution, limits: SandboxLimits) -> Shape:
    """The container that the reference solution is carried out in."""
    shape = working(task, limits)
    return replace(shape, variables={**shape.variables, **solution.variables})


def grading(task: Task, verifier: Verifier, limits: SandboxLimits) -> Shape:
    """The container that the tests run in: nothing is left where they and their reward will lie."""
    network = verifier.network or task.environment.network
    return replace(
        working(task, limits),
        user=verifier.user or task.environment.user,
        # What an agent has left compiled is not held against its source by every Python.
        variables={
            "PYTHONPYCACHEPREFIX": BYTECODE,
            **task.environment.variables,
            **verifier.variables,
        },
        offline=limits.network == "off" or network is Network.NONE,
        blank=(TESTS, REWARDS, BYTECODE),
        # An agent may have changed what it would be.
        command=(),
    )


def make_ready(task: Task, machine: Machine, sleep: Callable[[float], None] = time.sleep) -> None:
    """Make the folders that its layout has, put in what its publisher wants, wait until it is well.

    Raises:
        InfraError: it does not become well, or the daemon failed.
    """
    environment = task.environment
    machine.put_all(packed_places(*LOGS[Layout(task.layout)]), "/")
    if environment.uploads is not None:
        put(machine, environment.uploads, at=machine.workdir)
    if environment.healthcheck is not None:
        wait_until_well(environment.healthcheck, machine, sleep)


def wait_until_well(check: Healthcheck, machine: Machine, sleep: Callable[[float], None]) -> None:
    """Raises InfraError: it does not become well."""
    began = time.monotonic()
    failures, said = 0, ""
    while failures < check.retries:
        done = machine.run(
            ["sh", "-c", f'timeout {check.timeout_seconds:g} sh -c "$1"', "sh", check.command],
            timeout_seconds=check.timeout_seconds + PREPARE_SECONDS,
        )
        if done.returncode == 0:
            return
        said = " ".join(done.output.split())[-300:]
        starting = time.monotonic() - began < check.start_period_seconds
        failures += not starting
        sleep(check.start_interval_seconds if starting else check.interval_seconds)
    text = f"the environment's healthcheck failed {failures} times: {said or check.command}"
    raise InfraError(Cause.SANDBOX, text)


def put_tests(
    task: Task, verifier: Verifier, machine: Machine, planted: Mapping[str, bytes] = NOTHING
) -> None:
    """Copy the tests in, without Windows line ends.

    Args:
        planted: what a file is to hold instead, by its name.

    Raises:
        InfraError: the daemon failed.
    """
    machine.put_all(packed_places(REWARDS, BYTECODE), "/")
    # The older layout's script lies beside its folder.
    put(machine, *verifier.folders, at=TESTS, script=verifier.script, instead=planted)


def put_solution(task: Task, solution: Solution, machine: Machine) -> None:
    """Copy the reference solution in. Raises InfraError: the daemon failed."""
    beside = [solution.folder] if solution.folder is not None else []
    put(machine, *beside, at=SOLUTION[Layout(task.layout)], script=solution.script)


def put(
    machine: Machine,
    *folders: Path,
    at: str,
    script: Path | None = None,
    instead: Mapping[str, bytes] = NOTHING,
) -> None:
    """What lies in folders, into a folder that is made where it is not there.

    Args:
        script: one of these files, or one to lie beside them. It can be executed by anybody.
        instead: what a file is to hold, by its name.
    """

    def change(name: str, content: bytes) -> bytes:
        return for_container(name, instead.get(name, content))

    scripts = [script] if script is not None else []
    with packed_folders(
        *folders, *scripts, prefix=f"{at.strip('/')}/", change=change, programs=scripts
    ) as archive:
        machine.put_all(archive, "/")
