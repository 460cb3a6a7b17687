"""`passone report`: what is in the page, and what a browser makes of it."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.docker import artifacts
from pipeline.domain import Attempt, Cause
from pipeline.headline import lines_of
from pipeline.report import Level, write_report
from pipeline.report import source_of as of_run
from pipeline.report.details import tests_in as runs_tests
from pipeline.report.facts import facts_of, limits, listed
from pipeline.report.kept import MOST_FILES
from pipeline.report.level import chosen, others
from pipeline.report.logs import decisive
from pipeline.report.page import LIVE, SCRIPTS, STYLES, asset, script
from pipeline.report.texts import cut
from pipeline.report.texts import lines_of as lines_in
from pipeline.results import load
from pipeline.rundir import RunDir
from tests.command import Passone
from tests.fakes import RESOLVED, UNRESOLVED, World, results_after
from tests.pages import (
    ALL_OUTCOMES,
    HARM,
    LOG,
    STEPS,
    Scores,
    every_ending,
    graded_in_fractions,
    harmful,
    leave,
    write_run,
)

BLOCK = re.compile(r'<script type="application/gzip" id="([\w-]+)">([A-Za-z0-9+/=]*)</script>')


def page_of(run: RunDir, *others: RunDir, target: Path, **options: Any) -> str:
    sources = [of_run(one, load(one), {}) for one in (run, *others)]
    write_report(target, sources, **options)
    return target.read_text(encoding="utf-8")


def blocks_of(page: str) -> dict[str, Any]:
    return {
        name: json.loads(gzip.decompress(base64.b64decode(data)))
        for name, data in BLOCK.findall(page)
    }


@pytest.fixture
def endings(tmp_path: Path) -> RunDir:
    return every_ending(tmp_path / "endings")


# What is in it


def test_the_headline_stands_as_text_without_any_script(endings: RunDir, tmp_path: Path) -> None:
    page = page_of(endings, target=tmp_path / "x.html")
    before = page.partition("<script")[0].partition("<body>")[2]
    text = re.sub(r"<[^>]*>", "", html.unescape(before)).replace("\u00a0", " ")
    said = lines_of(load(endings))
    first = next(line for line in text.splitlines() if said[0] in line)
    for part in ("controls: gold", "temperature 0, top_p 1 on", "moved"):
        assert part in first
    for line in said[1:3]:
        assert line in text
    # With one decimal, all of them.
    assert re.findall(r"(?<![.\d])\d+ ?%", text) == []
    assert "44.4 %" in first


def test_the_policy_names_this_script_and_this_style_and_allows_nothing_else(
    endings: RunDir, tmp_path: Path
) -> None:
    page = page_of(endings, target=tmp_path / "x.html")
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert policy
    assert policy[1].startswith("default-src 'none'; ")
    assert "unsafe" not in policy[1]
    for tag in ("style", "script"):
        [inline] = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy[1]


def test_nothing_outside_is_named_but_what_svg_is_called(endings: RunDir, tmp_path: Path) -> None:
    page = BLOCK.sub("", page_of(endings, target=tmp_path / "x.html"))
    assert set(re.findall(r"https?://[^'\"\s<]+", page)) == {"http://www.w3.org/2000/svg"}
    assert "innerHTML" not in page
    assert "eval(" not in page
    assert not re.search(r"<(?:link|img|iframe|object|embed)\b", page)


def test_every_file_of_the_page_is_used_and_short() -> None:
    place = Path(__file__).parent.parent / "pipeline" / "report" / "assets"
    assert {path.name for path in place.iterdir()} == {*SCRIPTS, LIVE, *STYLES}
    for name in (*SCRIPTS, LIVE):
        assert len(asset([name]).splitlines()) <= 300
    assert "</script" not in script(live=True)
    assert "</style" not in asset(STYLES)


def test_the_same_run_gives_the_same_bytes(endings: RunDir, tmp_path: Path) -> None:
    first = page_of(endings, target=tmp_path / "1.html")
    assert first == page_of(endings, target=tmp_path / "2.html")


def test_every_outcome_and_cause_is_in_the_index(endings: RunDir, tmp_path: Path) -> None:
    index = blocks_of(page_of(endings, target=tmp_path / "x.html"))["index"]
    [run] = index["runs"]
    assert {word for word, number in run["outcomes"].items() if number} == ALL_OUTCOMES
    # A place that is broken is a cause of its own.
    assert set(run["causes"]) == {cause.value for cause in Cause}
    assert len(run["rows"]["level"]) == len(run["ids"]) * run["k"]
    assert sum(run["outcomes"].values()) == len(run["rows"]["level"])


def test_trajectories_of_failures_and_splits_are_inside_and_all_on_request(
    tmp_path: Path,
) -> None:
    world = World(scores={Attempt("a__b-1", 2): [UNRESOLVED]})
    run = write_run(tmp_path / "run", world, "a__b-1", "a__b-2", k=2)
    for id_ in ("a__b-1", "a__b-2"):
        for number in (1, 2):
            leave(run, Attempt(id_, number))
    some = blocks_of(page_of(run, target=tmp_path / "some.html"))
    inside = {name: "steps" in block for name, block in some.items() if name[0] == "a"}
    assert inside == {"a-0-0-1": True, "a-0-0-2": True, "a-0-1-1": False, "a-0-1-2": False}
    assert some["a-0-1-1"]["patch"]
    every = blocks_of(page_of(run, target=tmp_path / "all.html", every=True))
    assert all("steps" in block for name, block in every.items() if name[0] == "a")


def test_what_tells_most_is_chosen_first() -> None:
    world = World(
        scores={Attempt(id_, n): [UNRESOLVED] for id_, n in (("a", 1), ("a", 2), ("b", 3))}
    )
    groups = results_after(world, "a", "b", "c", k=3).groups
    assert [tuple(attempt) for attempt in chosen(groups)] == [
        *(("a", 1), ("b", 3), ("a", 3), ("b", 1), ("a", 2), ("b", 2))
    ]
    assert {attempt.instance_id for attempt in others(groups)} == {"c"}


def test_a_report_stays_within_its_room(tmp_path: Path) -> None:
    scores: Scores = {Attempt(f"a__b-{n}", 1): [UNRESOLVED] for n in range(30)}
    run = write_run(tmp_path / "run", World(scores=scores), *(f"a__b-{n}" for n in range(30)))
    rng = random.Random(0)
    for attempt in scores:
        long = replace(STEPS[0], observation=rng.randbytes(5000).hex())
        leave(run, Attempt(*attempt), steps=[long])
    shell = len(page_of(run, target=tmp_path / "no.html", most_bytes=0))
    source = of_run(run, load(run), {})
    made = write_report(tmp_path / "x.html", [source], most_bytes=400_000)
    assert made.bytes <= shell + 400_000
    assert 0 < made.trajectories < 30
    assert made.trajectories < made.attempts - made.rows_only
    whole = write_report(tmp_path / "y.html", [source])
    assert (whole.trajectories, whole.rows_only) == (30, 0)
    levels = blocks_of((tmp_path / "x.html").read_text())["index"]["runs"][0]["rows"]["level"]
    assert levels.count(Level.WHOLE) == made.trajectories


def test_a_long_text_has_its_two_ends_and_says_what_is_missing() -> None:
    assert cut("short") == "short"
    text = "a" * 10 + "\n" * 3 + "b" * 10
    assert cut(text, head=10, tail=10) == {
        "head": "a" * 10,
        "tail": "b" * 10,
        "left": 3,
        "lines": 3,
    }


def test_a_huge_log_is_read_from_both_ends(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("first\n" + "x" * 9_000_000 + "\nFAILED a::b - why\nlast")
    lines = lines_in(path)
    assert (lines[0], lines[-1]) == ((1, "first"), (-1, "last"))
    assert decisive(path, ["a::b"], ["a::b"])["lines"] == {"a::b": [[-2, "FAILED a::b - why"]]}


LINES = {
    # how a runner says it: a test's name as the grader has it, the line that decides it
    "pytest, short summary": ("t.py::test_a[x y]", "FAILED t.py::test_a[x y] - KeyError: 'a - b'"),
    "pytest, verbose": ("t.py::test_a", "t.py::test_a PASSED                 [ 12%]"),
    "unittest": ("test_a (tests.T.test_a)", "test_a (tests.T.test_a) ... ok"),
    "unittest, a docstring": ("It says what.", "It says what. ... FAIL"),
    "sympy": ("test_a", "test_a ok"),
    "django": ("test_a (m.T)", "test_a (m.T) ... skipped 'no'"),
}


@pytest.mark.parametrize(("name", "line"), LINES.values(), ids=list(LINES))
def test_the_line_that_decided_a_test_is_found(name: str, line: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(f"collecting {name}\n{line}\nthe end\n")
    assert decisive(log, [name], [])["lines"] == {name: [[2, line]]}


def test_what_a_log_says_about_a_failing_test_comes_with_it(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(LOG)
    name = "tests/test_cache.py::test_get[a b]"
    found = decisive(log, [name], [name])
    assert found["lines"][name] == [[10, f"FAILED {name} - KeyError: 'a b'"]]
    assert [text for _, text in found["blocks"][name]][-2] == "E       KeyError: 'a b'"
    other = "test_b (tests.T.test_b)"
    rule = "=" * 70
    log.write_text(f"{rule}\nERROR: {other}\n{'-' * 70}\nValueError: no\n{rule}\nFAIL: else\n")
    block = decisive(log, [other], [other])["blocks"][other]
    assert [text for _, text in block][-1] == "ValueError: no"


def test_steps_that_run_tests_are_told() -> None:
    assert runs_tests(STEPS) == [3]


# What a benchmark without named tests has


def test_rewards_stand_in_the_first_line_in_the_rows_and_side_by_side(tmp_path: Path) -> None:
    runs = [graded_in_fractions(tmp_path / name) for name in ("ours", "theirs")]
    page = page_of(*runs, target=tmp_path / "x.html")
    before = re.sub(r"<[^>]*>", "", page.partition("<script")[0])
    assert before.count("reward 0.700 on average over valid") == 2
    index = blocks_of(page)["index"]
    assert index["runs"][0]["rows"]["reward"] == [0.4, 1.0]
    assert index["runs"][0]["group"] == "category"
    assert [side["mean"] for side in index["comparison"]["rewards"]] == [0.7, 0.7]


def test_tests_that_nobody_named_are_shown_by_what_they_printed(tmp_path: Path) -> None:
    run = graded_in_fractions(tmp_path / "run")
    found = blocks_of(page_of(run, target=tmp_path / "x.html"))["a-0-0-1"]
    assert found["tests"] is None
    assert found["output"] == "three lines of five"
    assert found["numbers"] == {"reward": 0.4, "lines": 3.0}
    assert found["snapshot"] == "passone/snapshot:1"
    assert found["diagnosis"] is None


def test_a_number_that_is_none_keeps_nobody_from_reading_the_rest(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", World(scores={Attempt("a", 1): [UNRESOLVED]}), "a")
    leave(run, Attempt("a", 1), steps=[replace(STEPS[0], seconds=float("nan"))])
    found = blocks_of(page_of(run, target=tmp_path / "x.html"))["a-0-0-1"]
    assert found["steps"][0][3] is None


# Files that were kept


def test_kept_files_are_named_and_a_link_is_not(tmp_path: Path) -> None:
    run = graded_in_fractions(tmp_path / "run")
    beside = run.attempt(Attempt("join", 1), 1)
    (beside / artifacts.FOLDER / "deep").mkdir(parents=True)
    (beside / artifacts.FOLDER / "deep/plot.png").write_bytes(b"png")
    (beside / artifacts.FOLDER / "out").symlink_to("/etc/passwd")
    (beside / artifacts.LIST).write_text('{"left_out": ["/logs/core: too large"]}')
    kept = blocks_of(page_of(run, target=tmp_path / "x.html"))["a-0-0-1"]["kept"]
    assert kept == {
        "files": [
            ["attempts/join/1/try-1/artifacts.json", 39],
            ["scoring/join/1/rewards.json", 50],
            ["scoring/join/1/test_output.txt", 19],
        ],
        "artefacts": [["attempts/join/1/try-1/artifacts/deep/plot.png", 3]],
        "more": 0,
        "left_out": ["/logs/core: too large"],
    }


def test_of_a_tree_of_artefacts_only_so_many_are_named(tmp_path: Path) -> None:
    run = graded_in_fractions(tmp_path / "run")
    beside = run.attempt(Attempt("join", 1), 1) / artifacts.FOLDER
    beside.mkdir()
    for number in range(MOST_FILES + 2):
        (beside / f"{number}.bin").touch()
    kept = blocks_of(page_of(run, target=tmp_path / "x.html"))["a-0-0-1"]["kept"]
    assert (len(kept["artefacts"]), kept["more"], len(kept["files"])) == (MOST_FILES, 2, 2)


def test_only_a_report_that_lies_in_its_run_leads_to_the_files_of_it(tmp_path: Path) -> None:
    run = graded_in_fractions(tmp_path / "run")
    for target, base in ((run.report / "index.html", "../"), (tmp_path / "x.html", "")):
        [found] = blocks_of(page_of(run, target=target))["index"]["runs"]
        assert found["base"] == base


# What was asked


def test_what_was_asked_is_told_in_words() -> None:
    assert limits({"steps": 40, "cost_usd": 0.0, "tokens": 0, "seconds": 600}) == (
        "40 steps, 600 s; none on cost and tokens"
    )
    assert limits({"steps": 0}) == "none"
    assert listed({"temperature": 0.0, "seed": None, "top_p": 0.95}) == "temperature 0, top_p 0.95"


def test_of_predictions_from_elsewhere_no_limits_are_invented(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", World(), "a", agent="predictions", has_control=False)
    facts = dict(facts_of(of_run(run, load(run), {})))
    assert "not recorded" in facts["sampling, limits"]
    assert not facts.keys() & {"sampling", "limits", "sandbox"}


# The command


def test_a_report_is_written_into_its_run_or_where_somebody_says(
    endings: RunDir, passone: Passone
) -> None:
    said = passone("report", endings.root)
    assert said.status == 0, said.err
    assert f"{endings.root}/report/index.html: " in said.out
    # Its dataset is nowhere: no gold, and that is said.
    assert "without issues and gold patches" in said.err
    said = passone("report", endings.root, endings.root, "-o", "two.html")
    assert said.status == 0, said.err
    index = blocks_of(Path("two.html").read_text(encoding="utf-8"))["index"]
    assert len(index["runs"]) == 2
    assert "the same run" in index["comparison"]["sentences"][0]
    said = passone("report", endings.root, endings.root)
    assert f"{endings.root}/report/compared.html: " in said.out


def test_what_cannot_be_reported_is_refused(endings: RunDir, passone: Passone) -> None:
    said = passone("report", "nowhere")
    assert (said.status, "no run is there" in said.err) == (2, True)
    said = passone("report", *[endings.root] * 5)
    assert (said.status, "up to 4" in said.err) == (2, True)
    said = passone("report", endings.root, "-o", "/proc/none/x.html")
    assert (said.status, "cannot be written" in said.err) == (2, True)


def test_runs_that_may_not_be_compared_still_stand_beside_each_other(
    tmp_path: Path, passone: Passone
) -> None:
    ours = write_run(tmp_path / "ours", World(), "a__b-1")
    theirs = write_run(tmp_path / "theirs", World(scores={}), "a__b-1", grader="another 2")
    said = passone("report", ours.root, theirs.root, "-o", "x.html")
    assert said.status == 0
    assert "not compared" in said.err
    assert "refused" in blocks_of(Path("x.html").read_text(encoding="utf-8"))["index"]["comparison"]


def test_a_harmful_name_is_nothing_but_text(tmp_path: Path) -> None:
    page = page_of(harmful(tmp_path / "harm"), target=tmp_path / "x.html")
    assert page.count("<script>") == 1
    assert "<img" not in page
    assert HARM[:40] not in page
    assert len(page) < 2_000_000
    found = blocks_of(page)["a-0-0-1"]
    assert found["texts"][0] == HARM
    assert found["texts"][2]["left"] > 9_900_000
    assert RESOLVED.finding == found["scorings"][0]["finding"]


def test_words_of_outcomes_are_the_same_in_the_page() -> None:
    words = asset(["begin.js"])
    [outcomes] = re.findall(r"const OUTCOMES = \{(.*?)\};", words, re.DOTALL)
    [causes] = re.findall(r"const CAUSES = \{(.*?)\};", words, re.DOTALL)
    told, broken = (set(re.findall(r"^  (\w+): '", t, re.MULTILINE)) for t in (outcomes, causes))
    assert broken == {cause.value for cause in Cause}
    drawn = set(re.findall(r"^  (\w+): 'M", asset(["charts.js"]), re.MULTILINE))
    toned = set(re.findall(r"\.o-(\w+)", asset(["parts.css"])))
    assert told == drawn == toned == ALL_OUTCOMES


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_can_be_read_on_every_colour(scheme: str) -> None:
    """WCAG 2.2, 1.4.3: a contrast of 4.5."""
    light, _, rest = asset(["look.css"]).partition("@media screen and (prefers-color-scheme: dark)")
    part = light if scheme == "light" else rest.partition("* {")[0]
    colour = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", part))
    solid = (
        "resolved",
        "unresolved",
        "rejected",
        "nothing",
        "contested",
        "timeout",
        "norun",
        "died",
    )
    pairs = [("on", tone) for tone in solid]
    pairs += [(ink, place) for ink in ("ink", "dim", "link") for place in ("page", "card", "soft")]
    pairs += [("addink", "add"), ("delink", "del"), ("ink", "mark"), ("ink", "now")]
    assert [two for two in pairs if contrast(*(colour[name] for name in two)) < 4.5] == []


def contrast(first: str, second: str) -> float:
    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        red, green, blue = (
            part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
        )
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    dark, bright = sorted((luminance(first), luminance(second)))
    return (bright + 0.05) / (dark + 0.05)
