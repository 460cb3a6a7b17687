"""Read a task of the current layout: task.toml, instruction.md, environment/, tests/, solution/.

The schema is harbor's (`src/harbor/models/task/config.py`), versions 1.0 to 1.3: 1.1 brought
`[task]`, 1.3 a network mode for each phase; `memory`, `storage` and `allow_internet` are older
spellings that still count.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipeline.benchmarks.terminal.contents import read_contents
from pipeline.benchmarks.terminal.environment import (
    given,
    read_environment,
    read_healthcheck,
    read_network,
)
from pipeline.benchmarks.terminal.fields import Table, read_text
from pipeline.benchmarks.terminal.tasks import (
    SOLUTION,
    TESTS,
    AgentTerms,
    Chapter,
    Layout,
    Solution,
    Strategy,
    Task,
    Verifier,
)
from pipeline.docker.artifacts import Artifact
from pipeline.outcomes import UserError

CANARY = re.compile(r"(<!--.*canary.*-->|#.*canary.*)", re.IGNORECASE)
VERSIONS = ("1.0", "1.1", "1.2", "1.3")
TAKEN = re.compile(r"\$\{[^}:]+\}")
SCRIPT, SOLVE = "test.sh", "solve.sh"
QUIET = {"DEBIAN_FRONTEND": "noninteractive"}
"""What harbor's oracle gives every solution: nobody is there to answer what apt asks."""


def read_tree(path: Path) -> dict[str, Any]:
    """Raises UserError: no TOML."""
    text = read_text(path)
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UserError(f"{path}: not TOML: {error}; mend that line") from None


def read_task(id_: str, folder: Path) -> Task:
    """A whole task.

    Raises:
        UserError: a missing file or a wrong value, or an image that cannot be had.
    """
    root = Table.of(folder / "task.toml", read_tree(folder / "task.toml"))
    root.ignore("version", "schema_version", "source", "task", "metadata")
    metadata = root.table("metadata")
    steps = root.tables("steps")
    environment = read_environment(root.table("environment"), folder)
    agent = read_agent(root.table("agent"))
    solution_table = root.table("solution")
    variables = read_solution_variables(solution_table)
    grading = read_grading(root.table("verifier"))
    verifier = placed(grading, folder / "tests")
    if verifier is None and not steps:
        raise UserError(f"{folder / 'tests' / SCRIPT} is missing: nothing could grade the task")
    artifacts = read_artifacts(root)
    category, difficulty = metadata.text("category"), metadata.text("difficulty")
    tags = metadata.strings("tags")
    chapters = tuple(_chapter(step, folder, agent, grading, variables) for step in steps)
    strategy = root.choice("multi_step_reward_strategy", Strategy) or Strategy.MEAN
    instruction = "" if chapters else read_instruction(folder / "instruction.md")
    contents = read_contents(folder)
    # Metadata is whatever its publisher likes.
    metadata.ignore(*metadata.values)
    return Task(
        id=id_,
        layout=Layout.CURRENT,
        folder=folder,
        fingerprint=contents.fingerprint,
        instruction=instruction,
        category=category,
        difficulty=difficulty,
        tags=tags,
        environment=environment,
        agent=agent,
        verifier=None if chapters else verifier,
        solution=None if chapters else read_solution(folder / "solution", agent, variables),
        artifacts=artifacts,
        chapters=chapters,
        strategy=strategy,
        crlf=contents.crlf,
        unknown=(*newer(root), *root.unknown()),
    )


def newer(root: Table) -> list[str]:
    """A version that nobody here has seen, as something unknown."""
    named = [key for key in ("schema_version", "version") if key in root.values]
    return [
        f"{key} = {root.values[key]!r}" for key in named[:1] if root.values[key] not in VERSIONS
    ]


def read_instruction(path: Path) -> str:
    """What an agent is told; marks against training on it, and blank lines after, are left out.

    Raises:
        UserError: it is missing, empty, or no UTF-8.
    """
    lines = read_text(path).split("\n")
    while lines and CANARY.fullmatch(lines[0].strip()):
        del lines[0]
    text = "\n".join(lines).lstrip("\n")
    if not text.strip():
        raise UserError(f"{path} says nothing; write down what the agent is to do")
    return text


