"""A tape reads back as what was said, however the conversation ran and the process ended."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from pipeline.domain import Attempt, Cause, Fault, Stop, Usage
from pipeline.gateway import Header, Recorder, Tape, find_tape, read_tape
from pipeline.gateway.replies import CHAT, CONVERSATION, RESPONSES, Ending
from pipeline.gateway.tapes import Exchange, lines_of
from pipeline.outcomes import UserError
from tests.fakes import PROPERTY
from tests.loopback import piece
from tests.tries import recorder

HEADER = Header(
    run="r", plan="d", instance_id="a__b-1", attempt=2, try_number=3, model="m-1", where="here"
)


def exchange(ordinal: int = 1, conversation: object = (), **changes: Any) -> Exchange:
    api = changes.pop("api", CHAT)
    said = list(conversation) if isinstance(conversation, tuple) else conversation
    request = {"model": "m", CONVERSATION[api]: said, **changes.pop("request", {})}
    return Exchange(ordinal=ordinal, api=api, request=request, **{"answer": {"n": 1}} | changes)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def kept(place: Path, exchanges: Sequence[Exchange], *, close: bool = True) -> Tape:
    place.mkdir(parents=True, exist_ok=True)
    tape = Recorder(place / "tape.jsonl", HEADER)
    for one in exchanges:
        tape.write(one)
    if close:
        tape.close()
    path = find_tape(place)
    assert path is not None
    return read_tape(path)


TEXT = st.text(st.characters(exclude_categories=()), max_size=8)
MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from("ua"), "content": st.sampled_from("abc") | TEXT}
)
SAID = st.lists(MESSAGE, max_size=4)


@st.composite
def conversations(draw: st.DrawFn) -> list[list[Any]]:
    """Requests of which each continues, cuts or rewrites the one before, or starts anew."""
    now: list[Any] = []
    found = []
    for _ in range(draw(st.integers(1, 6))):
        keep = draw(st.integers(0, len(now)))
        now = [*now[:keep], *draw(SAID), *(now[keep + 1 :] if draw(st.booleans()) else [])]
        found.append(now)
    return found


@PROPERTY
@given(said=conversations(), close=st.booleans())
def test_any_conversation_reads_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, said: list[list[Any]], close: bool
) -> None:
    exchanges = [exchange(n, tuple(messages)) for n, messages in enumerate(said, start=1)]
    tape = kept(tmp_path_factory.mktemp("tape"), exchanges, close=close)
    assert tape.exchanges == exchanges
    assert (tape.header, tape.broken) == (HEADER, "")


ENDINGS: Sequence[Ending] = (
    None,
    *Stop,
    *(Fault(cause=cause, detail="it broke: é\ud83d", final=True) for cause in Cause),
    Fault(cause=Cause.ENDPOINT, detail="", final=False),
)


@pytest.mark.parametrize("ending", ENDINGS, ids=str)
def test_every_ending_reads_back(ending: Ending, tmp_path: Path) -> None:
    assert kept(tmp_path, [exchange(ending=ending)]).exchanges[0].ending == ending


def test_every_field_of_an_exchange_reads_back(tmp_path: Path) -> None:
    full = exchange(
        7,
        (user("a"),),
        again=2,
        request={"tools": [{"x": None}], "temperature": 0.0},
        asked="2026-01-01T00:00:00.000+00:00",
        seconds=1.25,
        first_seconds=0.5,
        status=503,
        answer="<html>",
        usage=Usage(requests=1, input_tokens=2, cost_usd=None, failed=3, as_planned=1),
        discarded=True,
    )
    assert kept(tmp_path, [full]).exchanges == [full]


def test_a_stream_reads_back_with_its_events_and_what_they_add_up_to(tmp_path: Path) -> None:
    events = [json.dumps(piece({"content": "é"})), json.dumps(piece({}, "stop")), "[DONE]"]
    (found,) = kept(tmp_path, [exchange(events=events, answer=None)]).exchanges
    assert found.events == events
    assert found.answer["choices"][0]["message"]["content"] == "é"


def test_a_stream_of_an_odd_shape_costs_no_other_exchange(tmp_path: Path) -> None:
    events = ['{"choices": [null]}', "[DONE]"]
    tape = kept(tmp_path, [exchange(1), exchange(2, events=events, answer=None), exchange(3)])
    assert [found.ordinal for found in tape.exchanges] == [1, 2, 3]


def test_the_responses_api_takes_texts_and_lists_in_turn(tmp_path: Path) -> None:
    both = [
        exchange(1, "How?", api=RESPONSES),
        exchange(2, (user("a"), user("b")), api=RESPONSES),
        exchange(3, None, api=RESPONSES),
        exchange(4, (user("a"), user("b"), user("c")), api=RESPONSES),
        exchange(5, (user("a"), user("b")), api=CHAT),
    ]
    assert kept(tmp_path, both).exchanges == both


def test_a_number_that_is_none_reads_back(tmp_path: Path) -> None:
    tape = kept(tmp_path, [exchange(1, (user("a"),), request={"top_p": float("nan")})])
    assert str(tape.exchanges[0].request["top_p"]) == "nan"


def test_a_message_of_ten_megabytes_stands_on_a_tape_once(tmp_path: Path) -> None:
    long = user("word " * 2_000_000)
    said = [exchange(n, (long, *(user(str(i)) for i in range(n)))) for n in range(1, 6)]
    tape = kept(tmp_path, said, close=False)
    assert tape.exchanges == said
    assert tape.path.stat().st_size < 11_000_000
    assert kept(tmp_path / "packed", said).path.stat().st_size < 1_000_000


def test_closing_packs_a_tape_and_leaves_nothing_else(tmp_path: Path) -> None:
    kept(tmp_path, [exchange()])
    assert [path.name for path in tmp_path.iterdir()] == ["tape.jsonl.zst"]


def test_a_tape_without_an_exchange_is_no_file(tmp_path: Path) -> None:
    Recorder(tmp_path / "tape.jsonl", HEADER).close()
    assert list(tmp_path.iterdir()) == []
    assert find_tape(tmp_path) is None


def test_closing_twice_does_nothing_more(tmp_path: Path) -> None:
    tape = Recorder(tmp_path / "tape.jsonl", HEADER)
    tape.write(exchange())
    tape.close()
    tape.close()
    assert len(read_tape(tmp_path / "tape.jsonl.zst").exchanges) == 1


def test_what_is_written_after_closing_costs_nothing_that_was_there(tmp_path: Path) -> None:
    """An answer may come in just as its try is ended."""
    tape = Recorder(tmp_path / "tape.jsonl", HEADER)
    tape.write(exchange(1, (user("a"),)))
    tape.close()
    late = exchange(2, (user("a"), user("b")))
    tape.write(late)
    tape.close()
    path = find_tape(tmp_path)
    assert path is not None
    assert [path.name for path in tmp_path.iterdir()] == ["tape.jsonl.zst"]
    assert read_tape(path).exchanges[0] == exchange(1, (user("a"),))


def test_a_write_that_failed_does_not_spoil_the_next(tmp_path: Path) -> None:
    place = tmp_path / "later"
    tape = Recorder(place / "tape.jsonl", HEADER)
    with pytest.raises(OSError, match="No such file"):
        tape.write(exchange(1, (user("a"),)))
    place.mkdir()
    second = exchange(2, (user("a"), user("b")))
    tape.write(second)
    assert read_tape(place / "tape.jsonl").exchanges == [second]


def test_a_tape_that_had_no_room_for_its_header_gets_it_later(tmp_path: Path) -> None:
    (tmp_path / "tape.jsonl").touch()  # as an open that succeeded before a write that did not
    assert kept(tmp_path, [exchange()], close=False).exchanges == [exchange()]


def test_no_place_is_an_error_of_the_disk(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    tape = recorder(tmp_path / "file" / "tape.jsonl")
    with pytest.raises(OSError, match="Not a directory"):
        tape.write(exchange())
    tape.close()


THREE = [exchange(n, tuple(user(str(i)) for i in range(n))) for n in (1, 2, 3)]


def test_a_plain_tape_cut_anywhere_gives_what_is_whole(tmp_path: Path) -> None:
    whole = kept(tmp_path, THREE, close=False).path.read_bytes()
    ends = [at + 1 for at, byte in enumerate(whole) if byte == 10]
    cut = tmp_path / "cut.jsonl"
    for at in range(ends[0], len(whole)):
        cut.write_bytes(whole[:at])
        tape = read_tape(cut)
        # A line is whole with its last brace, with or without its end.
        lines = sum(1 for end in ends if end - 1 <= at)
        assert tape.exchanges == THREE[: lines - 1]
        assert bool(tape.broken) == (at + 1 not in ends and at not in ends)


def test_a_cut_says_where_it_is(tmp_path: Path) -> None:
    path = kept(tmp_path, THREE, close=False).path
    path.write_bytes(path.read_bytes()[:-10])
    assert read_tape(path).broken.startswith("cut after 2 exchanges: ")


def long_tape(place: Path) -> Tape:
    """Of several blocks, so that a cut one has a beginning."""
    number = 1
    texts = []
    for _ in range(300):
        number = number * 6364136223846793005 % 2**4096
        texts.append(f"{number:x}")
    said = [exchange(n, (user(texts[n]),)) for n in range(300)]
    return kept(place, said)


def test_a_packed_tape_cut_anywhere_gives_a_beginning_and_says_so(tmp_path: Path) -> None:
    tape = long_tape(tmp_path)
    whole = tape.path.read_bytes()
    cut = tmp_path / "cut.jsonl.zst"
    found = 0
    for at in range(len(whole) // 2, len(whole), len(whole) // 60):
        cut.write_bytes(whole[:at])
        part = read_tape(cut)
        assert part.exchanges == tape.exchanges[: len(part.exchanges)]
        assert part.broken
        found = max(found, len(part.exchanges))
    assert 100 < found < 300


def test_a_packed_tape_without_its_last_byte_lacks_nothing_unsaid(tmp_path: Path) -> None:
    tape = long_tape(tmp_path)
    tape.path.write_bytes(tape.path.read_bytes()[:-1])
    part = read_tape(tape.path)
    assert part.broken or part.exchanges == tape.exchanges


def test_a_packed_tape_cut_before_its_first_line_is_called_cut_not_empty(tmp_path: Path) -> None:
    path = kept(tmp_path, THREE).path
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(UserError, match=r"tape\.jsonl\.zst: .*(cut|damaged)"):
        read_tape(path)


def test_a_packed_tape_with_a_flipped_byte_is_never_taken_for_whole(tmp_path: Path) -> None:
    tape = long_tape(tmp_path)
    whole = bytearray(tape.path.read_bytes())
    for at in range(len(whole) // 2, len(whole), len(whole) // 20):
        spoilt = bytearray(whole)
        spoilt[at] ^= 0x55
        tape.path.write_bytes(spoilt)
        part = read_tape(tape.path)
        assert part.broken or part.exchanges == tape.exchanges


NO_TAPES: Mapping[str, tuple[bytes, str]] = {
    "empty": (b"", r"is empty|is cut"),
    "a blank line": (b"\n", "is no tape of passone"),
    "words": (b"hello\n", "is no tape of passone"),
    "half a header": (b'{"tape": 1, "run": "r"', "is no tape of passone"),
    "other JSON": (b'{"a": 1}\n', "first line is no header"),
    "a list": (b"[1]\n", "first line is no header"),
    "a header of another form": (b'{"tape": 2}\n', "form 2, this passone reads 1"),
    "a header that lacks things": (b'{"tape": 1, "run": "r"}\n', "is no tape of passone"),
    "a header with more": (
        json.dumps({"tape": 1, **asdict(HEADER), "x": 1}).encode(),
        "is no tape of passone",
    ),
    "binary": (b"\xff\xfe\x00\x00", "is no tape of passone"),
    "nested beyond reason": (b"[" * 20_000, "is no tape of passone"),
}


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
@pytest.mark.parametrize("name", NO_TAPES)
def test_what_is_no_tape_is_refused_by_name(name: str, packed: bool, tmp_path: Path) -> None:
    content, message = NO_TAPES[name]
    path = tmp_path / ("tape.jsonl.zst" if packed else "tape.jsonl")
    path.write_bytes(zstandard.compress(content) if packed else content)
    with pytest.raises(UserError, match=message) as caught:
        read_tape(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    "content", [b"", b"plain words, no frame", b"\x28\xb5\x2f\xfd"], ids=["empty", "plain", "magic"]
)
def test_what_is_not_packed_is_refused_by_name(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "tape.jsonl.zst"
    path.write_bytes(content)
    with pytest.raises(UserError, match=str(path)):
        read_tape(path)


def test_no_file_is_refused_by_name(tmp_path: Path) -> None:
    for name in ("gone.jsonl", "gone.jsonl.zst", "."):
        with pytest.raises(UserError, match="cannot be read"):
            read_tape(tmp_path / name)


LINES = [
    "[1]",
    '"text"',
    "7",
    "{}",
    '{"request": []}',
    '{"request": {}, "api": "embeddings"}',
    '{"ending": "x"}',
    '{"ending": {"cause": "weather", "detail": ""}}',
    '{"usage": {"tokens": 1}}',
    '{"usage": [1]}',
    '{"events": 1}',
    '{"events": [1]}',
    '{"events": ["{\\"choices\\": [null]}"]}',
    '{"before": "x", "conversation": []}',
    "[" * 20_000,
]


@pytest.mark.parametrize("line", LINES, ids=lambda line: str(line)[:40])
def test_a_line_that_is_no_exchange_ends_a_tape_where_it_stands(line: str, tmp_path: Path) -> None:
    path = kept(tmp_path, THREE, close=False).path
    lines = [raw.decode() for raw in lines_of(path)]
    if line.startswith("{") and "request" not in line and line != "{}":
        line = json.dumps(json.loads(lines[-1]) | json.loads(line))
    path.write_text("".join([*lines, line, "\n", lines[1]]))
    tape = read_tape(path)
    assert tape.exchanges[:3] == THREE
    assert tape.broken.startswith("cut after 3 exchanges") or len(tape.exchanges) == 5


def test_the_usage_of_a_tape_is_all_that_was_counted(tmp_path: Path) -> None:
    one = Usage(requests=1, input_tokens=3, output_tokens=1, cost_usd=0.5)
    said = [exchange(1, usage=one, discarded=True), exchange(2), exchange(3, usage=one)]
    tape = kept(tmp_path, said)
    assert tape.usage == Usage(requests=2, input_tokens=6, output_tokens=2, cost_usd=1.0)
    assert tape.attempt == Attempt("a__b-1", 2)


def test_a_packed_tape_goes_before_a_plain_one(tmp_path: Path) -> None:
    """A process may die between packing and tidying up."""
    kept(tmp_path, THREE)
    (tmp_path / "tape.jsonl").write_text("left over")
    assert find_tape(tmp_path) == tmp_path / "tape.jsonl.zst"
