"""When two patches say the same: white space, offsets and comments aside."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

FILE = re.compile(r'^diff --git "?a/(.+?)"? "?b/(.+?)"?$')
HUNK = re.compile(r"^@@ -\d+(?:,(?P<before>\d+))? \+\d+(?:,(?P<after>\d+))? @@")
CONTEXT = 3
"""So many lines around a change count, however many a diff shows."""
HASH = (".py", ".pyi", ".sh", ".cfg", ".toml", ".ini", ".yml", ".yaml", ".rb", ".pl", ".cmake")
SLASHES = (".js", ".ts", ".jsx", ".tsx", ".java", ".c", ".h", ".cc", ".cpp", ".go", ".rs")
QUOTES = re.compile("[\"'`]")


def normalised(diff: str) -> str:
    """A patch as text that is equal for patches that are.

    Offsets, blank lines, white space and comments are left out, files are in the order of their
    names. A comment is one by its line alone: what stands in a string of several lines and looks
    like one is taken for it, too. Of what is no diff of git only white space is left out.
    """
    parts = []
    for name, lines in files(diff):
        kept = [text for text in changed(name, lines) if text]
        parts.append("\n".join([name, *kept]))
    return "\n\n".join(sorted(parts)) or " ".join(diff.split())


def touched(diff: str) -> tuple[str, ...]:
    """The files that a patch changes or makes, by the names that they have after it."""
    return tuple(dict.fromkeys(name for name, _ in files(diff)))


def files(diff: str) -> Iterator[tuple[str, Sequence[str]]]:
    """Each file of a patch, with the lines that belong to it."""
    name, lines = "", list[str]()
    for line in diff.splitlines():
        if found := FILE.match(line):
            if name:
                yield name, lines
            name, lines = found[2], []
        elif name:
            lines.append(line)
    if name:
        yield name, lines


def changed(name: str, lines: Sequence[str]) -> Iterator[str]:
    """What counts of a file's part: its hunks, and what happens to the file as a whole."""
    hunk, left = list[str](), (0, 0)
    for line in lines:
        if found := HUNK.match(line):
            yield from plain(name, hunk)
            hunk, left = [], (int(found["before"] or 1), int(found["after"] or 1))
        elif any(count > 0 for count in left):
            before, after = left
            left = (before - (line[:1] in " -"), after - (line[:1] in " +"))
            hunk.append(line or " ")
        elif not line.startswith(("index ", "--- ", "+++ ", "similarity ", "\\")):
            yield line
    yield from plain(name, hunk)


def plain(name: str, hunk: Sequence[str]) -> Iterator[str]:
    """A hunk without what does not count; nothing, where only that has changed."""
    said = [(line[:1], text) for line in hunk if (text := bare(name, line[1:]))]
    removed = [text for sign, text in said if sign == "-"]
    added = [text for sign, text in said if sign == "+"]
    if removed == added:
        return
    places = [number for number, (sign, _) in enumerate(said) if sign in "+-"]
    for number, (sign, text) in enumerate(said):
        if sign in "+-" or any(abs(number - place) <= CONTEXT for place in places):
            yield sign + text


def bare(name: str, text: str) -> str:
    """A line without its comment, its white space made one blank; its depth stays."""
    depth = len(text) - len(text.lstrip())
    body = " ".join(without_comment(PurePosixPath(name).suffix, text).split())
    return " " * depth + body if body else ""


def without_comment(suffix: str, text: str) -> str:
    mark = "#" if suffix in HASH else "//" if suffix in SLASHES else ""
    if not mark:
        return text
    before, found, _ = text.partition(mark)
    if not found:
        return text
    # In a string it is none, and what is one has no quotes before it, as a rule.
    quoted = QUOTES.search(before) is not None
    spaced = not before or before[-1].isspace()
    return text if quoted or not spaced else before
