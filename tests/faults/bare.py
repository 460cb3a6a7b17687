"""The two agents on their own, straight at the endpoint, and what they make of its faults.

All faults of a batch are instances of one run of the program, as in any evaluation:
each has the endpoint and the container that its tag asks for. A permanent fault costs
them seconds, for they are told to ask again two times at most.
"""

from __future__ import annotations

import contextlib
import json
import re
import secrets
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import yaml
from docker.errors import APIError

from tests.faults.case import Peer, Right, Theirs
from tests.faults.material import ID, SceneError, daemon, embedded, gold, plain
from tests.faults.programs import start
from tests.faults.swerex import SWEAGENT, with_server
from tests.faults.talking import SUBMIT, Stage, Talk
from tests.loopback import Answer, completes, serve
from tests.tries import KEY

SUBMIT_TOOL = completes("I am done.", calls=[("submit", {})])
ASKS_AGAIN = 2
REQUEST_SECONDS = 4
SWE_SECONDS = 300
"""For all faults together."""
CONFINED = ("--rm", "--memory=512m", "--pids-limit=256")
LABEL = "passone.fault.peer"
STATED = "The day of a rule is lost after a short month."
CLEAN = ("Submitted", "submitted")


@dataclass(frozen=True, slots=True)
class Left:
    """What an agent left of one instance."""

    status: str
    patch: str | None
    """None: its predictions do not have this instance."""

    @property
    def words(self) -> str:
        kind = "no prediction" if self.patch is None else "a patch" if self.patch else "empty patch"
        return f"{self.status or 'no status'}, {kind}"

    def judged(self, right: Right) -> Peer:
        """Held against the right answer: a prediction will be scored, whatever else was said."""
        if right.outcome in ("resolved", "unresolved"):
            good: bool | None = bool(self.patch) and self.status in CLEAN
            if right.outcome == "resolved" and not mends(self.patch):
                good = False
        elif right.outcome in ("infra", "stopped", "refused"):
            # Half a patch or an empty one: a zero for good, and skipped the next time.
            good = None if self.patch is None else False
        else:
            good = True if self.patch is not None else None
        return Peer(words=self.words, right=good)


def mends(patch: str | None) -> bool:
    """Whether the reference solution is in it."""
    added = [line for line in gold().splitlines() if re.match(r"\+(?!\+\+)", line)]
    return patch is not None and all(line in patch.splitlines() for line in added)


Images: TypeAlias = Mapping[str, Callable[[], str] | None]
Runner: TypeAlias = Callable[[Path, str, Images, str], Mapping[str, Left]]
"""From a directory, an endpoint, the tags with their images, and a label to what was left."""


@dataclass(slots=True)
class Batch:
    """One program over many faults, run once, when the first of them is asked about."""

    runner: Runner
    submit: Answer = SUBMIT
    talks: dict[str, Talk] = field(default_factory=dict)
    images: dict[str, Callable[[], str] | None] = field(default_factory=dict)
    found: Mapping[str, Left] | None = None
    trouble: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def peer(
        self, tag: str, talk: Talk, right: Right, image: Callable[[], str] | None = None
    ) -> Theirs:
        """One more fault for it; in another image than the undamaged one where one is named."""
        self.talks[tag], self.images[tag] = talk, image

        def theirs(place: Path) -> Peer:
            return self.left(tag).judged(right)

        return theirs

    def left(self, tag: str) -> Left:
        with self.lock:
            if self.found is None and not self.trouble:
                try:
                    self.found = self._run()
                except (SceneError, OSError, ValueError, subprocess.SubprocessError) as error:
                    self.trouble = f"{type(error).__name__}: {error}"
        if self.found is None:
            raise SceneError(self.trouble)
        return self.found[tag]

    def _run(self) -> Mapping[str, Left]:
        label = f"{LABEL}={secrets.token_hex(4)}"
        stage = Stage(self.talks, self.submit)
        with tempfile.TemporaryDirectory(prefix="passone-bare-") as name:
            try:
                with serve(stage.answer) as server:
                    return self.runner(Path(name), server.base_url, self.images, label)
            finally:
                with daemon() as client:
                    for container in client.containers.list(all=True, filters={"label": label}):
                        with contextlib.suppress(APIError):
                            container.remove(force=True, v=True)


def issue(tag: str) -> str:
    return f"{STATED} [fault {tag}]"


def read_statuses(path: Path) -> dict[str, str]:
    """By instance, from what both write: a list of instances for each status."""
    groups = yaml.safe_load(path.read_text())["instances_by_exit_status"]
    return {str(id_): str(status) for status, ids in groups.items() for id_ in ids}


def read_left(preds: Path, statuses: Path, tags: Sequence[str]) -> dict[str, Left]:
    tree = json.loads(preds.read_text()) if preds.exists() else {}
    said = read_statuses(statuses) if statuses.exists() else {}
    return {
        tag: Left(said.get(tag, ""), (tree[tag]["model_patch"] or "") if tag in tree else None)
        for tag in tags
    }


