"""Build images that no registry has from their Dockerfiles: each once, within its limits."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Lock

from pipeline.docker.images import Images, cause_of
from pipeline.domain import Cause
from pipeline.outcomes import InfraError
from pipeline.process import Completed, run

LAST_LINES = 12
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
BUILT_LABEL = "passone.built"
PREAMBLE = re.compile(r".*Sending build context to Docker daemon[^\n]*\n", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What an image is built from."""

    context: Path
    dockerfile: Path
    """In that context, or elsewhere."""
    arguments: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 600.0
    memory_mb: int = 0
    """Of one step of the classic builder; BuildKit knows no such limit. Zero: none."""
    contents: Mapping[str, bytes] = field(default_factory=dict)
    """Of files below the context, by their names there: what they are to hold instead."""


@dataclass(slots=True)
class Builder:
    """Images by reference, each built once whatever the number of workers."""

    images: Images
    cancelled: Event = field(default_factory=Event)
    _locks: dict[str, Lock] = field(default_factory=dict)
    _guard: Lock = field(default_factory=Lock)

    def ensure(self, reference: str, plan: Plan) -> None:
        """Have the image here.

        Raises:
            InfraError: it could not be built; the detail has the last lines of the build.
        """
        with self._guard:
            lock = self._locks.setdefault(reference, Lock())
        with lock:
            if self.images.local(reference) is None:
                self._build(reference, plan)

    def _build(self, reference: str, plan: Plan) -> None:
        if self.cancelled.is_set():
            raise InfraError(Cause.IMAGE, "stopped before an image was built")
        with tempfile.TemporaryDirectory(prefix="passone-build-") as scratch:
            try:
                context = staged(plan, Path(scratch)) if plan.contents else plan.context
                log = Path(scratch) / "build.log"
                done = run(
                    argv(reference, plan, context),
                    output=log,
                    timeout_seconds=plan.seconds,
                    cancelled=self.cancelled,
                )
            except OSError as error:
                raise InfraError(
                    cause_of(error, Cause.SANDBOX), f"docker build could not be started: {error}"
                ) from error
            if done.returncode != 0:
                raise failure(reference, plan, done)


def argv(reference: str, plan: Plan, context: Path) -> list[str]:
    """The command line; the Docker client's own builder, as its user has set it up."""
    dockerfile = plan.dockerfile
    if dockerfile.is_relative_to(plan.context):
        dockerfile = context / dockerfile.relative_to(plan.context)
    words = ["docker", "build", "--force-rm", "--label", f"{BUILT_LABEL}=1", "--tag", reference]
    words += ["--file", str(dockerfile)]
    words += [f"--memory={plan.memory_mb}m"] if plan.memory_mb else []
    for name, value in plan.arguments.items():
        words += ["--build-arg", f"{name}={value}"]
    return [*words, str(context)]


def staged(plan: Plan, scratch: Path) -> Path:
    """A copy of the context in which some files hold something else."""
    place = scratch / "context"
    shutil.copytree(plan.context, place, symlinks=True)
    for name, content in plan.contents.items():
        # In place, so that what can be executed stays so.
        with (place / name).open("r+b") as file:
            file.write(content)
            file.truncate()
    return place


def failure(reference: str, plan: Plan, done: Completed) -> InfraError:
    """Why there is no image, in the words of the build."""
    plain = COLOUR.sub("", done.output)
    # The classic builder says at length what it thinks of itself before it begins.
    plain = PREAMBLE.sub("", plain)
    lines = [" ".join(line.split()) for line in plain.splitlines() if line.strip()]
    before = " / ".join(lines[-LAST_LINES:-1])[-1500:]
    last = lines[-1] if lines else "it said nothing"
    said = f"{last} (before it: {before})" if before else last
    how = f"took longer than {plan.seconds:g} s" if done.timed_out else "failed"
    cause = cause_of(OSError(said), Cause.IMAGE)
    return InfraError(cause, f"the build of {reference} ({plan.dockerfile}) {how}: {said}")
