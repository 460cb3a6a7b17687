"""Where a command reads a run: in its directory, or in a bundle, for as long as it takes."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

if TYPE_CHECKING:
    from pipeline.rundir import RunDir

SUFFIX = ".passone"
BORROWED = ExitStack()
"""What goes when the command ends; `pipeline.cli.main` closes it."""
RunArgument: TypeAlias = Annotated[
    Path, typer.Argument(metavar="RUN", help="A run directory, such as logs/demo, or a bundle.")
]


def is_bundled(path: Path) -> bool:
    """Whether a path names a bundle, by its name or by what it holds."""
    if not path.is_file():
        return False
    from pipeline.bundle import is_bundle

    return path.suffix == SUFFIX or is_bundle(path)


def run_at(path: Path) -> RunDir:
    """A run to be read. That of a bundle is a copy, which goes when the command ends.

    Raises:
        UserError: it is a damaged bundle, or calls itself one.
    """
    from pipeline.rundir import RunDir

    if not is_bundled(path):
        return RunDir(path)
    from pipeline.bundle import opened

    return BORROWED.enter_context(opened(path))
