"""Turn a run's ledger into rows, votes and a summary; what tables and notebooks import."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipeline.domain import Attempt, Fault, Finding, Patch, Rollout, Tally, Usage, Verdict
from pipeline.ledger import Book, Ledger
from pipeline.outcomes import Ballot, Blame, Outcome, Settlement, UserError, Vote
from pipeline.rundir import RunDir
from pipeline.stats import interval


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRow:
    """One attempt, as every table shows it."""

    instance_id: str
    repo: str
    attempt: int
    outcome: str
    """An `Outcome`, or `pending`."""
    blame: str
    cause: str
    """Of an infra outcome; empty otherwise."""
    official: bool | None
    """What the official finding alone would say; None: nothing was graded."""
    moved: bool
    patch: bool | None
    """Whether it submitted one; None: it never came to that."""
    unknown_exit: bool
    """Imported, and nobody recorded why the agent stopped."""
    stop: str
    tries: int
    steps: int
    usage: Usage
    """Of every try with a row: faults are billed all the same."""
    seconds: float
    """Of the agent's tries and of the scoring."""
    fail_to_pass: str
    pass_to_pass: str
    detail: str
    """What broke, in the words of the part that broke."""
    drift: str = ""
    """Where a replay first differed from what was recorded."""

    @property
    def settled(self) -> tuple[Outcome, Blame] | None:
        return None if self.outcome == "pending" else (Outcome(self.outcome), Blame(self.blame))

    @property
    def resolved(self) -> bool:
        return self.outcome == Outcome.RESOLVED

    @property
    def counted(self) -> bool:
        """Whether it counts for or against the model."""
        return self.blame in (Blame.NOBODY, Blame.MODEL)

    @property
    def possible(self) -> bool:
        """Whether it may yet, or may have, resolved its instance."""
        empty_for_unknown_reason = self.unknown_exit and self.outcome == Outcome.NO_SUBMISSION
        return self.resolved or not self.counted or empty_for_unknown_reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """Everything that a run's tables say."""

    plan: Mapping[str, Any]
    """plan.json as it stands in the run."""
    rows: Sequence[AttemptRow]
    book: Book
    cut_off: Usage = field(default_factory=Usage)
    """Of what came to no row: tries that were stopped half-way, a look before the run."""

    @property
    def name(self) -> str:
        return str(self.plan["name"])

    @property
    def recorded(self) -> bool:
        """Whether anybody counted what the agent used: predictions come without."""
        return bool(self.plan["agent"] != "predictions")

    @property
    def ids(self) -> Sequence[str]:
        return list(dict.fromkeys(row.instance_id for row in self.rows))

    @property
    def k(self) -> int:
        return max((row.attempt for row in self.rows), default=0)

    def at(self, instance_id: str) -> list[AttemptRow]:
        return [row for row in self.rows if row.instance_id == instance_id]

    @property
    def votes(self) -> list[Vote]:
        return [Vote.of(id_, [row.settled for row in self.at(id_)]) for id_ in self.ids]

    @property
    def usage(self) -> Usage:
        return sum((row.usage for row in self.rows), Usage())

    @property
    def unknown_exits(self) -> int:
        """Imported submissions of which nobody recorded how their agent left."""
        return sum(row.unknown_exit for row in self.rows)

    def pass_at_1(self) -> dict[str, Any]:
        """The four readings, and 95 % intervals of two of them. Source: DESIGN, section 3."""
        groups = [self.at(id_) for id_ in self.ids]
        official = interval([[float(row.official or False) for row in group] for group in groups])
        everyone = interval([[float(row.resolved) for row in group] for group in groups])
        valid = interval(
            [[float(row.resolved) for row in group if row.counted] for group in groups]
        )
        high = interval([[float(row.possible) for row in group] for group in groups])
        return {
            "official": official[0] if official else None,
            "all": everyone[0] if everyone else None,
            "all_ci95": list(everyone[1:]) if everyone else None,
            "valid": valid[0] if valid else None,
            "valid_ci95": list(valid[1:]) if valid else None,
            "high": high[0] if high else None,
        }

    def majority(self) -> dict[str, Any]:
        counts = Counter(vote.ballot for vote in self.votes)
        resolved, rejected = counts[Ballot.RESOLVED], counts[Ballot.REJECTED]
        undetermined, n = counts[Ballot.UNDETERMINED], len(self.votes)
        decided = resolved + rejected
        return {
            "k": self.k,
            "resolved": resolved,
            "rejected": rejected,
            "undetermined": undetermined,
            "rate": resolved / decided if decided else None,
            "low": resolved / n if n else None,
            "high": (resolved + undetermined) / n if n else None,
        }

    def controls(self) -> dict[str, Any]:
        golds = [self.book.golds(id_)[-1][1] for id_ in self.ids if self.book.golds(id_)]
        empty = [row for row in self.rows if self.plan["agent"] == "empty" and row.counted]
        return {
            "gold": {"passed": sum(golds), "of": len(golds)},
            "empty": {"passed": sum(row.resolved for row in empty), "of": len(empty)},
            "moved": sum(row.moved for row in self.rows),
        }

    def summary(self) -> dict[str, Any]:
        """The run in numbers: counts are integers, rates floats or null."""
        outcomes = Counter(row.outcome for row in self.rows)
        blames = Counter(row.blame for row in self.rows)
        usage = self.usage
        return {
            "run": self.name,
            "plan_digest": self.plan["digest"],
            "grader": self.plan["grader"],
            "instances": len(self.ids),
            "k": self.k,
            "attempts": len(self.rows),
            "tries": sum(row.tries for row in self.rows),
            "outcomes": {outcome.value: outcomes[outcome] for outcome in Outcome},
            "pending": outcomes["pending"],
            "blame": {blame.value: blames[blame] for blame in Blame},
            "causes": dict(sorted(Counter(row.cause for row in self.rows if row.cause).items())),
            "pass_at_1": self.pass_at_1(),
            "majority": self.majority(),
            "usage": {
                "requests": usage.requests,
                "input_tokens": usage.input_tokens,
                "cached_tokens": usage.cached_tokens,
                "output_tokens": usage.output_tokens,
                "cost_usd": usage.cost_usd if self.recorded else None,
            },
            "controls": self.controls(),
        }


