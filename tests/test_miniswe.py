"""mini-swe-agent: its command line, its statuses, its trajectories, and the real thing."""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import json
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import litellm
import pytest

from pipeline.agents.driving import child_environment
from pipeline.agents.miniswe import RESERVED, MiniSweAgent, settings
from pipeline.agents.minitraces import STATUS, last_observation, read, read_steps
from pipeline.benchmarks import dataset
from pipeline.docker import LocalSandboxes
from pipeline.docker.embedded import plant
from pipeline.domain import Cause, Fault, Limits, Patch, Rollout, SandboxLimits, Snapshot, Stop
from pipeline.outcomes import InfraError, UserError
from pipeline.process import Completed
from pipeline.rundir import RunDir
from pipeline.sites import ContainerSite, LocalSite, MachineSite
from tests.loopback import Answering, by_step, refuses, runs
from tests.tries import KEY, Tried, an_assignment, one_try

DATA = Path(__file__).parent / "data" / "miniswe"
TRAJECTORIES = sorted(DATA.glob("*.traj.json"))
ID = "passone__sample-1"
NOT_RECORDED = {
    # A bare flow exception or an interactive user never ends a batch run.
    "UserInterruption",
    "InterruptAgentFlow",
    "FormatError",
    # LiteLLM has them, but gives another class for each answer over HTTP that we know.
    "PermissionDeniedError",
    "APIConnectionError",
    "APIResponseValidationError",
}


def source(module: str) -> ast.Module:
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    return ast.parse(Path(spec.origin).read_text(encoding="utf-8"))


def literal_statuses(tree: ast.Module) -> set[str]:
    """Every `"exit_status": "…"` in a module."""
    return {
        value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Dict)
        for key, value in zip(node.keys, node.values, strict=True)
        if isinstance(key, ast.Constant)
        and key.value == "exit_status"
        and isinstance(value, ast.Constant)
        and isinstance(value.value, str)
        and value.value
    }


def test_the_table_knows_every_status_that_the_installed_agent_writes() -> None:
    package = importlib.util.find_spec("minisweagent")
    assert package is not None
    assert package.origin is not None
    modules = sorted(Path(package.origin).parent.rglob("*.py"))
    found = set[str]().union(
        *(literal_statuses(ast.parse(path.read_text(encoding="utf-8"))) for path in modules)
    )
    assert {"Submitted", "LimitsExceeded", "TimeExceeded", "RepeatedFormatError"} <= found
    assert found - STATUS.keys() == set()


def test_the_table_knows_every_exception_of_the_agents_own_flow() -> None:
    classes = {
        node.name
        for node in source("minisweagent.exceptions").body
        if isinstance(node, ast.ClassDef)
    }
    assert "InterruptAgentFlow" in classes
    assert classes - STATUS.keys() == set()


def test_the_table_knows_every_exception_that_the_agent_does_not_retry() -> None:
    (aborting,) = (
        node.value
        for node in ast.walk(source("minisweagent.models.litellm_model"))
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and node.target.id == "abort_exceptions"
    )
    assert isinstance(aborting, ast.List)
    named = {item.attr for item in aborting.elts if isinstance(item, ast.Attribute)}
    assert "AuthenticationError" in named
    assert named - STATUS.keys() == set()


def test_the_table_names_no_class_of_the_client_that_is_gone() -> None:
    """A renamed class would fall to UNKNOWN in silence."""
    ours = {name for name, meaning in STATUS.items() if meaning in (Cause.ENDPOINT,)}
    assert {name for name in ours if not hasattr(litellm.exceptions, name)} == set()


def test_every_status_of_the_table_has_a_recorded_sample() -> None:
    recorded = {path.name.partition(".")[0] for path in DATA.iterdir()}
    assert STATUS.keys() - recorded == NOT_RECORDED


def test_no_sample_holds_a_key_or_a_path_of_the_machine_that_made_it() -> None:
    for path in DATA.iterdir():
        text = path.read_text(encoding="utf-8")
        for word in ("sk-", "/root", "/home/", "/tmp/w", "127.0.0.1", "api_key"):
            assert word not in text, (path.name, word)