def read_agent(table: Table, default: AgentTerms | None = None) -> AgentTerms:
    """Raises UserError: a wrong value."""
    default = default or AgentTerms()
    return AgentTerms(
        seconds=table.seconds("timeout_sec") or default.seconds,
        user=table.user("user") or default.user,
        network=read_network(table) or default.network,
    )


def read_grading(table: Table, default: Verifier | None = None) -> Verifier:
    """A verifier that has no script yet.

    Raises:
        UserError: a wrong value.
    """
    table.ignore("environment_mode", "environment", "collect")
    default = default or Verifier(folders=(), script=Path(), command=())
    return Verifier(
        folders=(),
        script=Path(),
        command=(),
        seconds=table.seconds("timeout_sec") or default.seconds,
        variables={**default.variables, **given(table, "env")},
        user=table.user("user") or default.user,
        network=read_network(table) or default.network,
    )


def placed(grading: Verifier, *folders: Path) -> Verifier | None:
    """With the last script that these folders have; None: they have none."""
    scripts = [place / SCRIPT for place in folders if (place / SCRIPT).is_file()]
    if not scripts:
        return None
    return replace(
        grading,
        folders=tuple(place for place in folders if place.is_dir()),
        script=scripts[-1],
        # As it is: its first line says what runs it.
        command=("bash", "-c", f"{TESTS}/{SCRIPT}"),
    )


def read_solution_variables(table: Table) -> dict[str, str] | None:
    """None: some are to come from this machine, so that the solution cannot be run.

    Raises:
        UserError: a wrong value.
    """
    found = table.variables("env")
    taken = [value for value in found.values() if TAKEN.fullmatch(value)]
    return None if taken else given(table, "env")


def read_solution(
    folder: Path, agent: AgentTerms, variables: dict[str, str] | None
) -> Solution | None:
    """None: there is none, as in sets that are made for training."""
    script = folder / SOLVE
    if not script.is_file() or variables is None:
        return None
    place = f"{SOLUTION[Layout.CURRENT]}/{SOLVE}"
    return Solution(
        script=script,
        folder=folder,
        command=("bash", "-c", place),
        seconds=agent.seconds,
        variables={**QUIET, **variables},
    )


def read_artifacts(table: Table) -> tuple[Artifact, ...]:
    """Raises UserError: a wrong value, or a place that leads elsewhere."""
    value = table.get("artifacts")
    items = value if isinstance(value, list) else [] if value is None else [None]
    found = []
    for item in items:
        entry = {"source": item} if isinstance(item, str) else item
        if not isinstance(entry, dict):
            table.refuse("artifacts", "write a list of paths, or of tables with a source")
        one = Table(table.file, entry, f"{table.path}artifacts.")
        artifact = Artifact(
            source=one.text("source"),
            destination=one.text("destination"),
            exclude=one.strings("exclude"),
        )
        if not artifact.source or ".." in artifact.source.split("/"):
            one.refuse("source", "write a path in the container, without ..")
        if artifact.destination.startswith("/") or ".." in artifact.destination.split("/"):
            one.refuse("destination", "write a relative path, without ..")
        found.append(artifact)
    return tuple(found)


def _chapter(
    table: Table,
    folder: Path,
    agent: AgentTerms,
    grading: Verifier,
    variables: dict[str, str] | None,
) -> Chapter:
    name = table.text("name")
    place = folder / "steps" / name
    if not name or not re.fullmatch(r"[\w.-]+", name) or name.strip(".") == "":
        table.refuse("name", "write the name of a folder below steps/")
    terms = read_agent(table.table("agent"), agent)
    verifier = placed(
        read_grading(table.table("verifier"), grading), folder / "tests", place / "tests"
    )
    if verifier is None:
        raise UserError(f"{place / 'tests' / SCRIPT} is missing: nothing could grade this step")
    minimum = table.get("min_reward")
    if isinstance(minimum, dict):
        below = table.table("min_reward")
        least = {key: below.number(key) or 0.0 for key in minimum}
    else:
        single = table.number("min_reward")
        least = {} if single is None else {"reward": single}
    return Chapter(
        name=name,
        instruction=read_instruction(place / "instruction.md"),
        agent=terms,
        verifier=verifier,
        solution=read_solution(place / "solution", terms, variables)
        or read_solution(folder / "solution", terms, variables),
        uploads=place / "workdir" if (place / "workdir").is_dir() else None,
        healthcheck=read_healthcheck(table),
        minimum=least,
        artifacts=read_artifacts(table),
    )
