"""`passone select`: one patch of several for each instance, chosen without the hidden tests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.outcomes import InfraError, UserError
from pipeline.wording import count

if TYPE_CHECKING:
    from pipeline.choice import Candidate, Choice, Gain, Shown
    from pipeline.cli.parts import Parts
    from pipeline.domain import Instance
    from pipeline.results import Results
    from pipeline.rundir import RunDir

EPILOG = """Examples:

  passone select logs/verified-10x3 -o chosen.jsonl

  passone select logs/verified-10x3 --text-only --json"""

RunArgument = Annotated[Path, typer.Argument(help="A run directory, such as logs/demo-10x3.")]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="The chosen patches, as predictions.")
]
TextOnly = Annotated[
    bool, typer.Option("--text-only", help="Run no tests: only equal patches make a group.")
]
AsJson = Annotated[bool, typer.Option("--json", help="For a machine.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Only the result.")]


@dataclass(frozen=True, slots=True)
class Seen:
    """What the visible tests of one instance say, or why they say nothing."""

    tests: tuple[str, ...] = ()
    base: Shown | None = None
    shown: Mapping[str, Shown | None] | None = None
    """By the normalised text of a patch."""
    why_not: str = ""


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
    from pipeline.rundir import RunDir

    place = RunDir(run)
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
    seen = {} if text_only else look_at_all(run, groups, quiet=quiet)
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


def look_at_all(
    run: Path, groups: Mapping[str, Sequence[Candidate]], *, quiet: bool
) -> dict[str, Seen]:
    """The visible tests under every patch, where there is more than one. ^C loses the latest.

    Raises:
        UserError: Docker does not answer, somebody drives the run, or its verdicts were imported.
    """
    from pipeline.cli.controls import of_run
    from pipeline.cli.drive import stoppable

    parts = of_run(run, (), quiet=quiet)
    several = [item for item in parts.instances if several_in(groups.get(item.id, ()))]
    seen: dict[str, Seen] = {}
    with parts.run.held(), stoppable(parts.brake, parts.voice):
        for warning in parts.sandboxes.preflight(several) if several else ():
            parts.voice.note(warning)
        parts.sandboxes.reap()
        try:
            with ThreadPoolExecutor(parts.plan.execution.scorer_workers) as pool:
                pending = {pool.submit(look, parts, x, groups[x.id]): x.id for x in several}
                while pending:
                    for future in wait(pending, 0.2, return_when=FIRST_COMPLETED).done:
                        instance_id = pending.pop(future)
                        if (found := future.result()) is not None:
                            seen[instance_id] = found
                            parts.voice.note(f"{instance_id}: {summary(found)}")
        finally:
            parts.sandboxes.reap()
            parts.voice.left(parts.sandboxes.left)
    if parts.brake.soft.is_set():
        raise typer.Exit(130)
    return seen


def several_in(group: Sequence[Candidate]) -> bool:
    return len({candidate.text for candidate in group}) > 1


def summary(seen: Seen) -> str:
    if seen.why_not:
        return f"only texts are compared: {seen.why_not}"
    assert seen.shown is not None
    patches, tests = count(len(seen.shown), "patch", "patches"), len(seen.base or ())
    return f"{patches} under {count(tests, 'visible test')} in {count(len(seen.tests), 'file')}"


def look(parts: Parts, instance: Instance, group: Sequence[Candidate]) -> Seen | None:
    """One instance's visible tests, with each different patch and without any; None: stopped."""
    from pipeline.benchmarks.visible import Visible
    from pipeline.choice import touched

    visible = Visible(parts.sandboxes, parts.plan.sandbox)
    patches = {candidate.text: candidate.diff for candidate in reversed(group)}
    changed = {path for diff in patches.values() for path in touched(diff)}
    try:
        if parts.brake.soft.is_set():
            return None
        digest = parts.sandboxes.digest(instance)
        tests = visible.near(instance, changed, place_of(parts.run, instance.id, "base"))
        if not tests:
            return Seen(why_not="no visible test stands near what the patches change")
        kept = {"tests": list(tests), "image": digest}
        base = shown_by(parts, instance, tests, None, "base", kept)
        if not any((base or {}).values()):
            return Seen(tests, why_not="no visible test passes without a patch")
        shown = dict[str, "Shown | None"]()
        for text, diff in patches.items():
            if parts.brake.soft.is_set():
                return None
            key = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:12]
            shown[text] = shown_by(parts, instance, tests, diff, key, kept)
    except InfraError as error:
        return None if parts.brake.soft.is_set() else Seen(why_not=error.detail)
    return Seen(tests, base, shown)


def shown_by(
    parts: Parts,
    instance: Instance,
    tests: Sequence[str],
    diff: str | None,
    label: str,
    kept: Mapping[str, Any],
) -> Shown | None:
    """What the tests say of one patch: as kept from before, or anew.

    Raises:
        InfraError: our side failed.
    """
    from pipeline.benchmarks.visible import Visible
    from pipeline.domain import Patch
    from pipeline.rundir import write_atomically

    place = place_of(parts.run, instance.id, label)
    file = place / "statuses.json"
    if file.exists():
        known = json.loads(file.read_text(encoding="utf-8"))
        if {key: known.get(key) for key in kept} == kept:
            shown: Shown | None = known["shown"]
            return shown
    patch = None if diff is None else Patch.of(diff)
    try:
        shown = Visible(parts.sandboxes, parts.plan.sandbox).shown(instance, tests, patch, place)
    except InfraError as error:
        # A patch that takes its container along has broken its tests.
        if patch is None or not error.fault.died:
            raise
        shown = None
    write_atomically(file, json.dumps({**kept, "shown": shown}))
    return shown


def place_of(run: RunDir, instance_id: str, label: str) -> Path:
    place = run.root / "select" / instance_id / label
    place.mkdir(parents=True, exist_ok=True)
    return place


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
