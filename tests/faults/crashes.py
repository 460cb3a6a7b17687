"""What can go wrong with an agent's program, with what it leaves, and with what it says."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.faults.blows import WORKS, agent_gets, wrapped
from tests.faults.case import REFUSED, RESOLVED, Case, Right, Seen, infra
from tests.faults.driving import APART, asking, commanded, drive, solve, swept, told
from tests.faults.material import OTHER, gold
from tests.faults.talking import EDIT, ENDS, FIX, Asked, lines
from tests.loopback import Answer, completes, runs

GROUP = "agents"
CRASH = infra("agent_crash")
WORKING = lines(EDIT, runs(WORKS))
HANGS = "import time; time.sleep(600)"
Ours = Callable[[Path], Seen]


def a_case(name: str, right: Right, ours: Ours) -> Case:
    return Case(name=name, group=GROUP, right=right, ours=ours)


def options(**environment: Any) -> Mapping[str, Any]:
    """mini-swe-agent, with this about its containers."""
    return {"name": "miniswe", "options": {"environment": {**APART["environment"], **environment}}}


def broken_config(place: Path) -> Seen:
    path = place / "broken.yaml"
    path.write_text("agent: [of all things: a list\n")
    return solve(place, agent={"name": "miniswe", "options": {"config": str(path)}})


def damaged(place: Path, damage: str) -> Seen:
    """The real mini-swe-agent solves it, and then this becomes of what it left."""
    return solve(place, program=wrapped(place, damage))


def not_installed(place: Path) -> Seen:
    return solve(place, program=wrapped(place), env={"PATH": "/usr/bin:/bin"})


def gets(place: Path, signum: signal.Signals) -> Seen:
    return solve(place, WORKING, strike=agent_gets(signum, place))


def in_python(place: Path, code: str, *settings: str) -> Seen:
    """A program that asks once, and then does this."""
    return solve(place, lines(completes(f"RUN {code}")), *settings, agent=asking())


HALF = "open(patch_file, 'w').write('diff --git a/README.md b/README.md\\n--- a/README.md')"
WHOLE = f"open(patch_file, 'w').write({gold()!r})"
CRASHES = (
    a_case("its config cannot be read", CRASH, broken_config),
    a_case("the program is not on PATH", REFUSED, lambda p: solve(p, agent=commanded("no-such"))),
    a_case("it crashes at its start", CRASH, lambda p: solve(p, agent=told("raise SystemExit(7)"))),
    a_case(
        "it crashes mid-way over half a patch",
        CRASH,
        lambda p: in_python(p, f"{HALF}; os.kill(os.getpid(), 11)"),
    ),
    a_case("it is killed mid-way", CRASH, lambda p: gets(p, signal.SIGKILL)),
    a_case(
        "it is killed after it submitted", RESOLVED, lambda p: damaged(p, "os.kill(os.getpid(), 9)")
    ),
    a_case(
        "it leaves half a trajectory",
        CRASH,
        lambda p: damaged(p, "text = trajectory.read_bytes(); trajectory.write_bytes(text[:2000])"),
    ),
    a_case("its trajectory is lost", CRASH, lambda p: damaged(p, "trajectory.unlink()")),
    a_case(
        "it ends with 0 and leaves nothing",
        CRASH,
        lambda p: damaged(p, "import shutil; shutil.rmtree(out)"),
    ),
    a_case(
        "it hands in another instance's work",
        CRASH,
        lambda p: damaged(
            p,
            f"tree = json.loads(trajectory.read_text()); tree['instance_id'] = {OTHER!r}\n"
            "trajectory.write_text(json.dumps(tree))",
        ),
    ),
    a_case(
        "an exit status that nobody knows",
        infra("unknown"),
        lambda p: solve(p, agent=options(environment_class="nowhere")),
    ),
)

# What it leaves, what it says, and who else is there.

STAYS = 'trap "" TERM; while :; do sleep 1; done'
SPAWNS = f"import subprocess; subprocess.Popen(['sh', '-c', '{STAYS}'])"
ESCAPES = SPAWNS.replace(")", ", start_new_session=True)")
TELLS = (
    "print(dict(os.environ), flush=True)\n"
    "subprocess.run(['ps', 'eww', '-A'])\n"
    "for path in Path('/proc').glob('[0-9]*/environ'):\n"
    "    try: print(path.read_bytes())\n"
    "    except OSError: pass\n"
)


def side_by_side(place: Path) -> Seen:
    """Two attempts at once, each of which marks its patch with its container's name."""

    def talk(asked: Asked) -> Answer:
        if asked.step == 0:
            return runs("hostname; sleep 3")
        mark = "hostname > mark.txt; git add mark.txt; "
        return FIX if asked.step == 1 else runs(mark + ENDS)

    with swept(place):
        ran = drive(place, talk, "execution.agent_workers=2", attempts=2)
        marks = [mark_of(ran.attempt(number)) for number in (1, 2)]
        wrong = "" if len({*marks}) == 2 and all(marks) else f"mixed up: {marks}"
        return ran.seen(wrong)


def mark_of(attempt: Path) -> str:
    """Whose patch it is; empty where the trajectory beside it is of another container."""
    patch = (attempt / "try-1" / "patch.diff").read_text()
    mark = next(line[1:] for line in patch.splitlines() if len(line) == 13 and line[0] == "+")
    first = (attempt / "try-1" / "steps.jsonl").read_text().splitlines()[0]
    return mark if mark in first else ""


BESIDE = (
    a_case("two attempts of one instance at once", RESOLVED, side_by_side),
    a_case(
        "it leaves a process behind in another session",
        RESOLVED,
        lambda p: in_python(p, f"{ESCAPES}; {WHOLE}; sys.exit()"),
    ),
    replace(
        a_case("it prints every environment that it sees", RESOLVED, lambda p: damaged(p, TELLS)),
        # Another case's process, just begun, may show the same key.
        alone=True,
    ),
)
