"""Where an agent works: a container that it starts, one that is ours, or a tree of this machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from pipeline.domain import SandboxLimits, Snapshot

DROPPED = ("AUDIT_WRITE", "MKNOD", "NET_RAW", "SETFCAP", "SETPCAP", "SYS_CHROOT")
"""Of what Docker gives a container: no test of a library needs these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSite:
    """Where an agent works: a container that it starts from this image itself."""

    image: str
    labels: dict[str, str]
    """On everything that is started for this try, so that all of it can be removed."""
    limits: SandboxLimits

    @property
    def docker_arguments(self) -> list[str]:
        """Arguments for `docker run`."""
        arguments = [f"--label={key}={value}" for key, value in self.labels.items()]
        arguments += [f"--cap-drop={capability}" for capability in DROPPED]
        arguments.append("--security-opt=no-new-privileges")
        if self.limits.memory_gb:
            arguments.append(f"--memory={round(self.limits.memory_gb * 1024)}m")
        if self.limits.pids:
            arguments.append(f"--pids-limit={self.limits.pids}")
        return arguments


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSite:
    """Where an agent works without Docker: a working tree on this machine."""

    tree: Path
    """The tree as this machine sees it."""
    directory: str
    """The tree as a command behind `wrapper` sees it."""
    wrapper: tuple[str, ...]
    """Put before a command, it confines that command to the tree; may be empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineSite:
    """Where an agent works in a container that is ours, and that is graded as it was left."""

    container: str
    """The id of one that runs already."""
    image: str
    workdir: str
    hand_in: Callable[[Path], Snapshot] = field(repr=False, compare=False)
    """End whatever runs in it, and keep its state; artefacts go into a folder here.

    Raises InfraError: it is gone.
    """


Site: TypeAlias = ContainerSite | LocalSite | MachineSite
