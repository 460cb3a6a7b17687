"""What this machine has, and what of it the run will need; nothing here costs anything."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from pathlib import Path

from pipeline.docker import DockerSandboxes, Images
from pipeline.docker.local import bubblewrap
from pipeline.doctor.checks import Answer, fail, ok, skipped, warn
from pipeline.doctor.visit import Visit
from pipeline.domain import SandboxLimits
from pipeline.outcomes import UserError
from pipeline.wording import count

OLDEST = (3, 11)
GIGABYTE = 1024**3
GUESSED_GB = 3.0
"""Of an image that is not here. Those of Verified unpack to 2 to 6 GB, less what they share."""
BUILT_GB = 1.0
"""Of one that is made here; most of it is shared with the image that it begins with."""
PULL = "pull or load them before the run starts"
RAISE = "raise sandbox.memory_gb or sandbox.disk_gb, if this machine has more"
SPARE_GB = 5.0
"""For containers, logs and the rest of the machine."""


def python(visit: Visit) -> Answer:
    found = platform.python_version()
    if sys.version_info < OLDEST:
        return fail(f"Python {found}", "install Python 3.11 or newer")
    return ok(f"Python {found} on {platform.system()} {platform.machine()}")


def tools(visit: Visit) -> Answer:
    """Programs that a run starts."""
    patient = visit.patient
    kind = patient.recipe.sandbox.kind
    found, missing = [], []
    if shutil.which("git"):
        found.append("git")
    elif not patient.on_terminal:
        missing.append("git (the local sandbox needs it)")
    if kind != "docker" and not patient.on_terminal:
        if bubblewrap():
            found.append("bubblewrap")
        elif kind == "local":
            missing.append("bubblewrap (without it the local sandbox confines nothing)")
    if kind != "local" and (patient.agent.asks_model or patient.on_terminal):
        if shutil.which("docker"):
            found.append("docker")
        elif patient.agent.asks_model:
            missing.append(f"docker (agent {patient.agent.name!r} starts containers with it)")
        else:
            missing.append("docker (images of tasks are built with it)")
    here = f"{', '.join(found)} found" if found else ""
    if missing:
        text = f"not found: {'; '.join(missing)}"
        return fail(f"{text}; {here}" if here else text, "install what is missing")
    return ok(here or "none is needed")


def agent(visit: Visit) -> Answer:
    agent, tested = visit.patient.agent, visit.patient.tested
    # Raises UserError where its program or an option is missing.
    agent.preflight()
    version = agent.version
    if not tested:
        return ok(f"{agent.name} is ready")
    if not version:
        return warn(f"{agent.name} does not tell its version", f"passone is tested with {tested}")
    if version != tested:
        return warn(
            f"{agent.name} {version} is installed; passone is tested with {tested}",
            f"install {tested}, or try it out first: passone doctor CONFIG --smoke",
        )
    return ok(f"{agent.name} {version}, the version that passone is tested with")


def dataset(visit: Visit) -> Answer:
    recipe = visit.patient.recipe.selection
    remarks: list[str] = []
    visit.instances = visit.patient.draw(remarks.append)
    strata = len({item.stratum for item in visit.instances})
    kind = "categories" if visit.patient.on_terminal else "repositories"
    drawn = f"{len(visit.instances)} of {recipe.dataset} drawn, {kind}: {strata}"
    return ok("; ".join([drawn, *remarks]))


def docker(visit: Visit) -> Answer:
    patient = visit.patient
    if patient.recipe.sandbox.kind == "local":
        if patient.on_terminal:
            return fail(
                "sandbox.kind is local, and terminal tasks run in containers only",
                "leave sandbox.kind out, or --set sandbox.kind=docker",
            )
        return skipped("sandbox.kind is local")
    try:
        visit.daemon = info = visit.client.info()
    except UserError as error:
        detail = str(error).partition("; ")[0]
        if patient.recipe.sandbox.kind == "auto" and visit.instances and visit.embedded:
            return warn(f"{detail}: the local sandbox stands in, for this benchmark alone")
        if patient.on_terminal:
            return fail(
                f"{detail}: terminal tasks run in containers, and nothing stands in for them",
                "start Docker, or name a daemon that runs: export DOCKER_HOST=…; where permission "
                "is denied, join the group docker",
            )
        raise
    version = info.get("ServerVersion", "of an unknown version")
    architecture = str(info.get("Architecture", "unknown"))
    memory = int(info.get("MemTotal") or 0) / GIGABYTE
    detail = f"Docker {version}, {architecture}, {info.get('NCPU', '?')} CPUs, {memory:.0f} GB"
    if architecture in ("aarch64", "arm64") and not patient.on_terminal:
        return warn(
            f"{detail}: the official images are for x86_64 and run slowly here, if at all",
            "use an x86_64 machine, or name it in DOCKER_HOST",
        )
    return ok(detail)


def images(visit: Visit) -> Answer:
    """Here, or offered by a registry, or to be built; nothing is pulled or built."""
    patient, sandbox = visit.patient, visit.patient.recipe.sandbox
    if visit.embedded:
        visit.missing_images = ()
        return ok("of the embedded benchmark: made on this machine when a run starts")
    if sandbox.kind == "local" and not patient.on_terminal:
        return fail(
            "the local sandbox runs the embedded benchmark only",
            "start Docker for real instances, and leave sandbox.kind out",
        )
    if visit.daemon is None:
        return skipped("needs docker")
    client = visit.client
    images = Images(client, sandbox.mirrors)
    published = [item for item in visit.instances if not patient.built(item)]
    references = list(dict.fromkeys(item.image for item in visit.instances))
    missing = [name for name in references if images.local(name) is None]
    offered = {item.image for item in published}
    visit.missing_images = [name for name in missing if name in offered]
    visit.to_build = len(missing) - len(visit.missing_images)
    scant = [text for item in visit.instances if (text := patient.scant(item))]
    places = DockerSandboxes(client, images, "doctor", SandboxLimits())
    # Raises UserError where none is here and none can be pulled.
    unready = list(places.preflight(published)) if published else []
    detail = f"{len(references) - len(missing)} of {len(references)} are here"
    if visit.to_build:
        detail += f", {visit.to_build} to be built when they are needed"
    if visit.missing_images and not unready:
        detail += ", the rest can be pulled"
    remedies = [PULL] * bool(unready) + [RAISE] * bool(scant)
    text = "; ".join([detail, *unready, *scant])
    return warn(text, "; ".join(remedies)) if remedies else ok(text)


def disk(visit: Visit) -> Answer:
    """Room for the images that are to come, where they will be."""
    place, whose = visit.patient.logs.absolute(), "runs are kept"
    root = Path(str((visit.daemon or {}).get("DockerRootDir") or ""))
    if visit.daemon and is_local_daemon() and root.is_dir():
        place, whose = root, "Docker keeps images"
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free / GIGABYTE
    missing = len(visit.missing_images or ())
    needed = missing * GUESSED_GB + visit.to_build * BUILT_GB + SPARE_GB
    text = f"{free:.0f} GB free in {place}, where {whose}"
    if missing:
        text += f"; {missing} images to pull, some {GUESSED_GB:g} GB each (a guess)"
    if visit.to_build:
        text += f"; {count(visit.to_build, 'image')} to build, some {BUILT_GB:g} GB each (a guess)"
    if visit.missing_images is None:
        text += "; which images are to come is not known"
    if free < needed:
        return fail(
            f"{text}: {needed:.0f} GB are wanted",
            "make room (docker system df), or draw fewer instances: --set selection.size=N",
        )
    return ok(text)


def is_local_daemon() -> bool:
    return os.environ.get("DOCKER_HOST", "unix://").startswith("unix://")
