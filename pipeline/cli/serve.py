"""`passone serve`: the report of runs in a browser, while somebody drives them."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.cli.runs import run_at

if TYPE_CHECKING:
    from pipeline.domain import Instance
    from pipeline.report import Source
    from pipeline.rundir import RunDir

EPILOG = """Examples:

  passone serve logs/mini-5

  passone serve logs/model-a logs/model-b --port 8123"""

HOST = "127.0.0.1"
NICER = 5
"""Who drives a run goes first."""


def serve(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="One to four run directories, or bundles."),
    ],
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Of this machine; 0 takes a free one.")
    ] = 0,
    every: Annotated[
        bool, typer.Option("--all", help="All trajectories, however large the page becomes.")
    ] = False,
) -> None:
    """Serve the report of runs on this machine alone, made again while somebody drives them.

    Only who has the printed address can read it. ^C ends it; nothing is written into a run.
    """
    import secrets

    from pipeline.cli.drive import STOPPING
    from pipeline.cli.watch import line_of
    from pipeline.outcomes import UserError
    from pipeline.report import MOST_RUNS
    from pipeline.report.serving import Served, server_of
    from pipeline.results import read_plan

    if len(runs) > MOST_RUNS:
        raise UserError(f"passone serve: {len(runs)} runs; up to {MOST_RUNS} stand side by side")
    reading = Reading(runs, [run_at(path) for path in runs])
    for place in reading.places:
        read_plan(place)
    served = Served(reading.places, reading.now, words=line_of, every=every)
    token = secrets.token_urlsafe(24)
    with listening(port) as heard:
        server = server_of(served, token)

        def end(*_: object) -> None:
            server.should_exit = True

        # The server passes on what it was ended with: that is no failure here.
        for number in STOPPING:
            signal.signal(number, end)
        os.nice(NICER)
        announce(heard.getsockname()[1], token)
        server.run(sockets=[heard])


class Reading:
    """Runs, read again and again; what cannot change meanwhile is read once."""

    def __init__(self, paths: Sequence[Path], places: Sequence[RunDir]) -> None:
        self.paths, self.places = paths, places
        self._instances: dict[tuple[int, str], Mapping[str, Instance]] = {}
        self._before: dict[int, Source] = {}

    def now(self) -> list[Source]:
        """Raises UserError: a run is gone, or cannot be read."""
        return [self._source(n) for n in range(len(self.places))]

    def _source(self, n: int) -> Source:
        from pipeline import report
        from pipeline.cli.lanes import cut_off_usage
        from pipeline.cli.report import instances_beside
        from pipeline.ledger import Book
        from pipeline.results import load, of_book, read_plan

        run, plan = self.places[n], read_plan(self.places[n])
        key = (n, str(plan["selection"]["fingerprint"]))
        if key not in self._instances:
            self._instances[key] = instances_beside(self.paths[n], run, plan)
        # Planned, and not begun: nothing is in it yet.
        begun = run.ledger.exists()
        results = load(run, cut_off=cut_off_usage(run)) if begun else of_book(plan, Book())
        before = self._before.get(n)
        self._before[n] = report.source_of(run, results, self._instances[key], before)
        return self._before[n]


def listening(port: int) -> socket.socket:
    """A port of this machine's own, on which somebody listens from here on.

    Raises:
        UserError: it is taken, or may not be used.
    """
    from pipeline.outcomes import UserError

    # asyncio sets TCP_NODELAY only where a socket says that it is TCP.
    heard = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    heard.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        heard.bind((HOST, port))
        heard.listen()
    except OSError as error:
        heard.close()
        raise UserError(
            f"--port {port}: cannot be listened on: {error.strerror or error}; "
            "take another, or leave it out for a free one"
        ) from None
    return heard


def announce(port: int, token: str) -> None:
    """Where it is; over ssh, also what leads there."""
    typer.echo(f"http://{HOST}:{port}/{token}")
    far = os.environ.get("SSH_CONNECTION", "").split()
    if len(far) == 4:
        import getpass

        gate = "" if far[3] == "22" else f"-p {far[3]} "
        there = f"{getpass.getuser()}@{far[2]}"
        line = f"ssh -N -L {port}:{HOST}:{port} {gate}{there}"
        typer.echo(f"over ssh, first on the machine of your browser: {line}", err=True)
    typer.echo("whoever has this address can read the report; ^C ends it", err=True)


def register(app: typer.Typer) -> None:
    app.command(epilog=EPILOG)(serve)
