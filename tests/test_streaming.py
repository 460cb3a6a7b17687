"""Streams over real HTTP: passed on as they come, counted, recorded; faults where they broke."""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib.util
import json
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from pipeline.domain import Cause, Fault, Usage
from pipeline.gateway import Gateway, Lane, Upstream, find_tape, read_tape
from pipeline.gateway.replies import CHAT, RESPONSES, Ending
from pipeline.gateway.tapes import Exchange
from tests.loopback import (
    Answer,
    Answering,
    Server,
    as_json,
    completes,
    event,
    in_turn,
    piece,
    refuses,
    says,
    serve,
    streams,
)
from tests.tries import KEY, recorder, terms

TRUST = ssl.create_default_context()
CLIENT = httpx.Client(verify=TRUST, trust_env=False, timeout=5)
atexit.register(CLIENT.close)
USAGE = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12, "cost": 0.5}
ASKED: dict[str, Any] = {
    "model": "m",
    "temperature": 0,
    "top_p": 1,
    "messages": [{"role": "user", "content": "How?"}],
    "stream": True,
}
WITH_USAGE = ASKED | {"stream_options": {"include_usage": True}}
ASKED_RESPONSES: dict[str, Any] = {
    "model": "m",
    "temperature": 0,
    "top_p": 1,
    "input": "How?",
    "stream": True,
}
WHOLE_RESPONSE = {
    "id": "r",
    "object": "response",
    "status": "completed",
    "output": [{"type": "message", "content": [{"type": "output_text", "text": "Hi"}]}],
    "usage": {"input_tokens": 7, "output_tokens": 3},
}
RESPONSE = streams(
    event({"type": "response.created", "response": {"id": "r"}}),
    event({"type": "response.output_text.delta", "delta": "Hi"}),
    event({"type": "response.completed", "response": WHOLE_RESPONSE}),
)


@pytest.fixture(scope="module")
def running() -> Iterator[Gateway]:
    with Gateway() as gateway:
        yield gateway


@pytest.fixture
def gateway(running: Gateway) -> Iterator[Gateway]:
    """Whatever a test does to a stream: its leave to ask is given back."""
    running.terms = terms()
    yield running
    until(lambda: running.terms.pressure.in_flight == 0, "somebody is still in flight")


def until(holds: Callable[[], object], otherwise: str) -> None:
    end = time.monotonic() + 2
    while not holds():
        assert time.monotonic() < end, otherwise
        time.sleep(0.01)


@contextlib.contextmanager
def talking(
    gateway: Gateway, answering: Answering, place: Path, **settings: Any
) -> Iterator[tuple[Lane, Server]]:
    with serve(answering) as server:
        upstream = Upstream(server.base_url, KEY, **settings)
        with gateway.lane(upstream, recorder(place / "tape.jsonl")) as lane:
            yield lane, server


def taped(place: Path) -> list[Exchange]:
    path = find_tape(place)
    return list(read_tape(path).exchanges) if path else []


def data_of(text: str) -> list[Any]:
    found = [line[6:] for line in text.splitlines() if line.startswith("data: ")]
    return [json.loads(data) if data.startswith("{") else data for data in found]


def words_of(text: str) -> str:
    parts = [tree for tree in data_of(text) if isinstance(tree, dict) and tree.get("choices")]
    return "".join(tree["choices"][0]["delta"].get("content") or "" for tree in parts)


def ask(lane: Lane, body: Mapping[str, Any] = ASKED, api: str = CHAT) -> httpx.Response:
    return CLIENT.post(f"{lane.base_url}/{api}", json=body)


def kind(ending: Ending) -> object:
    return ending.cause if isinstance(ending, Fault) else ending


def test_a_stream_is_passed_on_as_it_comes(gateway: Gateway, tmp_path: Path) -> None:
    heard = threading.Event()
    stream = streams(
        event(piece({"role": "assistant", "content": "first"})),
        heard,
        event(piece({"content": " last"}, "stop")),
        event("[DONE]"),
    )
    with talking(gateway, in_turn(stream), tmp_path) as (lane, _):
        with CLIENT.stream("POST", f"{lane.base_url}/{CHAT}", json=ASKED) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            lines = answer.iter_lines()
            assert "first" in next(lines)
            # Only now is the rest sent.
            assert not heard.is_set()
            heard.set()
            rest = "\n".join(lines)
        assert "last" in rest
        assert rest.rstrip().endswith("data: [DONE]")
    assert lane.ending is None
    assert lane.usage.requests == 1


