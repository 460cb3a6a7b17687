"""What a request cost is known or unknown, never guessed; what is spent stays spent."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from pipeline.domain import Usage
from pipeline.gateway import Purse, price_of
from pipeline.gateway.budgets import priced
from pipeline.gateway.replies import Reply, read
from pipeline.recipe import PriceRecipe

PLAIN = PriceRecipe(input=2.0, output=10.0)
CACHED = PriceRecipe(input=2.0, output=10.0, cached=0.5)
FREE = PriceRecipe(input=0.0, output=0.0)


@pytest.mark.parametrize(
    ("model", "found"),
    [("m", PLAIN), ("x/m", FREE), ("other", None), ("", None), ("M", None), ("openai/m", None)],
)
def test_a_price_is_found_by_the_servers_id(model: str, found: PriceRecipe | None) -> None:
    # The server's id has no protocol before it; a table's may.
    prices = {"openai/x/m": FREE, "m": PLAIN}
    assert price_of(prices, model) == found


PRICED: Mapping[str, tuple[Usage, PriceRecipe | None, float | None]] = {
    # usage as the server told it, price by the table, cost
    "by the table": (Usage(input_tokens=10**6, output_tokens=10**5, cost_usd=None), PLAIN, 3.0),
    "cached by the table": (
        Usage(input_tokens=10**6, cached_tokens=10**6 // 2, cost_usd=None),
        CACHED,
        1.25,
    ),
    "cached without a price of its own": (
        Usage(input_tokens=10**6, cached_tokens=10**6, cost_usd=None),
        PLAIN,
        2.0,
    ),
    "cached for nothing": (
        Usage(input_tokens=10**6, cached_tokens=10**6, cost_usd=None),
        PriceRecipe(input=2, output=2, cached=0),
        0.0,
    ),
    "said by the server": (Usage(input_tokens=10**6, cost_usd=0.25), PLAIN, 0.25),
    "said to be nothing": (Usage(input_tokens=10**6, cost_usd=0.0), PLAIN, 0.0),
    "no price": (Usage(input_tokens=10**6, cost_usd=None), None, None),
    "no tokens": (Usage(requests=1, cost_usd=None), PLAIN, None),
    "free": (Usage(input_tokens=10**6, cost_usd=None), FREE, 0.0),
    # A server that counts cached tokens beside the others: never less than nothing.
    "more cached than input": (
        Usage(input_tokens=100, cached_tokens=10**6, cost_usd=None),
        PriceRecipe(input=2.0, output=2.0, cached=0.0),
        0.0002,
    ),
}


@pytest.mark.parametrize("name", PRICED)
def test_a_cost_is_the_servers_else_the_tables_else_unknown(name: str) -> None:
    usage, price, cost = PRICED[name]
    found = priced(usage, price).cost_usd
    assert found == (None if cost is None else pytest.approx(cost))


PURSES: Mapping[str, tuple[Purse, list[Usage], str]] = {
    # limits, what is paid, why nothing more may be asked
    "no limits": (Purse(), [Usage(input_tokens=10**9, cost_usd=10**6)], ""),
    "not yet": (Purse(cost_usd=1.0), [Usage(cost_usd=0.99)], ""),
    "to the cent": (Purse(cost_usd=1.0), [Usage(cost_usd=0.5)] * 2, "cost limit of $1 reached"),
    "over": (Purse(cost_usd=0.03), [Usage(cost_usd=5.0)], r"cost limit of $0.03 .*5.0000 spent"),
    "unknown costs bind nothing": (Purse(cost_usd=1.0), [Usage(cost_usd=None)] * 99, ""),
    "known ones do beside unknown": (
        Purse(cost_usd=1.0),
        [Usage(cost_usd=None), Usage(cost_usd=1.0)],
        "cost limit",
    ),
    "tokens": (
        Purse(tokens=1000),
        [Usage(input_tokens=900, output_tokens=100)],
        "limit of 1,000 tokens reached (1,000 used)",
    ),
    "cached tokens are input": (Purse(tokens=10), [Usage(input_tokens=9, cached_tokens=9)], ""),
    "tokens bind where costs are unknown": (
        Purse(cost_usd=1.0, tokens=10),
        [Usage(input_tokens=10, cost_usd=None)],
        "limit of 10 tokens",
    ),
    "spent before": (Purse(tokens=10, spent_tokens=10), [], "limit of 10 tokens"),
}


@pytest.mark.parametrize("name", PURSES)
def test_a_purse_is_empty_once_its_limit_is_reached(name: str) -> None:
    purse, paid, why = PURSES[name]
    for usage in paid:
        purse.pay(usage)
    first, _, rest = why.partition(".*")
    assert (first in purse.empty and rest in purse.empty) if why else purse.empty == ""


@pytest.mark.parametrize(
    "usage",
    [
        '{"prompt_tokens": 5, "cost": NaN}',
        '{"prompt_tokens": 5, "cost": Infinity}',
        '{"prompt_tokens": 5, "cost": -3}',
        '{"prompt_tokens": 5, "cost": true}',
        '{"prompt_tokens": 5, "cost": 1' + "0" * 400 + "}",
    ],
    ids=["nan", "inf", "negative", "true", "huge"],
)
def test_a_cost_that_is_none_is_unknown(usage: str) -> None:
    """Added up it would lift the budget of the whole run, or end it."""
    body = '{"choices": [{"message": {"content": "a"}}], "usage": ' + usage + "}"
    reading = read(Reply(200, body.encode()), "here")
    assert reading.usage is not None
    assert reading.usage.cost_usd is None
    assert reading.usage.input_tokens == 5


@pytest.mark.parametrize("tokens", [-5, "many", None, [], 0.5])
def test_a_count_that_is_none_is_not_reported(tokens: object) -> None:
    body = {"choices": [{"message": {}}], "usage": {"prompt_tokens": tokens, "cost": 0.5}}
    reading = read(Reply(200, json.dumps(body).encode()), "here")
    assert reading.usage is not None
    assert (reading.usage.input_tokens, reading.usage.cost_usd) == (0, 0.5)
