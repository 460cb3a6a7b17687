"""Group the attempts of a run: a frame a table, with the columns of `pipeline.tables.columns`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import numpy as np
import pandas as pd

from pipeline.domain import Cause
from pipeline.outcomes import Blame, Outcome
from pipeline.plan import least_of, stops_early
from pipeline.results.frame import Sheet
from pipeline.results.grid import WORDS
from pipeline.stats import interval
from pipeline.tables.columns import COLUMNS, By, Column, Type
from pipeline.votes import Vote

Record: TypeAlias = dict[str, Any]
YES_NO = {1: "yes", 0: "no"}
OF_ATTEMPT = {"failed_requests": "failed"}
"""Columns whose name in the sheet is another one."""
COUNTED = ("steps", "requests", "input_tokens", "cached_tokens", "output_tokens")
COUNTED_TOO = ("cost_usd", "as_planned", "failed_requests")
"""What nobody counts where predictions are imported: empty then, never zero."""
COSTS = ("cost_usd", "cost_per_resolved_usd")
TOTAL = "total"


def by_attempt(sheet: Sheet) -> pd.DataFrame:
    """One row an attempt."""
    names = names_of(By.ATTEMPT)
    frame = sheet.frame[[OF_ATTEMPT.get(name, name) for name in names]].set_axis(names, axis=1)
    frame["patch"] = frame["patch"].map(YES_NO).fillna("–")
    return blanked(sheet, frame, (*COUNTED, *COUNTED_TOO))


def by_instance(sheet: Sheet) -> pd.DataFrame:
    """One row an instance: its k outcomes and the vote."""
    frame = counted(sheet)
    sums = frame.groupby("instance", observed=True, sort=False).agg(
        repo=("repo", "first"),
        resolved=("resolved", "sum"),
        unknown=("unknown", "sum"),
        k=("attempt", "size"),
        tries=("tries", "sum"),
        steps=("steps", "sum"),
        tokens=("tokens", "sum"),
        seconds=("seconds", "sum"),
    )
    listed = dict(zip(sums.index, sequences(frame), strict=True))
    sums["outcomes"] = [", ".join(outcomes) for outcomes, _ in listed.values()]
    sums["trust"] = [", ".join(filter(None, dict.fromkeys(t))) for _, t in listed.values()]
    sums["majority"] = [
        vote.ballot.value for vote in votes_of(sheet, sums["k"], sums["resolved"], sums["unknown"])
    ]
    return blanked(sheet, sums.reset_index(), ("steps", "tokens"))


def votes_of(sheet: Sheet, made: pd.Series, resolved: pd.Series, unknown: pd.Series) -> list[Vote]:
    """The vote at each instance, of these counts."""
    over = sheet.plan["attempts"] if stops_early(sheet.plan) else 0
    return [
        Vote(instance_id="", k=max(k, over), resolved=r, unknown=u, unmade=max(over - k, 0))
        for k, r, u in zip(made.tolist(), resolved.tolist(), unknown.tolist(), strict=True)
    ]


def sequences(frame: pd.DataFrame) -> Iterable[tuple[list[str], list[str]]]:
    """Of each instance the outcomes and the trusts, in the order of its attempts."""
    starts = np.flatnonzero(~frame["instance"].duplicated().to_numpy())
    words = [frame[name].astype(object).tolist() for name in ("outcome", "trust")]
    for start, end in itertools.pairwise([*starts, len(frame)]):
        yield words[0][start:end], words[1][start:end]


def by_repo(sheet: Sheet) -> pd.DataFrame:
    """One row a repository, in the order of the alphabet."""
    frame = counted(sheet)
    instances = frame.groupby(["repo", "instance"], observed=True, sort=False).agg(
        attempts=("attempt", "size"),
        **{name: (name, "sum") for name in ("resolved", "contested", "pending", "tokens")},
        **{blame: (blame, "sum") for blame in ("model", "ambiguous", "infra")},
        first=("first", "sum"),
        resolved_first=("resolved_first", "sum"),
    )
    instances["instances"] = 1
    sums = instances.groupby(level="repo", observed=True, sort=False).sum()
    rates = {
        repo: rate(some["resolved_first"], some["first"])
        for repo, some in instances.groupby(level="repo", observed=True, sort=False)
    }
    for place, name in enumerate(("pass_at_1_all", "pass_at_1_all_low", "pass_at_1_all_high")):
        sums[name] = [rates[repo][place] for repo in sums.index]
    table = blanked(sheet, sums.loc[sorted(sums.index)].reset_index(), ("tokens",))
    return table[names_of(By.REPO)]


def by_outcome(sheet: Sheet) -> pd.DataFrame:
    """One row for each outcome and cause that occurs, in the order of the vocabulary."""
    frame = counted(sheet)
    table = shares(frame, frame, ["outcome", "cause"])
    order = {word: place for place, word in enumerate((*WORDS["outcome"], "", *Cause))}
    table = table.sort_values(["outcome", "cause"], key=lambda words: words.map(order))
    return table[names_of(By.OUTCOME)]


def by_diagnosis(sheet: Sheet) -> pd.DataFrame:
    """One row for each mode in which attempts failed, the commonest first; last, what has none."""
    frame = counted(sheet)
    table = shares(frame[frame["model"]], frame, ["diagnosis"])
    table["bare"] = table["diagnosis"] == ""
    order = ["bare", "attempts", "diagnosis"]
    return table.sort_values(order, ascending=[True, False, True]).drop(columns="bare")


def shares(some: pd.DataFrame, everything: pd.DataFrame, words: Sequence[str]) -> pd.DataFrame:
    """A row for each combination of these words, with its share of all attempts that enter one."""
    sizes = everything.groupby("instance", observed=True, sort=False)["first"].sum()
    counts = some.groupby([*words, "instance"], observed=True, sort=False)
    sums = counts.agg(attempts=("attempt", "size"), first=("first", "sum"))
    found: list[Record] = []
    for key, here in sums.groupby(level=[*words], observed=True, sort=False):
        of_each = here["first"].droplevel([*words]).reindex(sizes.index, fill_value=0)
        share, low, high = rate(of_each, sizes)
        said = key if isinstance(key, tuple) else (key,)
        found.append(
            dict(zip(words, said, strict=True))
            | {"attempts": int(here["attempts"].sum()), "instances": len(here)}
            | {"share": share, "share_low": low, "share_high": high}
        )
    names = [*words, "attempts", "instances", "share", "share_low", "share_high"]
    return pd.DataFrame(found, columns=names)


def by_cost(sheet: Sheet) -> pd.DataFrame:
    """One row an instance, and a last one that adds them up."""
    frame = counted(sheet)
    summed = ("resolved", "requests", "input_tokens", "cached_tokens", "output_tokens")
    sums = frame.groupby("instance", observed=True, sort=False).agg(
        attempts=("attempt", "size"),
        **{name: (name, "sum") for name in (*summed, "seconds")},
        failed_requests=("failed", "sum"),
        cost_usd=("cost_usd", "sum"),
        priced=("cost_usd", "count"),
    )
    # One unknown price makes the sum unknown.
    sums["cost_usd"] = sums["cost_usd"].where(sums.pop("priced") == sums["attempts"])
    sums.insert(0, "instances", 1)
    total = sums.sum(skipna=False).to_frame().T.set_axis([TOTAL])
    both = pd.concat([sums.set_axis(sums.index.astype(object)), total]) if len(sums) else total
    both["cost_per_resolved_usd"] = both["cost_usd"].where(both["resolved"] > 0) / both["resolved"]
    table = both.rename_axis("instance").reset_index()
    return blanked(sheet, table, (*COUNTED[1:], "failed_requests", *COSTS))


def by_run(sheet: Sheet) -> pd.DataFrame:
    """One row: the summary, flat."""
    record = dict.fromkeys((f"causes.{cause.value}" for cause in Cause), 0)
    record |= flatten(sheet.summary(), "")
    names = names_of(By.RUN)
    names += [name for name in record if name not in names]
    return pd.DataFrame([{name: record.get(name) for name in names}], dtype=object)


def flatten(tree: Mapping[str, Any], prefix: str) -> Record:
    flat: Record = {}
    for key, value in tree.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{name}.")
        elif key == "doubts":
            flat[name] = "; ".join(value)
        elif isinstance(value, list) or key.endswith("_ci95"):
            flat |= dict(zip((f"{name}.low", f"{name}.high"), value or (None, None), strict=True))
        else:
            flat[name] = value
    return flat


def names_of(by: By) -> list[str]:
    return [column.name for column in COLUMNS[by]]


GROUPINGS: dict[By, Callable[[Sheet], pd.DataFrame]] = {
    By.ATTEMPT: by_attempt,
    By.INSTANCE: by_instance,
    By.REPO: by_repo,
    By.OUTCOME: by_outcome,
    By.DIAGNOSIS: by_diagnosis,
    By.COST: by_cost,
    By.RUN: by_run,
}


def group(sheet: Sheet, by: By) -> pd.DataFrame:
    """A table, its columns in their order and of their types; what is unknown is missing.

    Raises:
        KeyError: by estimate, which `pipeline.tables.estimates` makes.
    """
    return typed(GROUPINGS[by](sheet), COLUMNS[by])


def typed(frame: pd.DataFrame, columns: Iterable[Column]) -> pd.DataFrame:
    known = {column.name: column for column in columns}
    frame = frame[[*known, *(name for name in frame.columns if name not in known)]]
    types = {Type.INTEGER: "Int64", Type.NUMBER: "Float64"}
    numbers = {name: types[c.type] for name, c in known.items() if c.type in types}
    return frame.astype(cast("Any", numbers))


def counted(sheet: Sheet) -> pd.DataFrame:
    """The attempts, with what is counted of them; rows of an instance stand together."""
    frame = sheet.frame
    outcome, blame = frame["outcome"], frame["blame"]
    first = frame["attempt"] <= (least_of(sheet.plan) if stops_early(sheet.plan) else math.inf)
    return frame.assign(
        first=first,
        resolved_first=first & (outcome == Outcome.RESOLVED.value),
        resolved=outcome == Outcome.RESOLVED.value,
        contested=outcome == Outcome.CONTESTED.value,
        pending=outcome == "pending",
        model=blame == Blame.MODEL.value,
        ambiguous=blame == Blame.AMBIGUOUS.value,
        infra=blame == Blame.INFRA.value,
        unknown=(outcome == "pending") | blame.isin([Blame.INFRA.value, Blame.AMBIGUOUS.value]),
        counts_first=first & blame.isin([Blame.NOBODY.value, Blame.MODEL.value]),
        tokens=frame["input_tokens"] + frame["output_tokens"],
    )


def rate(hits: pd.Series, sizes: pd.Series) -> tuple[float | None, float | None, float | None]:
    """Mean over instances of the share of their attempts, with its 95 % interval."""
    pairs = zip(hits.tolist(), sizes.tolist(), strict=True)
    found = interval([[1.0] * hit + [0.0] * (size - hit) for hit, size in pairs])
    return found or (None, None, None)


def blanked(sheet: Sheet, frame: pd.DataFrame, names: Iterable[str]) -> pd.DataFrame:
    """What nobody recorded is missing."""
    return frame if sheet.recorded else frame.assign(**dict.fromkeys(names, None))
