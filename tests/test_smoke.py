"""One small try of the agent shows what works, and which of the classic failures it is.

All through the command line: the real mini-swe-agent, the real gateway, a container of ours, and a
scripted endpoint on loopback.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pipeline.docker import connect
from pipeline.doctor.dialogue import Exchange, escaped
from pipeline.doctor.troubles import REMEDY, Trouble, trouble_of
from pipeline.doctor.tryout import heard_in
from pipeline.gateway import tapes
from pipeline.gateway.replies import Reply, read
from tests.command import Passone, Said
from tests.loopback import (
    Answer,
    Answering,
    Received,
    as_json,
    completes,
    refuses,
    runs,
    serve,
)
from tests.terminal import current
from tests.tries import KEY

CONFIG = Path(__file__).parent.parent / "configs" / "terminal-5.yaml"
ONE = ("selection={benchmark: terminal, dataset: demo, strategy: ids, ids: [count-errors]}",)
HERE = ("selection={dataset: demo, size: 1}", "sandbox.kind=local")
"""Without Docker, on an instance of the embedded benchmark: what is said is the same."""
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
LOOK, DONE = runs("echo passone-ok && ls -la", "I look around."), runs(SUBMIT, "It is there.")
UNKNOWN_MODEL = refuses(404, "The model `m-1` does not exist.", "model_not_found")
AS_TEXT = (
    *("--set", "agent.options.config=mini_textbased.yaml"),
    *("--set", "agent.options.model.model_class=litellm_textbased"),
)
LOGPROBS = ("--set", "agent.options.model.model_kwargs.logprobs=true")


def plays(*answers: Answer) -> Answering:
    """Answers the doctor's own question as it wants, then the agent, turn by turn."""

    def answer(request: Received, number: int) -> Answer:
        if request.path.endswith("/models"):
            return as_json({"data": [{"id": "m-1"}, {"id": "m-1-mini"}]})
        messages = request.body["messages"]
        if len(messages) == 1:
            return runs("echo passone-ok")
        # What the agent could not read it does not send back: then it asks for another.
        turn = sum(1 for one in messages[2:] if one["role"] in ("tool", "user"))
        return answers[min(turn, len(answers) - 1)]

    return answer


def line(said: Said, name: str) -> str:
    """What is said of one step, with its remedy and what was answered."""
    lines = said.out.splitlines()
    [at] = [n for n, text in enumerate(lines) if re.match(rf"  [✓!✗–] {name}  ", text)]
    below = [text for text in lines[at + 1 : at + 3] if re.match(r"\s+(→|it answered)", text)]
    return "\n".join([lines[at], *below])


Smoke = Callable[..., Said]


