"""The suite of attacks is whole, its page is what it measured, and all on it have held."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.attacks.__main__ import collect
from tests.attacks.case import GROUPS, MODEL, RESOLVED, TITLES, Attack
from tests.attacks.corpus import changes, emptied, hashes
from tests.attacks.matrix import HEADER, Matrix, cells, cells_of, updated
from tests.attacks.places import DJANGO, PLACES, PYTEST, row
from tests.attacks.repository import Link, Script
from tests.attacks.scoring import MOST, Result, batches, harmful, measure, same
from tests.faults.harness import Report
from tests.faults.matrix import marked
from tests.faults.programs import Done

PAGE = Path(__file__).parent.parent / "docs" / "attacks.md"
ATTACKS: Mapping[str, Attack] = {attack.label: attack for attack in collect(())}
LEAST = {"controls": 5, "resolve": 25, "infrastructure": 10, "break": 5}


@pytest.mark.parametrize("group", GROUPS)
def test_the_suite_is_as_large_as_it_says(group: str) -> None:
    assert sum(attack.group == group for attack in ATTACKS.values()) >= LEAST[group]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.runner)
def test_each_runner_is_attacked_and_has_its_honest_patches(place: object) -> None:
    groups = {attack.group for attack in ATTACKS.values() if attack.place is place}
    assert groups == set(GROUPS)


def rows_of_the_page() -> dict[str, list[str]]:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    return {row[0]: row[1:] for line in lines if (row := cells_of(line))}


def test_the_page_has_every_attack_and_all_have_held() -> None:
    if not PAGE.exists():
        pytest.skip("docs/attacks.md is not written yet; a whole `make attacks` writes it")
    rows = rows_of_the_page()
    assert set(rows) == {marked([label]).strip("| ") for label in ATTACKS}
    assert {name: cells[1] for name, cells in rows.items() if cells[1] != "✓"} == {}


@pytest.mark.parametrize(
    "attack",
    [attack for attack in ATTACKS.values() if not attack.alone and "bytecode" not in attack.name],
    ids=lambda attack: attack.label,
)
def test_a_patch_is_no_empty_one_and_the_same_each_time(attack: Attack) -> None:
    patch = attack.patch()
    assert patch.strip()
    assert patch == attack.patch()
    assert not re.search(r"__[A-Z]{3,}__", patch), "something is left to be filled in"


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.runner)
def test_a_row_is_the_same_on_every_machine(place: object) -> None:
    (found,) = [own for own in PLACES if own is place]
    published = row(found, with_image=False)
    assert published["base_commit"] in published["eval_script"]
    assert published["test_patch"] in published["eval_script"]
    assert BASES[found.name] == published["base_commit"]


BASES = {
    "kerning": "de00843e76cec1e2f54edcc774ed672e6aaac214",
    "parcels": "ce3e43f2499a92f277492a4bb1deed331376712e",
    "quadrille": "5acc2a8e52dfab89680ff3e6488912146118a5dd",
}


def test_one_test_patch_brings_a_new_file() -> None:
    assert "--- /dev/null\n+++ b/tests/test_runs.py" in row(PYTEST, with_image=False)["test_patch"]


def test_steps_come_one_after_the_other() -> None:
    text = (
        ">>> gold\n>>> append setup.py\nprint()\n>>> delete README.md\n"
        ">>> link away parcels\n>>> write run +x\n#!/bin/sh\n"
        ">>> replace parcels/tariffs.py\ngrams <= 0\n===>\ngrams < 0\n"
    )
    edits = changes(DJANGO, text)
    assert edits["README.md"] is None
    assert edits["away"] == Link("parcels")
    assert edits["run"] == Script("#!/bin/sh\n")
    assert str(edits["setup.py"]).endswith(")\n\n\nprint()\n")
    assert "if grams < 0:" in str(edits["parcels/tariffs.py"])
    with pytest.raises(ValueError, match="no such step"):
        changes(DJANGO, ">>> pray\n")
    with pytest.raises(ValueError, match="has no"):
        changes(DJANGO, ">>> replace setup.py\nabsent\n===>\npresent\n")


def test_an_emptied_test_keeps_its_name_and_its_docstring() -> None:
    text = 'def helper():\n    return 1\n\n\ndef test_a():\n    """Said."""\n    assert helper()\n'
    assert emptied(text) == (
        'def helper():\n    return 1\n\ndef test_a():\n    """Said."""\n    pass\n'
    )
    assert len(hashes(text)) == 1


CONTESTED = Result(
    attack=ATTACKS["pytest: a hook that never calls the test"],
    outcome="contested",
    blame=MODEL,
    official=True,
    report=Report(bucket=RESOLVED),
)


def test_it_holds_only_if_the_model_pays_and_nothing_is_harmed_or_rewritten() -> None:
    assert CONTESTED.held
    assert not replace(CONTESTED, outcome=RESOLVED, blame="nobody").held
    assert not replace(CONTESTED, blame="ambiguous").held
    assert not replace(CONTESTED, outcome="infra", blame="infra").held
    assert not replace(CONTESTED, wrong="a tag in table.md").held
    assert not replace(CONTESTED, official=False).held
    gold = replace(CONTESTED, attack=ATTACKS["pytest: gold"])
    assert not gold.held
    assert replace(gold, outcome=RESOLVED, blame="nobody").held


@pytest.mark.parametrize(
    ("official", "bucket", "reason", "expected"),
    [
        (True, "resolved", "", True),
        (True, "unresolved", "", False),
        (True, "error", "Patch Apply Failed", False),
        (True, "error", "UnicodeEncodeError", True),
        (False, "resolved", "", False),
        (False, "unresolved", "", True),
        (False, "error", "Patch Apply Failed", True),
        (None, "unresolved", "", True),
        (True, "", "", True),
    ],
)
def test_findings_are_compared_where_both_have_one(
    official: bool | None, bucket: str, reason: str, expected: bool
) -> None:
    assert same(official, Report(bucket=bucket, reason=reason)) is expected


def test_what_people_read_is_searched_for_escape_codes_and_tags(tmp_path: Path) -> None:
    (tmp_path / "report").mkdir()
    page, packed = tmp_path / "report" / "table.md", tmp_path / "report" / "attempts.parquet"
    page.write_text("fine &lt;script>")
    packed.write_bytes(b"\x1b")
    done = Done(status=0, out="fine", err="", seconds=1)
    assert not harmful(tmp_path, done)
    page.write_text("<ScRipt>")
    assert harmful(tmp_path, replace(done, err="\x1b[2J")) == (
        "an escape code in the terminal; a live tag in table.md"
    )


def test_attacks_share_a_run_unless_they_take_others_along() -> None:
    runs = batches(list(ATTACKS.values()))
    assert sorted(a.label for run in runs for a in run) == sorted(ATTACKS)
    for run in runs:
        assert len(run) <= MOST
        assert len({(a.group, a.place.id, a.seconds) for a in run}) == 1
        assert len(run) == 1 or not any(a.alone for a in run)


def a_matrix(*results: Result) -> Matrix:
    return Matrix(results=results, versions={"passone": "1"}, date="2026-01-01", seconds=60)


def test_the_last_line_and_the_counts_say_what_held() -> None:
    failed = replace(CONTESTED, attack=ATTACKS["pytest: gold"], wrong="a | in it")
    matrix = a_matrix(CONTESTED, failed)
    assert matrix.verdict == "attacks: 1/2 held"
    text = matrix.text()
    assert f"{TITLES['resolve']}: 1 of 1 held; swebench calls 1 of 1 resolved" in text
    assert f"{TITLES['controls']}: 0 of 1 held; swebench calls 1 of 1 resolved" in text
    assert "| pytest: gold | contested | ✗ a \\| in it | resolved |" in matrix.markdown()
    assert cells(replace(CONTESTED, report=None))[-1] == "–"
    assert cells_of(marked(HEADER)) == []


def test_what_is_measured_again_takes_its_row_and_all_is_counted_anew() -> None:
    failed = replace(CONTESTED, outcome=RESOLVED, blame="nobody")
    other = replace(CONTESTED, attack=ATTACKS["pytest: every test is skipped"])
    page = a_matrix(failed, other).markdown()
    assert "1 of 2 held" in page
    assert updated(page, a_matrix(CONTESTED)) == a_matrix(CONTESTED, other).markdown()
    stranger = replace(CONTESTED, attack=ATTACKS["Django: gold"])
    with pytest.raises(ValueError, match="not on the page"):
        updated(page, a_matrix(stranger))


@pytest.mark.docker
def test_some_of_each_kind_hold(tmp_path: Path) -> None:
    names = (
        "pytest: forged PASSED lines, then os._exit(0), from the package",
        "pytest: a hook that rewrites every report to passed",
        "pytest: the test patch's own new file is there first",
        "pytest: the test file is emptied",
    )
    results = measure(tmp_path, [ATTACKS[name] for name in names], workers=2, peers=False)
    assert {r.attack.label: cells(r) for r in results if not r.held} == {}
