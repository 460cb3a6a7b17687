"""A run played back from its tapes: the same result, or a word about where it differs."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline.cli.demo import demo_recipe
from pipeline.domain import Controls, Fault, Rollout
from pipeline.gateway.tapes import lines_of
from pipeline.ledger import Kind, Ledger
from tests import test_cli
from tests.command import Passone, Said
from tests.loopback import (
    Answer,
    Answering,
    Received,
    completes,
    event,
    piece,
    refuses,
    says,
    serve,
    streams,
)
from tests.test_cli import IDS, ROWS
from tests.tries import KEY

# An agent that does what it is told: `patch` and the diff, `empty`, `crash`, `sleep` and how long,
# `stream`; whatever else is said, it asks on. Where an answer is none, it submits half a patch, as
# some agents do. From its environment: WORDS to ask with, HEAT, LEAVES at once, HANGS_UP.
TELL = """\
import http.client, json, os, sys, time, urllib.request
base_url, patch_file, workdir = "{base_url}", "{patch_file}", "{workdir}"
env = os.environ.get
says = [{{"role": "user", "content": env("WORDS", "Mend it.") + " You are in " + workdir}}]
streams = False
def leave(text, status=0):
    if text is not None: open(patch_file, "w").write(text)
    sys.exit(status)
def ask():
    body = {{"model": "{model}", "messages": says, "temperature": float(env("HEAT", "0"))}}
    body |= {{"top_p": 1, "stream": True}} if streams else {{"top_p": 1}}
    head = {{"content-type": "application/json", "authorization": "Bearer dummy"}}
    url = base_url + "/chat/completions"
    sent = urllib.request.Request(url, json.dumps(body).encode(), head)
    answer = urllib.request.urlopen(sent, timeout=float(env("HANGS_UP", "100"))).read().decode()
    if not streams: return json.loads(answer)["choices"][0]["message"]["content"]
    lines = [line[6:] for line in answer.split(chr(10)) if line.startswith("data: ")]
    if lines[-1] != "[DONE]": raise OSError(lines[-1])
    pieces = [choice for line in lines[:-1] for choice in json.loads(line)["choices"]]
    return "".join(piece["delta"].get("content") or "" for piece in pieces)
while True:
    try: said = ask()
    except (OSError, http.client.HTTPException) as error:
        print(repr(error))
        leave("half a patch")
    verb, _, rest = said.partition(" ")
    if verb == "patch": leave(rest)
    if verb == "empty" or env("LEAVES"): leave("")
    if verb == "crash": leave(None, 7)
    if verb == "sleep": time.sleep(float(rest))
    if verb == "stream": streams = True
    says += [{{"role": "assistant", "content": said}}, {{"role": "user", "content": "Go on."}}]
