"""The doctor finds what is wrong before it costs anything, and names the remedy."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from pipeline import config
from pipeline.agents.controls import Control
from pipeline.agents.miniswe import MiniSweAgent
from pipeline.cli import main
from pipeline.cli.doctor import Sheet
from pipeline.cli.look import refuse_sick
from pipeline.doctor import Area, Check, Patient, State, preflight, read_areas
from pipeline.doctor.addresses import candidates, misnamed, nearest, proxy_for
from pipeline.doctor.dialogue import Dialogue
from pipeline.doctor.endpoint import ids_of
from pipeline.doctor.templates import KINDS
from pipeline.doctor.wire import why
from pipeline.outcomes import UserError
from tests.loopback import Answer, Received, Server, as_json, completes, refuses, serve
from tests.tries import KEY

ROOT = Path(__file__).parent.parent
MINI = ROOT / "configs" / "mini-5.yaml"
NOT_FOUND = as_json({"detail": "Not Found"}, 404)


@dataclass(slots=True)
class Endpoint:
    """A small OpenAI-compatible server, with whatever habits a test gives it."""

    at: str = "/v1"
    """Where on the host it serves."""
    key: str = KEY
    models: tuple[str, ...] = ("m-1", "m-1-mini", "other/large")
    lists: bool = True
    calls: int = 1
    """How many tool calls come back at most; 0: it answers in words."""
    says: str = "passone"
    refuses: tuple[str, ...] = ()
    """Fields of a request that it will not have."""
    differs: int = 0
    """Of the prompts at temperature 0, how many get an answer of their own."""
    usage: Mapping[str, Any] | None = None
    streams: str = "usage"
    """usage, bare, or whole: no stream at all."""
    thinks: int = 0
    """Tokens that it needs before it says anything."""
    first: list[Answer] = field(default_factory=list)
    """Before all else, one a request to chat completions."""
    asked: int = 0

    def __call__(self, request: Received, number: int) -> Answer:
        if request.headers.get("authorization") != f"Bearer {self.key}":
            return refuses(401, f"Incorrect API key: {request.headers.get('authorization')}")
        if request.path == f"{self.at}/models" and self.lists:
            return as_json({"object": "list", "data": [{"id": name} for name in self.models]})
        if request.path != f"{self.at}/chat/completions":
            return NOT_FOUND
        if self.first:
            return self.first.pop(0)
        return self.complete(request.body)

    def complete(self, body: dict[str, Any]) -> Answer:
        if body["model"] not in self.models:
            return refuses(404, f"The model `{body['model']}` does not exist.", "model_not_found")
        for name in self.refuses:
            if name in body:
                return refuses(400, f"Unsupported parameter: '{name}' is not supported.")
        usage = {"prompt_tokens": 9, "completion_tokens": 3} if self.usage is None else self.usage
        if body.get("stream"):
            return self.stream(usage)
        if body.get("max_tokens", 10_000) < self.thinks:
            answer = json.loads(completes("", usage=usage).content)
            answer["choices"][0]["finish_reason"] = "length"
            return as_json(answer)
        if "tools" in body and self.calls:
            wanted = body["messages"][0]["content"].count("`echo")
            calls = [("bash", {"command": "echo passone-ok"})] * min(self.calls, wanted)
            return completes(None, calls=calls, usage=usage)
        if "temperature" in body and body["messages"][0]["content"].startswith("Name one"):
            self.asked += 1
            return completes(f"river {min(self.asked, self.differs)}", usage=usage)
        return completes(self.says, usage=usage)

    def stream(self, usage: Mapping[str, Any]) -> Answer:
        if self.streams == "whole":
            return completes(self.says, usage=usage)
        trees: list[dict[str, Any]] = [
            {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "strea"}}]},
            {"choices": [{"index": 0, "delta": {"content": "med"}, "finish_reason": "stop"}]},
        ]
        if self.streams == "usage":
            trees.append({"choices": [], "usage": usage})
        lines = [f"data: {json.dumps(tree)}\n\n" for tree in trees] + ["data: [DONE]\n\n"]
        return Answer(
            content="".join(lines).encode(), headers={"content-type": "text/event-stream"}
        )


@dataclass(frozen=True, slots=True)
class Said:
    """How the doctor ended, and what it printed."""

    status: int
    out: str
    err: str

    def line(self, name: str) -> str:
        """What it says of one check, with the remedy below."""
        lines = self.out.splitlines()
        [at] = [n for n, line in enumerate(lines) if line[4:].startswith(f"{name}  ")]
        remedy = lines[at + 1] if at + 1 < len(lines) and "→" in lines[at + 1] else ""
        return f"{lines[at]}\n{remedy}"


Doctor = Callable[..., Said]


@pytest.fixture
def doctor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Doctor:
    """The command in this process, in an empty directory, with a key in its environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)

    def call(*argv: str | Path) -> Said:
        monkeypatch.setattr(sys, "argv", ["passone", "doctor", *map(str, argv)])
        capsys.readouterr()
        try:
            main()
            status = 0
        except SystemExit as leaving:
            status = leaving.code if isinstance(leaving.code, int) else int(bool(leaving.code))
        captured = capsys.readouterr()
        said = Said(status, captured.out, captured.err)
        # Whatever happens, the key is in nothing that is printed.
        assert KEY not in said.out + said.err
        return said

    return call


