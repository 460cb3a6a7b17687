"""`passone watch`: a run while somebody drives it, on a terminal or line by line."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.wording import count

if TYPE_CHECKING:
    from rich.console import RenderableType

    from pipeline.progress import Progress, Seen
    from pipeline.results import Results

EPILOG = """Examples:

  passone watch logs/mini-5

  passone watch logs/mini-5 --once"""

MOST_LINES = 6
"""Tries in flight that are named; a terminal is not to scroll."""
SLOWEST_SECONDS = 3600.0


def watch(
    run: Annotated[Path, typer.Argument(help="A run directory, such as logs/demo.")],
    every: Annotated[
        float, typer.Option(min=0.2, max=SLOWEST_SECONDS, help="Seconds between two looks.")
    ] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="One look, and no more.")] = False,
) -> None:
    """Watch a run that another process drives; it ends when that does, and changes nothing.

    In a pipe each change is a line. At the end stand the headline, and the run's own exit status:
    0, or 3 where something is infra, unsettled or pending.
    """
    from pipeline.cli.drive import exit_status
    from pipeline.cli.lanes import cut_off_usage
    from pipeline.cli.voice import console
    from pipeline.headline import lines_of
    from pipeline.progress import Progress
    from pipeline.results import load
    from pipeline.rundir import RunDir

    place = RunDir(run)
    progress = Progress(place)
    out = console()
    try:
        if once:
            out.print(drawn(progress.look()))
            return
        if out.is_terminal and not out.is_dumb_terminal:
            live(progress, every)
        else:
            for line in lines(progress, every):
                sys.stdout.write(line + "\n")
                sys.stdout.flush()
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    results: Results = load(place, cut_off=cut_off_usage(place))
    for line in lines_of(results):
        out.print(line, markup=False)
    raise typer.Exit(exit_status(results))


def live(progress: Progress, every: float) -> None:
    """Draw the run in place until nobody drives it."""
    from rich.live import Live

    with Live(auto_refresh=False, transient=True) as screen:
        while True:
            seen = progress.look()
            screen.update(drawn(seen), refresh=True)
            if not seen.driver:
                return
            time.sleep(every)


def lines(progress: Progress, every: float) -> Iterator[str]:
    """A line whenever something has changed, with the time of day."""
    last: tuple[object, ...] = ()
    while True:
        seen = progress.look()
        flying = tuple(name for name, _ in seen.in_flight)
        now = (seen.over, seen.faults, seen.endpoint, seen.driver, flying)
        if now != last:
            yield f"{datetime.now().astimezone():%H:%M:%S} {line_of(seen)}"
        if not seen.driver:
            return
        last = now
        time.sleep(every)


def line_of(seen: Seen) -> str:
    """The run on one line."""
    said = [f"{seen.over} of {seen.total} over", *found(seen)]
    said += under_way(seen)
    said += filter(None, [left(seen), health(seen)])
    return " · ".join(said)


def drawn(seen: Seen) -> RenderableType:
    """The run on at most a dozen lines."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    who = f"driven by process {seen.driver}" if seen.driver else "nobody drives it"
    head = Text(f"{seen.name}: {seen.about}", style="bold", overflow="ellipsis", no_wrap=True)
    bar = Table.grid(padding=(0, 1))
    bar.add_row(
        ProgressBar(total=max(seen.total, 1), completed=seen.over, width=24),
        Text(" · ".join(filter(None, [f"{seen.over} of {seen.total} over", left(seen), who]))),
    )
    state = Text(
        " · ".join([spent(seen), health(seen) or "endpoint fine"]),
        style="yellow" if seen.endpoint_down else "",
    )
    outcomes = " · ".join([*found(seen), *under_way(seen)])
    rows: list[RenderableType] = [
        head,
        bar,
        Text(outcomes or "nothing is over yet"),
        Text(rates(seen)),
        state,
    ]
    for name, seconds in seen.in_flight[:MOST_LINES]:
        line = Text(f"  {clock(seconds)}  {named(name)}", overflow="ellipsis", no_wrap=True)
        rows.append(line)
    more = len(seen.in_flight) - MOST_LINES
    if more > 0:
        rows.append(Text(f"         and {more} more"))
    return Group(*rows)


def under_way(seen: Seen) -> list[str]:
    said = [f"{len(seen.in_flight)} in flight"] if seen.in_flight else []
    return [*said, f"{seen.scoring} in scoring"] if seen.scoring else said


def found(seen: Seen) -> list[str]:
    """Outcomes so far; of infra with its causes."""
    causes = ", ".join(f"{number} {cause}" for cause, number in seen.causes.items())
    return [
        f"{number} {outcome}" + (f" ({causes})" if outcome == "infra" and causes else "")
        for outcome, number in seen.outcomes.items()
    ]


def rates(seen: Seen) -> str:
    """Never a bare number: with its interval, and what all attempts can still come to."""
    from pipeline.headline import percent, span

    between = f"all: from {percent(seen.low)} to {percent(seen.high)}"
    if seen.valid is None:
        return f"pass@1 of {between}"
    return f"pass@1 so far {percent(seen.valid[0])} over valid [{span(seen.valid[1:])}] · {between}"


def spent(seen: Seen) -> str:
    usage = seen.usage
    money = f" · ${usage.cost_usd:.2f}" if usage.cost_usd else ""
    tokens = f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out"
    return f"{count(usage.requests, 'request')} · {tokens}{money}"


def health(seen: Seen) -> str:
    """What is amiss; empty: nothing is."""
    others = seen.faults - seen.endpoint_faults
    ours = [f"{count(others, 'try', 'tries')} lost to other faults"] if others else []
    if seen.endpoint_faults:
        ours.insert(0, f"{count(seen.endpoint_faults, 'try', 'tries')} lost to the endpoint")
    return " · ".join([*([seen.endpoint] if seen.endpoint_down else []), *ours])


def left(seen: Seen) -> str:
    if seen.left_seconds is None:
        return ""
    low, high = (span_of(seconds) for seconds in seen.left_seconds)
    return f"about {high} left" if low == high else f"{low} to {high} left"


def span_of(seconds: float) -> str:
    """`40 s`, `12 min`, `3 h`: an estimate claims no more."""
    if seconds < 90:
        return f"{max(round(seconds, -1), 10):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.0f} h"


def clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes:4d}:{rest:02d}"


def named(name: str) -> str:
    """`astropy__astropy-12907 #2 try 1` of the name of a try's folder."""
    instance, number, attempt = name.rsplit("-", 2)
    return f"{instance} #{number} try {attempt}"


def register(app: typer.Typer) -> None:
    app.command(epilog=EPILOG)(watch)
