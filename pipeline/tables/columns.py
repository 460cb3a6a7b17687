"""Name every column of every table, once: its type, its unit, and how a person sees it.

docs/tables.md says what each means; a test holds the two against each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from pipeline.domain import Cause
from pipeline.outcomes import Blame, Outcome


class By(StrEnum):
    """What a row of a table is."""

    ATTEMPT = "attempt"
    INSTANCE = "instance"
    REPO = "repo"
    OUTCOME = "outcome"
    DIAGNOSIS = "diagnosis"
    COST = "cost"
    ESTIMATE = "estimate"
    RUN = "run"


class Type(StrEnum):
    """What a cell holds, where it is known."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    ANY = "any"
    """A table that somebody else made."""


class Unit(StrEnum):
    """What a number counts."""

    NONE = ""
    TOKENS = "tokens"
    REQUESTS = "requests"
    DOLLARS = "USD"
    SECONDS = "s"
    SHARE = "share"
    """0 to 1 for machines, a percentage for people."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column, in all formats."""

    name: str
    type: Type = Type.TEXT
    unit: Unit = Unit.NONE
    title: str = ""
    """Its heading for people; empty: its name, with spaces."""
    bounds: tuple[str, str] | None = None
    """Columns that hold its interval; for people they stand in its own cell."""
    digits: int | None = None
    """Decimals in CSV, JSON and Parquet; None: all of them."""
    wide: bool = False
    """Left out on paper: a page has no room for it."""
    repeats: bool = False
    """A list with commas; where it is long, people see how often each word occurs."""

    @property
    def heading(self) -> str:
        return self.title or self.name.replace("_", " ")


INTEGER, NUMBER = Type.INTEGER, Type.NUMBER
TOKENS = Unit.TOKENS


def count(name: str, unit: Unit = Unit.NONE, *, wide: bool = False, title: str = "") -> Column:
    return Column(name, INTEGER, unit, title=title, wide=wide)


def seconds(*, wide: bool = False) -> Column:
    return Column("seconds", NUMBER, Unit.SECONDS, digits=1, wide=wide)


def dollars(name: str, title: str, *, wide: bool = False) -> Column:
    return Column(name, NUMBER, Unit.DOLLARS, title=title, wide=wide)


def rate(name: str, title: str = "", *, digits: int | None = None, low: str = "") -> list[Column]:
    """A rate, and where `low` names it, the ends of its 95 % interval."""
    bounds = (low, low.replace("low", "high")) if low else None
    shown = f"{title or name} [95 % CI]" if low else title
    columns = [Column(name, NUMBER, Unit.SHARE, title=shown, bounds=bounds, digits=digits)]
    ends = [Column(end, NUMBER, Unit.SHARE, digits=digits) for end in bounds or ()]
    return columns + ends


USED = (
    count("requests", Unit.REQUESTS),
    count("input_tokens", TOKENS, title="tokens in"),
    count("cached_tokens", TOKENS, title="cached"),
    count("output_tokens", TOKENS, title="tokens out"),
)
RUN: list[Column] = [
    *(Column(name) for name in ("run", "plan_digest", "grader")),
    *(count(name) for name in ("instances", "k", "attempts", "tries")),
    *(count(f"outcomes.{outcome.value}") for outcome in Outcome),
    count("pending"),
    *(count(f"blame.{blame.value}") for blame in Blame),
    *(count(f"causes.{cause.value}") for cause in Cause),
    *rate("pass_at_1.official", "pass_at_1.official"),
    *rate("pass_at_1.all", low="pass_at_1.all_ci95.low"),
    *rate("pass_at_1.valid", low="pass_at_1.valid_ci95.low"),
    *rate("pass_at_1.high", "pass_at_1.high"),
    *(count(f"majority.{name}") for name in ("k", "resolved", "rejected", "undetermined")),
    *(rate(f"majority.{name}")[0] for name in ("rate", "low", "high")),
    count("usage.requests", Unit.REQUESTS),
    *(count(f"usage.{name}", TOKENS) for name in ("input_tokens", "cached_tokens")),
    count("usage.output_tokens", TOKENS),
    dollars("usage.cost_usd", ""),
    *(count(f"controls.{c}.{n}") for c, n in (("gold", "passed"), ("gold", "of"))),
    *(count(f"controls.{c}.{n}") for c, n in (("empty", "passed"), ("empty", "of"))),
    count("controls.moved"),
    Column("doubts"),
]
COLUMNS: dict[By, Sequence[Column]] = {
    By.ATTEMPT: (
        Column("instance"),
        Column("repo", wide=True),
        count("attempt", title="#"),
        Column("patch", wide=True),
        Column("outcome"),
        Column("blame", wide=True),
        Column("diagnosis", wide=True),
        Column("cause"),
        Column("trust", wide=True),
        Column("stop", wide=True),
        count("official", wide=True),
        Column("fail_to_pass", wide=True),
        Column("pass_to_pass", wide=True),
        Column("reward", NUMBER, wide=True),
        count("tries"),
        count("steps"),
        Column("requests", INTEGER, Unit.REQUESTS, wide=True),
        *USED[1:],
        dollars("cost_usd", "cost"),
        Column("as_planned", INTEGER, Unit.REQUESTS, wide=True),
        Column("failed_requests", INTEGER, Unit.REQUESTS, wide=True),
        seconds(),
        Column("drift", wide=True),
    ),
    By.INSTANCE: (
        Column("instance"),
        Column("repo", wide=True),
        Column("outcomes", repeats=True),
        count("resolved", wide=True),
        count("unknown", wide=True),
        count("k", wide=True),
        Column("majority"),
        Column("trust", wide=True),
        count("tries"),
        count("steps"),
        count("tokens", TOKENS),
        seconds(),
    ),
    By.REPO: (
        Column("repo"),
        *(count(name) for name in ("instances", "attempts", "resolved")),
        count("contested", wide=True),
        *(count(name) for name in ("model", "ambiguous", "infra", "pending")),
        *rate("pass_at_1_all", "pass@1, all", digits=4, low="pass_at_1_all_low"),
        count("tokens", TOKENS, wide=True),
    ),
    By.OUTCOME: (
        Column("outcome"),
        Column("cause"),
        count("attempts"),
        *rate("share", digits=4, low="share_low"),
    ),
    By.DIAGNOSIS: (
        Column("diagnosis"),
        count("attempts"),
        count("instances"),
        *rate("share", digits=4, low="share_low"),
    ),
    By.COST: (
        Column("instance"),
        count("instances", wide=True),
        count("attempts"),
        count("resolved"),
        *USED,
        Column("failed_requests", INTEGER, Unit.REQUESTS, title="failed", wide=True),
        dollars("cost_usd", "cost"),
        dollars("cost_per_resolved_usd", "per resolved"),
        seconds(),
    ),
    By.ESTIMATE: (
        Column("estimate"),
        Column("over"),
        Column("method"),
        *rate("value", digits=4, low="low"),
        Column("error", NUMBER, Unit.SHARE, title="SE", digits=5),
        count("instances"),
        Column("note", wide=True),
    ),
    By.RUN: RUN,
}
"""In their order. Names and order are kept; what is new comes last or beside its like."""