@contextmanager
def served(endpoint: Endpoint | None = None) -> Iterator[tuple[str, Server]]:
    """(The host's URL, the server)."""
    with serve(endpoint or Endpoint()) as server:
        yield server.base_url.removesuffix("/v1"), server


def at(base: str, name: str = "openai/m-1", *more: str) -> list[str]:
    assignments = (f"model.base_url={base}", f"model.name={name}", *more)
    pairs = [("--set", assignment) for assignment in assignments]
    return [str(MINI), "--only", "endpoint", *(part for pair in pairs for part in pair)]


# What decides: address, key, model, completion, tool call.


def test_a_good_endpoint_passes_every_check_that_decides(doctor: Doctor) -> None:
    with served() as (host, server):
        said = doctor(*at(f"{host}/v1"))
        paths = {request.path for request in server.requests}
    assert said.status == 0, said.out
    assert "✗" not in said.out
    for name in ("address", "key accepted", "model id", "completion", "tool call", "streaming"):
        assert "✓" in said.line(name)
    assert f"{host}/v1/chat/completions (http, host 127.0.0.1)" in said.line("base URL")
    assert "10 identical answers" in said.line("repeatability")
    assert paths == {"/v1/chat/completions", "/v1/models"}


@pytest.mark.parametrize(
    ("served_at", "written", "right"),
    [
        ("/v1", "/v1/v1", "/v1"),
        ("/v1", "", "/v1"),
        ("/v1", "/v1/completions", "/v1"),
        ("/v1", "/v1/models", "/v1"),
        ("/v1", "/v1/chat/completions/chat/completions", "/v1"),
        ("", "/v1", ""),
        ("/api/v1", "/v1", "/api/v1"),
        ("/api/v1", "/api", "/api/v1"),
    ],
)
def test_a_base_url_that_is_nearly_right_fails_and_names_the_right_one(
    served_at: str, written: str, right: str, doctor: Doctor
) -> None:
    with served(Endpoint(at=served_at)) as (host, _):
        said = doctor(*at(f"{host}{written}"))
        assert f"→ --set model.base_url={host}{right} " in said.line("address")
        assert doctor(*at(f"{host}{right}")).status == 0
    assert said.status == 2
    assert "404" in said.line("address")
    # What does not depend on it was looked at where somebody answers.
    assert "✓" in said.line("tool call")


def test_a_pasted_route_is_taken_off_and_said(doctor: Doctor) -> None:
    with served() as (host, _):
        said = doctor(*at(f"{host}/v1/chat/completions"))
    assert said.status == 0
    assert "the pasted /chat/completions is taken off" in said.line("base URL")


def test_nobody_who_speaks_the_api_is_told_with_all_that_was_tried(doctor: Doctor) -> None:
    with serve(lambda request, number: NOT_FOUND) as server:
        said = doctor(*at(server.base_url))
    assert said.status == 2
    assert "nobody speaks the chat completions API there" in said.line("address")
    assert "not looked at" in said.out


def test_a_bare_404_for_an_unknown_model_is_not_taken_for_a_wrong_address(doctor: Doctor) -> None:
    def answer(request: Received, number: int) -> Answer:
        if request.path == "/v1/models":
            return as_json({"data": [{"id": "m-1"}]})
        return refuses(404, "not found")

    with serve(answer) as server:
        said = doctor(*at(server.base_url, "openai/m-2"))
    assert "✓" in said.line("address")
    assert "--set model.name=openai/m-1" in said.line("model id")


def test_a_redirect_on_the_same_host_is_followed_to_the_right_address(doctor: Doctor) -> None:
    with served(Endpoint(at="/v2")) as (host, _):

        def moved(request: Received, number: int) -> Answer:
            return Answer(status=308, headers={"location": f"{host}/v2/chat/completions"})

        with serve(moved) as old:
            said = doctor(*at(old.base_url))
        assert f"--set model.base_url={host}/v2" in said.line("address")
    assert said.status == 2


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("openai/m-1-mimi", "--set model.name=openai/m-1"),
        ("openai/openai/m-1", "one `openai/` too many"),
        ("openai/large", "--set model.name=openai/other/large"),
        ("openai/azure/m-1", "--set model.name=openai/m-1"),
        ("openai/zzzzzz", "no id is near; /models lists m-1, m-1-mini, other/large"),
    ],
)
def test_an_unknown_model_fails_with_the_names_that_may_be_meant(
    name: str, found: str, doctor: Doctor
) -> None:
    with served() as (host, server):
        said = doctor(*at(f"{host}/v1", name))
        asked = len(server.requests)
    assert said.status == 2
    assert found in said.line("model id")
    assert "completion" in said.out.split("not looked at")[1]
    assert asked == 2


