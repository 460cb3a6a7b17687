"""Whether the endpoint is there, takes the key, knows the model, answers, and calls a tool.

These decide: a run cannot work where one of them fails.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pipeline.doctor import addresses
from pipeline.doctor.addresses import MOST_NAMES
from pipeline.doctor.checks import Answer, fail, ok, skipped, unknown, warn
from pipeline.doctor.dialogue import Exchange, excerpt, is_refusal, lasted, raw
from pipeline.doctor.troubles import MODEL, NO_ROUTE, REFUSED_KEY, REMEDY, Trouble, unserved
from pipeline.doctor.visit import TOOL, Visit
from pipeline.doctor.wire import why
from pipeline.domain import Stop
from pipeline.gateway.upstream import is_plain

UNPARSED = re.compile(r"<tool_call|<function|\[TOOL_CALLS\]|```(bash|sh|json)|\"name\"\s*:")
"""A tool call that the server left in the text."""
SECOND_CALL = (
    f"You have one tool, {TOOL}. Use it now: run `echo passone-ok`. "
    "Do not answer in words; only a tool call counts."
)
SERVE_TOOLS = (
    "serve the model with tool calls on (vLLM: --enable-auto-tool-choice and the "
    "--tool-call-parser of this model), or choose a model that has them"
)


def speaks(said: Exchange) -> bool:
    """Whether somebody speaks our protocol there, be it to refuse."""
    if said.reply is None or 300 <= said.status < 400:
        return False
    if said.status in NO_ROUTE:
        # Without a path in it, for a route may have the word in its name.
        return isinstance(said.tree, dict) and MODEL.search(said.words) is not None
    return said.status >= 400 or isinstance(said.tree, dict)


def lives(visit: Visit, base: str) -> bool:
    """The same, where a bare 404 may be about the model: then a list of models tells."""
    return speaks(visit.opening(base)) or listed_at(visit, base) is not None


def listed_at(visit: Visit, base: str) -> list[str] | None:
    """The ids of the models that are served there; None: no list is."""
    page = visit.dialogue.get(base, "/models")
    return ids_of(page.tree) if page.status == 200 else None


def describe(said: Exchange) -> str:
    """An answer that is none, in a few words."""
    assert said.reply is not None
    if 300 <= said.status < 400:
        return f"{said.status}, to {excerpt(said.reply.headers.get('location', 'nowhere'))}"
    kind = said.reply.headers.get("content-type", "").partition(";")[0]
    if said.tree is None and ("html" in kind or said.reply.content.lstrip()[:1] == b"<"):
        return f"{said.status} with a web page"
    return f"{said.status}: {said.said}" if said.said else f"{said.status} without a word"


def address(visit: Visit) -> Answer:
    """Ask at the base URL; where nobody speaks there, where somebody else on the host does."""
    base = visit.written_base
    said = visit.opening(base)
    if said.reply is None:
        detail, remedy = why(said, base, visit.patient.environ)
        return fail(detail, remedy)
    if lives(visit, base):
        visit.base = base
        return ok(f"{base}/chat/completions answers")
    trouble = f"{base}/chat/completions answers {describe(said)}"
    moved = redirected(said, base)
    others = addresses.candidates(base)
    for other in [*moved, *others]:
        if lives(visit, other):
            visit.base = other
            return fail(
                f"{trouble}; {other}/chat/completions is the one that answers",
                f"--set model.base_url={other} (what follows was looked at there)",
                blocks=False,
                raw=raw(said),
            )
    tried = ", ".join(url.removeprefix(base) if url.startswith(base) else url for url in others)
    return fail(
        f"{trouble}; nobody speaks the chat completions API there, nor at {tried}",
        "take the base URL from the endpoint's own documentation: what stands before "
        "/chat/completions",
        raw=raw(said),
    )


def redirected(said: Exchange, base: str) -> list[str]:
    """The base URL that a redirect leads to, on the same host: the key goes nowhere else."""
    assert said.reply is not None
    target = said.reply.headers.get("location", "").removesuffix("/chat/completions")
    here, there = addresses.place_of(base), addresses.place_of(target)
    same = here.partition(":")[0] == there.partition(":")[0]
    # Only upwards: a key that was meant for https is not sent without it.
    safe = target.startswith("https://") or (target[:5] == base[:5] == "http:")
    return [target] if same and safe and is_plain(target) else []


def key_accepted(visit: Visit) -> Answer:
    variable = visit.patient.recipe.model.key_variable
    said = visit.opening(visit.base)
    if said.status in REFUSED_KEY and not is_refusal(said):
        meaning = "does not know the key" if said.status == 401 else "does not let this key in"
        return fail(
            f"the endpoint {meaning} in {variable} ({said.status}: {said.said})",
            f"export {variable}=<a key of this endpoint>; if it is in another variable: "
            "--set model.key_variable=NAME",
            raw=raw(said),
        )
    if said.fine or 400 <= said.status <= 429:
        return ok(f"the key in {variable} is accepted")
    if listed_at(visit, visit.base) is not None:
        return ok(f"the key in {variable} lists the models")
    return unknown(f"the endpoint answers {describe(said)}" if said.reply else "no answer came")


def ids_of(tree: Any) -> list[str] | None:
    """The ids that a list of models holds, in any of its forms; None: it is no such list."""
    if isinstance(tree, dict):
        tree = tree.get("data", tree.get("models"))
    if not isinstance(tree, list):
        return None
    ids = []
    for item in tree:
        name = (item.get("id") or item.get("name")) if isinstance(item, dict) else item
        if isinstance(name, str):
            ids.append(excerpt(name, 200))
    return ids


def model_id(visit: Visit) -> Answer:
    """The endpoint's own list decides what to advise; its answer decides what is wrong."""
    model = visit.patient.recipe.model
    said, page = visit.opening(visit.base), visit.dialogue.get(visit.base, "/models")
    listed = listed_at(visit, visit.base)
    if listed is None:
        where = f"the endpoint lists no models ({page.status or 'no answer'} at /models)"
        if said.fine:
            return ok(f"{model.server_id!r} answers; {where}")
        if unserved(said):
            return fail(
                f"{model.server_id!r} is not served: {said.status}: {said.said}; {where}",
                "take the id from the endpoint's own documentation: --set model.name=openai/<id>",
                raw=raw(said),
            )
        return unknown(where)
    if model.server_id in listed:
        return ok(f"{model.server_id!r} is one of {len(listed)} that /models lists")
    if said.fine:
        return warn(
            f"{model.server_id!r} answers, but /models does not list it",
            "make sure that it is no alias which may come to mean another model",
        )
    if said.reply is None or said.status == 429 or said.status >= 500:
        return warn(
            f"/models does not list {model.server_id!r}, and whether it is served is not known",
            "see what is wrong with the completion first",
        )
    return replace(advise(model.name, model.server_id, listed), raw=raw(said))


