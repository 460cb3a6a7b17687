"""The page of `passone report` in a real browser: what a person clicks, types and sees."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from pipeline.domain import Attempt
from pipeline.report import source_of, write_report
from pipeline.results import load
from pipeline.rundir import RunDir
from tests.browser import chromium, needed, sync
from tests.fakes import UNRESOLVED, World, instance
from tests.pages import (
    DIFF,
    HARM,
    Scores,
    every_ending,
    graded,
    graded_in_fractions,
    harmful,
    leave,
    write_run,
)

sees = sync.expect
pytestmark = needed
ROW = "table.attempts tbody tr"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One run with every ending, two side by side, one that means harm, and terminal tasks."""
    root = tmp_path_factory.mktemp("pages")

    def split(name: str, *failed: int) -> RunDir:
        scores: Scores = {
            Attempt(f"owner__repo-{n}", number): [graded(UNRESOLVED)]
            for n in failed
            for number in (1, 2)
        }
        ids = [f"owner__repo-{n}" for n in range(8)]
        run = write_run(root / name, World(scores=scores), *ids, k=3)
        for attempt in scores:
            leave(run, Attempt(*attempt), tries=2)
        return run

    gold = {"owner__repo-0": instance("owner__repo-0", patch=DIFF, test_patch=DIFF)}
    written = {}
    for name, runs in (
        ("endings", [every_ending(root / "endings")]),
        ("two", [split("ours", 0, 1), split("theirs", 1, 2)]),
        ("harm", [harmful(root / "harm")]),
        ("terminal", [terminal(root / "terminal")]),
    ):
        written[name] = runs[0].report / f"{name}.html"
        write_report(written[name], [source_of(run, load(run), gold) for run in runs])
    return written


def terminal(place: Path) -> RunDir:
    """With artefacts beside a trajectory, one of which would run in a browser."""
    run = graded_in_fractions(place)
    beside = run.attempt(Attempt("join", 1), 1) / "artifacts"
    beside.mkdir(parents=True)
    (beside.parent / "artifacts.json").write_text(json.dumps({"left_out": [f"{HARM}: a link"]}))
    for name in ("a plot#1.png", "page.html", "x.png.svg"):
        (beside / name).write_text(HARM.encode("utf-8", "replace").decode(), encoding="utf-8")
    return run


class Sight:
    """One page, with all that it said and asked for."""

    def __init__(self, browser: Any, path: Path, **context: Any) -> None:
        self.context = browser.new_context(**context)
        self.page = self.context.new_page()
        self.page.set_default_timeout(20_000)
        self.trouble: list[str] = []
        self.page.on("console", lambda message: self.trouble.append(message.text))
        self.page.on("pageerror", lambda error: self.trouble.append(str(error)))
        self.page.on("dialog", lambda dialog: self.trouble.append(dialog.message))
        self.page.on("request", self.asked)
        self.path = path

    def asked(self, request: Any) -> None:
        if request.url.partition("#")[0] != self.path.as_uri():
            self.trouble.append(request.url)

    def go(self, place: str = "") -> Any:
        self.page.goto(self.path.as_uri() + place)
        self.page.wait_for_selector("html[data-ready]")
        return self.page


@pytest.fixture
def sight(browser: Any, pages: dict[str, Path]) -> Iterator[Any]:
    seen: list[Sight] = []

    def look(name: str, **context: Any) -> Sight:
        seen.append(Sight(browser, pages[name], **context))
        return seen[-1]

    yield look
    for one in seen:
        one.context.close()
        assert one.trouble == []


def test_a_cell_of_the_heat_map_opens_its_attempt_and_back_is_as_it_was(sight: Any) -> None:
    page = sight("endings").go()
    sees(page.locator(".heat rect.cell")).to_have_count(30)
    page.locator('.heat rect[data-at="1"]').hover()
    sees(page.locator(".tip")).to_contain_text("core__one-1, attempt 2: unresolved")
    page.locator('.heat rect[data-at="1"]').click()
    page.wait_for_selector("h1:has-text('core__one-1 #2')")
    assert (
        page.locator("#tests .fail code").first.inner_text() == "tests/test_cache.py::test_get[a b]"
    )
    sees(page.locator("#tests .log").first).to_contain_text("KeyError: 'a b'")
    sees(page.locator("#patch tr.add")).to_have_count(0)
    page.go_back()
    page.wait_for_selector(".heatmap")
    sees(page.locator(ROW)).to_have_count(30)


