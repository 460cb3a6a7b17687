"""What the gateway saw: every request of a run, from the tapes of its tries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path

from pipeline.domain import Attempt, Usage
from pipeline.gateway.tapes import Exchange, Tape, find_tape, read_tape
from pipeline.outcomes import UserError
from pipeline.reconcile.spoken import spoken
from pipeline.results import Results
from pipeline.rundir import RunDir

NOBODY = Attempt("", 0)
"""Of a tape that cannot be read."""
UNBILLED = range(400, 500)
"""Refused before the model was asked; nobody bills these."""


class Fate(StrEnum):
    """What became of a request."""

    ANSWERED = "answered"
    DISCARDED = "discarded"
    """The server counted its tokens; the agent never saw an answer."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request to the endpoint."""

    attempt: Attempt
    try_number: int
    again: int
    """How often it had been sent before."""
    begun: datetime
    ended: datetime
    fate: Fate
    status: int
    usage: Usage | None
    """None: the server counted no tokens, or did not say."""
    names: frozenset[str]
    """Of the model: as asked, and as the server calls it."""
    id: str = ""
    """The server's, of its answer."""
    expected_input: int | None = None
    """Of a request without usage: what the server counted when it was sent again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """One try of an attempt: its tape, and what its agent says."""

    attempt: Attempt
    number: int
    requests: Sequence[Request] = ()
    said: Usage | None = None
    tape: Path | None = None
    where: str = ""
    cut: str = ""
    """Why its tape may hold less than was asked; empty: it is whole."""
    killed: bool = False
    """Cut off before it came to a row; its trajectory is gone."""
    many_lost: bool = False
    """Of a cut tape: more than the request that was under way may be missing."""
    unseen: int = 0
    """Requests that the ledger knows of, though there is no tape of them."""
    ended: datetime | None = None
    """The last that its tape knows of."""


def usage_in(exchange: Exchange) -> Usage | None:
    """As one request, however it ended."""
    usage = exchange.usage
    return replace(usage, requests=1, failed=0) if usage is not None and usage.tokens else None


def fate_of(exchange: Exchange) -> Fate:
    if exchange.ending is None and exchange.status < 400 and not exchange.discarded:
        return Fate.ANSWERED
    return Fate.FAILED if usage_in(exchange) is None else Fate.DISCARDED


def usage_of(requests: Iterable[Request]) -> Usage:
    """What the server counted; a request of which it did not say is one of unknown cost."""
    unsaid = Usage(requests=1, cost_usd=None)
    return sum((request.usage or unsaid for request in requests), Usage())


def time_of(text: str, tape: Tape) -> datetime:
    try:
        found = datetime.fromisoformat(text or tape.header.begun)
    except ValueError:
        raise UserError(
            f"{tape.path}: holds an exchange without a time; it cannot be held against a bill"
        ) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def requests_of(tape: Tape) -> Iterator[Request]:
    """Every exchange on a tape.

    Raises:
        UserError: one has no time.
    """
    used = [(item.ordinal, usage_in(item)) for item in tape.exchanges]
    counted = {ordinal: usage.input_tokens for ordinal, usage in used if usage}
    for item, (_, usage) in zip(tape.exchanges, used, strict=True):
        begun = time_of(item.asked, tape)
        answer = item.answer if isinstance(item.answer, dict) else {}
        names = (tape.header.model, item.request.get("model"), answer.get("model"))
        yield Request(
            attempt=tape.attempt,
            try_number=tape.header.try_number,
            again=item.again,
            begun=begun,
            ended=begun + timedelta(seconds=item.seconds),
            fate=fate_of(item),
            status=item.status,
            usage=usage,
            names=frozenset(name for name in names if isinstance(name, str) and name),
            id=str(answer.get("id") or ""),
            expected_input=None if usage else counted.get(item.ordinal),
        )


def whole_try(path: Path, attempt: Attempt, number: int, said: Usage | None) -> Try:
    """A try by its tape, however much of it can be read."""
    try:
        tape = read_tape(path)
        found = list(requests_of(tape))
    except UserError as error:
        return Try(
            attempt=attempt, number=number, said=said, tape=path, cut=str(error), many_lost=True
        )
    cut = f"{path}: is cut: {tape.broken}" if tape.broken else ""
    if not cut and path.suffix == ".jsonl":
        cut = f"{path}: its process was killed"
    begun = time_of("", tape) if tape.header.begun else None
    return Try(
        attempt=attempt,
        number=number,
        requests=found,
        said=said,
        tape=path,
        where=tape.header.where,
        cut=cut,
        many_lost=bool(tape.broken) and path.suffix != ".jsonl",
        ended=max((item.ended for item in found), default=begun),
    )


def cut_off(run: RunDir) -> Iterator[Try]:
    """Tries that were killed before they came to a row: billed all the same."""
    paths = sorted(run.cut_off.glob("*.jsonl*"))
    for path in paths:
        if path.suffix == ".jsonl" and path.with_name(f"{path.name}.zst") in paths:
            continue  # killed between packing it and removing it
        if path.suffix not in (".jsonl", ".zst"):
            continue
        try:
            header = read_tape(path).header
        except UserError as error:
            yield Try(
                attempt=NOBODY, number=0, tape=path, cut=str(error), many_lost=True, killed=True
            )
            continue
        attempt = Attempt(header.instance_id, header.attempt)
        found = whole_try(path, attempt, header.try_number, None)
        # Packed and whole: the request that was under way may be missing from it all the same.
        yield replace(found, killed=True, cut=found.cut or f"{path}: its try was cut off")


def tries_of(run: RunDir, results: Results) -> list[Try]:
    """Every try that left something, in the order of the plan; cut-off ones last."""
    agent = str(results.plan["agent"])
    tries: list[Try] = []
    for row in results.rows:
        attempt = Attempt(row.instance_id, row.attempt)
        rows = {item.try_number: item.value for item in results.book.entry(attempt).rollouts}
        there = {
            int(path.name.removeprefix("try-")): path
            for path in run.tries(attempt).glob("try-*")
            if path.name.removeprefix("try-").isdigit()
        }
        for number in sorted(rows.keys() | there.keys()):
            directory = there.get(number)
            said = spoken(agent, directory) if directory else None
            path = find_tape(directory) if directory else None
            if path is not None:
                tries.append(whole_try(path, attempt, number, said))
                continue
            usage = getattr(rows.get(number), "usage", Usage())
            unseen = usage.requests + usage.failed
            tries.append(Try(attempt=attempt, number=number, said=said, unseen=unseen))
    return [*tries, *cut_off(run)]
