"""Write tests that expect something else, and the same tests in other words.

A patch that looks up what a test expects, in its file or in its caller's frame, gives what the
first of them ask for, and they pass. A patch that knows the published tests by their text or
their code does not know the others.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from pipeline.benchmarks.cases import Function, Module, Planted

OPPOSITE = {
    "assertTrue": "assertFalse",
    "assertFalse": "assertTrue",
    "assertIsNone": "assertIsNotNone",
    "assertIsNotNone": "assertIsNone",
}
RAISES = ("raises", "assertRaises", "assertRaisesMessage", "assertRaisesRegex")
ANOTHER = "ZeroDivisionError"
"""An exception that hardly any test waits for."""


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """Another text for part of a file."""

    line: int
    """From 0."""
    start: int
    """In bytes, as `ast` counts them."""
    end: int
    text: str


def other_answers(content: bytes, wanted: Collection[str]) -> Planted | None:
    """Let tests expect something else, each in all that it compares, and take the others out.

    The text around it stays, for those who read it.

    Args:
        wanted: names or first lines of docstrings of the tests that matter.

    Returns:
        None where none of them says what it expects, or nobody can read it.
    """
    file = Module.read(content)
    if file is None:
        return None
    edits = {id(c): set(edits_of(c.node)) for c in file.cases if not c.names.isdisjoint(wanted)}
    changed = [case for case in file.cases if edits.get(id(case))]
    if not changed:
        return None
    lines = file.text.split("\n")
    for edit in sorted(set().union(*edits.values()), reverse=True):
        raw = lines[edit.line].encode()
        lines[edit.line] = (raw[: edit.start] + edit.text.encode() + raw[edit.end :]).decode()
    return file.planted(lines, changed)


def other_words(content: bytes, mark: str) -> bytes | None:
    """The same tests: no line and no code object of them is what it was.

    Args:
        mark: a word that nobody knows.

    Returns:
        None where it holds no test, or is no Python that we can read.
    """
    file = Module.read(content)
    if file is None:
        return None
    for case in file.cases:
        place = 1 if ast.get_docstring(case.node) is not None else 0
        case.node.body.insert(place, ast.parse(f"{mark} = {mark!r}").body[0])
    try:
        return f"{ast.unparse(file.tree)}\n".encode()
    except (ValueError, RecursionError):
        return None


def edits_of(node: Function) -> Iterator[Edit]:
    """What a test has to say otherwise to expect something else."""
    compared: set[str] = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Assert):
            yield from asserted(part.test, compared)
        elif isinstance(part, ast.Call):
            yield from called(part, compared)
    for part in ast.walk(node):
        if isinstance(part, ast.Assign) and compared.intersection(names_in(part.targets)):
            yield from another(part.value)
    if compared.intersection(names_in([node.args])):
        for mark in node.decorator_list:
            if isinstance(mark, ast.Call) and ast.unparse(mark.func).endswith("parametrize"):
                yield from of_parameters(mark)


def asserted(test: ast.expr, compared: set[str]) -> Iterator[Edit]:
    """Edits in what an assert statement asks for."""
    if isinstance(test, ast.BoolOp):
        for value in test.values:
            yield from asserted(value, compared)
    elif isinstance(test, ast.Compare):
        yield from expected(test.comparators, test.left, compared)
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        if test.lineno == test.operand.lineno:
            yield Edit(test.lineno - 1, test.col_offset, test.operand.col_offset, "")
    elif isinstance(test, ast.Call | ast.Name | ast.Attribute | ast.Subscript):
        yield Edit(test.lineno - 1, test.col_offset, test.col_offset, "not ")


def called(call: ast.Call, compared: set[str]) -> Iterator[Edit]:
    """Edits in a call that checks something, if it is one."""
    function, name = call.func, ast.unparse(call.func).rpartition(".")[2]
    if name in RAISES and call.args and isinstance(call.args[0], ast.Name | ast.Attribute):
        yield from replaced(call.args[0], ANOTHER)
    elif name in OPPOSITE and isinstance(function, ast.Attribute):
        line, end = function.end_lineno or function.lineno, function.end_col_offset or 0
        yield Edit(line - 1, end - len(name.encode()), end, OPPOSITE[name])
    elif name.startswith("assert") and len(call.args) > 1:
        yield from expected(call.args[1:2], call.args[0], compared)


def expected(right: Sequence[ast.expr], left: ast.expr, compared: set[str]) -> Iterator[Edit]:
    """The first constant in what something is compared with; else the names in it."""
    for side in (*right, left):
        if found := list(another(side)):
            yield from found
            return
    compared.update(names_in(right))


def of_parameters(mark: ast.Call) -> Iterator[Edit]:
    """The last constant of each set of arguments."""
    values = [*mark.args[1:2], *(k.value for k in mark.keywords if k.arg == "argvalues")]
    for value in values:
        if isinstance(value, ast.List | ast.Tuple):
            for element in value.elts:
                yield from another(element, last=True)


def another(value: ast.expr, *, last: bool = False) -> Iterator[Edit]:
    """Another value for one constant in an expression; none where it has none."""
    found = [part for part in ast.walk(value) if isinstance(part, ast.Constant)]
    whole = [part for part in found if part.lineno == part.end_lineno and unlike(part.value)]
    # Within what is formatted, a constant has no place of its own.
    if whole and not any(isinstance(part, ast.JoinedStr) for part in ast.walk(value)):
        place = max if last else min
        one = place(whole, key=lambda part: (part.lineno, part.col_offset))
        yield from replaced(one, unlike(one.value))


def replaced(node: ast.expr, text: str) -> Iterator[Edit]:
    if node.lineno == node.end_lineno:
        yield Edit(node.lineno - 1, node.col_offset, node.end_col_offset or 0, text)


def unlike(value: object) -> str:
    """A constant that is another one; empty: we know none."""
    if value is None or isinstance(value, bool):
        return repr(not value)
    if isinstance(value, int | float):
        return repr(value + 1)
    if isinstance(value, str | bytes):
        return written(value)
    return ""


def written(value: str | bytes) -> str:
    """A longer one, in double quotes as most are, where that can be."""
    if isinstance(value, bytes):
        return repr(value + b"x")
    text = repr(f"{value}x")
    plain = text.startswith("'") and '"' not in text and "\\'" not in text
    return f'"{text[1:-1]}"' if plain else text


def names_in(nodes: Sequence[ast.AST]) -> set[str]:
    """Variables and arguments that an expression speaks of."""
    parts = [part for node in nodes for part in ast.walk(node)]
    names = {part.id for part in parts if isinstance(part, ast.Name)}
    return names | {part.arg for part in parts if isinstance(part, ast.arg)}
