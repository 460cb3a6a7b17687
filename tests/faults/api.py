"""Faults of the daemon's API: an error, a lost answer or a cut connection at one call."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias, TypeVar

from docker.errors import ImageNotFound

from tests.faults import harness, scene
from tests.faults.case import RESOLVED, Case, Ours, Peer, Right, Seen, Theirs, infra
from tests.faults.material import SceneError, daemon, gold, row, variant
from tests.faults.mirror import ALWAYS
from tests.faults.proxy import Rule, before
from tests.registry import serving
from tests.relay import (
    CREATE,
    EXEC_CREATE,
    EXEC_INSPECT,
    EXEC_START,
    INSPECT,
    REMOVE,
    Act,
    cut,
    first,
    hang,
    lose,
    refuse,
    swallow,
)

GROUP = "daemon"
T = TypeVar("T")
TRIES = 2
SETTINGS = (f"execution.tries={TRIES}", "sandbox.network=off")
TEST = "Test Output"
"""What stands in the log before the tests, and behind them: the stream of an eval script."""
LAST = "End Test Output"

Spec: TypeAlias = tuple[str, Act, int, int]
"""Pattern, act, how often, and how many pass first: a rule counts, so each run makes its own."""


def ours(*specs: Spec, tidy: bool = True) -> Ours:
    """Gold through a socket with these rules.

    Args:
        tidy: whether no container may be left where the daemon refuses no removal.
    """

    def score(place: Path) -> Seen:
        with before(*(Rule(*spec) for spec in specs)) as proxy:
            seen = scene.score(place, row(), gold(), *SETTINGS, env=proxy.env)
        if not proxy.struck:
            raise SceneError(f"the fault struck nothing; asked: {sorted(set(proxy.asked))}")
        return seen if tidy else replace(seen, wrong=without_containers(seen.wrong))

    return score


def without_containers(wrong: str) -> str:
    return "; ".join(part for part in wrong.split("; ") if not part.startswith("container left"))


def theirs(right: Right, *specs: Spec) -> Theirs:
    def grade(place: Path) -> Peer:
        with before(*(Rule(*spec) for spec in specs)) as proxy:
            return harness.grade(place, row(), gold(), right, broken=True, env=proxy.env)

    return grade


def case(name: str, right: Right, *specs: Spec, peer: Sequence[Spec] | None = None) -> Case:
    """One fault of the API.

    Args:
        peer: the rules for the official harness, where its calls are other ones.
    """
    return Case(
        name=name,
        group=GROUP,
        right=right,
        ours=ours(*specs),
        peers={"swebench": theirs(right, *(specs if peer is None else peer))},
    )


def once(status: int, pattern: str, skip: int = 0) -> Spec:
    return (pattern, refuse(status), 1, skip)


def always(status: int, pattern: str, skip: int = 0) -> Spec:
    return (pattern, refuse(status), ALWAYS, skip)


def at_every_try(act: Act, pattern: str) -> Spec:
    """At each try of the attempt, and no more when its control is scored."""
    return (pattern, act, TRIES, 0)


def removal_refused(place: Path) -> Seen:
    """A container that cannot be removed is told, and goes with the next run."""
    with before(Rule(REMOVE, refuse(500), ALWAYS)) as proxy:
        sets = [part for setting in (*scene.LIMITS, *SETTINGS) for part in ("--set", setting)]
        rows, preds = scene.write_inputs(place, [(row(), gold())])
        arguments = ("score", str(preds), "--dataset", str(rows), "--run", "fault", *sets)
        run = place / "logs" / "fault"
        done = scene.passone(place, "fault", *arguments, env=proxy.env)
    seen = scene.read(run, done, str(row()["instance_id"]))
    wrong = [without_containers(seen.wrong)]
    if not scene.containers_of(run):
        raise SceneError("the removal was not refused")
    if "could not be removed" not in done.err:
        wrong.append("nobody was told of the containers that are left")
    scene.passone(place, "fault", *arguments)
    wrong += [f"container left by the run before: {name}" for name in scene.containers_of(run)]
    scene.remove_containers(run)
    return replace(seen, wrong="; ".join(filter(None, wrong)))


def vanishing(deed: Callable[[], None]) -> Spec:
    return (CREATE, first(deed), 1, 0)


def image_vanishes(run: Callable[[Path, str, Spec], T]) -> Callable[[Path], T]:
    """Somebody removes the image after it was looked for, and no registry has it."""

    def bring_about(place: Path) -> T:
        with serving() as registry:
            registry.refusals += [404] * 100
            # Of its own content, so that its id goes with its name.
            made = variant("vanishing", f"echo {registry.port} > /etc/fault")
            name = f"{registry.prefix}/passone/fault.vanishing"

            def remove() -> None:
                with daemon() as client:
                    for reference in (f"{name}:1", made):
                        client.images.remove(reference, force=True)

            with daemon() as client:
                client.images.get(made).tag(name, "1")
            try:
                return run(place, f"{name}:1", vanishing(remove))
            finally:
                with contextlib.suppress(ImageNotFound):
                    remove()

    return bring_about


def ours_without_image(place: Path, reference: str, spec: Spec) -> Seen:
    with before(Rule(*spec)) as proxy:
        return scene.score(place, row(image=reference), gold(), "execution.tries=1", env=proxy.env)


def theirs_without_image(place: Path, reference: str, spec: Spec) -> Peer:
    with before(Rule(*spec)) as proxy:
        return harness.grade(place, row(image=reference), gold(), infra("image"), env=proxy.env)


SANDBOX = infra("sandbox")
CASES: tuple[Case, ...] = (
    case("409 once at creating the container", RESOLVED, once(409, CREATE)),
    case("500 once at creating a command", RESOLVED, once(500, EXEC_CREATE)),
    case("409 once at starting a command", RESOLVED, once(409, EXEC_START)),
    case("500 once at asking for a command's exit", RESOLVED, once(500, EXEC_INSPECT)),
    case("500 once at removing the container", RESOLVED, once(500, REMOVE)),
    case("500 for ever at creating the container", SANDBOX, always(500, CREATE)),
    case("500 for ever at looking at containers", SANDBOX, always(500, INSPECT)),
    case(
        "409 at starting a command on every try, then fine for gold",
        SANDBOX,
        at_every_try(refuse(409), EXEC_START),
    ),
    case("the answer to creating the container is lost", RESOLVED, (CREATE, lose, 1, 0)),
    case(
        "connection cut while the tests run, once",
        RESOLVED,
        (EXEC_START, cut(TEST), 1, 1),
        peer=[(EXEC_START, cut(TEST), ALWAYS, 0)],
    ),
    case(
        "connection cut while the tests run, on every try, then fine for gold",
        SANDBOX,
        # Each try starts two commands; only the second one's stream has these words.
        (EXEC_START, cut(TEST), 2 * TRIES, 0),
        peer=[(EXEC_START, cut(TEST), ALWAYS, 0)],
    ),
    case(
        "the end of the tests' output is lost, once",
        RESOLVED,
        (EXEC_START, swallow(LAST), 1, 1),
        peer=[(EXEC_START, swallow(LAST), ALWAYS, 0)],
    ),
    Case(
        # Not measured on the official harness: it waits for minutes.
        name="the daemon hangs at asking for a command's exit, once",
        group=GROUP,
        right=RESOLVED,
        ours=ours((EXEC_INSPECT, hang, 1, 1)),
    ),
    Case(
        name="500 for ever at removing containers",
        group=GROUP,
        right=RESOLVED,
        ours=removal_refused,
        peers={"swebench": theirs(RESOLVED, always(500, REMOVE))},
    ),
    Case(
        name="the image vanishes between looking and starting",
        group=GROUP,
        right=infra("image"),
        ours=image_vanishes(ours_without_image),
        peers={"swebench": image_vanishes(theirs_without_image)},
    ),
)
