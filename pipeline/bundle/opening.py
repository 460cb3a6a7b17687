"""Open a bundle as the run that it holds, for as long as somebody reads it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pipeline.bundle.manifest import LEDGER, NEEDED
from pipeline.bundle.unpacking import Unpacked, unpack
from pipeline.ledger import Ledger
from pipeline.outcomes import UserError
from pipeline.rundir import RunDir


@contextmanager
def opened(path: Path) -> Iterator[RunDir]:
    """The run in a bundle, in a temporary directory that goes afterwards.

    Raises:
        UserError: it is no bundle, is damaged, or there is no room.
    """
    with looked_into(path) as (unpacked, run):
        if unpacked.faults:
            raise UserError(
                f"{path}: is damaged: {unpacked.faults[0]}; `passone verify {path}` says more"
            )
        yield run


@contextmanager
def looked_into(path: Path) -> Iterator[tuple[Unpacked, RunDir]]:
    """The same of a bundle that may be damaged; then its run is not to be read.

    Raises:
        UserError: it is no bundle, lacks what a run needs, or there is no room.
    """
    with tempfile.TemporaryDirectory(prefix="passone-") as name:
        run = RunDir(Path(name) / (path.name.partition(".")[0] or "run"))
        run.root.mkdir()
        unpacked = unpack(path, run.root)
        if not unpacked.faults:
            names = (
                {member.name for member in unpacked.manifest.members} if unpacked.manifest else ()
            )
            for needed in NEEDED:
                if needed not in names:
                    raise UserError(f"{path}: has no {needed}, so no run can be made of it")
            restore_ledger(run, path)
        yield unpacked, run


def restore_ledger(run: RunDir, path: Path) -> None:
    """Raises UserError: what stands there are no rows of a ledger."""
    with Ledger(run.ledger) as ledger:
        for name in LEDGER:
            place = run.root / name
            try:
                ledger.restore(place.stem, records_in(place))
            except ValueError as error:
                raise UserError(f"{path}: {name}: {error}") from None


def records_in(place: Path) -> Iterator[dict[str, Any]]:
    """Raises ValueError: a line is no object."""
    with place.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            record = json.loads(line)
            if not isinstance(record, dict):
                raise ValueError(f"line {number} is no object")  # noqa: TRY004 - of its form
            yield record