def advise(name: str, server_id: str, listed: list[str]) -> Answer:
    """An id that is not served, and those that may be meant."""
    wrong, right = addresses.misnamed(name, server_id, listed)
    if right:
        return fail(f"{server_id!r} is not served: it {wrong}", f"--set model.name={right}")
    near = addresses.nearest(server_id, listed)
    if near:
        return fail(
            f"{server_id!r} is not served; nearest of {len(listed)}: {', '.join(near)}",
            f"--set model.name=openai/{near[0]}",
        )
    shown = ", ".join(listed[:MOST_NAMES]) or "none at all"
    more = f" and {len(listed) - MOST_NAMES} more" if len(listed) > MOST_NAMES else ""
    return fail(
        f"{server_id!r} is not served, and no id is near; /models lists {shown}{more}",
        "--set model.name=openai/<one of these>",
    )


def completion(visit: Visit) -> Answer:
    said = visit.opening(visit.base)
    if said.fine:
        if said.starved:
            return fail(
                f"nothing is said within {said.request.get('max_tokens', 'all')} tokens: all of "
                "them go into thinking",
                "choose a model or a server setting that thinks less",
                raw=raw(said),
            )
        heard = excerpt(said.text, 40)
        return ok(f"{heard!r} after {lasted(said.seconds)}" if heard else "a tool call came back")
    if said.reply is None:
        detail, remedy = why(said, visit.base, visit.patient.environ)
        return fail(detail, remedy)
    assert said.reading is not None
    return fail(
        f"no completion: the endpoint answers {describe(said)}",
        remedy_for(said, visit),
        raw=raw(said),
    )


