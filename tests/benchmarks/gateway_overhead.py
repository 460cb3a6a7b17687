"""What the gateway adds to a request, beside the same upstream asked directly and through LiteLLM.

`python -m tests.benchmarks.gateway_overhead`; PASSONE_BENCH_LITELLM names the
`litellm` program of an install with its proxy. Upstream, gateway, proxy and clients
are a process each, as they are in a run; they take turns, and in every round.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import platform
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import yaml

from pipeline.gateway import Gateway, Upstream
from tests.benchmarks import upstream
from tests.benchmarks.load import KEY, Line, Times, ask_all, percentile
from tests.tries import recorder

LANES = 32
EVERY_SECONDS = 2.0
"""Sixteen requests a second in all: one core of LiteLLM's proxy must not be full with them."""
PAUSE_SECONDS = 0.02
STEPS = 75
LONG_BYTES = 200_000
START_SECONDS = 180
LITELLM = "PASSONE_BENCH_LITELLM"
DIRECT, GATEWAY, PROXY = "direct", "gateway", "LiteLLM's proxy"
SPAWN = multiprocessing.get_context("spawn")


def say(text: str = "") -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def request(messages: Sequence[Mapping[str, Any]], **more: object) -> bytes:
    tree = {"model": "bench", "messages": messages, "temperature": 0.0, "top_p": 1.0, **more}
    return json.dumps(tree).encode()


def growing() -> list[bytes]:
    """The requests of one long attempt: each holds all that was said before."""
    said = "def occurrences(self) -> Iterator[date]:  # almanac/recurrence.py\n"
    said *= LONG_BYTES // STEPS // len(said)
    messages = [{"role": "system", "content": "You fix bugs."}]
    bodies = []
    for step in range(STEPS):
        messages.append({"role": "user", "content": f"{step}: {said}"})
        bodies.append(request(messages))
        messages.append({"role": "assistant", "content": "Next."})
    return bodies


SHORT = [{"role": "user", "content": "The last occurrence is missing. " * 25}]
PLAIN, STREAMED, GROWING = "plain", "streamed", f"growing to {LONG_BYTES // 1000} kB"
BODIES = {
    PLAIN: [request(SHORT)],
    STREAMED: [request(SHORT, stream=True, stream_options={"include_usage": True})],
    GROWING: growing(),
}


def serve_gateway(link: Connection, base_url: str, lanes: int, tapes: Path) -> None:
    """The life of the gateway's process: lanes with tapes, as a run opens them."""
    source = Upstream(base_url, KEY)
    with Gateway() as gateway, contextlib.ExitStack() as stack:
        urls = [
            stack.enter_context(gateway.lane(source, recorder(tapes / f"{n}.jsonl"))).base_url
            for n in range(lanes)
        ]
        link.send(urls)
        link.recv()


@contextlib.contextmanager
def process(work: Any, *arguments: object) -> Iterator[Any]:
    """A process of its own; what it says first."""
    ours, theirs = SPAWN.Pipe()
    child = SPAWN.Process(target=work, args=(theirs, *arguments), daemon=True)
    child.start()
    try:
        yield ours.recv()
    finally:
        with contextlib.suppress(OSError):
            ours.send("over")
        child.join(5)
        child.terminate()
        child.join()


@contextlib.contextmanager
def litellm(program: str, base_url: str, place: Path) -> Iterator[str]:
    """LiteLLM's proxy with one worker and nothing but this endpoint; its base URL."""
    parameters = {"model": "openai/bench", "api_base": base_url, "api_key": KEY}
    config = {
        "model_list": [{"model_name": "bench", "litellm_params": parameters}],
        "litellm_settings": {"num_retries": 0, "telemetry": False, "set_verbose": False},
    }
    (place / "litellm.yaml").write_text(yaml.safe_dump(config))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [program, "--config", str(place / "litellm.yaml"), "--host", "127.0.0.1"]
    command += ["--port", str(port), "--num_workers", "1"]
    settings = {
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_MODE": "PRODUCTION",
        "LITELLM_LOG": "ERROR",
        "LITELLM_MASTER_KEY": KEY,
        "NO_PROXY": "127.0.0.1",
    }
    log = place / "litellm.log"
    with log.open("wb") as file:
        child = subprocess.Popen(
            command, stdout=file, stderr=file, cwd=place, env={**os.environ, **settings}
        )
    try:
        deadline = time.monotonic() + START_SECONDS
        while not answers(f"http://127.0.0.1:{port}/health/liveliness"):
            if child.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"it did not start: {log.read_text(errors='replace')[-500:]}")
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        child.terminate()
        child.wait(30)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


