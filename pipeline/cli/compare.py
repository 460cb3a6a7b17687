"""`passone compare`: which of two runs is better, or whether that was chance."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from pipeline.cli.runs import run_at

if TYPE_CHECKING:
    from pipeline.compare import Cell, Comparison, Pair, Side

EPILOG = """Examples:

  passone compare logs/model-a logs/model-b

  passone compare logs/verified-5 --published "3/5\""""

MOST_ROWS = 60
"""Up to so many instances, all of them are shown; of more, those that say something."""
MOST_SHOWN = 200
NOTHING = 3
FORMATS = ("text", "md", "csv", "latex", "parquet", "json")
Record: TypeAlias = dict[str, Any]


def compare(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Run directories, or bundles.")
    ],
    published: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|3/5|33.2%", help="What an article or a leaderboard says, beside them."
        ),
    ] = None,
    intersect: Annotated[
        bool, typer.Option("--intersect", help="Different selections: what all of them have.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Different graders or datasets, all the same.")
    ] = False,
    kind: Annotated[
        str, typer.Option("--format", help="text, md, csv, latex, parquet or json.")
    ] = "text",
    by: Annotated[str, typer.Option(help="instance or pair; of md, csv, latex, parquet.")] = (
        "instance"
    ),
    as_json: Annotated[bool, typer.Option("--json", help="As --format json.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Instead of printing.")
    ] = None,
) -> None:
    """Say whether runs differ: paired by instance, with a test, an interval and one sentence.

    Exit status 0 whatever it comes to, and 3 where nothing could be compared.
    """
    import random

    from pipeline.compare import compare as hold_against
    from pipeline.outcomes import UserError

    kind = "json" if as_json else kind
    for name, given, known in (("--format", kind, FORMATS), ("--by", by, ("instance", "pair"))):
        if given not in known:
            raise UserError(f"{name} {given}: not known; known: {', '.join(known)}")
    sides = [read_side(path) for path in runs]
    found = hold_against(
        sides, published=published, intersect=intersect, force=force, rng=random.Random(0)
    )
    if kind == "text" and output is None:
        show(found)
    else:
        content = rendered(found, kind, by)
        if kind not in ("text", "json"):
            for line in (found.title, *heading(found), *found.sentences):
                typer.echo(line, err=True)
        deliver(content, output, found)
    raise typer.Exit(NOTHING if found.is_void else 0)


def read_side(path: Path) -> Side:
    """Raises UserError: no run is there, or it cannot be read."""
    from pipeline.compare import side_of
    from pipeline.results import load

    place = run_at(path)
    return side_of(load(place), place=str(path), driver=place.driver)


def rendered(found: Comparison, kind: str, by: str) -> bytes:
    from pipeline.compare.records import by_instance, by_pair, to_json
    from pipeline.tables import Format, render

    if kind == "json":
        return (json.dumps(to_json(found), indent=2, ensure_ascii=False) + "\n").encode(
            "utf-8", "replace"
        )
    if kind == "text":
        return plain(found).encode("utf-8", "replace")
    return render(by_pair(found) if by == "pair" else by_instance(found), Format(kind))


def deliver(content: bytes, output: Path | None, found: Comparison) -> None:
    """Raises UserError: it cannot be written, or is binary and for a terminal."""
    from pipeline.outcomes import UserError
    from pipeline.rundir import write_atomically

    if output is not None:
        try:
            write_atomically(output, content)
        except OSError as error:
            raise UserError(f"{output}: cannot be written: {error.strerror or error}") from None
        typer.echo(f"{output}: {found.title}")
    elif content.startswith(b"PAR1") and sys.stdout.isatty():
        raise UserError("parquet is binary; name a file: -o table.parquet")
    else:
        sys.stdout.buffer.write(content)


def heading(found: Comparison) -> Iterator[str]:
    """What differs, what that means, and what else has to be known."""
    for item in found.differences:
        yield f"{item.key}: {' | '.join(item.values)}"
    if found.confounds:
        yield found.confounds
    for note in found.notes:
        yield f"note: {note}"


def tables_of(found: Comparison) -> list[list[Record]]:
    """Sides, pairs and instances, as people read them."""
    shown = [side_cells(found), [pair_cells(found, pair) for pair in found.pairs]]
    if found.pairs:
        shown.append(instance_cells(found)[:MOST_SHOWN])
    return [table for table in shown if table]


def side_cells(found: Comparison) -> list[Record]:
    from pipeline.compare.records import by_side
    from pipeline.compare.words import percent, shown, span

    records = []
    for record in by_side(found):
        rate, bounds = record["pass_at_1"], (record["low"], record["high"])
        said = f"{percent(rate)} [{span(bounds)}]" if rate is not None else "–"
        votes = " / ".join(
            str(record[f"votes_{name}"]) for name in ("resolved", "rejected", "undetermined")
        )
        records.append(
            {
                "": record["side"],
                "run": shown(record["name"]),
                "model": shown(record["model"]),
                "instances": str(record["instances"]),
                "resolved of counted": f"{record['resolved']} of {record['counted']}",
                "pass@1 over valid": said,
                "votes yes / no / open": votes,
            }
        )
    return records


