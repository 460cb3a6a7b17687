"""Tables for papers, pages and scripts, and a headline that is never a bare number."""

import csv
import io
import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.domain import Attempt, Cause, Patch, Rollout, Usage
from pipeline.ledger import Book, Kind
from pipeline.outcomes import Blame, Outcome
from pipeline.results import AttemptRow, Results
from pipeline.results.frame import sheet_of
from pipeline.stats import interval
from pipeline.tables import (
    COLUMNS,
    RECORDS,
    By,
    Format,
    Table,
    by_attempt,
    by_instance,
    by_repo,
    by_run,
    render,
    table_of,
)
from pipeline.tables.columns import Type
from pipeline.tables.groupings import GROUPINGS
from tests.fakes import (
    PROPERTY,
    UNRESOLVED,
    WITHOUT_PATCH,
    World,
    fault,
    make_plan,
    memory_ledger,
    plan_json,
    results_after,
    results_of,
)

IDS = ("flask-1", "flask-2", "sympy_x-3")
UNPRICED = Usage(requests=1, input_tokens=1000, cached_tokens=200, output_tokens=5, cost_usd=None)


def run(world: World, *ids: str, k: int = 1, agent: str = "fake") -> Results:
    return results_after(world, *(ids or IDS), k=k, agent=agent)


MIXED = World(
    rolls={("flask-1", 1): [fault(Cause.DISK)], ("flask-2", 2): [WITHOUT_PATCH]},
    scores={("sympy_x-3", 1): [UNRESOLVED]},
)


def printed(results: Results, by: By, kind: Format) -> str:
    return render(table_of(sheet_of(results), by), kind).decode()


def rows_read(results: Results, by: By) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(printed(results, by, Format.CSV), newline="")))


def tried(id_: str, number: int, outcome: str, blame: str = "model", **more: Any) -> AttemptRow:
    """One attempt of a run that nobody drove."""
    given: dict[str, Any] = {
        "instance_id": id_,
        "repo": id_.partition("-")[0],
        "attempt": number,
        "outcome": outcome,
        "blame": blame,
        "usage": Usage(),
        "moved": False,
        "unknown_exit": False,
        "official": None,
        "patch": None,
        "tries": 1,
        "steps": 0,
        "seconds": 0.0,
    }
    texts = dict.fromkeys(("cause", "trust", "stop", "fail_to_pass", "pass_to_pass", "detail"), "")
    return AttemptRow(**(texts | given | more))


def run_of(*rows: AttemptRow) -> Results:
    ids = list(dict.fromkeys(row.instance_id for row in rows))
    plan = plan_json(make_plan(*ids, k=max((row.attempt for row in rows), default=1)))
    return Results(plan=plan, rows=rows, book=Book())


@pytest.fixture
def mixed() -> Results:
    return run(MIXED, k=2)


# Records


def test_every_grouping_has_its_records() -> None:
    assert RECORDS.keys() == COLUMNS.keys() == set(By) == GROUPINGS.keys() | {By.ESTIMATE}


def test_by_attempt_is_one_record_an_attempt_with_all_that_is_known(mixed: Results) -> None:
    records = by_attempt(mixed)
    assert [(r["instance"], r["attempt"]) for r in records] == [(i, n) for i in IDS for n in (1, 2)]
    assert records[0] == {
        "instance": "flask-1",
        "repo": "flask/repo",
        "attempt": 1,
        "patch": "–",
        "outcome": "infra",
        "blame": "infra",
        "diagnosis": "",
        "cause": "disk",
        "trust": "trusted",
        "stop": "",
        "official": None,
        "fail_to_pass": "",
        "reward": None,
        "pass_to_pass": "",
        "tries": 1,
        "steps": 0,
        "requests": 0,
        "input_tokens": 0,
        "cached_tokens": 0,
        "output_tokens": 0,
        "cost_usd": 0.0,
        "as_planned": 0,
        "failed_requests": 0,
        "seconds": 0.0,
        "drift": "",
    }
    assert records[4]["official"] == 0
    assert (records[4]["fail_to_pass"], records[4]["pass_to_pass"]) == ("0/1", "3/3")
    assert [r["patch"] for r in records] == ["–", "yes", "yes", "no", "yes", "yes"]


