"""Server-sent events: cut anywhere, they are the same; added up, they are the whole answer."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.domain import Fault
from pipeline.gateway import streams
from pipeline.gateway.replies import CHAT, RESPONSES, Reply, read
from pipeline.gateway.streams import Event, Parser, as_events, assembled, events_of
from tests.fakes import PROPERTY
from tests.loopback import event, piece

WIRE: Mapping[str, tuple[bytes, list[str]]] = {
    # what came over the wire, and the data of its events
    "two events": (b"data: a\n\ndata: b\n\n", ["a", "b"]),
    "CRLF": (b"data: a\r\n\r\ndata: b\r\n\r\n", ["a", "b"]),
    "CRLF and LF mixed": (b"data: a\r\n\ndata: b\n\r\n", ["a", "b"]),
    "no blank after the colon": (b'data:{"a":1}\n\n', ['{"a":1}']),
    "a comment before": (b": OPENROUTER PROCESSING\n\ndata: a\n\n", ["a"]),
    "a comment within": (b": ping\ndata: a\n: pong\n\n", ["a"]),
    "a comment alone": (b": ping\n\n: ping\n\n", []),
    "named": (b"event: response.created\ndata: a\n\n", ["a"]),
    "numbered": (b"id: 7\nretry: 10\ndata: a\n\n", ["a"]),
    "two lines of data": (b'data: {"a":\ndata: 1}\n\n', ['{"a":\n1}']),
    "many blank lines": (b"\n\n\ndata: a\n\n\n\n\ndata: b\n\n", ["a", "b"]),
    "a name without data": (b"event: ping\n\ndata: a\n\n", ["a"]),
    "a line separator of Unicode": ("data: a\u2028b\n\n".encode(), ["a\u2028b"]),
    "beyond ASCII": ("data: é😀\n\n".encode(), ["é😀"]),
    "no UTF-8": (b"data: \xff\n\n", ["\ufffd"]),
    "not yet over": (b"data: a\n\ndata: b\n", ["a"]),
    "nothing": (b"", []),
}


def fed(*chunks: bytes) -> list[Event]:
    parser = Parser()
    return [found for chunk in chunks for found in parser.feed(chunk)]


@pytest.mark.parametrize("name", WIRE)
def test_events_are_what_stands_between_blank_lines(name: str) -> None:
    wire, data = WIRE[name]
    assert [found.data for found in fed(wire)] == data


@pytest.mark.parametrize("name", WIRE)
def test_an_event_is_the_same_wherever_its_bytes_are_cut(name: str) -> None:
    wire, _ = WIRE[name]
    for at in range(len(wire) + 1):
        assert fed(wire[:at], wire[at:]) == fed(wire)
    assert fed(*(wire[at : at + 1] for at in range(len(wire)))) == fed(wire)


LINES = st.text('ab: {"é😀\u2028\u0085\0', min_size=1, max_size=9)


@PROPERTY
@given(
    st.lists(st.tuples(LINES, st.sampled_from(["\n", "\r\n"])), max_size=5),
    st.lists(st.integers(min_value=0, max_value=100), max_size=9),
)
def test_any_stream_cut_in_any_places_gives_the_same_events(
    said: list[tuple[str, str]], cuts: list[int]
) -> None:
    wire = "".join(f"data: {text}{end}{end}" for text, end in said).encode()
    places = sorted({0, *(cut for cut in cuts if cut < len(wire)), len(wire)})
    chunks = [wire[a:b] for a, b in itertools.pairwise(places)]
    found = fed(*chunks)
    assert found == fed(wire)
    assert b"".join(one.raw for one in found) == wire
    assert [one.data.split() for one in found] == [text.split() for text, _ in said]


def all_of(*chunks: bytes) -> list[Event]:
    async def come() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    async def listen() -> list[Event]:
        return [one async for one in events_of(come())]

    return asyncio.run(listen())


@pytest.mark.parametrize("wire", [b"data: a\n\ndata: b", b"data: a\n\ndata: b\n"])
def test_a_last_event_without_its_blank_line_counts_and_leaves_with_one(wire: bytes) -> None:
    found = all_of(wire)
    assert [one.data for one in found] == ["a", "b"]
    assert found[-1].raw.startswith(b"data: b\n")
    assert found[-1].raw.endswith(b"\n\n")


def test_an_event_of_ten_megabytes_is_no_stall() -> None:
    """Every lane waits while one is parsed: its time must not grow with the square of its size."""
    chunk, began = b"x" * 16_384, time.process_time()
    found = all_of(b"data: ", *[chunk] * 640, b"\n\n")
    assert len(found[0].data) == 640 * len(chunk)
    assert time.process_time() - began < 1


def added(*trees: object, end: bool = True, api: str = CHAT) -> dict[str, Any]:
    data = [tree if isinstance(tree, str) else json.dumps(tree) for tree in trees]
    return assembled(api, [*data, "[DONE]"] if end else data)


def message(*trees: object) -> dict[str, Any]:
    found: dict[str, Any] = added(*trees)["choices"][0]["message"]
    return found


def call(index: int | None, **parts: Any) -> dict[str, Any]:
    function = {key: parts.pop(key) for key in ("name", "arguments") if key in parts}
    return {"index": index, **parts, "function": function}


def test_words_add_up() -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 2}
    whole = added(
        piece({"role": "assistant", "content": ""}, usage=None),
        piece({"content": "Hel"}),
        piece({"content": "lo"}),
        piece({}, "stop"),
        {"id": "scripted", "choices": [], "usage": usage},
    )
    assert whole == {
        "id": "scripted",
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hello"},
                "finish_reason": "stop",
            }
        ],
        "usage": usage,
    }


def test_reasoning_and_refusal_add_up_beside_the_content() -> None:
    found = message(
        piece({"role": "assistant", "content": None, "reasoning_content": "Let "}),
        piece({"reasoning_content": "me see."}),
        piece({"refusal": "I "}),
        piece({"refusal": "won't."}),
        piece({"content": "No."}, "stop"),
    )
    assert found == {
        "role": "assistant",
        "content": "No.",
        "reasoning_content": "Let me see.",
        "refusal": "I won't.",
    }


def test_parallel_tool_calls_are_told_apart_by_their_index() -> None:
    found = message(
        piece({"tool_calls": [call(1, id="b", type="function", name="ls", arguments="")]}),
        piece({"tool_calls": [call(0, id="a", type="function", name="cat", arguments="")]}),
        piece({"tool_calls": [call(1, arguments='{"x"'), call(0, arguments='{"y"')]}),
        piece({"tool_calls": [call(0, arguments=":1}")]}),
        piece({"tool_calls": [call(1, arguments=":2}")]}, "tool_calls"),
    )
    assert found["tool_calls"] == [
        {"id": "a", "type": "function", "function": {"name": "cat", "arguments": '{"y":1}'}},
        {"id": "b", "type": "function", "function": {"name": "ls", "arguments": '{"x":2}'}},
    ]


@pytest.mark.parametrize("missing", [{}, {"index": None}], ids=["absent", "null"])
def test_whole_tool_calls_without_an_index_are_a_call_each(missing: dict[str, Any]) -> None:
    """As Gemini's compatible endpoint sends them."""
    calls = [
        {"id": name, "type": "function", "function": {"name": name, "arguments": "{}"}}
        for name in ("ls", "cat")
    ]
    found = message(
        piece({"tool_calls": [missing | calls[0]]}),
        piece({"tool_calls": [missing | calls[1]]}, "tool_calls"),
    )
    assert found["tool_calls"] == calls


