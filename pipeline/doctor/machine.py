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

OLDEST = (3, 11)
GIGABYTE = 1024**3
GUESSED_GB = 3.0
"""Of an image that is not here. Those of Verified unpack to 2 to 6 GB, less what they share."""
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
    else:
        missing.append("git (the local sandbox needs it)")
    if kind != "docker":
        if bubblewrap():
            found.append("bubblewrap")
        elif kind == "local":
            missing.append("bubblewrap (without it the local sandbox confines nothing)")
    if kind != "local" and patient.agent.asks_model:
        if shutil.which("docker"):
            found.append("docker")
        else:
            missing.append(f"docker (agent {patient.agent.name!r} starts containers with it)")
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
    visit.instances = visit.patient.draw()
    strata = len({item.stratum for item in visit.instances})
    return ok(f"{len(visit.instances)} of {recipe.dataset} drawn, repositories: {strata}")


def docker(visit: Visit) -> Answer:
    if visit.patient.recipe.sandbox.kind == "local":
        return skipped("sandbox.kind is local")
    try:
        visit.daemon = info = visit.client.info()
    except UserError as error:
        if visit.patient.recipe.sandbox.kind == "auto" and visit.instances and visit.embedded:
            detail = str(error).partition("; ")[0]
            return warn(f"{detail}: the local sandbox stands in, for this benchmark alone")
        raise
    version = info.get("ServerVersion", "of an unknown version")
    architecture = str(info.get("Architecture", "unknown"))
    memory = int(info.get("MemTotal") or 0) / GIGABYTE
    detail = f"Docker {version}, {architecture}, {info.get('NCPU', '?')} CPUs, {memory:.0f} GB"
    if architecture in ("aarch64", "arm64"):
        return warn(
            f"{detail}: the official images are for x86_64 and run slowly here, if at all",
            "use an x86_64 machine, or name it in DOCKER_HOST",
        )
    return ok(detail)


def images(visit: Visit) -> Answer:
    """Here, or offered by a registry; nothing is pulled."""
    sandbox = visit.patient.recipe.sandbox
    if visit.embedded:
        visit.missing_images = ()
        return ok("of the embedded benchmark: made on this machine when a run starts")
    if sandbox.kind == "local":
        return fail(
            "the local sandbox runs the embedded benchmark only",
            "start Docker for real instances, and leave sandbox.kind out",
        )
    if visit.daemon is None:
        return skipped("needs docker")
    client = visit.client
    images = Images(client, sandbox.mirrors)
    references = list(dict.fromkeys(item.image for item in visit.instances))
    visit.missing_images = [name for name in references if images.local(name) is None]
    places = DockerSandboxes(client, images, "doctor", SandboxLimits())
    # Raises UserError where none is here and none can be pulled.
    warnings = places.preflight(visit.instances)
    here = len(references) - len(visit.missing_images)
    detail = f"{here} of {len(references)} are here"
    if warnings:
        return warn("; ".join([detail, *warnings]), "pull or load them before the run starts")
    return ok(f"{detail}, the rest can be pulled" if visit.missing_images else detail)


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
    needed = missing * GUESSED_GB + SPARE_GB
    text = f"{free:.0f} GB free in {place}, where {whose}"
    if missing:
        text += f"; {missing} images to pull, some {GUESSED_GB:g} GB each (a guess)"
    elif visit.missing_images is None:
        text += "; which images are to come is not known"
    if free < needed:
        return fail(
            f"{text}: {needed:.0f} GB are wanted",
            "make room (docker system df), or draw fewer instances: --set selection.size=N",
        )
    return ok(text)


def is_local_daemon() -> bool:
    return os.environ.get("DOCKER_HOST", "unix://").startswith("unix://")
