"""The gateway over real HTTP: an agent on one side, a scripted upstream on the other."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import certifi
import httpx
import pytest

from pipeline.domain import Attempt, Cause, Fault, Limits, Stop, Usage
from pipeline.gateway import Gateway, Lane, Upstream, check_endpoint, load_scripts, read_tape
from pipeline.gateway.replies import Ending, Reply, read
from pipeline.gateway.tapes import Exchange, lines_of
from pipeline.outcomes import UserError
from pipeline.recipe import ModelRecipe
from tests.loopback import Answer, Answering, Server, as_json, completes, in_turn, refuses, serve
from tests.tries import recorder, terms

KEY = "sk-proj-aB3_planted-Key0"
ASKED: dict[str, Any] = {
    "model": "m",
    "temperature": 0,
    "top_p": 1,
    "messages": [{"role": "user", "content": "How?"}],
}
TRUST = ssl.create_default_context()  # once: making one takes longer than a request


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """With one root certificate: reading all of them takes longer than any test here."""
    end = "-----END CERTIFICATE-----\n"
    one = Path(certifi.where()).read_text(encoding="utf-8").partition(end)
    roots = tmp_path_factory.mktemp("roots") / "one.pem"
    roots.write_text(one[0] + one[1], encoding="utf-8")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SSL_CERT_FILE", str(roots))
        with Gateway(terms()) as running:
            yield running


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One conversation, from both sides."""

    lane: Lane
    answers: list[httpx.Response]
    server: Server

    @property
    def lines(self) -> list[dict[str, Any]]:
        """As they stand on the tape, after its header."""
        packed = self.lane.recorder.path.with_name("tape.jsonl.zst")
        return [json.loads(line.decode("utf-8", "surrogatepass")) for line in lines_of(packed)][1:]

    @property
    def tape(self) -> Sequence[Exchange]:
        return read_tape(self.lane.recorder.path.with_name("tape.jsonl.zst")).exchanges


def post(lane: Lane, body: object) -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    # An agent sends what it was given: a dummy.
    headers = {"authorization": "Bearer dummy", "content-type": "application/json"}
    url = f"{lane.base_url}/chat/completions"
    return httpx.post(url, content=content, headers=headers, timeout=30, verify=TRUST)


def converse(
    gateway: Gateway,
    answering: Answering,
    place: Path,
    *bodies: object,
    timeout_seconds: float = 30.0,
    cost_limit_usd: float = 0.0,
) -> Seen:
    with serve(answering) as server:
        upstream = Upstream(server.base_url, KEY, request_seconds=timeout_seconds)
        limits = Limits(cost_usd=cost_limit_usd)
        with gateway.lane(upstream, recorder(place / "tape.jsonl"), limits=limits) as lane:
            answers = [post(lane, body) for body in bodies or [ASKED]]
    return Seen(lane=lane, answers=answers, server=server)


def kind(ending: Ending) -> Stop | Cause | None:
    return ending.cause if isinstance(ending, Fault) else ending


HTML = Answer(content=b"<html>Welcome to nginx</html>", headers={"content-type": "text/html"})
FULL = completes("A long answer " * 50)
ONCE, SIX = 1, 6

