"""A task of the current layout is read whole, and what is wrong is named with its file and key."""

from pathlib import Path

import pytest

from pipeline.benchmarks.terminal.tasks import (
    AgentTerms,
    Environment,
    Healthcheck,
    Layout,
    Network,
    Strategy,
)
from pipeline.docker.artifacts import Artifact
from tests.terminal import DATA, current, read, refusal

TIDY = DATA / "current" / "tidy-log"


def test_everything_that_a_task_says_is_in_it() -> None:
    task = read(TIDY)
    assert (task.id, task.layout, task.category, task.difficulty, task.tags) == (
        "tidy-log",
        Layout.CURRENT,
        "file-operations",
        "easy",
        ("text", "shell"),
    )
    assert task.environment == Environment(
        context=TIDY / "environment",
        dockerfile=TIDY / "environment" / "Dockerfile",
        build_seconds=120,
        workdir="/app",
        cpus=1,
        memory_mb=512,
        storage_mb=1024,
        variables={"LANG": "C.UTF-8"},
        healthcheck=Healthcheck(command="test -s /app/app.log", retries=2),
    )
    assert task.agent == AgentTerms(seconds=300, user="1000")
    assert task.artifacts == (
        Artifact(source="/app/app.log"),
        Artifact(source="/var/log/tidy", destination="tidy", exclude=("*.tmp",)),
    )
    assert (task.chapters, task.crlf, task.unknown) == ((), (), ())


def test_the_verifier_is_a_script_with_its_own_limits() -> None:
    verifier = read(TIDY).verifier
    assert verifier is not None
    assert verifier.script == TIDY / "tests" / "test.sh"
    assert verifier.folders == (TIDY / "tests",)
    assert verifier.command == ("bash", "-c", "/tests/test.sh")
    assert (verifier.seconds, verifier.network, verifier.parser) == (60, Network.NONE, None)
    assert verifier.variables == {"STRICT": "yes"}


def test_the_solution_may_take_as_long_as_an_agent() -> None:
    solution = read(TIDY).solution
    assert solution is not None
    assert (solution.script, solution.folder) == (
        TIDY / "solution" / "solve.sh",
        TIDY / "solution",
    )
    assert solution.seconds == 300
    assert solution.variables == {"LEVEL": "DEBUG", "DEBIAN_FRONTEND": "noninteractive"}


def test_a_mark_against_training_is_no_part_of_the_instruction() -> None:
    assert read(TIDY).prompt.startswith("Remove every line")


def test_an_instruction_in_chinese_is_read_as_it_is() -> None:
    task = read(DATA / "current" / "greet-zh")
    assert task.instruction == "在 /tmp/问候.txt 里写一行：你好，世界！\n"


def test_older_spellings_still_count() -> None:
    environment = read(DATA / "current" / "greet-zh").environment
    assert (environment.memory_mb, environment.storage_mb) == (1024, 2048)
    assert environment.network is Network.NONE


def test_beside_an_image_other_files_go_into_the_working_directory() -> None:
    folder = DATA / "current" / "greet-zh"
    environment = read(folder).environment
    assert (environment.image, environment.context) == ("debian:bookworm-slim", None)
    assert environment.uploads == folder / "environment"


def test_an_image_that_is_published_is_not_built(tmp_path: Path) -> None:
    environment = read(current(tmp_path, '[environment]\ndocker_image = "a/b:1"\n')).environment
    assert (environment.image, environment.context, environment.uploads) == ("a/b:1", None, None)


def test_a_task_without_limits_has_those_of_its_format(tmp_path: Path) -> None:
    task = read(current(tmp_path))
    assert task.verifier is not None
    assert (task.agent.seconds, task.verifier.seconds, task.environment.build_seconds) == (
        None,
        600,
        600,
    )
    assert (task.solution, task.environment.memory_mb) == (None, None)


