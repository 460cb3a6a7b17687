"""Read what an endpoint answered: a completion, a limit of the model's, or a fault of ours.

Structure decides (status, JSON shape, error codes); whatever the agent makes of
it later does not. Chat completions and the responses API are read alike.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from typing import Any, TypeAlias

from pipeline.domain import Cause, Fault, Stop, Usage

CHAT, RESPONSES = "chat/completions", "responses"
CONVERSATION = {CHAT: "messages", RESPONSES: "input"}
"""The key of a request that holds the conversation so far, by API."""
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
OVERLOADED = frozenset({429, 503, 529})
"""These say that less at a time would help."""
MOST_CHARACTERS = 2000
Ending: TypeAlias = Stop | Fault | None


@dataclass(frozen=True, slots=True)
class Reading:
    """What an answer means."""

    ending: Ending
    """None: a completion that the agent can work with."""
    retry: bool = False
    usage: Usage | None = None
    overloaded: bool = False


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer of an upstream: whole, or a stream that has begun."""

    status: int
    content: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    chunks: AsyncIterator[bytes] | None = None
    """Of a stream of server-sent events; None: the content is all there is."""
    reading: Reading | None = None
    """Known by who answers, whatever the content says: a tape means what it meant."""

    @property
    def retry_after_seconds(self) -> float | None:
        """What the Retry-After header asks for: seconds or a date (RFC 9110, 10.2.3)."""
        text = self.headers.get("retry-after", "")
        try:
            return max(0.0, float(text))
        except ValueError:
            pass
        try:
            return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
        except ValueError:
            return None


def parsed(content: bytes) -> Any:
    """JSON; None where it is none, or nested beyond reason."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def infra(cause: Cause, detail: str, *, retry: bool = False) -> Reading:
    return Reading(Fault(cause=cause, detail=detail[:500], final=not retry), retry)


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


def count(tree: object, *names: str) -> int:
    """The first of these that a usage object has; both APIs count the same under other names."""
    for name in names:
        number = number_of(tree.get(name)) if isinstance(tree, Mapping) else None
        if number is not None and number % 1 == 0:
            return int(number)
    return 0


def number_of(value: object) -> float | None:
    """A plain number that is not negative; None: it is none, whatever a server calls it."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if 0 <= number < math.inf else None


def usage_of(body: Mapping[str, Any]) -> Usage:
    """Tokens and cost as the server reported them; what is no number counts as not reported."""
    usage = body.get("usage")
    usage = usage if isinstance(usage, Mapping) else {}
    details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details")
    return Usage(
        requests=1,
        input_tokens=count(usage, "prompt_tokens", "input_tokens"),
        cached_tokens=count(details, "cached_tokens"),
        output_tokens=count(usage, "completion_tokens", "output_tokens"),
        cost_usd=number_of(usage.get("cost")),
    )


def code_of(body: Mapping[str, Any]) -> int:
    """The status that an error object with 200 means; 200 where it does not say."""
    error = body["error"]
    code = error.get("code") or error.get("status") if isinstance(error, Mapping) else None
    text = str(code)
    if text in ("server_error", "vector_store_timeout"):
        return 502
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
    quota = "insufficient_quota" in words
    again = (status in TRANSIENT or limited) and not quota
    reading = infra(Cause.ENDPOINT, detail, retry=again)
    return replace(reading, overloaded=again and (status in OVERLOADED or limited))


def read(reply: Reply, where: str, api: str = CHAT) -> Reading:
    """Classify one whole answer; what it cost counts either way."""
    body = parsed(reply.content)
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
    trouble = body if body.get("error") else BROKEN[api](body)
    if trouble is not None:
        text = json.dumps(trouble["error"])[:300]
        return replace(read_error(code_of(trouble), trouble, text, where), usage=usage)
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


def broken_response(body: Mapping[str, Any]) -> dict[str, Any] | None:
    """The same for the responses API."""
    if body.get("status") in ("failed", "cancelled"):
        return {"error": {"code": 502, "message": f"answered 200 with status {body['status']}"}}
    if not isinstance(body.get("output"), list):
        return {"error": {"code": 502, "message": "answered 200 without output"}}
    return None


BROKEN = {CHAT: broken_choice, RESPONSES: broken_response}


def refusal(status: int, message: str) -> Reply:
    """An error in the shape that OpenAI's clients know."""
    error = {"message": message, "type": "passone", "code": None}
    return Reply(status, json.dumps({"error": error}).encode())


def describe(ending: Ending) -> str:
    return f"{ending.cause}: {ending.detail}" if isinstance(ending, Fault) else str(ending or "")
