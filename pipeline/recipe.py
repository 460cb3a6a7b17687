"""Say what may be asked for: every key of a config, its type and its default.

What a key is for stands in docs/configuration.md. A key of an API is only ever
named here, never held.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    field_validator,
    model_validator,
)

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)]


AttemptCount = Annotated[int, Field(ge=1, le=1000)]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SelectionRecipe(Strict):
    """Which instances to draw, and how."""

    benchmark: Literal["swebench", "terminal"] = "swebench"
    dataset: str
    split: str = "test"
    strategy: Literal["even", "proportional", "random", "all", "ids"] = "even"
    size: Annotated[int, Field(ge=1)] | None = None
    seed: Annotated[int, Field(ge=0)] = 0
    repos: tuple[str, ...] = ()
    difficulty: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()


class AgentRecipe(Strict):
    """Which agent, with options that go to it verbatim."""

    name: str
    options: dict[str, Any] = {}


class PriceRecipe(Strict):
    """Dollars for a million tokens."""

    input: Annotated[float, Field(ge=0)]
    output: Annotated[float, Field(ge=0)]
    cached: Annotated[float, Field(ge=0)] | None = None
    """None: as much as any other input."""


class ModelRecipe(Strict):
    """Which model, where it is served, and which variable holds the key."""

    name: str = "none"
    base_url: str = ""
    key_variable: str = "OPENAI_API_KEY"
    replies: str = ""
    """A file of scripted replies that stands in for a model; `demo` for the embedded ones."""
    headers: dict[str, str] = {}
    """Sent to the endpoint with every request; never written down."""
    prices: dict[str, PriceRecipe] = {}
    """By the model's id; written as the name of a YAML file that has them, too."""

    @property
    def server_id(self) -> str:
        """The id that the server sees: one leading `openai/` names the protocol, not the model."""
        return self.name.removeprefix("openai/")

    @field_validator("prices", mode="before")
    @classmethod
    def from_a_file(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        try:
            return yaml.safe_load(Path(value).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise ValueError(f"no table of prices can be read there: {error}") from None

    @field_validator("key_variable")
    @classmethod
    def names_a_variable(cls, value: str) -> str:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
            raise ValueError("not the name of an environment variable (is it the key itself?)")
        return value


class SamplingRecipe(Strict):
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    seed: int | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    on_wire: Literal["record", "correct", "refuse"] = "record"


class LimitsRecipe(Strict):
    steps: Annotated[int, Field(ge=0)] = 75
    seconds: Annotated[int, Field(ge=0)] = 3600
    cost_usd: Annotated[float, Field(ge=0)] = 3.0
    tokens: Annotated[int, Field(ge=0)] = 0


class BudgetRecipe(Strict):
    """What the whole run may cost, over all its invocations. Zero: no limit."""

    cost_usd: Annotated[float, Field(ge=0)] = 0.0
    tokens: Annotated[int, Field(ge=0)] = 0


class GatewayRecipe(Strict):
    """How the endpoint is asked: with how much patience, and how much at a time."""

    request_seconds: Annotated[float, Field(gt=0)] = 600.0
    stall_seconds: Annotated[float, Field(gt=0)] = 120.0
    requests: Annotated[int, Field(ge=1)] = 6
    deadline_seconds: Annotated[float, Field(ge=0)] = 900.0
    backoff_seconds: Annotated[float, Field(ge=0)] = 2.0
    in_flight: Annotated[int, Field(ge=1)] = 64
    requests_a_minute: Annotated[int, Field(ge=0)] = 0
    tokens_a_minute: Annotated[int, Field(ge=0)] = 0


class SandboxRecipe(Strict):
    kind: Literal["auto", "docker", "local"] = "auto"
    memory_gb: Annotated[float, Field(ge=0)] = 8.0
    pids: Annotated[int, Field(ge=0)] = 2048
    disk_gb: Annotated[float, Field(ge=0)] = 20.0
    network: Literal["on", "off", "auto"] = "on"
    scoring_seconds: Annotated[int, Field(ge=1)] = 1800
    mirrors: tuple[str, ...] = ()

    @field_validator("network", mode="before")
    @classmethod
    def yaml_says_true_for_on(cls, value: object) -> object:
        return {True: "on", False: "off"}[value] if isinstance(value, bool) else value


class ExecutionRecipe(Strict):
    executor: Literal["threads"] = "threads"
    agent_workers: Annotated[int, Field(ge=1)] = 2
    scorer_workers: Annotated[int, Field(ge=1)] = 2
    tries: Annotated[int, Field(ge=1)] = 3
    backoff_seconds: Annotated[float, Field(ge=0)] = 5.0


class TrustRecipe(Strict):
    """How far a result is believed."""

    repeats: Annotated[int, Field(ge=2, le=100)] = 3
    rescore_share: Annotated[float, Field(ge=0, le=1)] = 0.05
    empty_share: Annotated[float, Field(ge=0, le=1)] = 0.2
    infra_share: Annotated[float, Field(ge=0, le=1)] = 0.2


class StoppingRecipe(Strict):
    """As many attempts as it takes to decide the vote at an instance."""

    min: AttemptCount
    max: AttemptCount
    stop: Literal["decided"]

    @model_validator(mode="after")
    def least_comes_first(self) -> StoppingRecipe:
        if self.min > self.max:
            raise ValueError(f"min ({self.min}) is more than max ({self.max})")
        return self


class Recipe(Strict):
    """What the user asked for, before anything is drawn or resolved."""

    name: Name
    selection: SelectionRecipe
    agent: AgentRecipe
    model: ModelRecipe = ModelRecipe()
    sampling: SamplingRecipe = SamplingRecipe()
    attempts: AttemptCount | StoppingRecipe = 1
    limits: LimitsRecipe = LimitsRecipe()
    budget: BudgetRecipe = BudgetRecipe()
    gateway: GatewayRecipe = GatewayRecipe()
    sandbox: SandboxRecipe = SandboxRecipe()
    execution: ExecutionRecipe = ExecutionRecipe()
    trust: TrustRecipe = TrustRecipe()

    @property
    def least(self) -> int:
        """Attempts that every instance gets."""
        return self.attempts if isinstance(self.attempts, int) else self.attempts.min

    @property
    def most(self) -> int:
        """Attempts at one instance, at most."""
        return self.attempts if isinstance(self.attempts, int) else self.attempts.max

    @field_validator("attempts", mode="wrap")
    @classmethod
    def a_number_or_terms(cls, value: object, handler: object) -> int | StoppingRecipe:
        """As one or the other, so that what is wrong is said of what was meant."""
        if isinstance(value, dict | StoppingRecipe):
            return StoppingRecipe.model_validate(value)
        return TypeAdapter(AttemptCount).validate_python(value)
