"""The real endpoint, and the only place that holds the key."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import ssl
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar
from urllib.parse import urlsplit

import httpx

from pipeline.gateway.replies import Reply
from pipeline.outcomes import UserError
from pipeline.recipe import ModelRecipe

PLACEHOLDER = re.compile(
    r"your[_-]|\byour\b|changeme|change_me|placeholder|<.*>|^x{3,}$|^sk-x+$|\.{3}$"
    # Hosts that nobody has (RFC 2606).
    r"|[/.]example(\.(com|org|net))?(?=[:/]|$)",
    re.IGNORECASE,
)
REDACTED = "[redacted by passone]"
SECRET_HEADER = re.compile(r"auth|key|token|secret|cookie", re.IGNORECASE)
SHORTEST_SECRET = 6
"""A shorter one stands in ordinary words."""
CONNECT_SECONDS = 15.0
REQUEST = "without a whole answer (gateway.request_seconds)"
STALL = "between two chunks (gateway.stall_seconds)"
NO_PROXY: Mapping[str, None] = {"http://": None, "https://": None, "all://": None}


@dataclass(slots=True)
class Upstream:
    """An OpenAI-compatible server."""

    base_url: str
    key: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Sent with every request; they may hold secrets, too."""
    request_seconds: float = 600.0
    """For one request, from sending it to the last byte of its answer."""
    stall_seconds: float = 120.0
    """Between two chunks of a stream."""
    drift: ClassVar[str] = ""
    leftover: ClassVar[None] = None
    _idle: list[httpx.AsyncClient] = field(default_factory=list, repr=False)
    _tls: ssl.SSLContext | None = field(default=None, repr=False)

    @property
    def where(self) -> str:
        return self.base_url

    @property
    def secrets(self) -> list[bytes]:
        """What must not come back from the server to anything that is written down."""
        hidden = [value for name, value in self.headers.items() if SECRET_HEADER.search(name)]
        hidden = [part for value in hidden for part in (value, value.rpartition(" ")[2])]
        secrets = {text.strip() for text in (self.key, *hidden)}
        # One may stand within another.
        ordered = sorted(secrets, key=len, reverse=True)
        return [text.encode() for text in ordered if len(text) >= SHORTEST_SECRET]

    @property
    def stripped(self) -> dict[str, str]:
        """As a file or a variable may end with a line."""
        return {name: value.strip() for name, value in self.headers.items()}

    def redacted(self, content: bytes) -> bytes:
        for secret in self.secrets:
            content = content.replace(secret, REDACTED.encode())
        return content

    def client(self) -> httpx.AsyncClient:
        """A client with one connection, to be given back.

        A pool for all would look at every idle connection before every request, with
        two system calls each: at 32 lanes that is more than all the rest together.
        """
        if self._idle:
            return self._idle.pop()
        # Made within the loop that will use it; certificates are read once, for that is slow.
        self._tls = self._tls or httpx.create_ssl_context()
        return httpx.AsyncClient(
            verify=self._tls,
            timeout=httpx.Timeout(self.request_seconds, connect=CONNECT_SECONDS),
            # No proxy stands between a machine and itself.
            mounts=NO_PROXY if is_loopback(self.base_url) else None,
        )

    async def ask(self, api: str, body: bytes) -> Reply:
        """One request, and its answer: whole, or the stream that it is. The key never comes back.

        Raises:
            httpx.HTTPError: no answer, or only half of one.
        """
        return await self.send("POST", f"/{api}", body, streams=True)

    async def send(
        self, method: str, path: str, body: bytes | None = None, *, streams: bool = False
    ) -> Reply:
        """The same for any path; always whole, unless a stream is welcome."""
        ours = {"authorization": f"Bearer {self.key}", "content-type": "application/json"}
        client = self.client()
        lent = False
        try:
            request = client.build_request(
                method, f"{self.base_url}{path}", content=body, headers={**ours, **self.stripped}
            )
            with whole_within(self.request_seconds, REQUEST):
                async with asyncio.timeout(self.request_seconds):
                    answer = await client.send(request, stream=True)
                    if streams and is_stream(answer):
                        lent = True
                        chunks = self.relay(answer, client)
                        return Reply(answer.status_code, headers=lower(answer), chunks=chunks)
                    return await self.whole(answer)
        finally:
            if not lent:
                self._idle.append(client)

    async def whole(self, answer: httpx.Response) -> Reply:
        try:
            content = self.redacted(await answer.aread())
        finally:
            await answer.aclose()
        return Reply(answer.status_code, content, lower(answer))

    async def relay(
        self, answer: httpx.Response, client: httpx.AsyncClient
    ) -> AsyncIterator[bytes]:
        """The chunks of a stream as they come, secrets in them; a stall ends it."""
        began = time.monotonic()
        chunks = answer.aiter_bytes()
        try:
            while True:
                left = self.request_seconds - (time.monotonic() - began)
                stalls = self.stall_seconds < left
                limit = self.stall_seconds if stalls else self.request_seconds
                with whole_within(limit, STALL if stalls else REQUEST):
                    async with asyncio.timeout(min(self.stall_seconds, left)):
                        chunk = await anext(chunks, None)
                if chunk is None:
                    return
                yield chunk
        finally:
            await answer.aclose()
            self._idle.append(client)

    async def close(self) -> None:
        for client in self._idle:
            await client.aclose()


@contextlib.contextmanager
def whole_within(seconds: float, what: str) -> Iterator[None]:
    """Name a time-out of ours as the client's own are named."""
    try:
        yield
    except TimeoutError:
        raise httpx.ReadTimeout(f"{seconds:g} s went by {what}") from None


def is_stream(answer: httpx.Response) -> bool:
    kind = answer.headers.get("content-type", "")
    return answer.status_code < 400 and kind.startswith("text/event-stream")


def lower(answer: httpx.Response) -> dict[str, str]:
    return {name.lower(): value for name, value in answer.headers.items()}


def is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return host == "localhost" or host.startswith("127.") or host == "::1"


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
        # What must not stand there may be a key.
        shown = re.sub(r"(//).*@|([?#]).*", r"\1\2…", url)
        raise UserError(
            f"model.base_url is {shown!r}: expected http(s)://host[:port][/path] "
            "without white space, credentials or a query"
        )
    return url
