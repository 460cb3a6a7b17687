"""Read what an endpoint answered: a completion, a limit of the model's, or a fault of ours.

Structure decides (status, JSON shape, error codes); whatever the agent makes of
it later does not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from pipeline.domain import Cause, Fault, Stop, Usage

CONTEXT = re.compile(
    r"context[ _](length|window|size)|maximum context|maximum prompt length"
    r"|(prompt|input) is too long|too many (input )?tokens|max_model_len|model token limit"
    r"|maximum number of tokens allowed|reduce the length of",
    re.IGNORECASE,
)
REFUSAL = re.compile(
    r"content[_ ]policy|content[_ ]filter|content management policy|usage polic(y|ies)"
    r"|safety (system|filter|guidelines)",
    re.IGNORECASE,
)
SETTING = re.compile(
    r"unsupported|unknown|unrecognized|invalid parameter|max_(\w+_)?tokens.{0,40}too large",
    re.IGNORECASE,
)
"""A request that is wrong as it was made says nothing about what the model was told."""
TRANSIENT = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})
MOST_CHARACTERS = 2000
Ending: TypeAlias = Stop | Fault | None


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer of an upstream, whole."""

    status: int
    content: bytes
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def retry_after_seconds(self) -> float | None:
        """What the Retry-After header asks for, where it is a number (RFC 9110, 10.2.3)."""
        try:
            return max(0.0, float(self.headers.get("retry-after", "")))
        except ValueError:
            return None


@dataclass(frozen=True, slots=True)
class Reading:
    """What an answer means."""

    ending: Ending
    """None: a completion that the agent can work with."""
    retry: bool = False
    usage: Usage | None = None


def infra(cause: Cause, detail: str, *, retry: bool = False) -> Reading:
    return Reading(Fault(cause=cause, detail=detail[:500]), retry)


def excerpt(content: bytes) -> str:
    return " ".join(content[:300].decode(errors="replace").split())


def words_of(body: object, text: str) -> str:
    """What an error says of itself; not the request, which some servers echo beside it."""
    if not isinstance(body, dict):
        return text
    error = body.get("error") or body
    if not isinstance(error, dict):
        return str(error)[:MOST_CHARACTERS]
    said = (error.get(part) for part in ("code", "type", "message", "detail"))
    return " ".join(part for part in said if isinstance(part, str))[:MOST_CHARACTERS]


def count(tree: object, name: str) -> int:
    value = tree.get(name) if isinstance(tree, Mapping) else None
    return int(value) if isinstance(value, int | float) and value % 1 == 0 else 0


def usage_of(body: Mapping[str, Any]) -> Usage:
    """Tokens and cost as the server reported them; what is no number counts as not reported."""
    usage = body.get("usage")
    usage = usage if isinstance(usage, Mapping) else {}
    cost = usage.get("cost")
    return Usage(
        requests=1,
        input_tokens=count(usage, "prompt_tokens"),
        cached_tokens=count(usage.get("prompt_tokens_details"), "cached_tokens"),
        output_tokens=count(usage, "completion_tokens"),
        cost_usd=float(cost) if isinstance(cost, int | float) else None,
    )


def code_of(body: Mapping[str, Any]) -> int:
    """The status that an error object with 200 means; 200 where it does not say."""
    error = body["error"]
    code = error.get("code") or error.get("status") if isinstance(error, Mapping) else None
    text = str(code)
    return int(text) if text.isascii() and text.isdigit() and 400 <= int(text) < 600 else 200


def read_error(status: int, body: object, text: str, where: str) -> Reading:
    """An answer that says what went wrong."""
    words = words_of(body, text)
    limited = "rate_limit" in words
    ours = limited or SETTING.search(words) is not None
    if status in (400, 413, 422, 200) and CONTEXT.search(words) and not ours:
        return Reading(Stop.CONTEXT_LIMIT)
    if status in (400, 403, 200) and REFUSAL.search(words) and not ours:
        return Reading(Stop.REFUSED)
    detail = f"{where} answered {status}: {text}"
    if status in (401, 403):
        return infra(
            Cause.CREDENTIALS, f"{detail} (is the key right, and meant for this endpoint?)"
        )
    if status == 404:
        return infra(
            Cause.ENDPOINT, f"{detail} (check model.base_url, with and without /v1, and model.name)"
        )
    if status == 413 and isinstance(body, dict) and not ours:
        return Reading(Stop.CONTEXT_LIMIT)
    again = (status in TRANSIENT or limited) and "insufficient_quota" not in words
    return infra(Cause.ENDPOINT, detail, retry=again)


def read(reply: Reply, where: str) -> Reading:
    """Classify one whole answer to a chat completion request; what it cost counts either way."""
    try:
        body = json.loads(reply.content)
    except ValueError:
        body = None
    if reply.status >= 400:
        return read_error(reply.status, body, excerpt(reply.content), where)
    if not isinstance(body, dict):
        return infra(
            Cause.ENDPOINT,
            f"{where} answered {reply.status} with something that is no JSON object: "
            f"{excerpt(reply.content)}",
            retry=True,
        )
    usage = usage_of(body) if body.get("usage") else None
    if body.get("error"):
        reading = read_error(code_of(body), body, json.dumps(body["error"])[:300], where)
        return replace(reading, usage=usage)
    trouble = broken_choice(body)
    if trouble is not None:
        reading = read_error(code_of(trouble), trouble, json.dumps(trouble)[:300], where)
        return replace(reading, usage=usage)
    return Reading(None, usage=usage_of(body))


def broken_choice(body: Mapping[str, Any]) -> dict[str, Any] | None:
    """What a 200 without a usable first choice means, as an error object; None: it has one."""
    choices = body.get("choices")
    if not isinstance(choices, list) or not choices:
        return {"error": {"code": 502, "message": "answered 200 without choices"}}
    first = choices[0]
    if not isinstance(first, dict) or not isinstance(first.get("message"), dict):
        return {"error": {"code": 502, "message": "answered 200 with a choice without a message"}}
    if first.get("error") or first.get("finish_reason") == "error":
        # A provider behind a router broke off: no words of the model's.
        error = first.get("error")
        return {"error": error if isinstance(error, dict) else {"code": 502, "message": str(error)}}
    return None