def test_chapters_have_their_own_terms_and_share_the_rest() -> None:
    folder = DATA / "current" / "two-chapters"
    task = read(folder)
    assert (task.instruction, task.verifier, task.solution) == ("", None, None)
    assert task.strategy is Strategy.FINAL
    draft, final = task.chapters
    assert (draft.name, final.name) == ("draft", "final")
    assert task.prompt == draft.instruction == "Write a first draft to /app/draft.txt.\n"
    assert (draft.agent.seconds, final.agent.seconds) == (20, 100)
    assert (draft.minimum, final.minimum) == ({"reward": 0.5}, {"reward": 1.0, "style": 0.25})
    assert (draft.uploads, final.uploads) == (folder / "steps" / "draft" / "workdir", None)
    assert draft.artifacts == (Artifact(source="/app/draft.txt"),)
    assert final.healthcheck == Healthcheck(command="true")
    assert draft.solution is not None
    assert final.solution is None


def test_a_chapter_without_tests_is_graded_by_those_that_all_share() -> None:
    folder = DATA / "current" / "two-chapters"
    draft, final = (chapter.verifier for chapter in read(folder).chapters)
    assert (draft.script, draft.seconds, draft.variables) == (
        folder / "tests" / "test.sh",
        50,
        {"MODE": "all"},
    )
    own = folder / "steps" / "final" / "tests"
    assert (final.script, final.folders) == (own / "test.sh", (folder / "tests", own))
    assert (final.seconds, final.variables) == (5, {"MODE": "final"})


def test_keys_that_nobody_knows_are_told_and_do_no_harm(tmp_path: Path) -> None:
    toml = 'novel = 1\n[environment]\nfancy = true\n[agent]\nnovel = "x"\n[metadata.more]\nx = 1\n'
    task = read(current(tmp_path, files={"task.toml": toml}))
    assert task.unknown == ("agent.novel", "environment.fancy", "novel")


def test_a_version_that_nobody_has_seen_is_told(tmp_path: Path) -> None:
    task = read(current(tmp_path, files={"task.toml": 'schema_version = "2.0"\n'}))
    assert task.unknown == ("schema_version = '2.0'",)


def test_a_compose_file_may_change_what_is_built_and_with_what(tmp_path: Path) -> None:
    compose = "services: {main: {build: {context: app, dockerfile: Own}, environment: {A: 1}}}"
    files = {"environment/docker-compose.yaml": compose, "environment/app/Own": "FROM debian\n"}
    environment = read(current(tmp_path, files=files)).environment
    assert environment.dockerfile == tmp_path / "environment" / "app" / "Own"
    assert environment.variables == {"A": "1"}
    plain = "services: {main: {build: {context: '${CONTEXT_DIR}'}, cpus: 2, mem_limit: 1g}}"
    files = {"environment/docker-compose.yaml": plain}
    environment = read(current(tmp_path, files=files)).environment
    assert environment.dockerfile == tmp_path / "environment" / "Dockerfile"
    assert (environment.cpus, environment.memory_mb) == (2, 1024)


