"""Where names become objects."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.outcomes import UserError

if TYPE_CHECKING:
    from pipeline.brake import Brake
    from pipeline.cli.place import Place
    from pipeline.cli.voice import Voice
    from pipeline.contracts import Agent, Sandbox, Sandboxes, Scorer
    from pipeline.domain import Attempt, Fault, Instance, Submission
    from pipeline.gateway import Terms, Upstream
    from pipeline.gateway.lanes import Source
    from pipeline.plan import RunPlan
    from pipeline.recipe import Recipe
    from pipeline.rundir import RunDir
    from pipeline.runner import Lanes
    from pipeline.sites import Site


def make_agent(name: str, options: Mapping[str, Any]) -> Agent:
    """Raises UserError: nobody knows this agent."""
    from pipeline.agents.command import CommandAgent
    from pipeline.agents.controls import Control
    from pipeline.agents.miniswe import MiniSweAgent
    from pipeline.agents.sweagent import SweAgent

    agents: dict[str, Callable[[Mapping[str, Any]], Agent]] = {
        "sweagent": SweAgent,
        "miniswe": MiniSweAgent,
        "command": CommandAgent,
        "gold": lambda options: Control("gold"),
        "oracle": lambda options: Control("oracle"),
        "empty": lambda options: Control("empty"),
    }
    if name not in agents:
        raise UserError(f"unknown agent {name!r}; known: {', '.join(agents)}")
    return agents[name](whole(options))


def whole(options: Mapping[str, Any]) -> dict[str, Any]:
    """Agent options with whole paths: agents run elsewhere."""
    files = ("program", "checkout", "config")
    return {
        key: str(Path(value).absolute())
        if key in files and isinstance(value, str) and Path(value).exists()
        else value
        for key, value in options.items()
    }


def check_source(recipe: Recipe, agent: Agent) -> str:
    """The key, where one is needed; nothing is sent yet.

    Raises:
        UserError: a missing or impossible key, base URL or model name, or a key that
            the config would write to disk.
    """
    from pipeline.agents.driving import SECRET_NAME
    from pipeline.cli.planning import replies_path
    from pipeline.gateway import check_endpoint, read_key
    from pipeline.gateway.upstream import SHORTEST_SECRET

    if not agent.asks_model or replies_path(recipe) is not None:
        return ""
    check_endpoint(recipe.model)
    key = read_key(recipe.model.key_variable)
    # Headers are the one part of a config that is never written down.
    written = recipe.model_dump_json(exclude={"model": {"headers"}})
    if len(key) >= SHORTEST_SECRET and key in written:
        raise UserError(
            f"the config holds the value of {recipe.model.key_variable}; it would be written to "
            "disk: leave it to model.key_variable"
        )
    for name, value in os.environ.items():
        # Anybody else's key, written out. A short value may be a common word.
        if SECRET_NAME.search(name) and len(value) >= 2 * SHORTEST_SECRET and value in written:
            raise UserError(
                f"the config holds the value of {name}; it would be written to disk: an agent has "
                "no use for it, since the gateway holds the key of the model"
            )
    return key


def make_source(recipe: Recipe, plan: RunPlan, agent: Agent) -> Callable[[Attempt, int], Source]:
    """Where a try's answers come from: the endpoint, or scripted replies.

    Raises:
        UserError: see `check_source`; a script that does not cover the plan.
    """
    from pipeline.cli.planning import replies_path
    from pipeline.gateway import load_scripts
    from pipeline.process import forget

    path = replies_path(recipe)
    if path is not None:
        scripts = load_scripts(path)
        for attempt in plan.grid():
            scripts.for_try(attempt, 1)
        return scripts.for_try
    upstream = make_upstream(recipe, check_source(recipe, agent))
    # From here on only the gateway holds the key, and what headers hold: no child inherits
    # one of them, whatever its variable is called.
    secrets = upstream.secrets
    held = {name for name, value in os.environ.items() if value.strip().encode() in secrets}
    for name in {recipe.model.key_variable, *held}:
        forget(name)
    return lambda attempt, number: upstream


def make_upstream(recipe: Recipe, key: str) -> Upstream:
    """The endpoint of a recipe."""
    from pipeline.gateway import Upstream, check_endpoint

    return Upstream(
        check_endpoint(recipe.model),
        key,
        headers=recipe.model.headers,
        request_seconds=recipe.gateway.request_seconds,
        stall_seconds=recipe.gateway.stall_seconds,
    )


def gold_of(instance: Instance) -> Submission | None:
    """The reference solution, as its row has it; None: it has none."""
    from pipeline.domain import Patch, Reference

    row = instance.row
    if "patch" in row:
        return Patch(str(row["patch"]))
    return Reference(instance.id) if row.get("solution") else None


def check_benchmark(name: str, agent: str, *, rescore: bool = False) -> None:
    """Raises UserError: that agent cannot work there, or its work cannot be graded again."""
    from pipeline.agents.controls import SUBMITS

    known = ("miniswe", *SUBMITS)
    if name == "terminal" and agent not in known:
        raise UserError(f"agent {agent!r} works on no terminal tasks; known: {', '.join(known)}")
    if name == "terminal" and rescore:
        raise UserError(
            "--rescore: machines are not kept once they are settled, so none can be graded again; "
            "give the run another name: --set name=…"
        )


def make_official_scorer(sandboxes: Sandboxes, plan: RunPlan) -> Scorer:
    """By the rules of the plan's benchmark."""
    if plan.selection.benchmark == "terminal":
        from pipeline.benchmarks.terminal.scorer import TerminalScorer
        from pipeline.docker import DockerMachines

        assert isinstance(sandboxes, DockerMachines)
        return TerminalScorer(sandboxes, plan.sandbox)
    from pipeline.benchmarks.swebench import SwebenchScorer

    return SwebenchScorer(sandboxes, plan.sandbox)


