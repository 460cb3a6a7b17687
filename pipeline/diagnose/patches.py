"""Say which files a patch touches, and which of them are no part of a fix."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import PurePosixPath

LONGEST_LINE = 10_000
"""Of one with two paths in it: no file system has longer ones."""
HUNK = re.compile(r"@@ -\d+(?:,(\d{1,9}))? \+\d+(?:,(\d{1,9}))? @@")
SIDES = re.compile(r"(\"?)[abciow]/(.+?)\1 (\"?)[abciow]/(.+)\3")
FILE = re.compile(r"(?:---|\+\+\+) (\"(?:[^\"\\]|\\.)*\"|[^\t]+)")
MOVED = re.compile(r"(?:rename|copy) (?:from|to) (.+)$")
ESCAPE = re.compile(rb"\\(?:([0-7]{3})|(.))")
PREFIX = re.compile(r"[abciow]/")
NAMED_TEST = re.compile(r"test_.*|.*_tests?\.\w+|tests?\.py|conftest\.py")
DOCUMENT = re.compile(r".*\.(?:rst|md|txt)|(?:AUTHORS|CHANGE\w*|NEWS|README|LICENSE)(?:\..*)?")


def files_in(diff: str) -> tuple[str, ...]:
    """Every path that a diff touches, in its order: of a renamed file both, of a deleted its own.

    A line of a hunk is never taken for a header, unless the hunk's own counts are wrong.
    """
    found: list[str] = []
    before = after = 0
    """Lines of the hunk at hand that are still to come."""
    for line in diff.split("\n"):
        line = line.removesuffix("\r")
        if (before > 0 or after > 0) and line[:1] in ("-", "+", " ", "\\", ""):
            before -= line[:1] in ("-", " ", "")
            after -= line[:1] in ("+", " ", "")
            continue
        before = after = 0
        if match := HUNK.match(line):
            before, after = (1 if count is None else int(count) for count in match.groups())
        elif line.startswith("diff --git "):
            found += both_sides(line.removeprefix("diff --git "))
        elif match := MOVED.match(line):
            found.append(unquoted(match[1].strip('"'), match[1].startswith('"')))
        elif match := FILE.match(line):
            quoted = match[1].startswith('"')
            name = unquoted(match[1].strip('"') if quoted else match[1].strip(), quoted)
            if name != "/dev/null":
                found.append(PREFIX.sub("", name, count=1))
    return tuple(dict.fromkeys(found))


def both_sides(text: str) -> list[str]:
    """The two paths of a `diff --git` line; where they are one, white space in it does no harm."""
    if len(text) > LONGEST_LINE:
        return []
    middle = len(text) // 2
    if PREFIX.match(text) and text[2:middle] == text[middle + 3 :] and text[middle] == " ":
        return [unquoted(text[2:middle], quoted=False)]
    match = SIDES.fullmatch(text)
    return [unquoted(match[n + 1], bool(match[n])) for n in (1, 3)] if match else []


def unquoted(name: str, quoted: bool) -> str:
    """A path as it is, where git has written it in quotes, with escapes."""
    data = name.encode("utf-8", "replace")
    if quoted:
        data = ESCAPE.sub(lambda m: bytes([int(m[1], 8) & 255]) if m[1] else m[2], data)
    return data.decode("utf-8", "replace")


def is_aside(path: str, gold: Collection[str], hidden: Collection[str]) -> bool:
    """Whether a file is a test or a document; what gold edits is neither, wherever it lies."""
    return path not in gold and (path in hidden or is_test(path) or is_document(path))


def is_test(path: str) -> bool:
    """By its name, or by lying in `tests/`, or in `test/` or `testing/` at the top.

    Further down these two are often part of the library: `django/test`, `sympy/testing`.
    """
    parts = PurePosixPath(path).parts
    inside = "tests" in parts[:-1] or (len(parts) > 1 and parts[0] in ("test", "testing"))
    return inside or bool(parts and NAMED_TEST.fullmatch(parts[-1]))


def is_document(path: str) -> bool:
    parts = PurePosixPath(path).parts
    inside = len(parts) > 1 and parts[0] in ("doc", "docs")
    return inside or bool(parts and DOCUMENT.fullmatch(parts[-1]))
