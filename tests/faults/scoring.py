"""Most faults of scoring are one row, one patch and a strike: make cases of these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.faults import harness
from tests.faults.case import Case, Peer, Right, Seen
from tests.faults.material import Row, before_tests, gold, row
from tests.faults.programs import Strike
from tests.faults.scene import score


def slow() -> Row:
    """Tests that last long enough to be struck."""
    return before_tests(row(), "sleep 2")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """One group's cases, scored by us and by the official harness."""

    group: str

    def case(
        self,
        name: str,
        right: Right,
        *settings: str,
        of: Callable[[], Row] = row,
        patch: str | None = None,
        empty: bool = False,
        strike: Callable[[], Strike] | None = None,
        peer: bool = True,
        broken: bool = False,
        timeout: int = 60,
        alone: bool = False,
        seconds: float = 180,
        beside: Sequence[str] = (),
        needs: str = "docker",
        invocations: int = 1,
    ) -> Case:
        """One fault.

        Args:
            settings: of our sandbox, as `key=value`.
            of: makes the row, and the image that it names.
            patch: instead of gold.
            empty: the prediction is null.
            strike: makes what strikes the containers, afresh for each program.
            peer: whether the harness meets this fault too.
            broken: see `harness.judge`.
            invocations: of our command, of which the first one is struck.
            timeout: the harness's, for the tests.
            beside: ids of further instances of our run, scored with gold.
        """
        text = None if empty else gold() if patch is None else patch

        def ours(place: Path) -> Seen:
            return score(
                place,
                of(),
                text,
                *settings,
                strike=strike() if strike else None,
                seconds=seconds,
                invocations=invocations,
                beside=[(row(other), gold(other)) for other in beside],
            )

        def swebench(place: Path) -> Peer:
            return harness.grade(
                place,
                of(),
                text,
                right,
                broken=broken,
                strike=strike() if strike else None,
                timeout=timeout,
                seconds=seconds,
            )

        return Case(
            name=name,
            group=self.group,
            right=right,
            ours=ours,
            peers={"swebench": swebench} if peer else {},
            needs=needs,
            alone=alone,
        )
