"""Hold the plans of several runs against each other: what differs, and what may not be compared."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from pipeline.benchmarks.dataset import ALIASES
from pipeline.compare.sides import Side
from pipeline.compare.words import listed, shown, some
from pipeline.outcomes import UserError
from pipeline.plan import least_of
from pipeline.wording import between, count

Plan: TypeAlias = Mapping[str, Any]
NOT_RECORDED = "not recorded"


class Aspect(StrEnum):
    """In what two runs may differ."""

    MODEL = "model"
    AGENT = "agent"
    SAMPLING = "sampling"
    LIMITS = "limits"
    SANDBOX = "sandbox"
    GRADER = "grader"
    DATASET = "dataset"
    PASSONE = "passone"
    ATTEMPTS = "attempts"
    SELECTION = "selection"


BESIDE = frozenset({Aspect.ATTEMPTS, Aspect.SELECTION})
"""They change how much is known, not what is compared: of selections only the common part is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Differing:
    """One key in which runs differ."""

    aspect: Aspect
    key: str
    values: tuple[str, ...]
    """One a run, in their order."""


def flat(tree: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Dotted keys."""
    found: dict[str, Any] = {}
    for key, value in tree.items():
        name = f"{prefix}.{key}"
        found |= flat(value, name) if isinstance(value, Mapping) else {name: value}
    return found


def imported(plan: Plan) -> bool:
    """Of predictions nobody knows who made them, and how."""
    return bool(plan["agent"] == "predictions")


def of_agent(plan: Plan) -> dict[str, Any]:
    name = plan["agent"]
    if imported(plan):
        return {"agent": name}
    version = plan.get("versions", {}).get(f"agent {name}")
    options = flat(plan.get("agent_options", {}), "agent.options")
    return {"agent": name, "agent version": version or None} | options


def of_dataset(plan: Plan) -> dict[str, Any]:
    selection = plan["selection"]
    name = selection.get("dataset", "")
    return {
        "dataset": ALIASES.get(name, name),
        "dataset revision": selection.get("revision") or None,
        "dataset fingerprint": str(selection.get("fingerprint", ""))[:12],
    }


def of_selection(plan: Plan) -> dict[str, Any]:
    ids = sorted(plan["selection"]["ids"])
    digest = hashlib.sha256("\n".join(ids).encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return {"selection": f"{count(len(ids), 'instance')} ({digest})"}


READ: dict[Aspect, Callable[[Plan], dict[str, Any]]] = {
    Aspect.MODEL: lambda plan: {
        "model": plan["model"],
        "scripted replies": plan.get("replies", "")[:12] or None,
    },
    Aspect.AGENT: of_agent,
    Aspect.SAMPLING: lambda plan: (
        {} if imported(plan) else flat(plan.get("sampling", {}), "sampling")
    ),
    Aspect.LIMITS: lambda plan: {} if imported(plan) else flat(plan.get("limits", {}), "limits"),
    Aspect.SANDBOX: lambda plan: (
        {"sandbox kind": plan.get("sandbox_kind")} | flat(plan.get("sandbox", {}), "sandbox")
        if plan["has_control"]
        else {}
    ),
    Aspect.GRADER: lambda plan: {"grader": plan["grader"]},
    Aspect.DATASET: of_dataset,
    Aspect.PASSONE: lambda plan: {"passone": plan.get("versions", {}).get("passone")},
    Aspect.ATTEMPTS: lambda plan: {"attempts": between(least_of(plan), plan["attempts"])},
    Aspect.SELECTION: of_selection,
}
"""What plan.json says of each; an imported run has no sampling, limits or sandbox of its own."""


def differences(plans: Sequence[Plan]) -> list[Differing]:
    """Every key in which these plans differ, by aspect."""
    return [item for aspect in Aspect for item in in_aspect(aspect, plans)]


def in_aspect(aspect: Aspect, plans: Sequence[Plan]) -> Iterator[Differing]:
    read = [READ[aspect](plan) for plan in plans]
    for key in dict.fromkeys(key for found in read for key in found):
        values = [found.get(key) for found in read]
        if aspect is Aspect.DATASET and key in passed_over(plans):
            continue
        if any(value != values[0] for value in values):
            said = tuple(NOT_RECORDED if value is None else shown(str(value)) for value in values)
            yield Differing(aspect=aspect, key=key, values=said)


def same_selection(plans: Sequence[Plan]) -> bool:
    return len({frozenset(plan["selection"]["ids"]) for plan in plans}) == 1


def passed_over(plans: Sequence[Plan]) -> set[str]:
    """What says nothing about the dataset here.

    A fingerprint is over the drawn rows: of one selection it decides, wherever the rows came
    from; of two selections it always differs, and the name is all that is left.
    """
    if same_selection(plans):
        return {"dataset", "dataset revision"}
    return {"dataset fingerprint"}


def confounds(plans: Sequence[Plan], found: Sequence[Differing]) -> str:
    """What is compared, in a sentence."""
    factors = list(dict.fromkeys(item.aspect for item in found if item.aspect not in BESIDE))
    unknown = any(imported(plan) for plan in plans)
    rest = "; but agent, sampling and limits of predictions are not recorded" if unknown else ""
    if not factors:
        return f"the plans do not differ: what is left is chance{rest}"
    if len(factors) == 1:
        return f"only the {factors[0]} differs{rest}"
    whole = "both" if len(factors) == 2 else "all of them at once"
    return f"{listed(factors)} differ: what is compared is {whole}{rest}"


def refuse(sides: Sequence[Side], *, intersect: bool, force: bool) -> str:
    """Let pass what can be compared.

    Args:
        intersect: over what several selections have in common.
        force: also what two graders said, or of two releases of a dataset.

    Returns:
        What was forced, for the title; empty: nothing.

    Raises:
        UserError: several selections, graders or datasets, and nobody asked for that.
    """
    runs = [side for side in sides if side.plan is not None]
    plans = [side.plan for side in runs if side.plan is not None]
    if not same_selection(plans):
        refuse_selections(runs, intersect=intersect)
    forced = [
        item for aspect in (Aspect.GRADER, Aspect.DATASET) for item in in_aspect(aspect, plans)
    ]
    if not forced:
        return ""
    words = "; ".join(f"{item.key}: {' | '.join(item.values)}" for item in forced)
    if not force:
        raise UserError(
            f"{listed([shown(side.name) for side in runs])}: differ in {words}; a difference "
            "between them would be this one too. Score both in one way (`passone score`), or "
            "compare all the same with --force, which puts it into the title"
        )
    return words


def refuse_selections(runs: Sequence[Side], *, intersect: bool) -> None:
    first = runs[0]
    other = next(side for side in runs if side.cells.keys() != first.cells.keys())
    common = [id_ for id_ in first.cells if all(id_ in side.cells for side in runs)]
    names = listed([shown(side.name) for side in runs])
    if not common:
        raise UserError(f"{names}: no instance is in all of them; nothing can be compared")
    if intersect:
        return
    alone = [
        f"{len(ids):,} only in {shown(side.name)} ({some(ids)})"
        for side, against in ((first, other), (other, first))
        if (ids := [id_ for id_ in side.cells if id_ not in against.cells])
    ]
    raise UserError(
        f"{names}: are over different selections: {', '.join(alone)}; "
        f"--intersect compares the {count(len(common), 'instance')} that all have"
    )
