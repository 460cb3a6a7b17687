"""Say which failure stopped a try: its remedy, and the endpoint's own words."""

from __future__ import annotations

from pipeline.doctor.checks import Answer, fail
from pipeline.doctor.dialogue import Exchange, excerpt, lasted, raw
from pipeline.doctor.endpoint import SERVE_TOOLS, advise, describe, listed_at, no_call, remedy_for
from pipeline.doctor.troubles import REMEDY, Trouble, figure_in, trouble_of
from pipeline.doctor.tryout import Tryout
from pipeline.doctor.visit import Visit
from pipeline.domain import Fault
from pipeline.wording import count

IN_WORDS = (
    "; or let it act in words: --set agent.options.config=mini_textbased.yaml "
    "--set agent.options.model.model_class=litellm_textbased"
)
ONE_BLOCK = (
    "this config takes actions as text, one ```mswea_bash_command block a reply: choose a model "
    "that keeps to it, or one with tool calls and leave agent.options out"
)


def tried(visit: Visit) -> Tryout:
    assert visit.tryout is not None
    return visit.tryout


def broken(visit: Visit, number: int) -> Answer:
    """A request that brought no completion: which of the classic failures it is."""
    found, recipe = tried(visit), visit.patient.recipe
    said = found.turns[number - 1]
    trouble, name = trouble_of(said), recipe.model.server_id
    answered = describe(said) if said.reply is not None else fault_in(said)
    told = f"request {number} is answered {answered}"
    if said.reply is None:
        told = f"request {number} brings no answer: {answered}"
    if trouble is Trouble.KEY:
        told = f"the key in {recipe.model.key_variable} is refused: {told}"
    elif trouble is Trouble.ADDRESS:
        told = f"nobody serves {visit.base}/chat/completions: {told}"
    elif trouble is Trouble.MODEL:
        listed = listed_at(visit, visit.base)
        if listed and name not in listed:
            advice = advise(recipe.model.name, name, listed)
            return fail(advice.detail, advice.remedy, raw=raw(said))
        told = f"{name!r} is not known: {told}"
    elif trouble is Trouble.SILENCE:
        told = silence(found, number, answered)
    elif trouble is Trouble.FIGURES:
        told = f"the config asks for {figure_in(said)}, which the endpoint does not give: {told}"
    elif trouble is Trouble.WINDOW:
        told = f"the model's window is too small: {told}"
    remedy = REMEDY[trouble].format(
        variable=recipe.model.key_variable, figure=figure_in(said) or "logprobs"
    )
    if trouble is Trouble.OTHER:
        remedy = remedy_for(said, visit)
    return fail(told, remedy, raw=raw(said))


def silence(found: Tryout, number: int, answered: str) -> str:
    """A time-out, with what was well before it."""
    said = found.turns[number - 1]
    long = count(len(said.request.get("messages") or ()), "message")
    text = f"request {number}, of {long}, timed out after {lasted(said.seconds)} ({answered})"
    if number == 1:
        return text
    first = lasted(found.turns[0].seconds)
    return f"{text}; the first was answered after {first}, so it is the longer conversation"


def fault_in(said: Exchange) -> str:
    ending = said.reading.ending if said.reading is not None else None
    return excerpt(ending.detail) if isinstance(ending, Fault) else "nothing is known of it"


def see_log(found: Tryout) -> str:
    return f"look into {found.files}/agent.log" if found.files else ""


def inactive(visit: Visit, said: Exchange) -> Answer:
    """A reply in which there is nothing to do."""
    patient = visit.patient
    if said.starved or (said.choice.get("finish_reason") == "length" and not said.calls):
        detail = "its tokens ran out before it said what to do (finish_reason: length)"
        remedy = "let it think less, or give it room: raise sampling.max_tokens if it is set"
        return fail(detail, remedy, raw=raw(said))
    if not patient.calls_tools:
        text = excerpt(said.text, 120)
        detail = f"no action can be read in: {text!r}" if text else "the reply is empty"
        return fail(detail, ONE_BLOCK if patient.agent.name == "miniswe" else "", raw=raw(said))
    detail = no_call(said, patient.agent.name) or "the agent could not read the call that came"
    words = IN_WORDS if patient.on_terminal and patient.agent.name == "miniswe" else ""
    return fail(detail, f"{SERVE_TOOLS}{words}", raw=raw(said))
