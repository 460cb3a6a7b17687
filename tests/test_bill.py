"""A bill is read as its gateway wrote it, or refused with what to do."""

from __future__ import annotations

import csv
import io
import json
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.bill import PRESETS, Bill, columns_of, read_bill, resolution_of
from pipeline.bill.rows import amount, count, moment, zone_of
from pipeline.outcomes import UserError
from tests.fakes import PROPERTY

NOON = datetime(2026, 6, 28, 12, 0, 5, tzinfo=UTC)
UNIX = int(NOON.timestamp())
Row = Mapping[str, Any]


def csv_of(rows: Sequence[Row], delimiter: str = ",", end: str = "\n") -> str:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(rows[0]), delimiter=delimiter, lineterminator=end)
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read(tmp_path: Path, content: str | bytes, **options: str) -> Bill:
    columns = options.pop("columns", "")
    path = written(tmp_path / "bill", content)
    return read_bill(path, columns_of(columns) if columns else None, **options)


PLAIN = {"time": "2026-06-28 12:00:05", "model": "m", "input": 10, "output": 2, "cost": "0.001"}

ZONED: Row = {"time": "2026-06-28T12:00:05+00:00"}


@pytest.mark.parametrize(
    ("changes", "zone_name", "ahead"),
    [
        ({}, "", 0),
        ({}, "+05:30", 5.5),
        ({}, "Asia/Shanghai", 8),
        (ZONED, "", None),
        ({"time": str(UNIX)}, "", None),
        ({"time": "2026-06-28 12:00:05 UTC"}, "", None),
    ],
)
def test_a_bill_knows_whether_its_times_name_their_zone(
    tmp_path: Path, changes: Row, zone_name: str, ahead: float | None
) -> None:
    bill = read(tmp_path, csv_of([{**PLAIN, **changes}]), zone_name=zone_name)
    assert bill.ahead == (None if ahead is None else timedelta(hours=ahead))
    assert bill.zone_of(timedelta(hours=-1)) == (
        "" if ahead is None else {0: "-01:00", 5.5: "+04:30", 8: "+07:00"}[ahead]
    )


# Presets: one line of each export, as its source has it.

USAGE = {"usage_object": {"prompt_tokens_details": {"cached_tokens": 64}}}
OPENROUTER = {
    "generation_id": "gen-1782618417-abc",
    "created_at": "2026-06-28 12:00:05.000",
    "cost_total": "0.0123",
    "cost_cache": "-0.001",
    "tokens_prompt": 100,
    "tokens_completion": 20,
    "tokens_reasoning": 5,
    "tokens_cached": 64,
    "model_permaslug": "openai/gpt-oss-120b",
    "variant": "free",
}
ACTIVITY = {
    "date": "2026-06-28",
    "model": "openai/gpt-oss-120b",
    "model_permaslug": "openai/gpt-oss-120b",
    "usage": 0.0123,
    "byok_usage_inference": 0,
    "requests": 5,
    "prompt_tokens": 100,
    "completion_tokens": 20,
    "reasoning_tokens": 5,
}
LITELLM = {
    "request_id": "chatcmpl-1",
    "call_type": "acompletion",
    "spend": 0.0123,
    "total_tokens": 120,
    "prompt_tokens": 100,
    "completion_tokens": 20,
    "startTime": "2026-06-28T12:00:05Z",
    "endTime": "2026-06-28T12:00:09Z",
    "model": "openai/gpt-oss-120b-0626",
    "model_group": "gpt-oss-120b",
    "metadata": USAGE,
    "messages": [{"role": "user"}],
}
RESULT = {
    "object": "organization.usage.completions.result",
    "input_tokens": 100,
    "input_cached_tokens": 64,
    "output_tokens": 20,
    "num_model_requests": 5,
    "model": "gpt-oss-120b",
}
SPAN = {"object": "bucket", "start_time": UNIX - 5, "end_time": UNIX - 5 + 3600}
BUCKET = SPAN | {"results": [RESULT]}
ONE_API = {
    "id": 1,
    "created_at": UNIX,
    "type": 2,
    "model_name": "gpt-oss-120b",
    "quota": 6150,
    "prompt_tokens": 100,
    "completion_tokens": 20,
    "other": '{"cache_tokens": 64, "model_ratio": 15.0}',
}
TOP_UP = {"id": 2, "created_at": UNIX, "type": 1, "model_name": "", "quota": 5_000_000}
BUCKETS = {"object": "page", "data": [BUCKET, BUCKET | {"results": []}], "has_more": False}
LITELLM_CSV = csv_of([LITELLM | {"metadata": json.dumps(USAGE), "messages": "{}"}])
EXPORTS: dict[str, tuple[str, ...]] = {
    "openrouter": (csv_of([OPENROUTER]),),
    "openrouter-activity": (json.dumps({"data": [ACTIVITY]}),),
    "litellm": (json.dumps([LITELLM]), LITELLM_CSV),
    "openai": (json.dumps(BUCKETS), csv_of([SPAN | RESULT])),
    "one-api": (json.dumps({"success": True, "data": {"items": [TOP_UP, ONE_API], "total": 2}}),),
    "generic": (csv_of([PLAIN | {"input": 100, "output": 20, "cached_tokens": 64}]),),
}