def test_by_instance_has_the_outcomes_and_the_vote(mixed: Results) -> None:
    record = by_instance(mixed)[0]
    assert record == {
        "instance": "flask-1",
        "repo": "flask/repo",
        "outcomes": "infra, resolved",
        "resolved": 1,
        "unknown": 1,
        "k": 2,
        "majority": "undetermined",
        "trust": "trusted",
        "tries": 2,
        "steps": 2,
        "tokens": 110,
        "seconds": 2.0,
    }


def test_by_repo_adds_up_to_the_run(mixed: Results) -> None:
    records, summary = by_repo(mixed), mixed.summary()
    assert [record["repo"] for record in records] == ["flask/repo", "sympy_x/repo"]
    for key in ("instances", "attempts"):
        assert sum(record[key] for record in records) == summary[key]
    for key in ("model", "ambiguous", "infra"):
        assert sum(record[key] for record in records) == summary["blame"][key]
    assert sum(record["resolved"] for record in records) == summary["outcomes"]["resolved"]
    assert [record["pass_at_1_all"] for record in records] == [0.5, 0.5]


def test_by_run_is_the_summary_laid_flat(mixed: Results) -> None:
    (record,) = by_run(mixed)
    summary = mixed.summary()
    assert record["outcomes.no_submission"] == 1
    assert record["pass_at_1.all_ci95.low"] == summary["pass_at_1"]["all_ci95"][0]
    assert record["pass_at_1.all_ci95.high"] == summary["pass_at_1"]["all_ci95"][1]
    assert record["controls.gold.of"] == 3
    assert not any(isinstance(value, dict | list) for value in record.values())


def test_a_run_that_has_not_begun_has_tables_too() -> None:
    empty = results_of(make_plan(*IDS), memory_ledger())
    for records in RECORDS.values():
        for kind in Format:
            assert render(records(empty), kind)
    assert {record["pending"] for record in by_repo(empty)} == {1, 2}


# Formats


@pytest.mark.parametrize("by", By)
@pytest.mark.parametrize("kind", Format)
def test_every_table_has_every_format(mixed: Results, by: By, kind: Format) -> None:
    content = render(table_of(sheet_of(mixed), by), kind)
    assert content == render(table_of(sheet_of(mixed), by), kind)
    assert content.endswith(b"\n") or kind is Format.PARQUET


def test_csv_is_read_back_as_it_was(mixed: Results) -> None:
    records = by_attempt(mixed)
    found = list(csv.DictReader(io.StringIO(render(records, Format.CSV).decode())))
    texts = [{key: "" if v is None else str(v) for key, v in r.items()} for r in records]
    assert found == texts
    assert b"\r" not in render(records, Format.CSV)


def test_parquet_is_read_back_as_it_was(mixed: Results) -> None:
    frame = pd.read_parquet(io.BytesIO(render(by_attempt(mixed), Format.PARQUET)))
    assert list(frame["outcome"]) == [record["outcome"] for record in by_attempt(mixed)]
    assert frame["tries"].dtype.kind == "i"
    assert frame["cost_usd"].dtype.kind == "f"


def test_json_is_read_back_as_it_was(mixed: Results) -> None:
    assert json.loads(render(by_instance(mixed), Format.JSON)) == by_instance(mixed)


def test_what_is_unknown_is_empty_or_null_and_never_zero_or_nan() -> None:
    unpriced = Rollout(stop=None, submission=Patch("x"), exit_status="", usage=UNPRICED)
    records = by_attempt(run(World(rolls={("flask-1", 1): [unpriced]})))
    assert json.loads(render(records, Format.JSON))[0]["cost_usd"] is None
    rows = list(csv.DictReader(io.StringIO(render(records, Format.CSV).decode())))
    assert (rows[0]["cost_usd"], rows[1]["cost_usd"]) == ("", "0.25")
    assert "| –" in render(records, Format.MD).decode()
    for kind in (Format.CSV, Format.MD, Format.LATEX, Format.JSON):
        assert b"nan" not in render(records, kind).lower()


def test_markdown_is_a_github_table(mixed: Results) -> None:
    lines = printed(mixed, By.INSTANCE, Format.MD).splitlines()
    assert len(lines) == 2 + len(IDS)
    assert len({line.count("|") for line in lines}) == 1
    assert set(lines[1]) == {"|", "-", ":"}
    assert "infra, resolved" in lines[2]


def test_latex_is_booktabs_and_escapes_what_latex_would_read(mixed: Results) -> None:
    text = printed(mixed, By.INSTANCE, Format.LATEX)
    for command in (r"\toprule", r"\midrule", r"\bottomrule"):
        assert command in text
    assert r"sympy\_x-3" in text
    assert text.count(r"\\") == 1 + len(IDS)


