"""Three ledgers side by side: the agent's, the gateway's, the bill's; and what parts them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, TypeAlias

from pipeline.bill import Bill
from pipeline.domain import Attempt, Usage
from pipeline.outcomes import UserError
from pipeline.reconcile.agents import of_agent, of_tapes
from pipeline.reconcile.comparing import compare_lines, compare_sums
from pipeline.reconcile.figures import Figures, many, of_entries, of_usage
from pipeline.reconcile.findings import Finding, Kind, Standing
from pipeline.reconcile.matching import Matcher
from pipeline.reconcile.requests import NOBODY, Fate, Request, Try, tries_of, usage_of
from pipeline.reconcile.spoken import SPEAKING
from pipeline.reconcile.window import Window, clock
from pipeline.results import load
from pipeline.rundir import RunDir

SLACK_SECONDS = 60.0
ORDER = (Standing.ALARM, Standing.UNEXPLAINED, Standing.EXPLAINED, Standing.NOTE)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """Everything that `passone reconcile` says."""

    run: str
    agent: str
    where: Sequence[str]
    window: Window
    bill: Bill
    accounts: Sequence[Account]
    total: Account
    lines_matched: int
    """Of the bill, that are this run's."""
    unmatched: Figures
    """Lines of the run's model, inside its window, that are no request of it."""
    elsewhere: Figures
    """Lines of other models or other times."""
    findings: Sequence[Finding]

    @property
    def settled(self) -> bool:
        return all(finding.settled for finding in self.findings)

    @property
    def summary(self) -> str:
        """What is on the bill against what is on the tapes, in a sentence."""
        total = self.total
        asked = (total.answered.requests or 0) + (total.discarded.requests or 0) + total.failed
        ours = total.billed.words or "nothing"
        others = len(self.bill.entries) - self.lines_matched
        listed = f"{many(len(self.bill.entries), 'line')} on the bill, {others:,} not of this run"
        return (
            f"{listed}; billed for it: {ours}; asked by it: {many(asked, 'request')}, "
            f"{total.answered.requests or 0:,} answered, {total.discarded.requests or 0:,} "
            f"discarded, {total.failed:,} failed"
        )

    @property
    def by_attempt(self) -> list[Record]:
        """One record an attempt, flat."""
        return [flat(account) for account in self.accounts]

    @property
    def by_ledger(self) -> list[Record]:
        """The totals, one record a ledger."""
        total = self.total
        rows = (
            ("agent says", total.said),
            ("gateway: answered", total.answered),
            ("gateway: discarded", total.discarded),
            ("gateway: failed", Figures(requests=total.failed)),
            ("bill: this run", total.billed),
            ("bill: unmatched", self.unmatched),
            ("bill: others", self.elsewhere),
            ("bill − gateway", total.billed - total.answered - total.discarded),
        )
        return [{"ledger": name} | asdict(figures) for name, figures in rows]

    @property
    def tree(self) -> Record:
        """The whole, for a machine."""
        return {
            "run": self.run,
            "agent": self.agent,
            "endpoint": list(self.where),
            "window": {
                "begun": self.window.begun.isoformat(),
                "ended": self.window.ended.isoformat(),
            },
            "bill": {
                "file": str(self.bill.path),
                "columns": self.bill.preset or "by a mapping",
                "lines": len(self.bill.entries),
                "left_out": self.bill.left_out,
                "aggregated": self.bill.aggregated,
                "first": clock(self.bill.entries[0].time) if self.bill.entries else None,
                "last": clock(self.bill.entries[-1].until) if self.bill.entries else None,
            },
            "settled": self.settled,
            "summary": self.summary,
            "findings": [
                {
                    "kind": finding.kind,
                    "standing": finding.standing,
                    "text": finding.text,
                    "figures": asdict(finding.figures) if finding.figures else None,
                    "lines": list(finding.lines),
                }
                for finding in self.findings
            ],
            "ledgers": self.by_ledger,
            "attempts": self.by_attempt,
        }


def flat(account: Account) -> Record:
    attempt = account.attempt
    record: Record = {
        "instance": attempt.instance_id if attempt else "total",
        "attempt": attempt.number if attempt else None,
        "tries": account.tries,
    }
    for name, figures in (("agent", account.said), ("gateway", account.answered)):
        record |= {f"{name}_{key}": value for key, value in asdict(figures).items()}
    record |= {"resent_requests": account.resent, "failed_requests": account.failed}
    for name, figures in (("discarded", account.discarded), ("bill", account.billed)):
        record |= {f"{name}_{key}": value for key, value in asdict(figures).items()}
    return record


def account_of(
    attempt: Attempt | None, tries: Sequence[Try], billed: Figures, *, speaks: bool
) -> Account:
    requests = [request for item in tries for request in item.requests]

    def fated(fate: Fate) -> list[Request]:
        return [request for request in requests if request.fate is fate]

    said = [item.said for item in tries if item.said is not None]
    return Account(
        attempt=attempt,
        tries=len(tries),
        said=of_usage(sum(said, Usage())) if speaks and said else Figures(),
        answered=of_usage(usage_of(fated(Fate.ANSWERED))),
        discarded=of_usage(usage_of(fated(Fate.DISCARDED))),
        failed=len(fated(Fate.FAILED)),
        resent=sum(request.again > 0 for request in requests),
        billed=billed,
    )


def reconcile(run: RunDir, bill: Bill, *, slack_seconds: float = SLACK_SECONDS) -> Reconciliation:
    """Hold a bill against a run.

    Raises:
        UserError: there is no such run, or nothing was asked in it.
    """
    results = load(run)
    agent = str(results.plan["agent"])
    tries = tries_of(run, results)
    requests = [request for item in tries for request in item.requests]
    if not requests:
        raise UserError(
            f"{run.root}: no tape of this run holds a request (its agent is {agent!r}); there is "
            "nothing to hold a bill against"
        )
    window = Window.of(requests)
    matcher = Matcher(bill=bill, tries=tries, slack=timedelta(seconds=slack_seconds))
    compared = (
        compare_sums(matcher, requests, window)
        if bill.aggregated
        else compare_lines(matcher, window)
    )
    findings = [*compared.findings, *of_tapes(tries), *of_agent(agent, tries)]
    if bill.left_out:
        text = f"{bill.left_out} lines of the bill without a time are left out: sums, or notes"
        findings.append(Finding(kind=Kind.LEFT_OUT, text=text))
    speaks = agent in SPEAKING
    by_attempt: dict[Attempt, list[Try]] = {
        Attempt(row.instance_id, row.attempt): [] for row in results.rows
    }
    for item in tries:
        if item.attempt != NOBODY:
            by_attempt.setdefault(item.attempt, []).append(item)
    lines = compared.by_attempt
    accounts = [
        account_of(
            attempt,
            group,
            Figures() if lines is None else of_entries(lines.get(attempt, [])),
            speaks=speaks,
        )
        for attempt, group in by_attempt.items()
    ]
    billed = of_entries(compared.ours, aggregated=bill.aggregated)
    return Reconciliation(
        run=results.name,
        agent=agent,
        where=sorted({item.where for item in tries if item.where}),
        window=window,
        bill=bill,
        accounts=accounts,
        total=account_of(None, tries, billed, speaks=speaks),
        lines_matched=len(compared.ours),
        unmatched=of_entries(compared.unmatched, aggregated=bill.aggregated),
        elsewhere=of_entries(compared.others, aggregated=bill.aggregated),
        findings=sorted(findings, key=lambda finding: ORDER.index(finding.standing)),
    )