def test_several_choices_are_kept_apart() -> None:
    def of(index: int, text: str, reason: str | None = None) -> dict[str, Any]:
        return {"choices": [{"index": index, "delta": {"content": text}, "finish_reason": reason}]}

    whole = added(of(1, "b"), of(0, "a"), of(1, "B", "stop"), of(0, "A", "length"))
    assert [(c["message"]["content"], c["finish_reason"]) for c in whole["choices"]] == [
        ("aA", "length"),
        ("bB", "stop"),
    ]


BROKEN: Mapping[str, tuple[Sequence[object], bool]] = {
    # events, and whether [DONE] came
    "cut after words": ([piece({"content": "half"})], False),
    "nothing at all": ([], False),
    "an error in between": ([piece({"content": "a"}), {"error": {"code": 503}}], True),
    "an error in words": ([{"error": "overloaded"}], False),
    "no JSON": ([piece({"content": "a"}), "<html>"], True),
    "half a JSON": ([piece({"content": "a"}), '{"choices": ['], False),
    "no object": ([[1]], True),
    "end alone": ([], True),
    "a choice that broke": ([piece({"content": "a"}, "error")], True),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_stream_that_broke_is_a_fault_and_no_completion(name: str) -> None:
    trees, end = BROKEN[name]
    whole = added(*trees, end=end)
    reading = read(Reply(200, json.dumps(whole).encode()), "here")
    assert isinstance(reading.ending, Fault)
    assert reading.usage is None or reading.usage.tokens == 0


def test_a_stream_with_a_reason_to_finish_needs_no_further_end() -> None:
    assert added(piece({"content": "a"}, "stop"), end=False)["choices"]


def test_a_stream_that_ends_properly_needs_no_reason_to_finish() -> None:
    assert added(piece({"content": "a"}))["choices"][0]["message"]["content"] == "a"


def raw(choices: object) -> dict[str, Any]:
    return {"id": "x", "choices": choices}


ODD: Mapping[str, Sequence[object]] = {
    "choices null": [raw(None)],
    "choices a text": [raw("x")],
    "choices an object": [raw({"delta": {}})],
    "a choice null": [raw([None])],
    "a choice a text": [raw(["x"])],
    "delta null": [raw([{"delta": None}])],
    "delta a text": [raw([{"delta": "x"}])],
    "delta a list": [raw([{"delta": [1]}])],
    "indices of two kinds": [raw([{"index": "0", "delta": {}}, {"index": 1, "delta": {}}])],
    "an index that is a list": [raw([{"index": [0], "delta": {}}])],
    "content a list, then a text": [
        # Magistral thinks in parts and answers in words.
        piece({"content": [{"type": "thinking", "thinking": []}]}),
        piece({"content": "Hello"}),
    ],
    "content a text, then a list": [piece({"content": "a"}), piece({"content": [{"text": "b"}]})],
    "a call null": [piece({"tool_calls": [None]})],
    "a call a text": [piece({"tool_calls": ["ls"]})],
    "a function a text": [piece({"tool_calls": [{"index": 0, "function": "ls"}]})],
    "arguments an object": [
        # Ollama's own form.
        piece({"tool_calls": [call(0, name="ls", arguments={"x": 1})]}),
        piece({"tool_calls": [call(0, arguments={"y": 1})]}),
    ],
    "call indices of two kinds": [piece({"tool_calls": [call(0), {**call(1), "index": "1"}]})],
    "a call index that is a list": [piece({"tool_calls": [{"index": [0]}]})],
    "nested beyond reason": ["[" * 20_000],
    "a number beyond reason": ["9" * 10_000],
}


@pytest.mark.parametrize("name", ODD)
def test_a_chunk_of_an_odd_shape_is_never_a_crash(name: str) -> None:
    """A crash here would lose the exchange, its cost, and the leave to send another."""
    whole = added(*ODD[name], piece({}, "stop"))
    read(Reply(200, json.dumps(whole).encode()), "here")


FINAL = {"id": "r", "status": "completed", "output": [{"type": "message"}], "usage": {"a": 1}}


def test_a_stream_of_the_responses_api_is_its_last_event() -> None:
    whole = added(
        {"type": "response.created", "response": {"id": "r", "status": "in_progress"}},
        {"type": "response.output_text.delta", "delta": "Hel"},
        {"type": "response.completed", "response": FINAL},
        api=RESPONSES,
        end=False,
    )
    assert whole == FINAL


RESPONSES_BROKEN: Mapping[str, Sequence[object]] = {
    "cut": [{"type": "response.created", "response": {"id": "r"}}],
    "nothing": [],
    "an error": [{"type": "error", "code": "server_error", "message": "broke"}],
    "an error object": [{"type": "error", "error": {"code": 500, "message": "broke"}}],
    "failed": [
        {
            "type": "response.failed",
            "response": {"status": "failed", "error": {"code": "server_error"}, "output": []},
        }
    ],
    "a final event without a response": [{"type": "response.completed"}],
    "a response that is none": [{"type": "response.completed", "response": "x"}],
    "no JSON": ["<html>"],
}


@pytest.mark.parametrize("name", RESPONSES_BROKEN)
def test_a_broken_stream_of_the_responses_api_is_a_fault(name: str) -> None:
    whole = added(*RESPONSES_BROKEN[name], api=RESPONSES, end=False)
    reading = read(Reply(200, json.dumps(whole).encode()), "here", RESPONSES)
    assert isinstance(reading.ending, Fault)
    assert reading.retry


def back(api: str, body: Mapping[str, Any]) -> dict[str, Any]:
    return assembled(api, [one.data for one in fed(*as_events(api, body))])


TEXT = st.text(st.characters(exclude_categories=()), max_size=20)
SOME = st.none() | TEXT
NAMES = st.text("abc_", min_size=1, max_size=5)
CALL = st.fixed_dictionaries(
    {
        "id": NAMES,
        "type": st.just("function"),
        "function": st.fixed_dictionaries({"name": NAMES, "arguments": TEXT}),
    }
)
MESSAGE = st.fixed_dictionaries(
    {"role": st.just("assistant"), "content": SOME},
    optional={
        "tool_calls": st.none() | st.lists(CALL, max_size=3),
        "reasoning_content": SOME,
        "refusal": SOME,
    },
)
REASON = st.sampled_from(["stop", "length", "tool_calls", "content_filter"])


@st.composite
def bodies(draw: st.DrawFn) -> dict[str, Any]:
    messages = draw(st.lists(MESSAGE, min_size=1, max_size=3))
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "cost": 0.5}
    return {
        "id": draw(NAMES),
        "object": "chat.completion",
        "created": draw(st.integers(1, 2**31)),
        "model": draw(NAMES),
        "choices": [
            {"index": index, "message": message, "finish_reason": draw(REASON)}
            for index, message in enumerate(messages)
        ],
        **draw(st.sampled_from([{}, {"usage": usage}])),
    }


