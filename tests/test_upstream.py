"""Keys and base URLs: what a person can get wrong is refused before anything runs."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest

from pipeline.domain import Cause, Fault
from pipeline.gateway.replies import Reply, read
from pipeline.gateway.upstream import Upstream, check_endpoint, read_key
from pipeline.outcomes import UserError
from pipeline.recipe import ModelRecipe
from tests.loopback import Answer, Received, completes, in_turn, refuses, serve

KEY = "sk-proj-aB3_planted-Key0"


@pytest.mark.parametrize(
    "value",
    [KEY, f"{KEY}\n", f"{KEY}\r\n", f"  {KEY}\t", f"{KEY}\u00a0", f"\n{KEY}\n\n"],
    ids=["bare", "newline", "crlf", "blanks", "nbsp", "lines"],
)
def test_a_key_is_stripped(value: str) -> None:
    assert read_key("SOME_KEY", {"SOME_KEY": value}) == KEY


@pytest.mark.parametrize("value", ["EMPTY", "dummy", "local", "x", "a.b/c+d=="])
def test_a_local_server_may_want_a_key_that_is_none(value: str) -> None:
    assert read_key("SOME_KEY", {"SOME_KEY": value}) == value


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "is not set or empty"),
        ("", "is not set or empty"),
        (" \n\t", "is not set or empty"),
        ("YOUR_API_KEY", "placeholder"),
        ("your-api-key", "placeholder"),
        ("sk-your-key-here", "placeholder"),
        ("<paste it here>", "placeholder"),
        ("<key>", "placeholder"),
        ("changeme", "placeholder"),
        ("xxxxxxxx", "placeholder"),
        ("sk-xxxxxxxxxxxxxxxx", "placeholder"),
        ("...", "placeholder"),
        ("sk-...", "placeholder"),
        ("sk-…", "outside ASCII"),
        (f'"{KEY}"', "quotes"),
        (f"'{KEY}'", "quotes"),
        (f'{KEY}"', "quotes"),
        (f"Bearer {KEY}", "Bearer"),
        (f"bearer {KEY}", "Bearer"),
        (f"{KEY} {KEY}", "white space"),
        (f"{KEY}\n{KEY}", "white space"),
        (f"{KEY}\t1", "white space"),
        (f"{KEY}\x071", "white space"),
        (f"{KEY}\u00a01", "outside ASCII"),
        (f"{KEY}\u200b", "outside ASCII"),
        (f"\u201c{KEY}\u201d", "outside ASCII"),
        ("sk-\u043a\u043b\u044e\u0447", "outside ASCII"),
    ],
)
def test_a_key_that_cannot_be_one_is_refused_and_not_repeated(
    value: str | None, message: str
) -> None:
    with pytest.raises(UserError) as caught:
        read_key("SOME_KEY", {} if value is None else {"SOME_KEY": value})
    said = str(caught.value)
    assert message in said
    assert said.startswith("SOME_KEY ")
    assert "export SOME_KEY=" in said or "set it to the bare key" in said
    assert KEY not in said
    assert not value or value.strip() not in said or not value.strip()


def test_a_key_stands_in_no_representation() -> None:
    assert KEY not in repr(Upstream("http://host/v1", KEY))


@pytest.mark.parametrize(
    ("written", "used"),
    [
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1"),
        ("https://host/v1/", "https://host/v1"),
        ("https://host/v1//", "https://host/v1"),
        ("  https://host/v1\n", "https://host/v1"),
        ("https://host/v1/chat/completions", "https://host/v1"),
        ("https://host/v1/chat/completions/", "https://host/v1"),
        ("https://host/api/openai/v1", "https://host/api/openai/v1"),
        # Some serve at <base>/chat/completions: nothing is added.
        ("https://host", "https://host"),
        ("https://host/chat/completions", "https://host"),
        ("https://host:8443/proxy", "https://host:8443/proxy"),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1"),
    ],
)
def test_a_base_url_is_used_as_it_is_meant(written: str, used: str) -> None:
    assert check_endpoint(ModelRecipe(name="openai/m", base_url=written)) == used


@pytest.mark.parametrize(
    "written",
    [
        "",
        " ",
        "host/v1",
        "127.0.0.1:8000/v1",
        "htp://host/v1",
        "ftp://host/v1",
        "http:/host/v1",
        "https://",
        "https:///v1",
        "https://ho st/v1",
        "https://host/v1 # mine",
        "https://…/v1",
        "https://YOUR_ENDPOINT/v1",
        "https://<host>/v1",
        "https://user:password@host/v1",
        "https://host:port/v1",
        "https://host:99999/v1",
        "https://host/v1?api-version=1",
        "https://host/v1#top",
    ],
)
def test_a_base_url_that_cannot_work_is_refused_with_the_remedy(written: str) -> None:
    with pytest.raises(UserError, match=r"model\.base_url"):
        check_endpoint(ModelRecipe(name="openai/m", base_url=written))


@pytest.mark.parametrize("name", ["", "none", "openai/", "openai/YOUR_MODEL_ID", "<model>"])
def test_a_model_name_that_names_nothing_is_refused_with_the_remedy(name: str) -> None:
    with pytest.raises(UserError, match=r"model\.name.*--set model\.name=openai/"):
        check_endpoint(ModelRecipe(name=name, base_url="https://host/v1"))


def ask(base_url: str, key: str = KEY) -> Reply:
    async def once() -> Reply:
        upstream = Upstream(base_url, key)
        try:
            return await upstream.ask("chat/completions", b'{"messages": []}')
        finally:
            await upstream.close()

    return asyncio.run(once())


def only_at(path: str) -> object:
    def answer(request: Received, number: int) -> Answer:
        return completes() if request.path == path else refuses(404, f"no route {request.path}")

    return answer


@pytest.mark.parametrize(
    ("served_at", "written", "found"),
    [
        ("/v1/chat/completions", "{host}/v1", True),
        ("/v1/chat/completions", "{host}/v1/", True),
        ("/v1/chat/completions", "{host}/v1//", True),
        ("/v1/chat/completions", " {host}/v1 ", True),
        ("/v1/chat/completions", "{host}/v1/chat/completions", True),
        ("/v1/chat/completions", "{host}", False),
        ("/v1/chat/completions", "{host}/v1/v1", False),
        ("/chat/completions", "{host}", True),
        ("/chat/completions", "{host}/", True),
        ("/chat/completions", "{host}/chat/completions", True),
        ("/chat/completions", "{host}/v1", False),
        ("/api/x/chat/completions", "{host}/api/x", True),
    ],
)
def test_base_urls_with_and_without_v1_reach_who_serves_there(
    served_at: str, written: str, found: bool
) -> None:
    with serve(only_at(served_at)) as server:  # type: ignore[arg-type]
        host = server.base_url.removesuffix("/v1")
        base = check_endpoint(ModelRecipe(name="m", base_url=written.format(host=host)))
        ending = read(ask(base), base).ending
    if found:
        assert ending is None
    else:
        assert isinstance(ending, Fault)
        assert ending.cause is Cause.ENDPOINT
        assert "with and without /v1" in ending.detail


@pytest.mark.parametrize("base", ["https://127.0.0.1:{port}/v1", "http://127.0.0.1:1/v1"])
def test_nobody_who_speaks_our_protocol_is_an_error_of_the_wire(base: str) -> None:
    with serve(in_turn(completes())) as server:
        port = server.base_url.split(":")[2].partition("/")[0]
        with pytest.raises(httpx.HTTPError):
            ask(base.format(port=port))


def test_the_key_goes_up_and_never_comes_back() -> None:
    def echo(request: Received, number: int) -> Answer:
        said = f"Incorrect API key provided: {request.headers['authorization']}"
        return refuses(401, said)

    with serve(echo) as server:
        reply = ask(server.base_url)
        assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert KEY.encode() not in reply.content
    assert "[redacted by passone]" in json.loads(reply.content)["error"]["message"]
