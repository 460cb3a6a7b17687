"""From what the user asked for to a resolved plan: draw, pin, name."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.outcomes import UserError

if TYPE_CHECKING:
    from pipeline.contracts import Release
    from pipeline.domain import Instance, SandboxLimits
    from pipeline.plan import RunPlan, Selection
    from pipeline.recipe import Recipe, SelectionRecipe
    from pipeline.rundir import RunDir


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


def load_release(benchmark: str, dataset: str, split: str) -> Release:
    """What can be drawn from.

    Raises:
        UserError: an unknown benchmark, or a dataset of it that cannot be read.
    """
    from pipeline.benchmarks import dataset as swebench
    from pipeline.benchmarks.terminal import taskset

    benchmarks: dict[str, Callable[[str, str], Release]] = {
        "swebench": swebench.load,
        "terminal": taskset.load,
    }
    if benchmark not in benchmarks:
        raise UserError(f"unknown benchmark {benchmark!r}; known: {', '.join(benchmarks)}")
    return benchmarks[benchmark](dataset, split)


def draw(
    recipe: SelectionRecipe,
    release: Release | None = None,
    *,
    say: Callable[[str], None] | None = None,
) -> tuple[Selection, list[Instance]]:
    """Draw from what the recipe names, loaded unless it is at hand.

    Args:
        say: hears what should be known of it.

    Raises:
        UserError: what cannot be found, or cannot be drawn.
    """
    from pipeline import sampler
    from pipeline.plan import Selection

    release = release or load_release(recipe.benchmark, recipe.dataset, recipe.split)
    resolved = recipe.model_copy(
        update={"ids": read_ids(recipe.ids), "exclude": read_ids(recipe.exclude)}
    )
    for name in resolved.ids:
        if name in release.skipped:
            raise UserError(f"selection: {name} cannot be run: {release.skipped[name]}")
    # What is left out anyway need not be known.
    known = [name for name in resolved.exclude if name not in release.skipped]
    pool = resolved.model_copy(update={"exclude": tuple(known)})
    instances = [release.whole(one) for one in sampler.draw(release.instances, pool)]
    if not instances:
        raise UserError("selection: everything was excluded, nothing is left")
    if say is not None:
        for remark in release.remarks(instances):
            say(remark)
    selection = Selection(
        benchmark=recipe.benchmark,
        dataset=recipe.dataset,
        revision=release.revision,
        fingerprint=sampler.fingerprint(release.canonical(item) for item in instances),
        recipe=resolved.model_dump(mode="json"),
        ids=tuple(item.id for item in instances),
    )
    return selection, instances


def instances_of(plan: Mapping[str, Any], run: RunDir | None = None) -> list[Instance]:
    """The instances of a run, by its plan.json.

    Args:
        run: where it was read; a run out of a bundle has its rows with it.

    Raises:
        UserError: the dataset cannot be loaded, or is not what the run was made with.
    """
    from pipeline import sampler

    selection = plan["selection"]
    benchmark = selection.get("benchmark", "swebench")
    carried = run.instances if run is not None and run.instances.is_file() else None
    if carried is not None and benchmark == "terminal":
        return carried_tasks(carried, selection)
    name = str(carried) if carried else selection["dataset"]
    release = load_release(benchmark, name, selection["recipe"].get("split", "test"))
    known = {item.id: item for item in release.instances}
    found = [release.whole(known[id_]) for id_ in selection["ids"] if id_ in known]
    if sampler.fingerprint(release.canonical(item) for item in found) != selection["fingerprint"]:
        remedy = "use the release that plan.json names"
        if carried:
            remedy = "its bundle was altered"
        raise UserError(
            f"{carried.name if carried else name}: has changed since this run was made (its rows "
            f"have another fingerprint); {remedy}"
        )
    return found


def carried_tasks(path: Path, selection: Mapping[str, Any]) -> list[Instance]:
    """Terminal tasks as a bundle has them, without their folders.

    Raises:
        UserError: they are not what the run was made with.
    """
    from pipeline import sampler
    from pipeline.benchmarks.terminal.saved import read_instances

    try:
        found = read_instances(path)
    except (OSError, ValueError) as error:
        raise UserError(f"{path.name}: cannot be read: {error}") from None
    rows = [{"id": item.id, "fingerprint": item.row["fingerprint"]} for item in found]
    if sampler.fingerprint(rows) != selection["fingerprint"]:
        raise UserError(f"{path.name}: has another fingerprint than its plan; it was altered")
    return found


def rows_to_carry(plan: Mapping[str, Any], instances: Iterable[Instance]) -> list[dict[str, Any]]:
    """What has to be known of its instances to read a run where their dataset is not."""
    from pipeline.benchmarks import dataset
    from pipeline.benchmarks.terminal import saved

    if plan["selection"].get("benchmark", "swebench") == "terminal":
        return [saved.row_of(item) for item in instances]
    return [
        dataset.canonical(item) | ({"difficulty": item.difficulty} if item.difficulty else {})
        for item in instances
    ]


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
    try:
        is_ours = path.is_file() and "bin" not in path.parts
    except (OSError, ValueError):
        # Too long for a name, or no name at all: a program, say.
        return name
    return f"sha256:{sha256(path)}" if is_ours else name


def replies_path(recipe: Recipe) -> Path | None:
    """The file of scripted replies, if the recipe names one."""
    from pipeline.benchmarks import dataset
    from pipeline.benchmarks.terminal import taskset

    if not recipe.model.replies:
        return None
    path = Path(recipe.model.replies)
    if recipe.model.replies == "demo":
        terminal = recipe.selection.benchmark == "terminal"
        place = taskset.EMBEDDED if terminal else dataset.EMBEDDED.parent
        path = place / "replies.yaml"
    if not path.is_file():
        raise UserError(f"model.replies names {path}, which is not there")
    return path


def official_grader(benchmark: str) -> str:
    """As its scorer names it; importing that would take seconds."""
    from pipeline.benchmarks.terminal.tasks import GRADER

    if benchmark == "terminal":
        return GRADER
    return f"swebench {importlib.metadata.version('swebench')}"


def limits_of(recipe: Recipe) -> SandboxLimits:
    """What a container may have at most."""
    from pipeline.domain import SandboxLimits

    return SandboxLimits(**recipe.sandbox.model_dump(exclude={"kind", "mirrors"}))


def make_plan(
    recipe: Recipe, selection: Selection, *, asks_model: bool = True, grader: str = ""
) -> RunPlan:
    """The resolved plan of a recipe."""
    from pipeline.domain import Limits, Sampling
    from pipeline.plan import Execution, RunPlan, TrustTerms

    replies = replies_path(recipe) if asks_model else None
    return RunPlan(
        name=recipe.name,
        selection=selection,
        agent=recipe.agent.name,
        model=recipe.model.name,
        grader=grader or official_grader(selection.benchmark),
        agent_options=pinned(recipe.agent.options),
        replies=sha256(replies) if replies else "",
        attempts=recipe.most,
        min_attempts=None if recipe.least == recipe.most else recipe.least,
        sampling=Sampling(**recipe.sampling.model_dump()),
        limits=Limits(**recipe.limits.model_dump()),
        sandbox=limits_of(recipe),
        execution=Execution(**recipe.execution.model_dump()),
        trust=TrustTerms(**recipe.trust.model_dump()),
    )