@pytest.fixture
def smoke(passone: Passone, monkeypatch: pytest.MonkeyPatch) -> Iterator[Smoke]:
    """`passone doctor configs/terminal-5.yaml --smoke`, of one task; what is kept is removed."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    heard: list[Said] = []

    def call(base: str, *argv: str, name: str = "openai/m-1", of: tuple[str, ...] = ONE) -> Said:
        pairs = [f"model.base_url={base}", f"model.name={name}", *of]
        sets = [part for pair in pairs for part in ("--set", pair)]
        heard.append(passone("doctor", CONFIG, "--smoke", *sets, *argv))
        # Whatever happens, neither the key nor what a terminal would obey is printed.
        assert KEY not in heard[-1].out + heard[-1].err
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", heard[-1].out)
        return heard[-1]

    yield call
    for said in heard:
        for root in re.findall(r"\S*/passone-smoke-[^/]+", said.out):
            shutil.rmtree(root, ignore_errors=True)


@contextmanager
def nothing_left() -> Iterator[None]:
    """No container and no image stays of a try that is made in here."""
    client, label, begun = connect(), "passone.instance=count-errors", time.time()

    def ours() -> set[str]:
        machines = client.api.containers(all=True, filters={"label": label})
        images = client.api.images("passone/snapshot", filters={"label": label})
        found = [*machines, *images]
        return {one["Id"] for one in found if one["Created"] >= begun - 1}

    yield
    deadline = time.monotonic() + 20
    # Others may try the same task on this machine: theirs are gone soon.
    while ours() and time.monotonic() < deadline:
        time.sleep(0.5)
    assert ours() == set()
    client.close()


# What works.


@pytest.mark.docker
def test_a_good_endpoint_gets_through_every_step(smoke: Smoke) -> None:
    with nothing_left(), serve(plays(LOOK, DONE)) as server:
        said = smoke(server.base_url)
        bodies = [one.body for one in server.requests if one.content]
    assert said.status == 0, said.out
    assert "✗" not in said.out
    assert "✓" in line(said, "container")
    assert "count-errors started, from passone/terminal.count-errors:" in line(said, "container")
    assert f"arrives: {server.base_url}/chat/completions answers 200" in line(said, "request")
    assert "'m-1' answers, and calls itself 'scripted'" in line(said, "model")
    assert "parses into: echo passone-ok && ls -la" in line(said, "action")
    assert "'I look around.' is in the trajectory, and goes back" in line(said, "thought")
    assert "passone-ok came back from the container, and stands" in line(said, "observation")
    assert "request 2, of 4 messages, 10 tokens, is answered after" in line(said, "next turn")
    assert "submitted after 2 steps; its container was handed in" in line(said, "end")
    assert "works: submitted; 2 steps" in said.out
    # One question of the doctor's, two of the agent's. The files of the task were in the container.
    assert len(bodies) == 3
    assert "passone-ok" in bodies[2]["messages"][-1]["content"]
    assert "logs" in bodies[2]["messages"][-1]["content"]
    assert "patch" not in bodies[1]["messages"][1]["content"].partition("You can execute")[0]


@pytest.mark.docker
def test_actions_as_text_get_through_too(smoke: Smoke) -> None:
    def block(command: str) -> Answer:
        return completes(f"I look around.\n\n```mswea_bash_command\n{command}\n```")

    def answer(request: Received, number: int) -> Answer:
        scripted = plays(block("echo passone-ok"), block(SUBMIT))
        return completes("passone") if short(request) else scripted(request, number)

    with serve(answer) as server:
        said = smoke(server.base_url, *AS_TEXT)
    assert said.status == 0, said.out
    assert "–" in line(said, "tool call")
    assert "parses into: echo passone-ok" in line(said, "action")
    assert "kept: 'I look around.'" in line(said, "thought")
    assert "✓" in line(said, "observation")


def short(request: Received) -> bool:
    return request.path.endswith("/completions") and len(request.body["messages"]) == 1


def test_reasoning_that_the_server_tells_apart_is_a_thought(smoke: Smoke) -> None:
    with serve(plays(reasons(LOOK, "I had better look."), DONE)) as server:
        said = smoke(server.base_url, of=HERE)
    assert said.status == 0, said.out
    assert "'I had better look.'" in line(said, "thought")
    assert "thought      I had better look." in said.out


def reasons(answer: Answer, text: str) -> Answer:
    """The same, with its words as reasoning."""
    tree = json.loads(answer.content)
    tree["choices"][0]["message"] |= {"content": None, "reasoning_content": text}
    return as_json(tree)


def test_a_model_that_does_something_else_is_looked_at_and_works(smoke: Smoke) -> None:
    bare = completes(None, calls=[("bash", {"command": "pwd"})])
    with serve(plays(bare, runs(SUBMIT, ""))) as server:
        said = smoke(server.base_url, of=HERE)
    assert said.status == 0, said.out
    assert "!" in line(said, "thought")
    assert "--reasoning-parser" in line(said, "thought")
    assert "! observation" in line(said, "observation")
    assert "did not run what it was asked to" in line(said, "observation")
    assert "this came back: " in line(said, "observation")


def test_a_model_that_never_submits_is_cut_off_and_said(smoke: Smoke) -> None:
    with serve(plays(LOOK)) as server:
        said = smoke(server.base_url, of=HERE)
    assert said.status == 0, said.out
    assert "step_limit: the model did not submit within 4 steps" in line(said, "end")


ASKS = """
import json, os, sys, urllib.request as web
words = [dict(role="system", content="act"), dict(role="user", content="do it")]
body = json.dumps(dict(model="m-1", messages=words)).encode()
url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
web.urlopen(web.Request(url, body, dict([("content-type", "application/json")]))).read()
open(sys.argv[1], "w").close()
"""


def test_an_agent_that_leaves_no_steps_is_judged_by_what_it_asked(smoke: Smoke) -> None:
    options = {"argv": ["python3", "-c", ASKS, "{patch_file}"]}
    agent = f"agent={json.dumps({'name': 'command', 'options': options})}"
    with serve(plays(completes("done"))) as server:
        said = smoke(server.base_url, "--set", agent, of=HERE)
    assert said.status == 0, said.out
    assert "✓" in line(said, "request")
    assert "agent 'command' leaves no steps" in line(said, "action")
    assert "–" in line(said, "observation")


# The classic failures, as the first question of the doctor's meets them.


def always(answer: Answer) -> Answering:
    return lambda request, number: answer


@pytest.mark.parametrize(
    ("answering", "name", "check", "detail", "remedy", "raw"),
    [
        (
            always(refuses(401, "Incorrect API key")),
            "openai/m-1",
            "key accepted",
            "does not know the key in OPENAI_API_KEY (401",
            "export OPENAI_API_KEY=<a key of this endpoint>",
            '"message": "Incorrect API key"',
        ),
        (
            always(as_json({"detail": "Not Found"}, 404)),
            "openai/m-1",
            "address",
            "answers 404: Not Found; nobody speaks the chat completions API there",
            "take the base URL from the endpoint's own documentation",
            '{"detail": "Not Found"}',
        ),
        (
            lambda request, number: (
                plays()(request, number) if request.path.endswith("/models") else UNKNOWN_MODEL
            ),
            "openai/m-1-minni",
            "model id",
            "'m-1-minni' is not served; nearest of 2: m-1-mini",
            "--set model.name=openai/m-1-mini",
            '"code": "model_not_found"',
        ),
        (
            always(completes("")),
            "openai/m-1",
            "tool call",
            "the reply is empty, and agent 'miniswe' works through tool calls alone",
            "--enable-auto-tool-choice",
            '"content": ""',
        ),
    ],
    ids=["401", "404", "model not found", "no action"],
)
def test_what_the_first_question_finds_is_said_before_an_agent_is_started(
    answering: Answering,
    name: str,
    check: str,
    detail: str,
    remedy: str,
    raw: str,
    smoke: Smoke,
) -> None:
    with serve(answering) as server:
        said = smoke(server.base_url, name=name)
    assert said.status == 2
    assert "✗" in line(said, check)
    assert detail in line(said, check)
    assert remedy in line(said, check)
    assert raw in line(said, check).partition("it answered")[2]
    assert "container, request, model" in said.out.split("not looked at")[-1]
    assert "what the agent did" not in said.out


# The same and the others, as the agent itself meets them.

UNREADABLE = as_json(
    {
        "id": "x",
        "choices": [
            {
                "index": 0,
                "finish_reason": "tool_calls",
                "message": {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {
                            "id": "c",
                            "type": "function",
                            "function": {"name": "bash", "arguments": '{"command": "ls'},
                        }
                    ],
                },
            }
        ],
    }
)
CUT = as_json(
    {
        "id": "x",
        "choices": [
            {
                "index": 0,
                "finish_reason": "length",
                "message": {"role": "assistant", "content": "Let me think"},
            }
        ],
    }
)
SOON = ("--set", "gateway.request_seconds=1", "--set", "gateway.backoff_seconds=0.05")
BROKEN: Mapping[str, tuple[tuple[Answer, ...], tuple[str, ...], str, str, str, str]] = {
    "401 in the first turn": (
        (refuses(401, "expired just now"),),
        (),
        "request",
        "the key in OPENAI_API_KEY is refused: request 1 is answered 401: expired just now",
        "export OPENAI_API_KEY=<a key of this endpoint>",
        "expired just now",
    ),
    "401 later": (
        (LOOK, refuses(401, "used up")),
        (),
        "next turn",
        "the key in OPENAI_API_KEY is refused: request 2 is answered 401: used up",
        "one that stays valid while a run lasts",
        "used up",
    ),
    "404": (
        (as_json({"detail": "Not Found"}, 404),),
        (),
        "request",
        "is answered 404: Not Found",
        "belongs into model.base_url, with or without /v1",
        '{"detail": "Not Found"}',
    ),
    "model not found": (
        (UNKNOWN_MODEL,),
        (),
        "model",
        "'m-1' is not known: request 1 is answered 404",
        "--set model.name=openai/<id>",
        "does not exist",
    ),
    "no answer in a later turn": (
        (LOOK, Answer(seconds=3)),
        SOON,
        "next turn",
        "request 2, of 4 messages, timed out after 1.0 s",
        "raise gateway.request_seconds",
        "(nothing came back)",
    ),
    "a proxy's time-out in a later turn": (
        (LOOK, Answer(status=504, content=b"<html>504 Gateway Time-out\x1b[2J</html>")),
        SOON,
        "next turn",
        "the first was answered after",
        "a time-out between here and the model (a proxy, a load balancer)",
        "504 Gateway Time-out\\x1b[2J",
    ),
    "a connection that breaks later": (
        (LOOK, Answer(manner="reset")),
        SOON,
        "next turn",
        "request 2 brings no answer",
        "see that the server still runs",
        "(nothing came back)",
    ),
    "empty": (
        (completes(""),),
        (),
        "action",
        "the reply is empty",
        "--set agent.options.config=mini_textbased.yaml",
        '"content": ""',
    ),
    "in words": (
        (completes("I would run \x1b[31mls\u202e, then."),),
        (),
        "action",
        "no tool call comes back",
        "--tool-call-parser",
        r"I would run \u001b[31mls\u202e, then.",
    ),
    "left in the text": (
        (completes('<tool_call>{"name": "bash"}</tool_call>'),),
        (),
        "action",
        "the call stands in the text, where no agent sees it",
        "--tool-call-parser",
        "<tool_call>",
    ),
    "no JSON": (
        (UNREADABLE,),
        (),
        "action",
        "with arguments that are no JSON",
        "--tool-call-parser",
        r"{\"command\": \"ls",
    ),
    "cut off": (
        (CUT,),
        (),
        "action",
        "its tokens ran out before it said what to do",
        "sampling.max_tokens",
        "Let me think",
    ),
    "figures that only a trainer needs": (
        (refuses(400, "logprobs is not supported by this model"),),
        LOGPROBS,
        "figures",
        "the config asks for logprobs, which the endpoint does not give",
        "--set agent.options.model.model_kwargs.logprobs=false",
        "logprobs is not supported",
    ),
    "a small window": (
        (LOOK, refuses(400, "maximum context length is 2048 tokens", "context_length_exceeded")),
        (),
        "next turn",
        "the model's window is too small",
        "--max-model-len",
        "2048 tokens",
    ),
}


def told_apart(what: str, smoke: Smoke, of: tuple[str, ...]) -> None:
    answers, argv, check, detail, remedy, raw = BROKEN[what]
    with serve(plays(*answers)) as server:
        said = smoke(server.base_url, *argv, of=of)
    assert said.status == 2, said.out
    failed = [text for text in said.out.splitlines() if text.startswith("  ✗")]
    assert [text[4:].partition("  ")[0] for text in failed] == [check]
    assert detail in line(said, check)
    assert remedy in line(said, check)
    assert raw in line(said, check).partition("it answered")[2]
    assert "does not work" in said.out
    kept = Path(said.out.split("what the agent left: ")[1].strip())
    assert (kept / "agent.log").is_file()


CLASSIC = (
    *("401 later", "404", "model not found", "no answer in a later turn", "empty"),
    "figures that only a trainer needs",
)


@pytest.mark.docker
@pytest.mark.parametrize("what", CLASSIC)
def test_each_classic_failure_is_told_apart_with_its_remedy_and_the_raw_completion(
    what: str, smoke: Smoke
) -> None:
    told_apart(what, smoke, ONE)


@pytest.mark.parametrize("what", [what for what in BROKEN if what not in CLASSIC])
def test_its_other_forms_are_told_apart_without_docker_too(what: str, smoke: Smoke) -> None:
    told_apart(what, smoke, HERE)


@pytest.mark.docker
def test_no_block_of_text_is_no_action_either(smoke: Smoke) -> None:
    def answer(request: Received, number: int) -> Answer:
        return completes("passone") if short(request) else plays(completes("ls"))(request, number)

    with serve(answer) as server:
        said = smoke(server.base_url, *AS_TEXT)
    assert said.status == 2
    assert "no action can be read in: 'ls'" in line(said, "action")
    assert "one ```mswea_bash_command block a reply" in line(said, "action")


# Numbers that are a trainer's business.


def numbered(answer: Answer, **more: Any) -> Answer:
    """The same, with figures beside its choice and in it."""
    tree = json.loads(answer.content)
    tree["choices"][0] |= more.pop("choice", {})
    return Answer(content=json.dumps(tree | more).encode())


def test_figures_that_are_missing_are_said_and_are_no_failure(smoke: Smoke) -> None:
    with serve(plays(LOOK, DONE)) as server:
        said = smoke(server.base_url, of=HERE)
    assert said.status == 0
    assert "– figures" in line(said, "figures")
    assert "not in the replies: logprobs, token ids" in line(said, "figures")
    assert "an evaluation needs none of it" in line(said, "figures")


def test_a_trainers_numbers_in_a_reply_are_sent_back_to_the_trainer(smoke: Smoke) -> None:
    token = {"token": "ls", "logprob": float("nan")}
    theirs = {
        "loss": float("nan"),
        "metrics": {"learning_rate": 1e-6},
        "choice": {"logprobs": {"content": [token]}, "token_ids": [7]},
    }
    with serve(plays(numbered(LOOK, **theirs), numbered(DONE, **theirs))) as server:
        said = smoke(server.base_url, *LOGPROBS, of=HERE)
    assert said.status == 0, said.out
    assert "some logprobs are no numbers" in line(said, "figures")
    assert "a trainer's numbers: learning_rate, loss" in line(said, "figures")
    assert "the trainer's business: look there, not at this endpoint" in line(said, "figures")


def test_a_trainers_number_in_a_config_is_refused_with_whose_it_is(passone: Passone) -> None:
    said = passone("doctor", CONFIG, "--smoke", "--set", "learning_rate=1e-6")
    assert said.status == 2
    assert "unknown key 'learning_rate'; that is a trainer's business" in said.err


# What lies with this machine or with the tasks.


def test_without_docker_it_says_so_and_looks_at_the_rest(
    smoke: Smoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    with serve(plays(LOOK, DONE)) as server:
        said = smoke(server.base_url)
    assert said.status == 2
    assert "✗ docker" in line(said, "docker")
    assert "Docker does not answer at tcp://127.0.0.1:1" in line(said, "docker")
    assert "terminal tasks run in containers, and nothing stands in" in line(said, "docker")
    assert "→ start Docker, or name a daemon that runs" in line(said, "docker")
    assert "✓" in line(said, "tool call")
    assert "container, request" in said.out.split("not looked at")[-1]


def test_a_local_sandbox_is_refused_with_what_would_do(smoke: Smoke) -> None:
    said = smoke("http://127.0.0.1:1/v1", "--set", "sandbox.kind=local")
    assert said.status == 2
    assert "terminal tasks run in containers only" in line(said, "docker")
    assert "--set sandbox.kind=docker" in line(said, "docker")


@pytest.mark.parametrize(
    ("files", "detail"),
    [
        ({}, "no task there"),
        ({"a/readme.md": "nothing"}, "no task there"),
        ({"a/task.toml": "x"}, "no task there can be run"),
    ],
)
def test_a_folder_without_a_task_is_said_before_anything_is_started(
    files: Mapping[str, str], detail: str, smoke: Smoke, tmp_path: Path
) -> None:
    for name, content in {"tasks/.keep": "", **files}.items():
        (tmp_path / "tasks" / name.removeprefix("tasks/")).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tasks" / name.removeprefix("tasks/")).write_text(content)
    with serve(plays(LOOK, DONE)) as server:
        said = smoke(
            server.base_url, "--set", "selection={benchmark: terminal, dataset: ./tasks, size: 1}"
        )
        asked = [one for one in server.requests if one.content]
    assert said.status == 2
    assert "✗ dataset" in line(said, "dataset")
    assert detail in line(said, "dataset")
    assert "→ name a" in line(said, "dataset")
    assert len(asked) == 1


@pytest.mark.docker
def test_an_image_that_cannot_be_built_is_not_the_endpoints_fault(
    smoke: Smoke, tmp_path: Path
) -> None:
    files = {
        "environment/Dockerfile": "FROM passone/terminal.base:1\nRUN echo no such bolt; false\n"
    }
    current(tmp_path / "tasks" / "hello", files=files)
    with serve(plays(LOOK, DONE)) as server:
        said = smoke(
            server.base_url, "--set", "selection={benchmark: terminal, dataset: ./tasks, size: 1}"
        )
    assert said.status == 2
    assert "✗ container" in line(said, "container")
    assert "hello: the build of passone/terminal.hello" in line(said, "container")
    assert "mend its Dockerfile" in line(said, "container")
    assert "--set selection.exclude=[hello]" in line(said, "container")
    assert "request, model, action" in said.out.split("not looked at")[-1]


def test_a_machine_reads_the_same(smoke: Smoke) -> None:
    with serve(plays(completes("just words"))) as server:
        said = smoke(server.base_url, "--json", of=HERE)
    tree = json.loads(said.out)
    checks = {check["name"]: check for check in tree["checks"] if check["area"] == "smoke"}
    assert (said.status, tree["exit"], tree["smoke"]["works"]) == (2, 2, False)
    assert checks["action"]["state"] == "fail"
    assert "just words" in checks["action"]["raw"]
    assert checks["thought"]["detail"] == "needs action"
    shutil.rmtree(next(p for p in Path(tree["smoke"]["kept"]).parents if "smoke-" in p.name))


def test_a_config_without_replies_of_an_agent_is_tried_no_further(passone: Passone) -> None:
    said = passone("doctor", CONFIG, "--smoke", "--set", "agent.name=sweagent")
    assert said.status == 2
    assert "agent 'sweagent' works on no terminal tasks; known: miniswe" in said.err
    said = passone("doctor", CONFIG, "--smoke", "--only", "docker")
    assert said.status == 2
    assert "leave --only out" in said.err


# The doctor's other checks, on a folder of terminal tasks.


@pytest.fixture
def looked_at(passone: Passone, tmp_path: Path) -> Callable[..., Said]:
    """The plain doctor, on two tasks of a folder and one that is skipped."""
    tasks = tmp_path / "tasks"
    current(tasks / "one", "[environment]\nmemory_mb = 4096\n")
    current(tasks / "two", files={"task.toml": '[metadata]\ncategory = "files"\n'})
    current(tasks / "three", files={"tests/test.sh": None})

    def call(areas: str, *argv: str) -> Said:
        chosen = "selection={benchmark: terminal, dataset: ./tasks, size: 2}"
        return passone("doctor", CONFIG, "--only", areas, "--set", chosen, *argv)

    return call


def test_the_drawn_tasks_are_counted_and_what_is_skipped_is_said(
    looked_at: Callable[..., Said],
) -> None:
    said = looked_at("dataset,python")
    assert said.status == 0
    assert "2 of ./tasks drawn, categories: 2; 1 of 3 tasks are skipped" in line(said, "dataset")
    assert "bubblewrap" not in line(said, "tools")


@pytest.mark.docker
def test_images_that_are_to_be_built_are_counted_and_nobody_is_asked_for_them(
    looked_at: Callable[..., Said],
) -> None:
    said = looked_at("images,disk", "--set", "sandbox.memory_gb=1")
    assert said.status == 0, said.out
    assert "0 of 2 are here, 2 to be built when they are needed" in line(said, "images")
    assert "one asks for 4 GB of memory, sandbox.memory_gb allows 1" in line(said, "images")
    assert "raise sandbox.memory_gb" in line(said, "images")
    assert "2 images to build, some 1 GB each" in line(said, "disk")


# Pure functions.


def heard(status: int, body: object, request: Mapping[str, Any] | None = None) -> Exchange:
    content = json.dumps(body).encode()
    reply = Reply(status, content)
    return Exchange(request=request or {}, reply=reply, tree=body, reading=read(reply, "there"))


SAMPLES: Mapping[Trouble, Exchange] = {
    Trouble.KEY: heard(401, {"error": {"message": "who are you?"}}),
    Trouble.ADDRESS: heard(404, {"detail": "Not Found"}),
    Trouble.MODEL: heard(404, {"error": {"message": "no such model"}}),
    Trouble.SILENCE: heard(504, {"error": {"message": "upstream"}}),
    Trouble.BREAK: Exchange(request={}),
    Trouble.FIGURES: heard(
        400, {"error": {"message": "logprobs: not for this model"}}, {"logprobs": True}
    ),
    Trouble.WINDOW: heard(400, {"error": {"message": "maximum context length is 10"}}),
    Trouble.OTHER: heard(400, {"error": {"message": "temperature is not for this model"}}),
}


def test_every_trouble_has_a_remedy_and_is_known_when_it_is_seen() -> None:
    assert REMEDY.keys() == set(Trouble)
    assert {trouble: trouble_of(said) for trouble, said in SAMPLES.items()} == {
        trouble: trouble for trouble in Trouble
    }


def test_what_the_gateway_wrote_for_want_of_an_answer_is_none() -> None:
    answer = {"error": {"message": "there: ReadTimeout: late", "type": "passone", "code": None}}
    said = heard_in(tapes.Exchange(ordinal=1, request={}, status=502, answer=answer))
    assert said.reply is None


def test_a_long_answer_keeps_both_ends_and_obeys_nothing() -> None:
    text = "begin" + "x" * 5000 + "\x1b[2J\x9b1m\u202e end"
    shown = escaped(text, 200)
    assert len(shown) < 300
    assert shown.startswith("beginxx")
    assert shown.endswith(r"\x1b[2J\x9b1m\u202e end")
    assert "characters more" in shown
    assert shown.isprintable()
