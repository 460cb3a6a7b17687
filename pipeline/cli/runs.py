"""Where a command reads a run: in its directory, or in a bundle, for as long as it takes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

if TYPE_CHECKING:
    from pipeline.rundir import RunDir

SUFFIX = ".passone"
RunArgument: TypeAlias = Annotated[
    Path, typer.Argument(metavar="RUN", help="A run directory, such as logs/demo, or a bundle.")
]


def run_at(path: Path) -> RunDir:
    """A run to be read. That of a bundle is a copy, which goes when the command ends.

    Raises:
        UserError: it is a damaged bundle, or calls itself one.
    """
    from pipeline.rundir import RunDir

    if not path.is_file():
        return RunDir(path)
    import click

    from pipeline.bundle import is_bundle, opened

    if path.suffix != SUFFIX and not is_bundle(path):
        return RunDir(path)
    return click.get_current_context().with_resource(opened(path))
