"""One try's lane: its patience, its purse, what leaves on the wire, and its end."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from pipeline.domain import Cause, Fault, Limits, Sampling, Stop
from pipeline.gateway import (
    Gateway,
    Lane,
    Patience,
    Purse,
    Upstream,
    find_tape,
    read_tape,
)
from pipeline.gateway.replies import CHAT
from pipeline.recipe import PriceRecipe
from tests.loopback import (
    Answer,
    Answering,
    Server,
    completes,
    event,
    in_turn,
    piece,
    refuses,
    serve,
    streams,
)
from tests.test_streaming import CLIENT, until
from tests.tries import KEY, recorder, terms

ASKED: dict[str, Any] = {
    "model": "m",
    "temperature": 0,
    "top_p": 1,
    "messages": [{"role": "user", "content": "How?"}],
}
USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
HALF = event(piece({"role": "assistant", "content": "half"}))
SECRET = "tok-9f8e7d6c5b"


@pytest.fixture(scope="module")
def running() -> Iterator[Gateway]:
    with Gateway() as gateway:
        yield gateway


@pytest.fixture
def gateway(running: Gateway) -> Iterator[Gateway]:
    running.terms = terms()
    yield running
    until(lambda: running.terms.pressure.in_flight == 0, "somebody is still in flight")


@contextlib.contextmanager
def talking(
    gateway: Gateway,
    answering: Answering,
    place: Path,
    upstream: Mapping[str, Any] | None = None,
    **options: Any,
) -> Iterator[tuple[Lane, Server]]:
    place.mkdir(parents=True, exist_ok=True)
    with serve(answering) as server:
        source = Upstream(server.base_url, KEY, **(upstream or {}))
        with gateway.lane(source, recorder(place / "tape.jsonl"), **options) as lane:
            yield lane, server


def ask(lane: Lane, **changes: Any) -> httpx.Response:
    return CLIENT.post(f"{lane.base_url}/{CHAT}", json=ASKED | changes)


def kind(lane: Lane) -> object:
    return lane.ending.cause if isinstance(lane.ending, Fault) else lane.ending


def in_background(work: Callable[[], object]) -> threading.Thread:
    def quietly() -> None:
        with contextlib.suppress(httpx.HTTPError):
            work()

    thread = threading.Thread(target=quietly, daemon=True)
    thread.start()
    return thread


def test_all_tries_of_an_attempt_share_six_requests(gateway: Gateway, tmp_path: Path) -> None:
    patience = Patience(6, 900.0)
    endings = []
    with serve(in_turn(refuses(503))) as server:
        for number in (1, 2, 3):
            upstream, tape = Upstream(server.base_url, KEY), recorder(tmp_path / f"{number}.jsonl")
            with gateway.lane(upstream, tape, patience=patience, requests=4) as lane:
                ask(lane)
                endings.append(lane.ending)
    assert [isinstance(one, Fault) and one.final for one in endings] == [False, True, True]
    assert len(server.requests) <= 6


def test_an_agent_that_asks_again_itself_does_not_multiply_them(
    gateway: Gateway, tmp_path: Path
) -> None:
    with talking(gateway, in_turn(refuses(503)), tmp_path) as (lane, server):
        for _ in range(5):
            assert ask(lane).status_code >= 400
    assert len(server.requests) <= 6


def test_an_answer_gives_all_the_patience_back(gateway: Gateway, tmp_path: Path) -> None:
    answers = [*[refuses(503)] * 5, completes(), *[refuses(503)] * 5, completes()]
    with talking(gateway, in_turn(*answers), tmp_path) as (lane, server):
        assert [ask(lane).status_code for _ in range(2)] == [200, 200]
    assert len(server.requests) == 12


HANGS = Answer(content=completes().content, seconds=4.0)
DRIPS = streams(*(b" ", 0.05) * 80)


@pytest.mark.parametrize("answer", [HANGS, DRIPS, refuses(503)], ids=["hang", "drip", "503"])
def test_an_attempt_waits_no_longer_than_its_deadline(
    answer: Answer, gateway: Gateway, tmp_path: Path
) -> None:
    gateway.terms = terms(deadline_seconds=0.5, requests=1000, backoff_seconds=0.1)
    began = time.monotonic()
    with talking(gateway, in_turn(answer), tmp_path) as (lane, _):
        ask(lane)
    assert time.monotonic() - began < 1.5
    assert kind(lane) is Cause.ENDPOINT
    assert isinstance(lane.ending, Fault)
    assert lane.ending.final


def test_a_hang_after_a_fault_ends_with_the_deadline(gateway: Gateway, tmp_path: Path) -> None:
    gateway.terms = terms(deadline_seconds=0.5)
    with talking(gateway, in_turn(refuses(503), HANGS), tmp_path) as (lane, server):
        ask(lane)
    assert len(server.requests) == 2
    assert isinstance(lane.ending, Fault)
    assert "gateway.deadline_seconds" in lane.ending.detail


@pytest.mark.parametrize("manner", ["reset", "cut"])
def test_only_a_deadline_is_called_one(manner: Any, gateway: Gateway, tmp_path: Path) -> None:
    broken = Answer(content=completes().content, manner=manner)
    with talking(gateway, in_turn(broken), tmp_path) as (lane, _):
        ask(lane)
    assert isinstance(lane.ending, Fault)
    assert "deadline" not in lane.ending.detail


def test_a_reset_in_the_middle_of_a_body_says_what_happened(
    gateway: Gateway, tmp_path: Path
) -> None:
    """The error of a reset has no words of its own."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def reset() -> None:
            while True:
                try:
                    line, _ = listener.accept()
                except OSError:
                    return
                line.recv(65536)
                line.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{")
                time.sleep(0.02)
                line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                line.close()

        thread = in_background(reset)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        with gateway.lane(Upstream(url, KEY), recorder(tmp_path / "tape.jsonl")) as lane:
            ask(lane)
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(5)
    assert isinstance(lane.ending, Fault)
    assert "deadline" not in lane.ending.detail


def test_a_run_without_budget_answers_nobody_and_lets_go_with_the_try(
    gateway: Gateway, tmp_path: Path
) -> None:
    halts: list[str] = []
    gateway.terms = replace(
        terms(), purse=Purse(tokens=100), halt=lambda *words: halts.append(words[0])
    )
    with talking(gateway, in_turn(completes(usage=USAGE)), tmp_path) as (lane, server):
        assert ask(lane).status_code == 200
        thread = in_background(lambda: ask(lane))
        until(lambda: halts, "nobody halts the run")
        assert halts == ["run budget: limit of 100 tokens reached (120 used)"]
        time.sleep(0.2)
        assert thread.is_alive()
    thread.join(3)
    assert not thread.is_alive()
    assert len(server.requests) == 1
    # Whatever its agent makes of that is no answer of the model's.
    assert isinstance(lane.ending, Fault)


def test_who_stands_in_line_when_the_budget_is_spent_is_not_sent_either(
    gateway: Gateway, tmp_path: Path
) -> None:
    halts: list[str] = []
    gateway.terms = replace(
        terms(in_flight=1),
        purse=Purse(tokens=100),
        halt=lambda *words: halts.append(words[0]),
    )
    answer = Answer(content=completes(usage=USAGE).content, seconds=0.2)
    with talking(gateway, in_turn(answer), tmp_path) as (lane, server):
        threads = [in_background(lambda: ask(lane)) for _ in range(4)]
        time.sleep(1.0)
        assert len(server.requests) == 1
        assert halts
    for thread in threads:
        thread.join(5)


def test_a_limit_of_tokens_ends_an_attempt(gateway: Gateway, tmp_path: Path) -> None:
    limits = Limits(tokens=200, cost_usd=0)
    answering = in_turn(completes(usage=USAGE))
    with talking(gateway, answering, tmp_path, limits=limits) as (lane, server):
        assert [ask(lane).status_code for _ in range(4)] == [200, 200, 400, 400]
    assert len(server.requests) == 2
    assert lane.ending is Stop.COST_LIMIT
    assert lane.usage.tokens == 240


@pytest.mark.parametrize(
    ("price", "usage", "cost"),
    [
        (PriceRecipe(input=10_000, output=50_000), USAGE, 2.0),
        (PriceRecipe(input=10_000, output=50_000), USAGE | {"cost": 0.5}, 0.5),
        (PriceRecipe(input=10_000, output=50_000), {}, None),
        (None, USAGE, None),
        (None, USAGE | {"cost": 0.5}, 0.5),
    ],
)
def test_what_a_request_cost_is_on_the_lane_and_on_the_tape(
    price: PriceRecipe | None,
    usage: dict[str, Any],
    cost: float | None,
    gateway: Gateway,
    tmp_path: Path,
) -> None:
    gateway.terms = replace(terms(), price=price)
    with talking(gateway, in_turn(completes(usage=usage)), tmp_path) as (lane, _):
        ask(lane)
    assert lane.usage.cost_usd == cost
    path = find_tape(tmp_path)
    assert path is not None
    assert read_tape(path).usage.cost_usd == cost


@pytest.mark.parametrize(
    ("on_wire", "status", "sent", "as_planned"),
    [("record", 200, 0.7, 0), ("correct", 200, 0, 1), ("refuse", 400, None, 0)],
)
def test_a_warm_request_is_recorded_corrected_or_refused(
    on_wire: Any, status: int, sent: float | None, as_planned: int, gateway: Gateway, tmp_path: Path
) -> None:
    sampling = Sampling(on_wire=on_wire)
    with talking(gateway, in_turn(completes()), tmp_path, sampling=sampling) as (lane, server):
        answer = ask(lane, temperature=0.7)
    assert answer.status_code == status
    assert [one.body["temperature"] for one in server.requests] == ([] if sent is None else [sent])
    assert lane.usage.as_planned == as_planned
    if sent is None:
        assert kind(lane) is Cause.AGENT_CRASH
        assert "temperature 0.7 instead of 0" in answer.text


def test_the_plans_seed_and_length_leave_on_the_wire(gateway: Gateway, tmp_path: Path) -> None:
    sampling = Sampling(seed=7, max_tokens=99)
    with talking(gateway, in_turn(completes()), tmp_path, sampling=sampling) as (lane, server):
        ask(lane)
    assert server.requests[0].body == ASKED | {"seed": 7, "max_tokens": 99}
    assert lane.usage.as_planned == 1


HEADERS = {"x-tenant": "team-seven", "x-api-key": SECRET, "api-authorization": f"Token {SECRET}2"}


@pytest.mark.parametrize("manner", ["plain", "error", "stream", "split"])
def test_headers_are_sent_and_secrets_in_them_never_come_back(
    manner: str, gateway: Gateway, tmp_path: Path
) -> None:
    said = f"you sent {SECRET} and {SECRET}2 from team-seven"
    wire = event(piece({"content": said}, "stop"))
    answer = {
        "plain": completes(said),
        "error": refuses(401, said),
        "stream": streams(wire, event("[DONE]")),
        "split": streams(*(wire[at : at + 7] for at in range(0, len(wire), 7))),
    }[manner]
    with talking(gateway, in_turn(answer), tmp_path, {"headers": HEADERS}) as (lane, server):
        text = ask(lane, stream=manner in ("stream", "split")).text
    assert HEADERS.items() <= server.requests[0].headers.items()
    assert "team-seven" in text
    path = find_tape(tmp_path)
    assert path is not None
    for place in (text, str(read_tape(path)), repr(lane), str(lane.ending)):
        assert SECRET not in place
    assert "redacted by passone]2" not in text


@pytest.mark.parametrize("value", [f"{SECRET}\n", f" {SECRET}", f"Bearer {SECRET}\r\n", SECRET * 2])
def test_a_header_that_cannot_be_sent_is_told_without_its_value(
    value: str, gateway: Gateway, tmp_path: Path
) -> None:
    """A value from a file or a YAML block ends in a new line; the error of the client names it."""
    headers = {"x-api-key": value}
    with talking(gateway, in_turn(completes()), tmp_path, {"headers": headers}) as (lane, _):
        text = ask(lane).text
    path = find_tape(tmp_path)
    tape = str(read_tape(path)) if path else ""
    assert SECRET not in text + tape + str(lane.ending)


def test_a_request_of_fifty_megabytes_is_a_full_context(gateway: Gateway, tmp_path: Path) -> None:
    with talking(gateway, in_turn(completes()), tmp_path) as (lane, server):
        large = ask(lane, messages=[{"role": "user", "content": "x" * 50_000_000}])
        assert large.status_code == 413
        assert lane.ending is Stop.CONTEXT_LIMIT
        assert ask(lane).status_code == 200
    assert len(server.requests) == 1
    assert lane.ending is None


@pytest.mark.parametrize("body", [b"", b"[" * 20_000, b'{"messages": [' + b"[" * 20_000], ids=len)
def test_a_body_that_is_none_is_the_agents_doing(
    body: bytes, gateway: Gateway, tmp_path: Path
) -> None:
    with talking(gateway, in_turn(completes()), tmp_path) as (lane, _):
        answer = CLIENT.post(f"{lane.base_url}/{CHAT}", content=body)
    assert answer.status_code == 400
    assert kind(lane) is Cause.AGENT_CRASH


def test_ten_thousand_lanes_are_open_at_once(gateway: Gateway, tmp_path: Path) -> None:
    with serve(in_turn(completes())) as server, contextlib.ExitStack() as stack:
        upstream = Upstream(server.base_url, KEY)
        began = time.monotonic()
        lanes = [
            stack.enter_context(gateway.lane(upstream, recorder(tmp_path / f"{n}.jsonl")))
            for n in range(10_000)
        ]
        assert len({lane.base_url for lane in lanes}) == 10_000
        for lane in lanes[:: 10_000 // 7]:
            assert ask(lane).status_code == 200
        stack.close()
        assert time.monotonic() - began < 5
        assert ask(lanes[0]).status_code == 404


def left_of(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir())


def test_a_stream_that_is_cut_off_with_its_try_is_on_the_tape(
    gateway: Gateway, tmp_path: Path
) -> None:
    answer = streams(HALF, *(HALF, 0.02) * 200)
    heard = threading.Event()

    def listen(lane: Lane) -> None:
        url = f"{lane.base_url}/{CHAT}"
        with CLIENT.stream("POST", url, json=ASKED | {"stream": True}) as stream:
            for _ in stream.iter_lines():
                heard.set()

    with talking(gateway, in_turn(answer), tmp_path) as (lane, _):
        thread = in_background(lambda: listen(lane))
        assert heard.wait(5)
    # Whoever closes a lane reads its usage and moves its tape at once.
    assert left_of(tmp_path) == ["tape.jsonl.zst"]
    assert lane.usage.requests == 1
    path = find_tape(tmp_path)
    assert path is not None
    assert len(read_tape(path).exchanges) == 1
    time.sleep(0.3)
    assert left_of(tmp_path) == ["tape.jsonl.zst"]
    # Its client is not left hanging.
    thread.join(2)
    assert not thread.is_alive()


def test_answers_that_come_in_as_tries_end_are_on_their_tapes_or_nowhere(
    gateway: Gateway, tmp_path: Path
) -> None:
    with serve(lambda request, number: Answer(content=completes().content, seconds=0.02)) as server:
        upstream = Upstream(server.base_url, KEY)
        for number in range(25):
            (place := tmp_path / str(number)).mkdir()
            with gateway.lane(upstream, recorder(place / "tape.jsonl")) as lane:
                assert ask(lane).status_code == 200
                thread = in_background(lambda lane=lane: ask(lane))  # type: ignore[misc]
                time.sleep(0.021 + number % 5 / 1000)
            counted = lane.usage.requests
            thread.join(5)
            assert left_of(place) == ["tape.jsonl.zst"]
            assert len(read_tape(place / "tape.jsonl.zst").exchanges) == counted
            assert lane.usage.requests == counted


@pytest.mark.parametrize("left", ["half a request", "a stream"])
def test_a_gateway_ends_though_a_client_holds_on(left: str, tmp_path: Path) -> None:
    answer = streams(HALF, *(HALF, 0.02) * 900)
    body = json.dumps(ASKED | {"stream": True}).encode()
    with Gateway(terms()) as short:
        with talking(short, in_turn(answer), tmp_path) as (lane, _):
            url = urlsplit(lane.base_url)
            line = socket.create_connection((url.hostname or "", url.port or 0), timeout=5)
            length = len(body) + 10 * (left == "half a request")
            head = f"POST {url.path}/{CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n"
            line.sendall(head.encode() + body)
            time.sleep(0.2)
        began = time.monotonic()
    took = time.monotonic() - began
    line.close()
    assert took < 5


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_no_proxy_stands_between_a_machine_and_itself(
    host: str, gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with serve(in_turn(completes()), host=host) as server:
        upstream = Upstream(server.base_url, KEY)
        with gateway.lane(upstream, recorder(tmp_path / "tape.jsonl")) as lane:
            assert ask(lane).status_code == 200
    assert len(server.requests) == 1


def test_a_name_that_nobody_knows_is_named(
    gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    upstream = Upstream("http://nobody.invalid/v1", KEY)
    with gateway.lane(upstream, recorder(tmp_path / "tape.jsonl")) as lane:
        ask(lane)
    assert kind(lane) is Cause.ENDPOINT
    assert isinstance(lane.ending, Fault)
    assert "nobody.invalid" in lane.ending.detail
    assert "ConnectError" in lane.ending.detail


def certificate(place: Path) -> ssl.SSLContext:
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    made += ["-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext"]
    made += ["subjectAltName=IP:127.0.0.1", "-keyout", str(place / "key"), "-out"]
    try:
        subprocess.run([*made, str(place / "cert")], check=True, capture_output=True, timeout=20)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"openssl makes no certificate: {error}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(place / "cert", place / "key")
    return context


@pytest.mark.parametrize("trusted", [False, True])
def test_a_certificate_is_trusted_or_named(
    trusted: bool, gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls = certificate(tmp_path)
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert"))
    with serve(in_turn(completes()), tls=tls) as server:
        upstream = Upstream(server.base_url, KEY)
        with gateway.lane(upstream, recorder(tmp_path / "tape.jsonl")) as lane:
            ask(lane)
    if trusted:
        assert lane.ending is None
    else:
        assert isinstance(lane.ending, Fault)
        assert "CERTIFICATE_VERIFY_FAILED" in lane.ending.detail


def test_upstreams_that_are_alike_are_each_closed(gateway: Gateway, tmp_path: Path) -> None:
    pair = [Upstream("http://127.0.0.1:1/v1", KEY) for _ in range(2)]
    for number, upstream in enumerate(pair):
        with gateway.lane(upstream, recorder(tmp_path / f"{number}.jsonl")):
            pass
    assert [any(kept is one for kept in gateway._upstreams) for one in pair] == [True, True]
