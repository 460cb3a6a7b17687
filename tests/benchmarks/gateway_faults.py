"""A whole run against a server that fails one request in five: what is lost, and who is blamed.

`python -m tests.benchmarks.gateway_faults`. The real mini-swe-agent, runner, gateway
and grader work through the embedded benchmark twice: with the server well, and with it
failing in every way that is known. Both runs must come to the same.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

import pipeline
from pipeline.domain import Attempt
from pipeline.gateway.scripts import CHARACTERS_A_TOKEN, Script, ScriptBody, load_scripts
from pipeline.gateway.tapes import read_tape
from pipeline.outcomes import BLAME, Blame, Outcome
from tests.loopback import Answer, Received, as_json, refuses, serve

ROOT = Path(__file__).parent.parent.parent
DEMO = Path(pipeline.__file__).parent / "demo"
PASSONE = Path(sys.executable).with_name("passone")
KEY_VARIABLE = "PASSONE_BENCH_KEY"
PATIENCE_SECONDS = 3.0
"""The gateway's, for one answer."""
ONE_IN = 5
WELL, FAILING = "well", "failing"


def say(text: str = "") -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


PAGE = b"<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"
WAYS: dict[str, Answer] = {
    "500": refuses(500, "internal error"),
    "502 with a page": Answer(status=502, content=PAGE, headers={"content-type": "text/html"}),
    "503": refuses(503, "overloaded"),
    "429": refuses(429, "slow down", "rate_limit_exceeded"),
    "429 with Retry-After": refuses(429, "slow down", "rate_limit_exceeded", Retry_After="1"),
    "a reset": Answer(manner="reset"),
    "half a body": Answer(manner="cut"),
    "a page with 200": Answer(content=PAGE, headers={"content-type": "text/html"}),
    "an error with 200": as_json({"error": {"code": 502, "message": "provider broke off"}}),
    "no choices": as_json({"object": "chat.completion", "choices": []}),
    "malformed JSON": Answer(content=b'{"object": "chat.completion", "choices": [{"ind'),
    "a hang": Answer(seconds=PATIENCE_SECONDS + 2),
}
"""Each in its turn. Half a body is half of the right one; a hang outlasts the patience."""


