"""Whether the agent's first small try got through, step by step.

The first check makes a try; each reads one step of it off its tape and its trajectory.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pipeline.config import TRAINERS
from pipeline.doctor.checks import Answer, fail, note, ok, skipped, unknown, warn
from pipeline.doctor.dialogue import Exchange, excerpt, lasted
from pipeline.doctor.failures import broken, inactive, see_log, tried
from pipeline.doctor.troubles import Trouble, trouble_of
from pipeline.doctor.visit import Visit
from pipeline.domain import Cause, Fault, Stop
from pipeline.wording import count

SAID = "passone-ok"
"""What the one command prints."""
MOST_WORDS = 800
"""Of a build that failed, in characters."""
STEPS = 4
"""Of the agent, at most."""
PLACES: dict[Cause, str] = {
    Cause.IMAGE: "mend its Dockerfile or its image's name, or leave it out: "
    "--set selection.exclude=[{id}]",
    Cause.SANDBOX: "see that Docker is well (docker info), and try again",
    Cause.INSTANCE: "put its files back, or leave it out: --set selection.exclude=[{id}]",
    Cause.DISK: "make room: docker system df",
}
"""Causes that lie where the agent works, and what to do about them."""
BLOCK = re.compile(r"```.*?```", re.DOTALL)
ENOUGH = (
    "an evaluation needs none of it; to train on it, ask for it: "
    "--set agent.options.model.model_kwargs.logprobs=true"
)
NOT_OURS = "how a training goes is the trainer's business: look there, not at this endpoint"


def container(visit: Visit) -> Answer:
    """Make the try, and see whether it had a place."""
    assert visit.patient.try_out is not None
    visit.tryout = found = visit.patient.try_out()
    value = found.value
    if isinstance(value, Fault) and value.cause in PLACES:
        remedy = PLACES[value.cause].format(id=found.instance_id)
        return fail(f"{found.instance_id}: {excerpt(value.detail, MOST_WORDS)}", remedy)
    if not visit.patient.agent.asks_model:
        return ok(f"agent {visit.patient.agent.name!r} needs none")
    if found.place == "local":
        return ok(f"{found.instance_id}, in the local sandbox")
    return ok(f"{found.instance_id} started, from {found.image}")


def request(visit: Visit) -> Answer:
    """Whether the agent's own first request is answered by whom it is meant for."""
    found = tried(visit)
    if not found.turns:
        said = found.value.detail if isinstance(found.value, Fault) else "it left at once"
        agent = visit.patient.agent.name
        return fail(f"agent {agent!r} asked nothing: {excerpt(said)}", see_log(found))
    first = found.turns[0]
    replies = visit.patient.recipe.model.replies
    if replies and first.fine:
        return ok(f"reaches the gateway, where scripted replies ({replies}) answer it")
    if not first.fine and trouble_of(first) not in (Trouble.MODEL, Trouble.FIGURES):
        return broken(visit, 1)
    again = f" ({count(found.again[0], 'sending')} before it failed)" if found.again[0] else ""
    return ok(
        f"arrives: {visit.base}/chat/completions answers {first.status} after "
        f"{lasted(first.seconds)}{again}"
    )


def model(visit: Visit) -> Answer:
    """Whether the model is known to who answers the agent."""
    first, recipe = tried(visit).turns[0], visit.patient.recipe.model
    if recipe.replies:
        return note("scripted replies stand in for one")
    if first.fine:
        name = first.tree.get("model") if isinstance(first.tree, dict) else None
        other = isinstance(name, str) and name not in ("", recipe.server_id)
        calls = f", and calls itself {excerpt(str(name), 80)!r}" if other else ""
        return ok(f"{recipe.server_id!r} answers{calls}")
    return broken(visit, 1) if trouble_of(first) is Trouble.MODEL else skipped("needs figures")


def action(visit: Visit) -> Answer:
    """Whether the agent finds something to do in a reply. Its own reading counts, not ours."""
    found = tried(visit)
    fine = [said for said in found.turns if said.fine]
    acted = found.acted
    if acted:
        text = f"the reply parses into: {excerpt(acted[0].action, 100)}"
        silent = len(fine) - len(acted)
        if silent > 0:
            return warn(f"{text}; but {silent} of {count(len(fine), 'reply', 'replies')} held none")
        return ok(text)
    submitted = not isinstance(found.value, Fault) and found.value.stop is Stop.SUBMITTED
    if not found.steps and submitted:
        return unknown(f"agent {visit.patient.agent.name!r} leaves no steps that passone can read")
    return inactive(visit, fine[0])


def thought_of(said: Exchange) -> str:
    """What stands beside an action; reasoning counts."""
    parts = [BLOCK.sub("", said.text)]
    parts += [str(said.message.get(name) or "") for name in ("reasoning_content", "reasoning")]
    return next((part for part in parts if part.strip()), "")