def test_an_unknown_model_fails_without_a_list_of_models_too(doctor: Doctor) -> None:
    with served(Endpoint(lists=False)) as (host, _):
        said = doctor(*at(f"{host}/v1", "openai/m-9"))
        assert doctor(*at(f"{host}/v1")).status == 0
    assert said.status == 2
    assert "the endpoint lists no models (404 at /models)" in said.line("model id")
    assert "--set model.name=openai/<id>" in said.line("model id")


def test_a_bad_key_fails_with_its_variable_and_never_its_value(doctor: Doctor) -> None:
    # The server repeats the key that it refuses.
    with served(Endpoint(key="sk-another")) as (host, _):
        said = doctor(*at(f"{host}/v1"))
    assert said.status == 2
    line = said.line("key accepted")
    assert "does not know the key in OPENAI_API_KEY (401: Incorrect API key" in line
    assert "export OPENAI_API_KEY=<a key of this endpoint>" in line
    assert "--set model.key_variable=" in line


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("YOUR_API_KEY", "still holds a placeholder"),
        ("", "is not set or empty"),
        ('"sk-quoted-key"', "is wrapped in quotes"),
        ("Bearer sk-quoted", "starts with 'Bearer'"),
        ("sk-half\u00a0key", "has a character outside ASCII"),
    ],
)
def test_a_key_that_can_be_none_fails_before_anything_is_sent(
    value: str, found: str, doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", value)
    with served() as (host, server):
        said = doctor(*at(f"{host}/v1"))
        assert server.requests == []
    assert said.status == 2
    assert f"OPENAI_API_KEY {found}" in said.line("key")
    assert "→" in said.line("key")
    assert not value or value == "YOUR_API_KEY" or value not in said.out


def test_placeholders_of_a_shipped_config_fail_each_with_its_remedy(doctor: Doctor) -> None:
    said = doctor(MINI, "--only", "endpoint")
    assert said.status == 2
    assert "--set model.base_url=https://host/v1" in said.line("base URL")
    assert "--set model.name=openai/my-model" in said.line("model name")
    assert "address, key accepted" in said.out.split("not looked at")[1]


@pytest.mark.parametrize(
    ("answer", "detail", "remedy"),
    [
        (refuses(500, "boom"), "answers 500: boom", "down or overloaded"),
        (refuses(402, "pay first"), "answers 402: pay first", "top up the account"),
        (refuses(429, "no", "insufficient_quota"), "insufficient_quota", "top up the account"),
        (refuses(429, "slow down", retry_after="0"), "slow down", "wait, or ask for a higher"),
        (refuses(422, "strange"), "answers 422: strange", "look its words up"),
        (as_json({"choices": []}), "answers 200", "no OpenAI-compatible server"),
        (as_json({"error": {"message": "broke"}}), "broke", "no OpenAI-compatible server"),
    ],
)
def test_a_completion_that_fails_fails_with_what_was_answered(
    answer: Answer, detail: str, remedy: str, doctor: Doctor
) -> None:
    with served(Endpoint(first=[answer] * 3)) as (host, _):
        said = doctor(*at(f"{host}/v1"))
    assert said.status == 2
    assert detail in said.line("completion")
    assert remedy in said.line("completion")


def test_an_endpoint_that_is_down_fails_whatever_else_is_not_known(doctor: Doctor) -> None:
    def down(request: Received, number: int) -> Answer:
        return refuses(503, "down for maintenance", retry_after="0")

    with serve(down) as server:
        said = doctor(*at(server.base_url))
    assert said.status == 2
    assert "not known" in said.line("key accepted")
    assert "not known" in said.line("model id")
    assert "answers 503: down for maintenance" in said.line("completion")


def test_what_passes_is_waited_for(doctor: Doctor) -> None:
    busy = refuses(503, "warming up", retry_after="0")
    with served(Endpoint(first=[busy, busy])) as (host, _):
        assert doctor(*at(f"{host}/v1")).status == 0


def test_a_web_page_is_no_endpoint(doctor: Doctor) -> None:
    page = Answer(content=b"<html>Welcome</html>", headers={"content-type": "text/html"})
    with serve(lambda request, number: page) as server:
        said = doctor(*at(server.base_url))
    assert said.status == 2
    assert "answers 200 with a web page" in said.line("address")


def test_a_refused_connection_says_so(doctor: Doctor) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    said = doctor(*at(f"http://127.0.0.1:{port}/v1"))
    assert said.status == 2
    assert f"127.0.0.1:{port} refuses the connection" in said.line("address")
    assert "start the server" in said.line("address")


def test_a_host_that_does_not_exist_says_so(doctor: Doctor) -> None:
    said = doctor(*at("https://endpoint.invalid/v1"))
    assert said.status == 2
    assert "no such host: endpoint.invalid has no address" in said.line("address")


def test_tls_to_a_plain_port_says_so(doctor: Doctor) -> None:
    with served() as (host, _):
        said = doctor(*at(f"{host.replace('http', 'https')}/v1"))
        assert said.status == 2
        assert "does not speak TLS" in said.line("address")
        assert f"--set model.base_url={host}/v1" in said.line("address")


def test_a_connection_that_is_dropped_says_so(doctor: Doctor) -> None:
    with serve(lambda request, number: Answer(manner="reset")) as server:
        said = doctor(*at(server.base_url))
    assert said.status == 2
    assert "✗" in said.line("address")
    assert "→" in said.line("address")


def test_no_tool_call_fails_for_an_agent_that_works_through_them(doctor: Doctor) -> None:
    with served(Endpoint(calls=0, says="I would run `ls`.")) as (host, _):
        said = doctor(*at(f"{host}/v1"))
    assert said.status == 2
    line = said.line("tool call")
    assert "no tool call comes back, and agent 'miniswe' works through them alone" in line
    assert "--enable-auto-tool-choice" in line


@pytest.mark.parametrize(
    "assignments",
    [
        ("agent.name=command", "agent.options={argv: [ls]}"),
        ("agent.options={model: {model_class: litellm_textbased}}",),
    ],
)
def test_no_tool_call_is_fine_for_an_agent_that_needs_none(
    assignments: tuple[str, ...], doctor: Doctor
) -> None:
    with served(Endpoint(calls=0)) as (host, _):
        said = doctor(*at(f"{host}/v1", "openai/m-1", *assignments))
    assert said.status == 0
    assert "–" in said.line("tool call")


@pytest.mark.parametrize(
    ("call", "found"),
    [
        (("shell", {"command": "ls"}), "a tool that was not offered"),
        (("bash", {"cmd": "ls"}), "without a command"),
    ],
)
def test_a_tool_call_that_no_agent_could_act_on_fails(
    call: tuple[str, dict[str, str]], found: str, doctor: Doctor
) -> None:
    with served(Endpoint(first=[completes("hi"), completes(None, calls=[call])])) as (host, _):
        said = doctor(*at(f"{host}/v1"))
    assert said.status == 2
    assert found in said.line("tool call")


def test_a_tool_call_that_the_server_left_in_the_text_is_seen(doctor: Doctor) -> None:
    text = '<tool_call>{"name": "bash", "arguments": {"command": "ls"}}</tool_call>'
    with served(Endpoint(calls=0, says=text)) as (host, _):
        said = doctor(*at(f"{host}/v1"))
    assert said.status == 2
    assert "the call stands in the text" in said.line("tool call")


def test_a_server_without_tools_says_how_to_have_them(doctor: Doctor) -> None:
    with served(Endpoint(refuses=("tools",))) as (host, _):
        said = doctor(*at(f"{host}/v1"))
    assert said.status == 2
    assert "✓" in said.line("completion")
    assert "--tool-call-parser" in said.line("tool call")


def test_an_answer_that_never_comes_is_given_up() -> None:
    with serve(lambda request, number: Answer(seconds=1.0)) as server:
        dialogue = Dialogue(KEY, request_seconds=0.2)
        said = dialogue.ask(server.base_url, {"model": "m-1", "messages": []})
        dialogue.close()
        detail, remedy = why(said, server.base_url, {})
    assert "gave no answer in time" in detail
    assert "try again" in remedy


# What warns and leaves 0.


def test_a_refused_temperature_warns_with_what_is_taken(doctor: Doctor) -> None:
    with served(Endpoint(refuses=("temperature",))) as (host, _):
        said = doctor(*at(f"{host}/v1"))
    assert said.status == 0
    assert "temperature 0 is refused" in said.line("sampling")
    assert "agents send it with every request" in said.line("sampling")
    assert "–" in said.line("repeatability")


def test_a_refused_seed_matters_only_to_a_plan_that_sets_one(doctor: Doctor) -> None:
    with served(Endpoint(refuses=("seed",))) as (host, _):
        without = doctor(*at(f"{host}/v1"))
        with_one = doctor(*at(f"{host}/v1", "openai/m-1", "sampling.seed=1"))
    assert (without.status, with_one.status) == (0, 0)
    assert "✓" in without.line("seed")
    assert "leave sampling.seed out" in with_one.line("seed")


def test_answers_that_differ_at_temperature_0_are_counted(doctor: Doctor) -> None:
    with served(Endpoint(differs=4)) as (host, _):
        said = doctor(*at(f"{host}/v1"))
    assert said.status == 0
    # Three once, and the rest alike.
    assert "3 of 10 differ" in said.line("repeatability")


@pytest.mark.parametrize(
    ("streams", "found"),
    [("bare", "without usage in its last chunk"), ("whole", "the answer came whole")],
)
def test_a_stream_that_lacks_something_warns(streams: str, found: str, doctor: Doctor) -> None:
    with served(Endpoint(streams=streams)) as (host, _):
        said = doctor(*at(f"{host}/v1"))
    assert said.status == 0
    assert "!" in said.line("streaming")
    assert found in said.line("streaming")


def test_a_server_without_stream_options_still_streams(doctor: Doctor) -> None:
    with served(Endpoint(refuses=("stream_options",))) as (host, _):
        assert "✓" in doctor(*at(f"{host}/v1")).line("streaming")


def test_usage_cached_tokens_and_price_are_read_from_what_is_reported(doctor: Doctor) -> None:
    whole = {
        "prompt_tokens": 9,
        "completion_tokens": 3,
        "prompt_tokens_details": {"cached_tokens": 4},
        "cost": 0.001,
    }
    with served(Endpoint(usage=whole)) as (host, _), served(Endpoint(usage={})) as (bare, _):
        rich, poor = doctor(*at(f"{host}/v1")), doctor(*at(f"{bare}/v1"))
        priced = doctor(
            *at(f"{bare}/v1", "openai/m-1", "model.prices={m-1: {input: 1, output: 2}}")
        )
    assert (rich.status, poor.status) == (0, 0)
    assert "4 at most" in rich.line("cached tokens")
    assert "dollar limits hold" in rich.line("price")
    assert "!" in poor.line("usage")
    assert "!" in poor.line("cached tokens")
    assert "limits.cost_usd cannot hold" in poor.line("price")
    assert "known from model.prices" in priced.line("price")


def test_several_calls_in_one_reply_are_trouble_for_one_agent_only(doctor: Doctor) -> None:
    with served(Endpoint(calls=2)) as (host, _):
        mini = doctor(*at(f"{host}/v1"))
        swe = doctor(*at(f"{host}/v1", "openai/m-1", "agent.name=sweagent"))
    assert (mini.status, swe.status) == (0, 0)
    assert "✓" in mini.line("parallel calls")
    assert "parallel_tool_calls" in swe.line("parallel calls")


def test_a_model_that_thinks_first_gets_more_room(doctor: Doctor) -> None:
    with served(Endpoint(thinks=500)) as (host, server):
        said = doctor(*at(f"{host}/v1"))
        ceilings = [r.body["max_tokens"] for r in server.requests if r.content]
    assert said.status == 0
    assert "✓" in said.line("completion")
    assert (ceilings[0], ceilings[1]) == (64, 2048)


def test_a_ceiling_of_another_name_is_tried(doctor: Doctor) -> None:
    with served(Endpoint(refuses=("max_tokens",))) as (host, server):
        assert doctor(*at(f"{host}/v1")).status == 0
        assert "max_completion_tokens" in server.requests[-1].body


# The environment and the config.


def test_variables_that_other_programs_obey_are_named(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "https://elsewhere.invalid/v1")
    monkeypatch.setenv("HTTP_PROXY", "http://user:secret-word@proxy.invalid:3128")
    with served() as (host, _):
        said = doctor(*at(f"{host}/v1"))
    assert said.status == 0
    assert "OPENAI_BASE_URL is set and not used" in said.line("environment")
    assert 'base_url: "${OPENAI_BASE_URL}"' in said.line("environment")
    assert "HTTP_PROXY: set, and not used for this endpoint" in said.line("environment")
    assert "secret-word" not in said.out


@pytest.mark.parametrize(
    ("environ", "used"),
    [
        ({}, ""),
        ({"HTTPS_PROXY": "http://proxy:1"}, "HTTPS_PROXY"),
        ({"https_proxy": "http://proxy:1"}, "https_proxy"),
        ({"HTTP_PROXY": "http://proxy:1"}, ""),
        ({"ALL_PROXY": "http://proxy:1"}, "ALL_PROXY"),
        ({"ALL_PROXY": "http://proxy:1", "NO_PROXY": "other,.example.com"}, ""),
        ({"ALL_PROXY": "http://proxy:1", "no_proxy": "*"}, ""),
        ({"ALL_PROXY": "http://proxy:1", "NO_PROXY": "ample.com"}, "ALL_PROXY"),
    ],
)
def test_the_proxy_that_a_request_takes_is_known(environ: dict[str, str], used: str) -> None:
    assert proxy_for("https://api.example.com/v1", environ)[0] == used
    assert proxy_for("http://127.0.0.1:8000/v1", environ) == ("", "")


def test_a_proxy_that_does_not_work_is_named(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://me:secret-word@127.0.0.1:1")
    said = doctor(*at("https://endpoint.invalid/v1"))
    assert said.status == 2
    assert "go through 127.0.0.1:1 (HTTPS_PROXY)" in said.line("environment")
    assert "the proxy 127.0.0.1:1 (HTTPS_PROXY) does not let it through" in said.line("address")
    assert "unset HTTPS_PROXY" in said.line("address")
    assert "secret-word" not in said.out


def test_a_proxy_that_needs_a_package_is_named(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", "nonsense://127.0.0.1:1")
    said = doctor(*at("https://endpoint.invalid/v1"))
    assert said.status == 2
    assert "the proxy does not work" in said.line("address")


@pytest.mark.parametrize("written", ["api_base_url", "base-url", "api_base"])
def test_a_misspelt_field_is_refused_with_the_right_name(written: str, doctor: Doctor) -> None:
    said = doctor(MINI, "--set", f"model.{written}=http://127.0.0.1:1/v1")
    assert said.status == 2
    assert "did you mean 'model.base_url'?" in said.err


def test_an_unknown_area_is_refused_with_the_known_ones(doctor: Doctor) -> None:
    said = doctor(MINI, "--only", "endpoint,dokcer")
    assert said.status == 2
    assert "unknown area 'dokcer'; did you mean 'docker'?" in said.err
    assert all(area in said.err for area in Area if area is not Area.SMOKE)
    assert "for that there is --smoke" in doctor(MINI, "--only", "smoke").err
    assert read_areas("disk, Endpoint") == {Area.DISK, Area.ENDPOINT}


def test_a_config_that_holds_the_key_fails(doctor: Doctor) -> None:
    with served() as (host, server):
        said = doctor(*at(f"{host}/v1", "openai/m-1", f"agent.options={{note: {KEY}}}"))
        assert server.requests == []
    assert said.status == 2
    assert "the config holds the value of OPENAI_API_KEY" in said.line("key")


def test_secrets_in_headers_and_echoes_are_in_nothing_that_is_printed(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEAM_TOKEN", "team-token-0815")

    def echo(request: Received, number: int) -> Answer:
        return refuses(403, f"not for {dict(request.headers)}\x1b[31m[bold]")

    with serve(echo) as server:
        base = server.base_url
        said = doctor(*at(base, "openai/m-1", "model.headers={x-team-token: '${TEAM_TOKEN}'}"))
    assert said.status == 2
    assert "[redacted by passone]" in said.out
    assert "team-token-0815" not in said.out + said.err
    # Nothing that a terminal, or our own printing, would obey.
    assert "\x1b" not in said.out
    assert "doctor" not in said.err


# Machine, agent, dataset.


def test_scripted_replies_need_no_endpoint(doctor: Doctor) -> None:
    said = doctor(ROOT / "configs" / "demo.yaml", "--set", "sandbox.kind=local")
    assert said.status == 0, said.out
    assert "scripted replies (demo) stand in for a model" in said.line("endpoint")
    assert "5 of demo drawn" in said.line("dataset")
    assert "GB free" in said.line("disk")
    assert "miniswe 2.4.6" in said.line("agent")


def test_an_agent_that_asks_no_model_needs_no_endpoint(doctor: Doctor) -> None:
    said = doctor(MINI, "--only", "endpoint", "--set", "agent.name=gold")
    assert said.status == 0
    assert "agent 'gold' asks no model" in said.line("endpoint")


def test_what_the_machine_lacks_warns_and_leaves_0(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    said = doctor(
        *(MINI, "--only", "agent,docker,images,disk"),
        *("--set", "agent.name=sweagent", "--set", "selection.dataset=nowhere.parquet"),
        *("--set", "agent.options={program: nowhere/sweagent}"),
    )
    assert said.status == 0
    assert "no SWE-agent 1.x found" in said.line("agent")
    assert "Docker does not answer at tcp://127.0.0.1:1" in said.line("docker")
    assert "no such file" in said.line("dataset")
    assert "images" in said.out.split("not looked at")[1]


@pytest.mark.docker
def test_docker_and_images_of_a_real_daemon(doctor: Doctor) -> None:
    said = doctor(ROOT / "configs" / "demo.yaml", "--only", "images,disk")
    assert said.status == 0
    assert "Docker " in said.line("docker")
    assert "made on this machine" in said.line("images")


@pytest.mark.docker
def test_an_image_that_nobody_has_warns(doctor: Doctor) -> None:
    row = json.loads((ROOT / "pipeline/demo/instances.jsonl").read_text().partition("\n")[0])
    row["image"] = "127.0.0.1:1/nobody/has/this:1"
    Path("rows.jsonl").write_text(json.dumps(row) + "\n")
    said = doctor(
        *(MINI, "--only", "images"),
        *("--set", "selection={dataset: rows.jsonl, strategy: all}"),
    )
    assert said.status == 0
    assert "no image of the 1 instance is here" in said.line("images")
    assert "sandbox.mirrors" in said.line("images")


# Faces: JSON, terminal, the short form, configs to begin with, the smoke test.


def test_json_has_every_check_with_all_its_fields(doctor: Doctor) -> None:
    with served(Endpoint(key="sk-another")) as (host, _):
        said = doctor(*at(f"{host}/v1"), "--json")
    tree = json.loads(said.out)
    assert (said.status, tree["exit"]) == (2, 2)
    checks = {check["name"]: check for check in tree["checks"]}
    fields = {"name", "area", "state", "detail", "remedy", "raw"}
    assert all(set(check) == fields for check in tree["checks"])
    assert checks["key accepted"]["state"] == "fail"
    assert checks["latency"] == {
        "name": "latency",
        "area": "endpoint",
        "state": "skipped",
        "detail": "needs completion",
        "remedy": "",
        "raw": "",
    }
    assert tree["spent"] == {"requests": 0, "tokens": 0}


@pytest.mark.parametrize("width", [60, 100])
def test_lines_fit_a_terminal_and_urls_stay_whole(width: int) -> None:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=True, color_system="standard")
    sheet = Sheet(console, 10)
    url = "https://a-host.example.com/v1"
    text = f"what answers at {url} [bold]says[/bold] nothing that anybody here could make use of"
    check = Check(
        name="address", area=Area.ENDPOINT, state=State.FAIL, detail=text, remedy=f"not {text}"
    )
    sheet.add(check)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())
    assert all(len(line) <= width for line in shown.splitlines())
    assert shown.count(url) == 2
    assert shown.count("[bold]says[/bold]") == 2
    assert "\x1b[31m✗\x1b[0m" in out.getvalue()


def test_only_looks_at_what_is_asked_for_and_at_what_that_needs(doctor: Doctor) -> None:
    said = doctor(MINI, "--only", "python", "--json")
    assert {check["area"] for check in json.loads(said.out)["checks"]} == {"python"}


def a_patient(base: str, **changes: Any) -> Patient:
    tree = yaml.safe_load(MINI.read_text(encoding="utf-8"))
    tree["model"] |= {"base_url": base, "name": "openai/m-1"}
    values: dict[str, Any] = {
        "recipe": config.parse(tree, "test"),
        "agent": MiniSweAgent({}),
        "environ": {"OPENAI_API_KEY": KEY},
        "draw": lambda say: [],
    }
    return Patient(**(values | changes))


def failed(checks: list[Check]) -> set[str]:
    return {check.name for check in checks if check.state is State.FAIL}


def test_the_short_form_is_one_completion_with_the_tool_offered() -> None:
    with served() as (host, server):
        checks = preflight(a_patient(f"{host}/v1"))
        [completion] = [request for request in server.requests if request.content]
    assert failed(list(checks)) == set()
    assert completion.body["tools"][0]["function"]["name"] == "bash"
    assert len(server.requests) == 2


def test_the_short_form_finds_what_decides() -> None:
    with served(Endpoint(calls=0)) as (host, _):
        assert failed(list(preflight(a_patient(f"{host}/v1")))) == {"tool call"}
        assert failed(list(preflight(a_patient(f"{host}/v1", calls_tools=False)))) == set()
        assert failed(list(preflight(a_patient(f"{host}/v1/v1")))) == {"address", "tool call"}
    assert preflight(a_patient("", agent=Control("gold"))) == ()


def test_a_server_that_refuses_the_tool_is_told_in_the_short_form_too() -> None:
    with served(Endpoint(refuses=("tools",))) as (host, _):
        checks = {check.name: check for check in preflight(a_patient(f"{host}/v1"))}
    assert checks["completion"].state is State.FAIL
    assert "--tool-call-parser" in checks["completion"].remedy


def test_a_run_is_refused_with_each_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with served() as (host, _):
        sick, well = a_patient(f"{host}/v1/v1"), a_patient(f"{host}/v1")
        with pytest.raises(UserError, match=rf"address: .*; --set model.base_url={host}/v1 "):
            refuse_sick(sick.recipe, sick.agent, logs=Path("logs"))
        assert refuse_sick(well.recipe, well.agent, logs=Path("logs")) == []


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_written_config_is_read_and_works(kind: str, doctor: Doctor) -> None:
    assert doctor("--write-config", kind, "-o", f"{kind}.yaml").status == 0
    recipe = config.load(Path(f"{kind}.yaml"))
    assert recipe.model.base_url.endswith("/v1") == (kind != "gateway")
    said = doctor("--write-config", kind, "-o", f"{kind}.yaml")
    assert said.status == 2
    assert "is there already" in said.err
    with served(Endpoint(at="" if kind == "gateway" else "/v1")) as (host, _):
        base = host if kind == "gateway" else f"{host}/v1"
        said = doctor(
            *("--write-config", kind, "-o", "mine.yaml", "--set", f"model.base_url={base}"),
            *("--set", "model.name=openai/m-1", "--set", "model.key_variable=OPENAI_API_KEY"),
        )
        assert said.status == 0, said.err
        assert doctor("mine.yaml", "--only", "endpoint").status == 0


def test_a_config_is_printed_where_no_file_is_named(doctor: Doctor) -> None:
    said = doctor("--write-config", "vllm", "--set", "model.name=on")
    tree = yaml.safe_load(said.out)
    assert tree["model"] == {
        "name": "on",
        "base_url": "http://localhost:8000/v1",
        "key_variable": "VLLM_API_KEY",
    }
    assert "--enable-auto-tool-choice" in said.out


@pytest.mark.parametrize(
    ("argv", "found"),
    [
        (("--write-config", "vlm"), "unknown kind 'vlm'; known: gateway, v1, vllm"),
        (("--write-config", "v1", "--set", "attempts=3"), "not for 'attempts'"),
        (("--write-config", "v1", "--set", "attempts"), "expected KEY=VALUE"),
        (("--write-config", "v1", "-o", "/proc/x/y.yaml"), "cannot be written"),
        ((), "name a config"),
    ],
)
def test_what_cannot_be_written_is_refused(
    argv: tuple[str, ...], found: str, doctor: Doctor
) -> None:
    said = doctor(*argv)
    assert said.status == 2
    assert found in said.err


SMOKE = ("--smoke", "--set", "sandbox.kind=local", "--set", "selection={dataset: demo, size: 1}")
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


def acts(*commands: str, last: Answer | None = None) -> Callable[[Received, int], Answer]:
    """Answers the doctor as it wants, then plays an agent's model."""

    def answer(request: Received, number: int) -> Answer:
        if request.path.endswith("/models"):
            return as_json({"data": [{"id": "m-1"}]})
        step = sum(1 for m in request.body["messages"] if m["role"] == "assistant")
        if last is not None and len(request.body["messages"]) > 1 and step == len(commands):
            return last
        command = commands[min(step, len(commands) - 1)]
        return completes("I look around.", calls=[("bash", {"command": command})])

    return answer


def test_the_smoke_test_shows_thought_action_and_observation(doctor: Doctor) -> None:
    with serve(acts("echo passone-ok && ls -la", SUBMIT)) as server:
        said = doctor(*at(server.base_url)[:1], *at(server.base_url)[3:], *SMOKE)
        prompts = [r.content for r in server.requests if b"check of the set-up" in r.content]
    assert said.status == 0, said.out
    assert "thought      I look around." in said.out
    assert "action       echo passone-ok && ls -la" in said.out
    assert "passone-ok" in said.out.split("observation")[1]
    assert "pyproject.toml" in said.out
    assert "works: submitted" in said.out
    assert "note:" not in said.out
    assert len(prompts) == 2


def test_a_smoke_test_that_breaks_says_how_and_keeps_what_was_left(doctor: Doctor) -> None:
    dead = refuses(401, "the key was just revoked")
    with serve(acts("echo passone-ok", last=dead)) as server:
        said = doctor(*at(server.base_url)[:1], *at(server.base_url)[3:], *SMOKE, "--json")
    tree = json.loads(said.out)
    assert (said.status, tree["exit"]) == (2, 2)
    assert "credentials fault" in tree["smoke"]["ended"]
    kept = Path(tree["smoke"]["kept"])
    assert (kept / "fault.txt").is_file()
    [root] = [path for path in kept.parents if path.name.startswith("passone-smoke-")]
    shutil.rmtree(root)


def test_a_smoke_test_does_not_begin_where_the_endpoint_is_wrong(doctor: Doctor) -> None:
    with served(Endpoint(calls=0)) as (host, _):
        base = f"{host}/v1"
        said = doctor(*at(base)[:1], *at(base)[3:], *SMOKE)
    assert said.status == 2
    assert "container, request, model" in said.out.split("not looked at")[1]
    assert "what the agent did" not in said.out


def test_the_scripted_demo_can_be_tried_out(doctor: Doctor) -> None:
    said = doctor(ROOT / "configs" / "demo.yaml", "--smoke", "--set", "sandbox.kind=local")
    assert said.status == 0
    assert "step 4" in said.out


def test_the_command_itself_ends_with_the_status(tmp_path: Path) -> None:
    environ = {**os.environ, "OPENAI_API_KEY": KEY}
    command = [sys.executable, "-c", "from pipeline.cli import main; main()", "doctor"]
    with served() as (host, _):
        for base, status in ((f"{host}/v1", 0), (f"{host}/v1/v1", 2)):
            done = subprocess.run(
                [*command, *at(base)],
                env=environ,
                cwd=ROOT,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == status, done.stderr
            assert "\x1b" not in done.stdout
            assert done.stderr == ""


# Pure functions.


def test_candidates_never_hold_the_url_itself_and_stay_on_the_host() -> None:
    for base in ("https://h/v1", "https://h", "https://h/v1/v1", "https://h/x/v1/models"):
        others = candidates(base)
        assert base not in others
        assert len(set(others)) == len(others)
        assert all(url.startswith("https://h") and not url.endswith("/") for url in others)


@pytest.mark.parametrize(
    ("tree", "ids"),
    [
        ({"data": [{"id": "a"}, {"id": "b"}]}, ["a", "b"]),
        ([{"id": "a"}], ["a"]),
        ({"models": [{"name": "a"}]}, ["a"]),
        ({"data": ["a"]}, ["a"]),
        ({"data": []}, []),
        ({"detail": "x"}, None),
        ("text", None),
        (None, None),
    ],
)
def test_lists_of_models_are_read_in_any_of_their_forms(tree: Any, ids: list[str] | None) -> None:
    assert ids_of(tree) == ids


def test_a_prefix_that_is_wrong_is_explained() -> None:
    listed = ["openai/gpt-x", "org/coder", "plain"]
    assert "lacks the provider" in misnamed("openai/gpt-x", "gpt-x", listed)[0]
    assert misnamed("openai/gpt-x", "gpt-x", listed)[1] == "openai/openai/gpt-x"
    assert misnamed("openai/coder", "coder", listed)[1] == "openai/org/coder"
    assert misnamed("openai/x/plain", "x/plain", listed)[1] == "openai/plain"
    assert misnamed("openai/new", "new", listed) == ("", "")
    assert nearest("PLAIN", listed) == ["plain"]


def test_a_patient_without_a_key_variable_names_the_one_of_the_config() -> None:
    checks = preflight(a_patient("http://127.0.0.1:9/v1", environ={}))
    assert failed(list(checks)) == {"key"}
    with pytest.raises(UserError):
        read_areas("")