@pytest.mark.parametrize(
    ("name", "content"), [(name, text) for name, texts in EXPORTS.items() for text in texts]
)
def test_every_preset_reads_its_export_without_being_named(
    tmp_path: Path, name: str, content: str
) -> None:
    bill = read(tmp_path, content)
    assert bill.preset == name
    [entry] = bill.entries
    assert (entry.input_tokens, entry.output_tokens) == (100, 20)
    if name != "openrouter-activity":
        assert entry.cached_tokens == 64
    summed = name in ("openrouter-activity", "openai")
    assert bill.aggregated == summed
    assert entry.requests == (5 if summed else None)
    assert entry.time == (NOON if not summed else entry.time)
    assert entry.time.tzinfo is UTC
    if name == "openai":
        assert entry.cost_usd is None
    elif name != "generic":
        assert entry.cost_usd == pytest.approx(0.0123)


def test_every_preset_has_an_export_here_and_is_read_by_name_too(tmp_path: Path) -> None:
    assert EXPORTS.keys() == PRESETS.keys()
    for name, (content, *_) in EXPORTS.items():
        assert read(tmp_path, content, columns=name).preset == name


def test_a_sum_spans_its_day_and_a_bucket_its_hour(tmp_path: Path) -> None:
    [day] = read(tmp_path, json.dumps({"data": [ACTIVITY]})).entries
    assert (day.time.isoformat(), day.until - day.time) == (
        "2026-06-28T00:00:00+00:00",
        timedelta(days=1),
    )
    [hour] = read(tmp_path, json.dumps(BUCKETS)).entries
    assert hour.until - hour.time == timedelta(hours=1)


def test_days_are_sums_though_nothing_says_so_and_so_are_lines_without_tokens(
    tmp_path: Path,
) -> None:
    days = [{"date": f"2026-06-{day}", "model": "m", "input_tokens": 9} for day in (27, 28)]
    assert read(tmp_path, csv_of(days)).aggregated
    assert not read(tmp_path, csv_of([PLAIN])).aggregated
    assert read(tmp_path, "time,cost\n2026-06-28 12:00:05,0.1\n").aggregated


# Forms of files


