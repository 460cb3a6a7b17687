"""What one container is to be: its limits, and what differs from its image."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from docker.types import Mount

from pipeline.domain import SandboxLimits
from pipeline.sites import DROPPED

TESTBED = "/testbed"
IDLE = "tail -f /dev/null"
"""What a container's first process does."""
MEGABYTE = 1024 * 1024
SHELL = r"(?:\S*/)?(?:ba|da)?sh"
WAITS = r"(?:sleep \S+|tail -f /dev/null)"
IDLES = re.compile(rf"{SHELL}|{WAITS}|{SHELL} -l?c {WAITS}")
"""Commands that do nothing but keep a container."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One container. Zero: no limit; empty: as its image has it."""

    workdir: str = ""
    user: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    cpus: float = 0.0
    memory_mb: int = 0
    pids: int = 0
    disk_gb: float = 0.0
    offline: bool = False
    dropped: tuple[str, ...] = ()
    """Capabilities that it goes without, of those that Docker gives."""
    sealed: bool = False
    """Whether nobody in it can become more than he is."""
    command: tuple[str, ...] = ()
    """What its image's entrypoint is called with, beside our own first process, or what is started
    where it has none; empty: neither."""
    blank: tuple[str, ...] = ()
    """Folders that are empty when it starts, or not there, whatever its image has there."""

    @property
    def host(self) -> dict[str, Any]:
        """Arguments for the daemon's host config."""
        return {
            "mem_limit": self.memory_mb * MEGABYTE or None,
            "nano_cpus": round(self.cpus * 1e9) or None,
            "pids_limit": self.pids or None,
            "cap_drop": list(self.dropped) or None,
            "security_opt": ["no-new-privileges"] if self.sealed else None,
            # A volume hides what the image has there, a link among its parents too. No program
            # of the image is asked to clear anything away.
            "mounts": [Mount(place, None, no_copy=True) for place in self.blank] or None,
        }


def plain(limits: SandboxLimits, *, offline: bool) -> Shape:
    """A container as the official harness of SWE-bench starts it, without added capabilities."""
    return Shape(
        workdir=TESTBED,
        user="root",
        memory_mb=round(limits.memory_gb * 1024),
        pids=limits.pids,
        disk_gb=limits.disk_gb,
        offline=offline or limits.network == "off",
        dropped=DROPPED,
        sealed=True,
    )