FAULTS: Mapping[str, tuple[Answer, Cause, int]] = {
    # what the upstream answers for ever, what it is, requests that the upstream sees
    "401": (refuses(401, "Incorrect API key", "invalid_api_key"), Cause.CREDENTIALS, ONCE),
    "402": (refuses(402, "Insufficient credits"), Cause.ENDPOINT, ONCE),
    "403": (refuses(403, "Project has no access"), Cause.CREDENTIALS, ONCE),
    "404": (refuses(404, "No such model", "model_not_found"), Cause.ENDPOINT, ONCE),
    "400 parameter": (
        refuses(400, "'temperature' does not support 0", "unsupported_value"),
        Cause.ENDPOINT,
        ONCE,
    ),
    "422": (refuses(422, "unprocessable"), Cause.ENDPOINT, ONCE),
    "429": (refuses(429, "Rate limit reached", "rate_limit_exceeded"), Cause.ENDPOINT, SIX),
    "429 quota": (
        refuses(429, "You exceeded your current quota", "insufficient_quota"),
        Cause.ENDPOINT,
        ONCE,
    ),
    "408": (refuses(408), Cause.ENDPOINT, SIX),
    "500": (refuses(500), Cause.ENDPOINT, SIX),
    "502": (refuses(502), Cause.ENDPOINT, SIX),
    "503": (refuses(503), Cause.ENDPOINT, SIX),
    "504": (refuses(504), Cause.ENDPOINT, SIX),
    "529": (refuses(529, "Overloaded"), Cause.ENDPOINT, SIX),
    "503 without a body": (Answer(status=503), Cause.ENDPOINT, SIX),
    "502 in HTML": (Answer(status=502, content=b"<h1>Bad gateway</h1>"), Cause.ENDPOINT, SIX),
    "redirect": (
        Answer(status=307, headers={"location": "http://127.0.0.1:1/"}),
        Cause.ENDPOINT,
        SIX,
    ),
    "reset": (Answer(manner="reset"), Cause.ENDPOINT, SIX),
    "cut body": (Answer(content=FULL.content, manner="cut"), Cause.ENDPOINT, SIX),
    "malformed JSON": (Answer(content=FULL.content[:100]), Cause.ENDPOINT, SIX),
    "empty body": (Answer(), Cause.ENDPOINT, SIX),
    "HTML with 200": (HTML, Cause.ENDPOINT, SIX),
    "a list with 200": (as_json([1]), Cause.ENDPOINT, SIX),
    "error object with 200": (
        as_json({"error": {"message": "upstream failed", "code": "boom"}}),
        Cause.ENDPOINT,
        ONCE,
    ),
    "no choices": (as_json({"id": "x", "object": "chat.completion"}), Cause.ENDPOINT, SIX),
    "empty choices": (as_json({"choices": []}), Cause.ENDPOINT, SIX),
    "null choices": (as_json({"choices": None}), Cause.ENDPOINT, SIX),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_the_endpoint_is_told_by_its_structure(
    name: str, gateway: Gateway, tmp_path: Path
) -> None:
    answer, cause, requests = FAULTS[name]
    seen = converse(gateway, in_turn(answer), tmp_path)
    assert isinstance(seen.lane.ending, Fault)
    assert seen.lane.ending.cause is cause
    assert seen.server.base_url in seen.lane.ending.detail
    assert len(seen.server.requests) == requests
    assert [(line.ordinal, line.again) for line in seen.tape] == [(1, n) for n in range(requests)]
    assert all(line.discarded and line.ending is not None for line in seen.tape)
    assert seen.lane.usage == Usage(failed=requests)
    # Whoever runs it may not multiply this by trying again.
    assert seen.lane.ending.final
    # Whatever it was, an agent must not take it for a completion.
    assert seen.answers[0].status_code >= 400


def test_a_hang_is_a_fault_of_the_endpoint(gateway: Gateway, tmp_path: Path) -> None:
    slow = Answer(content=FULL.content, seconds=1.0)
    seen = converse(gateway, in_turn(slow), tmp_path, timeout_seconds=0.1)
    assert kind(seen.lane.ending) is Cause.ENDPOINT
    assert "ReadTimeout" in str(seen.tape[-1].ending)
    assert len(seen.server.requests) == SIX


def test_nobody_at_the_address_is_a_fault_of_the_endpoint(gateway: Gateway, tmp_path: Path) -> None:
    upstream = Upstream("http://127.0.0.1:1/v1", KEY)
    tape = tmp_path / "tape.jsonl"
    with gateway.lane(upstream, recorder(tape)) as lane:
        answer = post(lane, ASKED)
    assert kind(lane.ending) is Cause.ENDPOINT
    assert answer.status_code == 502
    assert "127.0.0.1:1" in answer.json()["error"]["message"]


def test_https_to_a_server_that_speaks_http_is_a_fault_of_the_endpoint(
    gateway: Gateway, tmp_path: Path
) -> None:
    with serve(in_turn(completes())) as server:
        written = server.base_url.replace("http://", "https://")
        upstream = Upstream(check_endpoint(ModelRecipe(name="m", base_url=written)), KEY)
        tape = tmp_path / "tape.jsonl"
        with gateway.lane(upstream, recorder(tape)) as lane:
            post(lane, ASKED)
    assert kind(lane.ending) is Cause.ENDPOINT


CONTEXT_WORDINGS = {
    "OpenAI": refuses(
        400,
        "This model's maximum context length is 8192 tokens. However, your messages resulted in "
        "9000 tokens. Please reduce the length of the messages.",
        "context_length_exceeded",
    ),
    "code alone": refuses(400, "Invalid request", "context_length_exceeded"),
    "code after a long message": refuses(400, "Invalid. " * 100, "context_length_exceeded"),
    "Anthropic": as_json(
        {
            "type": "error",
            "error": {
                "type": "invalid_request_error",
                "message": "prompt is too long: 213462 tokens > 200000 maximum",
            },
        },
        400,
    ),
    "Gemini": refuses(
        400,
        "The input token count (1050000) exceeds the maximum number of tokens allowed (1048576).",
    ),
    "vLLM": as_json(
        {
            "object": "error",
            "message": "This model's maximum context length is 4096 tokens. However, you requested "
            "5000 tokens in the messages, Please reduce the length of the messages.",
            "type": "BadRequestError",
            "code": 400,
        },
        400,
    ),
    "SGLang": refuses(
        400,
        "The input (70000 tokens) is longer than the model's context length (65536 tokens).",
    ),
    "llama.cpp": as_json(
        {
            "error": {
                "code": 400,
                "message": "the request exceeds the available context size, try increasing it",
                "type": "exceed_context_size_error",
            }
        },
        400,
    ),
    "Bedrock": refuses(400, "Input is too long for requested model."),
    "Mistral": refuses(
        400,
        "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum "
        "context length",
    ),
    "xAI": refuses(
        400, "This model's maximum prompt length is 131072 but the request contains 537812 tokens."
    ),
    "Moonshot": refuses(400, "Invalid request: Your request exceeded model token limit: 8192"),
    "Groq": refuses(400, "Please reduce the length of the messages or completion."),
    "422": refuses(422, "This model's maximum context length is 4096 tokens"),
    "413": refuses(413, "Request entity too large"),
    "with 200": as_json({"error": {"message": "context_length_exceeded", "code": 400}}),
}


@pytest.mark.parametrize("name", CONTEXT_WORDINGS)
def test_a_full_context_is_a_limit_of_the_model(
    name: str, gateway: Gateway, tmp_path: Path
) -> None:
    seen = converse(gateway, in_turn(CONTEXT_WORDINGS[name]), tmp_path)
    assert seen.lane.ending is Stop.CONTEXT_LIMIT
    assert len(seen.server.requests) == ONCE


REFUSALS = {
    "OpenAI": refuses(400, "Your request was rejected by our safety system", "content_policy"),
    "Azure": refuses(
        400,
        "The response was filtered due to the prompt triggering Azure OpenAI's content management "
        "policy.",
        "content_filter",
    ),
    "code alone": refuses(400, "Invalid prompt", "content_policy_violation"),
    "403": refuses(403, "Blocked", "content_filter"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_policy_refusal_is_the_models(name: str, gateway: Gateway, tmp_path: Path) -> None:
    seen = converse(gateway, in_turn(REFUSALS[name]), tmp_path)
    assert seen.lane.ending is Stop.REFUSED
    assert len(seen.server.requests) == ONCE


ECHO = {
    # The words are the request's own, echoed: they say nothing about what went wrong.
    "validation error": as_json(
        {
            "detail": [
                {
                    "type": "extra_forbidden",
                    "loc": ["body", "top_q"],
                    "msg": "Extra inputs are not permitted",
                    "input": {"messages": "safety of the context window of a browser"},
                }
            ]
        },
        422,
    ),
    "bad parameter": as_json(
        {
            "error": {"message": "unknown parameter: top_q", "code": "unknown_parameter"},
            "request": {"messages": ["fix the context window; mind safety"]},
        },
        400,
    ),
}


@pytest.mark.parametrize("name", ECHO)
def test_an_echo_of_the_request_does_not_blame_the_model(
    name: str, gateway: Gateway, tmp_path: Path
) -> None:
    seen = converse(gateway, in_turn(ECHO[name]), tmp_path)
    assert kind(seen.lane.ending) is Cause.ENDPOINT


@pytest.mark.parametrize(
    "first",
    [
        refuses(429),
        refuses(500),
        refuses(503),
        Answer(manner="reset"),
        Answer(content=FULL.content, manner="cut"),
        HTML,
    ],
    ids=["429", "500", "503", "reset", "cut", "html"],
)
def test_what_passes_is_nothing(first: Answer, gateway: Gateway, tmp_path: Path) -> None:
    seen = converse(gateway, in_turn(first, first, completes("fine")), tmp_path)
    assert seen.lane.ending is None
    assert seen.answers[0].json()["choices"][0]["message"]["content"] == "fine"
    assert len(seen.server.requests) == 3
    assert seen.lane.usage.requests == 1
    assert seen.lane.waited_seconds > 0
    # The same question each time: nothing is added to it.
    assert len({request.content for request in seen.server.requests}) == 1


def test_an_ending_is_that_of_the_latest_request(gateway: Gateway, tmp_path: Path) -> None:
    answering = in_turn(refuses(401), completes(), refuses(400, code="context_length_exceeded"))
    with serve(answering) as server:
        upstream = Upstream(server.base_url, KEY)
        with gateway.lane(upstream, recorder(tmp_path / "tape.jsonl")) as lane:
            endings = [(post(lane, ASKED), kind(lane.ending))[1] for _ in range(3)]
    assert endings == [Cause.CREDENTIALS, None, Stop.CONTEXT_LIMIT]


def test_retry_after_is_honoured(gateway: Gateway, tmp_path: Path) -> None:
    seen = converse(gateway, in_turn(refuses(429, retry_after="0.4"), completes()), tmp_path)
    first, second = seen.server.requests
    assert second.at - first.at >= 0.4
    # What the failed request took is waiting too.
    assert 0.4 <= seen.lane.waited_seconds < 0.4 + 5
    assert seen.lane.ending is None


@pytest.mark.parametrize("value", ["soon", "", "-5", "nan", "Fri, 31 Dec 1999 23:59:59 GMT"])
def test_a_retry_after_that_asks_for_nothing_is_passed_over(
    value: str, gateway: Gateway, tmp_path: Path
) -> None:
    seen = converse(gateway, in_turn(refuses(503, retry_after=value), completes()), tmp_path)
    assert seen.lane.ending is None
    first, second = seen.server.requests
    assert second.at - first.at < 10


@pytest.mark.parametrize("value", ["86400", "inf", "Fri, 31 Dec 2100 23:59:59 GMT"])
def test_who_asks_for_more_patience_than_there_is_gets_no_second_request(
    value: str, gateway: Gateway, tmp_path: Path
) -> None:
    seen = converse(gateway, in_turn(refuses(429, retry_after=value), completes()), tmp_path)
    assert len(seen.server.requests) == 1
    assert isinstance(seen.lane.ending, Fault)
    assert seen.lane.ending.final


def test_an_answer_is_the_models_time_and_an_unanswered_request_the_endpoints(
    gateway: Gateway, tmp_path: Path
) -> None:
    """So that a time limit at a model that only thinks for long stays the model's."""
    slow = Answer(content=FULL.content, seconds=0.3)
    lane = converse(gateway, in_turn(slow), tmp_path).lane
    assert lane.waited_seconds == 0
    lane.asking_since = time.monotonic() - 10_000
    assert lane.waited_seconds >= 10_000


def test_a_conversation_that_cannot_be_recorded_is_a_fault_of_the_disk(
    gateway: Gateway, tmp_path: Path
) -> None:
    with serve(in_turn(completes())) as server:
        upstream = Upstream(server.base_url, KEY)
        with gateway.lane(upstream, recorder(tmp_path / "gone" / "tape.jsonl")) as lane:
            assert post(lane, ASKED).status_code >= 400
    assert kind(lane.ending) is Cause.DISK


def test_the_upstream_gets_the_request_as_it_was_sent_and_the_real_key(
    gateway: Gateway, tmp_path: Path
) -> None:
    body = json.dumps(ASKED | {"seed": 7, "tools": [{"type": "function"}]}, indent=1).encode()
    seen = converse(gateway, in_turn(completes()), tmp_path, body)
    (request,) = seen.server.requests
    assert request.content == body
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == f"Bearer {KEY}"


def echo_the_key(status: int) -> Answering:
    return lambda request, number: as_json(
        {
            "error": {"message": f"bad key {request.headers['authorization']}"},
            "choices": [{"message": {"role": "assistant", "content": KEY}}],
            KEY: KEY,
        },
        status,
        x_key=KEY,
    )


@pytest.mark.parametrize("status", [200, 400, 401, 403, 404, 429, 500])
def test_a_key_that_the_upstream_echoes_goes_nowhere(
    status: int, gateway: Gateway, tmp_path: Path
) -> None:
    seen = converse(gateway, echo_the_key(status), tmp_path)
    answer = seen.answers[0]
    assert KEY not in answer.text + str(answer.headers)
    assert KEY not in repr(seen.lane) + str(seen.lane.ending)
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or KEY.encode() not in path.read_bytes()


def test_a_message_of_a_client_error_holds_no_key(gateway: Gateway, tmp_path: Path) -> None:
    # httpx names the offending header in its message where one cannot be sent.
    seen = converse(gateway, in_turn(Answer(manner="reset")), tmp_path)
    assert KEY not in str(seen.tape) + seen.answers[0].text


def test_the_tape_holds_every_message_once(gateway: Gateway, tmp_path: Path) -> None:
    history: list[dict[str, Any]] = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "u"},
    ]
    bodies = []
    for turn in range(3):
        bodies.append(ASKED | {"messages": list(history)})
        history += [
            {"role": "assistant", "content": f"a{turn}"},
            {"role": "tool", "content": f"t{turn}"},
        ]
    answering = in_turn(completes("0"), refuses(503), completes("1"), completes("2"))
    seen = converse(gateway, answering, tmp_path, *bodies)
    lines = seen.lines
    taped = [message for line in lines for message in line["conversation"]]
    assert taped == bodies[-1]["messages"]
    assert [line["before"] for line in lines] == [0, 2, 4, 4]
    assert [line["status"] for line in lines] == [200, 503, 200, 200]
    assert [(line["ordinal"], line["again"]) for line in lines] == [(1, 0), (2, 0), (2, 1), (3, 0)]
    assert [line["ending"] is None for line in lines] == [True, False, True, True]
    # All but the messages stands on every line, the answer too.
    assert all(line["request"] == {"model": "m", "temperature": 0, "top_p": 1} for line in lines)
    assert lines[-1]["answer"]["choices"][0]["message"]["content"] == "2"
    # Read back, every request is whole again.
    assert [exchange.request for exchange in seen.tape] == [bodies[n] for n in (0, 1, 1, 2)]


def test_a_history_that_was_rewritten_is_taped_from_where_it_differs(
    gateway: Gateway, tmp_path: Path
) -> None:
    first = [{"role": "user", "content": word} for word in "abc"]
    second = [first[0], {"role": "user", "content": "B"}]
    bodies = [ASKED | {"messages": messages} for messages in (first, second)]
    seen = converse(gateway, in_turn(completes()), tmp_path, *bodies)
    assert seen.lines[1]["before"] == 1
    assert seen.lines[1]["conversation"] == second[1:]
    assert [exchange.conversation for exchange in seen.tape] == [first, second]


def test_usage_is_what_the_server_counted(gateway: Gateway, tmp_path: Path) -> None:
    counted = {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "prompt_tokens_details": {"cached_tokens": 60},
        "completion_tokens_details": {"reasoning_tokens": 15},
        "cost": 0.002,
    }
    answering = in_turn(completes(usage=counted), refuses(503), completes(usage=counted))
    seen = converse(gateway, answering, tmp_path, ASKED, ASKED)
    assert seen.lane.usage == Usage(
        requests=2,
        input_tokens=200,
        cached_tokens=120,
        output_tokens=40,
        cost_usd=0.004,
        as_planned=2,
        failed=1,
    )


def test_one_request_without_a_price_makes_the_cost_unknown(
    gateway: Gateway, tmp_path: Path
) -> None:
    priced = completes(usage={"prompt_tokens": 1, "completion_tokens": 1, "cost": 0.5})
    answering = in_turn(priced, completes(), priced)
    seen = converse(gateway, answering, tmp_path, ASKED, ASKED, ASKED)
    assert seen.lane.usage.cost_usd is None
    assert seen.lane.usage.requests == 3


@pytest.mark.parametrize(
    "usage",
    [
        {},
        {"prompt_tokens": None, "completion_tokens": None, "prompt_tokens_details": None},
        {"prompt_tokens": "many", "cost": "little"},
        {"prompt_tokens": 5, "prompt_tokens_details": [1, 2]},
        {"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": None}, "cost": None},
    ],
)
def test_odd_usage_loses_no_completion(
    usage: dict[str, Any], gateway: Gateway, tmp_path: Path
) -> None:
    seen = converse(gateway, in_turn(completes("fine", usage=usage)), tmp_path)
    assert seen.answers[0].json()["choices"][0]["message"]["content"] == "fine"
    assert seen.lane.ending is None
    assert seen.lane.usage.requests == 1
    assert seen.lane.usage.cost_usd is None


