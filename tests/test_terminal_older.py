"""A task of the older layout is read whole, and what is wrong is named with its file and key."""

from pathlib import Path

import pytest

from pipeline.benchmarks.terminal.places import grading, working
from pipeline.benchmarks.terminal.tasks import AgentTerms, Environment, Layout, Network, Parser
from pipeline.domain import SandboxLimits
from tests.terminal import DATA, older, read, refusal

ADD_UP = DATA / "older" / "add-up"


def test_everything_that_a_task_says_is_in_it() -> None:
    task = read(ADD_UP)
    assert (task.id, task.layout, task.category, task.difficulty, task.tags) == (
        "add-up",
        Layout.OLDER,
        "data-processing",
        "easy",
        ("arithmetic",),
    )
    assert task.instruction == (
        "Sum the numbers in /app/numbers.txt and write the total to /app/total.txt.\n\n"
        "One number, and nothing else."
    )
    assert task.environment == Environment(
        context=ADD_UP,
        dockerfile=ADD_UP / "Dockerfile",
        cpus=1.5,
        memory_mb=256,
        variables={"LANG": "C.UTF-8"},
        command=("sh", "-c", "sleep infinity"),
    )
    assert task.agent == AgentTerms(seconds=120)
    assert task.unknown == ()


def test_the_verifier_is_run_by_root_and_its_output_is_parsed() -> None:
    task = read(ADD_UP)
    assert task.verifier is not None
    assert task.verifier.script == ADD_UP / "run-tests.sh"
    assert task.verifier.folders == (ADD_UP / "tests",)
    assert task.verifier.command == ("bash", "/tests/run-tests.sh")
    assert task.verifier.variables == {"TEST_DIR": "/tests"}
    assert (task.verifier.seconds, task.verifier.user) == (30, "root")
    assert task.verifier.parser is Parser.PYTEST
    assert task.solution is not None
    assert task.solution.command == ("bash", "/oracle/solution.sh")


def test_a_task_without_limits_has_those_of_its_format(tmp_path: Path) -> None:
    task = read(older(tmp_path, files={"task.yaml": "instruction: Do it.\n"}))
    assert task.verifier is not None
    assert (task.agent.seconds, task.verifier.seconds) == (360, 60)
    assert (task.category, task.difficulty) == ("software_engineering", "")
    assert (task.solution, task.verifier.folders) == (None, ())


@pytest.mark.parametrize(
    "text",
    [
        "descriptions:\n- {key: easy, description: Hint.}\n- {key: base, description: Do it.}\n",
        "instruction: base\ndescriptions:\n- {key: base, description: Do it.}\n",
        "instruction: Do it.\ndescriptions: []\n",
    ],
)
def test_of_several_descriptions_the_base_is_the_task(text: str, tmp_path: Path) -> None:
    assert read(older(tmp_path, files={"task.yaml": text})).instruction == "Do it."


def test_without_a_compose_file_the_dockerfile_beside_it_is_built(tmp_path: Path) -> None:
    environment = read(older(tmp_path)).environment
    assert (environment.context, environment.dockerfile) == (tmp_path, tmp_path / "Dockerfile")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[serve, --port, 80]", ("serve", "--port", "80")),
        ("sh -c 'serve $$PORT & sleep ${NAP:-9}'", ("sh", "-c", "serve $PORT & sleep 9")),
        ("", ()),
    ],
)
def test_what_a_service_starts_is_read_as_a_list_or_as_a_line(
    text: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    compose = f"services:\n  client:\n    build: .\n    command: {text}\n"
    task = read(older(tmp_path, files={"docker-compose.yaml": compose}))
    assert task.environment.command == words
    assert working(task, SandboxLimits()).command == (words or ("tail", "-f", "/dev/null"))
    assert task.verifier is not None
    assert grading(task, task.verifier, SandboxLimits()).command == ()


def test_a_service_may_be_built_further_down_or_name_an_image(tmp_path: Path) -> None:
    compose = "services: {client: {build: {context: client, args: {A: 1}}, network_mode: none}}"
    files = {"docker-compose.yaml": compose, "client/Dockerfile": "FROM debian\n"}
    environment = read(older(tmp_path, files=files)).environment
    assert environment.dockerfile == tmp_path / "client" / "Dockerfile"
    assert environment.build_arguments == {"A": "1"}
    assert environment.network is Network.NONE
    compose = "services: {client: {image: 'python:3.12', working_dir: /srv, user: 1000}}"
    environment = read(older(tmp_path, files={"docker-compose.yaml": compose})).environment
    assert (environment.image, environment.context) == ("python:3.12", None)
    assert (environment.workdir, environment.user) == ("/srv", "1000")


def test_keys_that_nobody_knows_are_told_and_do_no_harm(tmp_path: Path) -> None:
    assert read(older(tmp_path, "novel: 1\n")).unknown == ("novel",)


WRONG = {
    "a time-out of 0": ("max_agent_timeout_sec: 0", "max_agent_timeout_sec is 0; write how many"),
    "no time for tests": ("max_test_timeout_sec: -1", "max_test_timeout_sec is -1; write how many"),
    "one that is no number": ("max_agent_timeout_sec: .nan", "max_agent_timeout_sec is nan; write"),
    "one in quotes": ("max_agent_timeout_sec: '9'", "max_agent_timeout_sec is '9'; write how many"),
    "a truth as category": ("category: no", "category is False; write text, in quotes"),
    "a number as difficulty": ("difficulty: 3", "difficulty is 3; write text, in quotes"),
    "tags as text": ("tags: a", "tags is 'a'; write a list of texts"),
    "a strange parser": ("parser_name: mine", "parser_name is 'mine'; write one of pytest"),
    "an instruction that is none": ("instruction: [1]", "instruction is [1]; write text"),
    "an empty instruction": ("instruction: ' '", "instruction says nothing; write down"),
    "no YAML": ("tags: [a", "not YAML: "),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_value_is_refused_with_file_and_key(name: str, tmp_path: Path) -> None:
    yaml, wanted = WRONG[name]
    text = yaml if yaml.startswith("instruction") else f"instruction: Do it.\n{yaml}"
    said = refusal(older(tmp_path, files={"task.yaml": f"{text}\n"}))
    assert said.startswith(f"TASK/task.yaml: {wanted}")


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"task.yaml": "- a\n"}, "TASK/task.yaml: expected keys such as instruction"),
        ({"task.yaml": b"instruction: \xff\n"}, "TASK/task.yaml: not UTF-8 at byte 13"),
        ({"run-tests.sh": None}, "TASK/run-tests.sh is missing: nothing could grade the task"),
        ({"Dockerfile": None}, "TASK/Dockerfile is missing; no image can be built without it"),
        (
            {"docker-compose.yaml": "services: {client: {build: ../other}}"},
            "TASK/docker-compose.yaml: it builds from TASK/../other/Dockerfile, outside its task",
        ),
        (
            {"docker-compose.yaml": "services: {client: {command: sleep}}"},
            "TASK/docker-compose.yaml: its service has neither build nor image",
        ),
        (
            {"docker-compose.yaml": "services: {a: {image: x}, b: {image: y}}"},
            "TASK/docker-compose.yaml: needs 2 services (a, b); only one is run",
        ),
        (
            {"docker-compose.yaml": "services: {a: {image: x"},
            "TASK/docker-compose.yaml: no compose file that can be read: ",
        ),
    ],
)
def test_a_missing_or_wrong_file_is_named(
    files: dict[str, str | bytes | None], said: str, tmp_path: Path
) -> None:
    assert refusal(older(tmp_path, files=files)).startswith(said)