def test_filters_and_sorting_choose_rows(sight: Any) -> None:
    page = sight("endings").go()
    page.get_by_label("Only one blame").select_option("ambiguous")
    sees(page.locator(".count")).to_contain_text("1 of 30 attempts")
    page.get_by_label("Search attempts").fill("no such thing")
    sees(page.locator(ROW)).to_have_count(0)
    page.get_by_role("button", name="Clear").click()
    sees(page.locator(ROW)).to_have_count(30)
    page.get_by_role("button", name="tries", exact=True).click()
    assert page.locator('th[aria-sort="descending"]').inner_text().strip() == "tries"
    at = page.locator(".attempts thead th").all_inner_texts().index("tries")
    first = page.locator(ROW).first.locator("th, td")
    most = int(first.nth(at).inner_text())
    page.get_by_role("button", name="tries", exact=True).click()
    assert int(first.nth(at).inner_text()) < most
    page.locator("#blame .bars button", has_text="endpoint").click()
    sees(page.locator(ROW)).to_have_count(1)
    sees(page.locator(f"{ROW} .badge")).to_have_text("infra (endpoint)")


def test_all_of_it_works_by_keyboard(sight: Any) -> None:
    page = sight("two").go("#/run/1")
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.classList.contains('heatmap')"):
            break
    page.keyboard.press("ArrowDown")
    sees(page.locator("p[aria-live].sr")).to_contain_text("owner__repo-1, attempt 1")
    page.keyboard.press("Enter")
    page.wait_for_selector("h1:has-text('owner__repo-1 #1')")
    page.keyboard.press("[")
    page.wait_for_selector("h1:has-text('owner__repo-0 #3')")
    page.keyboard.press("[")
    page.keyboard.press("[")
    page.wait_for_selector("h1:has-text('owner__repo-0 #1')")
    page.keyboard.press("g")
    sees(page.locator("#patch h3")).to_have_text("gold")
    page.keyboard.press("t")
    assert page.locator("#step-3").get_attribute("open") is not None
    page.keyboard.press("/")
    page.keyboard.type("NEEDLE")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    sees(page.locator("#trajectory [role=status]")).to_have_text("2 of 3")
    sees(page.locator("mark.now")).to_have_count(1)
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    sees(page.locator("dialog[open]")).to_have_count(1)
    page.keyboard.press("Escape")
    sees(page.locator("dialog")).to_have_count(0)
    page.keyboard.press("u")
    page.wait_for_selector(".heatmap")


def test_an_attempt_shows_its_steps_tries_and_requests(sight: Any) -> None:
    page = sight("two").go("#/run/1/owner__repo-1/1")
    sees(page.locator(".step")).to_have_count(4)
    assert page.locator(".step .flag").all_inner_texts() == ["edits", "runs tests", "submits"]
    page.locator("#step-2 summary").click()
    assert page.locator("#step-2 .body").inner_text().count("sed -i") == 1
    page.get_by_role("button", name="First test run").click()
    sees(page.locator("#step-3 .body")).to_be_visible()
    page.locator("#tries summary").first.click()
    sees(page.locator("#tries tbody tr")).to_have_count(3)
    sees(page.locator(".times .sent")).to_have_count(3)
    sees(page.locator("#patch").get_by_role("button")).to_have_count(0)


def test_a_terminal_task_shows_what_it_earned_and_what_its_tests_printed(sight: Any) -> None:
    page = sight("terminal").go()
    sees(page.locator("figcaption", has_text="Reward")).to_contain_text("a fraction at 1")
    heads = page.locator(".attempts thead th").all_inner_texts()
    assert (
        page.locator(ROW).first.locator("th, td").nth(heads.index("reward")).inner_text() == "0.4"
    )
    assert not {"F2P", "place"} & set(heads)
    # One attempt is no vote, and a long name is whole.
    sees(page.locator(".heat circle")).to_have_count(0)
    sees(page.locator(".heat text").last).to_have_text("a-task-with-a-long-name")
    page.locator('.heat rect[data-at="0"]').hover()
    sees(page.locator(".tip")).to_contain_text("reward 0.4")
    page.locator('.heat rect[data-at="0"]').click()
    sees(page.locator("#tests")).to_contain_text("Reward 0.4, lines 3.")
    sees(page.locator("#tests .log")).to_have_text("three lines of five")
    sees(page.locator("#patch h2")).to_have_text("Submission")
    sees(page.locator(".chips")).to_contain_text("waiting for the endpoint")


def test_an_artefact_is_linked_unless_a_browser_would_run_it(sight: Any) -> None:
    seen = sight("terminal")
    page = seen.go("#/run/1/join/1")
    sees(page.locator("#kept li")).to_have_count(7)
    sees(page.locator("#kept")).to_contain_text("a link")
    links = page.locator("#kept a")
    assert [link.inner_text().rpartition("/")[2] for link in links.all()] == [
        *("a plot#1.png", "artifacts.json", "rewards.json", "test_output.txt")
    ]
    for link in links.all():
        assert Path(unquote(urlsplit(link.evaluate("node => node.href")).path)).is_file()


