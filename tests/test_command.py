"""Any other agent: an argv template that leaves a patch, really run."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from threading import Event, Timer
from typing import Any

import pytest

from pipeline.agents.command import FIELDS, CommandAgent
from pipeline.docker import local
from pipeline.domain import Cause, Departure, Patch, SandboxLimits, Stop
from pipeline.outcomes import UserError
from pipeline.sites import ContainerSite, LocalSite, Site
from tests.tries import KEY, an_assignment

SITE = ContainerSite(
    image="img:1", labels={"passone.run": "r1", "passone.try": "t1"}, limits=SandboxLimits()
)


def shell(script: str, tmp_path: Path, *more: str, site: Site | None = SITE) -> Departure:
    agent = CommandAgent({"argv": ["/bin/sh", "-c", script, "sh", *more]})
    agent.preflight()
    return agent.solve(an_assignment(tmp_path, site))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "options.argv must be a list of strings"),
        ({"argv": "run me"}, "must be a list of strings"),
        ({"argv": []}, "must be a list of strings"),
        ({"argv": ["sh", 3]}, "must be a list of strings"),
        ({"argv": ["sh"], "shell": True}, "unknown option 'shell'; known: argv"),
        ({"argv": ["sh", "{prompt}"]}, "unknown field {prompt} in argv; known: instance_id"),
        ({"argv": ["sh", "{}"]}, "unknown field {} in argv"),
        ({"argv": ["no-such-program-anywhere"]}, "no-such-program-anywhere is not on PATH"),
    ],
)
def test_a_template_that_cannot_work_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as caught:
        CommandAgent(options).preflight()
    assert message in str(caught.value)
    assert "agent 'command'" in str(caught.value)


@pytest.mark.parametrize("part", ["{", "}", "{model", "a}b", '{"a": 1}'])
def test_a_brace_that_closes_nothing_is_refused_and_no_bug(part: str) -> None:
    with pytest.raises(UserError) as caught:
        CommandAgent({"argv": ["sh", part]}).preflight()
    assert "agent 'command'" in str(caught.value)


def test_every_field_is_filled_in(tmp_path: Path) -> None:
    names = sorted(FIELDS)
    script = 'for part in "$@"; do echo "$part"; done > {workdir}/fields; : > {patch_file}'
    shell(script, tmp_path, *(f"{name}={{{name}}}" for name in names))
    said = dict(line.split("=", 1) for line in (tmp_path / "fields").read_text().splitlines())
    assert said == {
        "instance_id": "a__b-1",
        "prompt_file": str(tmp_path / "prompt.md"),
        "patch_file": str(tmp_path / "submitted.diff"),
        "workdir": str(tmp_path),
        "base_url": "http://127.0.0.1:9/lane/v1",
        "model": "m-1",
        "image": "img:1",
        "directory": "/testbed",
        "labels": "passone.run=r1,passone.try=t1",
    }
    assert (tmp_path / "prompt.md").read_text() == "It is broken."


def test_doubled_braces_are_braces(tmp_path: Path) -> None:
    shell("echo '{{\"a\": 1}}' > {workdir}/said; : > {patch_file}", tmp_path)
    assert (tmp_path / "said").read_text() == '{"a": 1}\n'


@pytest.mark.parametrize(
    ("script", "meaning", "submission"),
    [
        ("printf 'diff --git' > {patch_file}", Stop.SUBMITTED, Patch("diff --git")),
        # An empty file means that the model gave up; no file, that something broke.
        (": > {patch_file}", Stop.SUBMITTED, None),
        ("printf '\\n\\n' > {patch_file}", Stop.SUBMITTED, None),
        ("true", Cause.AGENT_CRASH, None),
        ("exit 3", Cause.AGENT_CRASH, None),
        ("printf 'diff' > {patch_file}; exit 3", Cause.AGENT_CRASH, Patch("diff")),
        ("printf 'diff' > {patch_file}; kill -9 $$", Cause.AGENT_CRASH, Patch("diff")),
    ],
)
def test_what_it_leaves_says_how_it_ended(
    script: str, meaning: Stop | Cause, submission: Patch | None, tmp_path: Path
) -> None:
    departure = shell(script, tmp_path)
    assert departure.meaning is meaning
    assert departure.submission == submission


def test_a_crash_keeps_its_last_words(tmp_path: Path) -> None:
    departure = shell("echo out of cheese >&2; exit 7", tmp_path)
    assert departure.exit_status == "exit 7"
    assert "ended with 7 and left no patch file" in departure.detail
    assert "out of cheese" in departure.detail
    assert "out of cheese" in (tmp_path / "agent.log").read_text()


def test_a_patch_that_is_not_utf_8_keeps_its_bytes(tmp_path: Path) -> None:
    departure = shell("printf '+caf\\351\\r\\n' > {patch_file}", tmp_path)
    assert isinstance(departure.submission, Patch)
    content = departure.submission.diff.encode("utf-8", "surrogateescape")
    assert content == b"+caf\xe9\r\n"


def test_it_sees_a_dummy_key_its_lane_and_its_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OTHER_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", "https://elsewhere/v1")
    shell("env > {workdir}/environment; : > {patch_file}", tmp_path)
    text = (tmp_path / "environment").read_text()
    assert KEY not in text
    assert "elsewhere" not in text
    said = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    assert said["OPENAI_API_KEY"] == "passone-gateway"
    assert said["OPENAI_BASE_URL"] == said["OPENAI_API_BASE"] == "http://127.0.0.1:9/lane/v1"
    assert json.loads(said["PASSONE_LIMITS"]) == {"steps": 7, "seconds": 60}
    assert json.loads(said["PASSONE_SAMPLING"]) == {
        "temperature": 0.0,
        "top_p": 1.0,
        "seed": None,
        "max_tokens": None,
    }


def test_what_docker_mounts_is_not_shown_for_it_may_go_meanwhile(tmp_path: Path) -> None:
    argv = local.wrapper(tmp_path)
    if not argv:
        pytest.skip("bubblewrap is not installed, or may not work here")
    assert argv[argv.index("/var") - 1] == "--tmpfs"
    subprocess.run([*argv, "test", "!", "-e", "/var/lib/docker"], check=True)


def test_without_docker_it_works_behind_the_wrapper(tmp_path: Path) -> None:
    site = LocalSite(tree=tmp_path, directory="/testbed", wrapper=("/usr/bin/env", "WRAPPED=yes"))
    script = "echo $WRAPPED {directory} {image}. {labels}. > {workdir}/said; : > {patch_file}"
    shell(script, tmp_path, site=site)
    assert (tmp_path / "said").read_text() == "yes /testbed . .\n"


def test_a_cancelled_try_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    script = "printf diff > {patch_file}; (sleep 60; touch {workdir}/late) & sleep 60"
    cancelled = Event()
    Timer(0.3, cancelled.set).start()
    agent = CommandAgent({"argv": ["/bin/sh", "-c", script]})
    started = time.monotonic()
    departure = agent.solve(an_assignment(tmp_path, SITE, cancelled=cancelled))
    assert time.monotonic() - started < 20
    assert departure.meaning is Cause.AGENT_CRASH
    assert not (tmp_path / "late").exists()


def test_its_steps_are_unknown(tmp_path: Path) -> None:
    assert CommandAgent().steps(tmp_path) == ()
