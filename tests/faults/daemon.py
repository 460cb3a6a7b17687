"""Faults of the Docker daemon: not there, not for us, gone or started again while it is needed."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from pipeline.docker.embedded import BASE
from tests.faults import api, driving, harness, scene
from tests.faults.case import REFUSED, RESOLVED, Case, Peer, Right, Seen, infra
from tests.faults.material import ID, Row, SceneError, before_tests, embedded, gold, plain, row
from tests.faults.private import PrivateDaemon, private
from tests.faults.programs import Done, Hunt, Strike, start
from tests.faults.proxy import Rule, before
from tests.faults.talking import FIX, SUBMIT, lines
from tests.loopback import runs
from tests.relay import CREATE, first

GROUP = "daemon"
SLOWLY = 3
"""Seconds that a command takes, for something to happen meanwhile."""
PATIENT = ("execution.tries=3", "execution.backoff_seconds=2", "sandbox.network=off")
"""Long enough for a daemon to come back."""
BRIEF = ("execution.tries=1", "sandbox.network=off")
FROZEN = (*BRIEF, "execution.tries=2", f"sandbox.scoring_seconds={2 * SLOWLY}")
FREEZES = 3 * SLOWLY
NOBODY = 65534
SANDBOX = infra("sandbox")
WAITS = lines(FIX, runs(f"sleep {SLOWLY}", "I wait."), SUBMIT)
Deed = Callable[[PrivateDaemon], None]
"""What happens to the daemon."""


def noted(seen: Seen, *wrong: str) -> Seen:
    return replace(seen, wrong="; ".join(filter(None, [seen.wrong, *wrong])))


def nowhere() -> Row:
    """A row whose image is on no daemon: none is asked."""
    return row(image="passone/fault.nowhere:1")


def no_socket(place: Path) -> str:
    return f"unix://{place / 'none.sock'}"


def deaf_socket(place: Path) -> str:
    """A file that a daemon left behind when it was killed."""
    path = place / "deaf.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
    return f"unix://{path}"


def absent(name: str, url: Callable[[Path], str]) -> Case:
    """No daemon at the start: refused at once, nothing begun, the place named."""

    def ours(place: Path) -> Seen:
        address = url(place)
        seen = scene.score(place, nowhere(), gold(), env={"DOCKER_HOST": address})
        named = address.rpartition("/")[2] in seen.said
        begun = (place / "logs" / "fault").exists()
        return noted(
            seen,
            "" if named else "the place that was asked is not named",
            "a run directory was begun" if begun else "",
        )

    def theirs(place: Path) -> Peer:
        return harness.grade(place, nowhere(), gold(), REFUSED, env={"DOCKER_HOST": url(place)})

    return Case(name=name, group=GROUP, right=REFUSED, ours=ours, peers={"swebench": theirs})


def forbidden(place: Path) -> Seen:
    """A socket that belongs to somebody else, for a root without its power over files."""
    rows, preds = scene.write_inputs(place, [(nowhere(), gold())])
    weak = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all", "--"]
    argv = [*scene.PASSONE, "score", str(preds), "--dataset", str(rows), "--run", "fault"]
    with before() as proxy:
        os.chown(proxy.place / "sock", NOBODY, NOBODY)
        (proxy.place / "sock").chmod(0o600)
        done = start([*weak, *argv, "--logs", str(place / "logs")], place, env=proxy.env)
    if proxy.asked:
        raise SceneError("the socket was not forbidden")
    seen = scene.read(place / "logs" / "fault", done, ID)
    told = "permission denied" in done.err.lower()
    return noted(seen, "" if told else "nobody was told that it is a matter of rights")


def slow_row() -> Row:
    return before_tests(row(), f"sleep {SLOWLY}")


def score_on(
    own: PrivateDaemon,
    place: Path,
    *settings: str,
    of: Row | None = None,
    strike: Strike | None = None,
    env: dict[str, str] | None = None,
) -> Done:
    """`passone score` of gold on a daemon of our own."""
    rows, preds = scene.write_inputs(place, [(of or slow_row(), gold())])
    sets = [part for setting in (*scene.LIMITS, *settings) for part in ("--set", setting)]
    argv = [*scene.PASSONE, "score", str(preds), "--dataset", str(rows), "--run", "fault", *sets]
    with own.client() as client:
        hunt = Hunt(client, lambda: scene.run_label(place / "logs" / "fault"))
        return start(
            [*argv, "--logs", str(place / "logs")],
            place,
            env=env or own.env,
            strike=(lambda: strike(hunt)) if strike else None,
            over=hunt.over,
        )


def left_on(own: PrivateDaemon) -> str:
    """What is left on a daemon that lives again."""
    with own.client() as client:
        left = client.containers.list(all=True, filters={"label": "passone.run"})
    return "; ".join(f"container left: {found.name}" for found in left)


def come_to(
    own: PrivateDaemon, place: Path, done: Done, *, comes_back: bool, of: Row | None = None
) -> Seen:
    """What a scoring came to; where the daemon stayed away, it comes back for a second run."""
    run = place / "logs" / "fault"
    seen = scene.read(run, done, ID)
    if comes_back:
        return noted(seen, left_on(own))
    own.up()
    again = score_on(own, place, *BRIEF, of=of)
    return noted(seen, finished(scene.read(run, again, ID), own))


def finished(again: Seen, own: PrivateDaemon) -> str:
    """What is wrong with the next run, on a daemon that works again."""
    if again.answer != RESOLVED:
        return f"the next run comes to {again.answer}: {again.said}"
    return "; ".join(filter(None, [again.wrong, left_on(own)]))


def while_tests_run(
    name: str, right: Right, deed: Deed, *, comes_back: bool, settings: Sequence[str] = ()
) -> Case:
    """Something happens to the daemon as gold's tests run."""

    def striking(own: PrivateDaemon) -> Strike:
        def strike(hunt: Hunt) -> None:
            hunt.testing()
            deed(own)

        return strike

    def ours(place: Path) -> Seen:
        with private(plain()) as own:
            patience = settings or (PATIENT if comes_back else BRIEF)
            done = score_on(own, place, *patience, strike=striking(own))
            return come_to(own, place, done, comes_back=comes_back)

    def theirs(place: Path) -> Peer:
        rows, preds = scene.write_inputs(place, [(slow_row(), gold())])
        run_id = f"f{secrets.token_hex(4)}"
        module = (sys.executable, "-m", "swebench.harness.run_evaluation")
        argv = [*module, "-d", str(rows), "-s", "test", "-p", str(preds), "-id", run_id]
        with private(plain()) as own, own.client() as client:
            hunt = Hunt(client, lambda: {"name": run_id})
            strike = striking(own)
            done = start(argv, place, env=own.env, strike=lambda: strike(hunt), over=hunt.over)
            if not own.answers():
                own.up()
            left = bool(client.containers.list(all=True, filters={"name": run_id}))
        report = harness.read(place, run_id, ID, done, left=left)
        return Peer(words=report.words, right=harness.judge(report, right, broken=True))

    return Case(
        name=name, group=GROUP, right=right, ours=ours, peers={"swebench": theirs}, needs="root"
    )


