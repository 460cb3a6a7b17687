"""Find the lines of a test log that decided a test: those that name it and say how it ended.

The official report says what passed; this only finds where a person can read it. No line: the
grader did not find the test in the log, and counted it as failed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from pipeline.report.texts import lines_of

Place: TypeAlias = list[Any]
"""[number, text]: a line of the log."""
STATUS = re.compile(
    r"\b(?:PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS|FAIL|ok|skipped|expected)\b|^[.EFs]$"
)
HEADED = re.compile(r"(?:FAIL|ERROR): (.+)")
RULED = re.compile(r"_{3,} (.+?) _{3,}")
BREAK = re.compile(r"={5,}|_{3,} .+ _{3,}")
UNDERLINE = re.compile(r"-{60,}")
"""Below a heading of unittest, and again after the last failure."""
MOST_LINES = 3
"""Of one test."""
BLOCK_HEAD, BLOCK_TAIL = 10, 25
MOST_LOOKED = 400
"""Lines from a heading to the next."""
LONGEST_LINE = 400
MOST_PASSING = 400
"""PASS_TO_PASS tests that pass, of which lines are looked for."""


def decisive(path: Path, names: Collection[str], failing: Collection[str]) -> dict[str, Any]:
    """By test: the lines that say how it ended, and of a failing one what is said about it.

    Returns:
        `lines`: name to places; `blocks`: name to places, in one piece.
    """
    lines = lines_of(path)
    wanted, bases = set(names), {headed(name): name for name in failing}
    found: dict[str, list[Place]] = {}
    blocks: dict[str, list[Place]] = {}
    for at, (number, text) in enumerate(lines):
        if len(text) > 50 * LONGEST_LINE:
            continue
        if STATUS.search(text):
            for name in named(text.strip(), wanted):
                found.setdefault(name, []).append([number, shown(text)])
        title = HEADED.fullmatch(text.strip()) or RULED.fullmatch(text.strip())
        if title and (name := bases.get(title[1]) or (title[1] if title[1] in failing else "")):
            blocks.setdefault(name, block(lines, at))
    # What a runner says last of a test is what the grader takes.
    return {
        "lines": {name: places[-MOST_LINES:] for name, places in found.items()},
        "blocks": blocks,
    }


def named(line: str, wanted: Collection[str]) -> Iterator[str]:
    """The tests that a line is about: `name ... ok`, `PASSED name`, `name PASSED`, `name ok`."""
    first, _, rest = line.partition(" ")
    before, _, _ = line.rpartition(" ")
    candidates = (
        line.partition(" ... ")[0],
        rest.partition(" - ")[0],
        rest.strip(),
        before,
        before.partition(" PASSED")[0].partition(" FAILED")[0],
        first,
    )
    yield from dict.fromkeys(name.strip() for name in candidates if name.strip() in wanted)


def headed(name: str) -> str:
    """As pytest heads a failure: `TestClass.test_name`; others head it by its whole name."""
    _, found, inside = name.partition("::")
    return inside.replace("::", ".") if found else name


def block(lines: Sequence[tuple[int, str]], start: int) -> list[Place]:
    """From a heading to the next; of a long one its beginning and its end."""
    end = start + 1
    while end < min(len(lines), start + MOST_LOOKED) and not BREAK.match(lines[end][1]):
        if end > start + 1 and UNDERLINE.fullmatch(lines[end][1]):
            break
        end += 1
    whole = [[number, shown(text)] for number, text in lines[start:end]]
    if len(whole) <= BLOCK_HEAD + BLOCK_TAIL:
        return whole
    left = len(whole) - BLOCK_HEAD - BLOCK_TAIL
    return [*whole[:BLOCK_HEAD], [0, f"… {left} lines …"], *whole[-BLOCK_TAIL:]]


def shown(text: str) -> str:
    text = text.removesuffix("\r")
    return text if len(text) <= LONGEST_LINE else f"{text[:LONGEST_LINE]}…"


def named_tests(report: Mapping[str, Any], path: Path, names: Mapping[str, int]) -> dict[str, Any]:
    """Both groups of an official report, by the number of each test's name.

    Returns:
        By group, `failed` and `passed`: numbers; `lines` and `blocks`: by number.
    """
    groups: dict[str, dict[str, list[str]]] = {}
    for group in ("FAIL_TO_PASS", "PASS_TO_PASS"):
        tests = report.get(group)
        tests = tests if isinstance(tests, Mapping) else {}
        groups[group] = {
            word: [str(name) for name in tests.get(word) or ()] for word in ("failure", "success")
        }
    fixed, kept = groups["FAIL_TO_PASS"], groups["PASS_TO_PASS"]
    failing = [*fixed["failure"], *kept["failure"]]
    looked = [*failing, *fixed["success"], *kept["success"][:MOST_PASSING]]
    found = decisive(path, looked, set(failing))
    return {
        group: {
            "failed": [names[name] for name in tests["failure"]],
            "passed": [names[name] for name in tests["success"]],
        }
        for group, tests in groups.items()
    } | {
        what: {str(names[name]): places for name, places in found[what].items()}
        for what in ("lines", "blocks")
    }