@pytest.mark.parametrize(
    "content",
    [
        csv_of([PLAIN]),
        csv_of([PLAIN], end="\r\n"),
        "\ufeff" + csv_of([PLAIN]),
        csv_of([PLAIN], ";"),
        csv_of([PLAIN | {"cost": "0,001"}], ";", "\r\n"),
        csv_of([PLAIN], "\t"),
        "\n" + csv_of([PLAIN]) + "\n,,,,\n",
        csv_of([PLAIN | {"time": "2026-06-28T12:00:05Z", "cost": "$0.001"}]),
        csv_of([PLAIN | {"cost": "0.001 USD", "note": "a, b\nc"}]),
        csv_of([PLAIN]).replace("\n", ",,\n", 2).replace("cost,,", "cost", 1),
        json.dumps([PLAIN]),
        json.dumps({"total": 1, "data": {"rows": [PLAIN]}}),
        json.dumps({"mine": 1, "items": [PLAIN]}, indent=1),
        json.dumps(PLAIN) + "\n\n",
    ],
)
def test_a_bill_is_the_same_in_any_form(tmp_path: Path, content: str | bytes) -> None:
    bill = read(tmp_path, content)
    [entry] = bill.entries
    assert (entry.time, entry.model, entry.input_tokens) == (NOON, "m", 10)
    assert (entry.output_tokens, entry.cost_usd, bill.cost_step_usd) == (2, 0.001, 0.001)


def test_json_lines_are_sorted_and_keep_their_numbers(tmp_path: Path) -> None:
    later = PLAIN | {"time": "2026-06-28 12:00:09"}
    bill = read(tmp_path, f"{json.dumps(later)}\n{json.dumps(PLAIN)}\n")
    assert [entry.line for entry in bill.entries] == [2, 1]


def test_a_line_without_a_time_is_left_out_and_counted(tmp_path: Path) -> None:
    bill = read(tmp_path, csv_of([PLAIN, {**PLAIN, "time": "", "model": "Total"}]))
    assert (len(bill.entries), bill.left_out) == (1, 1)


@pytest.mark.parametrize(
    "content",
    ["time,model,input,output,cost\n", "[]", '{"data": []}', '{"data": {"items": [], "total": 0}}'],
)
def test_a_header_or_an_empty_list_alone_is_a_bill_of_nothing(tmp_path: Path, content: str) -> None:
    bill = read(tmp_path, content)
    assert (list(bill.entries), bill.resolution_seconds, bill.cost_step_usd) == ([], 0.0, 0.0)


# A mapping of one's own

OWN = """\
time: when
model: what
requests: n
input: in
cached: [hit, hits]
output: out
cost: price
request_id: id
timezone: Asia/Shanghai
time_format: "%d.%m.%Y %H:%M"
usd_per_unit: 0.01
only: {state: [billed, 1]}
"""
OWN_ROW = {
    "when": "28.06.2026 20:00",
    "what": "m",
    "n": 1,
    "in": "1.204",
    "hit": "500",
    "out": "2",
    "price": "12.5",
    "id": "x",
    "state": "billed",
}


def test_a_mapping_says_columns_units_zone_and_which_lines_count(tmp_path: Path) -> None:
    columns = written(tmp_path / "columns.yaml", OWN)
    content = csv_of([OWN_ROW, OWN_ROW | {"state": "free"}, OWN_ROW | {"state": "1"}])
    bill = read(tmp_path, content, columns=str(columns))
    assert (len(bill.entries), bill.preset) == (2, "")
    entry = bill.entries[0]
    assert entry.time == NOON.replace(second=0)
    assert (entry.input_tokens, entry.cached_tokens) == (1204, 500)
    assert (entry.output_tokens, entry.cost_usd, entry.request_id) == (2, 0.125, "x")
    assert bill.cost_step_usd == pytest.approx(0.001)


def test_a_mapping_may_name_another_currency(tmp_path: Path) -> None:
    columns = written(tmp_path / "c.yaml", "{time: time, cost: price, usd_per_unit: 0.14}")
    content = "time,price\n2026-06-28 12:00:05,¥1.00\n2026-06-28 12:00:05,CNY 2\n"
    bill = read(tmp_path, content, columns=str(columns))
    assert [entry.time for entry in bill.entries] == [NOON, NOON]
    assert [entry.cost_usd for entry in bill.entries] == [pytest.approx(0.14), pytest.approx(0.28)]
    assert bill.entries[0].input_tokens is None


