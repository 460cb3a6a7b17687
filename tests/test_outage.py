"""An endpoint that breaks, and what a run makes of it: a pause, or an end; never a zero."""

from __future__ import annotations

import itertools
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.gateway.tapes import read_tape
from tests import test_replays
from tests.command import Passone
from tests.loopback import Answer, Received, completes, in_turn, refuses, serve
from tests.test_cli import IDS
from tests.test_replays import Asked, answering, config, ended, report, rows_of, started, until
from tests.tries import KEY

evaluate = test_replays.evaluate
replay = test_replays.replay
A, B, C, D, E = IDS[:5]
AGENTS = "execution.agent_workers"


def talk(asked: Asked) -> Answer:
    return completes("empty" if asked.step == 2 else "look")


def outcomes() -> list[str]:
    return [row["outcome"] for row in report("r")["attempts"]]


def wire(requests: list[Received]) -> Counter[str]:
    """How many requests came for every instance."""
    found: Counter[str] = Counter()
    for request in requests:
        said = str(request.body["messages"][0]["content"])
        found[next(id_ for id_ in IDS if f"/try-{id_}-" in said)] += 1
    return found


def test_a_run_waits_for_an_endpoint_that_is_down_for_a_while_and_loses_nothing(
    evaluate: Passone, replay: test_replays.Replaying
) -> None:
    seen = itertools.count()

    def told(asked: Asked) -> Answer:
        # The fifth failure in a row is the one that makes it down.
        return refuses(503, "busy") if 4 <= next(seen) < 9 else talk(asked)

    ids = (A, B, C)
    with serve(answering(told)) as server:
        config(*ids, model__base_url=server.base_url, gateway={"backoff_seconds": 0.1})
        began = time.monotonic()
        said = evaluate()
    assert time.monotonic() - began < 30
    assert said.status == 0, said.err
    assert outcomes() == ["no_submission"] * 3
    assert set(rows_of("r").values()) <= {"submitted", "resolved"}
    assert report("r")["summary"]["tries"] == 3
    assert "note: the endpoint is down (http" in said.err
    assert "answered 503" in said.err
    assert "the run pauses and goes on when it answers, for 900 s at most" in said.err
    assert "note: the endpoint answers again after" in said.err
    failed = sum(int(row["failed_requests"]) for row in report("r")["attempts"])
    assert failed == len(server.requests) - 9 >= 5
    assert "(+ " in said.out
    # And the outage is played back in no time.
    began = time.monotonic()
    assert replay().status == 0
    assert time.monotonic() - began < 5
    assert report("s") == report("r")


def test_an_endpoint_that_stays_down_stops_the_run_in_time_and_the_rest_is_pending(
    evaluate: Passone,
) -> None:
    deadline = 3
    with serve(answering(lambda asked: refuses(503, "busy"))) as server:
        config(
            *(A, B, C, D, E),
            model__base_url=server.base_url,
            gateway={"backoff_seconds": 0.05, "deadline_seconds": deadline},
        )
        began = time.monotonic()
        said = evaluate()
        seconds = time.monotonic() - began
    assert said.status == 3
    assert seconds < deadline + 5
    assert max(wire(server.requests).values()) <= 6
    assert outcomes().count("pending") >= 3
    assert set(outcomes()) <= {"pending", "infra"}
    assert set(report("r")["summary"]["causes"]) <= {"endpoint"}
    assert report("r")["summary"]["pass_at_1"]["valid"] is None
    assert "stopping; nothing is lost, run the same command again" in said.err
    with serve(answering(talk)) as server:
        config(*(A, B, C, D, E), model__base_url=server.base_url)
        assert evaluate().status == 0
    assert outcomes() == ["no_submission"] * 5


def test_a_single_attempt_makes_six_requests_over_all_its_tries_and_is_no_zero(
    evaluate: Passone,
) -> None:
    with serve(answering(lambda asked: refuses(503, "busy"))) as server:
        config(
            A,
            model__base_url=server.base_url,
            execution={"backoff_seconds": 0.01, "tries": 3},
        )
        assert evaluate().status == 3
    assert len(server.requests) == 6
    assert report("r")["summary"]["causes"] == {"endpoint": 1}


