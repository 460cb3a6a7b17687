"""Tell the classic failures of an endpoint apart, each with its remedy."""

from __future__ import annotations

import re
from enum import StrEnum

from pipeline.doctor.dialogue import Exchange
from pipeline.domain import Fault, Stop

MODEL = re.compile(r"\bmodels?\b", re.IGNORECASE)
LATE = re.compile(r"\b(\w*Timeout|TimeoutError)\b")
"""As the gateway names what it did not wait for."""
REFUSED_KEY = (401, 403)
NO_ROUTE = (404, 405, 501)
UNSERVED = (400, 403, 404, 422)
TOO_LATE = (408, 504, 524)
SETTINGS = ("tools?", "tool_choice", "temperature", "top_p", "seed", "max_(completion_)?tokens")
"""What else a server may refuse, and name the model beside it."""
FIGURES = (
    *("logprobs", "top_logprobs", "prompt_logprobs"),
    *("return_token_ids", "return_tokens_as_token_ids"),
)
"""Fields of a request that only somebody who trains has a use for."""


class Trouble(StrEnum):
    """What is wrong, where a request brought no completion that an agent can work with."""

    KEY = "key"
    ADDRESS = "address"
    MODEL = "model"
    SILENCE = "silence"
    BREAK = "break"
    FIGURES = "figures"
    WINDOW = "window"
    OTHER = "other"


REMEDY: dict[Trouble, str] = {
    Trouble.KEY: (
        "export {variable}=<a key of this endpoint>, one that stays valid while a run lasts; if it "
        "is in another variable: --set model.key_variable=NAME"
    ),
    Trouble.ADDRESS: (
        "what stands before /chat/completions belongs into model.base_url, with or without /v1, as "
        "the endpoint's documentation has it"
    ),
    Trouble.MODEL: "take an id that the endpoint serves: --set model.name=openai/<id>",
    Trouble.SILENCE: (
        "look for a time-out between here and the model (a proxy, a load balancer), and at what "
        "the server has to do at once; a model that is only slow: raise gateway.request_seconds "
        "and lower execution.agent_workers"
    ),
    Trouble.BREAK: (
        "see that the server still runs and has not begun anew (its log), and what lies between: a "
        "proxy, a load balancer, a firewall"
    ),
    Trouble.FIGURES: (
        "leave it out, an evaluation needs none: "
        "--set agent.options.model.model_kwargs.{figure}=false; who trains needs an endpoint that "
        "gives it"
    ),
    Trouble.WINDOW: (
        "serve the model with a larger window (vLLM: --max-model-len): a whole attempt needs many "
        "times this conversation"
    ),
    Trouble.OTHER: "look its words up in the endpoint's documentation",
}


def trouble_of(said: Exchange) -> Trouble:
    """By what was asked and answered; of an exchange that is not `fine`."""
    ending = said.reading.ending if said.reading is not None else None
    if said.reply is None or said.status in TOO_LATE:
        late = isinstance(ending, Fault) and LATE.search(ending.detail) is not None
        return Trouble.SILENCE if late or said.status in TOO_LATE else Trouble.BREAK
    if figure_in(said):
        return Trouble.FIGURES
    if ending is Stop.CONTEXT_LIMIT:
        return Trouble.WINDOW
    if said.status == 401 or (said.status == 403 and not isinstance(ending, Stop)):
        return Trouble.KEY
    if unserved(said):
        return Trouble.MODEL
    return Trouble.ADDRESS if said.status in NO_ROUTE else Trouble.OTHER


def figure_in(said: Exchange) -> str:
    """The field for whose sake a request was refused that only training needs; empty: none was."""
    asked = [name for name in FIGURES if said.request.get(name)]
    return next((name for name in asked if said.refuses(name)), "")


def unserved(said: Exchange) -> bool:
    """Whether the request was refused for its model."""
    about = said.status in UNSERVED and MODEL.search(said.words) is not None
    return about and not said.refuses(*SETTINGS)
