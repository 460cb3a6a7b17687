"""Say what a plan comes to: one sentence, its reason, and what was supposed on the way."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.planner.basis import FEW, Basis, Spread
from pipeline.planner.choices import VERIFIED, Choice, pick
from pipeline.planner.facts import facts, waiting_hours
from pipeline.planner.question import Question
from pipeline.stats import attempts_until_decided, no_success_bound
from pipeline.stats.paired import least_flips
from pipeline.wording import count


def points(value: float) -> str:
    """Of 0.05, `5.0`: what is a hundredth of a rate is a point."""
    return f"{100 * value:.1f}"


def aim(question: Question, reach: float) -> str:
    if question.power is None:
        return f"± {points(reach)} points"
    return f"a difference of {points(reach)} points (power {question.power:g})"


def named(choice: Choice) -> str:
    return f"{choice.instances} × {choice.k}"


def stopped(binds: Sequence[str]) -> str:
    """What has no room for one instance more."""
    if tuple(binds) == ("Verified",):
        return f"Verified has no more than {VERIFIED}"
    limits = " and ".join(f"--{name}" for name in binds)
    return f"{limits} {'leaves' if len(binds) == 1 else 'leave'} no room for more"


def recommendation(question: Question, choices: Sequence[Choice]) -> str:
    """What to take, and why, in a few sentences.

    Args:
        choices: as `offers` makes them, at least one.
    """
    chosen = pick(choices)
    if chosen is None:
        least = min(choices, key=lambda choice: choice.k)
        return f"Nothing can be had: {stopped(least.binds)} than none, even at 1 × {least.k}."
    assert chosen.reach is not None
    what = named(chosen) + (" for both models" if question.models > 1 else "")
    reached = aim(question, chosen.reach)
    if chosen.answers:
        first = f"Take {what}: {reached}."
    elif question.target is None:
        first = f"Take {what}: {reached}; {stopped(chosen.binds)}."
    else:
        least = min(choices, key=lambda choice: choice.k)
        wanted = aim(question, question.target)
        wanted = wanted[0].upper() + wanted[1:]
        why = f"needs {least.needed} × {least.k}, and {stopped(least.binds)}"
        if beyond_verified(choices):
            why = f"cannot be had within the {VERIFIED} instances of Verified"
        first = f"{wanted} {why}; what can be had is {what}: {reached}."
    return f"{first} {reason(question, choices, chosen)}".strip()


def beyond_verified(choices: Sequence[Choice]) -> bool:
    return all(choice.needed is not None and choice.needed > VERIFIED for choice in choices)


def reason(question: Question, choices: Sequence[Choice], chosen: Choice) -> str:
    """Why these instances and these attempts, in figures."""
    if not question.split:
        return "What further attempts bring is not known here, so instances come first."
    n, k = chosen.instances, chosen.k
    if k == 1:
        fewer = n // 3
        if fewer < 2:
            return ""
        return (
            f"More instances before more attempts: {3 * fewer} × 1 comes to "
            f"{elsewhere(question, chosen, 3 * fewer, 1)}, {fewer} × 3, as many attempts, to "
            f"{elsewhere(question, chosen, fewer, 3)}; attempts divide only the variance within "
            f"instances ({sum(question.within):.3f}), instances that between them "
            f"({question.between:.3f}) too."
        )
    if len(choices) > 1:
        return (
            f"Attempts are what is left, since {stopped(chosen.binds)}: {n} × 1, with 1/{k} of the "
            f"attempts, comes to {elsewhere(question, chosen, n, 1)}."
        )
    if n * k > VERIFIED:
        return f"{n} × 1 comes to {elsewhere(question, chosen, n, 1)}."
    spread = elsewhere(question, chosen, n * k, 1)
    return f"As many attempts, {n * k} × 1, come to {spread}."


def elsewhere(question: Question, chosen: Choice, instances: int, k: int) -> str:
    """What other numbers come to, if as many of their attempts count."""
    assert chosen.reach is not None
    kept = (question.reach(chosen.instances, chosen.k) / chosen.reach) ** 2
    return aim(question, question.reach(instances * kept, k))


def spread_of(spread: Spread | None, form: str, name: str) -> str:
    if spread is None:
        return f"{name} not known"
    mean, median, p90 = (form.format(value) for value in (spread.mean, spread.median, spread.p90))
    return f"{mean} {name} (median {median}, p90 {p90})"


def rests_on(basis: Basis) -> list[str]:
    """What a plan rests on, in two lines."""
    known = basis.outcomes
    parts = (
        f"variance {known.between:.4f} between instances, {known.within:.4f} within"
        if known.split
        else f"variance {known.total:.4f}, not to be told apart"
    )
    lost = f", {100 * basis.infra:.0f} % infra" if basis.recorded else ""
    tries = "" if basis.tries is None else f", {basis.tries:.2f} tries an attempt"
    first = (
        f"{basis.source}: {count(basis.instances, 'instance')} × {basis.attempts:.3g}, "
        f"pass@1 {points(known.rate)} %, {parts}{lost}{tries}"
    )
    scoring = (
        "scoring not known"
        if basis.scoring_seconds is None
        else f"{basis.scoring_seconds:.0f} s of scoring"
    )
    second = "an attempt, on average: " + " · ".join(
        (
            spread_of(basis.tokens, "{:,.0f}", "tokens"),
            spread_of(basis.dollars, "{:.2f}", "dollars"),
            spread_of(basis.agent_seconds, "{:.0f}", "s of the agent"),
            scoring,
        )
    )
    workers = f"{basis.agent_workers} agents and {basis.scorer_workers} scorers at work"
    return [first, f"{second}; {workers}"]


def notes(question: Question, bases: Sequence[Basis], chosen: Choice | None) -> list[str]:
    """What was supposed, and what to know of the choice."""
    said = list(dict.fromkeys(text for basis in bases for text in caveats(basis)))
    if question.supposed:
        said.append(f"supposed: {question.supposed}")
    if chosen is None:
        return said
    if waiting := waiting_hours(chosen.cost.pulls):
        registry = facts()["registry"]
        said.append(
            f"{chosen.cost.pulls} pulls from Docker Hub without an account wait {waiting} h "
            f"({registry['anonymous']} in {registry['hours']} h; a free account "
            f"{registry['personal']}; {registry['source']})"
        )
    if 0 < chosen.instances < FEW:
        said.append(few(chosen.instances))
    return said


def few(instances: int) -> str:
    """What so few instances can show, and what they cannot."""
    bound, flips = f"{100 * no_success_bound(instances):.0f} %", least_flips()
    noun = "instance" if instances == 1 else "instances"
    none = f"{instances} {noun}: with none resolved pass@1 may still be {bound}"
    if instances < flips:
        return (
            f"{none}, and no two models can be told apart, since {flips} must differ one way for "
            "p < .05; it shows that the pipe is connected"
        )
    return f"{none}, and two models are told apart (p < .05) if {flips} differ, all of them one way"


def saving(basis: Basis) -> str:
    """What the recorded attempts would have come to, had they stopped once a vote was decided."""
    k = max(map(len, basis.groups.values()), default=0)
    if k < 3:
        return ""
    least = (k + 1) // 2
    resolved = [round(sum(group)) for group in basis.groups.values() if len(group) == k]
    share = sum(attempts_until_decided(k, r, least) for r in resolved) / (k * len(resolved))
    return (
        f"the same votes of {k} take {100 * share:.0f} % of these attempts where they stop once "
        f"decided: attempts: {{min: {least}, max: {k}, stop: decided}}; pass@1 is of {least} then"
    )


def caveats(basis: Basis) -> list[str]:
    """What to know of a basis before leaning on it."""
    said = []
    if basis.pending:
        said.append(f"partial: attempts of {basis.source} that are not over yet: {basis.pending}")
    if basis.outcomes.supposed:
        said.append(f"supposed: {basis.outcomes.supposed}")
    if basis.recorded and basis.instances < FEW:
        size = count(basis.instances, "instance")
        said.append(f"{basis.source} has {size}: its variance is itself known roughly")
    if basis.recorded and (said_of := saving(basis)):
        said.append(said_of)
    if not basis.verified:
        said.append(f"{basis.source} was not drawn from Verified: its figures need not hold there")
    if basis.lost:
        said.append(
            f"{100 * basis.lost:.0f} % of its attempts count for nobody: so many more instances "
            "are planned"
        )
    if basis.agent_seconds is not None and basis.scoring_seconds is None:
        said.append("hours are the agents' alone: scoring comes on top")
    if not basis.recorded:
        said += [
            f"outcomes: {facts()['outcomes']['source']}",
            f"an attempt: {facts()['attempt']['source']}",
        ]
    said.append(f"images: {facts()['images']['source']}")
    return said
