"""Say which column of a bill holds what; what the exports of common gateways look like.

Sources, read in 2026; export formats change without notice, and a mapping of one's own
(`--columns FILE.yaml`) always takes precedence:

openrouter           the CSV behind "export" on a generation list. No official page
                     lists its columns; three independent readers of it agree on them.
openrouter-activity  GET /api/v1/activity, openrouter.ai/docs (ActivityItem): days, UTC.
litellm              table LiteLLM_SpendLogs of litellm/proxy/schema.prisma (1.110.2), as
                     GET /spend/logs and database dumps have it; `model_group` is the
                     name that the client asked for.
openai               GET /v1/organization/usage/completions and its CSV,
                     developers.openai.com (UsageCompletionsResult): buckets, UTC.
one-api              logs of one-api and new-api: model/log.go (songquanpeng/one-api).
                     `quota` is 500,000 to the dollar by default; type 2 is consumption;
                     the time is that of the answer.
generic              the names that home-made exports use; tried last.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BeforeValidator, Field

from pipeline.config import check
from pipeline.outcomes import UserError
from pipeline.recipe import Strict

MEASURES = ("input", "output", "cost")
NEEDED = ("time", "requests", *MEASURES)
"""Of a preset; what else it names an export may lack."""
FIGURES = (*NEEDED, "until", "model", "cached", "request_id")
MOST_NAMES = 40
HOW = (
    "write down what they mean in a YAML file, such as `{time: created, model: model, "
    "input: tokens_in, output: tokens_out, cost: usd}`, and name it: --columns FILE.yaml"
)


def as_names(value: object) -> object:
    names = value if isinstance(value, list | tuple) else (value,)
    return tuple(str(name) if isinstance(name, int) else name for name in names)


Names = Annotated[tuple[str, ...], BeforeValidator(as_names)]
"""One column, or several of which the first that says something counts."""


class Columns(Strict):
    """Where a bill's figures stand."""

    time: Names
    until: Names = ()
    """End of a line that counts several requests."""
    model: Names = ()
    requests: Names = ()
    input: Names = ()
    cached: Names = ()
    output: Names = ()
    cost: Names = ()
    request_id: Names = ()
    timezone: str = "UTC"
    """Of times that name none."""
    time_format: str = ""
    """As strptime has it, for times that could be read in two ways."""
    usd_per_unit: Annotated[float, Field(gt=0)] = 1.0
    """Of the cost: 0.000002 where 500,000 are a dollar."""
    aggregated: bool = False
    """Lines are sums of several requests, though no column says of how many."""
    only: dict[str, Names] = Field(default_factory=dict)
    """Lines that count: a column and the values that it must have."""

    def lacking(self, header: Sequence[str], preset: str = "") -> list[str]:
        """What a bill with this header does not tell, though it should."""

        def told(names: Sequence[str]) -> bool:
            return any(name in header or name.split(".")[0] in header for name in names)

        needed = ("time",) if preset == "generic" else NEEDED if preset else FIGURES
        asked = {figure: getattr(self, figure) for figure in needed}
        gaps = [f"{' or '.join(n)} (for {f})" for f, n in asked.items() if n and not told(n)]
        if not gaps and not any(told(getattr(self, figure)) for figure in MEASURES):
            return ["for tokens or costs: neither input, output nor cost is named"]
        return gaps


def preset(**columns: Any) -> Columns:
    return Columns.model_validate(columns)


PRESETS = {
    "openrouter": preset(
        time="created_at",
        model=("model_permaslug", "model"),
        input="tokens_prompt",
        cached="tokens_cached",
        output="tokens_completion",
        cost="cost_total",
        request_id="generation_id",
    ),
    "openrouter-activity": preset(
        time="date",
        model=("model_permaslug", "model"),
        requests="requests",
        input="prompt_tokens",
        output="completion_tokens",
        cost="usage",
        aggregated=True,
    ),
    "litellm": preset(
        time="startTime",
        model=("model_group", "model"),
        input="prompt_tokens",
        cached="metadata.usage_object.prompt_tokens_details.cached_tokens",
        output="completion_tokens",
        cost="spend",
        request_id="request_id",
    ),
    "openai": preset(
        time="start_time",
        until="end_time",
        model="model",
        requests="num_model_requests",
        input="input_tokens",
        cached="input_cached_tokens",
        output="output_tokens",
        aggregated=True,
    ),
    "one-api": preset(
        time="created_at",
        model="model_name",
        input="prompt_tokens",
        cached="other.cache_tokens",
        output="completion_tokens",
        cost="quota",
        request_id="request_id",
        usd_per_unit=0.000002,
        only={"type": 2},
    ),
    "generic": preset(
        time=("time", "timestamp", "created_at", "created", "date", "datetime", "start_time"),
        model=("model", "model_name", "model_id"),
        requests=("requests", "num_requests", "request_count"),
        input=("input_tokens", "prompt_tokens", "tokens_prompt", "tokens_in", "input"),
        cached=("cached_tokens", "cached_input_tokens", "tokens_cached", "cache_read_tokens"),
        output=("output_tokens", "completion_tokens", "tokens_completion", "tokens_out", "output"),
        cost=("cost_usd", "cost", "total_cost", "spend", "amount_usd", "amount", "price", "usd"),
        request_id=("request_id", "generation_id", "id"),
    ),
}


def columns_of(named: str) -> Columns:
    """A preset by its name, or a mapping that its user wrote.

    Raises:
        UserError: it is neither, cannot be read, or says something unknown.
    """
    path = Path(named)
    if named in PRESETS:
        return PRESETS[named]
    if not path.is_file():
        known = ", ".join(PRESETS)
        raise UserError(f"--columns {named}: neither a file nor a preset; presets: {known}")
    try:
        return check(Columns, yaml.safe_load(path.read_text(encoding="utf-8")), named)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(f"{path}: cannot be read as YAML: {error}") from None


def decide(path: Path, header: Sequence[str], given: Columns | None) -> tuple[Columns, str]:
    """The columns of this bill, and the preset that they are of.

    Raises:
        UserError: nobody knows them, or they are not those that were named.
    """
    there = ", ".join(header[:MOST_NAMES]) or "none"
    if given is not None:
        name = next((name for name, columns in PRESETS.items() if columns == given), "")
        gaps = given.lacking(header, name)
        if gaps:
            raise UserError(f"{path}: has no column {'; '.join(gaps)}. It has: {there}")
        return given, name
    for name, columns in PRESETS.items():
        if not columns.lacking(header, name):
            return columns, name
    raise UserError(
        f"{path}: its columns are not known: {there}. Known exports: {', '.join(PRESETS)}. "
        f"Otherwise {HOW}"
    )
