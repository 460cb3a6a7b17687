"""The real endpoint, and the only place that holds the key."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import httpx

from pipeline.config import ModelRecipe
from pipeline.gateway.replies import Reply
from pipeline.outcomes import UserError

PLACEHOLDER = re.compile(
    r"your[_-]|\byour\b|changeme|change_me|placeholder|<.*>|^x{3,}$|^sk-x+$|\.{3}$", re.IGNORECASE
)
REDACTED = "[redacted by passone]"


@dataclass(slots=True)
class Upstream:
    """An OpenAI-compatible server."""

    base_url: str
    key: str = field(repr=False)
    timeout_seconds: float = 600.0
    _client: httpx.AsyncClient | None = field(default=None, repr=False)

    @property
    def where(self) -> str:
        return self.base_url

    def client(self) -> httpx.AsyncClient:
        # Made at the first request, within the loop that will use it.
        if self._client is None:
            timeout = httpx.Timeout(self.timeout_seconds, connect=15.0)
            limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
            self._client = httpx.AsyncClient(timeout=timeout, limits=limits)
        return self._client

    async def ask(self, body: bytes) -> Reply:
        """One request, one whole answer; the key never comes back.

        Raises:
            httpx.HTTPError: no answer, or only half of one.
        """
        return await self.send("POST", "/chat/completions", body)

    async def send(self, method: str, path: str, body: bytes | None = None) -> Reply:
        answer = await self.client().request(
            method,
            f"{self.base_url}{path}",
            content=body,
            headers={"authorization": f"Bearer {self.key}", "content-type": "application/json"},
        )
        content = answer.content.replace(self.key.encode(), REDACTED.encode())
        return Reply(answer.status_code, content, {k.lower(): v for k, v in answer.headers.items()})

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()


def read_key(variable: str, environ: Mapping[str, str] | None = None) -> str:
    """The API key in a named variable, checked; the caller must not keep it in any record.

    Raises:
        UserError: missing, a placeholder, or shaped as no key can be; the message
            names the variable and never holds the value.
    """
    key = (os.environ if environ is None else environ).get(variable, "").strip()
    if not key:
        raise UserError(
            f"{variable} is not set or empty; export {variable}=<your key> and run again"
        )
    problem = ""
    if PLACEHOLDER.search(key):
        problem = "still holds a placeholder"
    elif key[0] in "\"'" or key[-1] in "\"'":
        problem = "is wrapped in quotes"
    elif key.lower().startswith("bearer"):
        problem = "starts with 'Bearer'; only the key itself belongs there"
    elif not key.isascii():
        problem = "has a character outside ASCII (pasted from a web page?)"
    elif any(character.isspace() or not character.isprintable() for character in key):
        problem = "has white space inside it"
    if problem:
        raise UserError(f"{variable} {problem}; set it to the bare key and run again")
    return key


def is_plain(url: str) -> bool:
    """Whether this is http(s)://host[:port][/path], and nothing more."""
    try:
        # A port that is none is found only when it is asked for.
        port_fits = urlsplit(url).port != 0
    except ValueError:
        return False
    return port_fits and re.fullmatch(r"https?://[^\s/@?#]+(/[^\s?#]*)?", url) is not None


def check_endpoint(model: ModelRecipe) -> str:
    """The base URL, checked and without its trailing slashes.

    Raises:
        UserError: missing, a placeholder, or no http(s) URL; a placeholder model name.
    """
    if PLACEHOLDER.search(model.name) or model.name in ("", "none", "openai/"):
        raise UserError(
            f"model.name is {model.name!r}: write the id your endpoint serves, "
            "for example --set model.name=openai/my-model"
        )
    url = model.base_url.strip().rstrip("/")
    url = url.removesuffix("/chat/completions").rstrip("/")
    if not url or "…" in url or PLACEHOLDER.search(url):
        raise UserError(
            f"model.base_url is {model.base_url!r}: write your endpoint's address, "
            "for example --set model.base_url=https://host/v1"
        )
    if not is_plain(url):
        raise UserError(
            f"model.base_url is {model.base_url!r}: expected http(s)://host[:port][/path] "
            "without white space, credentials or a query"
        )
    return url