"""
ARGV = [sys.executable, "-c", "import sys; exec(chr(10).join(sys.argv[1:]))", *TELL.split("\n")]


@dataclass(frozen=True, slots=True)
class Asked:
    """Who asks, and how far it is."""

    instance: str
    attempt: int
    number: int
    """Of the try."""
    step: int
    """From 0."""
    again: int
    """How often the same was asked before."""


Talk = Callable[[Asked], Answer]


def answering(talk: Talk) -> Answering:
    """A server that knows the attempt by the directory that its agent names."""
    before: dict[tuple[Any, ...], int] = {}

    def answer(request: Received, number: int) -> Answer:
        said = request.body["messages"]
        found = re.search(r"/try-(\S+)-(\d+)-(\d+)-\w{8}$", str(said[0]["content"]))
        if found is None:
            return completes("yes")  # the doctor's look
        step = sum(1 for message in said if message["role"] == "assistant")
        who = (found[1], int(found[2]), int(found[3]), step)
        again = before.setdefault(who, -1) + 1
        before[who] = again
        return talk(Asked(*who, again))

    return answer


def gold(id_: str) -> Answer:
    return completes(f"patch {ROWS[id_]['patch']}")


def config(*ids: str, **changes: Any) -> str:
    """c.yaml: the telling agent in the local sandbox, with short pauses."""
    values: dict[str, Any] = {
        "agent": {"name": "command", "options": {"argv": ARGV}},
        "selection": {"dataset": "demo", "strategy": "ids", "ids": list(ids)},
        "gateway": {"backoff_seconds": 0.01},
        "execution": {"backoff_seconds": 0.01},
        "limits": {"cost_usd": 0, "seconds": 60},
    }
    return test_cli.a_config(**(values | changes))


SHORT_OF_WORDS = ("--set", "trust.empty_share=1")
"""The agents here submit nothing, and nobody should be warned of it."""


@pytest.fixture
def evaluate(passone: Passone, monkeypatch: pytest.MonkeyPatch) -> Passone:
    """`passone run c.yaml …` with a key and without a look beforehand, which would be counted."""

    def call(*argv: str | Path) -> Said:
        # A run takes it out of the environment.
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        said = passone("run", "c.yaml", "--no-doctor", *SHORT_OF_WORDS, *argv)
        assert "Traceback" not in said.err
        return said

    return call


Replaying = Callable[..., Said]


@pytest.fixture
def replay(passone: Passone, monkeypatch: pytest.MonkeyPatch) -> Replaying:
    """`passone run c.yaml --replay r --set name=s …`, without any key."""

    def call(*argv: str | Path, of: str | Path = "r", name: str = "s") -> Said:
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        said = passone(
            *("run", "c.yaml", "--replay", of, "--set", f"name={name}"), *SHORT_OF_WORDS, *argv
        )
        assert "Traceback" not in said.err
        return said

    return call


def started(*argv: str | Path, **environment: str) -> subprocess.Popen[str]:
    """`passone run c.yaml …` in a process of its own."""
    program = Path(sys.executable).with_name("passone")
    return subprocess.Popen(
        [program, "run", "c.yaml", "--no-doctor", *SHORT_OF_WORDS, *argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OPENAI_API_KEY": KEY, **environment},
    )


def ended(process: subprocess.Popen[str], *, within_seconds: float = 60) -> Said:
    try:
        out, err = process.communicate(timeout=within_seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    assert "Traceback" not in err
    return Said(process.returncode, out, err)


def until(holds: Callable[[], object], *, within_seconds: float = 30) -> None:
    deadline = time.monotonic() + within_seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def report(run: str | Path) -> dict[str, Any]:
    """All that a run's tables say, but for its name and what depends on the clock."""
    place = Path("logs") / run
    summary = json.loads((place / "report/summary.json").read_text(encoding="utf-8"))
    del summary["run"]
    tables: dict[str, Any] = {"summary": summary}
    for name in ("attempts", "instances"):
        text = (place / f"report/{name}.csv").read_text(encoding="utf-8")
        tables[name] = [
            {key: value for key, value in row.items() if key != "seconds"}
            for row in csv.DictReader(io.StringIO(text))
        ]
    return tables


def rows_of(run: str | Path) -> dict[tuple[str, str, int, int], str]:
    """What every try and verdict came to."""
    with Ledger(Path("logs") / run / "ledger.sqlite", read_only=True) as ledger:
        return {
            (row.kind, *row.attempt, row.try_number): name_of(row.value)
            for row in ledger.rows()
            if row.kind is not Kind.SETTLEMENT
        }


def name_of(value: object) -> str:
    if isinstance(value, Fault):
        return f"fault {value.cause}"
    if isinstance(value, Controls):
        return ", ".join(dict.fromkeys(verdict.finding for verdict in value.gold))
    return str(value.stop if isinstance(value, Rollout) else getattr(value, "finding", value))


def tries_in(run: str | Path) -> int:
    return sum(1 for kind, *_ in rows_of(run) if kind == Kind.ROLLOUT)


# Recorded once: two attempts at four instances, with all that can come between.

A, B, C, D = IDS[:4]


