"""What a person sees of a run: a progress bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from pipeline import headline, tables
from pipeline.domain import (
    Attempt,
    Controls,
    Fault,
    Patch,
    Reference,
    Rollout,
    Snapshot,
    Stop,
    Verdict,
)
from pipeline.ledger import Book, Kind, Row
from pipeline.outcomes import Blame, Outcome, Settlement
from pipeline.results import Results
from pipeline.trust import Trust, last_words, trust_of
from pipeline.wording import between, count

if TYPE_CHECKING:
    from pipeline.plan import RunPlan

COLOURS = {
    Blame.NOBODY: "green",
    Blame.MODEL: "red",
    Blame.AMBIGUOUS: "yellow",
    Blame.INFRA: "magenta",
}
MOST_ROWS = 60
WIDE = 110
DETAIL_CHARACTERS = 240
IMPORTED = "imported"
HANDED = {Patch: "a patch", Snapshot: "its machine", Reference: "gold", type(None): "no patch"}


def console(*, stderr: bool = False) -> Console:
    """A console that keeps lines whole where nobody looks at them in a terminal."""
    stream = sys.stderr if stderr else sys.stdout
    found = Console(stderr=stderr, highlight=False, soft_wrap=True)
    return (
        found
        if stream.isatty()
        else Console(stderr=stderr, highlight=False, soft_wrap=True, width=160, no_color=True)
    )


class Voice:
    """Progress on stderr, results on stdout."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.out = console()
        self.err = console(stderr=True)
        self.quiet = quiet
        self.total = 0
        self.settled: set[object] = set()
        self.progress: Progress | None = None

    def note(self, text: str) -> None:
        """Something that a person should know."""
        self.err.print(f"[yellow]note:[/] {escape(text)}")

    def endpoint(self, text: str, down: bool) -> None:
        """What the endpoint does; while it is down, the bar says so too."""
        self.note(text)
        if self.progress is not None:
            said = "paused: the endpoint is down" if down else "attempts"
            self.progress.update(self.progress.task_ids[0], description=said)

    def began(self, attempt: Attempt, number: int) -> None:
        """Where nobody sees a bar, that something has begun is news."""
        if self.progress is None and not self.quiet:
            blank = " " * len(f"[{self.total}/{self.total}]")
            text = f"{attempt.instance_id} #{attempt.number} try {number} begins"
            self.err.print(f"{blank} {escape(text)}")

    def left(self, names: Sequence[str]) -> None:
        """Containers that would not go."""
        for words in names:
            self.note(f"could not be removed: container {words}; the next run tries again")

    def say(self, text: str) -> None:
        if not self.quiet:
            self.err.print(escape(text))

    def start(self, plan: RunPlan, book: Book) -> None:
        """Announce a run, and how much of it an earlier invocation has done."""
        begun = book.begun()
        self.total = sum(max(plan.least, begun.get(id_, 0)) for id_ in plan.selection.ids)
        self.settled = {attempt for attempt in plan.grid() if book.entry(attempt).over}
        before = f", {len(self.settled)} done before" if self.settled else ""
        model = "" if plan.model == "none" else f", {plan.model}"
        model = ", scripted replies (no model is measured)" if plan.replies else model
        instances = count(len(plan.selection.ids), "instance")
        size = f"{instances} × {between(plan.least, plan.attempts)}"
        self.say(f"{plan.name}: {size}, agent {plan.agent}{model}, plan {plan.digest}{before}")
        if self.err.is_terminal and not self.quiet:
            self.progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                console=self.err,
                transient=True,
            )
            self.progress.add_task("attempts", total=self.total, completed=len(self.settled))
            self.progress.start()

    def stop(self) -> None:
        if self.progress is not None:
            self.progress.stop()

    def landed(self, row: Row, *, due: int) -> None:
        """One line for what has just been written down; so many attempts are due by now."""
        self.total = due
        done = isinstance(row.value, Settlement)
        if done:
            self.settled.add(row.attempt)
        if self.progress is not None:
            task = self.progress.task_ids[0]
            self.progress.update(task, completed=len(self.settled), total=due)
        text = describe(row)
        if text and not self.quiet:
            blank = " " * len(f"[{self.total}/{self.total}]")
            where = f"[{len(self.settled)}/{self.total}]" if done else blank
            self.err.print(f"{escape(where)} {text}")

    def looked(self, instance_id: str, look: Controls | Fault) -> None:
        """One line for a look at an instance."""
        if not self.quiet:
            row = Row(
                seq=0,
                kind=Kind.CONTROL,
                attempt=Attempt(instance_id, 0),
                try_number=1,
                value=look,
            )
            self.err.print(describe(row))

    def controls(self, records: Sequence[Mapping[str, Any]]) -> None:
        """What `passone controls` came to, on stdout."""
        self.out.print(looked_at(records))
        trusted = sum(record["trust"] == Trust.TRUSTED for record in records)
        self.out.print(f"{trusted} of {count(len(records), 'instance')} trusted")

    def closing(self, results: Results, root: Path, *, remedy: str = "") -> None:
        """Where the run is, and what is left to do."""
        counts = results.summary()
        left = counts["pending"] + counts["blame"][Blame.INFRA] + counts["blame"][Blame.AMBIGUOUS]
        todo = f"{count(left, 'attempt')} to do: {remedy or 'run the same command again'}"
        place = root.relative_to(Path.cwd()) if root.is_relative_to(Path.cwd()) else root
        self.say(f"{place}: {todo if left else 'nothing is left to do'}")

    def report(self, results: Results) -> None:
        """The table and the headline, on stdout."""
        few = len(results.rows) <= MOST_ROWS
        narrow = self.out.is_terminal and self.out.width < WIDE
        table = attempt_table(results, narrow=narrow) if few else repo_table(results)
        self.out.print(table)
        for line in headline.losses(results)[:20]:
            self.out.print(f"[magenta]lost[/] {escape(line)}")
        for line in headline.contests(results)[:20]:
            self.out.print(f"[red]contested[/] {escape(line)}")
        for line in headline.drifts(results)[:20]:
            self.out.print(f"[yellow]drift[/] {escape(line)}")
        for number, line in enumerate(headline.lines_of(results)):
            self.out.print(escape(line), style="bold" if number == 0 else "")
        if results.plan.get("replies"):
            self.out.print("scripted replies: no model was measured", style="yellow")


