"""`passone select`: one patch of several for each instance, chosen without the hidden tests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.cli.effects import Seen, look_at_all
from pipeline.cli.runs import RunArgument, run_at
from pipeline.outcomes import UserError
from pipeline.wording import count

if TYPE_CHECKING:
    from pipeline.choice import Choice, Gain, Shown
    from pipeline.results import Results

EPILOG = """Examples:

  passone select logs/verified-10x3 -o chosen.jsonl

  passone select logs/verified-10x3 --text-only --json"""

Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="The chosen patches, as predictions.")
]
TextOnly = Annotated[
    bool, typer.Option("--text-only", help="Run no tests: only equal patches make a group.")
]
AsJson = Annotated[bool, typer.Option("--json", help="For a machine.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Only the result.")]


def select(
    run: RunArgument,
    output: Output = None,
    text_only: TextOnly = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Choose one patch of each instance's attempts, and say what that is worth.

    Patches that are equal but for white space, offsets and comments make a group, and so do
    those that do the same to the tests that the repository has. Of the largest group that breaks
    least the most frequent patch is taken. The hidden tests have no say in it: only then are they
    asked what the chosen ones are worth. No outcome and no vote changes.
    """
    from pipeline import choice
    from pipeline.results import load

    place = run_at(run)
    results = load(place)
    if results.plan["selection"]["benchmark"] == "terminal":
        raise UserError(f"{run}: its submissions are machines, and passone select is for patches")
    if not (text_only or results.plan["has_control"]):
        raise UserError(
            f"{run}: its verdicts were imported, and nobody ran anything where tests could run; "
            "take --text-only"
        )
    groups = choice.candidates(results)
    if not groups:
        raise UserError(f"{run}: no attempt counts yet, so there is nothing to choose from")
    seen = {} if text_only else look_at_all(place.root, groups, quiet=quiet)
    choices = {
        instance_id: choice.choose(group, *looked(seen.get(instance_id)))
        for instance_id, group in groups.items()
    }
    worth = choice.gain(results, choices)
    assert worth is not None, "some attempt counts"
    tree = as_tree(results, choices, seen, worth)
    text = json.dumps(tree, indent=2, ensure_ascii=False) + "\n"
    place.write(place.report / "select.json", text)
    if output is not None:
        write_predictions(output, results, choices)
    typer.echo(text if as_json else readable(tree, worth), nl=False)


def looked(seen: Seen | None) -> tuple[Mapping[str, Shown | None] | None, Shown | None]:
    return (seen.shown, seen.base) if seen is not None else (None, None)


def as_tree(
    results: Results,
    choices: Mapping[str, Choice | None],
    seen: Mapping[str, Seen],
    worth: Gain,
) -> dict[str, Any]:
    """report/select.json."""
    rows = {(row.instance_id, row.attempt): row for row in results.rows}
    found = {}
    for instance_id, choice in choices.items():
        look = seen.get(instance_id, Seen())
        record: dict[str, Any] = {"attempt": None, "outcome": "no_submission"}
        if choice is not None:
            record = asdict(choice)
            del record["diff"]
            record["attempt"] = choice.attempt.number
            record["outcome"] = rows[instance_id, choice.attempt.number].outcome
        found[instance_id] = record | {"visible": list(look.tests), "why_not": look.why_not}
    return {"run": results.name, "instances": found, "worth": asdict(worth)}


def readable(tree: Mapping[str, Any], worth: Gain) -> str:
    """A table of what was chosen, and what it is worth."""
    from tabulate import tabulate

    head = ["instance", "chosen", "same patch", "same effect", "visible tests broken", "outcome"]
    rows = []
    for instance_id, item in tree["instances"].items():
        if item["attempt"] is None:
            rows.append([instance_id, "–", "–", "–", "–", item["outcome"]])
            continue
        of = item["candidates"]
        alike = f"{item['alike']} of {of}" if item["behaviours"] else "–"
        lost = item["broken"]
        tests = f"{'all' if lost is None else lost} of {item['tests']}"
        broken = tests if item["behaviours"] else "–"
        same = f"{item['same']} of {of}"
        rows.append([instance_id, f"#{item['attempt']}", same, alike, broken, item["outcome"]])
    table = tabulate(rows, head, tablefmt="plain", disable_numparse=True)
    return f"{table}\n\n{closing(worth)}\n"


def closing(worth: Gain) -> str:
    from pipeline.headline import percent, span

    return (
        f"chosen {percent(worth.chosen)} [{span(worth.chosen_ci95)}]"
        f" of {count(worth.instances, 'instance')}"
        f" · pass@1 {percent(worth.first)} ({points(worth.above_first)})"
        f" · pass@{worth.most} {percent(worth.best)} ({points(-worth.below_best)})"
        f" · better than any attempt at {worth.helped}, worse at {worth.harmed}"
    )


def points(difference: float) -> str:
    # No zero has a sign of its own.
    return f"{round(100 * difference, 1) + 0.0:+.1f} points".replace("-", "−")


def write_predictions(output: Path, results: Results, choices: Mapping[str, Choice | None]) -> None:
    """Raises UserError: it cannot be written."""
    from pipeline.rundir import write_atomically

    lines = [
        json.dumps(
            {
                "instance_id": instance_id,
                "model_name_or_path": results.plan["model"],
                "model_patch": choice.diff if choice else "",
            }
        )
        for instance_id, choice in choices.items()
    ]
    try:
        write_atomically(output, "".join(f"{line}\n" for line in lines))
    except OSError as error:
        raise UserError(f"{output}: cannot be written: {error.strerror or error}") from None


def register(app: typer.Typer) -> None:
    app.command(epilog=EPILOG)(select)