def test_usage_is_asked_for_where_the_client_forgot_and_hidden_from_it(
    gateway: Gateway, tmp_path: Path
) -> None:
    with talking(gateway, in_turn(says("a", "b", usage=USAGE)), tmp_path) as (lane, server):
        text = ask(lane).text
    assert server.requests[0].body == WITH_USAGE
    assert words_of(text) == "ab"
    assert "usage" not in text
    assert data_of(text)[-1] == "[DONE]"
    assert lane.usage == Usage(
        requests=1, input_tokens=10, output_tokens=2, cost_usd=0.5, as_planned=1
    )
    (line,) = taped(tmp_path)
    assert line.usage == lane.usage
    assert line.answer["usage"] == USAGE
    assert line.answer["choices"][0]["message"]["content"] == "ab"
    assert line.first_seconds is not None


def test_who_asked_for_the_usage_sees_it(gateway: Gateway, tmp_path: Path) -> None:
    with talking(gateway, in_turn(says("a", usage=USAGE)), tmp_path) as (lane, server):
        text = ask(lane, WITH_USAGE).text
    assert server.requests[0].body == WITH_USAGE
    assert data_of(text)[-2]["usage"] == USAGE
    assert lane.usage.tokens == 12


@pytest.mark.parametrize("options", [None, [], "x", 7, ["include_usage"]], ids=str)
def test_options_that_are_none_are_the_agents_fault_not_ours(
    options: object, gateway: Gateway, tmp_path: Path
) -> None:
    with talking(gateway, in_turn(says("a", usage=USAGE)), tmp_path) as (lane, _):
        ask(lane, ASKED | {"stream_options": options})
    assert kind(lane.ending) in (None, Cause.AGENT_CRASH)


def test_usage_in_the_last_chunk_with_words_is_counted_and_seen(
    gateway: Gateway, tmp_path: Path
) -> None:
    stream = streams(event(piece({"content": "a"}, "stop", usage=USAGE)), event("[DONE]"))
    with talking(gateway, in_turn(stream), tmp_path) as (lane, _):
        assert data_of(ask(lane).text)[0]["usage"] == USAGE
    assert lane.usage.tokens == 12


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "plain"])
def test_the_responses_api_is_carried_as_well(
    streamed: bool, gateway: Gateway, tmp_path: Path
) -> None:
    answer = RESPONSE if streamed else as_json(WHOLE_RESPONSE)
    with talking(gateway, in_turn(answer), tmp_path) as (lane, server):
        found = ask(lane, ASKED_RESPONSES | {"stream": streamed}, RESPONSES)
        if streamed:
            assert data_of(found.text)[-1]["response"] == WHOLE_RESPONSE
        else:
            assert found.json() == WHOLE_RESPONSE
    assert server.requests[0].path == "/v1/responses"
    assert server.requests[0].body == ASKED_RESPONSES | {"stream": streamed}
    assert lane.ending is None
    assert (lane.usage.input_tokens, lane.usage.output_tokens) == (7, 3)
    (line,) = taped(tmp_path)
    assert (line.api, line.answer) == (RESPONSES, WHOLE_RESPONSE)


@pytest.mark.parametrize("api", [CHAT, RESPONSES])
def test_a_server_that_answers_a_stream_as_a_whole_is_heard_as_a_stream(
    api: str, gateway: Gateway, tmp_path: Path
) -> None:
    answer = completes("whole", usage=USAGE) if api == CHAT else as_json(WHOLE_RESPONSE)
    with talking(gateway, in_turn(answer), tmp_path) as (lane, _):
        found = ask(lane, ASKED if api == CHAT else ASKED_RESPONSES, api)
    assert found.headers["content-type"].startswith("text/event-stream")
    if api == CHAT:
        assert words_of(found.text) == "whole"
        assert data_of(found.text)[-1] == "[DONE]"
        assert lane.usage.tokens == 12
    else:
        assert data_of(found.text)[-1]["response"] == WHOLE_RESPONSE
    assert lane.ending is None