@pytest.mark.parametrize("path", TRAJECTORIES, ids=lambda path: path.name.partition(".")[0])
def test_a_recorded_trajectory_is_read_by_the_table(path: Path) -> None:
    status = path.name.partition(".")[0]
    departure = read(path, ID)
    assert departure.exit_status == status
    assert departure.meaning == STATUS.get(status, Cause.UNKNOWN)
    # Only a clean submission leaves a patch: edits at a failure are lost by this agent.
    assert (departure.submission is not None) == (status == "Submitted")
    assert departure.steps >= 1
    assert isinstance(departure.meaning, Stop) or status in departure.detail
    assert len(departure.detail) <= 600


def test_the_models_own_endings_are_stops_and_all_others_are_causes() -> None:
    stops = {name for name, meaning in STATUS.items() if isinstance(meaning, Stop)}
    assert stops == {
        "Submitted",
        "LimitsExceeded",
        "TimeExceeded",
        "RepeatedFormatError",
        "ContextWindowExceededError",
        "ContentPolicyViolationError",
    }


@pytest.mark.parametrize(
    ("status", "cause"),
    [
        ("CalledProcessError", Cause.SANDBOX),
        ("FileNotFoundError", Cause.SANDBOX),
        ("TimeoutExpired", Cause.SANDBOX),
    ],
)
def test_what_broke_before_it_began_leaves_its_status_alone(
    status: str, cause: Cause, tmp_path: Path
) -> None:
    shutil.copy(DATA / f"{status}.exit_statuses.yaml", tmp_path / "exit_statuses.yaml")
    departure = read(tmp_path / "trajectory.traj.json", ID)
    assert (departure.exit_status, departure.meaning) == (status, cause)
    assert departure.submission is None
    # Another instance's status says nothing about ours.
    with pytest.raises(InfraError):
        read(tmp_path / "trajectory.traj.json", "a__b-2")


@pytest.mark.parametrize("status", ["Submitted", "LimitsExceeded", "TimeExceeded"])
def test_a_reason_of_its_own_without_its_trajectory_was_lost_by_us(
    status: str, tmp_path: Path
) -> None:
    text = f"instances_by_exit_status:\n  {status}:\n  - {ID}\n"
    (tmp_path / "exit_statuses.yaml").write_text(text)
    with pytest.raises(InfraError) as caught:
        read(tmp_path / "trajectory.traj.json", ID)
    assert caught.value.cause is Cause.AGENT_CRASH


