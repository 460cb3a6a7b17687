"""Planted keys, wherever a person may put one, are found nowhere in what a run writes."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline.benchmarks import dataset
from pipeline.bundle import opened
from pipeline.domain import Instance
from pipeline.gateway.tapes import lines_of
from tests.loopback import Answer, Received, in_turn, refuses, runs, serve

KEY = "sk-proj-planted-Key-0815"
HEADER = "team-planted-header-4711"
TOKEN = "hf_planted_token_2342"
PLANTED = (KEY, HEADER, TOKEN)
PASSONE = Path(sys.executable).with_name("passone")
ECHO = f"you sent Bearer {KEY} and {HEADER}"
TALK = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


def gold(instance: Instance) -> Sequence[Answer]:
    """The reference solution, after a look at everything that may hold a key."""
    look = "env; cat /proc/*/environ /proc/*/cmdline | tr '\\0' '\\n'; true"
    apply = f"git apply - <<'END'\n{instance.row['patch']}END"
    return (runs(look), runs(apply), runs(f"git diff > p; {TALK} && cat p"))


def idle(instance: Instance) -> Sequence[Answer]:
    return (runs("echo '# edited' >> README.md; git diff > p"), runs(f"{TALK} && cat p"))


def prose(instance: Instance) -> Sequence[Answer]:
    return (runs(f"{TALK} && echo 'this is no patch'"),)


def breaks(instance: Instance) -> Sequence[Answer]:
    return (runs("ls"), refuses(500, ECHO, x_request=ECHO))


def overflows(instance: Instance) -> Sequence[Answer]:
    return (runs("ls"), refuses(400, f"maximum context length; {ECHO}", "context_length_exceeded"))


OUTCOMES: Mapping[str, tuple[str, Callable[[Instance], Sequence[Answer]]]] = {
    "passone__almanac-27": ("resolved", gold),
    "passone__ballast-42": ("unresolved", idle),
    "passone__cartouche-27": ("patch_rejected", prose),
    "passone__dovetail-35": ("infra", breaks),
    "passone__ember-24": ("no_submission", overflows),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    root: Path
    said: str
    outcomes: Mapping[str, str]
    keys: set[str]
    """As the endpoint got them."""


def answer_of(request: Received, scripts: Mapping[str, Sequence[Answer]]) -> Answer:
    """By the issue that the conversation is about, and by how far it is."""
    messages = request.body["messages"]
    told = " ".join(str(message.get("content")) for message in messages[:2])
    step = [message["role"] for message in messages].count("assistant")
    found = [answers for prompt, answers in scripts.items() if prompt in told]
    answers = found[0] if found else (runs("echo ok"),)
    return answers[min(step, len(answers) - 1)]


def config_of(base_url: str, **changes: Any) -> dict[str, Any]:
    tree: dict[str, Any] = {
        "name": "secret",
        "selection": {"dataset": "demo", "strategy": "ids", "ids": list(OUTCOMES)},
        "agent": {"name": "miniswe"},
        "model": {
            "name": "openai/served",
            "base_url": base_url,
            "key_variable": "ODD_NAME",
            "headers": {"x-api-key": "${TEAM_HEADER}"},
        },
        "limits": {"steps": 6, "seconds": 120, "cost_usd": 0},
        "sandbox": {"kind": "local"},
        "gateway": {"backoff_seconds": 0.01, "requests": 2},
        "execution": {"tries": 2, "agent_workers": 2, "scorer_workers": 1, "backoff_seconds": 0},
    }
    return tree | changes


def passone_run(tree: Mapping[str, Any], place: Path) -> subprocess.CompletedProcess[str]:
    """`passone run` as a user starts it, with planted keys in its environment."""
    path = place / "config.yaml"
    path.write_text(yaml.safe_dump(dict(tree)))
    planted = {"ODD_NAME": KEY, "TEAM_HEADER": HEADER, "HF_TOKEN": TOKEN}
    return subprocess.run(
        [str(PASSONE), "run", str(path), "--logs", str(place / "logs")],
        env={**os.environ, **planted, "PASSONE_CACHE": str(place / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    place = tmp_path_factory.mktemp("secrets")
    instances = {item.id: item for item in dataset.load("demo").instances}
    scripts = {
        instances[id_].prompt.strip().splitlines()[0]: make(instances[id_])
        for id_, (_, make) in OUTCOMES.items()
    }
    with serve(lambda request, number: answer_of(request, scripts)) as server:
        done = passone_run(config_of(server.base_url), place)
        assert (place / "logs/secret/report").is_dir(), done.stdout + done.stderr
        keys = {request.headers.get("authorization", "") for request in server.requests}
    root = place / "logs" / "secret"
    with (root / "report" / "attempts.csv").open(newline="") as file:
        outcomes = {row["instance"]: row["outcome"] for row in csv.DictReader(file)}
    return Ran(root=root, said=done.stdout + done.stderr, outcomes=outcomes, keys=keys)


def content_of(path: Path) -> bytes:
    """A file as it stands, and as it reads once it is unpacked."""
    unpacked = b"\n".join(lines_of(path)) if path.name.endswith(".zst") else b""
    return path.read_bytes() + unpacked


def test_the_run_came_to_one_outcome_of_every_kind_with_the_real_key(ran: Ran) -> None:
    assert ran.outcomes == {id_: outcome for id_, (outcome, _) in OUTCOMES.items()}, ran.said
    assert ran.keys == {f"Bearer {KEY}"}


@pytest.mark.parametrize("secret", PLANTED)
def test_no_file_of_a_run_holds_a_planted_key(secret: str, ran: Ran) -> None:
    files = [path for path in ran.root.parent.parent.rglob("*") if path.is_file()]
    assert len(files) > 50
    holding = [str(path) for path in files if secret.encode() in content_of(path)]
    assert holding == []


@pytest.mark.parametrize("secret", PLANTED)
def test_nothing_that_is_printed_holds_a_planted_key(secret: str, ran: Ran) -> None:
    assert "infra" in ran.said
    assert secret not in ran.said


def test_what_the_endpoint_said_is_kept_all_the_same(ran: Ran) -> None:
    fault = next(ran.root.glob("attempts/passone__dovetail-35/1/try-1/fault.txt")).read_text()
    assert "you sent Bearer [redacted by passone] and [redacted by passone]" in fault


def test_no_member_of_its_bundle_holds_a_planted_key(ran: Ran) -> None:
    place = ran.root.parent.parent / "bundled"
    place.mkdir()
    planted = {"ODD_NAME": KEY, "TEAM_HEADER": HEADER, "HF_TOKEN": TOKEN}
    for number, env in enumerate(({}, planted)):
        file = place / f"{number}.passone"
        done = subprocess.run(
            [str(PASSONE), "bundle", str(ran.root), "-o", str(file)],
            env={**os.environ, **env},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "a key of this environment" not in done.stderr
        with opened(file) as run:
            files = [path for path in run.root.rglob("*") if path.is_file()]
            assert len(files) > 50
            assert not [
                path for path in files for key in PLANTED if key.encode() in content_of(path)
            ]
    assert (place / "0.passone").read_bytes() == (place / "1.passone").read_bytes()


# Where a key would be written down, it is refused before anything starts


@pytest.mark.parametrize(
    "change",
    [
        {"agent": {"name": "miniswe", "options": {"environment": {"env": {"X": "${HF_TOKEN}"}}}}},
        {"agent": {"name": "miniswe", "options": {"environment": {"env": {"X": KEY}}}}},
        {"agent": {"name": "miniswe", "options": {"environment": {"env": {"X": TOKEN}}}}},
        {"agent": {"name": "miniswe", "options": {"environment": {"env": {"MY_API_KEY": "abc"}}}}},
        {
            "agent": {
                "name": "miniswe",
                "options": {"environment": {"run_args": ["-e", "HF_TOKEN=${HF_TOKEN}"]}},
            }
        },
        {"agent": {"name": "command", "options": {"argv": ["true", "--key", "${HF_TOKEN}"]}}},
        {"agent": {"name": "miniswe", "options": {"model": {"model_kwargs": {"api_key": KEY}}}}},
    ],
    ids=[
        *("an option", "the key itself", "another's key itself", "an option that is called a key"),
        *("arguments for docker", "arguments", "a key's own option"),
    ],
)
def test_a_key_among_an_agents_options_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    with serve(in_turn(runs("echo ok"))) as server:
        said = refused(config_of(server.base_url, **change), tmp_path)
        assert server.requests == []
    assert not [secret for secret in PLANTED if secret in said]


@pytest.mark.parametrize(
    "base_url",
    [
        f"http://127.0.0.1:9/v1?key={KEY}",
        f"http://me:{KEY}@127.0.0.1:9/v1",
        f"http://127.0.0.1:9/{KEY}/v1",
    ],
    ids=["a query", "credentials", "a path"],
)
def test_a_key_in_the_base_url_is_refused(base_url: str, tmp_path: Path) -> None:
    said = refused(config_of(base_url), tmp_path)
    assert not [secret for secret in PLANTED if secret in said]


def refused(tree: Mapping[str, Any], place: Path) -> str:
    """What is said; the exit status is 2, and only the config itself holds a planted key."""
    done = passone_run(tree, place)
    assert done.returncode == 2, done.stderr
    written = [file for file in place.rglob("*") if file.is_file() and file.suffix != ".yaml"]
    assert not [
        file for file in written for secret in PLANTED if secret.encode() in content_of(file)
    ]
    return done.stdout + done.stderr