def test_a_cost_limit_ends_the_conversation_before_the_next_request(
    gateway: Gateway, tmp_path: Path
) -> None:
    priced = completes(usage={"prompt_tokens": 1, "completion_tokens": 1, "cost": 0.02})
    bodies = [ASKED] * 4
    seen = converse(gateway, in_turn(priced), tmp_path, *bodies, cost_limit_usd=0.03)
    assert [answer.status_code for answer in seen.answers] == [200, 200, 400, 400]
    assert len(seen.server.requests) == 2
    assert seen.lane.ending is Stop.COST_LIMIT
    assert "cost limit of $0.03" in seen.answers[2].json()["error"]["message"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no json",
        b"[1, 2]",
        b'"text"',
        b"{}",
        b'{"messages": "none"}',
        b'{"messages": [',
        b"\xff\xfe",
    ],
)
def test_what_is_no_request_goes_no_further(body: bytes, gateway: Gateway, tmp_path: Path) -> None:
    seen = converse(gateway, in_turn(completes()), tmp_path, body)
    assert seen.answers[0].status_code == 400
    assert "(passone)" in seen.answers[0].json()["error"]["message"]
    assert seen.server.requests == []
    # The model never saw it: what the agent makes of that is no answer of the model's.
    assert isinstance(seen.lane.ending, Fault)
    assert seen.lane.ending.cause is Cause.AGENT_CRASH


