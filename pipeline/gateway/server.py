"""Serve every try its own OpenAI-compatible base URL, on loopback only."""

from __future__ import annotations

import contextlib
import secrets
import socket
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from pipeline.domain import Limits, Sampling, Stop
from pipeline.gateway.budgets import Purse
from pipeline.gateway.lanes import Lane, Patience, Source, Terms
from pipeline.gateway.replies import CHAT, CONVERSATION, RESPONSES, Reply, parsed, refusal
from pipeline.gateway.retries import exchange
from pipeline.gateway.tapes import Recorder
from pipeline.gateway.upstream import Upstream

START_SECONDS = 30.0
END_SECONDS = 2.0
LARGEST_REQUEST_BYTES = 32 * 1024 * 1024
"""More than any model reads."""
GONE = refusal(404, "no such lane: this try is over (passone)")


class TooLarge(Exception):
    """A request that no model could read."""


def response(reply: Reply) -> Response:
    if reply.chunks is not None:
        return StreamingResponse(reply.chunks, reply.status, media_type="text/event-stream")
    return Response(reply.content, reply.status, media_type="application/json")


def object_in(body: bytes) -> dict[str, Any]:
    """A request's JSON object; empty where it is none."""
    tree = parsed(body)
    return tree if isinstance(tree, dict) else {}


async def body_of(request: Request) -> bytes:
    """Raises TooLarge before it is all in memory."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > LARGEST_REQUEST_BYTES:
            raise TooLarge
    return bytes(body)


class Gateway:
    """A server for the life of one process. `with Gateway() as gateway: …`"""

    def __init__(self, terms: Terms | None = None) -> None:
        self.terms = terms or Terms()
        self._lanes: dict[str, Lane] = {}
        self._upstreams: list[Upstream] = []
        routes = [
            Route(f"/{{token}}/v1/{api}", self._completing(api), methods=["POST"])
            for api in (CHAT, RESPONSES)
        ]
        routes.append(Route("/{token}/v1/models", self._models, methods=["GET"]))
        app = Starlette(routes=routes, lifespan=self._lifespan)
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="on",
            proxy_headers=False,
            # A client may hold on to half a request.
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        # asyncio sets TCP_NODELAY only where a socket says that it is TCP.
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), name="gateway", daemon=True
        )

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        yield
        for upstream in self._upstreams:
            await upstream.close()

    def __enter__(self) -> Gateway:
        self._socket.bind(("127.0.0.1", 0))
        self._thread.start()
        deadline = time.monotonic() + START_SECONDS
        while not self._server.started:
            if time.monotonic() > deadline or not self._thread.is_alive():
                raise RuntimeError("the gateway did not start")
            time.sleep(0.01)
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.should_exit = True
        self._thread.join(END_SECONDS)
        self._server.force_exit = True
        self._thread.join(10)
        self._socket.close()

    @contextlib.contextmanager
    def lane(
        self,
        source: Source,
        recorder: Recorder,
        *,
        sampling: Sampling | None = None,
        limits: Limits | None = None,
        patience: Patience | None = None,
        requests: int | None = None,
    ) -> Iterator[Lane]:
        """A base URL of its own for one try; gone, and answered 404, afterwards.

        Args:
            limits: of the try's cost and tokens; None: none.
            patience: of the attempt, where its tries share it.
            requests: for one request of the agent's; None: as many as its patience lasts.
        """
        if isinstance(source, Upstream) and all(one is not source for one in self._upstreams):
            self._upstreams.append(source)
        settings = self.terms.settings
        token = secrets.token_urlsafe(24)
        port = self._socket.getsockname()[1]
        lane = Lane(
            source=source,
            base_url=f"http://127.0.0.1:{port}/{token}/v1",
            model=recorder.header.model,
            recorder=recorder,
            terms=self.terms,
            sampling=sampling or Sampling(),
            purse=Purse(limits.cost_usd, limits.tokens) if limits else Purse(),
            patience=patience or Patience(settings.requests, settings.deadline_seconds),
            requests=requests or settings.requests,
        )
        self._lanes[token] = lane
        try:
            yield lane
        finally:
            del self._lanes[token]
            lane.close()
            recorder.close()

    def _completing(self, api: str) -> Callable[[Request], Awaitable[Response]]:
        async def complete(request: Request) -> Response:
            lane = self._lanes.get(request.path_params["token"])
            if lane is None:
                return response(GONE)
            try:
                body = await body_of(request)
            except ClientDisconnect:
                return response(refusal(400, "half a request (passone)"))
            except TooLarge:
                size = LARGEST_REQUEST_BYTES // 2**20
                text = f"maximum context length: a request of over {size} MB fits no model"
                return response(lane.refuse(text, Stop.CONTEXT_LIMIT, 413))
            asked, key = object_in(body), CONVERSATION[api]
            # The responses API takes a text as well.
            shapes = list if api == CHAT else (list, str)
            if not isinstance(asked.get(key), shapes):
                return response(lane.refuse(f"expected a JSON object with {key}"))
            return response(await exchange(lane, api, asked, body))

        return complete

    async def _models(self, request: Request) -> Response:
        lane = self._lanes.get(request.path_params["token"])
        if lane is None:
            return response(GONE)
        return JSONResponse({"object": "list", "data": [{"id": lane.model, "object": "model"}]})