def test_a_table_without_records_is_a_table() -> None:
    for kind in Format:
        assert isinstance(render([], kind), bytes)


CELLS = st.one_of(st.none(), st.integers(-99, 99), st.text(alphabet="a,\"'\n|é", max_size=5))


@given(st.lists(st.fixed_dictionaries({"a": CELLS, "b": st.just("x")}), min_size=1, max_size=5))
@PROPERTY
def test_csv_and_json_keep_any_text(records: list[dict[str, Any]]) -> None:
    assert json.loads(render(records, Format.JSON)) == records
    rows = list(csv.DictReader(io.StringIO(render(records, Format.CSV).decode(), newline="")))
    texts = [(row["a"], record["a"]) for row, record in zip(rows, records, strict=True)]
    assert all(found == given for found, given in texts if isinstance(given, str))
    assert all(found == "" for found, given in texts if given is None)


def test_an_unknown_attempt_of_a_known_instance_is_pending_in_the_table() -> None:
    plan, ledger = make_plan("a", k=2), memory_ledger()
    ledger.append(Kind.ROLLOUT, Attempt("a", 2), 1, WITHOUT_PATCH)
    outcomes = [record["outcome"] for record in by_attempt(results_of(plan, ledger))]
    assert outcomes == ["pending", "no_submission"]


# New groupings, and intervals


def test_by_repo_has_the_interval_of_its_own_instances(mixed: Results) -> None:
    flask, sympy = by_repo(mixed)
    _, low, high = interval([[0.0, 1.0], [1.0, 0.0]]) or (0, 0, 0)
    found = (flask["pass_at_1_all"], flask["pass_at_1_all_low"], flask["pass_at_1_all_high"])
    assert found == (0.5, round(low, 4), round(high, 4))
    _, low, high = interval([[0.0, 1.0]]) or (0, 0, 0)
    assert (sympy["pass_at_1_all_low"], sympy["pass_at_1_all_high"]) == (
        round(low, 4),
        round(high, 4),
    )


def test_by_outcome_shares_all_attempts_out(mixed: Results) -> None:
    records = RECORDS[By.OUTCOME](mixed)
    pairs = [(record["outcome"], record["cause"], record["attempts"]) for record in records]
    assert pairs == [
        ("resolved", "", 3),
        ("unresolved", "", 1),
        ("no_submission", "", 1),
        ("infra", "disk", 1),
    ]
    assert sum(record["share"] for record in records) == pytest.approx(1, abs=1e-3)
    _, low, high = interval([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]) or (0, 0, 0)
    assert (records[0]["share_low"], records[0]["share_high"]) == (round(low, 4), round(high, 4))


def test_by_diagnosis_counts_what_is_the_models_and_says_what_nobody_looked_at() -> None:
    lost = [tried("a-1", n, "unresolved", diagnosis="wrong_place") for n in (1, 2)]
    bare = tried("b-1", 1, "no_submission")
    broken = tried("b-1", 2, "infra", "infra")
    rows = rows_read(run_of(*lost, bare, broken), By.DIAGNOSIS)
    assert [(row["diagnosis"], row["attempts"], row["instances"]) for row in rows] == [
        ("wrong_place", "2", "1"),
        ("", "1", "1"),
    ]
    assert [float(row["share"]) for row in rows] == [0.5, 0.25]
    assert all(0 <= float(row["share_low"]) < float(row["share_high"]) <= 1 for row in rows)


def test_by_estimate_states_one_run_in_every_way() -> None:
    """Five instances, three attempts: what can be worked out by hand is."""
    resolved = {"a-1": 3, "a-2": 2, "b-1": 1, "b-2": 0, "c-1": 3}
    rows = [
        tried(id_, n, *(("resolved", "nobody") if n <= good else ("unresolved", "model")))
        for id_, good in resolved.items()
        for n in (1, 2, 3)
    ]
    found = rows_read(run_of(*rows), By.ESTIMATE)
    value = {(row["estimate"], row["method"].split(",")[0]): float(row["value"]) for row in found}
    assert value[("pass@1", "Wilson")] == 0.6
    assert value[("pass@2", "unbiased")] == pytest.approx((1 + 1 + 2 / 3 + 0 + 1) / 5, abs=1e-4)
    assert value[("pass@3", "unbiased")] == 0.8
    assert value[("pass^3", "unbiased")] == 0.4
    assert value[("majority of 3", "Clopper–Pearson")] == 0.6
    errors = {row["method"]: row["error"] for row in found if row["estimate"] == "pass@1"}
    # Means 1, 2/3, 1/3, 0, 1 have a variance of 0.1889 with n - 1.
    assert float(errors["normal, SE over instances"]) == pytest.approx(0.19437, abs=1e-5)
    assert errors["clustered by repository, t(2)"]
    # Every rate stands in its interval, and two prints of one run are the same.
    assert all(float(r["low"]) <= float(r["value"]) <= float(r["high"]) for r in found)
    assert rows_read(run_of(*rows), By.ESTIMATE) == found


