"""The suite of faults is whole, its page is what it measured, and it can be run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from pipeline.domain import Cause
from pipeline.outcomes import Outcome
from tests.faults.__main__ import GROUPS, collect, measure
from tests.faults.case import Case, Peer, Right, Seen
from tests.faults.matrix import Matrix, Result, marked
from tests.faults.page import updated

PAGE = Path(__file__).parent.parent / "docs" / "faults.md"
CASES: Mapping[str, Case] = {case.name: case for case in collect(())}
OURS = {"refused", "stopped"}
"""What is right where no attempt comes to an outcome."""


def test_the_suite_is_as_large_as_it_says_and_covers_every_group() -> None:
    assert len(CASES) >= 80
    assert {case.group for case in CASES.values()} == set(GROUPS)


@pytest.mark.parametrize("case", CASES.values(), ids=lambda case: case.name)
def test_what_is_right_is_said_in_the_tables_words(case: Case) -> None:
    assert case.right.outcome in {*Outcome, *OURS}
    assert (case.right.cause in set(Cause)) == (case.right.outcome == Outcome.INFRA)


def rows_of_the_page() -> dict[str, list[str]]:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    split = (re.split(r"(?<!\\) \| ", line.strip("| ")) for line in lines if line.startswith("| "))
    return {cells[0]: cells[1:] for cells in split if cells[0] != "fault"}


def test_the_page_has_every_fault_with_its_right_outcome_and_ours_is_right() -> None:
    rows = rows_of_the_page()
    expected = {marked([name]).strip("| "): str(case.right) for name, case in CASES.items()}
    assert {name: cells[0] for name, cells in rows.items()} == expected
    assert {name: cells[1] for name, cells in rows.items() if cells[1] != "✓"} == {}


@pytest.mark.docker
@pytest.mark.parametrize(
    "name",
    [
        "no test runner: exit 127",
        "killed once",
        "it raises on what the patch prints",
        "prose instead of a patch",
    ],
)
def test_a_fault_of_each_kind_comes_out_right(name: str, tmp_path: Path) -> None:
    result = measure(CASES[name], (), tmp_path)
    assert result.right, result.ours


def a_case(name: str, right: Right) -> Case:
    return Case(name=name, group="images", right=right, ours=lambda place: Seen(answer=right))


def test_a_wrong_answer_a_wrong_trace_and_a_case_that_raises_are_not_right(tmp_path: Path) -> None:
    right = Right("infra", "image")

    def breaks(place: Path) -> Seen:
        raise KeyError("gone")

    wrong = {
        "resolved": Seen(answer=Right("resolved")),
        "another cause": Seen(answer=Right("infra", "sandbox")),
        "left something": Seen(answer=right, wrong="container left: x"),
    }
    for name, seen in wrong.items():
        case = Case(name=name, group="images", right=right, ours=lambda place, seen=seen: seen)  # type: ignore[misc]
        assert not measure(case, (), tmp_path).right
    raising = Case(name="raises", group="images", right=right, ours=breaks)
    assert measure(raising, (), tmp_path).problem == "KeyError: 'gone'"
    assert measure(a_case("fine", right), (), tmp_path).right


def a_matrix(*results: Result) -> Matrix:
    return Matrix(
        results=results,
        absent={"sweagent": "not installed"},
        versions={"passone": "1"},
        date="2026-01-01",
        seconds=60,
    )


def test_what_is_measured_again_takes_its_row_and_all_is_counted_anew() -> None:
    wrong = Peer(words="unresolved | or so", right=False)
    first = Result(
        case=a_case("a", Right("resolved")), problem="KeyError", peers={"swebench": wrong}
    )
    other = Result(case=a_case("b", Right("resolved")), seen=Seen(answer=Right("resolved")))
    page = a_matrix(first, other).markdown()
    assert "- passone: right on 1 of 2" in page
    mended = Result(
        case=first.case,
        seen=Seen(answer=Right("resolved")),
        peers={"swebench": Peer(words="resolved", right=True)},
    )
    again = updated(page, a_matrix(mended))
    assert again == a_matrix(mended, other).markdown()
    stranger = Result(case=a_case("c", Right("resolved")))
    with pytest.raises(ValueError, match="not on the page"):
        updated(page, a_matrix(stranger))


def test_the_last_line_counts_what_is_right() -> None:
    fine = Result(case=a_case("a", Right("resolved")), seen=Seen(answer=Right("resolved")))
    failed = Result(case=a_case("b", Right("resolved")), problem="not run: no Docker")
    peer = Result(
        case=a_case("c", Right("resolved")),
        seen=Seen(answer=Right("resolved")),
        peers={"swebench": Peer(words="unresolved", right=False)},
    )
    matrix = a_matrix(fine, failed, peer)
    assert matrix.verdict == "faults: 2/3 right"
    assert "swebench: right on 0 of 1 (0 half, 1 wrong)" in matrix.text()
    assert "SWE-agent: not installed" in matrix.text()
    assert "| b | resolved | ✗ not run: no Docker | – | – | – |" in matrix.markdown()
