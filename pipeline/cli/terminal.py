"""What terminal tasks are run with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pipeline.outcomes import UserError

if TYPE_CHECKING:
    from pipeline.cli.place import Place
    from pipeline.contracts import Sandboxes
    from pipeline.docker.container import DockerSandbox
    from pipeline.docker.shapes import Shape
    from pipeline.domain import Instance


def make_machines(place: Place, instances: Sequence[Instance]) -> Sandboxes:
    """Containers that are graded as they were left.

    Raises:
        UserError: a local sandbox is asked for, Docker does not answer, or the embedded tasks'
            base image cannot be had.
    """
    from pipeline.benchmarks.terminal import places, signs
    from pipeline.benchmarks.terminal.taskset import EMBEDDED
    from pipeline.docker import DockerMachines, DockerSandboxes, EmbeddedImages, Images, connect
    from pipeline.docker.building import Builder
    from pipeline.docker.embedded import TERMINAL_BASE

    if place.kind == "local":
        raise UserError("sandbox.kind local: terminal tasks run in containers only; take docker")
    client = connect()
    images = Images(client, place.mirrors, place.cancelled)
    limits = place.limits
    plain = DockerSandboxes(
        client,
        images,
        place.run.key,
        limits,
        prepare=places.Preparation(Builder(images, place.cancelled), limits),
        cancelled=place.cancelled,
    )
    if any(str(one.row["folder"]).startswith(f"{EMBEDDED}/") for one in instances):
        EmbeddedImages(client, place.say, base=TERMINAL_BASE).ensure_base()

    def shape(instance: Instance) -> Shape:
        return places.working(places.task_in(instance), limits)

    def ready(instance: Instance, sandbox: DockerSandbox) -> None:
        places.make_ready(places.task_in(instance), sandbox)

    return DockerMachines(
        plain,
        shape,
        ready=ready,
        warn=lambda instance: places.scant(instance, limits),
        built=places.is_built,
        bearing=signs.candidates,
        artifacts=lambda instance: places.artifacts(places.task_in(instance)),
    )
