"""Where names become objects."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from pipeline.outcomes import UserError

if TYPE_CHECKING:
    from pipeline.benchmarks.dataset import Dataset
    from pipeline.config import Recipe, SelectionRecipe
    from pipeline.contracts import Agent, Sandbox, Sandboxes, Site
    from pipeline.domain import Attempt, Instance, SandboxLimits
    from pipeline.gateway.lanes import Source
    from pipeline.plan import RunPlan, Selection
    from pipeline.rundir import RunDir


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
        "empty": lambda options: Control("empty"),
    }
    if name not in agents:
        raise UserError(f"unknown agent {name!r}; known: {', '.join(agents)}")
    return agents[name](whole(options))


def read_ids(names: Sequence[str]) -> tuple[str, ...]:
    """Ids as they are; a name that is a file stands for the ids in it (a manifest, JSON or lines).

    Raises:
        UserError: the file cannot be read.
    """
    ids: list[str] = []
    for name in names:
        path = Path(name)
        if not path.is_file():
            ids.append(name)
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{path}: cannot be read as a list of ids: {error}") from None
        try:
            tree = json.loads(text)
        except ValueError:
            tree = text.split()
        found = tree.get("ids") if isinstance(tree, dict) else tree
        if not isinstance(found, list):
            raise UserError(f"{path}: holds no list of ids")
        ids += [str(item) for item in found]
    return tuple(dict.fromkeys(ids)) if len(names) != len(ids) else tuple(ids)


def draw(recipe: SelectionRecipe) -> tuple[Selection, list[Instance], Dataset]:
    """Load the dataset and draw from it.

    Raises:
        UserError: what cannot be found, or cannot be drawn.
    """
    from pipeline import sampler
    from pipeline.benchmarks import dataset as datasets
    from pipeline.plan import Selection

    dataset = datasets.load(recipe.dataset, recipe.split)
    resolved = recipe.model_copy(
        update={"ids": read_ids(recipe.ids), "exclude": read_ids(recipe.exclude)}
    )
    instances = sampler.draw(dataset.instances, resolved)
    if not instances:
        raise UserError("selection: everything was excluded, nothing is left")
    selection = Selection(
        benchmark="swebench",
        dataset=recipe.dataset,
        revision=dataset.revision,
        fingerprint=sampler.fingerprint(datasets.canonical(item) for item in instances),
        recipe=resolved.model_dump(mode="json"),
        ids=tuple(item.id for item in instances),
    )
    return selection, instances, dataset


def manifest(selection: Selection) -> dict[str, Any]:
    """What `sample` writes: the ids on top, and all that made them."""
    return {
        "ids": list(selection.ids),
        "recipe": dict(selection.recipe),
        "dataset": selection.dataset,
        "revision": selection.revision,
        "fingerprint": selection.fingerprint,
    }


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def pinned(options: Mapping[str, Any]) -> dict[str, Any]:
    """Agent options as the digest sees them: files by content, places left out."""
    places = ("program", "checkout")
    found = {key: value for key, value in options.items() if key not in places}
    if isinstance(found.get("config"), str):
        found["config"] = by_content(found["config"])
    if isinstance(found.get("argv"), list):
        found["argv"] = [by_content(part) for part in found["argv"]]
    return found


def by_content(name: object) -> object:
    """A file's hash; whatever is no file, or a program of this machine, stays as it is."""
    path = Path(str(name))
    return f"sha256:{sha256(path)}" if path.is_file() and "bin" not in path.parts else name


def whole(options: Mapping[str, Any]) -> dict[str, Any]:
    """Agent options with whole paths: agents run elsewhere."""
    files = ("program", "checkout", "config")
    return {
        key: str(Path(value).absolute())
        if key in files and isinstance(value, str) and Path(value).exists()
        else value
        for key, value in options.items()
    }


def replies_path(recipe: Recipe) -> Path | None:
    """The file of scripted replies, if the recipe names one."""
    from pipeline.benchmarks.dataset import EMBEDDED

    if not recipe.model.replies:
        return None
    path = Path(recipe.model.replies)
    path = EMBEDDED.parent / "replies.yaml" if recipe.model.replies == "demo" else path
    if not path.is_file():
        raise UserError(f"model.replies names {path}, which is not there")
    return path


def make_plan(recipe: Recipe, selection: Selection, *, asks_model: bool = True) -> RunPlan:
    """The resolved plan of a recipe."""
    from pipeline.domain import Limits, Sampling, SandboxLimits
    from pipeline.plan import Execution, RunPlan

    replies = replies_path(recipe) if asks_model else None
    sandbox = recipe.sandbox.model_dump(exclude={"kind", "mirrors"})
    return RunPlan(
        name=recipe.name,
        selection=selection,
        agent=recipe.agent.name,
        model=recipe.model.name,
        agent_options=pinned(recipe.agent.options),
        replies=sha256(replies) if replies else "",
        attempts=recipe.attempts,
        sampling=Sampling(**recipe.sampling.model_dump()),
        limits=Limits(**recipe.limits.model_dump()),
        sandbox=SandboxLimits(**sandbox),
        execution=Execution(**recipe.execution.model_dump()),
    )


def make_source(recipe: Recipe) -> Callable[[Attempt, int], Source]:
    """Where a try's answers come from: the endpoint, or scripted replies.

    Raises:
        UserError: a missing or impossible key, base URL or model name.
    """
    from pipeline.gateway import Upstream, check_endpoint, load_scripts, read_key

    path = replies_path(recipe)
    if path is not None:
        return load_scripts(path).for_try
    base_url = check_endpoint(recipe.model)
    upstream = Upstream(base_url, read_key(recipe.model.key_variable))
    # From here on only the gateway holds it: no child inherits it, whatever its name.
    del os.environ[recipe.model.key_variable]
    return lambda attempt, number: upstream


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What `make_sandboxes` needs to know."""

    kind: str
    limits: SandboxLimits
    mirrors: Sequence[str]
    run: RunDir
    cancelled: Event
    say: Callable[[str], None]


def make_sandboxes(place: Place, instances: Sequence[Instance]) -> Sandboxes:
    """Docker; for the embedded benchmark alone, a local sandbox where there is none.

    Raises:
        UserError: Docker does not answer, or no base image can be had.
    """
    from pipeline.docker import DockerSandboxes, EmbeddedImages, Images, LocalSandboxes, connect
    from pipeline.docker.embedded import plant

    embedded = all(item.image.startswith("passone/demo.") for item in instances)
    local = LocalSandboxes(place.run.scratch, plant, place.cancelled)
    if place.kind == "local":
        return local
    try:
        client = connect()
        images = Images(client, place.mirrors)
        docker = DockerSandboxes(client, images, place.run.key, place.limits)
        if embedded:
            docker.prepare = EmbeddedImages(client, place.say)
            docker.prepare.ensure_base()
    except UserError as error:
        if not embedded or place.kind == "docker":
            raise
        place.say(str(error).partition(";")[0])
        return local
    return docker


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

    def preflight(self, instances: Sequence[Instance]) -> Sequence[str]:
        return ()

    def open(self, instance: Instance) -> AbstractContextManager[Sandbox]:
        raise UserError("this run imports its verdicts; nothing can be started")

    def site(self, instance: Instance, attempt: Attempt) -> AbstractContextManager[Site]:
        raise UserError("this run imports its verdicts; nothing can be started")

    def casualty(self, site: Site, *, since: float, until: float) -> str:
        return ""

    def reap(self) -> int:
        return 0
