"""`passone reconcile`: whether what was billed is what was asked."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.cli.runs import RunArgument, run_at

if TYPE_CHECKING:
    from pipeline.domain import Attempt
    from pipeline.reconcile import Account, Reconciliation

EPILOG = """Examples:

  passone reconcile logs/mini-5 openrouter_activity.csv

  passone reconcile logs/mini-5 bill.csv --columns litellm --timezone Asia/Tokyo --by total"""

UNSETTLED = 3
NAMING = ("ledger", "instance", "#", "tries")
NOTHING = {"0", "0.0000", "-0.0000", "–"}
MOST_SLACK_SECONDS = 7 * 86400


def reconcile(
    run: RunArgument,
    bill: Annotated[Path, typer.Argument(help="CSV, JSON or JSON lines, as a gateway exports.")],
    columns: Annotated[
        str,
        typer.Option(
            metavar="PRESET|FILE", help="What its columns mean; recognised where it is not given."
        ),
    ] = "",
    timezone: Annotated[
        str, typer.Option(metavar="ZONE", help="Of times that name none: UTC, +08:00, Asia/Tokyo.")
    ] = "",
    kind: Annotated[str, typer.Option("--format", help="table, csv or json.")] = "table",
    by: Annotated[str, typer.Option(help="attempt, or total.")] = "attempt",
    slack_seconds: Annotated[
        float, typer.Option(help="By which the bill's clock and ours may differ.")
    ] = 60.0,
) -> None:
    """Hold a bill against a run: what the agent says, what the gateway saw, what is billed."""
    from pipeline.bill import columns_of, read_bill
    from pipeline.outcomes import UserError
    from pipeline.reconcile import reconcile as hold_against

    for name, given, known in (
        ("--format", kind, ("table", "csv", "json")),
        ("--by", by, ("attempt", "total")),
    ):
        if given not in known:
            raise UserError(f"{name} {given}: not known; known: {', '.join(known)}")
    if not 0 <= slack_seconds <= MOST_SLACK_SECONDS:
        raise UserError(f"--slack-seconds {slack_seconds:g}: give 0 to {MOST_SLACK_SECONDS}")
    read = read_bill(bill, columns_of(columns) if columns else None, zone_name=timezone)
    found = hold_against(run_at(run), read, slack_seconds=slack_seconds)
    show(found, kind, by)
    if not found.settled:
        raise typer.Exit(UNSETTLED)


def show(found: Reconciliation, kind: str, by: str) -> None:
    """The figures on stdout; sentences where they do not disturb a machine."""
    from pipeline.tables import Format, render

    if kind == "json":
        typer.echo(json.dumps(tree(found), indent=2, ensure_ascii=False))
        return
    if kind == "csv":
        records = [flat(item) for item in found.accounts] if by == "attempt" else found.by_ledger
        sys.stdout.write(render(records, Format.CSV).decode())
        say(found, err=True)
        return
    typer.echo(heading(found) + "\n")
    say(found, err=False)
    if by == "attempt":
        accounts = [side_by_side(item) for item in (*found.accounts, found.total)]
        typer.echo("\n" + render([row for row in accounts if telling(row)], Format.MD).decode())
    else:
        typer.echo()
    ledgers = [row for row in map(readable, found.by_ledger) if telling(row)]
    typer.echo(render(ledgers, Format.MD).decode().rstrip("\n"))


def telling(row: Mapping[str, str]) -> bool:
    """Whether a row says anything but zero; what is unknown is not zero."""
    said = {cell for key, cells in row.items() if key not in NAMING for cell in cells.split(" / ")}
    return not {"0"} <= said <= NOTHING


def tree(found: Reconciliation) -> dict[str, Any]:
    """The whole, for a machine."""
    bill, window = found.bill, found.window
    return {
        "run": found.run,
        "agent": found.agent,
        "endpoint": list(found.where),
        "window": {"begun": window.begun.isoformat(), "ended": window.ended.isoformat()},
        "bill": {
            "file": str(bill.path),
            "columns": bill.preset or "by a mapping",
            "lines": len(bill.entries),
            "left_out": bill.left_out,
            "aggregated": bill.aggregated,
        },
        "settled": found.settled,
        "summary": summary(found),
        "findings": [asdict(f) | {"standing": f.kind.standing} for f in found.findings],
        "ledgers": found.by_ledger,
        "attempts": [flat(account) for account in found.accounts],
    }


def summary(found: Reconciliation) -> str:
    """What is on the bill against what is on the tapes, in a sentence."""
    total, lines, ours = found.total, len(found.bill.entries), len(found.found.ours)
    answered, discarded = total.answered.requests or 0, total.discarded.requests or 0
    asked = answered + discarded + total.failed
    return (
        f"{lines:,} {'line' if lines == 1 else 'lines'} on the bill, {lines - ours:,} not of this "
        f"run; billed for it: {total.billed.words or 'nothing'}; asked by it: {asked:,} "
        f"{'request' if asked == 1 else 'requests'}, {answered:,} answered, {discarded:,} "
        f"discarded, {total.failed:,} failed"
    )


def heading(found: Reconciliation) -> str:
    bill = found.bill
    lines = f"{len(bill.entries):,} lines" if len(bill.entries) != 1 else "1 line"
    by = f", columns as {bill.preset}" if bill.preset else ", columns by a mapping"
    gone = f", {bill.left_out:,} without a time left out" if bill.left_out else ""
    return (
        f"{found.run}: agent {found.agent}, {', '.join(found.where)}, {found.window.words}\n"
        f"{bill.path}: {lines}{by if bill.entries else ''}{gone}"
    )


def text_of(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:,.4f}" if isinstance(value, float) else f"{value:,}"


def name_of(attempt: Attempt | None) -> str:
    if attempt is None:
        return "total"
    return attempt.instance_id if attempt.number else f"{attempt.instance_id} (before the run)"


def flat(account: Account) -> dict[str, Any]:
    """One row for a machine."""
    attempt = account.attempt
    ledgers = {
        "agent": account.said,
        "gateway": account.answered,
        "discarded": account.discarded,
        "bill": account.billed,
    }
    return {
        "instance": attempt.instance_id if attempt else "total",
        "attempt": attempt.number if attempt else None,
        "tries": account.tries,
        "resent_requests": account.resent,
        "failed_requests": account.failed,
    } | {f"{name}_{k}": v for name, said in ledgers.items() for k, v in asdict(said).items()}


def side_by_side(account: Account) -> dict[str, Any]:
    """One row: the three ledgers in each cell."""
    said, seen, billed = account.said, account.answered, account.billed
    apart = account.discarded

    def cell(*values: Any) -> str:
        return " / ".join(text_of(value) for value in values)

    return {
        "instance": name_of(account.attempt),
        "#": str(account.attempt.number or "") if account.attempt else "",
        "tries": str(account.tries),
        "requests agent / gateway / bill": cell(said.requests, seen.requests, billed.requests),
        "tokens in": cell(said.input_tokens, seen.input_tokens, billed.input_tokens),
        "tokens out": cell(said.output_tokens, seen.output_tokens, billed.output_tokens),
        "$": cell(said.cost_usd, seen.cost_usd, billed.cost_usd),
        "resent": text_of(account.resent),
        "discarded": text_of(apart.requests),
        "failed": text_of(account.failed),
    }


def readable(record: dict[str, Any]) -> dict[str, Any]:
    return {k: v if isinstance(v, str) else text_of(v) for k, v in record.items()}


def say(found: Reconciliation, *, err: bool) -> None:
    """What it all comes to, and every finding in a line, the loudest first."""
    from pipeline.reconcile import Standing

    typer.echo(f"{verdict(found)}\n{summary(found)}", err=err)
    for finding in found.findings:
        loud = finding.kind.standing in (Standing.ALARM, Standing.UNEXPLAINED)
        word = finding.kind.standing.value.upper() if loud else finding.kind.standing.value
        typer.echo(f"{word}: {finding.text}", err=err)


def verdict(found: Reconciliation) -> str:
    unsettled = sum(not finding.settled for finding in found.findings)
    if not unsettled:
        return "everything is accounted for"
    return f"{unsettled} {'difference is' if unsettled == 1 else 'differences are'} not explained"


def register(app: typer.Typer) -> None:
    app.command(epilog=EPILOG)(reconcile)
