"""A patch is chosen by what it says and does, and never by what the hidden tests say of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.benchmarks import dataset
from pipeline.benchmarks.canary import files_of
from pipeline.benchmarks.grading import spec_of
from pipeline.benchmarks.visible import command_of, nearest, script_of
from pipeline.choice import Candidate, Choice, candidates, choose, gain, normalised, touched
from pipeline.domain import Attempt, Cause, Fault, Patch, Rollout
from tests.fakes import SUBMITTED, UNRESOLVED, WITHOUT_PATCH, World, fault, results_after

HEAD = "diff --git a/{0} b/{0}\nindex 1111111..2222222 100644\n--- a/{0}\n+++ b/{0}\n"


def diff(*lines: str, name: str = "a.py", at: int = 10) -> str:
    old = sum(line[:1] != "+" for line in lines)
    new = sum(line[:1] != "-" for line in lines)
    body = "".join(f"{line}\n" for line in lines)
    return f"{HEAD.format(name)}@@ -{at},{old} +{at},{new} @@ def f():\n{body}"


BEFORE, AFTER = (" x = 0", " y = 0", " a = 1"), (" c = 4", " d = 5", " e = 6")
PLAIN = diff(*BEFORE, "-b = 2", "+b = 3", *AFTER)
SAME = {
    "somewhere else in the file": diff(*BEFORE, "-b = 2", "+b = 3", *AFTER, at=99),
    "with more around it": diff(" v", " w", *BEFORE, "-b = 2", "+b = 3", *AFTER, " f", " g"),
    "with a comment": diff(*BEFORE, "-b = 2", "+# three", "+b = 3  # not two", *AFTER),
    "with other white space": diff(*BEFORE, "-b = 2", "+b  =  3  ", "+", *AFTER),
    "with a hunk of comments": PLAIN + "@@ -50,2 +50,3 @@\n x = 1\n+# more\n y = 2\n",
    "with other offsets in its head": PLAIN.replace("1111111", "3333333"),
}
OTHER = {
    "another value": diff(*BEFORE, "-b = 2", "+b = 4", *AFTER),
    "another place": diff(*AFTER, "-b = 2", "+b = 3", *BEFORE),
    "another file": diff(*BEFORE, "-b = 2", "+b = 3", *AFTER, name="b.py"),
    "another depth": diff(*BEFORE, "-b = 2", "+    b = 3", *AFTER),
    "a mark in a string": diff(*BEFORE, "-b = 2", "+b = '3 # 4'", *AFTER),
    "one more file": PLAIN + diff("+new", name="new.py"),
    "a mark that is no comment there": diff(*BEFORE, "-b = 2", "+b = 3", *AFTER, "+# h").replace(
        "a.py", "a.md"
    ),
}


@pytest.mark.parametrize("other", SAME.values(), ids=SAME)
def test_patches_are_the_same(other: str) -> None:
    assert normalised(other) == normalised(PLAIN)


@pytest.mark.parametrize("other", OTHER.values(), ids=OTHER)
def test_patches_are_not_the_same(other: str) -> None:
    assert normalised(other) != normalised(PLAIN)


def test_the_order_of_files_says_nothing() -> None:
    one, two = diff("+x", name="x.py"), diff("+y", name="y.py")
    assert normalised(one + two) == normalised(two + one)
    assert touched(two + one) == ("y.py", "x.py")


@given(st.text())
def test_any_text_has_a_form(text: str) -> None:
    assert isinstance(normalised(text), str)


def group(*texts: str) -> list[Candidate]:
    return [
        Candidate(attempt=Attempt("a", number), diff=f"diff {text}", text=text)
        for number, text in enumerate(texts, 1)
    ]


def number_of(choice: Choice | None) -> int:
    assert choice is not None
    return choice.attempt.number


def test_without_tests_the_most_frequent_patch_is_taken_and_of_equals_the_earliest() -> None:
    assert number_of(choose(group("x", "y", "y"))) == 2
    assert number_of(choose(group("x", "y", "z"))) == 1
    assert choose([]) is None


BASE = {"t1": True, "t2": True, "known to fail": False}
SHOWN: Mapping[str, Mapping[str, bool] | None] = {
    "fine": {**BASE},
    "fine, too": {**BASE},
    "breaks": {**BASE, "t2": False},
    "mends": {**BASE, "known to fail": True},
    "gone": None,
}


@pytest.mark.parametrize(
    ("texts", "number"),
    [
        (("breaks", "breaks", "fine"), 3),
        (("gone", "gone", "breaks"), 3),
        (("mends", "fine", "fine, too"), 2),
        (("mends", "fine", "mends"), 1),
        (("fine", "fine, too", "fine, too"), 2),
        (("gone", "gone"), 1),
    ],
)
def test_what_breaks_least_is_taken_and_then_what_most_do(
    texts: tuple[str, ...], number: int
) -> None:
    assert number_of(choose(group(*texts), SHOWN, BASE)) == number


def test_a_choice_says_how_many_were_of_its_mind() -> None:
    choice = choose(group("fine", "fine", "fine, too", "breaks"), SHOWN, BASE)
    assert choice is not None
    assert (choice.candidates, choice.texts, choice.same, choice.alike) == (4, 3, 2, 3)
    assert (choice.behaviours, choice.tests, choice.broken) == (2, 2, 0)
    plain = choose(group("fine", "fine, too"))
    assert plain is not None
    assert (plain.behaviours, plain.broken) == (0, None)


def handing_in(*patches: str | Fault) -> dict[tuple[str, int], list[Rollout | Fault]]:
    """An instance's attempts, by what each leaves."""
    return {
        ("a", number): [
            patch if isinstance(patch, Fault) else replace(SUBMITTED, submission=Patch(patch))
        ]
        for number, patch in enumerate(patches, 1)
    }