def make_sandboxes(place: Place, instances: Sequence[Instance]) -> Sandboxes:
    """Docker; for the embedded benchmark alone, a local sandbox where there is none.

    Raises:
        UserError: Docker does not answer, or no base image can be had.
    """
    if place.benchmark == "terminal":
        from pipeline.cli.terminal import make_machines

        return make_machines(place, instances)
    from pipeline.docker import DockerSandboxes, EmbeddedImages, Images, LocalSandboxes, connect
    from pipeline.docker.embedded import plant
    from pipeline.docker.sandbox import RUN_LABEL

    embedded = all(item.image.startswith("passone/demo.") for item in instances)
    local = LocalSandboxes(place.run.scratch, plant, place.cancelled)
    if place.kind == "local":
        return local
    try:
        client = connect()
        images = Images(client, place.mirrors, place.cancelled)
        key = place.run.key
        docker = DockerSandboxes(client, images, key, place.limits, cancelled=place.cancelled)
        if embedded:
            docker.prepare = EmbeddedImages(client, place.say, {RUN_LABEL: key})
            docker.prepare.ensure_base()
    except UserError as error:
        if not embedded or place.kind == "docker":
            raise
        place.say(str(error).partition(";")[0])
        return local
    return docker


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Everything that a plan is carried out with."""

    plan: RunPlan
    run: RunDir
    instances: Sequence[Instance]
    agent: Agent
    sandboxes: Sandboxes
    scorer: Scorer
    lanes: Lanes
    terms: Terms
    brake: Brake
    voice: Voice
    replayed: str = ""
    """The run whose tapes stand in for an endpoint."""
    tries_of: Callable[[Attempt], int] | None = None
    """How many tries it recorded."""
    rescore: bool = False
    """Look no verdict up, and score again what has been scored."""


def refuse_mismatch(agent: Agent, sandboxes: Sandboxes) -> None:
    """Raises UserError: this agent cannot work in that place."""
    if not agent.asks_model:
        return
    if agent.name == "sweagent" and sandboxes.name == "local":
        raise UserError("agent 'sweagent' works in containers only; start Docker, or use miniswe")
    if sandboxes.name == "docker" and shutil.which("docker") is None:
        raise UserError(
            f"agent {agent.name!r} starts its containers with the docker command, which is not "
            "on PATH; install Docker's client"
        )


class Nowhere:
    """Sandboxes for a run that starts nothing: its verdicts exist already."""

    name = "none"
    left: Sequence[str] = ()
    snapshots: Collection[str] = ()

    def preflight(self, instances: Sequence[Instance]) -> Sequence[str]:
        return ()

    def digest(self, instance: Instance) -> str:
        return ""

    def open(self, instance: Instance, *, offline: bool = False) -> AbstractContextManager[Sandbox]:
        raise UserError("this run imports its verdicts; nothing can be started")

    def site(self, instance: Instance, attempt: Attempt) -> AbstractContextManager[Site]:
        raise UserError("this run imports its verdicts; nothing can be started")

    def casualty(self, site: Site, *, until: float) -> Fault | None:
        return None

    def discard(self, names: Collection[str]) -> None:
        return

    def reap(self) -> int:
        return 0