def changed(tmp_path: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    tree = json.loads((DATA / "Submitted.traj.json").read_text(encoding="utf-8"))
    change(tree)
    path = tmp_path / "trajectory.traj.json"
    path.write_text(json.dumps(tree), encoding="utf-8")
    return path


def test_a_status_that_nobody_mapped_is_ours_and_loud(tmp_path: Path) -> None:
    departure = read(changed(tmp_path, lambda t: t["info"].update(exit_status="NewError")), ID)
    assert departure.meaning is Cause.UNKNOWN
    assert "NewError" in departure.detail


@pytest.mark.parametrize("status", ["", None])
def test_no_status_is_ours_and_loud(status: str | None, tmp_path: Path) -> None:
    departure = read(changed(tmp_path, lambda t: t["info"].update(exit_status=status)), ID)
    assert departure.meaning is Cause.UNKNOWN
    assert "no exit status" in departure.detail


@pytest.mark.parametrize("patch", ["", None, "\n", "  \n\n"])
def test_an_empty_submission_is_no_submission(patch: str | None, tmp_path: Path) -> None:
    departure = read(changed(tmp_path, lambda t: t["info"].update(submission=patch)), ID)
    assert departure.meaning is Stop.SUBMITTED
    assert departure.submission is None


def test_a_submission_is_kept_as_it_is(tmp_path: Path) -> None:
    text = "diff --git a/x b/x\r\n+caf\u00e9\u2028\n"
    departure = read(changed(tmp_path, lambda t: t["info"].update(submission=text)), ID)
    assert departure.submission == Patch(text)


@pytest.mark.parametrize(
    "content",
    [b"", b"null", b"[]", b"{}", b'{"info": null}', b'{"info": []}', b"\xff\xfe"],
)
def test_a_trajectory_that_is_none_is_a_crash_of_the_agent(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "trajectory.traj.json"
    path.write_bytes(content)
    done = Completed(returncode=1, output="the last words", seconds=1)
    with pytest.raises(InfraError, match="the last words") as caught:
        read(path, ID, done)
    assert caught.value.cause is Cause.AGENT_CRASH
    assert read_steps(path) == []


@pytest.mark.parametrize("path", TRAJECTORIES, ids=lambda path: path.name.partition(".")[0])
def test_half_a_trajectory_is_a_crash_of_the_agent(path: Path, tmp_path: Path) -> None:
    half = tmp_path / "trajectory.traj.json"
    content = path.read_bytes()
    half.write_bytes(content[: len(content) // 2])
    with pytest.raises(InfraError) as caught:
        read(half, ID)
    assert caught.value.cause is Cause.AGENT_CRASH
    assert read_steps(half) == []


def test_no_trajectory_is_a_crash_of_the_agent(tmp_path: Path) -> None:
    with pytest.raises(InfraError) as caught:
        read(tmp_path / "trajectory.traj.json", ID)
    assert caught.value.cause is Cause.AGENT_CRASH


def test_the_trajectory_of_another_instance_is_refused() -> None:
    with pytest.raises(InfraError, match=r"of passone__sample-1, not of a__b-2"):
        read(DATA / "Submitted.traj.json", "a__b-2")


def test_over_our_wall_clock_is_a_time_limit_whatever_it_wrote() -> None:
    done = Completed(returncode=None, output="", seconds=9, timed_out=True)
    departure = read(DATA / "Submitted.traj.json", ID, done)
    assert departure.meaning is Stop.TIME_LIMIT
    assert departure.submission is None
    assert departure.steps == 3


def test_steps_are_turns_with_their_observations() -> None:
    steps = read_steps(DATA / "Submitted.traj.json")
    assert [step.thought for step in steps] == ["I look.", "I edit.", "I submit."]
    assert steps[0].action == "cat a.py"
    assert "x = 1" in steps[0].observation
    assert "returncode" in steps[1].observation


def test_what_the_agent_said_of_its_own_format_error_stands_in_its_steps() -> None:
    steps = read_steps(DATA / "RepeatedFormatError.traj.json")
    assert all(step.thought == "" and "Tool call error" in step.observation for step in steps)


def test_nested_options_become_settings() -> None:
    options = {"config": "own.yaml", "agent": {"x": {"y": [1, "a b"]}, "z": True}, "e": {}}
    assert settings(options) == [
        *("-c", 'config="own.yaml"'),
        *("-c", 'agent.x.y=[1, "a b"]'),
        *("-c", "agent.z=true"),
        *("-c", "e={}"),
    ]


def read_settings(argv: list[str]) -> dict[str, Any]:
    pairs = [argv[at + 1].partition("=") for at, part in enumerate(argv) if part == "-c"]
    return {name: json.loads(value) if equals else None for name, equals, value in pairs}


def container(**labels: str) -> ContainerSite:
    return ContainerSite(
        image="img:1", labels=labels or {"passone.run": "r1"}, limits=SandboxLimits(memory_gb=2)
    )


def test_the_command_line_sets_what_the_config_says(tmp_path: Path) -> None:
    agent = MiniSweAgent({"environment": {"run_args": ["--network=none"]}})
    argv = agent.command(an_assignment(tmp_path, container()))
    said = read_settings(argv)
    assert argv[0].endswith("mini-extra")
    assert argv[1] == "swebench"
    assert "swebench.yaml" in said
    assert said["model.model_name"] == "openai/m-1"
    assert said["model.model_kwargs.api_base"] == "http://127.0.0.1:9/lane/v1"
    assert (said["model.model_kwargs.temperature"], said["model.model_kwargs.top_p"]) == (0.0, 1.0)
    assert said["model.model_kwargs.max_retries"] == 0
    assert said["agent.step_limit"] == 7
    assert said["agent.cost_limit"] == 0
    assert said["agent.wall_time_limit_seconds"] == 60
    run_args = said["environment.run_args"]
    assert run_args[0] == "--rm"
    assert {"--network=none", "--label=passone.run=r1", "--memory=2048m"} <= set(run_args)
    # Its prompt and tools stay as they ship.
    assert not [name for name in said if "template" in name or "tool" in name]


def test_ours_stand_last_so_that_no_option_goes_around_the_gateway(tmp_path: Path) -> None:
    options = {"model": {"model_kwargs": {"max_retries": 9, "seed": 3}}}
    said = read_settings(MiniSweAgent(options).command(an_assignment(tmp_path, container())))
    assert said["model.model_kwargs.max_retries"] == 0
    assert said["model.model_kwargs.seed"] == 3


def test_without_docker_it_works_behind_the_wrapper_in_the_tree(tmp_path: Path) -> None:
    site = LocalSite(tree=tmp_path, directory="/testbed", wrapper=("bwrap", "--"))
    argv = MiniSweAgent().command(an_assignment(tmp_path, site))
    assert argv[:2] == ["bwrap", "--"]
    said = read_settings(argv)
    assert said["environment.environment_class"] == "local"
    assert said["environment.cwd"] == "/testbed"


def test_its_version_is_that_of_the_installed_package() -> None:
    assert MiniSweAgent().version == importlib.metadata.version("mini-swe-agent")


def test_its_own_config_file_is_passed_on_verbatim(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("agent: {}\n")
    agent = MiniSweAgent({"config": str(own)})
    agent.preflight()
    argv = agent.command(an_assignment(tmp_path, container()))
    assert argv[argv.index("-c") + 1] == str(own)
    with pytest.raises(UserError, match=r"config file .*nowhere\.yaml does not exist"):
        MiniSweAgent({"config": str(tmp_path / "nowhere.yaml")}).preflight()


@pytest.mark.parametrize("name", [*RESERVED, "model.model_kwargs.api_key", "model.token"])
def test_an_option_that_the_config_sets_elsewhere_is_refused(name: str) -> None:
    tree: Any = "sk-SECRET123"
    for part in reversed(name.split(".")):
        tree = {part: tree}
    with pytest.raises(UserError) as caught:
        MiniSweAgent(tree).preflight()
    assert name in str(caught.value)
    assert "SECRET123" not in str(caught.value)


@pytest.mark.parametrize(
    "name",
    [
        "OPENAI_API_KEY",
        "ANTHROPIC_API_KEY",
        "HF_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "DB_PASSWORD",
        "OPENAI_BASE_URL",
        "OPENAI_API_BASE",
        "gateway_api_key",
    ],
)
def test_no_childs_environment_holds_a_key_or_another_endpoint(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, KEY)
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    environment = child_environment(OPENAI_API_KEY="dummy")
    assert KEY not in environment.values()
    assert environment["OPENAI_API_KEY"] == "dummy"
    assert environment["LC_ALL"] == "C.UTF-8"
    assert "127.0.0.1" in environment["NO_PROXY"]


# The real agent, over real HTTP, in the local sandbox. Each run takes several seconds,
# so all of them are made at once, two at a time.

EDIT = runs("echo '# edited' >> README.md", "I edit.")
REAL: dict[str, Answering] = {
    "submits": by_step(
        runs("env; id", "I look."),
        EDIT,
        runs("git diff > patch.txt", "I make the patch."),
        runs("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat patch.txt", "I submit."),
    ),
    "401": by_step(refuses(401, f"Incorrect API key provided: {KEY}", "invalid_api_key")),
    "503 after an edit": by_step(EDIT, refuses(503, "The engine is overloaded")),
    "context, in other words": by_step(
        EDIT, refuses(400, "Range of input length should be [1, 30720]; prompt is too long")
    ),
}


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Tried]]:
    instance = dataset.load("demo").instances[0]

    def work(name: str) -> Tried:
        run = RunDir(tmp_path_factory.mktemp("real") / "run")
        return one_try(
            MiniSweAgent(),
            REAL[name],
            instance=instance,
            sandboxes=LocalSandboxes(run.scratch, plant),
            run=run,
            limits=Limits(steps=10, seconds=120, cost_usd=0),
        )

    with pytest.MonkeyPatch.context() as patched, ThreadPoolExecutor(2) as pool:
        patched.setenv("PLANTED_API_KEY", KEY)
        yield dict(zip(REAL, pool.map(work, REAL), strict=True))


def test_a_clean_submission_is_a_rollout_with_its_patch(tried: dict[str, Tried]) -> None:
    found = tried["submits"]
    assert isinstance(found.value, Rollout)
    assert found.value.stop is Stop.SUBMITTED
    assert found.value.exit_status == "Submitted"
    assert isinstance(found.value.submission, Patch)
    assert "+# edited" in found.value.submission.diff
    assert (found.value.steps, found.value.usage.requests) == (4, 4)
    assert (found.value.usage.input_tokens, found.value.usage.output_tokens) == (40, 8)
    # No price was reported: unknown, and not zero.
    assert found.value.usage.cost_usd is None


def test_what_a_try_leaves_is_what_a_reader_looks_for(tried: dict[str, Tried]) -> None:
    place = next(tried["submits"].place.rglob("try-1"))
    assert {path.name for path in place.iterdir()} == {
        "agent.log",
        "trajectory.traj.json",
        "exit_statuses.yaml",
        "steps.jsonl",
        "patch.diff",
        "tape.jsonl.zst",
    }
    steps = [json.loads(line) for line in (place / "steps.jsonl").read_text().splitlines()]
    assert [step["thought"] for step in steps][:2] == ["I look.", "I edit."]
    assert "+# edited" in (place / "patch.diff").read_text()


def test_the_wire_carries_our_sampling_the_bare_model_and_the_real_key(
    tried: dict[str, Tried],
) -> None:
    for request in tried["submits"].server.requests:
        assert request.body["model"] == "m-1"
        assert (request.body["temperature"], request.body["top_p"]) == (0, 1)
        assert request.headers["authorization"] == f"Bearer {KEY}"


def test_the_commands_of_the_model_see_a_dummy_key_alone(tried: dict[str, Tried]) -> None:
    answer = tried["submits"].server.requests[1].body["messages"][-1]["content"]
    assert "OPENAI_API_KEY=passone-gateway" in answer
    assert KEY not in answer


def test_a_refused_key_is_a_fault_of_the_credentials(tried: dict[str, Tried]) -> None:
    found = tried["401"]
    assert isinstance(found.value, Fault)
    assert found.value.cause is Cause.CREDENTIALS
    assert len(found.server.requests) == 1
    assert "[redacted by passone]" in found.value.detail


def test_a_permanent_503_after_an_edit_is_a_fault_and_no_empty_patch(
    tried: dict[str, Tried],
) -> None:
    found = tried["503 after an edit"]
    assert isinstance(found.value, Fault)
    assert found.value.cause is Cause.ENDPOINT
    # The first request is answered; the second is asked six times, by the gateway alone.
    assert len(found.server.requests) == 1 + 6
    assert found.value.final
    assert found.value.usage.requests == 1
    assert found.value.usage.input_tokens == 10


def test_a_full_context_is_the_models_whatever_the_endpoint_calls_it(
    tried: dict[str, Tried],
) -> None:
    found = tried["context, in other words"]
    assert isinstance(found.value, Rollout)
    assert found.value.stop is Stop.CONTEXT_LIMIT
    assert found.value.submission is None
    assert len(found.server.requests) == 2


@pytest.mark.parametrize("name", REAL)
def test_nothing_that_is_written_holds_the_key(name: str, tried: dict[str, Tried]) -> None:
    assert tried[name].holds("passone-gateway") or name != "submits"
    assert tried[name].holds(KEY) == []


def test_in_a_machine_of_ours_its_own_program_works_with_its_own_prompt(tmp_path: Path) -> None:
    site = MachineSite(
        container="c0ffee", image="img:1", workdir="/work", hand_in=lambda place: Snapshot("s")
    )
    argv = MiniSweAgent().command(an_assignment(tmp_path, site))
    said = read_settings(argv)
    assert argv[0].endswith("/mini")
    assert "mini.yaml" in said
    assert said["agent.agent_class"] == "default"
    assert said["environment.environment_class"] == "passone_attached.Attached"
    assert said["environment.container"] == "c0ffee"
    assert said["environment.cwd"] == "/work"
    assert said["model.model_kwargs.api_base"] == "http://127.0.0.1:9/lane/v1"
    assert not [name for name in said if "template" in name]
    own = MiniSweAgent({"config": "mini_textbased.yaml"})
    own.preflight()
    assert "mini_textbased.yaml" in read_settings(own.command(an_assignment(tmp_path, site)))


def test_when_its_last_command_came_back_is_read_of_actions_as_text_too() -> None:
    messages = [
        {"role": "user", "content": "the task"},
        {"role": "user", "extra": {"returncode": 0, "timestamp": 7.0}},
        {"role": "user", "extra": {"model_response": {}, "timestamp": 9.0}},
    ]
    assert last_observation({"messages": messages}) == 7.0