def miniswe(place: Path, base_url: str, images: Images, label: str) -> Mapping[str, Left]:
    """`mini-extra swebench`, as its documentation has it."""
    own = {tag: image() if image else plain() for tag, image in images.items()}
    (place / "data").mkdir()
    rows = [
        {"instance_id": tag, "problem_statement": issue(tag), "image_name": image}
        for tag, image in own.items()
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (place / "data" / "test.jsonl").write_text(text)
    settings: dict[str, Any] = {
        "model.model_name": "openai/m-1",
        "model.model_kwargs.api_base": base_url,
        "model.model_kwargs.temperature": 0,
        "model.model_kwargs.max_retries": ASKS_AGAIN,
        "model.model_kwargs.timeout": REQUEST_SECONDS,
        "agent.step_limit": 6,
        "agent.cost_limit": 0,
        "environment.run_args": [*CONFINED, "--network=none", f"--label={label}"],
        "environment.timeout": 10,
        "environment.container_timeout": "600",
    }
    pairs = [part for k, v in settings.items() for part in ("-c", f"{k}={json.dumps(v)}")]
    files = ("--subset", str(place / "data"), "--split", "test", "-o", str(place / "out"))
    program = str(Path(sys.executable).with_name("mini-extra"))
    start(
        [program, "swebench", *files, "-w", "4", "-c", "swebench.yaml", *pairs],
        place,
        env={
            "OPENAI_API_KEY": KEY,
            "MSWEA_GLOBAL_CONFIG_DIR": str(place / "home"),
            "MSWEA_SILENT_STARTUP": "1",
            "MSWEA_COST_TRACKING": "ignore_errors",
            "MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT": "1",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        },
        seconds=400,
    )
    statuses = next(iter((place / "out").glob("exit_statuses_*.yaml")), place / "none")
    return read_left(place / "out" / "preds.json", statuses, list(images))


def sweagent(place: Path, base_url: str, images: Images, label: str) -> Mapping[str, Left]:
    """`sweagent run-batch`, as FACTS B of this project has it."""
    image = with_server()
    base = str(embedded()[ID].row["base_commit"])
    rows = [
        {
            "instance_id": tag,
            "image_name": image,
            "problem_statement": issue(tag),
            "repo_name": "testbed",
            "base_commit": base,
        }
        for tag in images
    ]
    (place / "instances.json").write_text(json.dumps(rows))
    arguments = [f"--label={label}", *CONFINED[1:]]
    options = {
        "instances.type": "file",
        "instances.path": str(place / "instances.json"),
        "instances.deployment.type": "docker",
        "instances.deployment.python_standalone_dir": "",
        "instances.deployment.pull": "never",
        "instances.deployment.startup_timeout": "60",
        "instances.deployment.docker_args": json.dumps(arguments),
        "agent.model.name": "openai/m-1",
        "agent.model.api_base": base_url,
        "agent.model.api_key": "$OPENAI_API_KEY",
        "agent.model.temperature": "0",
        "agent.model.top_p": "1",
        "agent.model.per_instance_cost_limit": "0",
        "agent.model.total_cost_limit": "0",
        "agent.model.per_instance_call_limit": "6",
        "agent.model.retry": json.dumps({"retries": 1}),
        "agent.model.completion_kwargs": json.dumps(
            {"timeout": REQUEST_SECONDS, "max_retries": ASKS_AGAIN}
        ),
        "output_dir": str(place / "out"),
        "num_workers": "4",
        "progress_bar": "False",
    }
    # What it cannot end by itself, such as a stuck start, has no status in what it wrote by then.
    with contextlib.suppress(SceneError):
        start(
            [SWEAGENT, "run-batch", *(f"--{name}={value}" for name, value in options.items())],
            place,
            env={"OPENAI_API_KEY": KEY, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "PYTHONPATH": ""},
            seconds=SWE_SECONDS,
        )
    out = place / "out"
    return read_left(out / "preds.json", out / "run_batch_exit_statuses.yaml", list(images))


MINI = Batch(miniswe)
SWE = Batch(sweagent, SUBMIT_TOOL) if SWEAGENT else None
BATCHES: Mapping[str, Batch | None] = {"miniswe": MINI, "sweagent": SWE}


def begin(names: Collection[str]) -> None:
    """Run these agents' batches beside what does not need them yet."""

    def run(batch: Batch) -> None:
        # Trouble is told to whoever asks.
        with contextlib.suppress(SceneError):
            batch.left(next(iter(batch.talks)))

    for name in names:
        batch = BATCHES.get(name)
        if batch is not None:
            threading.Thread(target=run, args=(batch,), daemon=True).start()


def bare(
    tag: str,
    talk: Talk,
    right: Right,
    *,
    only: Sequence[str] = ("miniswe", "sweagent"),
    image: Callable[[], str] | None = None,
) -> dict[str, Theirs]:
    """The agents, as far as they are installed; SWE-agent in no image but its own."""
    return {
        name: batch.peer(tag, talk, right, image)
        for name, batch in BATCHES.items()
        if batch is not None and name in only
    }