def all_sorts(asked: Asked) -> Answer:
    """What these eight attempts are told."""
    who = (asked.instance, asked.attempt)
    if asked.step == 0:
        return completes("stream" if who == (A, 2) else "look")
    if who == (A, 2) and asked.number == 1:
        broken = event(piece({"role": "assistant", "content": "half"}))
        return streams(broken, manner="cut")
    if who == (A, 2):
        return says(f"patch {ROWS[A]['patch']}", usage={"prompt_tokens": 9, "completion_tokens": 3})
    if asked.instance == A:
        # Its first two sendings come to nothing: no more than the agent can see.
        return gold(A) if asked.again == 2 else refuses(503 if asked.again else 429)
    if asked.instance == B:
        return completes("crash" if asked.number <= asked.attempt else "empty")
    if asked.instance == C:
        wrong = refuses(401, "Incorrect API key")
        return wrong if asked.attempt == 1 else completes("patch nonsense")
    return completes("crash") if asked.attempt == 1 else refuses(400, "maximum context length")


ALL_SORTS = {
    (A, 1): ["submitted"],
    (A, 2): ["fault endpoint", "submitted"],
    (B, 1): ["fault agent_crash", "submitted"],
    (B, 2): ["fault agent_crash"] * 2 + ["submitted"],
    (C, 1): ["fault credentials"],
    (C, 2): ["submitted"],
    (D, 1): ["fault agent_crash"] * 3,
    (D, 2): ["context_limit"],
}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where logs/r is a run of all sorts, and c.yaml its config."""
    place = tmp_path_factory.mktemp("recorded")
    with contextlib.chdir(place), serve(answering(all_sorts)) as server:
        config(A, B, C, D, model__base_url=server.base_url, attempts=2)
        said = ended(started(PASSONE_CACHE=str(place / "cache")))
    assert said.status == 3, said.err
    return place


@pytest.fixture
def there(recorded: Path, passone: Passone) -> Path:
    """A copy of the run of all sorts, here."""
    shutil.copytree(recorded / "logs", "logs")
    shutil.copy(recorded / "c.yaml", "c.yaml")
    return Path("logs/r")


def test_a_run_of_all_sorts_is_recorded(there: Path) -> None:
    found: dict[tuple[str, int], list[str]] = {}
    for (kind, id_, number, _), value in rows_of("r").items():
        if kind == Kind.ROLLOUT:
            found.setdefault((id_, number), []).append(value)
    assert found == ALL_SORTS
    assert report("r")["summary"]["outcomes"]["resolved"] == 2


def test_a_replay_gives_the_same_with_no_endpoint_and_no_key(
    there: Path, replay: Replaying
) -> None:
    said = replay()
    assert said.status == 3
    assert report("s") == report("r")
    assert rows_of("s") == rows_of("r")
    for name in ("preds.1.jsonl", "preds.2.jsonl"):
        assert Path("logs/s", name).read_bytes() == Path("logs/r", name).read_bytes()
    assert "replayed from r, no endpoint was asked: 0 of 8 attempts drifted" in said.out
    # Once more changes nothing: what was recorded is used up.
    again = replay()
    assert (again.status, again.out) == (3, said.out)
    assert rows_of("s") == rows_of("r")
    # And it is as good a recording as the first.
    assert replay(of="s", name="t").status == 3
    assert report("t") == report("r")
    assert rows_of("t") == rows_of("r")


def test_fewer_attempts_are_replayed_and_the_rest_later(there: Path, replay: Replaying) -> None:
    assert replay("--set", "attempts=1").status == 3
    first = [row for row in report("r")["attempts"] if row["attempt"] == "1"]
    assert report("s")["attempts"] == first
    assert replay().status == 3
    assert report("s")["attempts"] == report("r")["attempts"]
    assert report("s")["summary"]["outcomes"] == report("r")["summary"]["outcomes"]


def a_plain_file() -> str:
    Path("logs/r/attempts", A, "1/try-1/tape.jsonl.zst").write_bytes(b"noise")
    return "r"


def a_tape_of_another() -> str:
    attempts = Path("logs/r/attempts")
    tape = (attempts / B / "1/try-1/tape.jsonl.zst").read_bytes()
    (attempts / A / "1/try-1/tape.jsonl.zst").write_bytes(tape)
    return "r"


def a_tape_that_is_gone() -> str:
    Path("logs/r/attempts", A, "1/try-1/tape.jsonl.zst").unlink()
    return "r"


def a_ledger_that_is_gone() -> str:
    Path("logs/r/ledger.sqlite").unlink()
    return "r"


def a_way_round() -> str:
    Path("logs/s").symlink_to("r")
    return "r"


NOT_REPLAYED: dict[str, tuple[Callable[[], str], tuple[str, ...], tuple[str, ...]]] = {
    # what it is: the run to replay, more of the command line, what the message holds
    "another plan": (
        lambda: "r",
        ("--set", "limits.steps=7", "--set", "sampling.temperature=0.5"),
        ("another plan", "differ in limits.steps, sampling.temperature", "config that recorded it"),
    ),
    "other instances": (
        lambda: "r",
        ("--set", f"selection.ids=[{A}]"),
        ("another plan", "selection.fingerprint, selection.ids"),
    ),
    "another model": (lambda: "r", ("--set", "model.name=openai/n"), ("differ in model",)),
    "more attempts": (
        lambda: "r",
        ("--set", "attempts=3"),
        ("recorded no try for 4 attempts", f"{A} #3", "--set attempts=2"),
    ),
    "itself": (lambda: "r", ("--set", "name=r"), ("a run of its own", "--set name=r-replayed")),
    "itself by its path": (lambda: "logs/r", ("--set", "name=r"), ("a run of its own",)),
    "itself the long way round": (a_way_round, (), ("a run of its own",)),
    "no run": (lambda: "nowhere", (), ("logs/nowhere", "no run is there")),
    "no such path": (lambda: "some/where", (), ("some/where", "no run is there")),
    "an agent that asks nobody": (
        lambda: "r",
        ("--set", "agent.name=gold", "--set", "agent.options={}"),
        ("'gold' asks no model", "nothing to replay"),
    ),
    "a tape that is gone": (a_tape_that_is_gone, (), (f"{A}/1/try-1", "its tape is gone")),
    "a tape that is none": (a_plain_file, (), (f"{A}/1/try-1/tape.jsonl.zst", "no tape")),
    "a tape of another try": (a_tape_of_another, (), (f"{A}/1/try-1/tape.jsonl.zst", B)),
    "a ledger that is gone": (a_ledger_that_is_gone, (), ("ledger",)),
}


@pytest.mark.parametrize("name", NOT_REPLAYED)
def test_what_a_recording_cannot_answer_for_is_refused_before_anything_starts(
    name: str, there: Path, replay: Replaying
) -> None:
    prepare, more, words = NOT_REPLAYED[name]
    said = replay(*more, of=prepare())
    assert said.status == 2, said.err
    assert said.err.startswith("error: ")
    for word in words:
        assert word in said.err
    assert len(said.err.splitlines()) == 1
    assert not Path("logs/s/plan.json").is_file() or Path("logs/s").is_symlink()


def test_strict_without_a_replay_is_refused(there: Path, passone: Passone) -> None:
    said = passone("run", "c.yaml", "--strict")
    assert said.status == 2
    assert "--replay" in said.err


# Recorded in a moment, where it does not matter what.


@pytest.fixture
def short(evaluate: Passone) -> Path:
    """One attempt of three requests that submits nothing."""

    def talk(asked: Asked) -> Answer:
        return completes("empty" if asked.step == 2 else "look")

    with serve(answering(talk)) as server:
        config(A, model__base_url=server.base_url)
        assert evaluate().status == 0
    return Path("logs/r")


def test_a_replay_is_continued_as_one_and_no_other_run_becomes_one(
    short: Path, replay: Replaying, evaluate: Passone
) -> None:
    assert replay("--set", "attempts=1").status == 0
    # Nothing is left to do: it is printed, however it is asked for.
    assert replay(of="s", name="r").status == 0
    assert evaluate("--set", "name=s").status == 0
    # Something is left.
    as_a_run = evaluate("--set", "name=s", "--set", "attempts=2")
    assert as_a_run.status == 2
    assert "logs/s: was replayed from r; give this one another name" in as_a_run.err
    shutil.copytree("logs/r", "logs/two")
    plan = json.loads(Path("logs/two/plan.json").read_text())
    shutil.rmtree("logs/r")
    Path("logs/r").mkdir()
    Path("logs/r/plan.json").write_text(json.dumps(plan))
    as_a_replay = replay(of="two", name="r")
    assert as_a_replay.status == 2
    assert "logs/r: is no replay; give this one another name" in as_a_replay.err


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_replay_that_was_stopped_half_way_comes_to_the_same(
    signum: signal.Signals, evaluate: Passone, replay: Replaying
) -> None:
    def talk(asked: Asked) -> Answer:
        slowly = asked.instance == B and asked.step == 0
        return completes("sleep 2" if slowly else "empty")

    with serve(answering(talk)) as server:
        config(A, B, model__base_url=server.base_url)
        assert evaluate().status == 0
    process = started("--replay", "r", "--set", "name=s", OPENAI_API_KEY="")
    until(lambda: Path("logs/s/attempts", A).exists())
    process.send_signal(signum)
    said = ended(process)
    assert said.status == (-9 if signum == signal.SIGKILL else 130)
    assert replay().status == 0
    assert report("s") == report("r")
    # What stands under cut-off/ of a replay was never billed, and binds nobody.
    assert replay("--set", "budget.tokens=1").status == 0


def test_a_drift_is_a_line_a_column_and_the_same_result(
    short: Path, replay: Replaying, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORDS", "Mend that.")
    said = replay()
    assert said.status == 0
    [row] = report("s")["attempts"]
    assert row["drift"].startswith("request 1, message 1: recorded ")
    assert row["drift"].index("Mend it.") < row["drift"].index(", now ")
    assert "Mend that." in row["drift"].partition(", now ")[2]
    assert f"drift {A} #1: request 1, message 1" in said.out
    assert "1 of 1 attempt drifted" in said.out
    assert report("s")["summary"] == report("r")["summary"]


def test_strictly_a_drift_is_infra_and_no_verdict_on_the_model(
    short: Path, replay: Replaying, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORDS", "Mend that.")
    said = replay("--strict")
    assert said.status == 3
    [row] = report("s")["attempts"]
    assert (row["outcome"], row["cause"], row["tries"]) == ("infra", "unknown", "1")
    assert "replay: request 1, message 1: recorded" in said.out
    # It is over: as many tries as were recorded.
    assert replay("--strict").status == 3
    assert tries_in("s") == 1


def test_another_temperature_on_the_wire_is_always_an_error(
    short: Path, replay: Replaying, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEAT", "0.7")
    said = replay()
    assert said.status == 3
    assert report("s")["summary"]["causes"] == {"unknown": 1}
    assert "request 1 had temperature 0.0, now 0.7" in said.out


def test_an_agent_that_asks_less_than_was_recorded_drifts(
    short: Path, replay: Replaying, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEAVES", "1")
    said = replay()
    [row] = report("s")["attempts"]
    assert (row["requests"], report("r")["attempts"][0]["requests"]) == ("1", "3")
    assert "3 requests" in row["drift"]
    assert "1 of 1 attempt drifted" in said.out


def test_an_agent_that_asks_more_than_was_recorded_is_infra(
    evaluate: Passone, replay: Replaying, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEAVES", "1")
    with serve(answering(lambda asked: completes("look"))) as server:
        config(A, model__base_url=server.base_url)
        assert evaluate().status == 0
    monkeypatch.delenv("LEAVES")
    said = replay()
    assert said.status == 3
    assert report("s")["summary"]["causes"] == {"unknown": 1}
    assert "the tape ends after 1 request, the agent asks on" in said.out


def test_a_drift_in_a_try_that_ended_in_a_fault_is_told_too(
    there: Path, replay: Replaying, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORDS", "Mend that.")
    said = replay()
    drifts = {(r["instance"], r["attempt"]): r["drift"] for r in report("s")["attempts"]}
    assert "8 of 8 attempts drifted" in said.out, drifts
    assert all(drifts.values())


def test_a_tape_cut_in_half_is_told_and_its_replay_ends_there(
    short: Path, replay: Replaying
) -> None:
    [tape] = short.glob("attempts/*/1/try-1/tape.jsonl.zst")
    plain = b"".join(lines_of(tape))
    tape.unlink()
    lines = plain.splitlines(keepends=True)
    tape.with_suffix("").write_bytes(b"".join(lines[:3]) + lines[3][:40])
    said = replay()
    assert said.status == 3
    assert "is cut after 2 exchanges" in said.err
    assert "its replay ends there" in said.err
    assert report("s")["summary"]["causes"] == {"unknown": 1}


def test_what_two_invocations_recorded_is_played_as_two_tries(
    evaluate: Passone, replay: Replaying
) -> None:
    keys = {"known": False}

    def talk(asked: Asked) -> Answer:
        return completes("empty") if keys["known"] else refuses(401, "Incorrect API key")

    with serve(answering(talk)) as server:
        config(A, model__base_url=server.base_url)
        assert evaluate().status == 3
        # A replay of half a story takes up the other half once it is told.
        assert replay(name="early").status == 3
        keys["known"] = True
        assert evaluate().status == 0
    assert replay().status == 0
    assert report("s") == report("r")
    assert tries_in("s") == 2
    assert replay(name="early").status == 0
    assert report("early") == report("r")


def test_a_sandbox_that_broke_before_a_word_was_said_breaks_there_again(
    evaluate: Passone, replay: Replaying, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    once = programs / "once"
    once.touch()
    git = shutil.which("git")
    (programs / "git").write_text(f'#!/bin/sh\nrm {once} 2> /dev/null && exit 1\nexec {git} "$@"\n')
    (programs / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    with serve(answering(lambda asked: completes("empty"))) as server:
        config(A, model__base_url=server.base_url)
        assert evaluate().status == 0
    assert rows_of("r")["rollout", A, 1, 1] == "fault sandbox"
    assert replay().status == 0
    assert rows_of("s") == rows_of("r")
    assert report("s") == report("r")


def test_a_replay_takes_no_longer_for_what_an_endpoint_allowed_a_minute(
    short: Path,
) -> None:
    limits = ("--set", "gateway.requests_a_minute=1")
    process = started("--replay", "r", "--set", "name=s", *limits, OPENAI_API_KEY="")
    # At one a minute it would take several.
    assert ended(process, within_seconds=45).status == 0


def test_a_replay_costs_nothing_and_no_budget_stops_it(short: Path) -> None:
    process = started(
        "--replay", "r", "--set", "name=s", "--set", "budget.tokens=13", OPENAI_API_KEY=""
    )
    assert ended(process, within_seconds=40).status == 0


def test_an_address_that_stands_in_a_variable_is_not_needed_for_a_replay(
    short: Path, replay: Replaying
) -> None:
    text = re.sub(r"http://\S+", "${NO_SUCH_ENDPOINT}", Path("c.yaml").read_text())
    Path("c.yaml").write_text(text)
    said = replay()
    assert said.status == 0, said.err


def test_an_argument_that_is_a_whole_program_is_no_file(
    evaluate: Passone, replay: Replaying
) -> None:
    program = f"{'# a long line of words' * 20}\n" + TELL
    argv = [sys.executable, "-c", program]
    with serve(answering(lambda asked: completes("empty"))) as server:
        options = {"name": "command", "options": {"argv": argv}}
        config(A, model__base_url=server.base_url, agent=options)
        assert evaluate().status == 0
    assert replay().status == 0
    assert report("s") == report("r")


def test_the_demo_replays_to_the_same_by_the_real_agent(
    passone: Passone, replay: Replaying
) -> None:
    tree = demo_recipe(size=2, attempts=1, sandbox="local")
    chosen = ["passone__ballast-42", "passone__almanac-27"]
    tree |= {"name": "r", "selection": {"dataset": "demo", "strategy": "ids", "ids": chosen}}
    tree["execution"]["backoff_seconds"] = 0.01
    Path("c.yaml").write_text(yaml.safe_dump(tree), encoding="utf-8")
    assert passone("run", "c.yaml").status == 0
    said = replay()
    assert said.status == 0, said.err
    assert report("s") == report("r")
    assert rows_of("s") == rows_of("r")
    assert "0 of 2 attempts drifted" in said.out
    assert tries_in("s") == 3