def test_a_lane_is_gone_with_its_try(gateway: Gateway, tmp_path: Path) -> None:
    seen = converse(gateway, in_turn(completes()), tmp_path)
    late = post(seen.lane, ASKED)
    assert late.status_code == 404
    assert "this try is over" in late.json()["error"]["message"]
    assert httpx.get(f"{seen.lane.base_url}/models").status_code == 404
    assert seen.lane.usage.requests == 1


def test_nobody_else_finds_a_lane(gateway: Gateway, tmp_path: Path) -> None:
    with serve(in_turn(completes())) as server:
        upstream = Upstream(server.base_url, KEY)
        with gateway.lane(upstream, recorder(tmp_path / "tape.jsonl")) as lane:
            host = lane.base_url.rsplit("/", 2)[0]
            for path in ("", "/v1/chat/completions", "/guessed/v1/chat/completions"):
                assert httpx.post(host + path, json=ASKED).status_code == 404
            assert host.startswith("http://127.0.0.1:")
        assert server.requests == []


def test_a_lane_names_its_model(gateway: Gateway, tmp_path: Path) -> None:
    with (
        serve(in_turn(completes())) as server,
        gateway.lane(Upstream(server.base_url, KEY), recorder(tmp_path / "tape.jsonl")) as lane,
    ):
        models = httpx.get(f"{lane.base_url}/models").json()
    assert [item["id"] for item in models["data"]] == ["m-1"]


