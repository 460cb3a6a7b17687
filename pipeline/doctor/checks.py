"""What a check is, and what it may say.

A check is a function of a visit that returns an `Answer`; its line in the registry
(`pipeline.doctor.examine`) gives it a name, an area and what it needs.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from pipeline.doctor.visit import Visit
from pipeline.outcomes import UserError


class State(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    SKIPPED = "skipped"


class Area(StrEnum):
    """In the order in which they are looked at: what is free and here comes first."""

    SETTINGS = "settings"
    PYTHON = "python"
    AGENT = "agent"
    DATASET = "dataset"
    DOCKER = "docker"
    IMAGES = "images"
    DISK = "disk"
    ENDPOINT = "endpoint"
    SMOKE = "smoke"
    """What a small try shows; only looked at where one is made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a check found."""

    state: State
    detail: str
    remedy: str = ""
    blocks: bool = False
    """What needs this check cannot be looked at."""
    raw: str = ""
    """What the endpoint answered, where that was at fault."""


def ok(detail: str) -> Answer:
    return Answer(state=State.OK, detail=detail)


def warn(detail: str, remedy: str = "") -> Answer:
    return Answer(state=State.WARN, detail=detail, remedy=remedy)


def fail(detail: str, remedy: str = "", *, blocks: bool = True, raw: str = "") -> Answer:
    """What is needed is not there; a warning where the check decides nothing."""
    return Answer(state=State.FAIL, detail=detail, remedy=remedy, blocks=blocks, raw=raw)


def skipped(detail: str) -> Answer:
    return Answer(state=State.SKIPPED, detail=detail, blocks=True)


def unknown(detail: str) -> Answer:
    """It cannot be told; what comes after may still show it."""
    return note(f"not known: {detail}")


def note(detail: str, remedy: str = "") -> Answer:
    """Nothing is right or wrong about it, but somebody may want to know."""
    return Answer(state=State.SKIPPED, detail=detail, remedy=remedy)


def of_error(error: UserError) -> Answer:
    """An error of the user's as an answer: after its semicolon stands the remedy."""
    detail, _, remedy = str(error).partition("; ")
    return fail(detail, remedy)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One line of what the doctor says."""

    name: str
    area: Area
    state: State
    detail: str
    remedy: str = ""
    raw: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One line of the registry."""

    name: str
    area: Area
    ask: Callable[[Visit], Answer]
    needs: tuple[str, ...] = ()
    """Names of checks without which it cannot be looked at."""
    after: tuple[str, ...] = ()
    """Names of checks that it learns from, whatever they found."""
    decisive: bool = False
    """A run cannot work where this one fails; elsewhere a failure is a warning."""


def read_areas(text: str) -> frozenset[Area]:
    """What `--only` names.

    Raises:
        UserError: an area that nobody knows.
    """
    found = []
    known = [area for area in Area if area is not Area.SMOKE]
    for name in (part.strip().lower() for part in text.split(",")):
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean '{near[0]}'? " if near else ""
            hint = "for that there is --smoke; " if name == Area.SMOKE else hint
            raise UserError(f"--only: unknown area {name!r}; {hint}known: {', '.join(known)}")
        found.append(Area(name))
    return frozenset(found)