def test_by_estimate_leaves_out_what_a_run_cannot_say() -> None:
    alone = run_of(tried("a-1", 1, "resolved", "nobody"))
    methods = [row["method"] for row in rows_read(alone, By.ESTIMATE)]
    assert methods == ["Wilson", "Wilson", "Clopper–Pearson", "Beta–Binomial, posterior mean"]
    lost = run_of(tried("a-1", 1, "infra", "infra"), tried("b-1", 1, "infra", "infra"))
    # Over all it failed; over valid there is nothing.
    assert {row["over"] for row in rows_read(lost, By.ESTIMATE)} == {"all"}
    assert rows_read(run_of(), By.ESTIMATE) == []


def test_by_estimate_reweights_where_verifieds_repositories_are_known() -> None:
    django = [tried(f"django__django-{n}", 1, "resolved", "nobody") for n in (1, 2)]
    flask = tried("pallets__flask-1", 1, "unresolved")
    rows = [
        *(replace(row, repo="django/django") for row in django),
        replace(flask, repo="pallets/flask"),
    ]
    found = {row["method"]: row for row in rows_read(run_of(*rows), By.ESTIMATE)}
    mine = found["re-weighted to Verified's repositories"]
    assert float(mine["value"]) == pytest.approx(231 / 232, abs=1e-4)
    assert "never a headline" in mine["note"]
    assert mine["low"] == "", "nobody knows how far that is off"


def test_by_cost_adds_up_and_an_unknown_price_stays_unknown(mixed: Results) -> None:
    *records, total = RECORDS[By.COST](mixed)
    assert [record["instance"] for record in records] == list(IDS)
    assert (total["instance"], total["instances"]) == ("total", 3)
    for key in ("attempts", "resolved", "requests", "input_tokens", "output_tokens", "cost_usd"):
        assert total[key] == sum(record[key] for record in records)
    assert total["cost_per_resolved_usd"] == pytest.approx(total["cost_usd"] / 3)
    unpriced = Rollout(stop=None, submission=Patch("x"), exit_status="", usage=UNPRICED)
    first, second, *_, total = RECORDS[By.COST](run(World(rolls={("flask-1", 1): [unpriced]})))
    assert (first["cost_usd"], second["cost_usd"], total["cost_usd"]) == (None, 0.25, None)
    assert total["cost_per_resolved_usd"] is None


def test_what_nobody_counted_is_empty_everywhere() -> None:
    imported = run(World(), k=2, agent="predictions")
    for by, names in (
        (By.ATTEMPT, ("steps", "input_tokens", "cost_usd", "failed_requests")),
        (By.INSTANCE, ("steps", "tokens")),
        (By.REPO, ("tokens",)),
        (By.COST, ("requests", "output_tokens", "cost_usd", "cost_per_resolved_usd")),
    ):
        assert {row[name] for row in rows_read(imported, by) for name in names} == {""}


def test_by_run_always_has_the_same_columns(mixed: Results) -> None:
    empty = results_of(make_plan(*IDS), memory_ledger())
    nothing = results_of(make_plan(), memory_ledger())
    names = [list(by_run(results)[0]) for results in (mixed, empty, nothing)]
    assert names[0] == names[1] == names[2] == [column.name for column in COLUMNS[By.RUN]]


# For machines, and for people


@pytest.mark.parametrize("by", By)
def test_columns_are_those_that_are_named_and_of_their_type(by: By, mixed: Results) -> None:
    for results in (mixed, results_of(make_plan(*IDS), memory_ledger()), run_of()):
        table = table_of(sheet_of(results), by)
        assert list(table.frame.columns) == [column.name for column in COLUMNS[by]]
        frame = pd.read_parquet(io.BytesIO(render(table, Format.PARQUET)))
        kinds = {Type.TEXT: "OSTU", Type.INTEGER: "i", Type.NUMBER: "f"}
        for column in COLUMNS[by]:
            assert frame[column.name].dtype.kind in kinds[column.type], column.name


