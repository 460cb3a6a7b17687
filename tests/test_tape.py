"""`passone tape`: what was said, for people and for programs; a damaged one hides no other."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline.domain import Attempt, Cause, Fault, Usage
from pipeline.gateway.tapes import Exchange, Header, Recorder, lines_of
from pipeline.rundir import RunDir
from tests import test_cli
from tests.command import Passone

A, B = "passone__almanac-12", "passone__ballast-18"
DOWN = Fault(cause=Cause.ENDPOINT, detail="here answered 503: busy")


def exchange(ordinal: int, said: str = "fine", **facts: Any) -> Exchange:
    talk = [{"role": "user", "content": f"question {number}"} for number in range(ordinal)]
    answer = {"choices": [{"message": {"role": "assistant", "content": said}}]}
    usage = Usage(requests=1, input_tokens=1234, output_tokens=5)
    request = {"model": "m", "messages": talk}
    given: dict[str, Any] = {
        "ordinal": ordinal,
        "request": request,
        "answer": answer,
        "usage": usage,
    } | facts
    return Exchange(**given)


def record(
    path: Path, *exchanges: Exchange, id_: str = A, attempt: int = 1, number: int = 1
) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    header = Header(
        run="r",
        plan="digest",
        instance_id=id_,
        attempt=attempt,
        try_number=number,
        model="m",
        where="http://here/v1",
        begun="2026-01-01T00:00:00.000+00:00",
    )
    recorder = Recorder(path, header)
    for one in exchanges:
        recorder.write(one)
    recorder.close()
    return recorder.packed


@pytest.fixture
def run(passone: Passone) -> RunDir:
    """Two tries at one attempt, one at another, and one that was cut off."""
    run = RunDir(Path("logs/r"))
    failed = exchange(2, status=503, answer={"error": "busy"}, ending=DOWN, discarded=True)
    again = exchange(2, again=1, said="at last")
    place = run.attempt(Attempt(A, 1), 1)
    record(place / "tape.jsonl", exchange(1), failed, again)
    record(run.attempt(Attempt(A, 1), 2) / "tape.jsonl", exchange(1), number=2)
    record(run.attempt(Attempt(B, 2), 1) / "tape.jsonl", exchange(1), id_=B, attempt=2)
    record(run.cut_off / f"try-{B}-1-1-abcdefgh.jsonl", exchange(1, said="cut"), id_=B)
    return run


def lines(passone: Passone, *argv: str | Path) -> list[str]:
    said = passone("tape", *argv)
    assert (said.status, said.err) == (0, "")
    return said.out.splitlines()


def test_every_request_is_a_line_below_its_try(run: RunDir, passone: Passone) -> None:
    found = lines(passone, run.root)
    heads = [line.partition(" ·")[0] for line in found if not line.startswith(" ")]
    assert heads == [f"{A} #1 try 1", f"{A} #1 try 2", f"{B} #2 try 1", f"{B} #1 try 1"]
    assert found[0] == f"{A} #1 try 1 · m at http://here/v1 · 2026-01-01T00:00:00.000+00:00"
    assert found[1:4] == [
        "  1 · 200 · 0.00 s · 1,234 in, 5 out · fine",
        "  2 · 503 · 0.00 s · 1,234 in, 5 out · endpoint: here answered 503: busy",
        "  2 again 1 · 200 · 0.00 s · 1,234 in, 5 out · at last",
    ]


FILTERS: dict[str, tuple[tuple[str, ...], list[tuple[str, int, int, int, int]]]] = {
    # name: options, the (instance, attempt, try, ordinal, again) that are left
    "an instance": (("--instance", B), [(B, 2, 1, 1, 0), (B, 1, 1, 1, 0)]),
    "an attempt": (("--attempt", "2"), [(B, 2, 1, 1, 0)]),
    "a try": (("--try", "2"), [(A, 1, 2, 1, 0)]),
    "a request, every time it was sent": (
        ("--request", "2"),
        [(A, 1, 1, 2, 0), (A, 1, 1, 2, 1)],
    ),
    "what came to nothing": (("--failed",), [(A, 1, 1, 2, 0)]),
    "both": (("--failed", "--request", "1"), []),
    "no such request": (("--request", "99"), []),
}


@pytest.mark.parametrize("name", FILTERS)
def test_what_is_asked_for_is_all_that_comes_and_whole(
    name: str, run: RunDir, passone: Passone
) -> None:
    options, expected = FILTERS[name]
    trees = [json.loads(line) for line in lines(passone, "logs/r", "--format", "jsonl", *options)]
    keys = ("instance_id", "attempt", "try_number", "ordinal", "again")
    assert [tuple(tree[key] for key in keys) for tree in trees] == expected
    for tree in trees:
        assert len(tree["request"]["messages"]) == tree["ordinal"]
        assert (tree["ending"] is not None) == (tree["status"] == 503)


def test_a_file_holds_what_would_have_been_printed(run: RunDir, passone: Passone) -> None:
    for kind in ("text", "jsonl"):
        printed = lines(passone, "logs/r", "--format", kind)
        said = passone("tape", "logs/r", "--format", kind, "-o", f"new/{kind}")
        assert (said.status, said.out) == (0, f"new/{kind}: 4 tapes\n")
        assert Path("new", kind).read_text(encoding="utf-8").splitlines() == printed


def test_one_tape_or_one_try_may_be_named(run: RunDir, passone: Passone) -> None:
    place = run.attempt(Attempt(A, 1), 2)
    assert len(lines(passone, place)) == 2
    assert lines(passone, place / "tape.jsonl.zst") == lines(passone, place)
    assert lines(passone, "logs/r/cut-off/" + next(run.cut_off.iterdir()).name)[1].endswith("cut")


def a_directory_without() -> str:
    Path("empty").mkdir()
    return "empty"


def noise() -> str:
    Path("noise.jsonl").write_bytes(b"\xff\xfe noise")
    return "noise.jsonl"


def nothing() -> str:
    Path("nothing.jsonl").touch()
    return "nothing.jsonl"


def no_zstd() -> str:
    Path("tape.jsonl.zst").write_bytes(b"noise")
    return "tape.jsonl.zst"


def of_another_form() -> str:
    Path("new.jsonl").write_text('{"tape": 99}\n', encoding="utf-8")
    return "new.jsonl"


def the_run() -> str:
    return "logs/r"


REFUSED: dict[str, tuple[Callable[[], str], tuple[str, ...], tuple[str, ...]]] = {
    "no tapes": (a_directory_without, (), ("empty: no tape is there", "such as logs/demo")),
    "no place": (lambda: "nowhere", (), ("nowhere: no tape is there",)),
    "an unknown format": (the_run, ("--format", "xml"), ("'xml'", "known: text, jsonl")),
    "another instance": (the_run, ("--instance", "x"), ("none of its 4 tapes", A)),
    "another attempt": (the_run, ("--attempt", "7"), ("none of its 4 tapes",)),
    "noise": (noise, (), ("noise.jsonl: is no tape of passone",)),
    "an empty file": (nothing, (), ("nothing.jsonl: is empty",)),
    "noise by a packed name": (no_zstd, (), ("tape.jsonl.zst", "no tape of passone")),
    "another form": (of_another_form, (), ("is a tape of form 99", "use the release")),
    "no place to write to": (the_run, ("-o", "logs/r"), ("logs/r: cannot be written",)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_or_found_is_refused_by_name(
    name: str, run: RunDir, passone: Passone
) -> None:
    make, options, words = REFUSED[name]
    said = passone("tape", make(), *options)
    assert (said.status, said.out) == (2, "")
    assert len(said.err.splitlines()) == 1
    for word in words:
        assert word in said.err


def test_half_a_tape_is_told_up_to_where_it_is_whole(run: RunDir, passone: Passone) -> None:
    packed = run.attempt(Attempt(A, 1), 1) / "tape.jsonl.zst"
    plain = b"".join(lines_of(packed))
    packed.unlink()
    packed.with_suffix("").write_bytes(plain[:-40])
    found = lines(passone, "logs/r", "--try", "1", "--instance", A)
    assert len(found) == 4
    assert "the tape is cut after 2 exchanges" in found[-1]
    # A tape of which nothing is wanted says all the same that it is none.
    assert "cut after" in "".join(lines(passone, "logs/r", "--request", "99"))


@pytest.mark.parametrize("size", [0, 20])
def test_a_tape_that_was_cut_before_its_first_line_hides_no_other(
    size: int, run: RunDir, passone: Passone
) -> None:
    """A process that is killed with -9 while it writes its header leaves one."""
    whole = next(run.cut_off.iterdir())
    plain = b"".join(lines_of(whole))
    (run.cut_off / f"try-{A}-1-1-ijklmnop.jsonl").write_bytes(plain[:size])
    said = passone("tape", "logs/r")
    assert said.status == 0, said.err
    assert "at last" in said.out
    assert "ijklmnop" in said.out + said.err


def test_a_tape_that_was_being_packed_when_its_process_was_killed_is_told_once(
    run: RunDir, passone: Passone
) -> None:
    whole = next(run.cut_off.iterdir())
    plain = b"".join(lines_of(whole))
    before = lines(passone, "logs/r")
    # Packed, but the plain one not yet removed.
    whole.with_suffix("").write_bytes(plain)
    assert lines(passone, "logs/r") == before
    # Packed by half.
    whole.rename(f"{whole}.partial")
    assert lines(passone, "logs/r") == before


def test_a_half_packed_tape_of_a_full_disk_hides_no_other(run: RunDir, passone: Passone) -> None:
    packed = run.attempt(Attempt(A, 1), 2) / "tape.jsonl.zst"
    plain = b"".join(lines_of(packed))
    content = packed.read_bytes()
    packed.unlink()
    packed.with_suffix("").write_bytes(plain)
    Path(f"{packed}.partial").write_bytes(content[: len(content) // 2])
    assert len(lines(passone, "logs/r")) == 10


ODD = ("half \ud83d a pair", "[bold]no markup[/]", "a\nb\tc\u2028d", "\x1b[31mred\x1b[0m", "é漢")


def test_odd_words_are_printed_and_written(run: RunDir, passone: Passone) -> None:
    record(Path("odd/tape.jsonl"), *(exchange(n, said=s) for n, s in enumerate(ODD, start=1)))
    said = passone("tape", "odd")
    assert (said.status, said.err) == (0, "")
    assert "half ? a pair" in said.out
    assert "[bold]no markup[/]" in said.out
    assert "é漢" in said.out
    # One request is one line.
    assert len(said.out.split("\n")) == len(ODD) + 2
    found = lines(passone, "odd", "--format", "jsonl", "-o", "odd.jsonl")
    assert found == ["odd.jsonl: 1 tapes"]
    text = Path("odd.jsonl").read_text(encoding="utf-8")
    trees = [json.loads(line) for line in text.removesuffix("\n").split("\n")]
    contents = [tree["answer"]["choices"][0]["message"]["content"] for tree in trees]
    assert contents == ["half ? a pair", *ODD[1:]]


def test_no_words_of_a_models_command_the_terminal(run: RunDir, passone: Passone) -> None:
    record(Path("odd/tape.jsonl"), exchange(1, said="\x1b[2J\x1b]0;title\x07 \x9b31m gone"))
    for kind in ("text", "jsonl"):
        said = passone("tape", "odd", "--format", kind)
        assert "gone" in said.out
        assert not set(said.out) & set("\x1b\x07\x9b")


ANSWERS: list[Any] = [
    None,
    "text",
    [],
    {},
    3,
    {"choices": None},
    {"choices": []},
    {"choices": [{"message": None}]},
    {"choices": [{"message": {"content": None, "tool_calls": None}}]},
    {"choices": [{"message": {"tool_calls": [{"function": {"name": "bash", "arguments": "ls"}}]}}]},
    {"choices": [{"message": {"tool_calls": [{"function": None}]}}]},
    {"choices": [{"message": {"tool_calls": 7}}]},
    {"choices": [{"message": {"content": [{"type": "text", "text": "parts"}]}}]},
    {"output": [{"type": "message"}]},
    {"error": {"message": "busy"}},
]


@pytest.mark.parametrize("kind", ["text", "jsonl"])
def test_whatever_came_back_is_told(kind: str, run: RunDir, passone: Passone) -> None:
    exchanges = [exchange(n, answer=answer) for n, answer in enumerate(ANSWERS, start=1)]
    record(Path("odd/tape.jsonl"), *exchanges)
    found = lines(passone, "odd", "--format", kind)
    assert len(found) == len(ANSWERS) + (kind == "text")


def test_no_tape_is_changed_by_being_read(run: RunDir, passone: Passone) -> None:
    before = test_cli.print_of(run.root)
    for options in ((), ("--format", "jsonl"), ("--failed",)):
        lines(passone, "logs/r", *options)
    assert test_cli.print_of(run.root) == before


def test_a_reader_who_leaves_early_is_no_error(run: RunDir) -> None:
    record(Path("long/tape.jsonl"), *(exchange(n, said="word " * 99) for n in range(1, 300)))
    program = shlex.quote(str(Path(sys.executable).with_name("passone")))
    for kind in ("text", "jsonl"):
        done = subprocess.run(
            ["/bin/bash", "-c", f"{program} tape long --format {kind} | head -n 1"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert len(done.stdout.splitlines()) == 1
