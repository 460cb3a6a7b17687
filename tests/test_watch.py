"""`passone watch` says how a run goes that somebody else drives, and leaves it as it is."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from pipeline.cli.watch import drawn, line_of, lines, span_of
from pipeline.domain import Attempt, Cause
from pipeline.ledger import Kind, Ledger
from pipeline.outcomes import UserError
from pipeline.progress import Progress, Seen
from pipeline.rundir import RunDir
from tests.command import Passone
from tests.fakes import SUBMITTED, UNRESOLVED, World, drive, fault, make_plan, plan_json

SEEN = Seen(
    name="mini-10x3",
    seq=40,
    about="10 × 3, agent miniswe, m-1",
    driver="4711",
    total=30,
    over=12,
    outcomes={"resolved": 7, "unresolved": 3, "infra": 2},
    causes={"endpoint": 2},
    valid=(0.7, 0.4, 0.9),
    low=7 / 30,
    high=27 / 30,
    usage=SUBMITTED.usage,
    faults=3,
    endpoint_faults=2,
    in_flight=[(f"astropy__astropy-{number}-2-1", 61.0 + number) for number in range(32)],
    scoring=1,
    endpoint="the endpoint is down (503): the run pauses",
    endpoint_down=True,
    left_seconds=(240.0, 420.0),
)


def shown(seen: Seen, width: int) -> str:
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=False).print(drawn(seen))
    return out.getvalue()


@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_it_fits_into_a_terminal_and_says_all(width: int) -> None:
    text = shown(SEEN, width)
    assert all(len(line) <= width for line in text.splitlines())
    assert len(text.splitlines()) <= (24 if width < 80 else 16)
    flat = " ".join(text.split())
    for words in (
        "12 of 30 over",
        "2 infra (2 endpoint)",
        "4 min to 7 min left",
        "1:01",
        "26 more",
    ):
        assert words in flat
    assert "70.0 % over valid [40.0–90.0]" in flat
    assert "from 23.3 % to 90.0 %" in flat
    assert "endpoint is down" in flat


def test_a_line_says_the_same() -> None:
    assert line_of(SEEN) == (
        "12 of 30 over · 7 resolved · 3 unresolved · 2 infra (2 endpoint) · 32 in flight · "
        "1 in scoring · 4 min to 7 min left · the endpoint is down (503): the run pauses · "
        "2 tries lost to the endpoint · 1 try lost to other faults"
    )
    calm = replace(SEEN, driver="", in_flight=(), scoring=0, endpoint_down=False, faults=0)
    calm = replace(calm, endpoint_faults=0, left_seconds=None)
    assert line_of(calm) == "12 of 30 over · 7 resolved · 3 unresolved · 2 infra (2 endpoint)"


@pytest.mark.parametrize(
    ("seconds", "said"), [(1, "10 s"), (44, "40 s"), (600, "10 min"), (9000, "2 h")]
)
def test_an_estimate_claims_no_more_than_it_knows(seconds: float, said: str) -> None:
    assert span_of(seconds) == said


def begun(tmp_path: Path, world: World, *ids: str, k: int = 1) -> RunDir:
    run = RunDir(tmp_path / "run")
    plan = make_plan(*ids, k=k)
    run.root.mkdir()
    run.plan.write_text(json.dumps(plan_json(plan)))
    with Ledger(run.ledger) as ledger:
        drive(plan, ledger, world)
    return run


def test_each_look_reads_what_came_since_the_last(tmp_path: Path) -> None:
    world = World(rolls={("b", 1): [fault(Cause.ENDPOINT)]}, scores={("c", 1): [UNRESOLVED]})
    run = begun(tmp_path, world, "a", "b", "c")
    progress = Progress(run)
    seen = progress.look()
    assert (seen.total, seen.over, seen.outcomes) == (
        3,
        3,
        {"resolved": 1, "unresolved": 1, "infra": 1},
    )
    assert [seen.low, seen.high] == [pytest.approx(1 / 3), pytest.approx(2 / 3)]
    assert seen.valid is not None
    assert seen.valid[0] == 0.5
    assert (seen.faults, seen.endpoint_faults) == (3, 3)
    assert (seen.driver, seen.in_flight, seen.left_seconds) == ("", (), None)
    before = seen.usage.requests
    with Ledger(run.ledger) as ledger:
        ledger.append(Kind.ROLLOUT, Attempt("a", 1), 9, SUBMITTED)
    assert progress.look().usage.requests == before + SUBMITTED.usage.requests


def test_while_somebody_drives_it_his_tries_and_his_endpoint_are_seen(tmp_path: Path) -> None:
    run = begun(tmp_path, World(), "a", "b", "c", "d")
    with run.held():
        run.partial("try", "owner__name-7", 2, 1)
        run.write(run.endpoint, json.dumps({"said": "down", "down": True}))
        seen = Progress(run).look()
        assert seen.driver == str(os.getpid())
        assert [name for name, _ in seen.in_flight] == ["owner__name-7-2-1"]
        assert (seen.endpoint, seen.endpoint_down) == ("down", True)
        run.endpoint.write_text("half a li")
        assert Progress(run).look().endpoint == ""
    assert Progress(run).look().endpoint == ""


def test_a_run_that_is_over_is_a_line_and_the_headline(passone: Passone, tmp_path: Path) -> None:
    run = begun(tmp_path, World(rolls={("b", 1): [fault()]}), "a", "b")
    said = passone("watch", run.root)
    assert said.status == 3
    assert re.match(r"\d\d:\d\d:\d\d 2 of 2 over · 1 resolved · 1 infra", said.out)
    assert "pass@1" in said.out
    once = passone("watch", run.root, "--once")
    assert once.status == 0
    assert "nobody drives it" in once.out


def test_what_cannot_be_watched_is_refused(passone: Passone, tmp_path: Path) -> None:
    said = passone("watch", "nowhere")
    assert (said.status, "no run is there" in said.err) == (2, True)
    assert passone("watch", "nowhere", "--every", "0").status == 2
    run = begun(tmp_path, World(), "a")
    progress = Progress(run)
    for path in (run.ledger, run.plan):
        path.unlink()
    with pytest.raises(UserError, match="no run is there"):
        next(lines(progress, 1))


def names_in(root: Path) -> set[str]:
    """But for what SQLite leaves of a log where its last reader may not write."""
    names = {path.name for path in root.iterdir()}
    return names - {"ledger.sqlite-wal", "ledger.sqlite-shm"}


DEMO = (sys.executable, "-c", "from pipeline.cli import main; main()")


@pytest.mark.timeout(300)
def test_a_run_comes_out_as_without_a_watcher(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent), "COLUMNS": "80"}
    environment |= {"TERM": "xterm", "NO_COLOR": "1"}

    def begin(name: str) -> subprocess.Popen[bytes]:
        arguments = ("demo", "--size", "2", "--sandbox", "local", "--logs", str(tmp_path / name))
        return subprocess.Popen([*DEMO, *arguments], env=environment, stderr=subprocess.DEVNULL)

    with begin("alone") as alone:
        assert alone.wait() == 0
    (expected,) = (tmp_path / "alone").glob("*/report/summary.json")
    with begin("watched") as driver:
        while not list((tmp_path / "watched").glob("*/ledger.sqlite")):
            assert driver.poll() is None
            time.sleep(0.1)
        (root,) = (tmp_path / "watched").iterdir()
        command = [*DEMO, "watch", str(root), "--every", "0.5"]
        hurried = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
        mine, theirs = pty.openpty()
        drawing = subprocess.Popen(command, env=environment, stdout=theirs)
        os.close(theirs)
        piped = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE)
        time.sleep(2)
        hurried.send_signal(signal.SIGKILL)
        hurried.wait()
        screen = b""
        while True:
            try:
                chunk = os.read(mine, 65536)
            except OSError:
                break
            if not chunk:
                break
            screen += chunk
        os.close(mine)
        out, _ = piped.communicate()
        assert (driver.wait(), piped.returncode, drawing.wait()) == (0, 0, 0)
    summary = root / "report/summary.json"
    assert json.loads(summary.read_text()) == json.loads(expected.read_text())
    assert names_in(root) == names_in(expected.parent.parent)
    assert b"driven by process" in screen
    assert b"pass@1" in screen
    text = out.decode()
    assert "\x1b" not in text
    assert re.search(r"^\d\d:\d\d:\d\d 2 of 2 over", text, re.MULTILINE)
