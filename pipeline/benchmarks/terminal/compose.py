"""Read a docker-compose file's one service, or say why one container cannot stand in for it."""

from __future__ import annotations

import functools
import math
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from pipeline.benchmarks.terminal.fields import MEGABYTES, SIZE, read_text
from pipeline.benchmarks.terminal.quick import LOADER
from pipeline.benchmarks.terminal.tasks import Network
from pipeline.outcomes import UserError

FILE = "docker-compose.yaml"
HONOURED = {
    *("build", "image", "environment", "working_dir", "user", "volumes", "network_mode"),
    *("deploy", "cpus", "mem_limit", "platform", "command"),
}
HARMLESS = {
    # What is named, shown or restarted otherwise makes no other container.
    *("container_name", "hostname", "expose", "ports", "tty", "stdin_open", "init"),
    *("restart", "labels", "pull_policy", "stop_grace_period", "stop_signal", "logging"),
    *("depends_on", "healthcheck", "scale"),
}
BUILD = {"context", "dockerfile", "args", "platforms"}
GIVEN = re.compile(r"\$\{(?:T_BENCH_\w+|CONTEXT_DIR|MAIN_IMAGE_NAME|CPUS|MEMORY|TEST_DIR)\}")
"""What the benchmark's own program fills in, and we fill in otherwise or need not."""
LOGS = re.compile(r"\$\{(?:T_BENCH_TASK|HOST)_\w*(?:LOGS|ARTIFACTS)(?:_PATH)?\}:.*")
ASKS = re.compile(r"\$\{([A-Za-z_]\w*)(?::?-([^}]*))?\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """What the one service says about its container. Empty or None: nothing."""

    image: str = ""
    context: str = ""
    """Below the file's folder; empty: nothing is built."""
    dockerfile: str = "Dockerfile"
    build_arguments: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    workdir: str = ""
    user: str = ""
    cpus: float | None = None
    memory_mb: int | None = None
    network: Network | None = None
    command: tuple[str, ...] = ()


class Unrunnable(Exception):
    """One container cannot stand in for it; the message says why."""


@functools.lru_cache(maxsize=4096)
def outcome_of(text: str, main: str = "") -> Service | str:
    """The one service of a compose file, or what is against it, kept: a set's files are alike.

    Args:
        main: the name that it must have, where others would stand beside it; empty: any.

    Raises:
        ValueError, TypeError, AttributeError: no compose file.
    """
    try:
        return _service_in(text, main)
    except Unrunnable as error:
        return str(error)


def _service_in(text: str, main: str) -> Service:
    tree = yaml.load(text, Loader=LOADER)
    services = tree.get("services") if isinstance(tree, dict) else None
    if not isinstance(services, dict) or not services:
        raise ValueError("it has no services")
    names = sorted({str(name) for name in services} | ({main} if main else set()))
    if len(names) > 1:
        raise Unrunnable(f"needs {len(names)} services ({', '.join(names)}); only one is run")
    values = next(iter(services.values())) or {}
    if not isinstance(values, dict):
        raise TypeError(f"service {names[0]} has no keys")
    strange = sorted(
        key for key, value in values.items() if key not in HONOURED | HARMLESS and value
    )
    if strange:
        raise Unrunnable(f"its service asks for {', '.join(map(str, strange))}")
    for mount in values.get("volumes") or ():
        if not isinstance(mount, str) or not LOGS.fullmatch(mount):
            shown = mount if isinstance(mount, str) else "something"
            raise Unrunnable(f"its service mounts {shown} from the host")
    return _service(values)


def _service(values: Mapping[str, object]) -> Service:
    build = values.get("build")
    build = {"context": build} if isinstance(build, str) else build or {}
    if not isinstance(build, dict):
        raise TypeError("build is neither a folder nor a table")
    strange = sorted(str(key) for key in build.keys() - BUILD)
    if strange:
        raise Unrunnable(f"its image is built with {', '.join(strange)}")
    limits = values.get("deploy")
    for key in ("resources", "limits"):
        limits = limits.get(key) if isinstance(limits, dict) else None
    limits = limits if isinstance(limits, dict) else {}
    image = "" if build else filled(str(values.get("image") or ""))
    context = filled(str(build.get("context") or ".")) if build else ""
    return Service(
        image=image,
        # The benchmark's own program fills it in: the folder that the file is in.
        context=context or ("." if build else ""),
        dockerfile=filled(str(build.get("dockerfile") or "")) or "Dockerfile",
        build_arguments=pairs(build.get("args")),
        variables={k: v for k, v in pairs(values.get("environment")).items() if k != "TEST_DIR"},
        workdir=filled(str(values.get("working_dir") or "")),
        user=str(values.get("user") or ""),
        cpus=_cpus(values.get("cpus") or limits.get("cpus")),
        memory_mb=_megabytes(values.get("mem_limit") or limits.get("memory")),
        network=_network(values.get("network_mode")),
        command=_command(values.get("command")),
    )


def filled(text: str) -> str:
    """Text with its variables filled in by their defaults; those of the benchmark's program go.

    Raises:
        Unrunnable: it asks this machine's environment, whose variables nobody gets.
    """

    def replacement(match: re.Match[str]) -> str:
        if match[2] is None:
            raise Unrunnable(f"takes {match[1]} from the environment of this machine")
        return match[2]

    return ASKS.sub(replacement, GIVEN.sub("", text))


def pairs(value: object) -> dict[str, str]:
    """Variables, written as a table or as a list of `NAME=value`."""
    if value is None:
        return {}
    if isinstance(value, list):
        # Without a value it is taken from the machine, if it is set there: here it never is.
        split = [str(item).partition("=") for item in value]
        return {name: filled(text) for name, equals, text in split if equals}
    if isinstance(value, dict):
        return {
            str(name): filled(str(text).lower() if isinstance(text, bool) else str(text))
            for name, text in value.items()
            if text is not None
        }
    raise ValueError("variables are neither a table nor a list")


def _cpus(value: object) -> float | None:
    text = filled(str(value or ""))
    if not text:
        return None
    number = float(text)
    if not 0 < number < math.inf:
        raise ValueError(f"cpus is {text}")
    return number


def _megabytes(value: object) -> int | None:
    text = filled(str(value or "")).strip().rstrip("bB")
    if not text:
        return None
    if text.isdecimal():
        return math.ceil(int(text) / 1024**2) or None
    match = SIZE.fullmatch(text)
    if match is None:
        raise ValueError(f"the memory limit is {text!r}")
    return math.ceil(float(match[1]) * MEGABYTES[match[2].upper()])


def _command(value: object) -> tuple[str, ...]:
    if isinstance(value, list):
        words = [str(word) for word in value]
    elif value is None or isinstance(value, str):
        words = shlex.split(value or "")
    else:
        raise TypeError("command is neither a text nor a list")
    # Two of them are how the file writes one that it leaves to the container.
    return tuple("$".join(map(filled, word.split("$$"))) for word in words)


def _network(value: object) -> Network | None:
    if value in (None, "", "bridge", "default"):
        return None
    if value == "none":
        return Network.NONE
    raise Unrunnable(f"its service asks for network_mode {value}")


def read_service(path: Path, main: str = "") -> Service:
    """The one service of a compose file.

    Raises:
        UserError: no compose file.
        Unrunnable: it takes more than one plain container.
    """
    try:
        found = outcome_of(read_text(path), main)
    except (ValueError, TypeError, AttributeError, yaml.YAMLError) as error:
        said = " ".join(str(error).split())
        raise UserError(f"{path}: no compose file that can be read: {said}; mend it") from None
    if isinstance(found, str):
        raise Unrunnable(found)
    return found


def built_from(folder: Path, service: Service) -> tuple[Path | None, Path | None]:
    """The context and the Dockerfile of a service; None: it names an image.

    Raises:
        UserError: nothing to build, or something that is not there or outside its task.
    """
    if service.image:
        return None, None
    if not service.context:
        raise UserError(f"{folder / FILE}: its service has neither build nor image")
    context = folder / service.context
    dockerfile = context / service.dockerfile
    inside = context.resolve().is_relative_to(folder.resolve())
    if not inside or not dockerfile.resolve().is_relative_to(folder.resolve()):
        raise UserError(
            f"{folder / FILE}: it builds from {dockerfile}, outside its task; put it there"
        )
    if not dockerfile.is_file():
        raise UserError(f"{dockerfile} is missing; no image can be built without it")
    return context, dockerfile
