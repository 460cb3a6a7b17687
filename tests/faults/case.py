"""What a fault is, what it must come to, and what somebody made of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Right:
    """The one right answer to a fault."""

    outcome: str
    """An `Outcome` (`resolved`, `unresolved`, `infra` …); or `refused`: exit status 2 before
    anything ran; or `stopped`: the run stops by itself and what is left is pending."""
    cause: str = ""
    """Of an infra outcome."""

    def __str__(self) -> str:
        return f"{self.outcome} ({self.cause})" if self.cause else self.outcome


RESOLVED, UNRESOLVED = Right("resolved"), Right("unresolved")
REJECTED, NOTHING = Right("patch_rejected"), Right("no_submission")
REFUSED, STOPPED = Right("refused"), Right("stopped")


def infra(cause: str) -> Right:
    return Right("infra", cause)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What we made of it, read from what passone wrote and printed, never from its objects."""

    answer: Right
    said: str = ""
    """What a person was told, shortened: the loss, or the error."""
    wrong: str = ""
    """Anything else that should not be: a container left, a row lost, a key on disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """What another program made of the same fault, measured."""

    words: str
    """In its own terms, few: `unresolved`, `error`, `empty patch`, `traceback, exit 1`."""
    right: bool | None
    """None: half; it says that something failed, and not what or whose."""


Ours: TypeAlias = Callable[[Path], Seen]
Theirs: TypeAlias = Callable[[Path], Peer]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One fault: how to bring it about for us, and for the others where it applies.

    Each callable gets an empty directory of its own, brings the fault about for real,
    and cleans up what lives outside that directory.
    """

    name: str
    """A few words, unique over all groups; what breaks, and when."""
    group: str
    right: Right
    ours: Ours
    peers: Mapping[str, Theirs] = field(default_factory=dict)
    """By name: swebench, sweagent, miniswe. One that is absent has no such fault to meet."""
    needs: str = "docker"
    """docker, root (its own daemon), or nothing."""
    alone: bool = False
    """Whether it must not run beside the others: it takes the shared daemon's time or memory."""
