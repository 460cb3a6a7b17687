"""Say how far a run is while somebody drives it: read from its directory, never in the way."""

from __future__ import annotations

import contextlib
import json
import statistics
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.domain import Attempt, Cause, Fault, Rollout, Usage, Verdict
from pipeline.ledger import Kind, Ledger
from pipeline.outcomes import Blame, Outcome, Settled, Settlement
from pipeline.plan import least_of, stops_early
from pipeline.results import read_plan
from pipeline.results.reading import due_of
from pipeline.rundir import RunDir
from pipeline.stats import interval
from pipeline.wording import between

FEWEST = 3
"""Attempts that are over before anybody guesses how long the rest will take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A run at one moment."""

    name: str
    seq: int
    """Of the last row that was read; 0: there is none."""
    about: str
    """Agent, model, and how many instances times how many attempts."""
    driver: str
    """The process id of who drives it; empty: nobody does."""
    total: int
    over: int
    outcomes: Mapping[str, int]
    causes: Mapping[str, int]
    valid: tuple[float, float, float] | None
    """pass@1 over valid attempts with its 95 % interval, as in the headline; None: none yet."""
    low: float
    """Share of the attempts that enter pass@1 that are resolved by now; and that may yet be."""
    high: float
    usage: Usage
    faults: int
    """Tries that ended in a fault of ours."""
    endpoint_faults: int
    in_flight: Sequence[tuple[str, float]]
    """Tries that are being made, and for how many seconds; the longest first."""
    scoring: int
    """Attempts that are handed in, and not settled yet."""
    endpoint: str
    """What the driver has said last of it; empty: nothing is amiss."""
    endpoint_down: bool
    left_seconds: tuple[float, float] | None
    """How long the rest takes, from its quartiles; None: nobody can say."""


@dataclass(slots=True)
class Progress:
    """Follows one run: each look reads only what came since the last."""

    run: RunDir
    plan: Mapping[str, Any] = field(init=False)
    _seq: int = 0
    _settled: dict[Attempt, Settlement] = field(default_factory=dict)
    _usage: Usage = field(default_factory=Usage)
    _seconds: dict[Attempt, float] = field(default_factory=dict)
    """Of an attempt's stages so far."""
    _causes: Counter[Cause] = field(default_factory=Counter)
    _handed_in: set[Attempt] = field(default_factory=set)
    _tried: set[Attempt] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.plan = read_plan(self.run)

    def look(self) -> Seen:
        """The run as it stands.

        Raises:
            UserError: it is gone, or its ledger cannot be read.
        """
        # Asked for first: a run that ends meanwhile is looked at once more.
        driver = self.run.driver
        self._read()
        total, least = self._due(), least_of(self.plan)
        entering = least * len(self.plan["selection"]["ids"])
        firsts = {a: settled for a, settled in self._settled.items() if a.number <= least}
        groups: dict[str, list[float]] = {}
        possible = 0
        for attempt, settled in firsts.items():
            passed = settled.outcome is Outcome.RESOLVED
            if settled.blame in (Blame.NOBODY, Blame.MODEL):
                groups.setdefault(attempt.instance_id, []).append(float(passed))
            else:
                possible += 1
        outcomes = Counter(settled.outcome.value for settled in self._settled.values())
        resolved = sum(settled.outcome is Outcome.RESOLVED for settled in firsts.values())
        said = self._endpoint() if driver else {}
        return Seen(
            name=str(self.plan["name"]),
            seq=self._seq,
            about=about(self.plan),
            driver=driver,
            total=total,
            over=len(self._settled),
            outcomes=dict(sorted(outcomes.items(), key=lambda item: order(item[0]))),
            causes=dict(Counter(s.cause.value for s in self._settled.values() if s.cause)),
            valid=interval(list(groups.values())),
            low=resolved / entering if entering else 0.0,
            high=(resolved + possible + entering - len(firsts)) / entering if entering else 0.0,
            usage=self._usage,
            faults=self._causes.total(),
            endpoint_faults=self._causes[Cause.ENDPOINT],
            in_flight=in_flight(self.run.scratch) if driver else (),
            scoring=len(self._handed_in - self._settled.keys()) if driver else 0,
            endpoint=str(said.get("said", "")),
            endpoint_down=bool(said.get("down")),
            left_seconds=self._left(total) if driver else None,
        )

    def _due(self) -> int:
        """Attempts that are due by now, all instances together."""
        if not stops_early(self.plan):
            return len(self.plan["selection"]["ids"]) * int(self.plan["attempts"])
        votes: dict[str, list[Settled | None]] = {id_: [] for id_ in self.plan["selection"]["ids"]}
        for attempt in sorted(self._tried):
            settled = self._settled.get(attempt)
            over = settled is not None and not settled.moved
            group = votes[attempt.instance_id]
            group += [None] * (attempt.number - 1 - len(group))
            group.append((settled.outcome, settled.blame) if settled and over else None)
        return sum(due_of(self.plan, group) for group in votes.values())

    def _read(self) -> None:
        if not self.run.ledger.exists():
            # Planned, and not begun; or taken away.
            read_plan(self.run)
            return
        with Ledger(self.run.ledger, read_only=True) as ledger:
            for row in ledger.rows(after=self._seq):
                self._seq = row.seq
                value = row.value
                if isinstance(value, Settlement):
                    self._settled[row.attempt] = value
                if isinstance(value, Rollout | Fault):
                    self._usage += value.usage
                if row.kind is Kind.ROLLOUT:
                    self._tried.add(row.attempt)
                if isinstance(value, Rollout):
                    self._handed_in.add(row.attempt)
                if isinstance(value, Fault):
                    self._causes[value.cause] += 1
                if isinstance(value, Rollout | Fault | Verdict) and row.attempt.number:
                    spent = self._seconds.get(row.attempt, 0.0)
                    self._seconds[row.attempt] = spent + value.seconds

    def _endpoint(self) -> dict[str, Any]:
        with contextlib.suppress(OSError, ValueError):
            tree = json.loads(self.run.endpoint.read_text(encoding="utf-8"))
            return tree if isinstance(tree, dict) else {}
        return {}

    def _left(self, total: int) -> tuple[float, float] | None:
        took = [self._seconds.get(attempt, 0.0) for attempt in self._settled]
        if len(took) < FEWEST or len(took) == total:
            return None
        quarter, _, most = statistics.quantiles(took, n=4)
        rest = total - len(took)
        at_once = min(int(self.plan["execution"]["agent_workers"]), rest) or 1
        return quarter * rest / at_once, most * rest / at_once


def about(plan: Mapping[str, Any]) -> str:
    model = "" if plan["model"] == "none" else f", {plan['model']}"
    size = f"{len(plan['selection']['ids'])} × {between(least_of(plan), plan['attempts'])}"
    return f"{size}, agent {plan['agent']}{model}"


def order(outcome: str) -> int:
    return list(Outcome).index(Outcome(outcome))


def in_flight(scratch: Path) -> list[tuple[str, float]]:
    """The tries that have a folder of work in progress, by how long they have had it."""
    now, found = time.time(), []
    for place in scratch.glob("try-*"):
        with contextlib.suppress(OSError):
            # It is made when a try begins, and its own time changes with what is put in.
            began = min(place.stat().st_ctime, born(place))
            name = place.name.removeprefix("try-").rpartition("-")[0]
            found.append((name, max(now - began, 0.0)))
    return sorted(found, key=lambda item: -item[1])


def born(place: Path) -> float:
    """The oldest time of anything in a folder."""
    times = [path.stat().st_ctime for path in place.iterdir()]
    return min(times, default=place.stat().st_ctime)
