"""Print results as tables: CSV, Markdown, LaTeX, Parquet, JSON, and one headline."""

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
MOST_CHARACTERS = 200


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
            "cause": row.cause,
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


def percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f} %"


def span(bounds: Sequence[float] | None) -> str:
    return "–" if bounds is None else f"{100 * bounds[0]:.1f}–{100 * bounds[1]:.1f}"


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def controls_line(summary: Record, *, imported: bool) -> str:
    """How far the place itself could be trusted."""
    if imported:
        return "controls: imported, no control"
    gold, empty = summary["controls"]["gold"], summary["controls"]["empty"]
    said = [f"gold {gold['passed']}/{gold['of']}" if gold["of"] else "gold –"]
    said.append(f"empty {empty['passed']}/{empty['of']}" if empty["of"] else "empty –")
    said.append(f"{summary['controls']['moved']} moved")
    return "controls: " + ", ".join(said)


def spending(summary: Record, failed: int, *, recorded: bool) -> str:
    """Requests, tokens and money; unknown is not zero."""
    if not recorded:
        return "usage not recorded"
    usage, resolved = summary["usage"], summary["outcomes"][Outcome.RESOLVED]
    cost = usage["cost_usd"]
    money = "$ unknown" if cost is None else f"${cost:.2f}"
    if cost and resolved:
        money += f" · ${cost / resolved:.2f}/resolved"
    again = f" (+ {failed} failed)" if failed else ""
    return (
        f"{count(usage['requests'], 'request')}{again} · {usage['input_tokens']:,} tokens in "
        f"({usage['cached_tokens']:,} cached), {usage['output_tokens']:,} out · {money}"
    )


def headline(results: Results) -> list[str]:
    """Never a bare number: n × k, the rate with its interval and range, and who was to blame."""
    summary = results.summary()
    rates, majority = summary["pass_at_1"], summary["majority"]
    outcomes, blame = summary["outcomes"], summary["blame"]
    start = f"partial ({summary['pending']} pending) · " if summary["pending"] else ""
    causes = ", ".join(f"{number} {cause}" for cause, number in summary["causes"].items())
    infra = f"{blame['infra']} infra" + (f" ({causes})" if causes else "")
    lines = [
        f"{start}{summary['instances']} × {summary['k']} · {outcomes['resolved']} resolved · "
        f"pass@1 {percent(rates['all'])} over all [{span(rates['all_ci95'])}] · "
        f"{percent(rates['valid'])} over valid [{span(rates['valid_ci95'])}] · "
        f"at most {percent(rates['high'])} · {blame['ambiguous']} ambiguous · {infra}"
    ]
    if summary["k"] > 1:
        lines.append(
            f"majority of {summary['k']}: {majority['resolved']} resolved, "
            f"{majority['rejected']} rejected, {majority['undetermined']} undetermined · "
            f"{percent(majority['rate'])} of decided, range "
            f"{percent(majority['low'])}–{percent(majority['high'])}"
        )
    tries = f"{summary['tries']} {'try' if summary['tries'] == 1 else 'tries'}"
    lines.append(f"{tries} · {spending(summary, results.usage.failed, recorded=results.recorded)}")
    if results.cut_off.requests:
        lines.append(
            f"and {count(results.cut_off.requests, 'request')}, {results.cut_off.tokens:,} tokens "
            "that came to no row (tries that were stopped half-way, the look before a run)"
        )
    lines += wire_lines(results)
    imported = not results.plan["has_control"]
    lines.append(f"{controls_line(summary, imported=imported)} · grader {summary['grader']}")
    if results.unknown_exits:
        lines.append(
            f"exit unknown for {results.unknown_exits} of {summary['attempts']}: a fault may have "
            "left a submission empty or half done; 'at most' counts the empty ones as resolved"
        )
    return lines


def wire_lines(results: Results) -> list[str]:
    """Whether the model was asked as the plan says, and whether it was asked at all."""
    lines = []
    sampling, usage = results.plan["sampling"], results.usage
    if usage.requests:
        said = f"temperature {sampling['temperature']:g}, top_p {sampling['top_p']:g}"
        lines.append(f"{said} on {usage.as_planned} of {count(usage.requests, 'request')}")
    if results.plan.get("replayed"):
        lines.append(
            f"replayed from {results.plan['replayed']}, no endpoint was asked: "
            f"{len(drifts(results))} of {count(len(results.rows), 'attempt')} drifted"
        )
    return lines


def drifts(results: Results) -> list[str]:
    """Where a replay differed from what was recorded, one line an attempt."""
    return [f"{row.instance_id} #{row.attempt}: {row.drift}" for row in results.rows if row.drift]


def shortened(text: str) -> str:
    """What fits into a line: of a traceback, its end."""
    text = " ".join(text.split())
    return text if len(text) <= MOST_CHARACTERS else f"… {text[-MOST_CHARACTERS:]}"


def losses(results: Results) -> list[str]:
    """What broke, one line each: instance, attempt, cause and its own words."""
    lines = []
    for row in results.rows:
        if row.outcome == Outcome.INFRA and not row.moved:
            detail = shortened(row.detail)
            lines.append(f"{row.instance_id} #{row.attempt}: {row.cause}: {detail}")
        elif row.moved:
            lines.append(f"{row.instance_id} #{row.attempt}: gold does not pass here either")
    return lines
