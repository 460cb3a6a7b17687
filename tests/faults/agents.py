"""What can go wrong with an agent: its program, its container, its files, its limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.faults.bare import bare
from tests.faults.blows import (
    killed,
    paused,
    removed,
    struck,
)
from tests.faults.case import (
    NOTHING,
    RESOLVED,
    Case,
    Right,
    Seen,
    infra,
)
from tests.faults.crashes import (
    BESIDE,
    CRASH,
    CRASHES,
    GROUP,
    HANGS,
    WHOLE,
    a_case,
    in_python,
    options,
)
from tests.faults.driving import solve, told
from tests.faults.material import row, variant
from tests.faults.talking import (
    EDIT,
    FIX,
    LOOK,
    SUBMIT,
    Talk,
    dear,
    lines,
)
from tests.loopback import completes, runs

SANDBOX = infra("sandbox")
EAT = "python3 -c 'x = bytearray(2 << 30)'"
LITTLE = "python3 -c 'import time; x = bytearray(200 << 20); time.sleep(9)'"
EAT_ALL = f"echo 1000 > /proc/1/oom_score_adj; for i in 1 2 3 4; do {LITTLE} & done; wait"
"""Memory is taken from the container's first process, which is the likeliest by then."""
GOES_ON = completes("Go on.")
BOTH = ("miniswe", "sweagent")


def met(
    name: str,
    talk: Callable[[], Talk],
    right: Right,
    *settings: str,
    peers: tuple[str, ...] = BOTH,
    image: Callable[[], str] | None = None,
    agent: Mapping[str, Any] | None = None,
) -> Case:
    """A fault that the agents can meet on their own: they are driven by the same words."""

    def ours(place: Path) -> Seen:
        rows = [row(image=image())] if image else ()
        return solve(place, talk(), *settings, rows=rows, agent=agent)

    tag = "".join(c if c.isalnum() else "-" for c in name).lower()
    return Case(
        name=name,
        group=GROUP,
        right=right,
        ours=ours,
        peers=bare(tag, talk(), right, only=peers, image=image),
    )


# Its container.

CONTAINERS = (
    met("the agent's container is killed", lambda: struck(killed), SANDBOX),
    met("the agent's container is removed", lambda: struck(removed), SANDBOX),
    met(
        "the agent's container is paused for good",
        lambda: struck(paused),
        SANDBOX,
        peers=("miniswe",),
        agent=options(timeout=3),
    ),
    met("the model's command runs out of memory", lambda: lines(FIX, runs(EAT), SUBMIT), RESOLVED),
    met(
        "the model has its own container run out of memory",
        lambda: lines(EDIT, runs(EAT_ALL), LOOK),
        Right("died"),
    ),
    met(
        "the model kills every process in its container",
        lambda: lines(EDIT, runs("kill -9 -1"), LOOK),
        NOTHING,
    ),
    met(
        "the model forks until no process is left",
        lambda: lines(EDIT, runs("for i in $(seq 400); do sleep 600 & done"), LOOK),
        NOTHING,
        "sandbox.pids=64",
        peers=("miniswe",),
        agent=options(timeout=3),
    ),
    met(
        "no shell in the agent's image",
        lambda: lines(EDIT, LOOK),
        infra("instance"),
        peers=("miniswe",),
        image=lambda: variant("agents.no-shell", "rm -f /bin/bash /usr/bin/bash"),
    ),
)

# Its limits, and the time that it takes.

LIMITS = (
    met("out of steps", lambda: lines(EDIT, LOOK), NOTHING),
    a_case("out of tokens", NOTHING, lambda p: solve(p, lines(EDIT, LOOK), "limits.tokens=20")),
    a_case(
        "out of dollars as the endpoint counts them",
        NOTHING,
        lambda p: solve(p, lines(dear("cat README.md", 0.6)), "limits.cost_usd=1"),
    ),
    a_case(
        "out of time",
        NOTHING,
        lambda p: solve(p, lines(EDIT, runs("sleep 2")), "limits.seconds=4", "limits.steps=0"),
    ),
    a_case(
        "it hangs with a patch",
        RESOLVED,
        lambda p: in_python(p, f"{WHOLE}; {HANGS}", "limits.seconds=1"),
    ),
    a_case(
        "it hangs before it has asked",
        CRASH,
        lambda p: solve(p, lines(GOES_ON), "limits.seconds=1", agent=told(HANGS)),
    ),
)

CASES: tuple[Case, ...] = (*CONTAINERS, *CRASHES, *LIMITS, *BESIDE)
