"""Serve the page of some runs to who knows its address, and make it again when they have changed.

Nothing is written below a run, and who drives it never waits for us. A page is made only while
somebody looks, and what a making takes decides how often there is one.
"""

from __future__ import annotations

import contextlib
import hashlib
import html
import math
import secrets
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from pipeline.outcomes import UserError
from pipeline.progress import Progress, Seen
from pipeline.report.details import Source
from pipeline.report.page import STYLES, asset, policy, write_report
from pipeline.rundir import RunDir

LOOK_SECONDS = 1.0
"""Between two looks at a run, however many ask."""
REST_SECONDS = 3.0
"""Between two makings of a page, at the least."""
REST_SHARE = 4.0
"""So many times as long as a making took there is none."""
AGAIN_SECONDS = 10
"""After which a browser asks again for what could not be shown."""
HOSTS = ("127.0.0.1", "localhost")
"""As a browser here, or at the other end of `ssh -L`, calls us. A name that somebody else owns may
lead to this machine, too: it is refused."""
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""Of every answer. A page's own policy is in the page."""


class Ended(Exception):
    """The server ends; the page that is being made is wanted by nobody."""


@dataclass(slots=True)
class Followed:
    """One run, by what has come since the last look."""

    run: RunDir
    _progress: Progress | None = None
    _planned: int = -1

    def look(self) -> Seen:
        """Raises UserError: it is gone, or cannot be read."""
        planned = changed(self.run.plan)
        if self._progress is None or planned != self._planned:
            # It has grown, or is another one by now.
            self._progress, self._planned = Progress(self.run), planned
        try:
            return self._progress.look()
        except UserError:
            self._progress = None
            raise

    def signature(self, seen: Seen) -> list[object]:
        """All that a page of it depends on."""
        files = ("diagnosis.json", "audit.json")
        beside = [changed(self.run.report / name) for name in files]
        return [seen.seq, seen.driver, self._planned, *beside]


def changed(path: Path) -> int:
    """When a file was written, in nanoseconds; 0: there is none."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


@dataclass(frozen=True, slots=True)
class Made:
    """A page, and what its runs had come to."""

    version: str = ""
    content: bytes = b""


class Served:
    """The page of some runs, as new as its readers need it.

    Args:
        read: the runs as they are now; it may raise UserError.
        words: a run on one line.
        clock: seconds, of which only differences count.
        every: all trajectories, as `write_report` has it.
    """

    def __init__(
        self,
        runs: Sequence[RunDir],
        read: Callable[[], Sequence[Source]],
        *,
        words: Callable[[Seen], str],
        every: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.ended: Callable[[], bool] = lambda: False
        self._clock = clock
        self._runs = [Followed(run) for run in runs]
        self._read, self._words, self._every = read, words, every
        self._looking, self._making = threading.Lock(), threading.Lock()
        self._seen: tuple[str, list[Seen]] = ("", [])
        self._looked = self._rested = -math.inf
        self._made = Made()
        self._problem = ""

    def state(self) -> dict[str, Any]:
        """What a page asks for again and again: `version` of the newest page that is ready;
        `waiting`: a newer one will be; of every run `said`, in words, and whether it is `driven`;
        `problem`: why there is nothing newer.
        """
        try:
            version, seen = self._look()
        except UserError as error:
            return {"version": "", "waiting": True, "said": [], "driven": [], "problem": str(error)}
        waiting = version != self._made.version
        if waiting and self._clock() >= self._rested:
            threading.Thread(target=self._renew, name="report", daemon=True).start()
        return {
            "version": self._made.version,
            "waiting": waiting,
            "said": [self._words(one) for one in seen],
            "driven": [bool(one.driver) for one in seen],
            "problem": self._problem,
        }

    def page(self) -> bytes:
        """The newest page, made now where that is due.

        Raises:
            UserError: a run is gone or cannot be read.
            OSError: there is no room to write a page in.
            Ended: the server does.
        """
        version, _ = self._look()
        # While another one is made, what is there is new enough.
        if self._making.acquire(blocking=not self._made.content):
            try:
                due = self._clock() >= self._rested or not self._made.content
                if due and version != self._made.version:
                    self._make(version)
            finally:
                self._making.release()
        return self._made.content

    def _renew(self) -> None:
        """Make a page ahead of being asked for it."""
        with contextlib.suppress(UserError, OSError, Ended):
            self.page()

    def _look(self) -> tuple[str, list[Seen]]:
        with self._looking:
            if self._clock() - self._looked >= LOOK_SECONDS:
                seen = [run.look() for run in self._runs]
                signs = [run.signature(one) for run, one in zip(self._runs, seen, strict=True)]
                version = hashlib.sha256(repr(signs).encode()).hexdigest()[:16]
                self._seen, self._looked = (version, seen), self._clock()
            return self._seen

    def _make(self, version: str) -> None:
        """Of what is there now; it was looked at before, so that nothing newer is passed over."""
        began = self._clock()
        try:
            with tempfile.TemporaryDirectory(prefix="passone-", ignore_cleanup_errors=True) as name:
                path = Path(name, "index.html")
                sources = self._read()
                write_report(path, sources, every=self._every, version=version, step=self._go_on)
                self._made, self._problem = Made(version, path.read_bytes()), ""
        except (UserError, OSError) as error:
            self._problem = str(error)
            raise
        finally:
            took = self._clock() - began
            self._rested = self._clock() + max(REST_SECONDS, REST_SHARE * took)

    def _go_on(self) -> None:
        if self.ended():
            raise Ended


def apology(problem: str) -> str:
    """A page that says why there is none, and is asked for again."""
    style = asset(STYLES)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy(style, "")}">
<meta http-equiv="refresh" content="{AGAIN_SECONDS}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>No report just now · passone</title>
<style>{style}</style>
</head>
<body>
<header id="top"><span class="brand">passone</span></header>
<main>
<h1>There is no report just now</h1>
<p class="notice">{html.escape(problem)}</p>
<p class="dim">This page looks again every {AGAIN_SECONDS} seconds.</p>
</main>
</body>
</html>
"""


def app_of(served: Served, token: str) -> Starlette:
    """`/TOKEN` is the page, `/TOKEN/state` what it asks for; anything else is not found."""

    def known(request: Request) -> None:
        given = str(request.path_params["token"])
        if not secrets.compare_digest(given.encode(), token.encode()):
            raise HTTPException(404)

    def page(request: Request) -> Response:
        known(request)
        try:
            return HTMLResponse(served.page())
        except Ended:
            return Response(status_code=503)
        except (UserError, OSError) as error:
            return HTMLResponse(apology(str(error)), 503)

    def state(request: Request) -> Response:
        known(request)
        return JSONResponse(served.state())

    routes = [Route("/{token}", page), Route("/{token}/", page), Route("/{token}/state", state)]
    trusted = Middleware(TrustedHostMiddleware, allowed_hosts=HOSTS, www_redirect=False)
    app = Starlette(routes=routes, middleware=[trusted])
    app.router.redirect_slashes = False
    return app


def server_of(served: Served, token: str) -> uvicorn.Server:
    """Ready to run on a socket; it logs no request, and so no token."""
    config = uvicorn.Config(
        app_of(served, token),
        log_config=None,
        access_log=False,
        lifespan="off",
        proxy_headers=False,
        server_header=False,
        headers=list(HEADERS.items()),
        timeout_graceful_shutdown=5,
    )
    server = uvicorn.Server(config)
    served.ended = lambda: server.should_exit
    return server