def test_half_a_patch_of_an_agent_that_did_not_wait_for_its_answer_is_nobodys(
    evaluate: Passone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own client gives up while the gateway still asks again."""
    monkeypatch.setenv("HANGS_UP", "0.5")

    def told(asked: Asked) -> Answer:
        return completes("look") if asked.step == 0 else refuses(503, "busy")

    with serve(answering(told)) as server:
        config(
            A,
            model__base_url=server.base_url,
            gateway={"backoff_seconds": 1},
            execution={"tries": 1},
        )
        assert evaluate().status == 3
    assert outcomes() == ["infra"]
    assert report("r")["summary"]["causes"] == {"endpoint": 1}


def test_a_key_that_is_revoked_stops_the_run_after_three_attempts(evaluate: Passone) -> None:
    seen = itertools.count()

    def told(asked: Asked) -> Answer:
        return talk(asked) if next(seen) < 4 else refuses(401, "Incorrect API key")

    with serve(answering(told)) as server:
        config(A, B, C, D, E, model__base_url=server.base_url, attempts=2)
        said = evaluate("--set", f"{AGENTS}=1")
        assert said.status == 3
        # One had been done, three were refused.
        assert outcomes().count("no_submission") == 1
        assert report("r")["summary"]["causes"] == {"credentials": 3}
        assert outcomes().count("pending") == 6
        assert len(server.requests) == 4 + 3
        assert "3 attempts in a row were refused" in said.err
        assert "is the key right, and meant for this endpoint?" in said.err
        assert KEY not in said.err + said.out
    with serve(answering(talk)) as server:
        config(A, B, C, D, E, model__base_url=server.base_url, attempts=2)
        assert evaluate().status == 0
    assert outcomes() == ["no_submission"] * 10


def test_what_a_server_asks_to_wait_is_waited_and_is_one_try(evaluate: Passone) -> None:
    def told(asked: Asked) -> Answer:
        full = asked.step == 1 and asked.again == 0
        return refuses(429, "slow down", Retry_After="1") if full else talk(asked)

    with serve(answering(told)) as server:
        config(A, B, model__base_url=server.base_url)
        assert evaluate().status == 0
    assert report("r")["summary"]["tries"] == 2
    for id_ in (A, B):
        mine = [r for r in server.requests if f"/try-{id_}-" in str(r.body["messages"][0])]
        assert len(mine) == 4
        assert mine[2].at - mine[1].at >= 1


def test_who_is_to_wait_for_longer_than_is_allowed_does_not_wait_at_all(
    evaluate: Passone,
) -> None:
    with serve(in_turn(refuses(429, "come back tomorrow", Retry_After="86400"))) as server:
        config(A, model__base_url=server.base_url)
        began = time.monotonic()
        assert evaluate().status == 3
    assert time.monotonic() - began < 10
    assert len(server.requests) == 1
    assert report("r")["summary"]["causes"] == {"endpoint": 1}


@pytest.mark.parametrize("allowed", [1, 2])
def test_no_more_are_in_flight_than_is_allowed_over_all_attempts(
    allowed: int, evaluate: Passone
) -> None:
    lock = threading.Lock()
    now = most = 0

    def told(asked: Asked) -> Answer:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        time.sleep(0.1)
        with lock:
            now -= 1
        return completes("empty" if asked.step == 1 else "look")

    with serve(answering(told)) as server:
        config(A, model__base_url=server.base_url, attempts=4)
        said = evaluate("--set", f"gateway.in_flight={allowed}", "--set", f"{AGENTS}=4")
    assert said.status == 0
    assert most == allowed
    assert len(server.requests) == 8


def plain_and_whole(run: Path) -> list[Path]:
    """The tapes of what was cut off; none is broken, and nothing is left beside them."""
    assert not (run / ".partial").exists()
    tapes = sorted(run.glob("cut-off/*"))
    assert all(path.name.endswith(".jsonl.zst") for path in tapes)
    assert all(not read_tape(path).broken for path in tapes)
    return tapes


def test_requests_a_minute_are_kept_and_a_run_that_waits_for_them_ends_on_sigterm(
    evaluate: Passone,
) -> None:
    with serve(answering(lambda asked: completes("look"))) as server:
        config(A, B, model__base_url=server.base_url)
        process = started("--set", "gateway.requests_a_minute=3")
        until(lambda: len(server.requests) == 3)
        time.sleep(1)
        assert len(server.requests) == 3
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        said = ended(process)
    assert said.status == 130
    assert time.monotonic() - began < 10
    assert "stopping now; run the same command again to continue" in said.err
    assert "partial (2 pending)" in said.out
    tapes = plain_and_whole(Path("logs/r"))
    assert sum(len(read_tape(path).exchanges) for path in tapes) == 3
    with serve(answering(talk)) as server:
        config(A, B, model__base_url=server.base_url)
        assert evaluate().status == 0
    assert outcomes() == ["no_submission"] * 2


def hanging(asked: Asked) -> Answer:
    return completes("look") if asked.step == 0 else Answer(seconds=30)


def busy(asked: Asked) -> Answer:
    return completes("look") if asked.step == 0 else refuses(503, "busy")


def working(asked: Asked) -> Answer:
    return completes("look" if asked.step == 0 else "sleep 30")


@pytest.mark.parametrize(
    ("told", "signum"),
    [(hanging, signal.SIGTERM), (busy, signal.SIGHUP), (working, signal.SIGTERM)],
)
def test_a_signal_ends_a_run_in_whatever_state_and_its_tapes_are_whole(
    told: Callable[[Asked], Answer], signum: signal.Signals, passone: Passone
) -> None:
    with serve(answering(told)) as server:
        config(A, B, model__base_url=server.base_url, gateway={"backoff_seconds": 5})
        process = started()
        until(lambda: len(server.requests) >= 4)
        time.sleep(0.3)
        began = time.monotonic()
        process.send_signal(signum)
        said = ended(process)
    assert said.status == 130
    assert time.monotonic() - began < 10
    assert rows_of("r") == {}
    tapes = plain_and_whole(Path("logs/r"))
    assert len(tapes) == 2
    for path in tapes:
        assert read_tape(path).exchanges[0].answer["choices"][0]["message"]["content"] == "look"


def test_a_run_of_which_nothing_is_reachable_is_no_zero(evaluate: Passone) -> None:
    gateway = {"backoff_seconds": 0.01, "deadline_seconds": 1}
    config(A, B, model__base_url="http://127.0.0.1:9/v1", gateway=gateway)
    assert evaluate().status == 3
    assert set(outcomes()) <= {"infra", "pending"}
    assert report("r")["summary"]["pass_at_1"]["valid"] is None


def test_no_zero_is_blamed_on_the_model_before_the_control_of_a_stopped_run(
    evaluate: Passone,
) -> None:
    """^C between the last answer and the gold control: the next invocation does the control."""
    with serve(answering(lambda asked: completes("sleep 2" if asked.step == 0 else "empty"))) as s:
        config(A, model__base_url=s.base_url)
        process = started()
        until(lambda: len(s.requests) == 1)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        stopped = ended(process)
        assert stopped.status == 130
        assert report("r")["summary"]["controls"]["gold"] == {"passed": 0, "of": 0}
        assert evaluate().status == 0
    assert report("r")["summary"]["controls"]["gold"] == {"passed": 1, "of": 1}