def test_the_hidden_tests_choose_nothing_and_then_say_what_it_is_worth() -> None:
    one, other = diff("+one"), diff("+other")
    world = World(
        rolls={**handing_in(one, other, other), ("c", 1): [WITHOUT_PATCH]},
        scores={("a", 2): [UNRESOLVED], ("a", 3): [UNRESOLVED]},
    )
    results = results_after(world, "a", "b", "c", k=3)
    groups = candidates(results)
    choices = {instance_id: choose(group) for instance_id, group in groups.items()}
    # Its first would have resolved it.
    assert number_of(choices["a"]) == 2
    assert len(groups["c"]) == 2
    worth = gain(results, choices)
    assert worth is not None
    assert (worth.instances, worth.most, worth.helped, worth.harmed) == (3, 3, 1, 1)
    assert worth.chosen == pytest.approx(2 / 3)
    assert worth.first == pytest.approx((1 / 3 + 1 + 2 / 3) / 3)
    assert worth.best == 1
    assert worth.above_first == pytest.approx(0)
    assert worth.below_best == pytest.approx(1 / 3)


def test_what_does_not_count_is_no_candidate_and_no_zero() -> None:
    broken = fault(Cause.ENDPOINT)
    world = World(
        rolls={
            **handing_in(broken, diff("+x"), broken),
            **{("b", number): [broken] for number in (1, 2, 3)},
            **{("c", number): [WITHOUT_PATCH] for number in (1, 2, 3)},
        }
    )
    results = results_after(world, "a", "b", "c", k=3)
    groups = candidates(results)
    assert {instance_id: len(group) for instance_id, group in groups.items()} == {"a": 1, "c": 0}
    worth = gain(results, {instance_id: choose(group) for instance_id, group in groups.items()})
    assert worth is not None
    assert (worth.instances, worth.chosen, worth.first, worth.best) == (2, 0.5, 0.5, 0.5)
    assert gain(results, {}) is None


FILES = (
    *("pkg/core/blue.py", "pkg/core/tests/test_blue.py", "pkg/core/tests/test_other.py"),
    *("tests/test_blue.py", "tests/blue_tests/tests.py", "docs/test_blue.md", "pkg/test.py"),
    *("tests/forms_tests/test_i18n.py", "lib/tests/test_far.py"),
)


def test_the_nearest_tests_are_those_of_the_name_the_folder_and_the_package() -> None:
    assert nearest(FILES, ["pkg/core/blue.py"]) == (
        "pkg/core/tests/test_blue.py",
        "pkg/core/tests/test_other.py",
        "tests/blue_tests/tests.py",
        "tests/test_blue.py",
    )
    assert nearest(FILES, ["pkg/core/blue.py"], most=1) == ("pkg/core/tests/test_blue.py",)
    assert nearest(FILES, ["django/forms/__init__.py"]) == ("tests/forms_tests/test_i18n.py",)
    # What a patch writes as a test of its own chooses nothing.
    assert nearest(FILES, ["tests/test_blue.py", "README.md"]) == ()


def test_every_published_script_can_run_other_tests_without_the_hidden_ones(shared: Path) -> None:
    release = dataset.load(str(shared / "verified.parquet"))
    unnamed = []
    for instance in release.instances:
        spec = spec_of(instance)
        if command_of(spec, ("tests/own/test_x.py",)) is None:
            unnamed.append(instance.id)
            continue
        base = str(instance.row["base_commit"])
        script = script_of(spec, base, ("tests/own/test_x.py",))
        hidden = {path for path in files_of(spec.eval_script) if path != "tests/runtests.py"}
        assert not [path for path in hidden if path in script], instance.id
        assert "EOF_" not in script
        assert "own/test_x.py" in script or "own.test_x" in script
    # Its test patch has no file of tests: all of Django's would run.
    assert unnamed == ["django__django-10097"]
