"""Find in a trajectory where it edits, and where it goes round in a circle."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.domain import Step

LONGEST_ROUND = 4
LEAST_ROUNDS = 3
LEAST_STEPS = 4
MOST_READ = 10_000
"""Characters of an action; a model that repeats itself for ever must not hold up a reader."""
HEREDOC = re.compile(
    r"<<-?[ \t]*(['\"]?)(\w+)\1([^\n]{0,500})\n.*?(?:\n[ \t]*\2(?=\n|$)|$)", re.DOTALL
)
QUOTED = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"")
INTO = re.compile(r"(?<![\d&>=<-])>{1,2}\|?[ \t]*([^\s;&|<>()]+)")
IN_PLACE = re.compile(
    r"\bsed\b[^;&|\n]{0,300}\s(?:-[a-zA-Z]*i|--in-place)|\bperl\b[^;&|\n]{0,300}\s-\w*i"
    r"|\bpatch\b[^;&|\n]{0,300}(?:<|-i|-p)|\bgit\s+(?:apply|am|mv|rm|revert|cherry-pick)\b"
)
MOVING = re.compile(r"(?:^|[;&|(\n])[ \t]*(tee|mv|cp|rm)[ \t]+([^;&|\n<>]+)")
EDITOR = re.compile(
    r"^(?:str_replace_editor|str_replace_based_edit_tool|edit_anthropic)\s+"
    r"(?:create|str_replace|insert)\b|^(?:edit|create|insert|append|apply_patch)\b",
    re.MULTILINE,
)
IN_PYTHON = re.compile(
    r"\.write_(?:text|bytes)\(|\.writelines\(|\bos\.(?:rename|replace|remove)\("
    r"|\bopen\((?!\s*['\"]/(?:tmp|dev)/)[^)\n]{0,200},\s*(?:mode\s*=\s*)?['\"][rbt]*[wax+]"
)
SCRATCH = re.compile(r"/(?:tmp|var/tmp|dev|proc)/.*|.*\.(?:patch|diff|log)|patch\.txt|Q")
"""What is written there is no edit of the tree. Q: a name that only the shell knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Circle:
    """The same action, or a round of a few, again and again."""

    first: int
    """A step's number, from 1; so is `last`."""
    last: int
    period: int
    """How many actions one round has."""
    rounds: int
    actions: tuple[str, ...]
    at_end: bool
    """Whether nothing else came after it."""


def circle_of(steps: Sequence[Step]) -> Circle | None:
    """The longest circle; None: no action came four times in a row, and no round of up to four
    actions three times.

    Two actions are the same if they differ in white space alone. A reply without an action is no
    step out of a circle.
    """
    acts = [(n, " ".join(step.action.split())) for n, step in enumerate(steps, start=1)]
    acts = [(number, action) for number, action in acts if action]
    best: tuple[int, int, int] = (0, 0, 0)
    for period in range(1, LONGEST_ROUND + 1):
        length = period
        for at in range(period, len(acts)):
            length = length + 1 if acts[at][1] == acts[at - period][1] else period
            # Of two readings of the same steps the shorter round is the truer one.
            if length >= max(LEAST_ROUNDS * period, LEAST_STEPS, best[0] + 1):
                best = (length, at, period)
    length, end, period = best
    if not length:
        return None
    start = end - length + 1
    return Circle(
        first=acts[start][0],
        last=acts[end][0],
        period=period,
        rounds=length // period,
        actions=tuple(action for _, action in acts[start : start + period]),
        at_end=end >= len(acts) - 2,
    )


def edits_in(steps: Sequence[Step]) -> list[int]:
    """Numbers of the steps that seem to write a file of the tree, from 1."""
    return [number for number, step in enumerate(steps, start=1) if writes(step.action)]


def writes(action: str) -> bool:
    """Whether an action seems to change a file; not in /tmp, and not only to make the patch.

    It reads the words of a command, and runs nothing: a program that writes by itself is not seen.
    """
    action = action[:MOST_READ]
    if EDITOR.search(action):
        return True
    if "python" in action and IN_PYTHON.search(action):
        return True
    shell = QUOTED.sub(bare, HEREDOC.sub(r"<<\3", action))
    if IN_PLACE.search(shell):
        return True
    targets = INTO.findall(shell)
    for program, words in MOVING.findall(shell):
        names = [word for word in words.split() if not word.startswith("-")]
        targets += names[-1:] if program in ("cp", "mv") else names
    return any(not SCRATCH.fullmatch(target) for target in targets)


def bare(match: re.Match[str]) -> str:
    """A quoted name without its quotes; anything else that is quoted is no command."""
    inside = match[0][1:-1]
    return inside if re.fullmatch(r"[\w./~-]+", inside) else "Q"