@PROPERTY
@given(bodies())
def test_a_whole_answer_played_as_a_stream_adds_up_to_itself(body: dict[str, Any]) -> None:
    assert back(CHAT, body) == body


@PROPERTY
@given(st.dictionaries(NAMES, SOME), st.lists(st.dictionaries(NAMES, SOME)))
def test_a_whole_response_played_as_a_stream_adds_up_to_itself(
    rest: dict[str, Any], output: list[Any]
) -> None:
    body = {"id": "r", "status": "completed", **rest, "output": output}
    assert back(RESPONSES, body) == body


def test_what_a_server_says_beside_its_choices_is_played_as_well() -> None:
    body = {
        "id": "x",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "system_fingerprint": "fp_1",
        "service_tier": "default",
        "choices": [{"index": 0, "message": {"content": "a"}, "finish_reason": "stop"}],
    }
    assert back(CHAT, body) == body


@pytest.mark.parametrize(
    "choices",
    [
        [{"message": {"content": "a"}}],
        [{"message": {"content": "a"}}, None],
        [{"message": {"content": "a"}}, {"text": "b"}],
        [{"message": {"content": "a", "tool_calls": "x"}}],
        [{"message": {"content": "a", "tool_calls": [None]}}],
        [{"message": {}}],
    ],
)
def test_a_whole_answer_of_an_odd_shape_that_reads_as_one_can_be_played(choices: object) -> None:
    body = {"choices": choices}
    if read(Reply(200, json.dumps(body).encode()), "here").ending is None:
        assert as_events(CHAT, body)[-1] == b"data: [DONE]\n\n"


@pytest.mark.parametrize(
    ("tree", "hidden"),
    [
        ({"choices": [], "usage": {"prompt_tokens": 1}}, True),
        ({"choices": [], "usage": None}, False),
        ({"choices": [], "usage": {}}, False),
        ({"choices": [{"delta": {}}], "usage": {"prompt_tokens": 1}}, False),
        ({"choices": [], "prompt_filter_results": []}, False),
        ({"usage": {"prompt_tokens": 1}}, False),
        ('["usage"]', False),
        ('"usage" <html>', False),
        ("[DONE]", False),
    ],
)
def test_only_a_chunk_that_is_nothing_but_usage_is_taken_for_one(
    tree: object, hidden: bool
) -> None:
    (found,) = fed(event(tree))
    assert streams.is_usage_alone(found) is hidden
