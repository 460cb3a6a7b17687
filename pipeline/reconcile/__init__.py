"""Hold a bill against a run: three ledgers side by side, and what parts them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from itertools import chain
from typing import Any, TypeAlias

from pipeline.bill import Bill, Entry
from pipeline.domain import Attempt, Usage
from pipeline.outcomes import UserError
from pipeline.reconcile.explain import of_agent, of_bill, of_tapes
from pipeline.reconcile.findings import Figures, Finding, Kind, Standing
from pipeline.reconcile.ledgers import NOBODY, Fate, Try, Window, beside, total, tries_of
from pipeline.reconcile.matching import Matching, match
from pipeline.results import load
from pipeline.rundir import RunDir

__all__ = ["Account", "Finding", "Kind", "Reconciliation", "Standing", "reconcile"]

Record: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """One attempt, or all of them, in the three ledgers."""

    attempt: Attempt | None
    """None: the total."""
    tries: int
    said: Figures
    answered: Figures
    discarded: Figures
    failed: int
    resent: int
    """Requests that had been sent before."""
    billed: Figures

    @classmethod
    def of(cls, attempt: Attempt | None, tries: Sequence[Try], billed: Figures) -> Account:
        requests = [request for item in tries for request in item.requests]
        said = [item.said for item in tries if item.said is not None]
        by_fate = {fate: [r for r in requests if r.fate is fate] for fate in Fate}
        return cls(
            attempt=attempt,
            tries=len(tries),
            said=Figures.of_usage(sum(said, Usage())) if said else Figures(),
            answered=Figures.of_usage(total(by_fate[Fate.ANSWERED])),
            discarded=Figures.of_usage(total(by_fate[Fate.DISCARDED])),
            failed=len(by_fate[Fate.FAILED]),
            resent=sum(request.again > 0 for request in requests),
            billed=billed,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """Everything that `passone reconcile` says."""

    run: str
    agent: str
    where: Sequence[str]
    window: Window
    bill: Bill
    found: Matching
    accounts: Sequence[Account]
    total: Account
    findings: Sequence[Finding]

    @property
    def settled(self) -> bool:
        return all(finding.settled for finding in self.findings)

    @property
    def by_ledger(self) -> list[Record]:
        """The totals, one record a ledger."""
        total, found, sums = self.total, self.found, self.bill.aggregated
        runs = chain.from_iterable(found.others.values())
        others = [*found.outside, *found.strangers, *found.free, *runs]
        rows = {
            "agent says": total.said,
            "gateway: answered": total.answered,
            "gateway: discarded": total.discarded,
            "gateway: failed": Figures(requests=total.failed),
            "bill: this run": total.billed,
            "bill: unmatched": Figures.of_entries(found.entries),
            "bill: others": Figures.of_entries(others, sums=sums),
            "bill − gateway": total.billed - total.answered - total.discarded,
        }
        return [{"ledger": name} | asdict(figures) for name, figures in rows.items()]


def reconcile(run: RunDir, bill: Bill, *, slack_seconds: float = 60.0) -> Reconciliation:
    """Hold a bill against a run.

    Raises:
        UserError: there is no such run, or no endpoint was asked in it.
    """
    results = load(run)
    agent = str(results.plan["agent"])
    tries = tries_of(run, results)
    requests = [request for item in tries for request in item.requests]
    where = sorted({item.where for item in tries if item.where})
    if not requests or not any("://" in place for place in where):
        raise UserError(
            f"{run.root}: no tape of this run holds a request to an endpoint (agent {agent!r}, "
            f"{', '.join(where) or 'no tape'}); there is nothing to hold a bill against"
        )
    window = Window.of(requests)
    slack, coarse = timedelta(seconds=slack_seconds), timedelta(seconds=bill.resolution_seconds)
    found = match(bill, tries, window, slack, lambda: beside(run, tries, window, slack + coarse))
    findings = [
        *of_bill(found, bill, requests, window=window, where=", ".join(where)),
        *of_tapes(tries),
        *of_agent(agent, tries),
    ]
    parts: dict[Attempt, tuple[list[Try], list[Entry]]]
    parts = {Attempt(row.instance_id, row.attempt): ([], []) for row in results.rows}
    for item in tries:
        parts.setdefault(item.attempt, ([], []))[0].append(item)
    for pair in found.pairs:
        parts[pair.request.attempt][1].append(pair.entry)
    parts.pop(NOBODY, None)
    return Reconciliation(
        run=results.name,
        agent=agent,
        where=where,
        window=window,
        bill=bill,
        found=found,
        accounts=[
            Account.of(attempt, part, Figures() if bill.aggregated else Figures.of_entries(lines))
            for attempt, (part, lines) in parts.items()
        ],
        total=Account.of(None, tries, Figures.of_entries(found.ours, sums=bill.aggregated)),
        findings=sorted(findings, key=lambda finding: list(Standing).index(finding.kind.standing)),
    )
