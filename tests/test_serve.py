"""`passone serve`: the report over real HTTP and in a real browser, while a run goes on."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pipeline.cli.serve import Reading, listening
from pipeline.cli.watch import line_of
from pipeline.domain import Attempt
from pipeline.headline import lines_of
from pipeline.ledger import Ledger
from pipeline.report import Source, source_of
from pipeline.report.serving import HEADERS, REST_SECONDS, Ended, Served, server_of
from pipeline.results import load
from pipeline.rundir import RunDir
from tests.browser import chromium, needed, sync
from tests.command import Passone
from tests.fakes import UNRESOLVED, World, drive, make_plan
from tests.pages import STEPS, Scores, leave, write_run

TOKEN = "a-token-that-a-test-knows"
COMMAND = (sys.executable, "-c", "from pipeline.cli import main; main()")
PENDING = [f"owner__repo-{number}" for number in range(3, 60)]


def begun(place: Path, *pending: str) -> RunDir:
    """Two instances with two attempts each, one of them split; others are planned."""
    scores: Scores = {("owner__repo-1", 2): [UNRESOLVED]}
    world = World(scores=scores)
    run = write_run(place, world, "owner__repo-1", "owner__repo-2", k=2, pending=pending)
    for number in (1, 2):
        leave(run, Attempt("owner__repo-1", number), steps=[*STEPS] * 12)
    return run


def go_on(run: RunDir, *ids: str) -> None:
    """Some more of a run, as who drives it appends it."""
    with Ledger(run.ledger) as ledger:
        drive(make_plan(*ids, k=2), ledger, World())


@dataclass(slots=True)
class Desk:
    """A served page: how often its runs were read, and by which clock."""

    served: Served
    reads: list[float] = field(default_factory=list)
    now: list[float] = field(default_factory=lambda: [0.0])


def desk(*runs: RunDir, real: bool = False) -> Desk:
    def read() -> list[Source]:
        made.reads.append(time.monotonic())
        return [source_of(run, load(run), {}) for run in runs]

    def clock() -> float:
        return time.monotonic() if real else made.now[0]

    made = Desk(Served(runs, read, words=line_of, clock=clock))
    return made


@contextmanager
def serving(served: Served) -> Iterator[int]:
    """The port; as the command does it, but in a thread."""
    with listening(0) as heard:
        port = heard.getsockname()[1]
        server = server_of(served, TOKEN)
        thread = threading.Thread(target=server.run, args=([heard],), daemon=True)
        thread.start()
        try:
            yield port
        finally:
            server.should_exit = True
            thread.join(20)
            assert not thread.is_alive()


def get(
    port: int, path: str, *, host: str = "", method: str = "GET"
) -> tuple[http.client.HTTPResponse, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, path, headers={"Host": host or f"127.0.0.1:{port}"})
        answer = connection.getresponse()
        return answer, answer.read().decode()
    finally:
        connection.close()


def state_at(port: int) -> dict[str, Any]:
    answer, text = get(port, f"/{TOKEN}/state")
    assert answer.status == 200
    found: dict[str, Any] = json.loads(text)
    return found


def content_of(root: Path) -> dict[str, bytes]:
    """But for what SQLite leaves of a log where its last reader may not write."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.name.endswith(("-wal", "-shm"))
    }


# Over HTTP


def test_the_page_is_the_report_and_may_ask_its_own_server_alone(tmp_path: Path) -> None:
    run = begun(tmp_path / "run", "owner__repo-3")
    before = content_of(run.root)
    with serving(desk(run).served) as port:
        answer, page = get(port, f"/{TOKEN}")
        state = state_at(port)
        assert get(port, f"/{TOKEN}/")[1] == page
    assert answer.status == 200
    assert "text/html" in answer.headers["content-type"]
    assert f'data-version="{state["version"]}"' in page
    assert "connect-src 'self'; base-uri 'none'" in page
    assert "It asks its own server" in page
    for part in lines_of(load(run))[0].split(" · ")[:2]:
        assert part in page
    # Its size, and nothing of where it is kept.
    assert state["said"] == ["4 of 6 over · 3 resolved · 1 unresolved"]
    assert state["driven"] == [False]
    assert (state["waiting"], state["problem"]) == (False, "")
    assert content_of(run.root) == before