def test_people_see_a_percentage_with_its_interval_in_one_cell() -> None:
    resolved = [tried(f"a-{n}", 1, Outcome.RESOLVED, Blame.NOBODY) for n in range(3)]
    results = run_of(*resolved, *(tried(f"a-{n}", 1, Outcome.UNRESOLVED) for n in (3, 4)))
    for by in (By.REPO, By.OUTCOME, By.RUN):
        assert "60.0 % [23.1–88.2]" in printed(results, by, Format.MD)
        assert "60.0 % [23.1–88.2]" in printed(results, by, Format.HTML)
        assert r"60.0 \% {[}23.1--88.2]" in printed(results, by, Format.LATEX)
    [row] = rows_read(results, By.REPO)
    values = [row[f"pass_at_1_all{end}"] for end in ("", "_low", "_high")]
    assert values == ["0.6", "0.2307", "0.8824"]
    assert "low" not in printed(results, By.REPO, Format.MD)


def test_a_run_is_a_sheet_of_two_columns_for_people_and_one_record_for_machines(
    mixed: Results,
) -> None:
    lines = printed(mixed, By.RUN, Format.MD).splitlines()
    assert {line.count("|") for line in lines} == {3}
    assert any("causes.disk" in line and "| 1 " in line for line in lines)
    assert len(rows_read(mixed, By.RUN)) == 1
    assert len(json.loads(printed(mixed, By.RUN, Format.JSON))) == 1


def test_many_outcomes_are_counted_for_people_and_listed_for_machines() -> None:
    rows = [tried("a-1", n, Outcome.RESOLVED, Blame.NOBODY) for n in range(1, 8)]
    results = run_of(*rows, tried("a-1", 8, Outcome.DIED))
    assert "7 resolved, 1 died" in printed(results, By.INSTANCE, Format.MD)
    assert rows_read(results, By.INSTANCE)[0]["outcomes"].count("resolved") == 7


ODD = "\u05de\u05e9\u05d9\u05de\u05d4<script>alert(1)</script>&|`x`*[y](z)\n_%#$\\{}~^→–--''-1"
LONG = "a-very-long-name_" * 12