@pytest.mark.parametrize(
    ("zone", "hour"),
    [("Asia/Shanghai", 4), ("+08:00", 4), ("-03", 15), ("+0200", 10), ("utc", 12)],
)
def test_times_without_a_zone_are_of_the_zone_that_is_named(
    tmp_path: Path, zone: str, hour: int
) -> None:
    bill = read(tmp_path, csv_of([PLAIN]), zone_name=zone)
    assert bill.entries[0].time == NOON.replace(hour=hour)


def test_times_with_a_zone_keep_it(tmp_path: Path) -> None:
    row = PLAIN | {"time": "2026-06-28T14:00:05+02:00"}
    bill = read(tmp_path, csv_of([row]), zone_name="Asia/Tokyo")
    assert bill.entries[0].time == NOON


# What is refused


@pytest.mark.parametrize(
    ("content", "columns", "said"),
    [
        ("", "", "is empty: not even a header"),
        ("{}", "", "its columns are not known: none"),
        ("foo,bar\n1,2\n", "", r"not known: foo, bar\. Known exports: openrouter,.*YAML file"),
        ("time,model\n1,2\n", "", "not known: time, model"),
        (csv_of([PLAIN]), "litellm", r"has no column startTime \(for time\).*It has: time, mod"),
        (csv_of([PLAIN]), "lite", "neither a file nor a preset; presets: openrouter"),
        (csv_of([PLAIN]), "{time: time, input: tokens}", r"no column tokens \(for input\)"),
        (csv_of([PLAIN]), "{time: time}", "neither input, output nor cost"),
        (csv_of([PLAIN]), "{time: time, inputs: input}", "unknown key 'inputs'; did you mean 'in"),
        (csv_of([PLAIN]), "[time]", "input should be a valid dictionary"),
        (csv_of([PLAIN]), "{time: [", "cannot be read as YAML"),
        (csv_of([PLAIN]), "{time: time, input: input, usd_per_unit: 0}", "usd_per_unit"),
        (csv_of([PLAIN | {"time": "06/07/2026 1:00"}]), "", "line 2:.*one way only.*time_format"),
        (csv_of([PLAIN | {"input": "many"}]), "", "line 2: 'many' is no number"),
        (csv_of([PLAIN | {"input": "-4"}]), "", "line 2: '-4' is no count"),
        (csv_of([PLAIN | {"output": "1.5"}]), "", "line 2: '1.5' is no count"),
        (csv_of([PLAIN | {"cost": "Infinity"}]), "", "is no number"),
        (csv_of([PLAIN | {"cost": "¥1"}]), "", "is no number"),
        (csv_of([PLAIN]) + "1,2,3,4,5,6\n", "", "line 3 has 6 cells, its header 5"),
        ('time,input\n"2026', "", "line 2 is no CSV"),
        ('{"time": 1', "", "neither JSON nor JSON lines"),
        ('{"time": 1}\n{"time"', "", "neither JSON nor JSON lines: line 2: "),
        ("[1, 2]", "", "expected objects, found 1"),
        ('{"data":' * 990 + "[]" + "}" * 990, "", "nested too deeply"),
        ("[" * 100_000, "", "nested too deeply"),
        ('{"time": ' + "9" * 5000 + "}", "", "neither JSON nor JSON lines"),
        (csv_of([PLAIN | {"time": "9999-12-31"}]), "", "no time of a bill: it is of the year 9999"),
        (csv_of([PLAIN | {"input": "1e30"}]), "", "is no number"),
        (b"PK\x03\x04\xff", "", "is not UTF-8.*export the bill as CSV or JSON in UTF-8"),
    ],
)
def test_what_cannot_be_a_bill_is_refused_with_what_to_do(
    tmp_path: Path, content: str | bytes, columns: str, said: str
) -> None:
    if columns[:1] in ("{", "["):
        columns = str(written(tmp_path / "c.yaml", columns))
    with pytest.raises(UserError, match=said):
        read(tmp_path, content, columns=columns)


