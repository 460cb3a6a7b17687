"""How the endpoint behaves: what it reports, what it takes, whether it repeats itself.

Nothing here stops a run; each says what its numbers will be worth.
"""

from __future__ import annotations

import json
import statistics
from collections import Counter
from typing import Any

from pipeline.doctor.checks import Answer, fail, ok, skipped, warn
from pipeline.doctor.dialogue import Exchange, lasted
from pipeline.doctor.endpoint import describe
from pipeline.doctor.visit import TOOL, TOOLS, Visit
from pipeline.doctor.wire import why
from pipeline.gateway.budgets import price_of

REPEATS = 10
SLOW_SECONDS = 30.0
SEED = 7
BELOW = "expect a bill below the reported cost where the endpoint keeps a cache"
TWO_CALLS = (
    f"Call the tool {TOOL} twice in this one reply: once with `echo one`, once with `echo two`."
)
FREELY = "Name one river in Europe and say in one sentence what is special about it."
"""Leaves a choice at nearly every word."""


def trouble(said: Exchange, visit: Visit) -> str:
    return (
        describe(said)
        if said.reply is not None
        else why(said, visit.base, visit.patient.environ)[0]
    )


def parallel_calls(visit: Visit) -> Answer:
    patient = visit.patient
    if not patient.calls_tools:
        return skipped(f"agent {patient.agent.name!r} is not known to need tool calls")
    said = visit.dialogue.ask(visit.base, visit.question(TWO_CALLS, tools=TOOLS))
    if not said.fine:
        return warn(f"asked for two calls, the endpoint answers {trouble(said, visit)}")
    if len(said.calls) < 2:
        return ok("one call a reply, even when asked for two")
    if patient.one_call_a_reply:
        return warn(
            f"{len(said.calls)} calls in one reply, which agent {patient.agent.name!r} takes for "
            "a mistake of the model's",
            "--set agent.options.agent.model.completion_kwargs='"
            '{"parallel_tool_calls": false, "max_retries": 0, "timeout": 3600}\'',
        )
    return ok(f"{len(said.calls)} calls in one reply; agent {patient.agent.name!r} runs them all")


def sampling(visit: Visit) -> Answer:
    """What the plan sends with every request."""
    plan = visit.patient.recipe.sampling
    wanted = {"temperature": plan.temperature, "top_p": plan.top_p}
    asked = "Reply with the one word: sampled"
    said = visit.dialogue.ask(visit.base, visit.question(asked, **wanted))
    shown = " and ".join(f"{name} {value:g}" for name, value in wanted.items())
    if said.fine:
        return ok(f"{shown} are accepted")
    visit.sampling_refused = True
    name = next((name for name in wanted if said.refuses(name)), "")
    if not name:
        return warn(f"with {shown}, the endpoint answers {trouble(said, visit)}")
    usual = visit.dialogue.ask(visit.base, visit.question(asked, **(wanted | {name: 1})))
    remedy = (
        f"--set sampling.{name}=1, which is accepted; say so where you report the result"
        if usual.fine
        else "agents send it with every request: choose another model, or an endpoint that drops it"
    )
    detail = f"{name} {wanted[name]:g} is refused, and so every request of a run would be"
    return warn(f"{detail}: {said.said}", remedy)


def seed(visit: Visit) -> Answer:
    wanted = visit.patient.recipe.sampling.seed
    value = SEED if wanted is None else wanted
    said = visit.dialogue.ask(visit.base, visit.question("Reply with: seeded", seed=value))
    if said.fine:
        return ok("seed is accepted" + (", and none is set" if wanted is None else ""))
    if wanted is None and said.refuses("seed"):
        return ok("seed is refused, and none is set")
    return warn(
        f"with seed {value}, the endpoint answers {trouble(said, visit)}",
        "leave sampling.seed out" if wanted is not None else "",
    )


def content_of(said: Exchange) -> str:
    """All that the model said, thinking included."""
    parts = ("content", "reasoning_content", "reasoning")
    return json.dumps([said.message.get(part) for part in parts])