def looked_at(records: Sequence[Mapping[str, Any]]) -> Table:
    """instance · gold · empty · trust · seconds, and what others have reported."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    told = any(record["reported"] for record in records)
    for name in ("instance", "gold", "empty", "trust", "seconds", *(["reported"] if told else [])):
        right = name in ("gold", "empty", "seconds")
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    for record in records:
        colour = "green" if record["trust"] == Trust.TRUSTED else "magenta"
        cells = [record["instance"], record["gold"], record["empty"]]
        cells += [f"[{colour}]{record['trust']}[/]", f"{record['seconds']:.1f}"]
        table.add_row(*cells, *([record["reported"]] if told else []))
    return table


def describe(row: Row) -> str:
    """A row of the ledger in a few words, with markup."""
    name = f"{escape(row.attempt.instance_id)} #{row.attempt.number}"
    value = row.value
    if row.kind is Kind.CONTROL:
        name = f"{escape(row.attempt.instance_id)} gold"
    if isinstance(value, Fault):
        detail = escape(" ".join(value.detail.split())[:DETAIL_CHARACTERS])
        return f"{name} try {row.try_number} [magenta]{value.cause} fault[/]: {detail}"
    if isinstance(value, Controls):
        return describe_look(name, value)
    if isinstance(value, Rollout):
        if value.stop is None:
            return ""  # imported: there are as many as lines in a file
        what = HANDED[type(value.submission)]
        return f"{name} {value.stop}: {what}, {count(value.steps, 'step')}, {value.seconds:.0f} s"
    if isinstance(value, Verdict):
        return "" if value.grader == IMPORTED else f"{name} {describe_verdict(value)}"
    assert isinstance(value, Settlement)
    if value.trust is Trust.IMPORTED:
        return ""
    colour = COLOURS[value.blame]
    cause = f" ({value.cause})" if value.cause else ""
    unsettled = ", unsettled" if value.blame is Blame.AMBIGUOUS else ""
    return f"{name} [{colour}]{value.outcome}{cause}[/]{unsettled}"


def describe_verdict(value: Verdict) -> str:
    f2p, p2p = value.fail_to_pass, value.pass_to_pass
    counts = f" (fail to pass {f2p.passed}/{f2p.total}, pass to pass {p2p.passed}/{p2p.total})"
    how = escape(", ".join(value.evidence.reasons or (f"{value.seconds:.0f} s",)))
    return f"{value.finding}{counts if f2p.total else ''}, {how}"


def describe_look(name: str, look: Controls) -> str:
    """What the controls came to at one instance, with markup."""
    if not look.gold:
        return f"{name}: no reference solution, and so no control"
    if len(look.gold) == 1 and not look.empty:
        said = describe_verdict(look.gold[0])
    else:
        trust = trust_of([look])
        colour = "green" if trust is Trust.TRUSTED else "magenta"
        passed = sum(verdict.passed for verdict in look.gold)
        empty = f", empty {sum(verdict.passed for verdict in look.empty)} of {len(look.empty)}"
        said = f"resolves {passed} of {len(look.gold)} times{empty}: [{colour}]{trust}[/]"
        said += f", {escape(words)}" if (words := last_words(look)) else ""
    if look.idle_death:
        said += f"; an idle container died as well: {escape(look.idle_death)}"
    return f"{name} {said}"


def repo_table(results: Results) -> Table:
    """By repository, where a line an attempt would fill pages; those are in report/."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    records = tables.by_repo(results)
    ends = ("pass_at_1_all_low", "pass_at_1_all_high")
    for name in (name for name in records[0] if name not in ends):
        table.add_column(name, no_wrap=True, justify="left" if name == "repo" else "right")
    for record in records:
        low, high = (record.pop(name) for name in ends)
        said = f"{headline.percent(record['pass_at_1_all'])} [{headline.span((low, high))}]"
        values = (record | {"pass_at_1_all": escape(said)}).values()
        table.add_row(*("–" if value is None else str(value) for value in values))
    return table