def test_who_does_not_know_the_token_learns_nothing(tmp_path: Path) -> None:
    made = desk(begun(tmp_path / "run"))
    with serving(made.served) as port:
        wrong = [TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "%00", "é".encode().hex(), "%C3%A9"]
        paths = ["/", "/state", "/favicon.ico", *(f"/{one}" for one in wrong)]
        said = {get(port, path)[1] for path in [*paths, *(f"/{one}/state" for one in wrong)]}
        assert said == {"Not Found"}
        assert {get(port, path)[0].status for path in paths} == {404}
        assert get(port, f"/{TOKEN}/../{TOKEN}")[0].status == 404
    assert made.reads == []


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:9", 200),
        ("127.0.0.1", 200),
        ("evil.example", 400),
        ("127.0.0.1.evil.example:80", 400),
        ("10.0.0.1", 400),
    ],
)
def test_another_name_that_leads_here_is_refused(tmp_path: Path, host: str, status: int) -> None:
    with serving(desk(begun(tmp_path / "run")).served) as port:
        for path in (f"/{TOKEN}", f"/{TOKEN}/state"):
            answer, text = get(port, path, host=host)
            assert answer.status == status
            assert ("owner__repo" in text or "over" in text) == (status == 200)


def test_no_answer_is_kept_framed_or_told_to_others(tmp_path: Path) -> None:
    with serving(desk(begun(tmp_path / "run")).served) as port:
        for path in (f"/{TOKEN}", f"/{TOKEN}/state", "/none"):
            answer, _ = get(port, path)
            for name, value in HEADERS.items():
                assert answer.headers.get_all(name) == [value]
            assert answer.headers["server"] is None
        assert get(port, f"/{TOKEN}", method="POST")[0].status == 405


def test_a_page_is_made_again_only_where_its_run_has_changed(tmp_path: Path) -> None:
    run = begun(tmp_path / "run", "owner__repo-3", "owner__repo-4")
    made = desk(run)
    first = made.served.page()
    made.now[0] += 100
    assert made.served.page() == first
    assert made.served.state()["waiting"] is False
    assert len(made.reads) == 1
    go_on(run, "owner__repo-3")
    # Many ask, and a run is looked at once a second.
    assert made.served.state()["waiting"] is False
    made.now[0] += 1
    second = made.served.page()
    assert second != first
    assert len(made.reads) == 2
    version = made.served.state()["version"]
    assert version in second.decode()
    go_on(run, "owner__repo-4")
    made.now[0] += REST_SECONDS / 2
    assert made.served.page() == second
    # Not yet: the newest page that is ready is still this one.
    assert made.served.state() | {"said": []} == {
        **{"version": version, "waiting": True, "problem": ""},
        **{"said": [], "driven": [False]},
    }
    made.now[0] += REST_SECONDS
    assert made.served.page() != second
    assert len(made.reads) == 3


def test_who_asks_for_the_state_has_the_newer_page_made_ready(tmp_path: Path) -> None:
    run = begun(tmp_path / "run", "owner__repo-3")
    made = desk(run)
    with serving(made.served) as port:
        first = made.served.page()
        go_on(run, "owner__repo-3")
        made.now[0] += 60
        before = state_at(port)
        assert (before["waiting"], before["said"][0][:6]) == (True, "6 of 6")
        deadline = time.monotonic() + 60
        while (after := state_at(port))["waiting"]:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert after["version"] != before["version"]
        page = get(port, f"/{TOKEN}")[1]
        assert page != first.decode()
        assert after["version"] in page
        assert len(made.reads) == 2


def test_an_audit_of_a_run_that_is_over_is_news(tmp_path: Path) -> None:
    run = begun(tmp_path / "run")
    made = desk(run)
    first = made.served.page()
    run.write(run.report / "audit.json", json.dumps({"signs": []}))
    made.now[0] += 60
    assert made.served.page() != first


