"""A config says what its user meant, or is refused with the place and the remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline.config import load, override, parse
from pipeline.outcomes import UserError
from pipeline.recipe import ModelRecipe, Recipe

LEAST: dict[str, Any] = {
    "name": "five",
    "selection": {"dataset": "demo", "size": 5},
    "agent": {"name": "miniswe"},
}
FULL = """
name: verified-5
selection: {dataset: verified, split: test, strategy: even, size: 5, seed: 0,
            repos: [django/django, sympy/sympy]}
agent: {name: sweagent, options: {}}
model: {name: openai/YOUR_MODEL_ID, base_url: "https://host/v1", key_variable: OPENAI_API_KEY}
sampling: {temperature: 0, top_p: 1}
attempts: 1
limits: {steps: 75, seconds: 3600, cost_usd: 3}
sandbox: {memory_gb: 8, network: on, mirrors: []}
execution: {executor: threads, agent_workers: 2, scorer_workers: 2, tries: 3}
"""


def with_change(path: str, value: object) -> dict[str, Any]:
    tree: dict[str, Any] = yaml.safe_load(yaml.safe_dump(LEAST))
    *branches, leaf = path.split(".")
    branch = tree
    for key in branches:
        branch = branch.setdefault(key, {})
    branch[leaf] = value
    return tree


def test_the_config_of_the_readme_is_read_in_full(tmp_path: Path) -> None:
    path = tmp_path / "verified-5.yaml"
    path.write_text(FULL)
    recipe = load(path)
    assert recipe.selection.repos == ("django/django", "sympy/sympy")
    assert recipe.limits.model_dump() == {
        "steps": 75,
        "seconds": 3600,
        "cost_usd": 3.0,
        "tokens": 0,
    }
    # YAML reads a bare `on` as true.
    assert recipe.sandbox.network == "on"
    assert recipe.sampling.temperature == 0
    assert recipe.sampling.top_p == 1


def test_what_is_left_out_is_the_default() -> None:
    recipe = parse(LEAST, "x.yaml", {})
    assert recipe == Recipe.model_validate(LEAST)
    assert (recipe.sampling.temperature, recipe.sampling.top_p, recipe.attempts) == (0, 1, 1)
    assert recipe.model.key_variable == "OPENAI_API_KEY"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("modle", {"name": "x"}, "x.yaml: unknown key 'modle'; did you mean 'model'?"),
        ("model.base_ulr", "x", "unknown key 'model.base_ulr'; did you mean 'model.base_url'?"),
        ("selection.sizes", 3, "unknown key 'selection.sizes'; did you mean 'selection.size'?"),
        ("execution.workers", 3, "did you mean 'execution.agent_workers'?"),
        ("limits.zzz", 3, "unknown key 'limits.zzz'; known: steps, seconds, cost_usd"),
        ("attempts", 0, "attempts: input should be greater than or equal to 1 (got 0)"),
        ("attempts", "three", "attempts: input should be a valid integer"),
        ("selection.size", 0, "selection.size: input should be greater than or equal to 1"),
        ("selection.size", -5, "(got -5)"),
        ("selection.strategy", "evenly", "selection.strategy: input should be 'even'"),
        ("sampling.temperature", 3, "sampling.temperature"),
        ("sampling.top_p", 0, "sampling.top_p"),
        ("sandbox.network", "sometimes", "sandbox.network: input should be 'on', 'off' or"),
        ("execution.tries", 0, "execution.tries"),
        ("name", "../elsewhere", "name: string should match pattern"),
        ("name", "a/b", "name: string should match pattern"),
        ("name", "", "name: string should match pattern"),
        ("agent", {}, "'agent.name' is missing"),
        ("selection", {}, "'selection.dataset' is missing"),
        ("model", None, "model: input should be a valid dictionary"),
    ],
)
def test_a_mistake_is_refused_with_its_place(path: str, value: object, message: str) -> None:
    with pytest.raises(UserError) as caught:
        parse(with_change(path, value), "x.yaml", {})
    assert message in str(caught.value)
    assert str(caught.value).startswith("x.yaml: ")


def test_every_mistake_has_a_line_of_its_own() -> None:
    tree = with_change("attempts", 0) | {"modle": {}, "limit": {}}
    with pytest.raises(UserError) as caught:
        parse(tree, "x.yaml", {})
    assert len(str(caught.value).splitlines()) == 3


@pytest.mark.parametrize("word", [("on", "on"), ("off", "off"), (True, "on"), (False, "off")])
def test_network_may_be_written_as_yaml_reads_it(word: tuple[object, str]) -> None:
    written, meant = word
    assert parse(with_change("sandbox.network", written), "x", {}).sandbox.network == meant


def test_a_key_where_the_name_of_a_variable_belongs_is_refused_and_not_repeated() -> None:
    with pytest.raises(UserError) as caught:
        parse(with_change("model.key_variable", "sk-proj-SECRET123"), "x.yaml", {})
    assert "model.key_variable: not the name of an environment variable" in str(caught.value)
    assert "SECRET123" not in str(caught.value)


@pytest.mark.parametrize("name", ["key", "api_key", "token"])
def test_a_key_in_a_config_is_refused_and_not_repeated(name: str) -> None:
    with pytest.raises(UserError) as caught:
        parse(with_change(f"model.{name}", "sk-proj-SECRET123"), "x.yaml", {})
    assert f"unknown key 'model.{name}'" in str(caught.value)
    assert "SECRET123" not in str(caught.value)


def test_variables_are_taken_from_the_environment() -> None:
    tree = with_change("model", {"name": "openai/${MODEL}", "base_url": "${BASE}/v1"})
    recipe = parse(tree, "x.yaml", {"MODEL": "m-1", "BASE": "http://host\n"})
    assert (recipe.model.name, recipe.model.base_url) == ("openai/m-1", "http://host/v1")


def test_variables_are_taken_inside_lists_and_options() -> None:
    tree = with_change("agent.options", {"argv": ["run", "--home=${PLACE}"], "n": 3})
    assert parse(tree, "x", {"PLACE": "/opt"}).agent.options == {
        "argv": ["run", "--home=/opt"],
        "n": 3,
    }


def test_an_unset_variable_is_refused_with_place_and_remedy() -> None:
    with pytest.raises(UserError) as caught:
        parse(with_change("model.base_url", "${OPENAI_API_BASE}"), "x.yaml", {})
    assert "model.base_url" in str(caught.value)
    assert "OPENAI_API_BASE is not set" in str(caught.value)
    assert "export OPENAI_API_BASE=" in str(caught.value)


def test_an_override_stands_in_for_an_unset_variable(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(yaml.safe_dump(with_change("model.base_url", "${OPENAI_API_BASE_NOWHERE}")))
    recipe = load(path, ["model.base_url=http://127.0.0.1:9/v1", "model.name=openai/x"])
    assert recipe.model.base_url == "http://127.0.0.1:9/v1"


@pytest.mark.parametrize(
    ("assignment", "path", "value"),
    [
        ("attempts=3", ("attempts",), 3),
        ("model.name=openai/a=b", ("model", "name"), "openai/a=b"),
        ("selection.repos=[a/b, c/d]", ("selection", "repos"), ["a/b", "c/d"]),
        ("sandbox.network=off", ("sandbox", "network"), False),
        ("model.base_url=", ("model", "base_url"), ""),
        ("agent.options.model.model_kwargs.seed=1", ("agent", "options", "model"), None),
    ],
)
def test_set_reads_its_right_side_as_yaml(
    assignment: str, path: tuple[str, ...], value: object
) -> None:
    tree: dict[str, Any] = yaml.safe_load(yaml.safe_dump(LEAST))
    override(tree, [assignment])
    for key in path:
        tree = tree[key]
    assert tree == ({"model_kwargs": {"seed": 1}} if value is None else value)


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("attempts", "expected KEY=VALUE"),
        ("=3", "expected KEY=VALUE"),
        ("a..b=3", "expected KEY=VALUE"),
        ("name.first=3", "'name' holds a value, not keys"),
        ("attempts=[1", "the value is not YAML"),
    ],
)
def test_a_bad_set_is_refused(assignment: str, message: str) -> None:
    tree: dict[str, Any] = yaml.safe_load(yaml.safe_dump(LEAST))
    with pytest.raises(UserError) as caught:
        override(tree, [assignment])
    assert message in str(caught.value)
    assert "--set" in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "expected keys such as name, selection, agent"),
        (b"- a\n- b\n", "expected keys such as name, selection, agent"),
        (b"just words", "expected keys such as name, selection, agent"),
        (b"a: [1, 2", "not YAML"),
        (b"a: \xff\xfe", "cannot be read"),
    ],
)
def test_a_file_that_is_no_config_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(content)
    with pytest.raises(UserError) as caught:
        load(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_missing_file_is_refused_with_where_the_shipped_ones_are(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no such config.*configs/"):
        load(tmp_path / "nowhere.yaml")
    with pytest.raises(UserError, match="cannot be read"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("name", "server"),
    [
        ("openai/gpt-x", "gpt-x"),
        ("gpt-x", "gpt-x"),
        ("openai/openai/gpt-oss", "openai/gpt-oss"),
        ("anthropic/claude", "anthropic/claude"),
        ("openai/qwen/qwen3", "qwen/qwen3"),
    ],
)
def test_one_leading_openai_names_the_protocol_and_not_the_model(name: str, server: str) -> None:
    assert ModelRecipe(name=name).server_id == server
