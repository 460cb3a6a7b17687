"""`passone diagnose`: in which mode every attempt that is blamed on the model failed, and why."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.cli.runs import RunArgument, run_at
from pipeline.outcomes import UserError

if TYPE_CHECKING:
    from pipeline.diagnose import Diagnosis
    from pipeline.results import Results

EPILOG = """Examples:

  passone diagnose logs/demo-10x3

  passone diagnose logs/model-a logs/model-b --json -o modes.json"""


@dataclass(frozen=True, slots=True)
class Side:
    """One run, diagnosed."""

    name: str
    """As its plan has it; where two have the same, its directory."""
    results: Results
    found: Sequence[Diagnosis]


def diagnose(
    run: RunArgument,
    other: Annotated[
        Path | None, typer.Argument(metavar="[RUN_B]", help="Another, to hold against it.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For a machine.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Instead of printing.")
    ] = None,
) -> None:
    """Say why each attempt that is blamed on the model failed: one mode, with its evidence.

    By rules over trajectory, patch and test results; no model is asked and no outcome changes.
    What is found stays in report/diagnosis.json, where the tables find it.
    """
    from pipeline.rundir import write_atomically

    sides = [look(path) for path in (run, other) if path is not None]
    if len({side.name for side in sides}) < len(sides):
        sides = [
            replace(side, name=str(path)) for side, path in zip(sides, (run, other), strict=True)
        ]
    tree = as_tree(sides)
    said = (
        # A name in a patch need not be one that can be written in UTF-8.
        json.dumps(tree, indent=2) + "\n" if as_json else "".join(text(sides))
    )
    if output is None:
        typer.echo(said, nl=False)
        return
    try:
        write_atomically(output, said)
    except OSError as error:
        raise UserError(f"{output}: cannot be written: {error.strerror or error}") from None
    for side in sides:
        typer.echo(f"{output}: {closing(side)}")


def look(path: Path) -> Side:
    """Diagnose a run, and leave it where the tables look; a run that we may not write is read.

    Raises:
        UserError: no run is there, or its dataset is not what it was made with.
    """
    from pipeline import diagnose as diagnoses
    from pipeline.cli.planning import instances_of
    from pipeline.results import load

    place = run_at(path)
    results = load(place)
    instances = {item.id: item for item in instances_of(results.plan, place)}
    side = Side(results.name, results, diagnoses.diagnose(results, place, instances))
    try:
        diagnoses.keep(results, place, side.found)
    except UserError as error:
        typer.echo(f"note: the tables will not have it: {error}", err=True)
    return side


def as_tree(sides: Sequence[Side]) -> dict[str, Any]:
    """Of one run what the run keeps; of two, both and where they differ."""
    from pipeline.diagnose import differing, to_json

    trees = [to_json(side.results, side.found) for side in sides]
    if len(sides) == 1:
        return trees[0]
    ours, theirs = sides
    pairs = differing((ours.results, ours.found), (theirs.results, theirs.found))
    return {
        "runs": trees,
        "differ": [{"instance": id_, "modes": [one, other]} for id_, one, other in pairs],
        "only_in": [
            [id_ for id_ in side.results.ids if id_ not in set(another.results.ids)]
            for side, another in ((ours, theirs), (theirs, ours))
        ],
    }


def text(sides: Sequence[Side]) -> Iterator[str]:
    """What a person reads: attempts, counts, differences, and a closing sentence a run."""
    if len(sides) == 1:
        yield from attempts(sides[0])
    yield from tallies(sides)
    if len(sides) == 2:
        yield from differences(sides)
    for side in sides:
        yield f"{closing(side)}\n"


def table(rows: Sequence[Sequence[Any]], head: Sequence[str]) -> str:
    from tabulate import tabulate

    return tabulate(rows, head, tablefmt="plain", disable_numparse=True) + "\n\n"


def attempts(side: Side) -> Iterator[str]:
    if side.found:
        rows = [[item.instance_id, item.attempt, item.mode, item.text] for item in side.found]
        yield table(rows, ["instance", "attempt", "mode", "evidence"])


def tallies(sides: Sequence[Side]) -> Iterator[str]:
    """Counts by mode with what each means, then by repository and by difficulty."""
    from pipeline.diagnose import RULES, counts, in_order, modes_in

    trees = [counts(side.found) for side in sides]
    names = [side.name for side in sides] if len(sides) > 1 else ["attempts"]
    totals = [tree["all"].get("all", Counter()) for tree in trees]
    modes = modes_in(totals)
    if not modes:
        return
    meaning = {rule.mode.value: rule.sentence for rule in RULES}
    yield table(
        [[mode, *(total[mode] for total in totals), meaning[mode]] for mode in modes],
        ["mode", *names, "it means"],
    )
    for by in ("repo", "difficulty"):
        groups = in_order({group for tree in trees for group in tree[by]})
        rows = [[group, *cells([tree[by] for tree in trees], group, modes)] for group in groups]
        yield table(rows, [by, *modes])


def cells(
    groups: Sequence[Mapping[str, Counter[str]]], group: str, modes: Sequence[str]
) -> list[str]:
    """`3`, or `3 / 1` of two runs."""
    counters = [tree.get(group, Counter()) for tree in groups]
    return [" / ".join(str(counter[mode]) for counter in counters) for mode in modes]


def differences(sides: Sequence[Side]) -> Iterator[str]:
    from pipeline.wording import count

    tree = as_tree(sides)
    rows = [
        [item["instance"], *(", ".join(modes) for modes in item["modes"])]
        for item in tree["differ"]
    ]
    if rows:
        yield table(rows, ["instance", *(side.name for side in sides)])
    else:
        yield "no instance of both runs has other modes in one than in the other\n\n"
    for side, ids in zip(sides, tree["only_in"], strict=True):
        if ids:
            yield f"only in {side.name}: {count(len(ids), 'instance')}, not compared\n"


def closing(side: Side) -> str:
    """How many attempts there are, and how many are diagnosed."""
    from pipeline.wording import count

    rows = side.results.rows
    pending = sum(row.outcome == "pending" for row in rows)
    start = f"partial ({pending} pending) · " if pending else ""
    return (
        f"{side.name}: {start}{count(len(rows), 'attempt')}, "
        f"{len(side.found)} blamed on the model, each with one mode"
    )


def register(app: typer.Typer) -> None:
    app.command(epilog=EPILOG)(diagnose)
