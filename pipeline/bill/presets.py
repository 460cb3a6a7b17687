"""What the exports of common gateways look like.

Sources, read in 2026; export formats change without notice, and a mapping of one's
own (`--columns FILE.yaml`) always takes precedence:

openrouter           the CSV behind "export" on a generation list. No official page
                     lists its columns; three independent readers of it agree on them.
openrouter-generation  GET /api/v1/generation, openrouter.ai/docs (GetGenerationData);
                     native counts are the ones that are billed.
openrouter-activity  GET /api/v1/activity, openrouter.ai/docs (ActivityItem): days, UTC.
litellm              table LiteLLM_SpendLogs of litellm/proxy/schema.prisma (1.110.2), as
                     GET /spend/logs and database dumps have it; `model_group` is the
                     name that the client asked for.
openai               GET /v1/organization/usage/completions and its CSV,
                     developers.openai.com (UsageCompletionsResult): buckets, UTC.
anthropic            the console's usage CSV; no official page lists its columns, several
                     independent readers of it do. Days, UTC, cached tokens apart, no
                     count of requests.
one-api              logs of one-api and new-api: model/log.go (songquanpeng/one-api),
                     GET /api/log/ (docs of QuantumNous/new-api). `quota` is 500,000 to
                     the dollar by default; type 2 is consumption; the time is that of
                     the answer.
generic              the names that home-made exports use; tried last.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pipeline.bill.columns import HOW, Columns, read_columns
from pipeline.config import check
from pipeline.outcomes import UserError


@dataclass(frozen=True, slots=True)
class Preset:
    """A known export, and what tells it from others."""

    columns: Columns
    needs: tuple[frozenset[str], ...]
    """Of each of these groups, a header must have at least one."""


def columns(**tree: object) -> Columns:
    return check(Columns, tree, "preset")


def all_of(*names: str) -> tuple[frozenset[str], ...]:
    return tuple(frozenset({name}) for name in names)


GENERIC = columns(
    time=(
        *("time", "timestamp", "created_at", "created", "date", "datetime", "start_time"),
        *("startTime", "request_time", "Time", "Timestamp", "Date", "时间", "日期"),
    ),
    model=("model", "model_name", "model_id", "Model", "模型"),
    requests=("requests", "num_requests", "request_count", "api_requests", "Requests", "请求数"),
    input=(
        *("input_tokens", "prompt_tokens", "tokens_prompt", "tokens_in", "input", "Input tokens"),
        *("Prompt tokens", "输入", "提示"),
    ),
    cached=(
        *("cached_tokens", "cached_input_tokens", "input_cached_tokens", "tokens_cached"),
        *("cache_read_tokens", "cached", "Cached tokens"),
    ),
    output=(
        *("output_tokens", "completion_tokens", "tokens_completion", "tokens_out", "output"),
        *("Output tokens", "Completion tokens", "输出", "补全"),
    ),
    cost=(
        *("cost_usd", "cost", "total_cost", "spend", "amount_usd", "amount", "price", "usd"),
        *("Cost", "Amount", "花费"),
    ),
    request_id=("request_id", "generation_id", "id", "Request ID"),
)

PRESETS: dict[str, Preset] = {
    "openrouter": Preset(
        columns(
            time="created_at",
            model=("model_permaslug", "model"),
            input="tokens_prompt",
            cached="tokens_cached",
            output="tokens_completion",
            cost="cost_total",
            request_id="generation_id",
        ),
        all_of("generation_id", "created_at", "cost_total", "tokens_prompt"),
    ),
    "openrouter-generation": Preset(
        columns(
            time="created_at",
            model="model",
            input=("native_tokens_prompt", "tokens_prompt"),
            cached="native_tokens_cached",
            output=("native_tokens_completion", "tokens_completion"),
            cost=("total_cost", "usage"),
            request_id="id",
        ),
        all_of("native_tokens_prompt", "created_at"),
    ),
    "openrouter-activity": Preset(
        columns(
            time="date",
            model=("model_permaslug", "model"),
            requests="requests",
            input="prompt_tokens",
            output="completion_tokens",
            cost="usage",
            aggregated=True,
        ),
        all_of("date", "model_permaslug", "usage", "requests"),
    ),
    "litellm": Preset(
        columns(
            time="startTime",
            model=("model_group", "model"),
            input="prompt_tokens",
            cached="metadata.usage_object.prompt_tokens_details.cached_tokens",
            output="completion_tokens",
            cost="spend",
            request_id="request_id",
        ),
        all_of("request_id", "startTime", "spend"),
    ),
    "openai": Preset(
        columns(
            time="start_time",
            until="end_time",
            model="model",
            requests="num_model_requests",
            input="input_tokens",
            cached="input_cached_tokens",
            output="output_tokens",
            aggregated=True,
        ),
        all_of("start_time", "num_model_requests", "input_tokens"),
    ),
    "anthropic": Preset(
        columns(
            time="usage_date_utc",
            model="model_version",
            input=(
                "usage_input_tokens_no_cache + usage_input_tokens_cache_read"
                " + usage_input_tokens_cache_write_5m + usage_input_tokens_cache_write_1h",
                "usage_input_tokens_no_cache + usage_input_tokens_cache_read"
                " + usage_input_tokens_cache_write",
            ),
            cached="usage_input_tokens_cache_read",
            output="usage_output_tokens",
            aggregated=True,
        ),
        all_of("usage_date_utc", "usage_input_tokens_no_cache"),
    ),
    "one-api": Preset(
        columns(
            time="created_at",
            model="model_name",
            input="prompt_tokens",
            cached="other.cache_tokens",
            output="completion_tokens",
            cost="quota",
            request_id="request_id",
            usd_per_unit=0.000002,
            only={"type": ("2",)},
        ),
        all_of("created_at", "model_name", "quota"),
    ),
    "generic": Preset(
        GENERIC,
        (
            frozenset(GENERIC.time),
            frozenset((*GENERIC.input, *GENERIC.output, *GENERIC.cost)),
        ),
    ),
}


def recognised(header: Iterable[str]) -> str | None:
    """The preset whose columns these are."""
    there = set(header)
    for name, preset in PRESETS.items():
        if all(group & there for group in preset.needs):
            return name
    return None


def columns_of(named: str) -> Columns:
    """A preset by its name, or a file.

    Raises:
        UserError: it is neither.
    """
    if named in PRESETS:
        return PRESETS[named].columns
    if Path(named).is_file():
        return read_columns(Path(named))
    raise UserError(
        f"--columns {named}: neither a file nor a preset; presets: {', '.join(PRESETS)}; or {HOW}"
    )
