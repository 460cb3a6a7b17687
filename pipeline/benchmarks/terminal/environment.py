"""Read what the current layout says about a container: its image, limits, network and variables."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from pipeline.benchmarks.terminal import compose
from pipeline.benchmarks.terminal.compose import Unrunnable
from pipeline.benchmarks.terminal.fields import Table
from pipeline.benchmarks.terminal.tasks import Environment, Healthcheck, Network
from pipeline.outcomes import UserError

VARIABLE = re.compile(r"\$\{([^}:]+)(?::-(.*))?\}")


def read_environment(table: Table, folder: Path) -> Environment:
    """What the container is.

    Raises:
        UserError: a wrong value, or no image.
    """
    place = folder / "environment"
    table.ignore("os", "gpus", "gpu_types", "tpu", "mcp_servers", "skills_dir", "allowed_hosts")
    table.ignore("allow_internet")
    image, dockerfile = table.text("docker_image"), place / "Dockerfile"
    service = compose.Service()
    try:
        if (place / compose.FILE).exists():
            service = compose.read_service(place / compose.FILE, "main")
    except Unrunnable as error:
        raise UserError(f"{place / compose.FILE}: {error}") from None
    image = image or service.image
    context, recipe = None, None
    if not image:
        service = replace(service, context=service.context or ".")
        if (
            service.dockerfile == dockerfile.name
            and service.context == "."
            and not dockerfile.exists()
        ):
            raise UserError(
                f"{table.file}: no image: write environment.docker_image, or add {dockerfile}"
            )
        context, recipe = compose.built_from(place, service)
    alone = image and not dockerfile.exists() and not (place / compose.FILE).exists()
    return Environment(
        image=image,
        context=context,
        dockerfile=recipe,
        build_arguments=service.build_arguments,
        build_seconds=table.seconds("build_timeout_sec") or 600.0,
        uploads=place if alone and place.is_dir() and any(place.iterdir()) else None,
        workdir=table.text("workdir") or service.workdir,
        user=service.user,
        cpus=table.number("cpus", above=0) or service.cpus,
        memory_mb=table.megabytes("memory_mb", "memory") or service.memory_mb,
        storage_mb=table.megabytes("storage_mb", "storage"),
        network=read_network(table) or service.network or Network.PUBLIC,
        variables={**service.variables, **given(table, "env")},
        healthcheck=read_healthcheck(table),
        command=service.command,
    )


def read_network(table: Table) -> Network | None:
    """Raises UserError: a wrong value."""
    mode = table.choice("network_mode", Network)
    table.ignore("allowed_hosts")
    internet = table.flag("allow_internet")
    if mode is None and internet is not None:
        return Network.PUBLIC if internet else Network.NONE
    return mode


def given(table: Table, key: str) -> dict[str, str]:
    """Variables, where `${NAME:-value}` stands for its value.

    Raises:
        UserError: one that is to come from this machine, or a wrong value.
    """
    found = table.variables(key)
    for name, value in found.items():
        match = VARIABLE.fullmatch(value)
        if match is not None and match[2] is None:
            raise UserError(
                f"{table.file}: {table.path}{key}.{name} is taken from {match[1]} of this machine, "
                "which no container gets; write a value"
            )
        if match is not None:
            found[name] = match[2]
    return found


def read_healthcheck(table: Table) -> Healthcheck | None:
    """Raises UserError: a wrong value, or no command."""
    if table.get("healthcheck") is None:
        return None
    check = table.table("healthcheck")
    if not check.text("command"):
        check.refuse("command", "write the command that has to succeed")
    wanted = Healthcheck(command=check.text("command"))
    start = check.number("start_period_sec", above=-1) or 0.0
    return Healthcheck(
        command=wanted.command,
        interval_seconds=check.seconds("interval_sec") or wanted.interval_seconds,
        timeout_seconds=check.seconds("timeout_sec") or wanted.timeout_seconds,
        start_period_seconds=max(start, 0.0),
        start_interval_seconds=check.seconds("start_interval_sec") or wanted.start_interval_seconds,
        retries=int(check.number("retries", above=0) or wanted.retries),
    )
