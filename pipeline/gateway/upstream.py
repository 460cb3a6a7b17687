"""The real endpoint, and the only place that holds the key."""

from __future__ import annotations

from dataclasses import dataclass, field

import httpx

from pipeline.gateway.replies import Reply

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
