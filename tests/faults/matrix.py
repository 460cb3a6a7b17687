"""The matrix of faults: what is right, what we made of each, and what the others did."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.faults.case import Case, Peer, Seen

MARKS = {True: "✓", False: "✗", None: "~"}
NONE = "–"
TITLES = {"swebench": "swebench", "sweagent": "SWE-agent", "miniswe": "mini-swe-agent"}
LEGEND = (
    f"{MARKS[True]} tells rightly what happened · {MARKS[None]} says that something failed, and "
    f"not what or whose · {MARKS[False]} says what is wrong · {NONE} has no such fault to meet"
)
WIDTHS = (46, 22, 26, 30, 30, 30)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One case, measured."""

    case: Case
    seen: Seen | None = None
    """None: it could not be brought about, or was not run."""
    problem: str = ""
    """Why not."""
    peers: Mapping[str, Peer] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def right(self) -> bool:
        seen = self.seen
        return seen is not None and seen.answer == self.case.right and not seen.wrong

    @property
    def ours(self) -> str:
        """Our cell: a mark, and what we said where that is not right."""
        if self.right:
            return MARKS[True]
        if self.seen is None:
            return f"{MARKS[False]} {self.problem}"
        wrong = [self.seen.wrong] if self.seen.wrong else []
        told = [f"“{self.seen.said}”"] if self.seen.said else []
        return f"{MARKS[False]} " + "; ".join([str(self.seen.answer), *wrong, *told])


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """Every result, and what it was measured with."""

    results: Sequence[Result]
    absent: Mapping[str, str]
    """Peers that are not here, and why."""
    versions: Mapping[str, str]
    date: str
    seconds: float

    @property
    def right(self) -> int:
        return sum(result.right for result in self.results)

    @property
    def verdict(self) -> str:
        """The last line."""
        return f"faults: {self.right}/{len(self.results)} right"

    def cells(self, result: Result) -> list[str]:
        """fault · right outcome · ours · swebench · SWE-agent · mini-swe-agent."""
        peers = [result.peers.get(name) for name in TITLES]
        told = [f"{MARKS[peer.right]} {peer.words}" if peer else NONE for peer in peers]
        return [result.case.name, str(result.case.right), result.ours, *told]

    def groups(self) -> list[tuple[str, list[Result]]]:
        by_group = itertools.groupby(self.results, key=lambda result: result.case.group)
        return [(group, list(results)) for group, results in by_group]

    def standing(self) -> list[str]:
        """One line for each program: on how many of its faults it was right."""
        lines = []
        for name, title in TITLES.items():
            if name in self.absent:
                lines.append(f"{title}: {self.absent[name]}")
                continue
            met = [peer.right for r in self.results if (peer := r.peers.get(name))]
            half, wrong = met.count(None), met.count(False)
            counts = f"right on {met.count(True)} of {len(met)}"
            lines.append(f"{title}: {counts} ({half} half, {wrong} wrong)")
        return lines

    def text(self) -> str:
        """For a terminal."""
        header = ["fault", "right outcome", "passone", *TITLES.values()]
        lines = []
        for group, results in self.groups():
            lines += ["", group, plain(header)]
            lines += [plain(self.cells(result)) for result in results]
        wrong = [result for result in self.results if not result.right]
        lines += ["", LEGEND]
        lines += [f"{result.case.name}: {result.ours}" for result in wrong]
        lines += ["", ", ".join(f"{name} {version}" for name, version in self.versions.items())]
        return "\n".join([*lines, *self.standing()])

    def markdown(self) -> str:
        """For docs/faults.md."""
        lines = [
            *INTRODUCTION,
            "",
            f"Measured on {self.date} in {self.seconds / 60:.0f} minutes with "
            + ", ".join(f"{name} {version}" for name, version in self.versions.items())
            + ".",
            "",
            f"- passone: right on {self.right} of {len(self.results)}",
            *(f"- {line}" for line in self.standing()),
            "",
            LEGEND,
        ]
        header = ["fault", "right outcome", "passone", *TITLES.values()]
        for group, results in self.groups():
            lines += ["", f"## {group[0].upper()}{group[1:]}", "", marked(header)]
            lines.append("|---" * len(header) + "|")
            lines += [marked(self.cells(result)) for result in results]
        return "\n".join([*lines, ""])


INTRODUCTION = (
    "# Faults",
    "",
    "What passone makes of everything that can break under an evaluation, and what other programs",
    "make of the same. `make faults` measures it and writes this page; nothing here is written by",
    "hand.",
    "",
    "Every fault is brought about for real: a real daemon, real containers, real agent programs,",
    "HTTP over real sockets. Only the words of the model are scripted. Each fault has one right",
    "outcome, which follows from who broke it ([outcomes.md](outcomes.md) has the words): what the",
    "model did itself counts against the model, what broke under it never does, and what heals (a",
    "second mirror, another try) has the outcome that the patch deserves. passone is driven by its",
    "command line and judged by the tables that it writes; beside the outcome, a fault counts as",
    "right only if no container is left, no attempt is lost and the blame is settled. The other",
    "programs run as they come, without passone, and are judged by their own reports.",
    "",
    "`make faults` takes about a quarter of an hour on two cores, needs root or a Docker daemon,",
    "and ends with 1 unless passone is right on all. For SWE-agent, name its program in",
    "`PASSONE_SWEAGENT`. `python -m tests.faults --only WORDS` runs the faults whose group or",
    "name has these words.",
)


def plain(cells: Sequence[str]) -> str:
    """Cells of a fixed width."""
    shown = (
        cell if len(cell) <= width else cell[: width - 1] + "…"
        for cell, width in zip(cells, WIDTHS, strict=True)
    )
    return "  ".join(cell.ljust(width) for cell, width in zip(shown, WIDTHS, strict=True)).rstrip()


def marked(cells: Sequence[str]) -> str:
    safe = (cell.replace("|", "\\|").replace("<", "&lt;") for cell in cells)
    return f"| {' | '.join(safe)} |"
