"""Print results as tables: CSV, Markdown, LaTeX, Parquet, JSON."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, TypeAlias

from tabulate import tabulate

from pipeline.outcomes import Blame, Outcome
from pipeline.results import AttemptRow, Results
from pipeline.stats import interval

Record: TypeAlias = dict[str, Any]


class By(StrEnum):
    ATTEMPT = "attempt"
    INSTANCE = "instance"
    REPO = "repo"
    RUN = "run"


class Format(StrEnum):
    CSV = "csv"
    MD = "md"
    LATEX = "latex"
    PARQUET = "parquet"
    JSON = "json"


def tokens(rows: Sequence[AttemptRow]) -> int:
    return sum(row.usage.input_tokens + row.usage.output_tokens for row in rows)


def yes_no(value: bool | None) -> str:
    return {True: "yes", False: "no", None: "–"}[value]


def by_attempt(results: Results) -> list[Record]:
    """One record an attempt; what nobody recorded is empty, never zero."""

    def known(value: float | None) -> float | None:
        return value if results.recorded else None

    return [
        {
            "instance": row.instance_id,
            "repo": row.repo,
            "attempt": row.attempt,
            "patch": yes_no(row.patch),
            "outcome": row.outcome,
            "blame": row.blame,
            "diagnosis": row.diagnosis,
            "cause": row.cause,
            "trust": row.trust,
            "stop": row.stop,
            "official": "" if row.official is None else int(row.official),
            "fail_to_pass": row.fail_to_pass,
            "pass_to_pass": row.pass_to_pass,
            "tries": row.tries,
            "steps": known(row.steps),
            "requests": known(row.usage.requests),
            "input_tokens": known(row.usage.input_tokens),
            "cached_tokens": known(row.usage.cached_tokens),
            "output_tokens": known(row.usage.output_tokens),
            "cost_usd": known(row.usage.cost_usd),
            "as_planned": known(row.usage.as_planned),
            "failed_requests": known(row.usage.failed),
            "seconds": round(row.seconds, 1),
            "drift": row.drift,
        }
        for row in results.rows
    ]


def by_instance(results: Results) -> list[Record]:
    """One record an instance: its k outcomes and the vote."""
    records = []
    for vote in results.votes:
        rows = results.at(vote.instance_id)
        records.append(
            {
                "instance": vote.instance_id,
                "repo": rows[0].repo,
                "outcomes": ", ".join(row.outcome for row in rows),
                "resolved": vote.resolved,
                "unknown": vote.unknown,
                "k": vote.k,
                "majority": vote.ballot.value,
                "trust": ", ".join(dict.fromkeys(row.trust for row in rows if row.trust)),
                "tries": sum(row.tries for row in rows),
                "steps": sum(row.steps for row in rows),
                "tokens": tokens(rows),
                "seconds": round(sum(row.seconds for row in rows), 1),
            }
        )
    return records


def by_repo(results: Results) -> list[Record]:
    """One record a repository."""
    records = []
    for repo in sorted({row.repo for row in results.rows}):
        rows = [row for row in results.rows if row.repo == repo]
        ids = list(dict.fromkeys(row.instance_id for row in rows))
        rate = interval([[float(r.resolved) for r in rows if r.instance_id == id_] for id_ in ids])
        records.append(
            {
                "repo": repo,
                "instances": len(ids),
                "attempts": len(rows),
                "resolved": sum(row.resolved for row in rows),
                "contested": sum(row.outcome == Outcome.CONTESTED for row in rows),
                "model": sum(row.blame == Blame.MODEL for row in rows),
                "ambiguous": sum(row.blame == Blame.AMBIGUOUS for row in rows),
                "infra": sum(row.blame == Blame.INFRA for row in rows),
                "pending": sum(row.outcome == "pending" for row in rows),
                "pass_at_1_all": round(rate[0], 4) if rate else None,
                "tokens": tokens(rows),
            }
        )
    return records


def by_run(results: Results) -> list[Record]:
    """One record: the summary, flat."""

    def flatten(tree: dict[str, Any], prefix: str) -> Record:
        flat: Record = {}
        for key, value in tree.items():
            name = f"{prefix}{key}"
            if isinstance(value, dict):
                flat |= flatten(value, f"{name}.")
            elif key == "doubts":
                flat[name] = "; ".join(value)
            elif isinstance(value, list):
                flat |= {f"{name}.low": value[0], f"{name}.high": value[1]}
            else:
                flat[name] = value
        return flat

    return [flatten(results.summary(), "")]


RECORDS: dict[By, Callable[[Results], list[Record]]] = {
    By.ATTEMPT: by_attempt,
    By.INSTANCE: by_instance,
    By.REPO: by_repo,
    By.RUN: by_run,
}


def render(records: Sequence[Record], kind: Format) -> bytes:
    """A table in one of the formats; every one of them ends with a newline but Parquet."""
    import pandas as pd

    if kind is Format.JSON:
        return (json.dumps(list(records), indent=2, ensure_ascii=False) + "\n").encode()
    frame = pd.DataFrame(records)
    if kind is Format.CSV:
        return frame.to_csv(index=False, lineterminator="\n").encode()
    if kind is Format.PARQUET:
        buffer = io.BytesIO()
        mixed = [name for name in frame.columns if frame[name].dtype == object]
        frame.astype(dict.fromkeys(mixed, "string")).to_parquet(buffer, index=False)
        return buffer.getvalue()
    style = "github" if kind is Format.MD else "latex_booktabs"
    text = tabulate(
        [[("–" if value is None else value) for value in record.values()] for record in records],
        headers=list(records[0]) if records else [],
        tablefmt=style,
        disable_numparse=True,
    )
    return (text + "\n").encode()
