"""Read a file of tests, find its test functions, and take some of them out."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

UNLIKE = ("xfail", "skip", "fixture", "expectedfailure")
"""Decorators of what is no test, or may fail and pass all the same."""

UNREADABLE = (SyntaxError, ValueError, RecursionError, IndexError, MemoryError)
"""What it costs to read a file that was made to be unreadable."""
T = TypeVar("T")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Planted:
    """A file of tests in place of the real ones, and how a runner may call them."""

    source: bytes
    names: frozenset[str]
    """Of functions, and the first lines of their docstrings, which unittest prints instead."""


@dataclass(frozen=True, slots=True)
class Case:
    """One test function where it stands in its file."""

    node: Function
    owners: tuple[str, ...]
    """The classes around it."""

    @property
    def names(self) -> set[str]:
        docstring = (ast.get_docstring(self.node) or "").strip()
        return {self.node.name, *docstring.splitlines()[:1]}


@dataclass(frozen=True, slots=True)
class Module:
    """A module of tests, read."""

    text: str
    encoding: str
    tree: ast.Module
    cases: Sequence[Case]

    @staticmethod
    def read(content: bytes) -> Module | None:
        """None where it holds no test, or is no Python that we can read."""
        try:
            encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
            text = content.decode(encoding)
            tree = ast.parse(text)
            cases = list(find(tree.body))
        except UNREADABLE:
            return None
        return Module(text, encoding, tree, cases) if cases else None

    def planted(self, lines: Sequence[str], kept: Collection[Case]) -> Planted | None:
        """These lines with none but the tests that are kept; None: they are no Python."""
        text = "\n".join([*lines, *removal(case for case in self.cases if case not in kept)])
        try:
            ast.parse(text)
            source = text.encode(self.encoding)
        except (SyntaxError, ValueError):
            return None
        return Planted(source, frozenset().union(*(case.names for case in kept)))


def written(write: Callable[[bytes], T | None], content: bytes | None) -> T | None:
    """What is made of a file; None: nothing can be. A patch may have put anything there."""
    try:
        return None if content is None else write(content)
    except UNREADABLE:
        return None


def find(body: Sequence[ast.stmt], owners: tuple[str, ...] = ()) -> Iterator[Case]:
    """Every test function of a module, those of classes and behind conditions too."""
    for node in body:
        if isinstance(node, Function):
            marks = " ".join(ast.unparse(mark).lower() for mark in node.decorator_list)
            if node.name.startswith("test") and not any(word in marks for word in UNLIKE):
                yield Case(node, owners)
        elif isinstance(node, ast.ClassDef):
            yield from find(node.body, (*owners, node.name))
        elif isinstance(node, (ast.If, ast.Try, ast.With)):
            for part in ("body", "orelse", "finalbody"):
                yield from find(getattr(node, part, []), owners)


def removal(tests: Iterable[Case]) -> list[str]:
    """Lines at the end of a file that take tests out of it, so that nobody waits for them."""
    lines = []
    for test in tests:
        owner = ".".join(test.owners)
        what = f"{owner}.{test.node.name}" if owner else test.node.name
        lines += ["try:", f"    del {what}", "except Exception:", "    pass"]
    return ["", *lines] if lines else []