@dataclass(slots=True)
class Way:
    """One way to the upstream, and how long it took."""

    name: str
    lines: Sequence[Line]
    moderate: dict[str, Times] = field(default_factory=dict)
    saturated: dict[str, Times] = field(default_factory=dict)


def lines_to(urls: Sequence[str]) -> list[Line]:
    """Every lane is elsewhere in its conversation."""
    return [Line(url, asked=n * STEPS // len(urls)) for n, url in enumerate(urls)]


async def measure(ways: Sequence[Way], pause: Any, *, rounds: int, seconds: float) -> None:
    """All ways in turn, again and again: whatever else the machine does meets them all."""
    for way in ways:
        for bodies in BODIES.values():
            await ask_all(way.lines, bodies, seconds=1)
    for number in range(rounds):
        turned = [*ways[number % len(ways) :], *ways[: number % len(ways)]]
        for kind, bodies in BODIES.items():
            for way in turned:
                pause.value = PAUSE_SECONDS
                slow = await ask_all(way.lines, bodies, seconds=seconds, every=EVERY_SECONDS)
                pause.value = 0.0
                fast = await ask_all(way.lines, bodies, seconds=seconds / 3)
                for table, times in ((way.moderate, slow), (way.saturated, fast)):
                    total = table.setdefault(kind, Times())
                    total += times


def added(way: Way, direct: Way, kind: str, part: str) -> list[float]:
    """Milliseconds over the direct way, at p50 and p99."""
    ours, theirs = (getattr(times.moderate[kind], part) for times in (way, direct))
    return [1000 * (percentile(ours, p) - percentile(theirs, p)) for p in (50, 99)]


def report(ways: Sequence[Way]) -> None:
    direct, *others = ways
    heads = "".join(f"{way.name:>24}" for way in others)
    ratio = "ratio" if len(others) > 1 else ""
    say(
        f"added latency in ms, p50 / p99: {LANES} lanes, each a request every {EVERY_SECONDS:g} s; "
        f"the upstream answers after {PAUSE_SECONDS * 1000:g} ms"
    )
    say(f"{'':28}{'direct (whole)':>18}{heads}{ratio:>10}")
    for kind in BODIES:
        for part in ("first", "whole") if kind == STREAMED else ("whole",):
            label = f"{kind}, first bytes" if part == "first" else kind
            base = [1000 * percentile(getattr(direct.moderate[kind], part), p) for p in (50, 99)]
            figures = [added(way, direct, kind, part) for way in others]
            cells = "".join(f"{f'+{a:.2f} / +{b:.2f}':>24}" for a, b in figures)
            times = f"{figures[1][0] / figures[0][0]:>9.1f}×" if len(figures) > 1 else ""
            say(f"{label:28}{f'{base[0]:.1f} / {base[1]:.1f}':>18}{cells}{times}")
    say()
    say(f"requests/s, saturated: {LANES} lanes, each with the next request at once")
    say(f"{'':28}{direct.name:>18}{heads}{ratio:>10}")
    for kind in BODIES:
        rates = [way.saturated[kind].a_second for way in ways]
        cells = "".join(f"{rate:>24.0f}" for rate in rates[1:])
        times = f"{rates[1] / rates[2]:>9.1f}×" if len(rates) > 2 else ""
        say(f"{kind:28}{rates[0]:>18.0f}{cells}{times}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=6.0, help="of one way in one round")
    options = parser.parse_args()
    pause = SPAWN.Value("d", 0.0)
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        place = Path(name)
        url = stack.enter_context(process(upstream.serve, pause))
        lanes = stack.enter_context(process(serve_gateway, url, LANES, place))
        ways = [Way(DIRECT, lines_to([url] * LANES)), Way(GATEWAY, lines_to(lanes))]
        program = os.environ.get(LITELLM, "")
        skipped = f"{LITELLM} names no program of LiteLLM's" if not Path(program).is_file() else ""
        if not skipped:
            try:
                proxy = stack.enter_context(litellm(program, url, place))
                ways.append(Way(PROXY, lines_to([proxy] * LANES)))
            except RuntimeError as error:
                skipped = str(error)
        say(f"Python {platform.python_version()}, {os.cpu_count()} cores")
        if skipped:
            say(f"{PROXY}: skipped: {skipped}")
        asyncio.run(measure(ways, pause, rounds=options.rounds, seconds=options.seconds))
        report(ways)


if __name__ == "__main__":
    main()
