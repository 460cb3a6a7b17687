"""From what the user asked for to a resolved plan: draw, pin, name."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.outcomes import UserError

if TYPE_CHECKING:
    from pipeline.contracts import Release
    from pipeline.domain import Instance
    from pipeline.plan import RunPlan, Selection
    from pipeline.recipe import Recipe, SelectionRecipe


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


def instances_of(plan: Mapping[str, Any]) -> list[Instance]:
    """The instances of a run, by its plan.json.

    Raises:
        UserError: the dataset cannot be loaded, or is not what the run was made with.
    """
    from pipeline import sampler

    selection = plan["selection"]
    split = selection["recipe"].get("split", "test")
    benchmark = selection.get("benchmark", "swebench")
    release = load_release(benchmark, selection["dataset"], split)
    known = {item.id: item for item in release.instances}
    found = [release.whole(known[id_]) for id_ in selection["ids"] if id_ in known]
    if sampler.fingerprint(release.canonical(item) for item in found) != selection["fingerprint"]:
        raise UserError(
            f"{selection['dataset']}: has changed since this run was made (its rows have another "
            "fingerprint); use the release that plan.json names"
        )
    return found


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


def attempts_of(recipe: Recipe) -> tuple[int, int]:
    """At each instance, at least and at most."""
    terms = recipe.attempts
    return (terms, terms) if isinstance(terms, int) else (terms.min, terms.max)


def check_attempts(recipe: Recipe, *, asks_model: bool) -> list[str]:
    """What to know of attempts that may be left out.

    Raises:
        UserError: they would be left out of an agent that does the same each time.
    """
    least, most = attempts_of(recipe)
    if least == most:
        return []
    if not asks_model:
        raise UserError(
            f"attempts: agent {recipe.agent.name!r} asks no model and does the same each time, so "
            f"there is no vote to decide; give a number: --set attempts={least}"
        )
    # So many against: the others are at most half.
    soonest, said = (most + 1) // 2, []
    if least < soonest:
        said.append(
            f"attempts: no vote of {most} is decided before {soonest} attempts, and pass@1 is of "
            f"{least} at each instance; with min: {soonest} as many are made, and all enter it"
        )
    if most % 2 == 0:
        said.append(
            f"attempts: of {most} a tie is a no, so {most // 2} of {most} resolved is rejected; "
            "an odd max has no ties"
        )
    return said


def make_plan(
    recipe: Recipe, selection: Selection, *, asks_model: bool = True, grader: str = ""
) -> RunPlan:
    """The resolved plan of a recipe."""
    from pipeline.domain import Limits, Sampling, SandboxLimits
    from pipeline.plan import Execution, RunPlan, TrustTerms

    least, most = attempts_of(recipe)
    replies = replies_path(recipe) if asks_model else None
    sandbox = recipe.sandbox.model_dump(exclude={"kind", "mirrors"})
    return RunPlan(
        name=recipe.name,
        selection=selection,
        agent=recipe.agent.name,
        model=recipe.model.name,
        grader=grader or official_grader(selection.benchmark),
        agent_options=pinned(recipe.agent.options),
        replies=sha256(replies) if replies else "",
        attempts=most,
        min_attempts=None if least == most else least,
        sampling=Sampling(**recipe.sampling.model_dump()),
        limits=Limits(**recipe.limits.model_dump()),
        sandbox=SandboxLimits(**sandbox),
        execution=Execution(**recipe.execution.model_dump()),
        trust=TrustTerms(**recipe.trust.model_dump()),
    )
