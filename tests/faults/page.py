"""Bring single rows of docs/faults.md up to date: what was measured again, and all that follows."""

from __future__ import annotations

import re

from tests.faults.matrix import MARKS, NONE, TITLES, Matrix, marked

BETWEEN_CELLS = re.compile(r"(?<!\\) \| ")


def updated(page: str, matrix: Matrix) -> str:
    """The page with these results in place of what it had on the same faults.

    Raises:
        ValueError: a fault is not on the page; measure all of them.
    """
    lines = page.split("\n")
    at = {cells[0]: number for number, line in enumerate(lines) if (cells := cells_of(line))}
    for result in matrix.results:
        row = marked(matrix.cells(result))
        name = cells_of(row)[0]
        if name not in at:
            raise ValueError(f"{name}: is not on the page yet; measure all faults")
        lines[at[name]] = row
    return "\n".join(counted(line, lines, matrix) for line in lines)


def cells_of(line: str) -> list[str]:
    """Of a row that stands for a fault; none of any other line."""
    if not line.startswith("| ") or line.startswith("| fault |"):
        return []
    return BETWEEN_CELLS.split(line.removeprefix("| ").removesuffix(" |"))


def counted(line: str, lines: list[str], matrix: Matrix) -> str:
    """A line of the summary, counted anew; any other as it is."""
    columns = [cells for other in lines if (cells := cells_of(other))]
    if line.startswith("Measured on "):
        versions = ", ".join(f"{name} {version}" for name, version in matrix.versions.items())
        return f"{line.partition(' with ')[0]} with {versions}."
    if line.startswith("- passone: right on "):
        right = sum(cells[2] == MARKS[True] for cells in columns)
        return f"- passone: right on {right} of {len(columns)}"
    for number, (name, title) in enumerate(TITLES.items(), start=3):
        if line.startswith(f"- {title}: "):
            met = [cells[number] for cells in columns if cells[number] != NONE]
            if not met and name in matrix.absent:
                return f"- {title}: {matrix.absent[name]}"
            right, half, wrong = (
                sum(cell.startswith(MARKS[is_right]) for cell in met)
                for is_right in (True, None, False)
            )
            return f"- {title}: right on {right} of {len(met)} ({half} half, {wrong} wrong)"
    return line
