"""`passone tape`: read, filter and export what was said to the endpoint."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.cli.runs import is_bundled, run_at
from pipeline.outcomes import UserError

if TYPE_CHECKING:
    from pipeline.gateway.tapes import Exchange, Tape

EPILOG = """Examples:

  passone tape logs/demo --failed

  passone tape logs/demo --instance passone__ember-24 --request 3 --format jsonl -o request.jsonl"""

FORMATS = ("text", "jsonl")
MOST_CHARACTERS = 160
C1 = {number: f"\\u{number:04x}" for number in range(0x7F, 0xA0)}
"""Control characters that JSON leaves as they are: written as it would write others."""


def find_tapes(place: Path) -> list[Path]:
    """The tapes of a run, those that were cut off among them; or the one that was named.

    Raises:
        UserError: there are none.
    """
    if place.is_file():
        return [place]
    found = [
        path
        for pattern in ("attempts/*/*/try-*/tape.jsonl*", "cut-off/*.jsonl*", "tape.jsonl*")
        for path in sorted(place.glob(pattern))
        if path.suffix in (".jsonl", ".zst")
        # Killed between packing it and removing the plain one: told once.
        and not path.with_name(f"{path.name}.zst").exists()
    ]
    if not found:
        raise UserError(
            f"{place}: no tape is there; name a run directory such as logs/demo, or a tape"
        )
    return found


def read_all(place: Path) -> list[Tape]:
    """Every tape there; one that cannot be read is named, and hides no other.

    Raises:
        UserError: there are none, or the one that was named cannot be read.
    """
    from pipeline.gateway import read_tape

    tapes = []
    for path in find_tapes(place):
        try:
            tapes.append(read_tape(path))
        except UserError as error:
            if place.is_file():
                raise
            typer.echo(f"note: {error}", err=True)
    return tapes


def tape(
    place: Annotated[
        Path, typer.Argument(metavar="RUN", help="A run directory, a bundle, or one tape.")
    ],
    instance: Annotated[str | None, typer.Option(help="Only of this instance.")] = None,
    attempt: Annotated[int | None, typer.Option(help="Only of this attempt.")] = None,
    number: Annotated[int | None, typer.Option("--try", help="Only of this try.")] = None,
    request: Annotated[
        int | None, typer.Option(help="Only the agent's n-th request, every time it was sent.")
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Only what came to nothing.")] = False,
    kind: Annotated[str, typer.Option("--format", help="text, or jsonl with whole requests.")] = (
        "text"
    ),
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Instead of printing.")
    ] = None,
) -> None:
    """Print what was said to the endpoint: every request, what came back, how long it took."""
    from pipeline.rundir import write_atomically

    if kind not in FORMATS:
        raise UserError(f"passone tape: unknown format {kind!r}; known: {', '.join(FORMATS)}")
    tapes = read_all(run_at(place).root if is_bundled(place) else place)
    chosen = [
        tape
        for tape in tapes
        if instance in (None, tape.header.instance_id)
        and attempt in (None, tape.header.attempt)
        and number in (None, tape.header.try_number)
    ]
    if not chosen:
        known = ", ".join(sorted({tape.header.instance_id for tape in tapes})[:5])
        raise UserError(
            f"{place}: none of its {len(tapes)} tapes is of that try; it has {known}, …"
        )
    write = as_text if kind == "text" else as_jsonl

    def wanted(exchange: Exchange) -> bool:
        return request in (None, exchange.ordinal) and (exchange.ending is not None or not failed)

    lines = (
        line
        for tape in chosen
        for line in write(tape, [exchange for exchange in tape.exchanges if wanted(exchange)])
    )
    if output is not None:
        try:
            write_atomically(
                output, "".join(f"{line}\n" for line in lines).encode(errors="replace")
            )
        except OSError as error:
            raise UserError(f"{output}: cannot be written: {error.strerror or error}") from None
        typer.echo(f"{output}: {len(chosen)} tapes")
        return
    for line in lines:
        sys.stdout.write(line.encode(errors="replace").decode().translate(C1) + "\n")


def as_text(tape: Tape, exchanges: Sequence[Exchange]) -> Iterator[str]:
    """A line a request, for people."""
    from pipeline.gateway.replies import describe

    header = tape.header
    if exchanges or tape.broken:
        yield (
            f"{header.instance_id} #{header.attempt} try {header.try_number} · {header.model} at "
            f"{header.where} · {header.begun}"
        )
    for exchange in exchanges:
        usage = exchange.usage
        tokens = "no usage"
        if usage and usage.tokens:
            tokens = f"{usage.input_tokens:,} in, {usage.output_tokens:,} out"
        again = f" again {exchange.again}" if exchange.again else ""
        said = describe(exchange.ending) or said_in(exchange.answer)
        yield (
            f"  {exchange.ordinal}{again} · {exchange.status} · {exchange.seconds:.2f} s · "
            f"{tokens} · {shortened(said)}"
        )
    if tape.broken:
        yield f"  the tape is {tape.broken}"


def said_in(answer: Any) -> str:
    """What the model said and called, in one line."""
    try:
        if "output" in answer:
            return json.dumps(answer["output"], ensure_ascii=False)
        message = answer["choices"][0]["message"]
        calls = [call.get("function") or {} for call in message.get("tool_calls") or []]
    except (LookupError, TypeError, AttributeError):
        return json.dumps(answer, ensure_ascii=False)
    words = [str(message.get("content") or "")]
    words += [f"→ {call.get('name')} {call.get('arguments')}" for call in calls]
    return " ".join(word for word in words if word)


def shortened(text: str) -> str:
    # A model's words command no terminal.
    text = text.encode(errors="replace").decode()
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]} …"


def as_jsonl(tape: Tape, exchanges: Sequence[Exchange]) -> Iterator[str]:
    """An object a request, whole: for other programs."""
    from pipeline.gateway.tapes import ending_to

    for exchange in exchanges:
        tree = asdict(tape.header) | asdict(exchange) | {"ending": ending_to(exchange.ending)}
        yield json.dumps(tree, ensure_ascii=False)


def register(app: typer.Typer) -> None:
    app.command(epilog=EPILOG)(tape)
