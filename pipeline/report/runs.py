"""A run in columns, as charts and table need it: a number or a word for every attempt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from pipeline.diagnose import RULES
from pipeline.diagnose.case import short
from pipeline.domain import Attempt
from pipeline.headline import first_and_rest
from pipeline.outcomes import Blame
from pipeline.report.details import Source
from pipeline.report.facts import facts_of
from pipeline.report.level import Level
from pipeline.results import AttemptRow
from pipeline.wording import MOST_CHARACTERS, shortened

Record: TypeAlias = dict[str, Any]
WORDS = ("outcome", "blame", "cause", "trust", "stop")
NUMBERS = ("tries", "steps")
USED = ("requests", "input_tokens", "cached_tokens", "output_tokens", "as_planned", "failed")
HOSTED = "https://github.com/"


def coded(words: Sequence[str]) -> Record:
    """A column of few words: the words, and their numbers."""
    known = {word: place for place, word in enumerate(dict.fromkeys(words))}
    return {"words": list(known), "codes": [known[word] for word in words]}


def run_record(
    source: Source, levels: Mapping[Attempt, Level], *, name: str, driver: str = ""
) -> Record:
    """All that is not of one attempt alone.

    Args:
        name: that no other run of this report has.
        driver: the process that drives it now; empty: nobody does.
    """
    results = source.results
    groups = results.groups
    first = [rows[0] for rows in groups.values()]
    summary, (parts, lines) = results.summary(), first_and_rest(results)
    return {
        "name": name,
        "first": parts,
        "lines": lines,
        "going": driver,
        "facts": facts_of(source),
        "group": "category" if results.plan["selection"].get("benchmark") == "terminal" else "repo",
        "k": results.k,
        "made": [len(rows) for rows in groups.values()],
        "recorded": results.recorded,
        "ids": list(groups),
        "repo": coded([row.repo for row in first]),
        "difficulty": coded([difficulty_of(source, id_) for id_ in groups]),
        "links": [link_of(source, row) for row in first],
        "votes": coded([vote.ballot for vote in results.votes]),
        "outcomes": summary["outcomes"] | {"pending": summary["pending"]},
        "blame": summary["blame"],
        "causes": summary["causes"],
        "modes": {rule.mode.value: rule.sentence for rule in RULES},
        "rows": columns_of(source, results.rows, levels),
    }


def columns_of(
    source: Source, rows: Sequence[AttemptRow], levels: Mapping[Attempt, Level]
) -> Record:
    """In the order of the grid: all attempts at the first instance, then those at the second."""
    keys = [Attempt(row.instance_id, row.attempt) for row in rows]
    modes = [source.modes.get(key) for key in keys]
    tallies = ("fail_to_pass", "pass_to_pass")
    return {
        "level": [int(levels.get(key, Level.ROW)) for key in keys],
        **{word: coded([getattr(row, word) for row in rows]) for word in (*WORDS, *tallies)},
        **{number: [getattr(row, number) for row in rows] for number in NUMBERS},
        **{number: [getattr(row.usage, number) for row in rows] for number in USED},
        "cost_usd": [row.usage.cost_usd for row in rows],
        "seconds": [round(row.seconds, 1) for row in rows],
        "waiting": [waiting(row) for row in rows],
        "reward": [row.reward for row in rows],
        "official": [None if row.official is None else int(row.official) for row in rows],
        "moved": [int(row.moved) for row in rows],
        "mode": coded([str(mode["mode"]) if mode else "" for mode in modes]),
        "why": [why(row, mode) for row, mode in zip(rows, modes, strict=True)],
        "tainted": [
            int(any(sign.get("taints") for sign in source.signs.get(key, ()))) for key in keys
        ],
    }


def waiting(row: AttemptRow) -> float | None:
    """Share of the agent's time that went by while the endpoint was asked; None: nobody knows."""
    if not row.agent_seconds or not row.asked_seconds:
        return None
    return round(min(row.asked_seconds / row.agent_seconds, 1.0), 4)


def why(row: AttemptRow, mode: Mapping[str, Any] | None) -> str:
    """One line on what is behind an outcome that is not simply resolved."""
    if mode:
        return short(str(mode["evidence"]), MOST_CHARACTERS)
    if row.moved:
        return f"its place is {row.trust}"
    return shortened(row.detail) if row.blame in (Blame.INFRA, Blame.AMBIGUOUS) else ""


def difficulty_of(source: Source, instance_id: str) -> str:
    instance = source.instances.get(instance_id)
    return instance.difficulty if instance else ""


def link_of(source: Source, row: AttemptRow) -> str:
    """The repository at the commit that an agent began with; empty: on no host that we know."""
    instance = source.instances.get(row.instance_id)
    base = str(instance.row.get("base_commit") or "") if instance else ""
    public = source.results.plan["selection"].get("dataset") != "demo"
    owner, _, name = row.repo.partition("/")
    plain = all(
        part and part.replace("-", "").replace("_", "").replace(".", "").isalnum()
        for part in (owner, name)
    )
    if not (public and plain and base.isalnum() and row.repo.isascii()):
        return ""
    return f"{HOSTED}{owner}/{name}/tree/{base}"
