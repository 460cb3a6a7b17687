"""Say which column of a bill holds what, and in which units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BeforeValidator, Field

from pipeline.bill.files import pick
from pipeline.config import check
from pipeline.outcomes import UserError
from pipeline.recipe import Strict

HOW = (
    "write down what they mean in a YAML file, such as `{time: created, model: model, "
    "input: tokens_in, output: tokens_out, cost: usd}`, and name it: --columns FILE.yaml"
)


def as_names(value: object) -> object:
    names = value if isinstance(value, list | tuple) else (value,)
    return tuple(str(name) if isinstance(name, int) else name for name in names)


Names = Annotated[tuple[str, ...], BeforeValidator(as_names)]
"""One column, or several of which the first that is there counts; `a + b` adds two up."""


class Columns(Strict):
    """Where a bill's figures stand."""

    time: Names
    until: Names = ()
    """End of a line that counts several requests."""
    model: Names = ()
    requests: Names = ()
    input: Names = ()
    cached: Names = ()
    output: Names = ()
    cost: Names = ()
    request_id: Names = ()
    timezone: str = "UTC"
    """Of times that name none."""
    time_format: str = ""
    """As strptime has it, for times that could be read in two ways."""
    usd_per_unit: Annotated[float, Field(gt=0)] = 1.0
    """Of the cost: 0.000002 where 500,000 are a dollar."""
    tokens_per_unit: Annotated[float, Field(gt=0)] = 1.0
    """1000000 where tokens are billed by the million."""
    input_excludes_cached: bool = False
    """The input column leaves cached tokens out."""
    aggregated: bool = False
    """Lines are sums of several requests, though no column says of how many."""
    rows: str = ""
    """Where a JSON export has its rows, such as `data.items`; empty: found."""
    only: dict[str, Names] = Field(default_factory=dict)
    """Lines that count: a column and the values that it must have."""

    def named(self) -> dict[str, tuple[str, ...]]:
        """The columns that each figure may stand in."""
        figures = ("time", "until", "model", "requests", "input", "cached", "output", "cost")
        return {name: getattr(self, name) for name in (*figures, "request_id")}


def parts_of(name: str) -> list[str]:
    return [part.strip() for part in name.split(" + ")]


def cells(row: Mapping[str, Any], names: Sequence[str]) -> list[Any]:
    """What is to be added up: one cell, or several of `a + b`; empty where no column is there."""
    for name in names:
        found = [pick(row, part) for part in parts_of(name)]
        if None not in found and any(value != "" for value in found):
            return found
    return []


def is_there(rows: Sequence[Mapping[str, Any]], names: Sequence[str], header: set[str]) -> bool:
    """Whether one of these columns exists, as a whole or as a path."""
    for name in names:
        parts = parts_of(name)
        if all(
            part in header
            or any(pick(row, part) is not None for row in rows if part.split(".")[0] in row)
            for part in parts
        ):
            return True
    return False


def read_columns(path: Path) -> Columns:
    """A mapping that its user wrote.

    Raises:
        UserError: it cannot be read, or says something unknown.
    """
    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read: {error}") from None
    except yaml.YAMLError as error:
        raise UserError(f"{path}: not YAML: {error}") from None
    if not isinstance(tree, dict):
        raise UserError(f"{path}: expected columns by what they hold, such as `time: created_at`")
    return check(Columns, tree, str(path))
