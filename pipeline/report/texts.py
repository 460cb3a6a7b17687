"""Cut long texts of a model to a head and a tail, and say what was left out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

Text: TypeAlias = str | dict[str, Any]
"""As it is; or `head`, `tail`, and how much is missing between them."""
HEAD, TAIL = 8_000, 4_000
LONGEST_PATCH = 200_000
LONGEST_FILE = 4_000_000
"""Bytes of a log that are read, from either end."""


def cut(text: str, *, head: int = HEAD, tail: int = TAIL) -> Text:
    """A text, or its two ends where it is longer than both; counts are characters and lines."""
    if len(text) <= head + tail:
        return text
    middle = text[head:-tail]
    return {
        "head": text[:head],
        "tail": text[-tail:],
        "left": len(middle),
        "lines": middle.count("\n"),
    }


def patch_text(diff: str) -> Text:
    return cut(diff, head=LONGEST_PATCH * 3 // 4, tail=LONGEST_PATCH // 4)


def lines_of(path: Path) -> Sequence[tuple[int, str]]:
    """Lines of a file with their numbers, from 1; of a huge one its two ends, the latter's counted
    from below (the last is -1). Empty: there is none.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            if size <= 2 * LONGEST_FILE:
                return list(enumerate(decoded(file.read()), 1))
            first = decoded(file.read(LONGEST_FILE))
            file.seek(size - LONGEST_FILE)
            last = decoded(file.read())
    except OSError:
        return []
    below = [(n - len(last), line) for n, line in enumerate(last)]
    return [*enumerate(first, 1), *below]


def decoded(data: bytes) -> list[str]:
    return data.decode("utf-8", "replace").split("\n")