@dataclass(slots=True)
class Endpoint:
    """The embedded replies over real sockets, by what the request asks about."""

    scripts: dict[str, ScriptBody]
    """By the problem statement that the first message of the user holds."""
    fails: bool
    chance: random.Random = field(default_factory=lambda: random.Random(0))
    served: Counter[str] = field(default_factory=Counter)
    """How often each way of failing was served."""
    asked: int = 0
    _block: list[bool] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, request: Received, number: int) -> Answer:
        right = self.right(request)
        with self._lock:
            self.asked += 1
            if not self.fails or not self.unlucky():
                return right
            way = list(WAYS)[self.served.total() % len(WAYS)]
            self.served[way] += 1
        answer = WAYS[way]
        return replace(answer, content=right.content) if answer.manner == "cut" else answer

    def unlucky(self) -> bool:
        """One of every five, anywhere among them: two may follow each other."""
        if not self._block:
            self._block = [True] + [False] * (ONE_IN - 1)
            self.chance.shuffle(self._block)
        return self._block.pop()

    def right(self, request: Received) -> Answer:
        first = next(m["content"] for m in request.body["messages"] if m["role"] == "user")
        text = first if isinstance(first, str) else "".join(part["text"] for part in first)
        body = next(body for prompt, body in self.scripts.items() if prompt in text)
        reply = Script(body, 1).answer(request.body, len(request.content) // CHARACTERS_A_TOKEN)
        return Answer(status=reply.status, content=reply.content)


def scripts() -> dict[str, ScriptBody]:
    """The embedded replies without the faults that they hold themselves."""
    played = load_scripts(DEMO / "replies.yaml")
    found = {}
    for line in (DEMO / "instances.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        body = played.for_try(Attempt(row["instance_id"], 1), 1).body
        found[row["problem_statement"].strip()] = body.model_copy(update={"fault": None})
    return found


def config(name: str, base_url: str, size: int) -> dict[str, Any]:
    """configs/demo.yaml, with an endpoint in place of its replies."""
    tree: dict[str, Any] = yaml.safe_load((ROOT / "configs" / "demo.yaml").read_text())
    tree["name"] = name
    tree["selection"]["size"] = size
    tree["model"] = {
        "name": "openai/scripted",
        "base_url": base_url,
        "key_variable": KEY_VARIABLE,
    }
    tree["gateway"] = {"request_seconds": PATIENCE_SECONDS, "backoff_seconds": 0.2}
    return tree


@dataclass(frozen=True, slots=True)
class Ran:
    """What one run came to."""

    rows: dict[tuple[str, str], dict[str, str]]
    """Of its table, by instance and attempt."""
    discarded: int
    """Answers on its tapes that no agent saw."""
    endpoint: Endpoint
    seconds: float


def run(name: str, place: Path, size: int) -> Ran:
    """`passone run`, as a user starts it."""
    endpoint = Endpoint(scripts(), fails=name == FAILING)
    began = time.monotonic()
    with serve(endpoint) as server:
        (place / f"{name}.yaml").write_text(yaml.safe_dump(config(name, server.base_url, size)))
        command = [str(PASSONE), "run", f"{name}.yaml", "--no-doctor", "--quiet", "--logs", "logs"]
        environment = {**os.environ, KEY_VARIABLE: "sk-bench-0123456789"}
        done = subprocess.run(
            command, cwd=place, env=environment, capture_output=True, text=True, check=False
        )
    table = place / "logs" / name / "report" / "attempts.csv"
    if not table.exists():
        raise SystemExit(f"passone run left no table (status {done.returncode}):\n{done.stderr}")
    with table.open(newline="", encoding="utf-8") as file:
        rows = {(row["instance"], row["attempt"]): row for row in csv.DictReader(file)}
    tapes = [read_tape(path) for path in (place / "logs" / name).glob("attempts/*/*/*/tape.*")]
    discarded = sum(exchange.discarded for tape in tapes for exchange in tape.exchanges)
    return Ran(rows, discarded, endpoint, time.monotonic() - began)


def is_lost(row: Mapping[str, str] | None) -> bool:
    """Without an outcome, or with one that says nothing about the model."""
    return row is None or not row["outcome"] or BLAME.get(Outcome(row["outcome"])) is Blame.INFRA


def report(well: Ran, failing: Ran) -> None:
    lost: list[tuple[str, str]] = []
    blamed: list[tuple[str, str]] = []
    other: list[tuple[str, str]] = []
    for key, row in well.rows.items():
        found = failing.rows.get(key)
        if found is None or is_lost(found):
            lost.append(key)
        elif found["outcome"] != row["outcome"]:
            blames = BLAME[Outcome(found["outcome"])] is Blame.MODEL
            (blamed if blames else other).append(key)
    served, asked = failing.endpoint.served, failing.endpoint.asked
    for way, times in served.items():
        say(f"  {way:24}{times:>4}")
    for key in [*lost, *blamed, *other]:
        ours = failing.rows.get(key, {})
        say(
            f"  {key[0]} #{key[1]}: {well.rows[key]['outcome']} when the server was well, "
            f"{ours.get('outcome', 'nothing')} ({ours.get('cause', '')}) when it failed"
        )
    say(
        f"attempts {len(well.rows)}, lost {len(lost)}, outcomes blamed on the model that were "
        f"not: {len(blamed)}, otherwise changed: {len(other)}"
    )
    failures = served.total()
    say(
        f"requests failed {failures} of {asked} ({100 * failures / asked:.0f} %), "
        f"kept from the agents: {failing.discarded}"
    )
    say(
        f"requests without failures: {well.endpoint.asked}, and {asked - failures} with them; "
        f"{well.seconds:.0f} s and {failing.seconds:.0f} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--size", type=int, default=10, help="instances, of ten")
    parser.add_argument("--keep", type=Path, help="a directory for both runs; else they are gone")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        place = options.keep or Path(name)
        place.mkdir(parents=True, exist_ok=True)
        ran = {name: run(name, place, options.size) for name in (WELL, FAILING)}
    report(ran[WELL], ran[FAILING])


if __name__ == "__main__":
    main()