WRONG = {
    "a time-out of 0": ("[agent]\ntimeout_sec = 0", "agent.timeout_sec is 0", "above 0"),
    "one below 0": ("[verifier]\ntimeout_sec = -5.0", "verifier.timeout_sec is -5.0", "above 0"),
    "one that is no number": ("[agent]\ntimeout_sec = nan", "agent.timeout_sec is nan", "above 0"),
    "one without end": ("[agent]\ntimeout_sec = inf", "agent.timeout_sec is inf", "above 0"),
    "one that is vast": (f"[agent]\ntimeout_sec = {10**400}", "agent.timeout_sec is 1", "above 0"),
    "one in quotes": ('[agent]\ntimeout_sec = "900"', "agent.timeout_sec is '900'", "above 0"),
    "one that is a truth": ("[agent]\ntimeout_sec = true", "agent.timeout_sec is True", "above 0"),
    "a build of 0": ("[environment]\nbuild_timeout_sec = 0", "environment.build_timeout_sec is 0"),
    "no memory": ("[environment]\nmemory_mb = 0", "environment.memory_mb is 0"),
    "cpus as text": ('[environment]\ncpus = "two"', "environment.cpus is 'two'", "number"),
    "a strange size": ('[environment]\nmemory = "lots"', "environment.memory is 'lots'", "'2G'"),
    "two sizes": ('[environment]\nmemory = "1G"\nmemory_mb = 5', "environment.memory_mb says 5 MB"),
    "a strange network": ('[environment]\nnetwork_mode = "wifi"', "no-network"),
    "variables as a list": ("[environment]\nenv = [1]", "environment.env is [1]"),
    "a variable that is a number": ("[verifier]\nenv = { A = 1 }", "verifier.env", "in quotes"),
    "a key of this machine": ('[verifier]\nenv = { K = "${KEY}" }', "verifier.env.K", "KEY"),
    "an agent that is text": ('agent = "me"', "agent is 'me'", "[agent]"),
    "steps that are a table": ("[steps]\na = 1", "steps is {'a': 1}", "[[steps]]"),
    "a healthcheck of nothing": ("[environment.healthcheck]\nretries = 1", "healthcheck.command"),
    "an artefact elsewhere": ('artifacts = ["/a/../b"]', "artifacts.source", "without .."),
    "an artefact to elsewhere": (
        'artifacts = [{ source = "/a", destination = "/etc" }]',
        "artifacts.destination is '/etc'",
    ),
    "artefacts as text": ('artifacts = "/a"', "artifacts is '/a'"),
    "a step without a name": ("[[steps]]\nmin_reward = 1", "steps[0].name is None"),
    "a step elsewhere": ('[[steps]]\nname = "../x"', "steps[0].name is '../x'"),
    "a strange strategy": ('multi_step_reward_strategy = "best"', "mean, final"),
    "no TOML": ("[agent", "task.toml: not TOML", "mend"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_value_is_refused_with_file_and_key(name: str, tmp_path: Path) -> None:
    toml, *parts = WRONG[name]
    said = refusal(current(tmp_path, files={"task.toml": toml + "\n"}))
    assert said.startswith("TASK/task.toml: ")
    for part in parts:
        assert part in said


@pytest.mark.parametrize(
    ("key", "value"), [("category", 5), ("difficulty", "[1]"), ("tags", '"a"'), ("tags", "[1]")]
)
def test_metadata_that_sampling_needs_is_of_the_right_kind(
    key: str, value: object, tmp_path: Path
) -> None:
    said = refusal(current(tmp_path, files={"task.toml": f"[metadata]\n{key} = {value}\n"}))
    assert said.startswith(f"TASK/task.toml: metadata.{key} is ")


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"instruction.md": None}, "TASK/instruction.md is missing; a task needs it"),
        ({"instruction.md": " \n\n"}, "TASK/instruction.md says nothing; write down"),
        ({"instruction.md": "# canary 1\n"}, "TASK/instruction.md says nothing; write down"),
        ({"instruction.md": b"\xff\xfe"}, "TASK/instruction.md: not UTF-8 at byte 0"),
        ({"tests/test.sh": None}, "TASK/tests/test.sh is missing: nothing could grade the task"),
        ({"environment/Dockerfile": None}, "TASK/task.toml: no image: write environment.docker"),
    ],
)
def test_a_missing_or_empty_file_is_named(
    files: dict[str, str | bytes | None], said: str, tmp_path: Path
) -> None:
    assert refusal(current(tmp_path, files=files)).startswith(said)


def test_a_solution_that_needs_a_key_of_this_machine_is_none(tmp_path: Path) -> None:
    toml = '[solution]\nenv = { K = "${KEY}" }\n'
    assert read(current(tmp_path, toml, {"solution/solve.sh": "true\n"})).solution is None


def test_windows_line_ends_are_no_part_of_what_is_read(tmp_path: Path) -> None:
    files = {
        "task.toml": b"[metadata]\r\ncategory = 'a'\r\n",
        "instruction.md": b"One.\r\nTwo.\r\n",
        "tests/test.sh": b"#!/bin/sh\r\nexit 1\r\n",
    }
    task = read(current(tmp_path, files=files))
    assert (task.category, task.instruction, task.crlf) == ("a", "One.\nTwo.\n", ("tests/test.sh",))