class Reader(HTMLParser):
    """Tags that are open, and text by tag."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "bdi":
            self.texts.append(data)


def test_html_is_a_fragment_in_which_a_name_is_only_text() -> None:
    read = Reader(printed(run_of(tried(ODD, 1, Outcome.RESOLVED)), By.INSTANCE, Format.HTML))
    assert set(read.tags) == {"table", "caption", "thead", "tbody", "tr", "th", "td", "bdi"}
    assert read.open == []
    assert "".join(read.texts).count(ODD.replace("\n", " ")) == 1


def test_html_as_it_is() -> None:
    results = run_of(tried("a-1", 1, Outcome.RESOLVED, Blame.NOBODY))
    assert printed(results, By.OUTCOME, Format.HTML) == (
        '<table class="passone">\n'
        "<caption><bdi>test, by outcome</bdi></caption>\n"
        "<thead>\n"
        '<tr><th scope="col">outcome</th><th scope="col">cause</th>'
        '<th scope="col" class="number">attempts</th>'
        '<th scope="col" class="number">share [95 % CI]</th></tr>\n'
        "</thead>\n<tbody>\n"
        '<tr><td><bdi>resolved</bdi></td><td></td><td class="number">1</td>'
        '<td class="number">100.0 % [20.7–100.0]</td></tr>\n'
        "</tbody>\n</table>\n"
    )


def test_markdown_and_latex_as_they_are() -> None:
    results = run_of(tried("a-1", 1, Outcome.RESOLVED, Blame.NOBODY))
    assert printed(results, By.OUTCOME, Format.MD) == (
        "| outcome   | cause   |   attempts |      share [95 % CI] |\n"
        "|:----------|:--------|-----------:|---------------------:|\n"
        "| resolved  |         |          1 | 100.0 % [20.7–100.0] |\n"
    )
    assert printed(results, By.OUTCOME, Format.LATEX) == (
        "% \\usepackage{booktabs}  test, by outcome\n"
        "\\begin{tabular}{llrr}\n\\toprule\n"
        "outcome & cause & attempts & share {[}95 \\% CI] \\\\\n\\midrule\n"
        "resolved &  & 1 & 100.0 \\% {[}20.7--100.0] \\\\\n"
        "\\bottomrule\n\\end{tabular}\n"
    )


def compiled(tmp_path: Path, tables: Sequence[str]) -> str:
    """The log of a paper that holds these tables."""
    body = "\n\n\\clearpage\n".join(tables)
    (tmp_path / "paper.tex").write_text(
        "\\documentclass[10pt]{article}\n\\usepackage[margin=2cm]{geometry}\n"
        f"\\usepackage{{booktabs,longtable,array}}\n\\begin{{document}}\n\\small\n{body}\n"
        "\\end{document}\n",
        encoding="utf-8",
    )
    argv = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    text = ""
    for _ in range(2):
        done = subprocess.run(argv, cwd=tmp_path, capture_output=True, check=False)
        text = done.stdout.decode(errors="replace")
        assert done.returncode == 0, text[-2000:]
    return text


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="pdflatex is not installed")
def test_latex_compiles_whatever_a_name_holds(tmp_path: Path, mixed: Results) -> None:
    names = [ODD, LONG, "\u4e2d\u6587-1", "é ß ł đ ŋ-1", *(f"numpy__numpy-{n}" for n in range(90))]
    odd = run_of(*(tried(name, 1, Outcome.UNRESOLVED) for name in names))
    texts = [printed(results, by, Format.LATEX) for results in (mixed, odd) for by in By]
    assert sum("longtable}" in text for text in texts) >= 3
    log = compiled(tmp_path, texts)
    assert "Missing character" not in log
    wide = [float(points) for points in re.findall(r"Overfull .hbox \(([\d.]+)pt", log)]
    assert not [points for points in wide if points > 20], log


# Odd runs


@pytest.mark.parametrize("kind", Format)
@pytest.mark.parametrize("by", By)
def test_odd_runs_have_every_table_and_nan_is_nowhere(by: By, kind: Format) -> None:
    only_infra = run(World(rolls={(id_, 1): [fault()] for id_ in IDS}))
    going = results_of(make_plan(*IDS, k=2), memory_ledger())
    odd = run_of(tried(ODD, 1, Outcome.DIED, Blame.AMBIGUOUS), tried(LONG, 1, "pending", ""))
    for results in (only_infra, going, odd, run_of()):
        content = render(table_of(sheet_of(results), by), kind)
        assert kind is Format.PARQUET or not re.search(rb"\b(nan|<na>|nat|none)\b", content, re.I)


def test_ten_thousand_repositories_are_ten_thousand_rows() -> None:
    results = run_of(*(tried(f"repo{n}-1", 1, Outcome.UNRESOLVED) for n in range(10_000)))
    assert len(rows_read(results, By.REPO)) == 10_000
    assert printed(results, By.REPO, Format.LATEX).count("\\\\\n") > 10_000


# The document


DOCUMENT = Path(__file__).parent.parent / "docs/tables.md"
WORDS = {
    "<outcome>": [outcome.value for outcome in Outcome],
    "<blame>": [blame.value for blame in Blame],
    "<cause>": [cause.value for cause in Cause],
}


def documented(by: By) -> list[tuple[str, ...]]:
    """Name, type, unit and whether it is on paper, of each column of a table."""
    text = DOCUMENT.read_text(encoding="utf-8").split(f"## By {by.value}\n")[1].split("\n## ")[0]
    lines = [line.split("|")[1:5] for line in text.splitlines() if line.startswith("| `")]
    found = []
    for name, *rest in ([cell.strip().strip("`") for cell in line] for line in lines):
        [words] = [WORDS[word] for word in WORDS if word in name] or [[""]]
        found += [(re.sub("<.*>", word, name), *rest) for word in words]
    return found


@pytest.mark.parametrize("by", By)
def test_every_column_is_documented_with_its_type_and_unit(by: By) -> None:
    ends = {name for column in COLUMNS[by] for name in column.bounds or ()}
    assert documented(by) == [
        (
            column.name,
            column.type.value,
            column.unit.value,
            "no" if column.wide or column.name in ends else "yes",
        )
        for column in COLUMNS[by]
    ]


def test_a_table_of_somebody_elses_is_printed_as_it_is() -> None:
    table = [{"side": "agent", "a_b": 1000, "c": None}]
    assert render(table, Format.MD).decode().splitlines()[2].split("|")[2].strip() == "1000"
    assert isinstance(table_of(sheet_of(run_of()), By.REPO), Table)