def thought(visit: Visit) -> Answer:
    """Whether what the model thinks is in the trajectory, and goes back to it."""
    found = tried(visit)
    if not found.steps:
        return unknown("there are no steps")
    said = next((text for one in found.turns if one.fine and (text := thought_of(one))), "")
    if not said:
        return warn(
            "no thought came with the action: the model wrote none, or its server took it out",
            "agents work without; to keep it, let the server give it back (vLLM: the "
            "--reasoning-parser of this model)",
        )
    shown = repr(excerpt(said, 80))
    if not any(step.thought.strip() for step in found.steps):
        return warn(f"{shown} stands on the tape alone, not in the agent's trajectory")
    if found.history == "reasoning_dropped":
        return warn(
            f"{shown} is in the trajectory, but the agent does not send the reasoning back",
            "evaluations work so; for training see `reasoning_dropped` in docs/rollouts.md",
        )
    back = ", and goes back with the next request" if found.history == "linear" else ""
    return ok(f"kept: {shown} is in the trajectory{back if len(found.turns) > 1 else ''}")


def observation(visit: Visit) -> Answer:
    """Whether what a command prints comes back to the agent, and from there to the model."""
    found = tried(visit)
    if not found.steps:
        return unknown("there are no steps")
    seen = [step.observation for step in found.steps if step.observation.strip()]
    if not seen:
        if isinstance(found.value, Fault) or len(found.turns) > 1:
            return fail("nothing came back from the container", see_log(found))
        return unknown("the model ended with its first action")
    if visit.patient.recipe.model.replies:
        return ok(f"came back: {excerpt(seen[0], 100)}")
    if not any(SAID in text for text in seen):
        text = excerpt(seen[0], 100)
        return warn(f"the model did not run what it was asked to; this came back: {text}")
    if found.told and SAID not in found.told:
        return warn(f"{SAID} came back, but the next request does not hold it")
    next_one = ", and stands in the next request" if found.told else ""
    return ok(f"{SAID} came back from the container{next_one}")


def next_turn(visit: Visit) -> Answer:
    """Whether the conversation goes on."""
    found = tried(visit)
    if len(found.turns) < 2:
        return unknown("the agent asked only once")
    for number, said in enumerate(found.turns[1:], start=2):
        if not said.fine and trouble_of(said) is not Trouble.FIGURES:
            return broken(visit, number)
    last = found.turns[-1]
    long = len(last.request.get("messages") or ())
    tokens = last.usage.get("prompt_tokens")
    size = f", {tokens:,} tokens" if isinstance(tokens, int) else ""
    return ok(
        f"request {len(found.turns)}, of {count(long, 'message')}{size}, is answered after "
        f"{lasted(last.seconds)}"
    )


def figures(visit: Visit) -> Answer:
    """What only training needs: refused it is in the way, absent it is nobody's fault."""
    found = tried(visit)
    for number, said in enumerate(found.turns, start=1):
        if not said.fine and trouble_of(said) is Trouble.FIGURES:
            return broken(visit, number)
    if visit.patient.recipe.model.replies:
        return note("scripted replies have none")
    if not found.replies:
        return unknown("no reply could be read as `passone rollouts` would")
    columns = {"token counts": "output_tokens", "logprobs": "logprobs", "token ids": "token_ids"}
    lacking = [
        name
        for name, column in columns.items()
        if any(reply[column] is None for reply in found.replies)
    ]
    theirs = sorted({name for said in found.turns for name in names_in(said.tree) & TRAINERS})
    odd = any(None in (reply["logprobs"] or ()) for reply in found.replies)
    parts = [f"not in the replies: {', '.join(lacking)}; `passone rollouts` has null there"]
    parts = (parts if lacking else []) + ["some logprobs are no numbers"] * odd
    if theirs:
        parts.append(f"in the replies stand a trainer's numbers: {', '.join(theirs)}")
    if not parts:
        return ok("token counts, logprobs and token ids come with every reply, for who trains")
    remedies = [ENOUGH] * ("logprobs" in lacking) + [NOT_OURS] * bool(theirs or odd)
    return note("; ".join(parts), "; ".join(remedies))


def names_in(tree: Any) -> set[str]:
    """Keys of a reply, of its usage and of its first choice."""
    if not isinstance(tree, Mapping):
        return set()
    choices = tree.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    trees = [tree, tree.get("usage"), tree.get("metrics"), first]
    return {str(key).lower() for item in trees if isinstance(item, Mapping) for key in item}


ENDED: dict[Stop, str] = {
    Stop.GAVE_UP: "the model gave up",
    Stop.STEP_LIMIT: f"the model did not submit within {STEPS} steps",
    Stop.COST_LIMIT: "limits.cost_usd or limits.tokens was reached",
    Stop.TIME_LIMIT: "its time was over",
    Stop.CONTEXT_LIMIT: "the model's window is full",
    Stop.MALFORMED: "the model's replies could not be read any more",
    Stop.REFUSED: "the model refused so small a task",
}


def end(visit: Visit) -> Answer:
    found = tried(visit)
    value = found.value
    if isinstance(value, Fault):
        return fail(f"{value.cause} fault: {excerpt(value.detail)}", see_log(found))
    if not visit.patient.agent.asks_model:
        return ok("nothing to try out: `passone run` grades it")
    if value.stop in ENDED:
        return warn(f"{value.stop}: {ENDED[value.stop]}", "look at the steps below")
    handed = "; its container was handed in" if visit.patient.on_terminal and found.turns else ""
    return ok(f"submitted after {count(len(found.steps), 'step')}{handed}")
