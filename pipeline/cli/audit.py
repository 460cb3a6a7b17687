"""`passone audit`: which attempts looked the answer up, at which step, and what it brought."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.cli.runs import RunArgument, run_at
from pipeline.outcomes import UserError

if TYPE_CHECKING:
    from pipeline.audit import Audited, Image, Own, State
    from pipeline.domain import Attempt, Instance
    from pipeline.results import Results

EPILOG = """Examples:

  passone audit logs/verified-5

  passone audit logs/verified-5 --images --json -o audit.json"""


def audit(
    run: RunArgument,
    with_images: Annotated[
        bool, typer.Option("--images", help="Search the images too; those that are here.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 3 where an attempt is tainted.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="For a machine.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Instead of printing.")
    ] = None,
) -> None:
    """Search what the agents did for looks at the fix, at the hidden tests and at SWE-bench.

    No outcome changes. What is found stays in report/audit.json, and `passone table RUN
    --without-tainted` reads it. Exit status 0 whatever is found, unless --strict.
    """
    from pipeline import audit as audits
    from pipeline.cli import planning
    from pipeline.results import load
    from pipeline.rundir import write_atomically

    place = run_at(run)
    results = load(place)
    instances = planning.instances_of(results.plan, place)
    owns = {item.id: audits.Own.of(item.stratum, item.row, item.prompt) for item in instances}
    images = look_at(run, instances, owns) if with_images else {}
    audited = audits.audit(results, place, owns, images)
    tree = audits.to_json(results, audited, images)
    text = json.dumps(tree, indent=2, ensure_ascii=False) + "\n"
    place.write(place.report / "audit.json", text)
    said = text if as_json else readable(results, audited, images)
    if output is None:
        typer.echo(said, nl=False)
    else:
        try:
            write_atomically(output, said)
        except OSError as error:
            raise UserError(f"{output}: cannot be written: {error.strerror or error}") from None
        typer.echo(f"{output}: {closing(results, audited)}")
    raise typer.Exit(3 if strict and audits.tainted_of(audited) else 0)


def look_at(run: Path, instances: Sequence[Instance], owns: Mapping[str, Own]) -> dict[str, Image]:
    """Every image of the run that is here; none is pulled.

    Raises:
        UserError: Docker does not answer, or this run's verdicts were imported.
    """
    from pipeline.audit import Image, look
    from pipeline.cli.controls import of_run
    from pipeline.docker import DockerSandboxes
    from pipeline.outcomes import InfraError

    sandboxes = of_run(run, (), quiet=True).sandboxes
    if not isinstance(sandboxes, DockerSandboxes):
        why = "this run had no images: its trees were made on the spot, without a later commit"
        return {item.id: Image(why_not=why) for item in instances}
    found = {}
    for item in instances:
        try:
            sandboxes.prepare(item)
            here = sandboxes.images.local(item.image) is not None
        except InfraError:
            here = False
        found[item.id] = (
            look(sandboxes, item, owns[item.id]) if here else Image(why_not="it is not here")
        )
    return found


def readable(results: Results, audited: Sequence[Audited], images: Mapping[str, Image]) -> str:
    """A table of signs, what the images hold, what was not audited, and the closing sentence."""
    from tabulate import tabulate

    from pipeline.audit import KINDS, Sign, State, sign_records

    lines = []
    records = list(sign_records(audited))
    if records:
        rows = [[*cells(record).values()] for record in records]
        head = ["instance", "attempt", "step", "sign", "", "what it did"]
        lines += [tabulate(rows, head, tablefmt="plain", disable_numparse=True), ""]
        for sign in dict.fromkeys(record["sign"] for record in records):
            lines.append(f"{sign}: {KINDS[Sign(sign)].meaning}")
        lines.append("")
    for instance_id, image in images.items():
        said = [f"not looked at: {image.why_not}"] if image.why_not else image.leaks or ["clean"]
        lines += [f"image of {instance_id}: {line}" for line in said]
    for item in audited:
        if item.state is State.NOT_AUDITED:
            lines.append(f"not audited: {item.instance_id} #{item.attempt}: {item.why_not}")
    return "\n".join([*lines, closing(results, audited), ""])


def cells(record: Mapping[str, Any]) -> dict[str, str]:
    """A sign as a row of the table."""
    earlier = "" if record["counts"] else f" (try {record['try']})"
    verdict = "TAINTS" if record["taints"] else "note" if record["got"] else "tried only"
    verdict = verdict if record["counts"] else "earlier try"
    return {
        "instance": record["instance"],
        "attempt": f"{record['attempt']}{earlier}",
        "step": "–" if record["step"] is None else str(record["step"]),
        "sign": record["sign"],
        "verdict": verdict,
        "what": record["excerpt"],
    }


def closing(results: Results, audited: Sequence[Audited]) -> str:
    """How many attempts are what, and pass@1 in three readings."""
    from pipeline.audit import tainted_of

    states = {(item.instance_id, item.attempt): item.state for item in audited}
    return f"{counts(list(states.values()))} · {reading(results, tainted_of(audited))}"


def counts(states: Sequence[State]) -> str:
    from pipeline.audit import State
    from pipeline.wording import count

    number = {state: list(states).count(state) for state in State}
    return (
        f"{count(len(states), 'attempt')}: {number[State.TAINTED]} tainted, "
        f"{number[State.CLEAN]} clean, {number[State.NOT_AUDITED]} not audited"
    )


def reading(results: Results, tainted: frozenset[Attempt]) -> str:
    from pipeline.audit import rates
    from pipeline.headline import percent

    found = rates(results, tainted)
    if not tainted:
        return f"pass@1 {percent(found.everything)} over all, and nothing to leave out"
    return (
        f"pass@1 {percent(found.everything)} over all, {percent(found.left_out)} with the tainted "
        f"left out, {percent(found.as_failed)} with the tainted counted as failed"
    )


def register(app: typer.Typer) -> None:
    app.command(epilog=EPILOG)(audit)