def attempt_table(results: Results, *, narrow: bool = False) -> Table:
    """instance · repo · patch? · outcome · tries · steps · tokens · seconds.

    A narrow terminal goes without the repository, which the id names, and the stop.
    """
    table = Table(box=None, pad_edge=False, header_style="bold")
    rows = results.rows
    many = any(row.attempt > 1 for row in rows)
    table.add_column("instance", overflow="fold")
    if many:
        table.add_column("#", justify="right")
    for name in ("patch?", "outcome") if narrow else ("repo", "patch?", "outcome"):
        table.add_column(name, no_wrap=True)
    graded = any(row.reward is not None for row in rows)
    for name in (*(("reward",) if graded else ()), "tries", "steps", "tokens", "seconds"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        colour = COLOURS.get(Blame(row.blame), "") if row.blame else "dim"
        extra = f" ({row.cause})" if row.cause else ""
        explains = row.stop not in ("", Stop.SUBMITTED) and not narrow
        if row.outcome == Outcome.NO_SUBMISSION and explains:
            extra = f" ({row.stop})"
        cells = [row.instance_id]
        if many:
            cells.append(str(row.attempt))
        cells += [] if narrow else [row.repo]
        cells += [tables.yes_no(row.patch), f"[{colour}]{row.outcome}{extra}[/]"]
        if graded:
            cells.append("–" if row.reward is None else f"{row.reward:.3g}")
        used = [str(row.steps), f"{tables.tokens([row]):,}"] if results.recorded else ["–", "–"]
        cells += [str(row.tries), *used, f"{row.seconds:.1f}"]
        table.add_row(*cells)
    return table
