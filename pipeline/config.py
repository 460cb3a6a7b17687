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
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from pipeline.outcomes import UserError
from pipeline.recipe import Recipe

BEGIN = (
    "a checkout has some in configs/, and passone doctor --write-config v1 -o my.yaml writes one"
)
"""Where to find a config; a wheel brings none."""
SECRET = ("API_KEY", "TOKEN", "SECRET", "PASSWORD")
VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
MEANT = {
    "api_key": "key_variable",
    "apikey": "key_variable",
    "openai_api_key": "key_variable",
    "api_base": "base_url",
    "api_url": "base_url",
    "url": "base_url",
    "endpoint": "base_url",
    "openai_api_base": "base_url",
    "openai_base_url": "base_url",
    "model_name": "name",
    "categories": "repos",
    "category": "repos",
}
"""What other programs call a key of ours; no likeness of letters would tell."""
TRAINERS = frozenset(
    (
        *("loss", "kl", "kl_loss", "kl_coef", "entropy", "grad_norm", "advantage", "advantages"),
        *("reward", "rewards", "learning_rate", "lr", "weight_decay", "epochs", "warmup_steps"),
    )
)
"""Numbers of a training: no key of ours, and nothing that an endpoint is judged by."""
M = TypeVar("M", bound=BaseModel)


def expand(value: Any, environ: Mapping[str, str], place: str, unneeded: Sequence[str] = ()) -> Any:
    """Replace `${VARIABLE}` in every string of a tree; where it is unneeded, perhaps by nothing.

    Raises:
        UserError: a variable that is not set.
    """
    if isinstance(value, dict):
        return {
            k: expand(v, environ, f"{place}.{k}" if place else str(k), unneeded)
            for k, v in value.items()
        }
    if isinstance(value, list):
        return [expand(item, environ, f"{place}[{i}]", unneeded) for i, item in enumerate(value)]
    if not isinstance(value, str):
        return value

    def replacement(match: re.Match[str]) -> str:
        secret = any(word in match[1].upper() for word in SECRET)
        # Headers go upstream and nowhere else.
        if secret and not place.startswith("model.headers."):
            raise UserError(
                f"{place}: ${{{match[1]}}} looks like a key and would be written to disk; "
                "name the variable in model.key_variable instead"
            )
        if match[1] not in environ and place.startswith(tuple(unneeded)):
            return ""
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
    kind: Any = model
    for part in location:
        if get_origin(kind) is dict:
            # Whatever it is called, it is of that kind.
            kind = get_args(kind)[1]
            continue
        field = kind.model_fields.get(str(part)) if is_model(kind) else None
        kind = section_of(field.annotation) if field else None
    return list(kind.model_fields) if is_model(kind) else []


def dotted(model: Any, prefix: str = "") -> list[str]:
    """Every key of a model tree, with its sections before it."""
    found = []
    for name, field in model.model_fields.items():
        inner = section_of(field.annotation)
        found += dotted(inner, f"{prefix}{name}.") if is_model(inner) else []
        found += [] if is_model(field.annotation) else [f"{prefix}{name}"]
    return found


def section_of(kind: Any) -> Any:
    """The section that may stand in place of a value, where one may."""
    one_of = get_origin(kind) in (Union, UnionType)
    return next(filter(is_model, get_args(kind)), kind) if one_of else kind


def is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def explain(error: ValidationError, root: type[BaseModel], source: str) -> str:
    """One line a mistake: place, what is wrong, and the nearest known key."""
    lines = []
    for problem in error.errors():
        location = problem["loc"]
        place = ".".join(str(part) for part in location)
        if problem["type"] == "extra_forbidden":
            known = known_keys(root, location[:-1])
            *section, written = (str(part) for part in location)
            meant = MEANT.get(written.lower().replace("-", "_"))
            near = difflib.get_close_matches(written, known, n=1, cutoff=0.6)
            told = [".".join([*section, key]) for key in ([meant] if meant in known else near)]
            told = told or [key for key in dotted(root) if key.rpartition(".")[2] == written]
            meant_keys = " or ".join(told)
            hint = f"did you mean {meant_keys!r}?" if told else f"known: {', '.join(known)}"
            if written.lower() in TRAINERS and not told:
                hint = "that is a trainer's business, and passone trains nothing: leave it out"
            lines.append(f"{source}: unknown key {place!r}; {hint}")
        elif problem["type"] == "missing":
            lines.append(f"{source}: {place!r} is missing")
        else:
            message = problem["msg"].removeprefix("Value error, ")
            # What stands where a variable's name belongs may be a key.
            secret = place.endswith("key_variable") or place.startswith("model.headers")
            shown = "" if secret else f" (got {problem['input']!r})"
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


def parse(
    tree: object,
    source: str,
    environ: Mapping[str, str] | None = None,
    unneeded: Sequence[str] = (),
) -> Recipe:
    """A whole config, with its variables filled in.

    Raises:
        UserError: see `check` and `expand`.
    """
    if not isinstance(tree, dict):
        raise UserError(f"{source}: expected keys such as name, selection, agent; {BEGIN}")
    known = os.environ if environ is None else environ
    return check(Recipe, expand(tree, known, "", unneeded), source)


def load(path: Path, assignments: Sequence[str] = (), *, unneeded: Sequence[str] = ()) -> Recipe:
    """Read a config file.

    Args:
        unneeded: keys whose variables need not be set.

    Raises:
        UserError: the file is missing, not YAML, or says something unknown.
    """
    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: no such config; {BEGIN}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read: {error}") from None
    except yaml.YAMLError as error:
        raise UserError(f"{path}: not YAML: {error}") from None
    if isinstance(tree, dict):
        override(tree, assignments)
    source = f"{path} with --set" if assignments else str(path)
    return parse(tree, source, unneeded=unneeded)