def tally_of(tally: Tally) -> str:
    """`3/5`; empty where no test was counted."""
    return f"{tally.passed}/{tally.total}" if tally.total else ""


def usage_of(book: Book, attempt: Attempt) -> Usage:
    values = (row.value for row in book.entry(attempt).rollouts)
    return sum((v.usage for v in values if isinstance(v, Rollout | Fault)), Usage())


def row_of(book: Book, attempt: Attempt, repo: str, *, has_control: bool) -> AttemptRow:
    """One attempt as its rows in the ledger stand."""
    entry = book.entry(attempt)
    settled: Settlement | None = entry.settlement or book.conclude(attempt, has_control=has_control)
    rollout, verdict = entry.rollout, entry.verdict
    graded = verdict if isinstance(verdict, Verdict) else None
    done = rollout if isinstance(rollout, Rollout) else None
    faults = [stage for stage in (rollout, verdict) if isinstance(stage, Fault)]
    staged = [row.value for row in (*entry.rollouts, *entry.verdicts)]
    return AttemptRow(
        instance_id=attempt.instance_id,
        repo=repo,
        attempt=attempt.number,
        outcome=settled.outcome if settled else "pending",
        blame=settled.blame if settled else "",
        cause=(settled.cause or "") if settled else "",
        official=graded.finding is Finding.RESOLVED if graded else None,
        moved=settled.moved if settled else False,
        patch=done.submission not in (None, Patch("")) if done else None,
        unknown_exit=done is not None and done.stop is None,
        stop=(done.stop or "") if done else "",
        tries=len(entry.rollouts),
        steps=done.steps if done else max((v.usage.requests for v in faults), default=0),
        usage=usage_of(book, attempt),
        seconds=sum(v.seconds for v in staged if isinstance(v, Rollout | Fault | Verdict)),
        fail_to_pass=tally_of(graded.fail_to_pass) if graded else "",
        pass_to_pass=tally_of(graded.pass_to_pass) if graded else "",
        detail=faults[0].detail if faults else "",
        drift=next((v.drift for v in staged if isinstance(v, Rollout | Fault) and v.drift), ""),
    )


def read_plan(run: RunDir) -> dict[str, Any]:
    """plan.json of a run.

    Raises:
        UserError: there is no such run, or its plan cannot be read.
    """
    try:
        plan = json.loads(run.plan.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{run.root}: no run is there (no plan.json)") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{run.plan}: cannot be read: {error}") from None
    if not isinstance(plan, dict) or "selection" not in plan:
        raise UserError(f"{run.plan}: is no plan of this version")
    return plan


def load(run: RunDir, *, cut_off: Usage | None = None) -> Results:
    """Read a run, finished or not, while another process may be driving it.

    Args:
        cut_off: what was used and came to no row, for the headline; None: not looked at.

    Raises:
        UserError: there is no such run, or it cannot be read.
    """
    plan = read_plan(run)
    if not run.ledger.exists():
        raise UserError(f"{run.root}: the run has no ledger; start it with `passone run`")
    with Ledger(run.ledger, read_only=True) as ledger:
        book = ledger.book()
    return of_book(plan, book, cut_off=cut_off)


def of_book(plan: Mapping[str, Any], book: Book, *, cut_off: Usage | None = None) -> Results:
    """Results of rows that are in memory."""
    repos = plan["repos"]
    rows = [
        row_of(book, Attempt(id_, number), repos[id_], has_control=plan["has_control"])
        for id_ in plan["selection"]["ids"]
        for number in range(1, plan["attempts"] + 1)
    ]
    return Results(plan=plan, rows=rows, book=book, cut_off=cut_off or Usage())
