"""Know what a request cost, and spend no more than was allowed. Unknown is not zero."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pipeline.domain import Usage
from pipeline.recipe import PriceRecipe

MILLION = 1_000_000


def price_of(prices: Mapping[str, PriceRecipe], model: str) -> PriceRecipe | None:
    """A model's price; its id may be written with the protocol before it."""
    return prices.get(model) or prices.get(f"openai/{model}")


@dataclass(slots=True)
class Purse:
    """What may be spent, and what has been."""

    cost_usd: float = 0.0
    """0: no limit, as for tokens."""
    tokens: int = 0
    spent_usd: float = 0.0
    """As far as it is known."""
    spent_tokens: int = 0

    def pay(self, usage: Usage) -> None:
        self.spent_usd += usage.cost_usd or 0.0
        self.spent_tokens += usage.tokens

    @property
    def limit(self) -> str:
        """Which limit was reached first: its key."""
        return "cost_usd" if self.cost_usd and self.spent_usd >= self.cost_usd else "tokens"

    @property
    def empty(self) -> str:
        """Why nothing more may be asked; empty while something may."""
        if self.cost_usd and self.spent_usd >= self.cost_usd:
            return f"cost limit of ${self.cost_usd:g} reached (${self.spent_usd:.4f} spent)"
        if self.tokens and self.spent_tokens >= self.tokens:
            return f"limit of {self.tokens:,} tokens reached ({self.spent_tokens:,} used)"
        return ""


def priced(usage: Usage, price: PriceRecipe | None) -> Usage:
    """A request's usage with its cost: what the server says, else by the table, else unknown."""
    if usage.cost_usd is not None or price is None or not usage.tokens:
        return usage
    cached = price.input if price.cached is None else price.cached
    # A server that counts more from its cache than came in cannot be believed.
    from_cache = usage.cached_tokens if usage.cached_tokens <= usage.input_tokens else 0
    dollars = (
        (usage.input_tokens - from_cache) * price.input
        + from_cache * cached
        + usage.output_tokens * price.output
    ) / MILLION
    return replace(usage, cost_usd=dollars)
