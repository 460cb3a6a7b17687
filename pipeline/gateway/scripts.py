"""Scripted replies, played in place of a model: for the demo and for tests, always labelled.

A script is no mock of the gateway: its answers pass the same reading, retries and
records as those of a real endpoint.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import yaml
from pydantic import BaseModel, ConfigDict

from pipeline.domain import Attempt
from pipeline.gateway.replies import CHAT, Reply
from pipeline.outcomes import UserError

CHARACTERS_A_TOKEN = 4


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ScriptedFault(_Strict):
    at: int
    status: int
    tries: tuple[int, ...] | str = "all"


class ScriptedReply(_Strict):
    thought: str = ""
    command: str = ""
    tool: str = "bash"
    arguments: dict[str, Any] | None = None


class ScriptBody(_Strict):
    attempts: tuple[int, ...]
    fault: ScriptedFault | None = None
    context_window: int | None = None
    cycle: int | None = None
    replies: tuple[ScriptedReply, ...]


class _File(_Strict):
    label: str
    instances: dict[str, tuple[ScriptBody, ...]]


@dataclass(frozen=True, slots=True)
class Script:
    """The replies for one try at one attempt."""

    body: ScriptBody
    try_number: int
    drift: ClassVar[str] = ""
    leftover: ClassVar[None] = None

    @property
    def where(self) -> str:
        return "the scripted endpoint"

    def redacted(self, content: bytes) -> bytes:
        return content

    async def ask(self, api: str, body: bytes) -> Reply:
        """Answer by how far the conversation is: a repeated request gets the same reply."""
        if api != CHAT:
            return _error(404, f"the scripted endpoint has no {api}", "scripted")
        return self.answer(json.loads(body), len(body) // CHARACTERS_A_TOKEN)

    def answer(self, request: Mapping[str, Any], tokens: int) -> Reply:
        position = sum(1 for message in request["messages"] if message["role"] == "assistant")
        fault, window = self.body.fault, self.body.context_window
        if (
            fault
            and fault.at == position
            and (fault.tries == "all" or self.try_number in fault.tries)
        ):
            return _error(fault.status, "scripted fault", "scripted")
        if window and tokens > window:
            text = f"This model's maximum context length is {window} tokens (scripted)."
            return _error(400, text, "context_length_exceeded")
        replies, cycle = self.body.replies, self.body.cycle
        if position >= len(replies):
            if cycle is None:
                return _error(404, f"the script has no reply number {position}", "scripted")
            position = cycle + (position - len(replies)) % (len(replies) - cycle)
        return _completion(replies[position], tokens, position)


def _error(status: int, message: str, code: str) -> Reply:
    return Reply(status, json.dumps({"error": {"message": message, "code": code}}).encode())


def _completion(reply: ScriptedReply, tokens: int, position: int) -> Reply:
    arguments = {"command": reply.command} if reply.arguments is None else reply.arguments
    call = {
        "id": f"call_{position}",
        "type": "function",
        "function": {"name": reply.tool, "arguments": json.dumps(arguments)},
    }
    message = {"role": "assistant", "content": reply.thought, "tool_calls": [call]}
    written = len(json.dumps(message)) // CHARACTERS_A_TOKEN
    body = {
        "id": "scripted",
        "object": "chat.completion",
        "created": 0,
        "model": "scripted",
        "choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}],
        "usage": {
            "prompt_tokens": tokens,
            "completion_tokens": written,
            "total_tokens": tokens + written,
        },
    }
    return Reply(200, json.dumps(body).encode())


@dataclass(frozen=True, slots=True)
class Scripts:
    """All scripts of a file."""

    source: Path
    instances: Mapping[str, tuple[ScriptBody, ...]]

    def for_try(self, attempt: Attempt, try_number: int) -> Script:
        """Raises UserError: the file has none for this attempt."""
        for body in self.instances.get(attempt.instance_id, ()):
            if attempt.number in body.attempts:
                return Script(body, try_number)
        raise UserError(
            f"{self.source}: no scripted replies for attempt {attempt.number} at "
            f"{attempt.instance_id}; ask for fewer attempts, or add them"
        )


def load_scripts(path: Path) -> Scripts:
    """Raises UserError: no such file, or not of the form that pipeline/demo/README.md shows."""
    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
        return Scripts(path, _File.model_validate(tree).instances)
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise UserError(f"{path}: no scripted replies: {error}") from None
