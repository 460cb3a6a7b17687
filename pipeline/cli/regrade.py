"""`passone regrade`: what the installed grader makes of the logs that a run has kept."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.cli.runs import RunArgument, run_at
from pipeline.outcomes import UserError

if TYPE_CHECKING:
    from pipeline.domain import Instance, Submission, Verdict
    from pipeline.ledger import Book
    from pipeline.rundir import RunDir

EPILOG = """Examples:

  passone regrade logs/verified-5

  passone regrade logs/verified-5 --json"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """One scoring whose log can be read again."""

    name: str
    instance: Instance
    submission: Submission | None
    verdict: Verdict
    path: Path


def regrade(
    run: RunArgument,
    as_json: Annotated[bool, typer.Option("--json", help="For a machine.")] = False,
) -> None:
    """Read saved logs again under the installed swebench; the run itself is not touched."""
    from pipeline.benchmarks.grading import GRADER
    from pipeline.cli import planning
    from pipeline.results import load, read_plan
    from pipeline.wording import count

    place = run_at(run)
    plan = read_plan(place)
    if not plan["has_control"]:
        raise UserError(f"{run}: its verdicts were imported; there are no logs to read")
    if plan["selection"].get("benchmark", "swebench") != "swebench":
        raise UserError(f"{run}: only logs of swebench can be read again; grade it in a new run")
    book = load(place).book
    instances = {item.id: item for item in planning.instances_of(plan, place)}
    logs = list(logs_of(book, instances, place))
    readable = [log for log in logs if log.path.is_file()]
    moved = [said for said in map(movement, readable) if said is not None]
    if as_json:
        typer.echo(json.dumps({"read": len(readable), "grader": GRADER, "moved": moved}, indent=2))
    else:
        for item in moved:
            typer.echo(f"moved {item['name']}: {item['was']} → {item['is']}")
        without = len(logs) - len(readable)
        missing = f"; {without} without a log to read" if without else ""
        typer.echo(
            f"{count(len(readable), 'log')} read again under {GRADER} (graded under "
            f"{plan['grader']}): {count(len(moved), 'verdict')} moved{missing}"
        )
    raise typer.Exit(3 if moved else 0)


def logs_of(
    book: Book, instances: Mapping[str, Instance], run: RunDir, *, empties: bool = False
) -> Iterator[Log]:
    """Every scoring of the run that a test run ended, gold's too.

    Args:
        empties: those of empty patches, as well.
    """
    from pipeline.benchmarks.grading import LOG
    from pipeline.cli.parts import gold_of
    from pipeline.domain import Controls, Finding, Rollout, Verdict

    # A rejected patch had no test run, and a time-out is our clock's word.
    read = (Finding.RESOLVED, Finding.UNRESOLVED, Finding.TESTS_DID_NOT_RUN)
    for attempt, entry in sorted(book.entries.items()):
        verdict, rollout = entry.verdict, entry.rollout
        if (
            isinstance(verdict, Verdict)
            and isinstance(rollout, Rollout)
            and verdict.finding in read
            # Then its log is of the scoring that came out otherwise.
            and not verdict.evidence.contradicted
        ):
            yield Log(
                name=f"{attempt.instance_id} #{attempt.number}",
                instance=instances[attempt.instance_id],
                submission=rollout.submission,
                verdict=verdict,
                path=run.scoring(*attempt) / LOG,
            )
    for instance_id, rows in sorted(book.controls.items()):
        gold = gold_of(instances[instance_id])
        for row in rows:
            look = row.value if isinstance(row.value, Controls) else Controls(gold=())
            looked = [
                ("gold", look.gold, gold),
                *([("empty", look.empty, None)] if empties else []),
            ]
            for kind, verdicts, submission in looked:
                for index, verdict in enumerate(verdicts, start=1):
                    label = f"{kind}-{row.try_number}" + (f".{index}" if index > 1 else "")
                    # The log of one that was kept is where it was scored.
                    if verdict.finding in read and not verdict.evidence.origin:
                        yield Log(
                            name=f"{instance_id} {label}",
                            instance=instances[instance_id],
                            submission=submission,
                            verdict=verdict,
                            path=run.scoring(instance_id, label) / LOG,
                        )


def movement(log: Log) -> dict[str, str] | None:
    """What a verdict was and what it would be today; None: the same."""
    from pipeline.benchmarks.grading import read_log
    from pipeline.evidence import verdict_words
    from pipeline.outcomes import InfraError

    was = log.verdict
    try:
        now = read_log(log.instance, log.path, log.submission)
    except InfraError as error:
        return {"name": log.name, "was": verdict_words(was), "is": error.detail}
    same = (was.finding, was.fail_to_pass, was.pass_to_pass)
    if same == (now.finding, now.fail_to_pass, now.pass_to_pass):
        return None
    return {"name": log.name, "was": verdict_words(was), "is": verdict_words(now)}


def register(app: typer.Typer) -> None:
    app.command(epilog=EPILOG)(regrade)
