"""Hold what a bundle says against what was recomputed, and name every place that differs."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

CLOSE = 1e-9
"""Relative: another machine's library may round the last digit otherwise."""
SHOWN = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One kind of number, all of its values."""

    kind: str
    of: int
    """How many values were held against each other."""
    differing: tuple[str, ...] = ()
    """Each with its place, what stands there, and what was recomputed."""
    note: str = ""
    """What could not be checked."""

    @property
    def line(self) -> str:
        """`verdicts 30/30 equal (2 have no log)`."""
        said = f"{self.kind} {self.of - len(self.differing)}/{self.of} equal"
        if not self.of:
            said = f"{self.kind}: nothing to check"
        return f"{said} ({self.note})" if self.note else said


def same(one: Any, other: Any) -> bool:
    """Equal, but for the last digits of a fraction."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, float) or isinstance(other, float):
        numbers = isinstance(one, int | float) and isinstance(other, int | float)
        return numbers and math.isclose(one, other, rel_tol=CLOSE, abs_tol=1e-12)
    return bool(one == other)


def plain(text: str) -> str:
    """Without what commands a terminal: a bundle is anybody's."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def shown(value: Any) -> str:
    text = plain("nothing" if value is ABSENT else str(value))
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"


def compare_pairs(kind: str, pairs: Sequence[tuple[str, Any, Any]], note: str = "") -> Check:
    """(place, what stands there, what was recomputed)."""
    differing = [
        plain(f"{place}: says {one}, recomputed {other}")
        for place, one, other in pairs
        if not same(one, other)
    ]
    return Check(kind=kind, of=len(pairs), differing=tuple(differing), note=note)


class Absent:
    """Nothing stands there."""


ABSENT = Absent()


def leaves(tree: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of a tree with its place: `outcomes.resolved`, `attempts.3.mode`."""
    pairs: Sequence[tuple[Any, Any]]
    if isinstance(tree, Mapping) and tree:
        pairs = list(tree.items())
    elif isinstance(tree, list | tuple) and tree:
        pairs = list(enumerate(tree))
    else:
        yield place, list(tree) if isinstance(tree, tuple) else tree
        return
    for key, value in pairs:
        yield from leaves(value, f"{place}.{key}" if place else str(key))


def compare_trees(kind: str, name: str, stands: Any, found: Any, note: str = "") -> Check:
    """Two trees of plain values, leaf by leaf."""
    ours, theirs = dict(leaves(stands)), dict(leaves(found))
    places = list(dict.fromkeys((*ours, *theirs)))
    pairs = ((place, ours.get(place, ABSENT), theirs.get(place, ABSENT)) for place in places)
    differing = [
        f"{name} {plain(place)}: says {shown(one)}, recomputed {shown(other)}"
        for place, one, other in pairs
        if not same(one, other)
    ]
    return Check(kind=kind, of=len(places), differing=tuple(differing), note=note)


def number(cell: str) -> Any:
    """What a cell of a table says: a number, or its text."""
    try:
        return float(cell)
    except ValueError:
        return cell


def compare_tables(kind: str, name: str, stands: bytes, found: bytes) -> Check:
    """Two CSV tables, cell by cell; a row is named by its first cells."""
    (head, *rows), (other_head, *other_rows) = table_in(stands), table_in(found)
    if head != other_head or len(rows) != len(other_rows):
        what = f"{name}: has {len(rows)} rows of {len(head)} columns, recomputed "
        what += f"{len(other_rows)} of {len(other_head)}, or other columns"
        return Check(kind=kind, of=1, differing=(what,))
    differing = [
        f"{name} {plain(' '.join(filter(None, theirs[:3])))}, {plain(column)}: says {shown(one)}, "
        f"recomputed {shown(other)}"
        for ours, theirs in zip(rows, other_rows, strict=True)
        for column, one, other in zip_longest(head, ours, theirs, fillvalue="")
        if not same(number(one), number(other))
    ]
    cells = sum(map(len, other_rows))
    return Check(kind=kind, of=max(cells, len(differing)), differing=tuple(differing))


def table_in(content: bytes) -> list[list[str]]:
    text = content.decode("utf-8", "replace")
    return list(csv.reader(io.StringIO(text, newline=""))) or [[]]


def compare_lines(kind: str, name: str, stands: bytes, found: bytes) -> Check:
    """Two texts, line by line."""
    ours, theirs = stands.split(b"\n"), found.split(b"\n")
    differing = [
        f"{name} line {place}: says {shown(text(one))}, recomputed {shown(text(other))}"
        for place, (one, other) in enumerate(zip_longest(ours, theirs), start=1)
        if one != other
    ]
    return Check(kind=kind, of=max(len(ours), len(theirs)), differing=tuple(differing))


def text(line: bytes | None) -> Any:
    return ABSENT if line is None else line.decode("utf-8", "replace")
