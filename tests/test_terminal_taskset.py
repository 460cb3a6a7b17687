"""A folder of terminal tasks is a benchmark: drawn evenly, read whole once drawn, and pinned."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.benchmarks.terminal.taskset import image_of, load, task_of
from pipeline.cli import planning
from pipeline.domain import Instance
from pipeline.outcomes import UserError
from pipeline.recipe import SelectionRecipe
from tests.command import Passone
from tests.terminal import DATA, current, older, plant, read


def recipe(folder: Path, **keys: object) -> SelectionRecipe:
    tree = {"benchmark": "terminal", "dataset": str(folder), "strategy": "all", **keys}
    return SelectionRecipe.model_validate(tree)


def draw(folder: Path, **keys: object) -> list[Instance]:
    return planning.draw(recipe(folder, **keys))[1]


def meadow(root: Path) -> Path:
    """Three categories with three difficulties of three tasks each."""
    for category in ("games", "math", "security"):
        for grade in ("easy", "hard", "medium"):
            for number in range(3):
                toml = f'[metadata]\ncategory = "{category}"\ndifficulty = "{grade}"\n'
                current(root / f"{category}-{grade}-{number}", files={"task.toml": toml})
    return root


def test_instances_are_listed_without_being_read(tmp_path: Path) -> None:
    current(tmp_path / "a", files={"instruction.md": b"\xff"})
    [one] = load(str(tmp_path)).instances
    assert (one.id, one.stratum, one.difficulty, one.prompt) == ("a", "games", "easy", "")
    with pytest.raises(UserError, match=r"instruction\.md: not UTF-8"):
        draw(tmp_path)


def test_what_was_drawn_has_all_that_an_agent_needs() -> None:
    [one] = draw(DATA / "current" / "greet-zh")
    assert one.prompt == "在 /tmp/问候.txt 里写一行：你好，世界！\n"
    assert one.image == "debian:bookworm-slim"
    assert task_of(one) == read(DATA / "current" / "greet-zh")


def test_an_image_that_has_to_be_built_is_named_after_what_is_in_the_task(tmp_path: Path) -> None:
    task = read(current(tmp_path / "Odd..Name_"))
    assert image_of(task) == f"passone/terminal.odd-name:{task.fingerprint[:12]}"
    assert image_of(task) != image_of(replace(task, fingerprint="0" * 64))


def test_a_task_without_category_has_a_stratum_of_its_own(tmp_path: Path) -> None:
    current(tmp_path / "a", files={"task.toml": ""})
    assert [one.stratum for one in load(str(tmp_path)).instances] == ["uncategorised"]


def test_the_same_files_are_the_same_selection_wherever_they_are(tmp_path: Path) -> None:
    current(tmp_path / "one" / "a")
    current(tmp_path / "two" / "a")
    first, second, third = (
        planning.draw(recipe(folder))[0].fingerprint
        for folder in (
            tmp_path / "one",
            tmp_path / "two",
            plant(tmp_path / "two", {"a/tests/test.sh": "exit 1\n"}),
        )
    )
    del third
    assert first == planning.draw(recipe(tmp_path / "one"))[0].fingerprint
    assert second == planning.draw(recipe(tmp_path / "two"))[0].fingerprint
    assert first != second


def test_a_run_finds_its_tasks_again_and_refuses_changed_ones(tmp_path: Path) -> None:
    current(tmp_path / "a")
    selection, instances = planning.draw(recipe(tmp_path))
    plan = {
        "selection": {
            "benchmark": "terminal",
            "dataset": str(tmp_path),
            "recipe": dict(selection.recipe),
            "ids": list(selection.ids),
            "fingerprint": selection.fingerprint,
        }
    }
    assert planning.instances_of(plan) == instances
    plant(tmp_path, {"a/tests/test.sh": "exit 1\n"})
    with pytest.raises(UserError, match="has changed since this run was made"):
        planning.instances_of(plan)
    with pytest.raises(UserError, match=r"a: has changed since it was drawn"):
        task_of(instances[0])


@pytest.mark.parametrize("seed", range(4))
def test_even_is_even_by_category_and_by_difficulty(seed: int, tmp_path: Path) -> None:
    drawn = draw(meadow(tmp_path), strategy="even", size=9, seed=seed)
    assert set(Counter(one.stratum for one in drawn).values()) == {3}
    assert set(Counter(one.difficulty for one in drawn).values()) == {3}


@pytest.mark.parametrize("seed", range(4))
def test_where_a_category_gives_one_task_they_differ_in_difficulty(
    seed: int, tmp_path: Path
) -> None:
    drawn = draw(meadow(tmp_path), strategy="even", size=3, seed=seed)
    assert len({one.stratum for one in drawn}) == len({one.difficulty for one in drawn}) == 3


def test_the_same_recipe_draws_the_same_tasks_and_another_seed_others(tmp_path: Path) -> None:
    folder = meadow(tmp_path)
    first = draw(folder, strategy="even", size=9)
    assert draw(folder, strategy="even", size=9) == first
    assert draw(folder, strategy="even", size=9, seed=1) != first


def test_categories_and_difficulties_can_be_asked_for(tmp_path: Path) -> None:
    drawn = draw(meadow(tmp_path), repos=["math"], difficulty=["hard"])
    assert {(one.stratum, one.difficulty) for one in drawn} == {("math", "hard")}
    assert len(drawn) == 3


def test_a_task_that_cannot_be_run_is_skipped_and_refused_by_its_id() -> None:
    assert [one.id for one in draw(DATA / "older")] == ["add-up"]
    with pytest.raises(UserError, match=r"two-services cannot be run: needs 2 services"):
        draw(DATA / "older", strategy="ids", ids=["two-services"])
    # Whoever leaves it out may say so.
    assert len(draw(DATA / "older", exclude=["two-services"])) == 1


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "no such folder"),
        (
            {"d/readme": "x"},
            r"no task there; name a folder whose own .* a task\.toml or",
        ),
        (
            {"d/a/task.toml": "x"},
            r"no task there can be run: 1 × .*not TOML.*; name another",
        ),
    ],
)
def test_a_folder_without_tasks_is_refused(
    files: dict[str, str | bytes | None], said: str, tmp_path: Path
) -> None:
    plant(tmp_path, files)
    with pytest.raises(UserError, match=said):
        load(str(tmp_path / "d"))


def test_what_should_be_known_is_said_once(tmp_path: Path) -> None:
    for name in ("a", "b"):
        current(tmp_path / name, "[agent]\nnovel = 1\n", {"tests/test.sh": b"#!/bin/sh\r\n"})
    older(tmp_path / "c", "novel: 1\n", {"solution.sh": "true\n"})
    older(tmp_path / "d", "run_tests_in_same_shell: true\n")
    said: list[str] = []
    planning.draw(recipe(tmp_path), say=said.append)
    assert said == [
        "1 of 4 tasks are skipped: 1 × its tests want the shell that the agent has worked in",
        "keys that passone does not know, and does without: agent.novel, novel",
        "scripts with Windows line ends, copied in without: a, b",
        "no reference solution, and so no control: a, b",
    ]


def test_sample_draws_tasks_by_a_config_and_by_options(passone: Passone, tmp_path: Path) -> None:
    folder = meadow(tmp_path / "meadow")
    older(folder / "old", "parser_name: mine\n")
    config = plant(
        tmp_path,
        {
            "c.yaml": (
                f"name: c\nselection: {{benchmark: terminal, dataset: {folder}, size: 6}}\n"
                "agent: {name: miniswe}\nmodel: {name: openai/x, base_url: '${NOWHERE}'}\n"
            )
        },
    )
    said = passone("sample", config / "c.yaml", "-o", "-")
    assert said.status == 0
    assert "note: 1 of 28 tasks are skipped: 1 × its tests are read by a parser" in said.err
    manifest = json.loads(said.out)
    assert len(manifest["ids"]) == 6
    assert manifest["recipe"]["benchmark"] == "terminal"
    options = ("sample", "--benchmark", "terminal", "--dataset", str(folder), "--size", "6")
    assert json.loads(passone(*options, "-o", "-").out) == manifest
    more = passone("sample", config / "c.yaml", "--size", "8", "-o", "-")
    assert len(json.loads(more.out)["ids"]) == 8


@pytest.mark.parametrize(
    ("agent", "option", "words"),
    [
        ("sweagent", (), "agent 'sweagent' works on no terminal tasks; known: miniswe, gold"),
        ("gold", ("--rescore",), "machines are not kept once they are settled"),
        ("gold", ("--set", "sandbox.kind=local"), "terminal tasks run in containers only"),
    ],
)
def test_what_no_machine_can_do_is_refused(
    agent: str, option: tuple[str, ...], words: str, passone: Passone, tmp_path: Path
) -> None:
    current(tmp_path / "tasks" / "a")
    plant(
        tmp_path,
        {
            "c.yaml": (
                f"name: c\nselection: {{benchmark: terminal, dataset: {tmp_path / 'tasks'}, "
                f"strategy: all}}\nagent: {{name: {agent}}}\n"
            )
        },
    )
    said = passone("run", tmp_path / "c.yaml", *option)
    assert said.status == 2
    assert words in said.err