def remedy_for(said: Exchange, visit: Visit) -> str:
    """By what was answered."""
    assert said.reading is not None
    if said.refuses("tools?", "tool_choice"):
        return SERVE_TOOLS
    if said.refuses("temperature", "top_p"):
        return "the endpoint refuses the plan's sampling: see what `passone doctor` says of it"
    if said.status in NO_ROUTE and not unserved(said):
        return REMEDY[Trouble.ADDRESS]
    if said.status == 402 or "insufficient_quota" in said.words:
        return "no credit is left: top up the account behind the key"
    if said.status == 429:
        return "too much is asked already: wait, or ask for a higher limit at the endpoint"
    if said.status >= 500:
        return "the endpoint is down or overloaded: try again later, or ask who runs it"
    if isinstance(said.reading.ending, Stop):
        return "the endpoint will not serve so small a request: look at its settings"
    if said.status < 400:
        return "what answers there is no OpenAI-compatible server: check model.base_url"
    return "the endpoint refuses a request of four lines: look its words up in its documentation"


def trouble_with(calls: Sequence[Mapping[str, Any]]) -> str:
    """Why an agent could not act on these; empty: it could."""
    function = calls[0].get("function")
    function = function if isinstance(function, dict) else {}
    name, arguments = function.get("name"), function.get("arguments")
    if name != TOOL:
        return f"calls {excerpt(str(name))!r}, a tool that was not offered"
    try:
        tree = json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return f"calls {TOOL} with arguments that are no JSON: {excerpt(str(arguments))}"
    if not isinstance(tree, dict) or not isinstance(tree.get("command"), str):
        return f"calls {TOOL} without a command: {excerpt(str(arguments))}"
    return ""


def tool_call(visit: Visit) -> Answer:
    """The agent's own tool, as it offers it."""
    agent = visit.patient.agent.name
    if not visit.patient.calls_tools:
        return skipped(f"agent {agent!r} is not known to need one")
    said = visit.tool_call(visit.base)
    if said.fine and not said.calls:
        said = visit.tool_call(visit.base, SECOND_CALL)
    if said.reply is None:
        detail, remedy = why(said, visit.base, visit.patient.environ)
        return fail(f"with a tool offered: {detail}", remedy)
    if not said.fine:
        return fail(
            f"with a tool offered, the endpoint answers {describe(said)}",
            remedy_for(said, visit),
            raw=raw(said),
        )
    trouble = no_call(said, agent)
    if trouble:
        return fail(trouble, SERVE_TOOLS, raw=raw(said))
    return ok(f"{TOOL} is called when agent {agent!r} offers it")


def no_call(said: Exchange, agent: str) -> str:
    """Why an agent that works through tool calls cannot act on a completion; empty: it can."""
    if said.calls:
        trouble = trouble_with(said.calls)
        return f"the model {trouble}; agent {agent!r} cannot act on it" if trouble else ""
    words = excerpt(said.text, 120)
    if UNPARSED.search(said.text):
        return f"the call stands in the text, where no agent sees it: {words}"
    if not words:
        return f"the reply is empty, and agent {agent!r} works through tool calls alone"
    return f"no tool call comes back, and agent {agent!r} works through them alone: {words!r}"