def repeatability(visit: Visit) -> Answer:
    if visit.sampling_refused:
        return skipped("the endpoint does not take the plan's sampling")
    fixed: dict[str, Any] = {"temperature": 0, "top_p": 1}
    if visit.patient.recipe.sampling.seed is not None:
        fixed["seed"] = visit.patient.recipe.sampling.seed
    said = visit.dialogue.ask_often(visit.base, visit.question(FREELY, **fixed), REPEATS)
    texts = [content_of(item) for item in said if item.fine]
    if len(texts) < 2:
        return warn(
            f"{len(texts)} of {REPEATS} prompts at a time were answered: {trouble(said[0], visit)}"
        )
    [(_, most)] = Counter(texts).most_common(1)
    lost = f"; {REPEATS - len(texts)} of {REPEATS} were not answered" if len(texts) < 10 else ""
    if most == len(texts) and not lost:
        return ok(f"{most} identical prompts at temperature 0, {most} identical answers")
    if most == len(texts):
        return warn(f"{most} identical answers at temperature 0{lost}")
    return warn(
        f"{len(texts) - most} of {len(texts)} differ at temperature 0 from the commonest answer"
        f"{lost}",
        "a single attempt is a sample: ask for several (--set attempts=3) and read the interval",
    )


def streaming(visit: Visit) -> Answer:
    options = {"stream": True, "stream_options": {"include_usage": True}}
    said = visit.dialogue.stream(visit.base, visit.question("Reply with: streamed", **options))
    if said.refuses("stream_options"):
        plain = visit.question("Reply with: streamed", stream=True)
        said = visit.dialogue.stream(visit.base, plain)
    if not said.fine:
        return warn(f"asked for a stream, the endpoint answers {trouble(said, visit)}")
    if said.first_seconds is None:
        return warn("a stream was asked for, and the answer came whole", "agents do without")
    if not isinstance(said.usage.get("completion_tokens"), int):
        return warn(
            "works, but without usage in its last chunk: what a streamed reply cost is not known",
            "use agents that do not stream; miniswe and sweagent do not",
        )
    return ok(
        f"works, with usage in its last chunk; first words after {lasted(said.first_seconds)}"
    )


def unstreamed(visit: Visit) -> list[Exchange]:
    return [said for said in visit.dialogue.completions if said.first_seconds is None]


def usage(visit: Visit) -> Answer:
    whole = unstreamed(visit)
    names = ("prompt_tokens", "completion_tokens")
    counted = [said for said in whole if all(isinstance(said.usage.get(n), int) for n in names)]
    if len(counted) == len(whole):
        return ok("tokens are reported with every answer")
    return fail(
        f"tokens are reported with {len(counted)} of {len(whole)} answers",
        "token and dollar limits cannot hold; let limits.steps and limits.seconds do it",
    )


def cached_tokens(visit: Visit) -> Answer:
    reports = [said.usage.get("prompt_tokens_details") for said in visit.dialogue.completions]
    found = [r["cached_tokens"] for r in reports if isinstance(r, dict) and "cached_tokens" in r]
    counts = [count for count in found if isinstance(count, int)]
    if counts:
        return ok(f"reported; {max(counts)} at most in these small prompts")
    others = ("prompt_cache_hit_tokens", "cache_read_input_tokens", "cached_tokens")
    named = [n for n in others if any(n in said.usage for said in visit.dialogue.completions)]
    if named:
        return warn(
            f"reported as {named[0]}, which is not counted: all input is priced in full", BELOW
        )
    return warn("not reported: all input is counted, and priced, in full", BELOW)


def price(visit: Visit) -> Answer:
    """Whether a limit in dollars can hold."""
    recipe = visit.patient.recipe
    costs = [said.usage.get("cost") for said in unstreamed(visit)]
    if costs and all(isinstance(cost, int | float) for cost in costs):
        return ok("the endpoint reports what each request cost: dollar limits hold")
    if price_of(recipe.model.prices, recipe.model.server_id) is not None:
        return ok("known from model.prices: dollar limits hold")
    limits = {
        "limits.cost_usd": recipe.limits.cost_usd,
        "budget.cost_usd": recipe.budget.cost_usd,
    }
    set_ = [name for name, value in limits.items() if value]
    if not set_:
        return ok("unknown, and no limit in dollars is set: costs will read as unknown")
    return warn(
        f"unknown: {' and '.join(set_)} cannot hold, costs will read as unknown",
        f"write it down: model: {{prices: {{{recipe.model.server_id}: "
        "{input: 1.0, output: 2.0}}} in dollars a million tokens; or set limits.tokens",
    )


def latency(visit: Visit) -> Answer:
    seconds = [said.seconds for said in unstreamed(visit)]
    median = statistics.median(seconds)
    detail = f"{lasted(median)}, the median of {len(seconds)} small answers"
    if median > SLOW_SECONDS:
        steps = visit.patient.recipe.limits.steps or 75
        return warn(
            f"{detail}: {steps} steps take {median * steps / 60:.0f} minutes and more",
            "raise limits.seconds, or ask for less at a time (execution.agent_workers)",
        )
    return ok(detail)