def test_lanes_do_not_mix(gateway: Gateway, tmp_path: Path) -> None:
    def talk(number: int) -> None:
        fault = number % 2
        place = tmp_path / str(number)
        place.mkdir()
        answer = refuses(401) if fault else completes(f"n{number}")
        found.append((number, converse(gateway, in_turn(answer), place, *[ASKED] * 3)))

    found: list[tuple[int, Seen]] = []
    threads = [threading.Thread(target=talk, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    for number, seen in found:
        assert kind(seen.lane.ending) is (Cause.CREDENTIALS if number % 2 else None)
        assert seen.lane.usage.requests == (0 if number % 2 else 3)
        assert len(seen.tape) == 3


def test_a_gateway_ends_with_its_block(tmp_path: Path) -> None:
    with Gateway() as short:
        seen = converse(short, in_turn(completes()), tmp_path)
    with pytest.raises(httpx.ConnectError):
        post(seen.lane, ASKED)
    assert not [thread for thread in threading.enumerate() if thread is short._thread]


SCRIPT = """
label: scripted
instances:
  a__b-1:
    - attempts: [1, 2]
      fault: {at: 1, status: 503, tries: [1]}
      context_window: 200
      cycle: 1
      replies:
        - {thought: first, command: ls}
        - {thought: second, tool: submit, arguments: {}}
"""


def said(script: Any, turns: int) -> dict[str, Any]:
    history = [{"role": "assistant", "content": ""}] * turns
    body = json.dumps({"messages": history})
    reply = asyncio.run(script.ask("chat/completions", body.encode()))
    return {"status": reply.status, **json.loads(reply.content)}


def test_a_script_answers_by_how_far_the_conversation_is(tmp_path: Path) -> None:
    path = tmp_path / "replies.yaml"
    path.write_text(SCRIPT)
    scripts = load_scripts(path)
    script = scripts.for_try(Attempt("a__b-1", 2), 2)
    call = said(script, 0)["choices"][0]["message"]["tool_calls"][0]["function"]
    assert call == {"name": "bash", "arguments": '{"command": "ls"}'}
    for turns in (1, 2, 3):
        message = said(script, turns)["choices"][0]["message"]
        assert message["content"] == "second"
    assert said(script, 30)["error"]["code"] == "context_length_exceeded"
    # The fault is for the first try alone.
    assert said(scripts.for_try(Attempt("a__b-1", 1), 1), 1)["status"] == 503


def test_a_script_passes_the_same_reading_as_an_endpoint(gateway: Gateway, tmp_path: Path) -> None:
    path = tmp_path / "replies.yaml"
    path.write_text(SCRIPT)
    script = load_scripts(path).for_try(Attempt("a__b-1", 1), 1)
    asked = ASKED | {"messages": [{"role": "assistant", "content": ""}]}
    with gateway.lane(script, recorder(tmp_path / "tape.jsonl"), requests=2) as lane:
        assert post(lane, ASKED).status_code == 200
        assert post(lane, asked).status_code == 503
    assert kind(lane.ending) is Cause.ENDPOINT
    # Two requests do not spend an attempt's patience: its next try may heal it.
    assert isinstance(lane.ending, Fault)
    assert not lane.ending.final
    assert lane.usage.input_tokens > 0
    # A script has no price.
    assert lane.usage.cost_usd is None


@pytest.mark.parametrize("attempt", [Attempt("a__b-1", 3), Attempt("a__b-2", 1)])
def test_an_attempt_without_a_script_is_refused(attempt: Attempt, tmp_path: Path) -> None:
    path = tmp_path / "replies.yaml"
    path.write_text(SCRIPT)
    with pytest.raises(UserError, match=r"no scripted replies for attempt .*ask for fewer"):
        load_scripts(path).for_try(attempt, 1)


@pytest.mark.parametrize("text", ["", "a: [", "label: x", SCRIPT + "extra: 1\n", "- 1"])
def test_a_file_that_holds_no_scripts_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "replies.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match="no scripted replies"):
        load_scripts(path)


@pytest.mark.parametrize(
    ("error", "ending", "again"),
    [
        ({"code": 401, "message": "no"}, Cause.CREDENTIALS, False),
        ({"code": "429", "message": "slow down"}, Cause.ENDPOINT, True),
        ({"code": 503, "message": "later"}, Cause.ENDPOINT, True),
        ({"code": "weird", "message": "?"}, Cause.ENDPOINT, False),
        ("just words", Cause.ENDPOINT, False),
        ({"code": 400, "message": "maximum context length is 4096 tokens"}, None, False),
    ],
)
def test_an_error_object_with_200_means_its_own_code(
    error: object, ending: Cause | None, again: bool
) -> None:
    body = {"error": error, "usage": {"prompt_tokens": 7, "cost": 0.5}}
    reading = read(Reply(200, json.dumps(body).encode()), "here")
    found = reading.ending.cause if isinstance(reading.ending, Fault) else None
    assert (found, reading.retry) == (ending, again)
    assert (ending is None) == (reading.ending is Stop.CONTEXT_LIMIT)
    # It was billed all the same.
    assert reading.usage is not None
    assert (reading.usage.input_tokens, reading.usage.cost_usd) == (7, 0.5)


def test_a_rate_limit_that_calls_itself_too_large_is_the_endpoints() -> None:
    body = {"error": {"code": "rate_limit_exceeded", "message": "too many tokens per minute"}}
    reading = read(Reply(413, json.dumps(body).encode()), "here")
    assert isinstance(reading.ending, Fault)
    assert reading.retry


PROVIDER = {"finish_reason": "error", "error": {"code": 502, "message": "upstream broke"}}


@pytest.mark.parametrize(
    ("choice", "cause", "again"),
    [
        ({"message": {"content": ""}, **PROVIDER}, Cause.ENDPOINT, True),
        ({"message": {"content": "half"}, "finish_reason": "error"}, Cause.ENDPOINT, True),
        ({"message": None, "finish_reason": "stop"}, Cause.ENDPOINT, True),
        ({"message": {}, "error": {"code": 401, "message": "no"}}, Cause.CREDENTIALS, False),
        ("text", Cause.ENDPOINT, True),
    ],
)
def test_a_choice_that_a_provider_broke_off_is_no_word_of_the_models(
    choice: object, cause: Cause, again: bool
) -> None:
    reading = read(Reply(200, json.dumps({"choices": [choice]}).encode()), "here")
    assert isinstance(reading.ending, Fault)
    assert (reading.ending.cause, reading.retry) == (cause, again)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "Unsupported parameter: 'safety_identifier'"),
        (400, "max_tokens is too large: 99999. This model's context window is 8192"),
        (403, "key disabled for safety reasons"),
    ],
)
def test_a_request_that_is_wrong_as_it_was_made_is_not_the_models(
    status: int, message: str
) -> None:
    body = json.dumps({"error": {"message": message}}).encode()
    assert isinstance(read(Reply(status, body), "here").ending, Fault)


