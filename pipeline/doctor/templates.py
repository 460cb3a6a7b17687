"""Configs to begin with, one for each kind of endpoint; whole, and commented."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import yaml

from pipeline.outcomes import UserError


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of endpoint."""

    title: str
    base_url: str
    model: str
    key_variable: str
    notes: str


KINDS = {
    "gateway": Kind(
        title="an OpenAI-compatible gateway that serves without /v1",
        base_url="https://gateway.example.com",
        model="openai/YOUR_MODEL_ID",
        key_variable="OPENAI_API_KEY",
        notes="""\
# It serves at <base_url>/chat/completions; a /v1 in between would answer 404. The part after the
# host, where there is one, belongs to base_url: https://host/api/x""",
    ),
    "v1": Kind(
        title="an OpenAI-compatible endpoint that serves under /v1",
        base_url="https://gateway.example.com/v1",
        model="openai/YOUR_MODEL_ID",
        key_variable="OPENAI_API_KEY",
        notes="""\
# It serves at <base_url>/chat/completions: base_url ends in /v1, once, with nothing after it.""",
    ),
    "vllm": Kind(
        title="vLLM's own server",
        base_url="http://localhost:8000/v1",
        model="openai/my-model",
        key_variable="VLLM_API_KEY",
        notes="""\
# Agents work through tool calls, which vLLM gives only when it is started with them:
#
#   vllm serve MODEL --served-model-name my-model \\
#     --enable-auto-tool-choice --tool-call-parser PARSER
#
# PARSER goes with the model: hermes, llama3_json, mistral, qwen3_coder … (vLLM's documentation).
# Without --api-key it looks at no key, but one must be set: any word, such as EMPTY.""",
    ),
}

CONFIG = """\
# Five instances of SWE-bench Verified with mini-swe-agent, against {title}.
#
#   export {key_variable}={key_hint}
#   passone doctor {file}
#   passone run {file}
#
# Written by `passone doctor --write-config {kind}`. Every key: docs/configuration.md

name: {name}                        # the run directory under logs/

selection: {{dataset: verified, split: test, strategy: even, size: 5, seed: 0}}

agent: {{name: miniswe, options: {{}}}}

{notes}
# name: the id that the endpoint serves, behind `openai/`, which names the protocol and is not sent.
# The key stands in the variable that key_variable names, and nowhere else.
model:
  name: {model}
  base_url: {base_url}
  key_variable: {key_variable}

sampling: {{temperature: 0, top_p: 1}}

attempts: 1                         # may grow later: 1 today, 3 tomorrow, the same run

# For one attempt; 0: no limit. cost_usd holds where costs are reported, or model.prices has them.
limits: {{steps: 75, seconds: 3600, cost_usd: 3}}

sandbox: {{memory_gb: 8, network: on, mirrors: []}}

execution: {{executor: threads, agent_workers: 2, scorer_workers: 2, tries: 3}}
"""
SETTABLE = ("name", "model.name", "model.base_url", "model.key_variable")


def quoted(text: str) -> str:
    """As YAML: bare where it is read as it stands."""
    try:
        plain = yaml.safe_load(f"key: {text}") == {"key": text} and "${" not in text
    except yaml.YAMLError:
        plain = False
    return text if plain else json.dumps(text, ensure_ascii=False)


def write_config(kind: str, *, file: str, settings: Mapping[str, str]) -> str:
    """The text of a config, with `settings` in it.

    Raises:
        UserError: nobody knows this kind, or a setting has no place in it.
    """
    if kind not in KINDS:
        raise UserError(f"--write-config: unknown kind {kind!r}; known: {', '.join(KINDS)}")
    for key in settings:
        if key not in SETTABLE:
            raise UserError(
                f"--write-config takes --set for {', '.join(SETTABLE)}, not for {key!r}; "
                "edit the file that it writes"
            )
    found = KINDS[kind]
    return CONFIG.format(
        title=found.title,
        kind=kind,
        file=file,
        key_hint="EMPTY" if kind == "vllm" else "<your key>",
        notes=found.notes,
        name=quoted(settings.get("name", f"my-{kind}")),
        model=quoted(settings.get("model.name", found.model)),
        base_url=quoted(settings.get("model.base_url", found.base_url)),
        key_variable=quoted(settings.get("model.key_variable", found.key_variable)),
    )