def test_usage_that_the_client_did_not_ask_for_is_not_shown_of_a_whole_answer_either(
    gateway: Gateway, tmp_path: Path
) -> None:
    with talking(gateway, in_turn(completes("a", usage=USAGE)), tmp_path) as (lane, _):
        trees = data_of(ask(lane).text)
    assert [tree for tree in trees if isinstance(tree, dict) and tree["choices"] == []] == []


def test_a_server_that_streams_what_was_not_to_be_is_heard_as_a_whole(
    gateway: Gateway, tmp_path: Path
) -> None:
    with talking(gateway, in_turn(says("a", "b", usage=USAGE)), tmp_path) as (lane, _):
        answer = ask(lane, ASKED | {"stream": False})
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["choices"][0]["message"]["content"] == "ab"
    assert lane.usage.tokens == 12


FIRST: Mapping[str, tuple[Answer, Cause]] = {
    # a stream that is bad from its first event on; the agent must never see it
    "an error": (streams(event({"error": {"code": 503, "message": "busy"}})), Cause.ENDPOINT),
    "a named error": (
        streams(b"event: error\n" + event({"error": {"code": 429, "message": "slow"}})),
        Cause.ENDPOINT,
    ),
    "nothing": (streams(b": nothing\n\n"), Cause.ENDPOINT),
    "no JSON": (streams(event("<html>")), Cause.ENDPOINT),
    "an end alone": (streams(event("[DONE]")), Cause.ENDPOINT),
    "no choices": (streams(event({"choices": [None]}), event("[DONE]")), Cause.ENDPOINT),
    "HTML with 200": (
        Answer(content=b"<html>hello</html>", headers={"content-type": "text/html"}),
        Cause.ENDPOINT,
    ),
    "503": (refuses(503), Cause.ENDPOINT),
    "cut at once": (streams(b": ping\n\n", manner="cut"), Cause.ENDPOINT),
}


@pytest.mark.parametrize("name", FIRST)
def test_a_stream_that_begins_badly_is_asked_for_again(
    name: str, gateway: Gateway, tmp_path: Path
) -> None:
    bad, _ = FIRST[name]
    with talking(gateway, in_turn(bad, bad, says("fine", usage=USAGE)), tmp_path) as (lane, server):
        found = ask(lane)
    assert words_of(found.text) == "fine"
    assert len(server.requests) == 3
    assert lane.ending is None
    assert (lane.usage.requests, lane.usage.failed) == (1, 2)
    assert [(line.again, line.discarded) for line in taped(tmp_path)] == [
        (0, True),
        (1, True),
        (2, False),
    ]


@pytest.mark.parametrize("name", FIRST)
def test_a_stream_that_always_begins_badly_is_a_fault(
    name: str, gateway: Gateway, tmp_path: Path
) -> None:
    bad, cause = FIRST[name]
    with talking(gateway, in_turn(bad), tmp_path) as (lane, server):
        found = ask(lane)
    assert kind(lane.ending) is cause
    assert found.status_code >= 400
    assert len(server.requests) == 6


HALF = event(piece({"role": "assistant", "content": "half"}))
SPLIT: Mapping[str, tuple[Answer, str]] = {
    # a stream that breaks after its first words, and what is said of it
    "a stall": (streams(HALF, 2.0, event("[DONE]")), "between two chunks"),
    "a byte a second": (streams(HALF, *(b"x", 0.06) * 40), "request_seconds"),
    "comments alone": (streams(HALF, *(b": ping\n\n", 0.06) * 40), "request_seconds"),
    "cut": (streams(HALF, HALF, manner="cut"), "closed"),
    "an early end": (streams(HALF, HALF), "broke off"),
    "an error": (streams(HALF, event({"error": {"code": 503, "message": "busy"}})), "busy"),
    "no JSON": (streams(HALF, event("<html>"), event("[DONE]")), "no JSON"),
    "an odd shape": (streams(HALF, event({"choices": [None]}), event("[DONE]")), ""),
    "a text for a delta": (streams(HALF, event({"choices": [{"delta": "x"}]})), ""),
}


