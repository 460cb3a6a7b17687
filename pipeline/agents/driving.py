"""What driving any agent program takes: environment, grace, and whose settings are whose."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from pipeline.outcomes import UserError

DUMMY_KEY = "passone-gateway"
"""All that an agent ever sees of a key."""
GRACE_SECONDS = 120
ERROR = re.compile(r"\b(?:ERROR|[A-Za-z]*(?:Error|Exception))\b")
SECRET_NAME = re.compile(
    r"(?:^|[._-])(?:api[_-]?keys?|access[_-]?key|token|secret|password)$", re.IGNORECASE
)
NO_LIMIT_SECONDS = 7 * 24 * 3600


def leaves(options: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Nested options as (dotted name, value)."""
    for key, value in options.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            yield from leaves(value, f"{name}.")
        else:
            yield name, value


def extra_arguments(options: Mapping[str, Any], name: str) -> list[str]:
    """A list among the options, such as more arguments for `docker run`.

    Raises:
        UserError: it is no list of strings.
    """
    value = dict(leaves(options)).get(name, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise UserError(f"agent option {name}: expected a list of strings, got {value!r}")
    return value


def refuse_reserved(agent: str, options: Mapping[str, Any], reserved: Mapping[str, str]) -> None:
    """Options must not set what the config sets elsewhere, nor hold a key.

    Raises:
        UserError: one does; names the key of the config that is meant.
    """
    for name, _ in leaves(options):
        if name in reserved:
            raise UserError(
                f"agent {agent!r}: option {name} is set by the config's {reserved[name]}"
            )
        if SECRET_NAME.search(name):
            raise UserError(
                f"agent {agent!r}: option {name} would write a key to disk; "
                "name its variable in model.key_variable"
            )


def child_environment(**extra: str) -> dict[str, str]:
    """Our environment without anybody's keys, and with loopback kept off any proxy."""
    secret = ("API_KEY", "_TOKEN", "SECRET", "PASSWORD")
    kept = {k: v for k, v in os.environ.items() if not any(word in k.upper() for word in secret)}
    kept.pop("OPENAI_BASE_URL", None)
    kept.pop("OPENAI_API_BASE", None)
    return {**kept, "NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost", **extra}


def last_words(output: str) -> str:
    """What a program said last that means something: its error, else its last lines."""
    lines = [" ".join(line.strip(" │┃┏┓┗┛━─╭╮╰╯╸╺\t").split()) for line in output.splitlines()]
    lines = [line for line in lines if any(char.isalpha() for char in line)]
    errors = [line for line in lines if ERROR.search(line)]
    return " / ".join(errors[-1:] or lines[-3:])[-600:]


def status_in(statuses: Path, instance_id: str) -> str:
    """The status that only an agent's YAML holds: of an instance that broke before it began."""
    try:
        groups = yaml.safe_load(statuses.read_text(encoding="utf-8"))["instances_by_exit_status"]
        found = [str(status) for status, ids in groups.items() if instance_id in ids]
    except (OSError, ValueError, LookupError, TypeError, AttributeError, yaml.YAMLError):
        return ""
    return found[0] if found else ""
