"""Say why a bill asks another price for the same tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from pipeline.domain import Usage
from pipeline.reconcile.figures import Figures, many, money
from pipeline.reconcile.findings import Finding, Kind
from pipeline.reconcile.pairing import How, Pair

NOISE_USD = 1e-9
"""Of sums of floating-point numbers."""
NEAR = 0.02
MILLION = 1_000_000
COMPARED = (How.ID, How.TOKENS, How.UNCACHED)

Floats = NDArray[np.float64]


def parts(usages: Sequence[Usage]) -> Floats:
    """Input that was not cached, cached input, output: what a price has three parts for."""
    rows = [(u.input_tokens - u.cached_tokens, u.cached_tokens, u.output_tokens) for u in usages]
    return np.array(rows, dtype=np.float64)


def vector(values: Sequence[float]) -> Floats:
    return np.array(values, dtype=np.float64)


def prices(tokens: Floats, costs: Floats, tolerance: float) -> Floats | None:
    """The three prices a token that give these costs; None: no such prices, or too few lines."""
    if len(tokens) < 3 or np.linalg.matrix_rank(tokens) < 3:
        return None
    found: Floats = np.linalg.lstsq(tokens, costs, rcond=None)[0].astype(np.float64)
    fits = bool(np.all(np.abs(tokens @ found - costs) <= tolerance + NEAR * np.abs(costs)))
    return found if fits and bool(np.all(found >= -NOISE_USD)) else None


def of_time_alone(pairs: Sequence[Pair], step_usd: float) -> Iterator[Finding]:
    """Pairs that no tokens tell apart: the sum is certain, a single line is not."""
    priced = [
        (pair.entry.cost_usd, pair.request.usage.cost_usd if pair.request.usage else None)
        for pair in pairs
        if pair.how is How.TIME and pair.entry.cost_usd is not None
    ]
    ours = [cost for _, cost in priced if cost is not None]
    if not priced or len(ours) < len(priced):
        return
    billed = sum(cost for cost, _ in priced)
    apart = billed - sum(ours)
    if abs(apart) > (step_usd + NOISE_USD) * len(priced):
        text = (
            f"{many(len(priced), 'request')} cost {money(billed)} on the bill and "
            f"{money(sum(ours))} on the tapes; the bill has no tokens that would say why"
        )
        figures = Figures(requests=len(priced), cost_usd=apart)
        yield Finding(kind=Kind.COST_DIFFERS, text=text, figures=figures)


def compared(pairs: Sequence[Pair]) -> list[tuple[Usage, float]]:
    """Pairs of the same tokens for which the bill has a price."""
    return [
        (pair.request.usage, pair.entry.cost_usd)
        for pair in pairs
        if pair.how in COMPARED
        and pair.request.usage is not None
        and pair.entry.cost_usd is not None
    ]


def of_costs(pairs: Sequence[Pair], step_usd: float) -> Iterator[Finding]:
    """Where bill and tapes agree on the tokens: how their costs differ, and why."""
    yield from of_time_alone(pairs, step_usd)
    priced = compared(pairs)
    known = [(usage, cost) for usage, cost in priced if usage.cost_usd is not None]
    if len(known) < len(priced):
        missing = [cost for usage, cost in priced if usage.cost_usd is None]
        yield Finding(
            kind=Kind.PRICE_UNKNOWN,
            text=f"the tapes know no price of {many(len(missing), 'request')}; the bill asks "
            f"{money(sum(missing))} for them (model.prices in the config gives the tapes one)",
            figures=Figures(requests=len(missing), cost_usd=sum(missing)),
        )
    if not known:
        yield from full_price_alone(priced, step_usd)
        return
    tokens = parts([usage for usage, _ in known])
    ours = vector([usage.cost_usd or 0.0 for usage, _ in known])
    billed = vector([cost for _, cost in known])
    apart = billed - ours
    tolerance = step_usd + NOISE_USD
    differing = np.abs(apart) > tolerance
    figures = Figures(requests=int(differing.sum()), cost_usd=float(apart[differing].sum()))
    if not differing.any():
        total = float(apart.sum())
        if abs(total) > len(known) * NOISE_USD:
            yield Finding(
                kind=Kind.ROUNDING,
                text=f"costs differ by {money(total)} over {many(len(known), 'request')}, each by "
                f"no more than the bill's last decimal ({step_usd:g}): rounding",
                figures=Figures(requests=len(known), cost_usd=total),
            )
        return
    text = cached_in_full(tokens, ours, apart, tolerance)
    if text:
        yield Finding(kind=Kind.CACHED_IN_FULL, text=text, figures=figures)
        return
    text = another_price(ours, billed, tolerance)
    if text:
        yield Finding(kind=Kind.OTHER_PRICE, text=text, figures=figures)
        return
    yield Finding(
        kind=Kind.COST_DIFFERS,
        text=f"{many(int(differing.sum()), 'request')} of {len(known):,} cost "
        f"{money(float(billed[differing].sum()))} on the bill and "
        f"{money(float(ours[differing].sum()))} on the tapes, for the same tokens, and neither "
        "cached tokens nor one factor explain it: compare model.prices with the bill's",
        figures=figures,
    )


def cached_in_full(tokens: Floats, ours: Floats, apart: Floats, tolerance: float) -> str:
    """Whether the difference grows with cached tokens, and with nothing else."""
    cached = tokens[:, 1]
    if (cached > 0).sum() < 2:
        return ""
    more = float(apart @ cached / (cached @ cached))
    rest = np.abs(apart - more * cached)
    if more <= 0 or not bool(np.all(rest <= tolerance + NEAR * np.abs(apart))):
        return ""
    text = (
        f"the bill asks {money(more * MILLION)} more for each million cached tokens than the "
        f"tapes do, {money(float(apart.sum()))} for {int(cached.sum()):,}"
    )
    fitted = prices(tokens, ours, tolerance)
    if fitted is not None and abs(fitted[0] - fitted[1] - more) <= NEAR * fitted[0]:
        return f"{text}: exactly what uncached ones cost; cached tokens are priced in full"
    return f"{text}: cached tokens are priced in full, or at a smaller discount"


def another_price(ours: Floats, billed: Floats, tolerance: float) -> str:
    """Whether every line is dearer, or cheaper, by the same factor."""
    if len(ours) < 2 or not float(ours @ ours):
        return ""
    factor = float(billed @ ours / (ours @ ours))
    rest = np.abs(billed - factor * ours)
    if not bool(np.all(rest <= tolerance + NEAR / 2 * np.abs(billed))):
        return ""
    if factor < NEAR / 2:
        return f"the bill asks nothing for {many(len(ours), 'request')}: free, or billed elsewhere"
    return (
        f"the bill asks {factor:.4g} times what the tapes do for every request: a fee, a discount "
        "or another currency, or other prices than model.prices in the config"
    )


def full_price_alone(priced: Sequence[tuple[Usage, float]], step_usd: float) -> Iterator[Finding]:
    """Without any price on the tapes: what the bill's own costs say of cached tokens."""
    if not priced:
        return
    tokens = parts([usage for usage, _ in priced])
    billed = vector([cost for _, cost in priced])
    fitted = prices(tokens, billed, step_usd + NOISE_USD)
    cached = float(tokens[:, 1].sum())
    if fitted is None or not cached or fitted[1] < (1 - NEAR) * fitted[0]:
        return
    yield Finding(
        kind=Kind.CACHED_IN_FULL,
        text=f"the bill asks {money(float(fitted[0]) * MILLION)} for a million input tokens, "
        f"cached or not: the {int(cached):,} cached tokens are priced in full",
        figures=Figures(requests=len(priced), cost_usd=float(fitted[1]) * cached),
    )