@pytest.mark.parametrize("name", SPLIT)
def test_a_stream_that_breaks_is_a_fault_and_the_client_is_told(
    name: str, gateway: Gateway, tmp_path: Path
) -> None:
    broken, why = SPLIT[name]
    began = time.monotonic()
    settings = {"stall_seconds": 0.2, "request_seconds": 0.6}
    with talking(gateway, in_turn(broken), tmp_path, **settings) as (lane, server):
        text = ask(lane).text
    assert time.monotonic() - began < 2
    assert kind(lane.ending) is Cause.ENDPOINT
    assert isinstance(lane.ending, Fault)
    assert why in lane.ending.detail
    assert server.base_url in lane.ending.detail
    # Its agent has heard words already: it cannot be asked for again unnoticed.
    assert len(server.requests) == 1
    assert data_of(text)[-1]["error"]["code"] == 502
    assert "[DONE]" not in text.splitlines()[-2:]
    (line,) = taped(tmp_path)
    assert line.discarded
    assert line.ending == lane.ending
    assert line.events is not None
    assert "half" in line.events[0]
    assert (lane.usage.requests, lane.usage.failed) == (0, 1)


def test_streams_that_break_for_ever_spend_an_attempts_patience(
    gateway: Gateway, tmp_path: Path
) -> None:
    """An agent that asks again itself must not ask for ever."""
    with talking(gateway, in_turn(streams(HALF, manner="cut")), tmp_path) as (lane, server):
        for _ in range(10):
            ask(lane)
    assert len(server.requests) <= 6
    assert isinstance(lane.ending, Fault)
    assert lane.ending.final


def test_an_odd_delta_that_real_servers_send_is_no_fault(gateway: Gateway, tmp_path: Path) -> None:
    thinks = piece({"content": [{"type": "thinking", "thinking": [{"text": "hm"}]}]})
    stream = streams(event(thinks), event(piece({"content": "Hi"}, "stop")), event("[DONE]"))
    with talking(gateway, in_turn(stream), tmp_path) as (lane, _):
        assert "Hi" in ask(lane).text
    assert lane.ending is None
    assert len(taped(tmp_path)) == 1


def test_a_key_in_a_stream_goes_nowhere(gateway: Gateway, tmp_path: Path) -> None:
    wire = event(piece({"content": f"it is {KEY}, I say"}))
    stream = streams(wire[:60], wire[60:], event(piece({}, "stop")), event("[DONE]"))
    with talking(gateway, in_turn(stream), tmp_path) as (lane, _):
        text = ask(lane).text
    assert KEY not in text + str(taped(tmp_path))
    assert "it is [redacted by passone], I say" in text


def leave_after(lane: Lane, seconds: float, hears: bytes = b"") -> None:
    """Ask for a stream over a bare socket, and hang up."""
    url = urlsplit(lane.base_url)
    body = json.dumps(ASKED).encode()
    head = f"POST {url.path}/{CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
    with socket.create_connection((url.hostname or "", url.port or 0), timeout=5) as line:
        line.sendall(head.encode() + body)
        heard = b""
        while hears not in heard:
            heard += line.recv(4096)
        time.sleep(seconds)


def test_a_client_that_hangs_up_in_the_middle_is_no_fault_of_the_endpoint(
    gateway: Gateway, tmp_path: Path
) -> None:
    stream = streams(HALF, *(HALF, 0.02) * 200)
    with talking(gateway, in_turn(stream), tmp_path) as (lane, server):
        leave_after(lane, 0.0, hears=b"half")
        until(lambda: gateway.terms.pressure.in_flight == 0, "it is still in flight")
        assert lane.ending is None
        # What goes on upstream is paid for.
        assert server.hung_up.wait(3)
    (line,) = taped(tmp_path)
    assert line.events
    assert not line.discarded
    assert (lane.usage.requests, lane.usage.cost_usd) == (1, None)


def test_a_client_that_hangs_up_before_the_first_word_leaves_nothing_behind(
    gateway: Gateway, tmp_path: Path
) -> None:
    stream = streams(0.3, HALF, *(HALF, 0.02) * 200)
    with talking(gateway, in_turn(stream), tmp_path) as (lane, server):
        leave_after(lane, 0.1)
        until(lambda: server.requests, "it was never asked")
        until(lambda: gateway.terms.pressure.in_flight == 0, "it is still in flight")
        assert server.hung_up.wait(3)
    assert len(taped(tmp_path)) == 1


