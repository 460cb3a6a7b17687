"""`passone run` as a user starts it: a real agent, a scripted endpoint, a planted key."""

from __future__ import annotations

import contextlib
import csv
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from pipeline.gateway.tapes import lines_of
from pipeline.process import SCRATCH_VARIABLE
from tests.faults import scene
from tests.faults.case import STOPPED, Right, Seen
from tests.faults.material import ID, Row, daemon, row
from tests.faults.programs import Done, Hunt, Strike, start
from tests.faults.scene import LIMITS
from tests.faults.talking import SOLVES, Stage, Talk
from tests.loopback import Received, serve
from tests.tries import KEY

RUN = "fault"
PORT = re.compile(r"(127\.0\.0\.1):\d+")
APART: Mapping[str, Any] = {"environment": {"run_args": ["--network", "none"]}}
"""Options of mini-swe-agent: nothing here needs a network, and none is quicker."""
MINI: Mapping[str, Any] = {"name": "miniswe", "options": APART}
SETTINGS = (
    *LIMITS,
    "gateway.backoff_seconds=0.05",
    "gateway.requests=2",
    "execution.tries=1",
    "limits.steps=6",
    "limits.seconds=90",
    "limits.cost_usd=0",
    "sandbox.network=off",
)
"""Nothing is waited for longer than it must be; what a case sets comes after and wins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """One invocation: what came of it, and what the endpoint was asked."""

    place: Path
    done: Done
    requests: Sequence[Received]

    @property
    def root(self) -> Path:
        return self.place / "logs" / RUN

    @property
    def records(self) -> list[dict[str, str]]:
        table = self.root / "report" / "attempts.csv"
        if not table.exists():
            return []
        with table.open(newline="") as file:
            return list(csv.DictReader(file))

    def attempt(self, number: int = 1, instance_id: str = ID) -> Path:
        """The directory of an attempt."""
        return self.root / "attempts" / instance_id / str(number)

    def seen(self, *wrong: str) -> Seen:
        """What all attempts came to: one answer, for a case has one.

        Args:
            wrong: whatever else the case found that should not be.
        """
        found = [
            scene.read(self.root, self.done, record["instance"], int(record["attempt"]))
            for record in self.records
        ] or [scene.read(self.root, self.done, ID)]
        answers = {str(seen.answer): seen for seen in found}
        whole = found[0]
        if "pending" in answers:
            whole = replace(answers["pending"], answer=STOPPED, said=self.stopping)
            if not whole.said:
                wrong = (*wrong, "nobody was told why it stopped")
        elif len(answers) > 1:
            whole = replace(whole, answer=Right(" + ".join(sorted(answers))))
        notes = [*(seen.wrong for seen in found), *wrong, *leaks(self.place), *orphans(self.root)]
        notes += ["a traceback was printed"] if "Traceback (most" in self.done.err else []
        notes += ["the key was printed"] if KEY in self.done.out + self.done.err else []
        said = PORT.sub(r"\1", whole.said)
        return replace(whole, said=said, wrong="; ".join(dict.fromkeys(filter(None, notes))))

    @property
    def stopping(self) -> str:
        """Why the run stopped by itself, as a person was told."""
        said = [line for line in self.done.err.splitlines() if "stopping; nothing is lost" in line]
        return scene.shorten(said[-1], self.root) if said else ""


def leaks(place: Path) -> list[str]:
    """Files that hold the planted key."""
    found = []
    for path in place.rglob("*"):
        if not path.is_file() or path.is_symlink():
            continue
        packed = path.name.endswith(".jsonl.zst")
        held = any(KEY.encode() in line for line in lines_of(path)) if packed else False
        if held or KEY.encode() in path.read_bytes():
            found.append(f"the key stands in {path.name}")
    return found


def orphans(root: Path) -> list[str]:
    """Processes that an agent of this run started, and that are still there."""
    marker = f"{SCRATCH_VARIABLE}={root}{os.sep}".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if marker in (entry / "environ").read_bytes():
                found.append(f"a process is left: {(entry / 'comm').read_text().strip()}")
                os.kill(int(entry.name), 9)
    return found


def write_config(
    place: Path,
    base_url: str,
    agent: Mapping[str, Any],
    rows: Sequence[Row],
    attempts: int,
) -> Path:
    dataset, _ = scene.write_inputs(place, [(of, "") for of in rows])
    path = place / "run.yaml"
    tree = {
        "name": RUN,
        "selection": {"dataset": str(dataset), "strategy": "all"},
        "agent": dict(agent),
        "model": {"name": "openai/m-1", "base_url": base_url},
        "attempts": attempts,
    }
    path.write_text(yaml.safe_dump(tree))
    return path


def drive(
    place: Path,
    talk: Talk = SOLVES,
    *settings: str,
    agent: Mapping[str, Any] | None = None,
    rows: Sequence[Row] = (),
    attempts: int = 1,
    doctor: bool = False,
    base_url: str = "",
    strike: Strike | None = None,
    env: Mapping[str, str] | None = None,
    program: Sequence[str] = scene.PASSONE,
    seconds: float = 150,
) -> Ran:
    """Run once; the endpoint goes when this returns.

    Args:
        settings: `key=value`, after SETTINGS.
        rows: an embedded one in its undamaged image unless given.
        base_url: of another endpoint than the scripted one.
        strike: what happens meanwhile to the run's containers.
    """
    root = place / "logs" / RUN
    sets = [part for setting in (*SETTINGS, *settings) for part in ("--set", setting)]
    with serve(Stage({"": talk}).answer) as server, daemon() as client:
        config = write_config(
            place,
            base_url or server.base_url,
            agent or MINI,
            rows or [row()],
            attempts,
        )
        look = [] if doctor else ["--no-doctor"]
        argv = [*program, "run", str(config), *look, *sets, "--logs", str(place / "logs")]
        hunt = Hunt(client, lambda: scene.run_label(root))
        done = start(
            argv,
            place,
            env={"OPENAI_API_KEY": KEY, **(env or {})},
            seconds=seconds,
            strike=(lambda: strike(hunt)) if strike else None,
            over=hunt.over,
        )
        return Ran(place=place, done=done, requests=list(server.requests))


@contextlib.contextmanager
def swept(place: Path) -> Iterator[None]:
    """Remove whatever containers a run in this place has left, once it was looked at."""
    try:
        yield
    finally:
        scene.remove_containers(place / "logs" / RUN)


def solve(place: Path, talk: Talk = SOLVES, *settings: str, **more: Any) -> Seen:
    """What `passone run` makes of it; see `drive`."""
    with swept(place):
        return drive(place, talk, *settings, **more).seen()


def commanded(*argv: str) -> dict[str, Any]:
    """The agent `command` with this program."""
    return {"name": "command", "options": {"argv": list(argv)}}


def escaped(text: str) -> str:
    """For an argv in which braces name fields."""
    return text.replace("{", "{{").replace("}", "}}")


def told(text: str, *arguments: str) -> dict[str, Any]:
    """The agent `command` with a program in Python; its braces are its own."""
    return commanded(sys.executable, "-c", escaped(text), *arguments)


ASKS = """\
import http.client, json, os, sys, urllib.request
model, patch_file, limit, instead = sys.argv[1:]
says = [{"role": "user", "content": "Mend it."}]
def ask():
    body = {"model": model, "messages": says, "temperature": 0, "top_p": 1}
    head = {"content-type": "application/json", "authorization": "Bearer dummy"}
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    sent = urllib.request.Request(url, json.dumps(body).encode(), head)
    with urllib.request.urlopen(sent, timeout=float(limit)) as answer:
        return json.load(answer)["choices"][0]["message"]["content"]
def leave(patch):
    with open(patch_file, "w") as file:
        file.write(patch)
    sys.exit(0)
while True:
    try:
        said = ask()
    except (OSError, http.client.HTTPException) as error:
        # As some agents do: what there is by then is handed in, and all is well.
        print(repr(error))
        leave(instead)
    if said.startswith("PATCH "):
        leave(said[6:])
    if said.startswith("RUN "):
        exec(said[4:])
    says += [{"role": "assistant", "content": said}, {"role": "user", "content": "Go on."}]
"""
"""A program that asks until it is told what to hand in; it runs what it is told to, too."""


def asking(*, seconds: float = 100, instead: str = "half a patch") -> dict[str, Any]:
    """The agent `command` with that program.

    Args:
        seconds: it waits for an answer.
        instead: what it hands in where there is none.
    """
    return told(ASKS, "{model}", "{patch_file}", str(seconds), escaped(instead))
