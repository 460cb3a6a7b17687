"""Hold what an agent says of itself against what the gateway saw."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from pipeline.domain import Usage
from pipeline.reconcile.figures import Figures, many, of_usage
from pipeline.reconcile.findings import Finding, Kind
from pipeline.reconcile.requests import Fate, Request, Try, usage_of
from pipeline.reconcile.spoken import LOCAL, SPEAKING

MOST_NAMED = 5


def named(tries: Sequence[Try]) -> str:
    names = [f"{t.attempt.instance_id} #{t.attempt.number} try {t.number}" for t in tries]
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def answered(item: Try) -> list[Request]:
    return [request for request in item.requests if request.fate is Fate.ANSWERED]


def tokens(usage: Usage) -> tuple[int, int]:
    return usage.input_tokens, usage.output_tokens


def of_agent(agent: str, tries: Sequence[Try]) -> Iterator[Finding]:
    """Where its own count is another."""
    if agent not in SPEAKING:
        return
    unsaid: list[Try] = []
    lost: list[Try] = []
    local: list[Try] = []
    strange: list[Try] = []
    yield from of_killed(agent, tries)
    for item in tries:
        if item.killed:
            continue
        requests, said = answered(item), item.said or Usage()
        seen = usage_of(requests)
        if item.unseen or (said.requests == seen.requests and tokens(said) == tokens(seen)):
            continue
        if item.cut and said.requests >= seen.requests:
            lost.append(item)
        elif said.requests < seen.requests and (
            agent in LOCAL or tokens(said) == tokens(usage_of(requests[: said.requests]))
        ):
            unsaid.append(item)
            if said.requests and agent in LOCAL:
                local.append(item)
        elif said.requests == seen.requests and (
            agent in LOCAL or any(request.usage is None for request in requests)
        ):
            local.append(item)
        else:
            strange.append(item)
    yield from sentences(agent, unsaid=unsaid, lost=lost, local=local, strange=strange)


def of_killed(agent: str, tries: Sequence[Try]) -> Iterator[Finding]:
    killed = [item for item in tries if item.killed and answered(item)]
    if killed:
        said, gone = apart(killed)
        text = (
            f"{many(len(killed), 'try')} cut off half-way, whose trajectories are gone: "
            f"{gone.words} are in no count of {agent}'s"
        )
        yield Finding(kind=Kind.UNSAID, text=text, figures=said - gone)


def apart(tries: Sequence[Try]) -> tuple[Figures, Figures]:
    said = sum((item.said or Usage() for item in tries), Usage())
    return of_usage(said), of_usage(usage_of(r for item in tries for r in answered(item)))


def sentences(
    agent: str,
    *,
    unsaid: Sequence[Try],
    lost: Sequence[Try],
    local: Sequence[Try],
    strange: Sequence[Try],
) -> Iterator[Finding]:
    if local:
        said, seen = apart(local)
        how = (
            f"{agent} counts tokens by itself, without the server's word"
            if agent in LOCAL
            else f"where the server reported no usage, {agent} counted tokens by itself"
        )
        text = (
            f"{how}: it says {said.input_tokens:,} in and {said.output_tokens:,} out, the gateway "
            f"{seen.input_tokens:,} and {seen.output_tokens:,}"
        )
        yield Finding(kind=Kind.LOCAL_COUNT, text=text, figures=said - seen)
    if unsaid:
        said, seen = apart(unsaid)
        missing = (seen.requests or 0) - (said.requests or 0)
        text = (
            f"the last {many(missing, 'reply')} of {many(len(unsaid), 'try')} stand in no "
            f"trajectory: {agent} ended before it wrote them down ({named(unsaid)})"
        )
        yield Finding(kind=Kind.UNSAID, text=text, figures=said - seen)
    if lost:
        said, seen = apart(lost)
        text = (
            f"{agent} says more than {many(len(lost), 'tape')} that were cut: "
            f"{said.words} against {seen.words} ({named(lost)})"
        )
        yield Finding(kind=Kind.CUT_TAPE, text=text, figures=said - seen)
    if strange:
        said, seen = apart(strange)
        text = (
            f"{agent} says {said.words}, the gateway answered {seen.words}, in "
            f"{many(len(strange), 'try')}: {named(strange)}"
        )
        yield Finding(kind=Kind.AGENT_DIFFERS, text=text, figures=said - seen)


def of_tapes(tries: Sequence[Try]) -> Iterator[Finding]:
    """What the tapes themselves leave open."""
    gone = [item for item in tries if item.unseen]
    if gone:
        number = sum(item.unseen for item in gone)
        text = (
            f"{many(len(gone), 'try')} without a tape: the ledger knows of "
            f"{many(number, 'request')} that cannot be held against the bill ({named(gone)})"
        )
        yield Finding(kind=Kind.NO_TAPE, text=text, figures=Figures(requests=number))
    broken: dict[Path, str] = {t.tape: t.cut for t in tries if t.tape and t.many_lost}
    for reason in [*broken.values()][:MOST_NAMED]:
        text = f"what was said after the damage cannot be held against the bill: {reason}"
        yield Finding(kind=Kind.NO_TAPE, text=text)
    quiet = [r for item in tries for r in answered(item) if r.usage is None]
    if quiet:
        text = (
            f"{many(len(quiet), 'answer')} came without usage: their tokens are in no figure of "
            "the gateway's"
        )
        yield Finding(kind=Kind.NO_USAGE, text=text, figures=Figures(requests=len(quiet)))
    scripted = sorted({item.where for item in tries if item.where and "://" not in item.where})
    if scripted:
        text = f"answered by {', '.join(scripted)}: nothing of that went to an endpoint"
        yield Finding(kind=Kind.NO_ENDPOINT, text=text)