def test_it_takes_no_collector_of_garbage_to_let_go_of_a_stream(
    gateway: Gateway, tmp_path: Path
) -> None:
    gc.disable()
    try:
        stream = streams(HALF, *(HALF, 0.02) * 200)
        with talking(gateway, in_turn(*[stream] * 3), tmp_path) as (lane, _):
            for _ in range(3):
                leave_after(lane, 0.05, hears=b"half")
            until(lambda: gateway.terms.pressure.in_flight == 0, "it is still in flight")
    finally:
        gc.enable()


def test_the_client_of_openai_hears_a_stream(gateway: Gateway, tmp_path: Path) -> None:
    openai = pytest.importorskip("openai")
    answering = in_turn(says("Hel", "lo", usage=USAGE), streams(HALF, manner="cut"))
    with talking(gateway, answering, tmp_path) as (lane, _):
        client = openai.OpenAI(
            base_url=lane.base_url, api_key="dummy", max_retries=0, http_client=CLIENT
        )
        heard = list(client.chat.completions.create(**WITH_USAGE))
        assert "".join(c.choices[0].delta.content or "" for c in heard if c.choices) == "Hello"
        assert heard[-1].usage.total_tokens == 12
        with pytest.raises(openai.APIError, match="closed"):
            list(client.chat.completions.create(**ASKED))
    assert kind(lane.ending) is Cause.ENDPOINT


def test_the_client_of_openai_hears_a_whole_answer_as_a_stream(
    gateway: Gateway, tmp_path: Path
) -> None:
    openai = pytest.importorskip("openai")
    answer = completes(None, calls=[("bash", {"command": "ls"}), ("bash", {"command": "pwd"})])
    with talking(gateway, in_turn(answer, as_json(WHOLE_RESPONSE)), tmp_path) as (lane, _):
        client = openai.OpenAI(base_url=lane.base_url, api_key="dummy", http_client=CLIENT)
        heard = list(client.chat.completions.create(**ASKED))
        calls = [call for c in heard if c.choices for call in c.choices[0].delta.tool_calls or ()]
        assert [call.index for call in calls] == [0, 1]
        assert [c.choices[0] for c in heard if c.choices][-1].finish_reason == "tool_calls"
        last = list(client.responses.create(**ASKED_RESPONSES))[-1]
        assert last.response.output_text == "Hi"


LITELLM = """
import sys, warnings
warnings.simplefilter("ignore")
import litellm
for stream in (True, False):
    answer = litellm.completion(
        model="openai/m", api_base=sys.argv[1], api_key="dummy", temperature=0, top_p=1,
        messages=[{"role": "user", "content": "How?"}], stream=stream, max_retries=0)
    if stream:
        parts = list(answer)
        answer = litellm.stream_chunk_builder(parts)
    call = answer.choices[0].message.tool_calls[0].function
    print("heard", call.name, call.arguments)
"""


def test_litellm_hears_a_stream(gateway: Gateway, tmp_path: Path) -> None:
    if importlib.util.find_spec("litellm") is None:
        pytest.skip("litellm is not installed: it comes with passone[mini]")
    call = {"index": 0, "id": "c", "type": "function", "function": {"name": "bash"}}
    streamed = streams(
        event(piece({"role": "assistant", "tool_calls": [call]})),
        event(piece({"tool_calls": [{"index": 0, "function": {"arguments": '{"command"'}}]})),
        event(piece({"tool_calls": [{"index": 0, "function": {"arguments": ': "ls"}'}}]})),
        event(piece({}, "tool_calls")),
        event({"id": "x", "choices": [], "usage": USAGE}),
        event("[DONE]"),
    )
    plain = completes("", calls=[("bash", {"command": "ls"})], usage=USAGE)
    with talking(gateway, in_turn(streamed, plain), tmp_path) as (lane, _):
        done = subprocess.run(
            [sys.executable, "-c", LITELLM, lane.base_url],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
            env=os.environ | {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "HOME": str(tmp_path)},
        )
    assert done.stdout.count('heard bash {"command": "ls"}') == 2, done.stderr[-2000:]
    assert lane.usage.tokens == 24
