"""Serve every try its own OpenAI-compatible base URL, on loopback only."""

from __future__ import annotations

import contextlib
import json
import secrets
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pipeline.gateway.lanes import Lane, Source, refusal
from pipeline.gateway.replies import Reply
from pipeline.gateway.upstream import Upstream

START_SECONDS = 30.0


def response(reply: Reply) -> Response:
    return Response(reply.content, reply.status, media_type="application/json")


def parsed(body: bytes) -> dict[str, Any]:
    """A request's JSON object; empty where it is none."""
    try:
        tree = json.loads(body)
    except ValueError:
        return {}
    return tree if isinstance(tree, dict) else {}


class Gateway:
    """A server for the life of one process. `with Gateway() as gateway: …`"""

    def __init__(self) -> None:
        self._lanes: dict[str, Lane] = {}
        self._upstreams: list[Upstream] = []
        routes = [
            Route("/{token}/v1/chat/completions", self._complete, methods=["POST"]),
            Route("/{token}/v1/models", self._models, methods=["GET"]),
        ]
        app = Starlette(routes=routes, lifespan=self._lifespan)
        config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="on")
        self._server = uvicorn.Server(config)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
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
        self._thread.join(10)
        self._socket.close()

    @contextlib.contextmanager
    def lane(
        self,
        source: Source,
        *,
        model: str,
        tape: Path,
        cost_limit_usd: float = 0.0,
        backoff_seconds: float = 1.0,
    ) -> Iterator[Lane]:
        """A base URL of its own for one try; gone, and answered 404, afterwards."""
        if isinstance(source, Upstream) and source not in self._upstreams:
            self._upstreams.append(source)
        token = secrets.token_urlsafe(24)
        port = self._socket.getsockname()[1]
        lane = Lane(
            source=source,
            base_url=f"http://127.0.0.1:{port}/{token}/v1",
            model=model,
            tape=tape,
            cost_limit_usd=cost_limit_usd,
            backoff_seconds=backoff_seconds,
        )
        self._lanes[token] = lane
        try:
            yield lane
        finally:
            del self._lanes[token]
            lane.close()

    async def _complete(self, request: Request) -> Response:
        lane = self._lanes.get(request.path_params["token"])
        if lane is None:
            return response(refusal(404, "no such lane: this try is over (passone)"))
        body = await request.body()
        asked = parsed(body)
        if not isinstance(asked.get("messages"), list):
            return response(lane.refuse("expected a JSON object with messages"))
        if asked.get("stream"):
            return response(lane.refuse("streaming is not passed on yet; set stream to false"))
        return response(await lane.exchange(body))

    async def _models(self, request: Request) -> Response:
        lane = self._lanes.get(request.path_params["token"])
        if lane is None:
            return response(refusal(404, "no such lane: this try is over (passone)"))
        return JSONResponse({"object": "list", "data": [{"id": lane.model, "object": "model"}]})
