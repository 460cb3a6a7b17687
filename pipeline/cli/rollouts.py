"""`passone rollouts`: what was said in a run, as rows to train on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.cli.runs import RunArgument, run_at
from pipeline.outcomes import UserError
from pipeline.wording import count

if TYPE_CHECKING:
    from pipeline.results import Results
    from pipeline.rollouts import Export, Format, Known
    from pipeline.rundir import RunDir

EPILOG = """Examples:

  passone rollouts logs/demo-10x3 -o rollouts.parquet

  passone rollouts logs/demo-10x3 -o groups.jsonl --drop-equal --linear-only --json"""


Output = Annotated[Path, typer.Option("--output", "-o", help="The file: .parquet, or .jsonl.")]
Kind = Annotated[
    str | None, typer.Option("--format", help="parquet or jsonl; else as the file is named.")
]
Infra = Annotated[
    bool,
    typer.Option(
        "--include-infra", help="Infra, ambiguous and pending ones too, their reward null."
    ),
]
Untainted = Annotated[
    bool, typer.Option("--without-tainted", help="Leave out what `passone audit` found tainted.")
]
Linear = Annotated[
    bool, typer.Option("--linear-only", help="Only what is one sequence of messages.")
]
Unequal = Annotated[
    bool, typer.Option("--drop-equal", help="Leave out groups whose rewards are all equal.")
]
MeanMin = Annotated[float | None, typer.Option(help="Leave out groups whose mean reward is less.")]
MeanMax = Annotated[float | None, typer.Option(help="Leave out groups whose mean reward is more.")]
RewardMin = Annotated[float | None, typer.Option(help="Leave out rollouts whose reward is less.")]
RewardMax = Annotated[float | None, typer.Option(help="Leave out rollouts whose reward is more.")]
AsJson = Annotated[bool, typer.Option("--json", help="The counts, for a machine.")]


def rollouts(
    run: RunArgument,
    output: Output,
    kind: Kind = None,
    include_infra: Infra = False,
    without_tainted: Untainted = False,
    linear_only: Linear = False,
    drop_equal: Unequal = False,
    mean_min: MeanMin = None,
    mean_max: MeanMax = None,
    reward_min: RewardMin = None,
    reward_max: RewardMax = None,
    as_json: AsJson = False,
) -> None:
    """Export one row an attempt to train on: messages, tokens, reward, outcome, task.

    What is infra, ambiguous or pending has no reward and is left out, and counted. Exit status 3
    where nothing is left; then nothing is written.
    """
    from pipeline.results import load
    from pipeline.rollouts import Band, Terms, export

    form = format_of(output, kind)
    place = run_at(run)
    results = load(place)
    terms = Terms(
        include_infra=include_infra,
        without_tainted=without_tainted,
        linear_only=linear_only,
        drop_equal=drop_equal,
        reward=Band(low=reward_min, high=reward_max),
        mean=Band(low=mean_min, high=mean_max),
    )
    results, known = looked_up(results, place, need_audit=without_tainted)
    try:
        with watched(len(results.rows)) as step:
            made = export(results, place, output, form, known=known, terms=terms, step=step)
    except OSError as error:
        raise UserError(f"{output}: cannot be written: {error.strerror or error}") from None
    if as_json:
        written = str(output) if made.rollouts else None
        head = {"run": results.name, "output": written, "format": form.value}
        typer.echo(json.dumps(head | made.to_json(), indent=2, ensure_ascii=False))
    elif made.rollouts:
        typer.echo(f"{output}: {closing(made)}")
    for line in notes(made, results, include_infra=include_infra):
        typer.echo(f"note: {line}", err=True)
    if not made.rollouts:
        typer.echo(f"nothing is left of {run} to train on, and nothing is written", err=True)
        raise typer.Exit(3)


def format_of(output: Path, kind: str | None) -> Format:
    """What was asked for, or what the file's name says.

    Raises:
        UserError: neither is one that there is.
    """
    from pipeline.rollouts import Format

    try:
        return Format(output.suffix.removeprefix(".") if kind is None else kind)
    except ValueError:
        known = ", ".join(Format)
        what = f"unknown format {kind!r}" if kind is not None else f"{output.name}: no known suffix"
        raise UserError(f"passone rollouts: {what}; known: {known}") from None


def looked_up(results: Results, run: RunDir, *, need_audit: bool) -> tuple[Results, Known]:
    """With what the dataset, an audit and a diagnosis say beside the ledger.

    Raises:
        UserError: an audit is needed, and there was none.
    """
    from pipeline import audit, diagnose
    from pipeline.cli.planning import instances_of
    from pipeline.rollouts import Known

    try:
        difficulty = {item.id: item.difficulty for item in instances_of(results.plan, run)}
    except UserError as error:
        typer.echo(f"note: no difficulty is known: {error}", err=True)
        difficulty = {}
    try:
        states = audit.read_states(results, run)
    except UserError:
        if need_audit:
            raise
        states = {}
    results = diagnose.with_modes(results, run)
    return results, Known(difficulty=difficulty, audit=states)


@contextmanager
def watched(total: int) -> Iterator[Callable[[], object]]:
    """A progress bar on a terminal, and nothing elsewhere."""
    from rich.progress import Progress

    from pipeline.cli.voice import console

    screen = console(stderr=True)
    with Progress(console=screen, transient=True, disable=not screen.is_terminal) as progress:
        task = progress.add_task("attempts", total=total)
        yield lambda: progress.advance(task)


def closing(made: Export) -> str:
    """What was written, in one line."""

    tree = made.to_json()
    said = [
        f"{count(made.rollouts, 'rollout')} of {count(made.attempts, 'attempt')}",
        count(made.groups, "group"),
        f"{made.replies} replies",
        f"{made.input_tokens:,} tokens in, {made.output_tokens:,} out",
    ]
    if tree["reward_mean"] is not None:
        said.append(f"mean reward {tree['reward_mean']:.3f}")
    return " · ".join(said)


def notes(made: Export, results: Results, *, include_infra: bool) -> Iterator[str]:
    """What a person should know before training on it."""
    from pipeline.rollouts import WHY, Left

    for reason in Left:
        if made.left[reason]:
            yield f"left out: {made.left[reason]} {reason.value}: {WHY[reason]}"
    kept = (Left.INFRA, Left.AMBIGUOUS, Left.PENDING)
    if not include_infra and any(made.left[reason] for reason in kept):
        yield "--include-infra keeps what has no reward, with null in its place"
    if made.left[Left.REPLAYED]:
        yield f"export the run that was played: {results.plan['replayed']}"
    histories = {name: n for name, n in made.histories.items() if n and name != "linear"}
    if histories:
        said = ", ".join(f"{number} {name}" for name, number in histories.items())
        yield (
            f"not linear: {said}; their `messages` are null, and `segments` has what the model saw"
        )
    if made.unknown_tokens:
        yield f"{count(made.unknown_tokens, 'rollout')} with tokens that nobody counted"
    if results.plan.get("replies"):
        yield "scripted replies: no model said this"


def register(app: typer.Typer) -> None:
    app.command(epilog=EPILOG)(rollouts)