def before_scoring(name: str, right: Right, deed: Deed, *, comes_back: bool) -> Case:
    """Something happens to the daemon when the rollouts are over, and no container is made yet."""

    def ours(place: Path) -> Seen:
        with private(plain()) as own:
            rule = Rule(CREATE, first(lambda: deed(own)))
            with before(rule, upstream=str(own.socket)) as proxy:
                patience = PATIENT if comes_back else BRIEF
                done = score_on(own, place, *patience, of=row(), env=proxy.env)
            if rule.times:
                raise SceneError("no container was asked for")
            return come_to(own, place, done, comes_back=comes_back, of=row())

    return Case(name=name, group=GROUP, right=right, ours=ours, needs="root")


def under_an_agent(name: str, right: Right, deed: Deed, *, comes_back: bool) -> Case:
    """Something happens to the daemon while a command of mini-swe-agent's runs."""

    def ours(place: Path) -> Seen:
        with private(plain()) as own, own.client() as client:
            hunt = Hunt(client, lambda: {"label": "passone.run"})

            def strike(_: Hunt) -> None:
                hunt.find(f"sleep {SLOWLY}")
                deed(own)

            patience = PATIENT if comes_back else BRIEF
            ran = driving.drive(place, WAITS, *patience, strike=strike, env=own.env)
            if comes_back:
                return noted(ran.seen(), left_on(own))
            seen = ran.seen()
            own.up()
            again = driving.drive(place, WAITS, *BRIEF, env=own.env).seen()
            return noted(seen, finished(again, own))

    return Case(name=name, group=GROUP, right=right, ours=ours, needs="root")


def made_again(place: Path) -> Seen:
    """The image of an embedded instance is removed right before its container is made."""
    image = embedded()[ID].image

    def remove() -> None:
        with own.client() as client:
            client.images.remove(image, force=True)

    with private(f"{BASE}:1") as own:
        # The first container that is made is the image's own making.
        rule = Rule(CREATE, first(remove), skip=1)
        with before(rule, upstream=str(own.socket)) as proxy:
            done = score_on(own, place, *PATIENT, of=row(image=image), env=proxy.env)
        if rule.times:
            raise SceneError("the image was not removed")
        return noted(scene.read(place / "logs" / "fault", done, ID), left_on(own))


def die(own: PrivateDaemon) -> None:
    """Killed: its containers live on, and nobody can reach them."""
    own.down(signal.SIGKILL)


def stop(own: PrivateDaemon) -> None:
    """Told to stop: it ends its containers first."""
    own.down(signal.SIGTERM)


def die_and_return(own: PrivateDaemon) -> None:
    own.restart(signal.SIGKILL)


CASES: tuple[Case, ...] = (
    absent("no socket where the daemon should be", no_socket),
    absent("a socket on which nobody listens", deaf_socket),
    while_tests_run("killed while tests run, stays down", SANDBOX, die, comes_back=False),
    while_tests_run(
        "killed while tests run, comes back", RESOLVED, die_and_return, comes_back=True
    ),
    while_tests_run("restarted while tests run", RESOLVED, PrivateDaemon.restart, comes_back=True),
    while_tests_run(
        "frozen until the tests' time is over",
        RESOLVED,
        lambda own: own.freeze(FREEZES),
        comes_back=True,
        settings=FROZEN,
    ),
    before_scoring(
        "restarted between rollout and scoring", RESOLVED, PrivateDaemon.restart, comes_back=True
    ),
    under_an_agent("killed under an agent, comes back", RESOLVED, die_and_return, comes_back=True),
    under_an_agent("killed under an agent, stays down", SANDBOX, die, comes_back=False),
    *api.CASES,
)
