"""Read the older layout's verdict out of what its tests printed.

Terminal-Bench (`terminal_bench/parsers/pytest_parser.py`) reads every line after the first "short
test summary info": PASSED, SKIPPED and XFAIL pass, all else fails, a name's last line counts, and
a task is resolved where nothing failed, even if nothing ran. Here something has to have passed,
and a name that failed once has failed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from pipeline.benchmarks.terminal.tasks import Parser
from pipeline.domain import Tally

SUMMARY = re.compile(r"=+\s*short test summary info\s*=+", re.IGNORECASE)
LINE_END = re.compile(r"\r\n|\r|\n")
COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
LINE = re.compile(r"(PASSED|SKIPPED|XFAIL|FAILED|ERROR|XPASS):*\s+(\S.*)")
BEGIN, END = "SWEBench results starts here", "SWEBench results ends here"


class Status(StrEnum):
    """What became of a test."""

    PASSED = "passed"
    EXCUSED = "excused"
    """Skipped, or failed as expected: no reason against a task, and none for it."""
    FAILED = "failed"


MEANING = {
    "PASSED": Status.PASSED,
    "SKIPPED": Status.EXCUSED,
    "XFAIL": Status.EXCUSED,
    "FAILED": Status.FAILED,
    "ERROR": Status.FAILED,
    "XPASS": Status.FAILED,
}


@dataclass(frozen=True, slots=True)
class Parsed:
    """Every test that the output names."""

    statuses: Mapping[str, Status]

    @property
    def resolved(self) -> bool:
        """Nothing failed, and something passed."""
        found = set(self.statuses.values())
        return Status.FAILED not in found and Status.PASSED in found

    @property
    def failed(self) -> tuple[str, ...]:
        """Names of those that failed."""
        return tuple(name for name, status in self.statuses.items() if status is Status.FAILED)

    @property
    def tally(self) -> Tally:
        """Passed ones of all that were not excused."""
        passed = [status is Status.PASSED for status in self.statuses.values()]
        excused = [status is Status.EXCUSED for status in self.statuses.values()]
        return Tally(sum(passed), len(passed) - sum(excused))


@dataclass(frozen=True, slots=True)
class Unread:
    """Nobody can say what became of the tests: they did not get that far."""

    reason: str


def read_tests(parser: Parser, output: str) -> Parsed | Unread:
    """What a parser makes of an output."""
    plain = COLOUR.sub("", output)
    return from_pytest(plain) if parser is Parser.PYTEST else from_swebench(plain)


def from_pytest(output: str) -> Parsed | Unread:
    """Tests by the name that pytest's short summary gives them."""
    parts = SUMMARY.split(output, maxsplit=1)
    if len(parts) < 2:
        return Unread("pytest printed no short test summary (does run-tests.sh call it with -rA?)")
    statuses: dict[str, Status] = {}
    for line in LINE_END.split(parts[1]):
        match = LINE.match(line)
        if match is None:
            continue
        status = MEANING[match[1]]
        # Behind it stands what went wrong.
        name = match[2].partition(" - ")[0] if status is Status.FAILED else match[2]
        worse = Status.FAILED in (status, statuses.get(name.strip()))
        statuses[name.strip()] = Status.FAILED if worse else status
    return Parsed(statuses)


def from_swebench(output: str) -> Parsed | Unread:
    """The one word between two marks, as the only test."""
    _, begin, rest = output.partition(BEGIN)
    block, end, _ = rest.partition(END)
    if not begin or not end:
        return Unread("the output lacks the marks between which the swebench result stands")
    passed = block.strip() == "PASSED"
    return Parsed({"tests": Status.PASSED if passed else Status.FAILED})