def test_a_run_without_any_attempt_is_a_page(tmp_path: Path) -> None:
    run = begun(tmp_path / "run")
    run.ledger.unlink()
    served = Served([run], Reading([run.root], [run]).now, words=line_of)
    with serving(served) as port:
        answer, page = get(port, f"/{TOKEN}")
        assert answer.status == 200
        assert "partial (4 pending)" in page
        assert state_at(port)["said"] == ["0 of 4 over"]


def test_a_run_that_is_taken_away_is_said_to_be_gone_and_comes_back(tmp_path: Path) -> None:
    run = begun(tmp_path / "run")
    made = desk(run)
    with serving(made.served) as port:
        assert get(port, f"/{TOKEN}")[0].status == 200
        run.root.rename(tmp_path / "elsewhere")
        made.now[0] += 60
        state = state_at(port)
        assert f"{run.root}: no run is there" in state["problem"]
        answer, page = get(port, f"/{TOKEN}")
        assert answer.status == 503
        assert f"{run.root}: no run is there" in page
        assert 'http-equiv="refresh"' in page
        assert "script-src" in page
        (tmp_path / "elsewhere").rename(run.root)
        made.now[0] += 60
        assert get(port, f"/{TOKEN}")[0].status == 200
        assert state_at(port)["problem"] == ""


def test_a_ledger_that_cannot_be_read_is_said_and_the_server_goes_on(tmp_path: Path) -> None:
    run = begun(tmp_path / "run")
    made = desk(run)
    with serving(made.served) as port:
        run.ledger.write_bytes(b"no database" * 99)
        answer, page = get(port, f"/{TOKEN}")
        assert answer.status == 503
        assert "ledger.sqlite" in page
        assert "ledger.sqlite" in state_at(port)["problem"]


def test_a_page_that_is_being_made_is_given_up_when_the_server_ends(tmp_path: Path) -> None:
    made = desk(begun(tmp_path / "run"))
    made.served.ended = lambda: True
    with pytest.raises(Ended):
        made.served.page()


def test_what_was_diagnosed_once_is_not_diagnosed_again(tmp_path: Path) -> None:
    run = begun(tmp_path / "run")
    key = Attempt("owner__repo-1", 2)
    first = source_of(run, load(run), {})
    first.modes[key] = {"mode": "wrong_place", "evidence": "kept"}
    assert source_of(run, load(run), {}, first).modes == first.modes
    assert source_of(run, load(run), {}).modes == {}


# The command


