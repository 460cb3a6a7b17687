"""Server-sent events: pass them on as they come, and know what they add up to.

Source: the HTML standard, section 9.2, as far as OpenAI-compatible servers use it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipeline.gateway.replies import CHAT

DONE = "[DONE]"
BROKE_OFF = {"error": {"code": 502, "message": "the stream broke off before its end"}}
GARBLED = {"error": {"code": 502, "message": "the stream held something that is no JSON"}}
FINAL = ("response.completed", "response.incomplete", "response.failed")
"""Events of the responses API that hold the whole response."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a stream."""

    raw: bytes
    """As it came, with the blank line that ends it."""
    data: str


@dataclass(slots=True)
class Parser:
    """Cuts bytes into events, wherever the chunks are cut."""

    _pieces: list[bytes] = field(default_factory=list)
    """Of a line that is not over: joined once it is, or a long one would be copied each time."""
    _lines: list[bytes] = field(default_factory=list)

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """The events that this chunk completes; comments and empty events are passed over."""
        first, *rest = chunk.split(b"\n")
        self._pieces.append(first)
        if not rest:
            return
        lines = [b"".join(self._pieces), *rest[:-1]]
        self._pieces = [rest[-1]]
        for line in lines:
            self._lines.append(line + b"\n")
            if line.strip(b"\r"):
                continue
            block, self._lines = self._lines, []
            data = [part[5:].strip() for part in block if part.startswith(b"data:")]
            if data:
                yield Event(b"".join(block), b"\n".join(data).decode(errors="replace"))


async def events_of(chunks: AsyncIterator[bytes]) -> AsyncIterator[Event]:
    """The events of a stream, as they come."""
    parser = Parser()
    async for chunk in chunks:
        for event in parser.feed(chunk):
            yield event
    # Some servers leave out the last blank line.
    for event in parser.feed(b"\n\n"):
        yield event


def assembled(api: str, events: Sequence[str]) -> dict[str, Any]:
    """The answer that a stream's events add up to, in the shape of one that was not streamed.

    A stream that ended early, held an error, or made no sense is an error object.
    """
    try:
        trees = [json.loads(data) for data in events if data != DONE]
        for tree in trees:
            if (tree.get("error") and api == CHAT) or tree.get("type") == "error":
                return tree if tree.get("error") else {"error": tree}
        if api == CHAT:
            return _completion(trees, ended=DONE in events)
        last = next((tree["response"] for tree in trees if tree.get("type") in FINAL), BROKE_OFF)
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        return GARBLED
    return last if isinstance(last, dict) else GARBLED


def _completion(trees: Sequence[Mapping[str, Any]], *, ended: bool) -> dict[str, Any]:
    whole: dict[str, Any] = {}
    choices: dict[int, dict[str, Any]] = {}
    for tree in trees:
        whole |= {k: v for k, v in tree.items() if k != "choices" and v not in (None, {}, [], "")}
        for part in tree.get("choices") or []:
            index = part.get("index") or 0
            choice = choices.setdefault(index, {"index": index, "message": {}})
            _add(choice["message"], part.get("delta") or {})
            rest = {k: v for k, v in part.items() if k not in ("index", "delta") and v is not None}
            choice |= rest
    finished = [choice for choice in choices.values() if choice.get("finish_reason")]
    if not choices or not (ended or finished):
        return BROKE_OFF
    whole["object"] = "chat.completion"
    whole["choices"] = [choices[index] for index in sorted(choices)]
    for choice in whole["choices"]:
        calls = choice["message"].get("tool_calls")
        if isinstance(calls, dict):
            choice["message"]["tool_calls"] = [calls[index] for index in sorted(calls)]
    return whole


def _add(message: dict[str, Any], delta: Mapping[str, Any]) -> None:
    """Text grows, tool calls grow by their index, anything else is what was said last."""
    for key, value in delta.items():
        old = message.get(key)
        if key == "tool_calls" and isinstance(value, list):
            _add_calls(message.setdefault("tool_calls", {}), value)
        elif isinstance(value, str) and isinstance(old, str) and key not in ("role", "name"):
            message[key] = old + value
        elif value is not None or key not in message:
            message[key] = value


def _add_calls(calls: dict[int, dict[str, Any]], parts: Sequence[Mapping[str, Any]]) -> None:
    for part in parts:
        index = part.get("index")
        # A server that sends each call whole leaves the index out.
        call = calls.setdefault(len(calls) if index is None else index, {"function": {}})
        _add(call["function"], part.get("function") or {})
        call |= {k: v for k, v in part.items() if k not in ("index", "function") and v}


def is_usage_alone(event: Event) -> bool:
    """The chunk that a server adds because it was asked for the usage: no choice in it."""
    if '"usage"' not in event.data:
        return False
    try:
        tree = json.loads(event.data)
    except ValueError:
        return False
    return isinstance(tree, dict) and tree.get("choices") == [] and bool(tree.get("usage"))


def event(tree: Mapping[str, Any], name: str = "") -> bytes:
    """One event on the wire."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(tree)}\n\n".encode()


def as_events(api: str, body: Mapping[str, Any], *, usage: bool = True) -> list[bytes]:
    """A whole answer as the stream that a client asked for, with its usage or without."""
    if api != CHAT:
        return [event({"type": "response.completed", "response": body}, "response.completed")]
    shared = {key: value for key, value in body.items() if key not in ("choices", "usage")}
    shared["object"] = "chat.completion.chunk"
    wire = []
    for choice in body["choices"]:
        if not isinstance(choice, dict) or not isinstance(choice.get("message"), dict):
            continue
        delta = dict(choice["message"])
        calls = delta.get("tool_calls")
        if isinstance(calls, list):
            whole = [call for call in calls if isinstance(call, dict)]
            delta["tool_calls"] = [{"index": n} | call for n, call in enumerate(whole)]
        rest = {key: value for key, value in choice.items() if key != "message"}
        wire.append(event(shared | {"choices": [rest | {"delta": delta, "finish_reason": None}]}))
        wire.append(event(shared | {"choices": [rest | {"delta": {}}]}))
    if usage and body.get("usage"):
        wire.append(event(shared | {"choices": [], "usage": body["usage"]}))
    return [*wire, f"data: {DONE}\n\n".encode()]
