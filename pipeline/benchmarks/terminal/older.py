"""Read a task of the older layout: task.yaml, Dockerfile, compose file, run-tests.sh, tests/.

The schema is Terminal-Bench's (`terminal_bench/handlers/trial_handler.py`), with its defaults.
Before it had one `instruction`, it had `descriptions` with a key each; `base` is the task.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from pipeline.benchmarks.terminal import compose
from pipeline.benchmarks.terminal.compose import Service, Unrunnable
from pipeline.benchmarks.terminal.contents import read_contents
from pipeline.benchmarks.terminal.fields import Table, read_text
from pipeline.benchmarks.terminal.quick import LOADER
from pipeline.benchmarks.terminal.tasks import (
    SOLUTION,
    TESTS,
    AgentTerms,
    Environment,
    Layout,
    Network,
    Parser,
    Solution,
    Task,
    Verifier,
)
from pipeline.outcomes import UserError

CATEGORY = "software_engineering"
"""Where a task names none, as upstream has it."""
AGENT_SECONDS, TEST_SECONDS = 360.0, 60.0
SCRIPT, SOLVE = "run-tests.sh", "solution.sh"
LISTED = ("category", "difficulty", "parser_name", "run_tests_in_same_shell")
"""Keys that a list of tasks needs."""
UNUSED = (
    *("author", "author_name", "author_email", "disable_asciinema", "estimated_duration_sec"),
    *("expert_time_estimate_min", "junior_time_estimate_min", "run_tests_in_same_shell"),
    *("env_name", "test_scripts", "task_id"),
)


def read_tree(path: Path) -> dict[str, Any]:
    """Raises UserError: no YAML, or no keys."""
    text = read_text(path)
    try:
        tree = yaml.load(text, Loader=LOADER)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        said = " ".join(str(error).split())
        raise UserError(f"{path}: not YAML: {said}; mend that line") from None
    if not isinstance(tree, dict):
        raise UserError(f"{path}: expected keys such as instruction; see docs/terminal.md")
    return tree


def read_task(id_: str, folder: Path) -> Task:
    """A whole task.

    Raises:
        UserError: a missing file or a wrong value, or an image that cannot be had.
    """
    root = Table.of(folder / "task.yaml", read_tree(folder / "task.yaml"))
    root.ignore(*UNUSED)
    script = folder / SCRIPT
    if not script.is_file():
        raise UserError(f"{script} is missing: nothing could grade the task")
    parser = root.choice("parser_name", Parser) or Parser.PYTEST
    solve = folder / SOLVE
    agent = AgentTerms(seconds=root.seconds("max_agent_timeout_sec") or AGENT_SECONDS)
    verifier = Verifier(
        folders=tuple(place for place in (folder / "tests",) if place.is_dir()),
        script=script,
        command=("bash", f"{TESTS}/{SCRIPT}"),
        seconds=root.seconds("max_test_timeout_sec") or TEST_SECONDS,
        variables={"TEST_DIR": TESTS},
        user="root",
        parser=parser,
    )
    solution = Solution(
        script=solve, folder=None, command=("bash", f"{SOLUTION[Layout.OLDER]}/{SOLVE}")
    )
    instruction, category = read_instruction(root), root.text("category") or CATEGORY
    difficulty, tags = root.text("difficulty"), root.strings("tags")
    environment = read_environment(folder)
    contents = read_contents(folder)
    return Task(
        id=id_,
        layout=Layout.OLDER,
        folder=folder,
        fingerprint=contents.fingerprint,
        instruction=instruction,
        category=category,
        difficulty=difficulty,
        tags=tags,
        environment=environment,
        agent=agent,
        verifier=verifier,
        solution=solution if solve.is_file() else None,
        crlf=contents.crlf,
        unknown=root.unknown(),
    )


def read_instruction(root: Table) -> str:
    """What an agent is told.

    Raises:
        UserError: there is nothing, or it is no text.
    """
    text = root.text("instruction")
    tables = root.tables("descriptions")
    described = {one.text("key", "base"): one.text("description") for one in tables}
    # Both at once: the instruction names the description.
    text = described.get(text or "base", text)
    if not text.strip():
        raise UserError(
            f"{root.file}: instruction says nothing; write down what the agent is to do"
        )
    return text


def read_environment(folder: Path) -> Environment:
    """What the container is.

    Raises:
        UserError: no image, or more than one plain container.
    """
    file = folder / compose.FILE
    service = Service(context=".")
    try:
        if file.exists():
            service = compose.read_service(file)
    except Unrunnable as error:
        raise UserError(f"{file}: {error}") from None
    context, dockerfile = compose.built_from(folder, service)
    return Environment(
        image=service.image,
        context=context,
        dockerfile=dockerfile,
        build_arguments=service.build_arguments,
        workdir=service.workdir,
        user=service.user,
        cpus=service.cpus,
        memory_mb=service.memory_mb,
        network=service.network or Network.PUBLIC,
        variables=service.variables,
        command=service.command,
    )