def test_a_page_of_a_proxy_that_says_413_is_the_endpoints() -> None:
    page = b"<h1>413 Request Entity Too Large</h1>"
    assert isinstance(read(Reply(413, page), "here").ending, Fault)


def test_half_a_surrogate_pair_in_a_reply_is_taped_and_no_fault(
    gateway: Gateway, tmp_path: Path
) -> None:
    answer = json.loads(completes().content)
    answer["choices"][0]["message"]["content"] = "\ud83d"
    seen = converse(gateway, in_turn(as_json(answer)), tmp_path)
    assert seen.lane.ending is None
    assert seen.answers[0].status_code == 200
    assert seen.tape[0].answer == answer


@dataclass(slots=True)
class Breaking:
    """A source with a bug in it."""

    where: str = "here"
    drift: str = ""
    leftover: None = None

    def redacted(self, content: bytes) -> bytes:
        return content

    async def ask(self, api: str, body: bytes) -> Reply:
        raise ZeroDivisionError("ours")


def test_a_bug_of_the_gateway_is_a_loud_fault_and_nobody_elses(
    gateway: Gateway, tmp_path: Path
) -> None:
    with gateway.lane(Breaking(), recorder(tmp_path / "tape.jsonl")) as lane:
        answer = httpx.post(f"{lane.base_url}/chat/completions", json=ASKED, trust_env=False)
    assert answer.status_code == 500
    assert isinstance(lane.ending, Fault)
    assert lane.ending.cause is Cause.UNKNOWN
    assert "ZeroDivisionError: ours" in lane.ending.detail


@dataclass(slots=True)
class Hanging:
    """A source that never answers, and knows when nobody waits any more."""

    begun: threading.Event
    ended: threading.Event
    where: str = "here"
    drift: str = ""
    leftover: None = None

    def redacted(self, content: bytes) -> bytes:
        return content

    async def ask(self, api: str, body: bytes) -> Reply:
        self.begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            self.ended.set()
        raise AssertionError


def test_no_request_outlives_its_try(gateway: Gateway, tmp_path: Path) -> None:
    source = Hanging(threading.Event(), threading.Event())

    def ask(url: str) -> None:
        with contextlib.suppress(httpx.HTTPError):
            httpx.post(f"{url}/chat/completions", json=ASKED, timeout=20, trust_env=False)

    with gateway.lane(source, recorder(tmp_path / "tape.jsonl")) as lane:
        thread = threading.Thread(target=ask, args=(lane.base_url,))
        thread.start()
        assert source.begun.wait(10)
        assert not source.ended.is_set()
    assert source.ended.wait(5)
    thread.join(10)