def pair_cells(found: Comparison, pair: Pair) -> Record:
    from pipeline.compare import Told
    from pipeline.compare.words import decimals, letter, points

    names = {side.name: letter(place) for place, side in enumerate(found.sides)}
    gap, many = pair.difference, len(found.pairs) > 1

    def p(value: float | None, corrected: float | None) -> str:
        return decimals(value) + (f" ({decimals(corrected)})" if many else "")

    ends = pair.ci95
    within = f" [{points(ends[0], sign=True)} to {points(ends[1], sign=True)}]" if ends else ""
    alone = (pair.size(Told.ONLY_FIRST), pair.size(Told.ONLY_SECOND))
    agree = (pair.size(Told.BOTH), pair.size(Told.NEITHER))
    holm = " (Holm)" if many else ""
    return {
        "pair": f"{names[pair.first]} − {names[pair.second]}",
        "only first / second": f"{alone[0]} / {alone[1]}",
        "both / neither": f"{agree[0]} / {agree[1]}",
        "open": str(pair.size(Told.OPEN)),
        f"McNemar p{holm}": p(pair.mcnemar, pair.mcnemar_holm),
        "points [95 %]": f"{points(gap.mean, sign=True)}{within}" if gap else "–",
        "SE": points(gap.error) if gap and gap.error is not None else "–",
        f"permutation p{holm}": p(pair.permutation, pair.permutation_holm),
        "detectable": "–" if pair.detectable is None else points(pair.detectable),
    }


def instance_cells(found: Comparison) -> list[Record]:
    """All of them where they are few, else those that say something."""
    from pipeline.compare import Told
    from pipeline.compare.words import letter, shown

    alike = {Told.BOTH.value, Told.NEITHER.value, "alike"}
    told = {id_: found.told(id_) if found.pairs else "" for id_ in found.ids}
    ids = [id_ for id_ in found.ids if len(told) <= MOST_ROWS or told[id_] not in alike]
    names = {
        Told.ONLY_FIRST.value: "only A",
        Told.ONLY_SECOND.value: "only B",
    }
    return [
        {"instance": shown(id_)}
        | {letter(n): in_words(side.cells[id_]) for n, side in enumerate(found.sides)}
        | ({"resolved by": names.get(told[id_], told[id_])} if found.pairs else {})
        for id_ in ids
    ]


def in_words(cell: Cell) -> str:
    """`yes`, `3/5 yes`, `1/3 open (2 infra (endpoint))`."""
    from pipeline.votes import Ballot

    vote = {Ballot.RESOLVED: "yes", Ballot.REJECTED: "no", Ballot.UNDETERMINED: "open"}
    several = f"{cell.resolved}/{cell.counted} " if cell.attempts > 1 else ""
    return f"{several}{vote[cell.ballot]}" + (f" ({cell.why})" if cell.why else "")


def left_out(found: Comparison) -> str:
    """How many instances the table lacks; empty: none."""
    from pipeline.wording import count

    if not found.pairs:
        return ""
    said = len(instance_cells(found))
    alike, more = len(found.ids) - said, max(said - MOST_SHOWN, 0)
    parts = [
        *([f"{count(alike, 'instance')} on which the votes agree"] if alike else []),
        *([f"{count(more, 'further one')}"] if more else []),
    ]
    return f"not shown: {' and '.join(parts)}; --format csv has all" if parts else ""


def plain(found: Comparison) -> str:
    """For a file or a pipe: no colours, whole lines."""
    from pipeline.tables import Format, render

    blocks = ["\n".join([found.title, *heading(found)])]
    blocks += [render(table, Format.MD).decode().rstrip("\n") for table in tables_of(found)]
    blocks += [left_out(found), "\n".join(found.sentences)]
    return "\n\n".join(block for block in blocks if block) + "\n"


def show(found: Comparison) -> None:
    """On stdout: coloured tables on a terminal, plain ones elsewhere."""
    if not sys.stdout.isatty():
        sys.stdout.buffer.write(plain(found).encode("utf-8", "replace"))
        return
    from rich.markup import escape
    from rich.table import Table

    from pipeline.cli.voice import console

    out = console()
    out.print(escape(found.title), style="bold")
    for line in heading(found):
        out.print(escape(line), style="yellow" if line.startswith("note") else "")
    for records in tables_of(found):
        table = Table(box=None, pad_edge=False, header_style="bold")
        for name in records[0]:
            table.add_column(escape(name), overflow="fold")
        for record in records:
            table.add_row(*map(escape, record.values()))
        out.print()
        out.print(table)
    out.print()
    if missing := left_out(found):
        out.print(escape(missing))
    for line in found.sentences:
        out.print(escape(line), style="bold")


def register(app: typer.Typer) -> None:
    app.command(epilog=EPILOG)(compare)