def test_two_runs_stand_side_by_side_with_their_test(sight: Any) -> None:
    page = sight("two").go()
    sees(page.locator(".headline:visible")).to_have_count(2)
    sees(page.locator(".sentence")).to_contain_text("flips are the least")
    sees(page.locator("#told > .scroll tbody tr")).to_have_count(2)
    page.locator("#told summary").click()
    page.locator("#told a", has_text="owner__repo-1").click()
    page.wait_for_selector(".columns")
    sees(page.locator(".columns section")).to_have_count(2)
    assert "null" not in page.locator(".columns").inner_text()
    page.locator(".columns section").nth(1).locator(".siblings button").nth(2).click()
    sees(page.locator(".columns section").nth(1).locator(".badge")).to_have_text("resolved")


def test_what_a_model_says_is_shown_and_does_nothing(sight: Any) -> None:
    page = sight("harm").go("#/run/1/evil__one-1/1")
    page.keyboard.press("o")
    shown = page.locator("#trajectory").inner_text()
    for part in (
        "<script>window.hacked = 1</script></script>",
        "ESC[31mredESC[0m",
        "U+202E",
        "NUL",
    ):
        assert part in shown
    assert "characters in" in shown or "left out of this report" in shown
    for place in ("#/run/1/evil__two-2/1", "#/run/1", "#/run/1/%3Cimg%20src=x%3E/1"):
        page.evaluate("(place) => { location.hash = place; }", place)
        page.wait_for_timeout(150)
    assert page.evaluate("window.hacked") is None
    assert page.evaluate("document.querySelectorAll('#app script, img, iframe').length") == 0
    assert HARM[:20] in page.locator(".headline").first.inner_text()


def test_it_is_dark_where_that_is_wished_and_fits_a_phone(sight: Any) -> None:
    colour = "getComputedStyle(document.body).backgroundColor"
    light = sight("endings").go().evaluate(colour)
    phone = sight("endings", color_scheme="dark", viewport={"width": 400, "height": 800})
    page = phone.go()
    assert page.evaluate(colour) != light
    for place in ("#/run/1", "#/run/1/core__one-1/2"):
        page.evaluate("(place) => { location.hash = place; }", place)
        page.wait_for_timeout(150)
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
    page = sight("two", viewport={"width": 400, "height": 800}).go()
    for place in ("#/compare", "#/compare/owner__repo-1"):
        page.evaluate("(place) => { location.hash = place; }", place)
        page.wait_for_timeout(150)
        assert page.evaluate("document.documentElement.scrollWidth") <= 400


def test_no_name_of_the_heat_map_and_no_table_is_cut_off(sight: Any) -> None:
    page = sight("endings", viewport={"width": 1280, "height": 900}).go()
    wide = "(node) => node.scrollWidth - node.clientWidth"
    assert page.locator(".scroll").first.evaluate(wide) <= 0
    assert page.locator(".heatmap figure").first.evaluate(wide) <= 0
    assert "null" not in page.locator("#app").inner_text()


def test_it_prints(sight: Any, tmp_path: Path) -> None:
    page = sight("endings").go("#/run/1/core__one-1/2")
    assert page.pdf(path=tmp_path / "x.pdf")[:5] == b"%PDF-"
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.locator("#top").is_visible()
    assert page.locator("#tests").is_visible()


def test_a_browser_that_cannot_unpack_says_so_and_keeps_the_headline(sight: Any) -> None:
    old = sight("endings")
    old.page.add_init_script("delete window.DecompressionStream")
    old.page.goto(old.path.as_uri())
    assert old.page.locator("#cannot").is_visible()
    assert "pass@1" in old.page.locator(".first").inner_text()


def test_the_headline_and_a_notice_are_left_without_scripts(sight: Any) -> None:
    page = sight("endings", java_script_enabled=False).page
    page.goto(sight("endings").path.as_uri())
    sees(page.locator(".first")).to_contain_text("pass@1")
    assert page.locator("noscript").inner_text()


def test_a_reader_finds_landmarks_and_names(sight: Any) -> None:
    page = sight("endings").go()
    for role in ("banner", "main", "contentinfo", "navigation"):
        assert page.get_by_role(role).count() >= 1
    unnamed = page.evaluate(
        "[...document.querySelectorAll('button, input, select, a')].filter((node) =>"
        " !(node.textContent.trim() || node.getAttribute('aria-label'))).length"
    )
    assert unnamed == 0
