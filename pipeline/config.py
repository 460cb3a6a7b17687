"""Read what the user asked for: YAML and `--set a.b=c` become a `Recipe`.

Unknown keys are refused with the nearest known one; `${VARIABLE}` is taken from
the environment. A key is only ever named here, never held.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from pipeline.outcomes import UserError

SECRET = ("API_KEY", "TOKEN", "SECRET", "PASSWORD")
VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
M = TypeVar("M", bound=BaseModel)
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SelectionRecipe(Strict):
    """Which instances to draw, and how."""

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


class ModelRecipe(Strict):
    """Which model, where it is served, and which variable holds the key."""

    name: str = "none"
    base_url: str = ""
    key_variable: str = "OPENAI_API_KEY"
    replies: str = ""
    """A file of scripted replies that stands in for a model; `demo` for the embedded ones."""

    @property
    def server_id(self) -> str:
        """The id that the server sees: one leading `openai/` names the protocol, not the model."""
        return self.name.removeprefix("openai/")

    @field_validator("key_variable")
    @classmethod
    def names_a_variable(cls, value: str) -> str:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
            raise ValueError("not the name of an environment variable (is it the key itself?)")
        return value


class SamplingRecipe(Strict):
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0


class LimitsRecipe(Strict):
    steps: Annotated[int, Field(ge=0)] = 75
    seconds: Annotated[int, Field(ge=0)] = 3600
    cost_usd: Annotated[float, Field(ge=0)] = 3.0


class SandboxRecipe(Strict):
    kind: Literal["auto", "docker", "local"] = "auto"
    memory_gb: Annotated[float, Field(ge=0)] = 8.0
    pids: Annotated[int, Field(ge=0)] = 2048
    network: Literal["on", "off"] = "on"
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


class Recipe(Strict):
    """What the user asked for, before anything is drawn or resolved."""

    name: Name
    selection: SelectionRecipe
    agent: AgentRecipe
    model: ModelRecipe = ModelRecipe()
    sampling: SamplingRecipe = SamplingRecipe()
    attempts: Annotated[int, Field(ge=1, le=1000)] = 1
    limits: LimitsRecipe = LimitsRecipe()
    sandbox: SandboxRecipe = SandboxRecipe()
    execution: ExecutionRecipe = ExecutionRecipe()


def expand(value: Any, environ: Mapping[str, str], place: str) -> Any:
    """Replace `${VARIABLE}` in every string of a tree.

    Raises:
        UserError: a variable that is not set.
    """
    if isinstance(value, dict):
        return {
            k: expand(v, environ, f"{place}.{k}" if place else str(k)) for k, v in value.items()
        }
    if isinstance(value, list):
        return [expand(item, environ, f"{place}[{i}]") for i, item in enumerate(value)]
    if not isinstance(value, str):
        return value

    def replacement(match: re.Match[str]) -> str:
        if any(word in match[1].upper() for word in SECRET):
            raise UserError(
                f"{place}: ${{{match[1]}}} looks like a key and would be written to disk; "
                "name the variable in model.key_variable instead"
            )
        if match[1] not in environ:
            raise UserError(
                f"{place}: environment variable {match[1]} is not set; "
                f"export {match[1]}=… or write the value into the config"
            )
        return environ[match[1]].strip()

    return VARIABLE.sub(replacement, value)


def override(tree: dict[str, Any], assignments: Sequence[str]) -> None:
    """Apply `a.b=c` in place; the right side is read as YAML.

    Raises:
        UserError: not of that form.
    """
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        keys = path.strip().split(".")
        if not equals or not all(keys):
            raise UserError(
                f"--set {assignment!r}: expected KEY=VALUE, such as model.name=openai/x"
            )
        branch = tree
        for key in keys[:-1]:
            child = branch.setdefault(key, {})
            if not isinstance(child, dict):
                raise UserError(f"--set {assignment!r}: {key!r} holds a value, not keys")
            branch = child
        try:
            branch[keys[-1]] = yaml.safe_load(text) if text.strip() else ""
        except yaml.YAMLError as error:
            raise UserError(f"--set {assignment!r}: the value is not YAML: {error}") from None


def known_keys(model: type[BaseModel], location: Sequence[str | int]) -> list[str]:
    """Field names at a location within a model tree."""
    for part in location:
        field = model.model_fields.get(str(part))
        if field is None or not isinstance(field.annotation, type):
            return []
        if not issubclass(field.annotation, BaseModel):
            return []
        model = field.annotation
    return list(model.model_fields)


def explain(error: ValidationError, root: type[BaseModel], source: str) -> str:
    """One line a mistake: place, what is wrong, and the nearest known key."""
    lines = []
    for problem in error.errors():
        location = problem["loc"]
        place = ".".join(str(part) for part in location)
        if problem["type"] == "extra_forbidden":
            known = known_keys(root, location[:-1])
            near = difflib.get_close_matches(str(location[-1]), known, n=1, cutoff=0.4)
            nearest = ".".join([*(str(part) for part in location[:-1]), *near])
            hint = f"did you mean {nearest!r}?" if near else f"known: {', '.join(known)}"
            lines.append(f"{source}: unknown key {place!r}; {hint}")
        elif problem["type"] == "missing":
            lines.append(f"{source}: {place!r} is missing")
        else:
            message = problem["msg"].removeprefix("Value error, ")
            # What stands where a variable's name belongs may be a key.
            shown = "" if place.endswith("key_variable") else f" (got {problem['input']!r})"
            lines.append(f"{source}: {place}: {message[0].lower()}{message[1:]}{shown}")
    return "\n".join(lines)


def check(model: type[M], tree: object, source: str) -> M:
    """A tree of plain values as a model.

    Raises:
        UserError: anything unknown, missing or out of range, one line each.
    """
    try:
        return model.model_validate(tree)
    except ValidationError as error:
        raise UserError(explain(error, model, source)) from None


def parse(tree: object, source: str, environ: Mapping[str, str] | None = None) -> Recipe:
    """A whole config, with its variables filled in.

    Raises:
        UserError: see `check` and `expand`.
    """
    if not isinstance(tree, dict):
        raise UserError(
            f"{source}: expected keys such as name, selection, agent; see configs/demo.yaml"
        )
    return check(Recipe, expand(tree, os.environ if environ is None else environ, ""), source)


def load(path: Path, assignments: Sequence[str] = ()) -> Recipe:
    """Read a config file.

    Raises:
        UserError: the file is missing, not YAML, or says something unknown.
    """
    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: no such config; the shipped ones are in configs/") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read: {error}") from None
    except yaml.YAMLError as error:
        raise UserError(f"{path}: not YAML: {error}") from None
    if isinstance(tree, dict):
        override(tree, assignments)
    return parse(tree, str(path))
