"""State what a run has come to in every way that a paper may ask for, each with its interval."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import pandas as pd

from pipeline.planner.facts import verified_sizes
from pipeline.results.frame import Sheet
from pipeline.stats import (
    Z95,
    Rate,
    expected_majority,
    interval,
    mean_pass_at_k,
    mean_pass_hat_k,
)
from pipeline.stats.exact import beta_binomial, clopper_pearson
from pipeline.stats.variance import Variance, bootstrap, clustered, reweighted, variance
from pipeline.tables.columns import COLUMNS, By
from pipeline.tables.groupings import counted, typed, votes_of
from pipeline.votes import Ballot, Vote

Record: TypeAlias = dict[str, Any]
Groups: TypeAlias = Sequence[Sequence[float]]
ALL, VALID = "all", "valid"
MOST = 10
"""Attempts up to which every number of them has its rows; above, only all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A run as the statistics want it, one entry an instance, all in the same order."""

    groups: Groups
    """All attempts, or the first ones where others may be left out: what is not resolved failed."""
    counted: Groups
    """The same without infra, ambiguous and pending."""
    repos: Sequence[str]
    votes: Sequence[Vote]
    """Of all attempts."""
    k: int
    """Attempts in a group, at most."""
    most: int
    """Attempts that a vote is over."""
    digest: str
    """Of the plan; the bootstrap draws by it, so the same run gives the same numbers."""

    @property
    def means(self) -> list[float]:
        return [sum(group) / len(group) for group in self.groups]


def by_estimate(sheet: Sheet) -> pd.DataFrame:
    """One row for each way to state what the run has come to; none where nobody tried."""
    found, rows = sample(sheet), []
    if found.groups:
        kinds = (headline, few, spread, by_repository, votes, chances)
        rows = [row for kind in kinds for row in kind(found)]
    columns = COLUMNS[By.ESTIMATE]
    return typed(pd.DataFrame(rows, columns=[column.name for column in columns]), columns)


def sample(sheet: Sheet) -> Sample:
    sums = (
        counted(sheet)
        .groupby("instance", observed=True, sort=False)
        .agg(
            repo=("repo", "first"),
            k=("attempt", "size"),
            resolved=("resolved", "sum"),
            unknown=("unknown", "sum"),
            first=("first", "sum"),
            good=("resolved_first", "sum"),
            counts=("counts_first", "sum"),
        )
    )
    sizes, good, counts = (sums[name].tolist() for name in ("first", "good", "counts"))
    votes = votes_of(sheet, sums["k"], sums["resolved"], sums["unknown"])
    return Sample(
        groups=list(map(outcomes, sizes, good)),
        counted=list(map(outcomes, counts, good)),
        repos=[str(repo) for repo in sums["repo"]],
        votes=votes,
        k=max(sizes, default=0),
        most=max((vote.k for vote in votes), default=0),
        digest=str(sheet.plan["digest"]),
    )


def outcomes(attempts: int, resolved: int) -> list[float]:
    return [1.0] * resolved + [0.0] * (attempts - resolved)


def row(
    estimate: str,
    over: str,
    method: str,
    value: float | None,
    bounds: tuple[float, float] | None = None,
    *,
    instances: int,
    error: float | None = None,
    note: str = "",
) -> Record:
    low, high = bounds or (None, None)
    return {
        "estimate": estimate,
        "over": over,
        "method": method,
        "value": value,
        "low": low,
        "high": high,
        "error": error,
        "instances": instances,
        "note": note,
    }


def headline(found: Sample) -> Iterator[Record]:
    """As the headline has it."""
    method = "Wilson" if found.k == 1 else "Wilson, effective size"
    for over, groups in ((ALL, found.groups), (VALID, found.counted)):
        if rate := interval(groups):
            sized = sum(bool(group) for group in groups)
            yield row("pass@1", over, method, rate[0], rate[1:], instances=sized)


def few(found: Sample) -> Iterator[Record]:
    """What holds where instances are few."""
    say = partial(row, "pass@1", ALL, instances=len(found.groups))
    if found.k == 1:
        resolved = round(sum(found.means))
        bounds = clopper_pearson(resolved, len(found.groups))
        yield say("Clopper–Pearson", resolved / len(found.groups), bounds)
    if posterior := beta_binomial(found.groups):
        yield say("Beta–Binomial, posterior mean", posterior[0], posterior[1:])


def spread(found: Sample) -> Iterator[Record]:
    """Where the error comes from: the choice of instances, and chance at each of them."""
    parts = variance(found.groups)
    if parts is None:
        return
    say = partial(row, "pass@1", ALL, value=parts.rate, instances=parts.instances)
    if parts.error is not None:
        yield say(
            method="normal, SE over instances",
            bounds=normal(parts, parts.error),
            error=parts.error,
            note=parts_in_words(parts),
        )
    if (within := parts.error_within) is not None:
        yield say(
            method="normal, the same instances again",
            bounds=normal(parts, within),
            error=within,
            note="what another run over these instances may differ by",
        )


def normal(parts: Variance, error: float) -> tuple[float, float]:
    return max(0.0, parts.rate - Z95 * error), min(1.0, parts.rate + Z95 * error)


def parts_in_words(parts: Variance) -> str:
    said = [
        f"variance {name} instances {value:.5f}"
        for name, value in (("between", parts.between), ("within", parts.within))
        if value is not None
    ]
    return ", ".join(said)


def by_repository(found: Sample) -> Iterator[Record]:
    """What holds where the instances of one repository resemble each other."""
    means, repos, n = found.means, found.repos, len(found.groups)
    say = partial(row, "pass@1", ALL, instances=n)
    if cluster := clustered(means, repos):
        shaky = "; fewer than 30, so the error is itself uncertain" if cluster.is_shaky else ""
        yield say(
            f"clustered by repository, t({cluster.clusters - 1})",
            cluster.rate,
            (cluster.low, cluster.high),
            error=cluster.error,
            note=f"{cluster.clusters} repositories{shaky}",
        )
    if drawn := bootstrap(means, repos, rng=random.Random(found.digest)):
        yield say("bootstrap over repositories", sum(means) / n, drawn)
    sizes = verified_sizes()
    if set(repos) <= sizes.keys():
        value, worth = reweighted(means, repos, sizes)
        yield say(
            "re-weighted to Verified's repositories",
            value,
            note=f"worth {worth:.1f} instances (Kish); never a headline: over 14 models it errs "
            "1.85 times as much at 30 instances as the plain mean",
        )


def votes(found: Sample) -> Iterator[Record]:
    """The majority as it fell, and as it falls on average where fewer attempts vote."""
    if found.most == 1:
        return
    ballots = [vote.ballot for vote in found.votes]
    resolved, rejected = ballots.count(Ballot.RESOLVED), ballots.count(Ballot.REJECTED)
    if decided := resolved + rejected:
        left = len(ballots) - decided
        yield row(
            f"majority of {found.most}",
            "decided",
            "Clopper–Pearson",
            resolved / decided,
            clopper_pearson(resolved, decided),
            instances=decided,
            note=f"{left} undetermined" if left else "",
        )
    fewer = found.k if found.k == found.most else found.k + 1
    for k in range(3, min(fewer, MOST + 1), 2):
        rate = expected_majority(found.counted, k)
        yield from of_rate(f"majority of {k}", "all sets of attempts, Wilson", rate)


def chances(found: Sample) -> Iterator[Record]:
    """At least one of k attempts resolves, and all of them do."""
    for sign, mean in (("@", mean_pass_at_k), ("^", mean_pass_hat_k)):
        for k in sorted({*range(2, min(found.k, MOST) + 1), found.k} - {1}):
            yield from of_rate(f"pass{sign}{k}", "unbiased, Wilson", mean(found.counted, k))


def of_rate(estimate: str, method: str, rate: Rate | None) -> Iterator[Record]:
    if rate is not None:
        yield row(
            estimate,
            VALID,
            method,
            rate.value,
            rate.bounds,
            instances=rate.instances,
            error=rate.error,
        )