@contextmanager
def command(*arguments: object, **variables: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """What runs, and the address that it printed."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent), **variables}
    with subprocess.Popen(
        [*COMMAND, "serve", *map(str, arguments)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)/([\w-]{32,})")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_it_prints_its_address_once_and_ends_as_it_is_told(
    tmp_path: Path, number: signal.Signals
) -> None:
    run = begun(tmp_path / "run")
    far = "10.0.0.9 51022 10.0.0.7 2222"
    with command(run.root, SSH_CONNECTION=far) as (process, url):
        found = ADDRESS.fullmatch(url)
        assert found
        port, token = int(found[1]), found[2]
        assert get(port, f"/{token}")[0].status == 200
        assert get(port, f"/{token[:-1]}")[0].status == 404
        # On loopback, and nowhere else.
        with socket.socket() as other:
            other.bind(("127.0.0.2", port))
        began = time.monotonic()
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
        assert (process.returncode, out) == (0, "")
        assert time.monotonic() - began < 20
    assert f"ssh -N -L {port}:127.0.0.1:{port} -p 2222 " in err
    assert token not in err
    assert "Traceback" not in err


def test_a_bundle_is_served_and_its_copy_goes_with_the_server(
    tmp_path: Path, passone: Passone
) -> None:
    id_ = "passone__almanac-27"
    Path("v.json").write_text(json.dumps({"run1": {id_: 1}}))
    prediction = {"instance_id": id_, "model_name_or_path": "m", "model_patch": "diff"}
    Path("p.jsonl").write_text(json.dumps(prediction))
    arguments = ("--dataset", "demo", "--verdicts", "v.json", "--run", "r")
    for words in (("score", "p.jsonl", *arguments), ("bundle", "logs/r", "-o", "run.passone")):
        said = passone(*words)
        assert said.status == 0, said.err
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with command("run.passone", "logs/r", TMPDIR=str(scratch)) as (process, url):
        found = ADDRESS.fullmatch(url)
        assert found
        page = get(int(found[1]), f"/{found[2]}")[1]
        assert page.count('<section class="headline">') == 2
        assert list(scratch.iterdir())
        process.terminate()
        assert process.wait(30) == 0
    assert list(scratch.iterdir()) == []


def test_what_cannot_be_served_is_refused(passone: Passone, tmp_path: Path) -> None:
    said = passone("serve", "nowhere")
    assert (said.status, "no run is there" in said.err) == (2, True)
    run = begun(tmp_path / "run")
    said = passone("serve", *[run.root] * 5)
    assert (said.status, "up to 4" in said.err) == (2, True)
    with listening(0) as taken:
        port = taken.getsockname()[1]
        said = passone("serve", run.root, "--port", port)
    assert (said.status, said.out) == (2, "")
    assert f"--port {port}: cannot be listened on" in said.err
    assert "leave it out for a free one" in said.err
    assert passone("serve", run.root, "--port", "70000").status == 2


def test_who_drives_the_run_goes_on_undisturbed(tmp_path: Path) -> None:
    run = begun(tmp_path / "run", "owner__repo-3", "owner__repo-4")
    with run.held(), command(run.root) as (process, url):
        found = ADDRESS.fullmatch(url)
        assert found
        port, token = int(found[1]), found[2]
        assert f"still going, pid {os.getpid()}" in get(port, f"/{token}")[1]
        before = content_of(run.root)
        for id_ in ("owner__repo-3", "owner__repo-4"):
            go_on(run, id_)
            for _ in range(10):
                assert json.loads(get(port, f"/{token}/state")[1])["driven"] == [True]
        assert run.driver == str(os.getpid())
        after = content_of(run.root)
        assert after.keys() == before.keys()
        process.kill()
    assert load(run).summary()["pending"] == 0


# In a browser


@dataclass(slots=True)
class Tab:
    """One page of a served run, with all that it asked for and said."""

    page: Any
    run: RunDir
    url: str
    asked: list[str] = field(default_factory=list)
    trouble: list[str] = field(default_factory=list)

    @property
    def loads(self) -> int:
        return self.asked.count(self.url)

    def go(self, place: str = "") -> Any:
        self.page.goto(self.url + place)
        self.page.wait_for_selector("html[data-ready]")
        return self.page


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture
def tab(browser: Any, tmp_path: Path) -> Iterator[Tab]:
    run = begun(tmp_path / "run", *PENDING)
    with run.held(), serving(desk(run, real=True).served) as port:
        context = browser.new_context(viewport={"width": 1000, "height": 600})
        page = context.new_page()
        found = Tab(page, run, f"http://127.0.0.1:{port}/{TOKEN}")
        page.set_default_timeout(40_000)
        page.on("request", lambda request: found.asked.append(request.url.partition("#")[0]))
        page.on("pageerror", lambda error: found.trouble.append(str(error)))
        page.on("console", lambda message: found.trouble.append(message.text))
        yield found
        context.close()
        assert found.trouble == []
        assert set(found.asked) <= {found.url, f"{found.url}/state"}


@needed
def test_an_overview_that_nobody_touches_follows_and_stays_as_it_was(tab: Tab) -> None:
    page, sees = tab.go(), sync.expect
    sees(page.locator("#live .going")).to_have_text(re.compile("^4 of 118 over · 3 resolved"))
    page.locator(".filters .search").fill("owner")
    page.locator('select[aria-label="Only one outcome"]').select_option("resolved")
    page.locator('th[data-name="attempt"] button').click()
    sees(page.locator(".count")).to_have_text("3 of 118 attempts")
    # One who types is not interrupted.
    page.locator(".filters .search").focus()
    go_on(tab.run, "owner__repo-3")
    sees(page.locator("#live .newer")).to_be_visible()
    page.wait_for_timeout(6000)
    assert tab.loads == 1
    page.locator(".filters .search").blur()
    sees(page.locator(".count")).to_have_text("5 of 118 attempts")
    assert tab.loads == 2
    sees(page.locator('select[aria-label="Only one outcome"]')).to_have_value("resolved")
    sees(page.locator(".filters .search")).to_have_value("owner")
    assert page.locator('th[data-name="attempt"]').get_attribute("aria-sort") == "descending"
    sees(page.locator("#live .newer")).to_be_hidden()
    # How far down it was: what stands at the top does so again.
    page.locator("#facts").scroll_into_view_if_needed()
    height = page.evaluate("window.scrollY")
    assert height > 300
    go_on(tab.run, "owner__repo-4")
    sees(page.locator(".count")).to_have_text("7 of 118 attempts")
    # Two rows more stand in the table above it.
    assert abs(page.evaluate("window.scrollY") - height) < 120
    sees(page.locator("#facts")).to_be_in_viewport()


@needed
def test_a_reader_of_a_trajectory_is_told_and_finds_his_place_again(tab: Tab) -> None:
    page, sees = tab.go("#/run/1/owner__repo-1/2"), sync.expect
    page.locator("#step-30 > summary").click()
    page.locator("#step-31 > summary").click()
    page.locator("#trajectory .search").fill("needle")
    sees(page.locator("#step-31 .body")).to_be_visible()
    page.locator("#step-31").evaluate("(step) => step.scrollIntoView()")
    page.locator("#trajectory .search").blur()
    place = page.locator("#step-31").bounding_box()["y"]
    go_on(tab.run, "owner__repo-3")
    sees(page.locator("#live .newer")).to_be_visible()
    sees(page.locator('#live [role="status"]')).to_have_text(re.compile("new results; press r"))
    page.wait_for_timeout(6000)
    assert tab.loads == 1
    page.keyboard.press("r")
    sees(page.locator("#live .going")).to_have_text(re.compile("^6 of 118 over"))
    page.wait_for_selector("html[data-ready]")
    assert tab.loads == 2
    assert page.url.endswith("#/run/1/owner__repo-1/2")
    opened = page.locator("details.step[open]").evaluate_all("(all) => all.map((one) => one.id)")
    assert opened == ["step-30", "step-31"]
    sees(page.locator("#trajectory .search")).to_have_value("needle")
    assert abs(page.locator("#step-31").bounding_box()["y"] - place) < 3
    # From there the overview is as new.
    page.keyboard.press("u")
    sees(page.locator(".count")).to_have_text("118 of 118 attempts")
    sees(page.locator("#live .newer")).to_be_hidden()


@needed
def test_who_does_not_want_to_follow_is_left_alone(tab: Tab) -> None:
    page, sees = tab.go(), sync.expect
    page.locator("#live .follow input").uncheck()
    go_on(tab.run, "owner__repo-3")
    sees(page.locator("#live .newer")).to_be_visible()
    page.wait_for_timeout(8000)
    assert tab.loads == 1
    page.locator("#live .newer").click()
    sees(page.locator("#live .going")).to_have_text(re.compile("^6 of 118 over"))
    sees(page.locator("#live .follow input")).not_to_be_checked()
    assert tab.loads == 2


@needed
def test_a_run_that_is_taken_away_is_said_on_the_page(tab: Tab) -> None:
    page, sees = tab.go(), sync.expect
    elsewhere = tab.run.root.with_name("elsewhere")
    shutil.move(tab.run.root, elsewhere)
    sees(page.locator("#live .wrong")).to_contain_text("no run is there")
    shutil.move(elsewhere, tab.run.root)
    sees(page.locator("#live .wrong")).to_have_count(0)


@needed
def test_nobody_is_asked_any_more_once_nobody_drives_it(browser: Any, tmp_path: Path) -> None:
    run = begun(tmp_path / "run")
    page = browser.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    with serving(desk(run, real=True).served) as port:
        page.goto(f"http://127.0.0.1:{port}/{TOKEN}")
        sync.expect(page.locator("#live")).to_contain_text("nobody drives it")
        sync.expect(page.locator("#live .follow")).to_be_hidden()
        page.wait_for_timeout(7000)
        assert len(asked) == 2
    # The server has ended: who comes back to the tab learns it.
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    sync.expect(page.locator("#live .wrong")).to_contain_text("passone serve has ended")
    page.close()