def test_a_bill_or_a_mapping_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no such bill; export one"):
        read_bill(tmp_path / "absent.csv")
    with pytest.raises(UserError, match="cannot be read"):
        read_bill(tmp_path)


def test_a_zone_that_nobody_knows_is_refused() -> None:
    for name in ("Mars/Olympus", "+99:00", "/etc/passwd", ""):
        with pytest.raises(UserError, match="is not known; give a name such as"):
            zone_of(name)


# Cells


@pytest.mark.parametrize(
    ("cell", "comma", "value"),
    [
        ("1,204.50", False, "1204.50"),
        ("1.204,50", True, "1204.50"),
        ("1,204", False, "1204"),
        ("0,0042", True, "0.0042"),
        ("1,204,567", False, "1204567"),
        ("0,5", True, "0.5"),
        ("0.5", True, "0.5"),
        ("1e-05", False, "0.00001"),
        ("US$ 3", False, "3"),
        (Decimal("0.10"), False, "0.10"),
        ("–", False, None),
        (None, False, None),
    ],
)
def test_money_is_read_however_it_is_written(cell: object, comma: bool, value: str | None) -> None:
    found = amount(cell, decimal_comma=comma)
    assert found == (None if value is None else Decimal(value))


@PROPERTY
@given(
    st.one_of(
        st.binary(max_size=200),
        st.text(max_size=200).map(str.encode),
        st.lists(
            st.lists(st.text(max_size=12), min_size=5, max_size=5).map(lambda cells: [*cells]),
            max_size=4,
        ).map(lambda rows: csv_of([PLAIN, *(dict(zip(PLAIN, row, strict=True)) for row in rows)])),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from([*PLAIN, "data", "results", "items", "x"]), inner, max_size=4
                )
            ),
        ).map(json.dumps),
    )
)
def test_whatever_is_in_the_file_it_is_a_bill_or_a_mistake_that_is_named(
    content: str | bytes,
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = written(
            Path(directory, "bill"),
            content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"),
        )
        try:
            said = read_bill(path).path.name
        except UserError as error:
            said = str(error)
        assert path.name in said


@PROPERTY
@given(st.integers(min_value=0, max_value=10**17))
def test_a_count_is_the_same_in_every_grouping(number: int) -> None:
    forms = [
        f"{number}",
        f"{number:,}",
        f"{number:,}".replace(",", "."),
        f"{number:,}".replace(",", " "),
    ]
    assert {count(form) for form in forms} == {number}


@pytest.mark.parametrize(
    "cell",
    [
        "2026-06-28T12:00:05Z",
        "2026-06-28 12:00:05",
        "2026/06/28 12:00:05",
        "2026-06-28 12:00:05 UTC",
        "2026-06-28 12:00:05 +0000 UTC",
        "2026-06-28 12:00:05.000000000 GMT",
        "2026-06-28T14:00:05+02:00",
        "2026-06-28 14:00:05 +0200",
        UNIX,
        str(UNIX),
        f"{UNIX}.0",
        UNIX * 1000,
        UNIX * 1_000_000,
        UNIX * 1_000_000_000,
    ],
)
def test_a_time_is_read_however_it_is_written(cell: object) -> None:
    assert moment(cell, UTC) == NOON


@pytest.mark.parametrize(
    ("times", "seconds"),
    [
        (["2026-06-28", "2026-06-29"], 86400.0),
        (["2026-06-28 01:00", "2026-06-28"], 3600.0),
        (["2026-06-28 01:10", "2026-06-28 02:00"], 60.0),
        (["2026-06-28 01:10:01", "2026-06-28 02:00"], 1.0),
        (["2026-06-28 01:10:01.5"], 0.0),
        ([], 0.0),
    ],
)
def test_what_times_are_rounded_to_is_seen_from_them(times: list[str], seconds: float) -> None:
    assert resolution_of([datetime.fromisoformat(time) for time in times]) == seconds
