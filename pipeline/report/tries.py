"""What happened in each try at an attempt: how it ended, and what the gateway saw of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from pipeline.domain import Fault, Rollout, Usage, Verdict
from pipeline.gateway.tapes import Exchange, Tape, find_tape, read_tape
from pipeline.ledger import Row
from pipeline.outcomes import UserError
from pipeline.report.texts import cut
from pipeline.results import tally_of
from pipeline.rundir import RunDir

COLUMNS = (
    *("ordinal", "again", "at", "seconds", "status", "input", "cached", "output", "planned"),
    *("finish", "ending", "discarded"),
)
"""Of a request, in the order of its list; `at` in seconds since its try began."""
MOST_REQUESTS = 2_000


def try_record(run: RunDir, row: Row) -> dict[str, Any]:
    """One try with a row."""
    value = row.value
    assert isinstance(value, Rollout | Fault)
    record: dict[str, Any] = {"n": row.try_number, "seconds": value.seconds} | tape_record(
        run.attempt(row.attempt, row.try_number)
    )
    record["usage"] = asdict(value.usage)
    if isinstance(value, Fault):
        return record | fault_record(value)
    return record | {"stop": value.stop or "", "exit": cut(value.exit_status)}


def fault_record(fault: Fault) -> dict[str, Any]:
    return {"cause": fault.cause.value, "detail": cut(fault.detail), "died": fault.died}


def tape_record(place: Path) -> dict[str, Any]:
    """What the gateway saw; `no_tape` where nothing of it can be read."""
    path = find_tape(place)
    if path is None:
        return {"no_tape": "no tape: nothing passed the gateway"}
    try:
        tape = read_tape(path)
    except UserError as error:
        return {"no_tape": str(error)}
    begun = moment(tape.header.begun)
    rows = [request_of(exchange, begun) for exchange in tape.exchanges[:MOST_REQUESTS]]
    return {
        "begun": tape.header.begun,
        "model": tape.header.model,
        "where": tape.header.where,
        "requests": rows,
        "sampling": sampling_of(tape),
    } | ({"broken": tape.broken} if tape.broken else {})


def sampling_of(tape: Tape) -> list[str]:
    """Every temperature and top_p that went over the wire, in words."""
    return sorted(
        {
            ", ".join(f"{name} {sent(e.request.get(name))}" for name in ("temperature", "top_p"))
            for e in tape.exchanges
        }
    )


def sent(value: object) -> str:
    if value is None:
        return "not sent"
    return f"{value:g}" if isinstance(value, float) else str(value)[:40]


def moment(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def request_of(exchange: Exchange, begun: float | None) -> list[Any]:
    """As `COLUMNS` has it."""
    asked, usage = moment(exchange.asked), exchange.usage or Usage()
    ending = exchange.ending
    words = "" if ending is None else str(ending)
    if isinstance(ending, Fault):
        words = f"{ending.cause}: {ending.detail[:200]}"
    return [
        exchange.ordinal,
        exchange.again,
        None if asked is None or begun is None else round(max(asked - begun, 0.0), 3),
        round(exchange.seconds, 3),
        exchange.status,
        usage.input_tokens,
        usage.cached_tokens,
        usage.output_tokens,
        usage.as_planned,
        finish_of(exchange.answer),
        words,
        exchange.discarded,
    ]


def finish_of(answer: object) -> str:
    """Why the model stopped, as the server says; empty: it does not."""
    try:
        assert isinstance(answer, Mapping)
        reason = answer["choices"][0]["finish_reason"] if "choices" in answer else answer["status"]
    except (LookupError, TypeError, AssertionError):
        return ""
    return str(reason or "")[:40]


def scoring_record(value: object) -> dict[str, Any]:
    """One verdict, or what broke while it was made."""
    if isinstance(value, Fault):
        return fault_record(value) | {"seconds": value.seconds}
    assert isinstance(value, Verdict)
    evidence = value.evidence
    return {
        "finding": value.finding.value,
        "grader": value.grader,
        "fail_to_pass": tally_of(value.fail_to_pass),
        "pass_to_pass": tally_of(value.pass_to_pass),
        "reward": value.reward,
        "seconds": value.seconds,
        "exit_code": evidence.exit_code,
        "image": evidence.image_digest,
        "tampered": evidence.tampered,
        "reasons": [cut(reason) for reason in evidence.reasons],
        "checked": list(evidence.checked),
        "origin": evidence.origin,
        "contradicted": evidence.contradicted,
    }
