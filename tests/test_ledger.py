"""A row means that a try is over; no row means do it again."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.agents.controls import Control as AgentControl
from pipeline.benchmarks.imported import ImportedVerdicts
from pipeline.brake import Brake
from pipeline.cli.adopt import adopt_plan
from pipeline.cli.lanes import open_lanes
from pipeline.cli.parts import Nowhere, Parts
from pipeline.cli.voice import Voice
from pipeline.domain import (
    Attempt,
    Cause,
    Controls,
    Fault,
    Finding,
    Limits,
    Patch,
    Rollout,
    Snapshot,
    Usage,
    Verdict,
)
from pipeline.gateway import Terms
from pipeline.ledger import TYPES, Book, Entry, Kind, Ledger, Row, Value
from pipeline.outcomes import Blame, Outcome, Settlement, UserError
from pipeline.plan import Execution, RunPlan
from pipeline.rundir import RunDir
from pipeline.trust import Trust
from tests.fakes import (
    DIED,
    REJECTED,
    RESOLVED,
    STUMBLE,
    SUBMITTED,
    UNRESOLVED,
    WITHOUT_PATCH,
    fault,
    instance,
    make_plan,
    memory_ledger,
)

A = Attempt("a", 1)
GOLD = Attempt("a", 0)
ROOT = Path(__file__).parent.parent

MODELS = Settlement(outcome=Outcome.DIED, blame=Blame.MODEL, trust=Trust.TRUSTED)
MOVED = Settlement(
    outcome=Outcome.INFRA,
    blame=Blame.INFRA,
    trust=Trust.BROKEN,
    cause=Cause.INSTANCE,
    moved=True,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def ledger(path: Path) -> Iterator[Ledger]:
    with Ledger(path) as opened:
        yield opened


def book_of(*rows: tuple[Kind, Value]) -> Book:
    """A book of one attempt; a control belongs to its instance."""
    ledger = memory_ledger()
    tries = dict.fromkeys(Kind, 0)
    for kind, value in rows:
        tries[kind] += 1
        ledger.append(kind, GOLD if kind is Kind.CONTROL else A, tries[kind], value)
    return ledger.book()


def entry_of(*rows: tuple[Kind, Value]) -> Entry:
    return book_of(*rows).entry(A)


ROLL, SCORE, GOLDEN, SETTLE = Kind


# What goes in comes out


@pytest.mark.parametrize(
    "value",
    [
        SUBMITTED,
        WITHOUT_PATCH,
        Rollout(stop=None, submission=Snapshot("sha256:1"), exit_status="not recorded"),
        Rollout(stop=None, submission=Patch("a\r\n\0 \x1b[0m é 漢 \u2028"), exit_status=""),
        RESOLVED,
        REJECTED,
        Verdict(finding=Finding.RESOLVED, grader="g", reward=0.5),
        DIED,
        Fault(cause=Cause.ENDPOINT, detail="429", usage=Usage(requests=3, cost_usd=None)),
        MODELS,
        MOVED,
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_row_is_read_as_it_was_written(path: Path, value: Value) -> None:
    with Ledger(path) as ledger:
        written = ledger.append(Kind.ROLLOUT, A, 1, value)
    with Ledger(path, read_only=True) as ledger:
        assert list(ledger.rows()) == [written]


def test_every_value_has_a_form_on_disk() -> None:
    assert TYPES.keys() == {"Rollout", "Verdict", "Controls", "Fault", "Settlement"}


def test_a_patch_that_is_not_unicode_is_kept_too(ledger: Ledger) -> None:
    """Adapters decode with surrogateescape: what the model wrote is not ours to refuse."""
    patch = Patch(b"caf\xe9 \xff".decode(errors="surrogateescape"))
    written = Rollout(stop=None, submission=patch, exit_status="")
    ledger.append(Kind.ROLLOUT, A, 1, written)
    assert [row.value for row in ledger.rows()] == [written]


def test_rows_come_in_the_order_in_which_they_were_committed(ledger: Ledger) -> None:
    for number in (3, 1, 2):
        ledger.append(Kind.ROLLOUT, Attempt("a", number), 1, SUBMITTED)
    assert [row.attempt.number for row in ledger.rows()] == [3, 1, 2]
    assert [row.seq for row in ledger.rows()] == [1, 2, 3]


def test_one_try_is_written_once(ledger: Ledger) -> None:
    ledger.append(Kind.ROLLOUT, A, 1, SUBMITTED)
    with pytest.raises(sqlite3.IntegrityError):
        ledger.append(Kind.ROLLOUT, A, 1, SUBMITTED)


def test_each_row_says_when_it_was_committed_in_utc(path: Path, ledger: Ledger) -> None:
    ledger.append(Kind.ROLLOUT, A, 1, SUBMITTED)
    with sqlite3.connect(path) as other:
        (at,) = other.execute("SELECT at FROM rows").fetchone()
    other.close()
    assert at.endswith("Z")


def test_meta_is_remembered(path: Path) -> None:
    with Ledger(path) as ledger:
        assert ledger.read_meta("digest") is None
        ledger.write_meta("digest", "one")
        ledger.write_meta("digest", "two")
    with Ledger(path, read_only=True) as ledger:
        assert ledger.read_meta("digest") == "two"


# Other people's files, and full disks


@pytest.mark.parametrize("content", [b"{}\n", b"SQLite format 3\0 but not quite", b"\0" * 8192])
def test_a_file_that_is_no_database_is_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"ledger\.sqlite"), Ledger(path) as ledger:
        list(ledger.rows())
    assert path.read_bytes() == content


def test_somebody_elses_database_is_refused_when_it_is_read(path: Path) -> None:
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE rows (colour TEXT)")
    other.close()
    with (
        Ledger(path, read_only=True) as ledger,
        pytest.raises(UserError, match="no ledger of this"),
    ):
        list(ledger.rows())


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE rows SET kind = 'opinion'",
        "UPDATE rows SET type = 'Opinion'",
        'UPDATE rows SET body = \'{"stop": "boredom"}\'',
        "UPDATE rows SET body = 'half a li'",
    ],
)
def test_a_row_of_another_version_is_refused_and_not_guessed_at(path: Path, change: str) -> None:
    with Ledger(path) as ledger:
        ledger.append(Kind.ROLLOUT, A, 1, SUBMITTED)
    with sqlite3.connect(path) as other:
        other.execute(change)
    other.close()
    with Ledger(path) as ledger, pytest.raises(UserError, match="is no ledger of this version"):
        ledger.book()


def test_a_directory_in_place_of_the_ledger_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be opened as a ledger"):
        Ledger(tmp_path)


def test_reading_a_ledger_that_is_not_there_makes_none(path: Path) -> None:
    with pytest.raises(UserError), Ledger(path, read_only=True) as ledger:
        list(ledger.rows())
    assert not path.exists()


def test_a_reader_cannot_write(path: Path) -> None:
    Ledger(path).__exit__()
    with Ledger(path, read_only=True) as reader, pytest.raises(UserError):
        reader.append(Kind.ROLLOUT, A, 1, SUBMITTED)


def test_a_reader_sees_committed_rows_while_another_writes(path: Path, ledger: Ledger) -> None:
    with Ledger(path, read_only=True) as reader:
        for number in range(1, 4):
            ledger.append(Kind.ROLLOUT, Attempt("a", number), 1, SUBMITTED)
            assert len(list(reader.rows())) == number
        halfway = reader.rows()
        next(halfway)
        ledger.append(Kind.ROLLOUT, Attempt("a", 4), 1, SUBMITTED)  # a reader holds nobody up
        assert len(list(halfway)) == 2  # and goes on with what it began to read
        assert len(list(reader.rows())) == 4


READ = """
import sys
from pathlib import Path
from pipeline.gateway import Terms
from pipeline.ledger import Ledger
with Ledger(Path(sys.argv[1]), read_only=True) as ledger:
    print(len(list(ledger.rows())))
"""


def test_a_ledger_in_a_directory_that_nobody_may_write_can_be_read(tmp_path: Path) -> None:
    """A run of somebody else, or one that was put away."""
    mortal: list[str] = []
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("root may write anywhere, and setpriv (util-linux) is not installed")
        mortal = ["setpriv", "--bounding-set", "-all"]
    archive = tmp_path / "archive"
    archive.mkdir()
    with Ledger(archive / "ledger.sqlite") as ledger:
        ledger.append(Kind.ROLLOUT, A, 1, SUBMITTED)
    archive.chmod(0o555)
    reader = [*mortal, sys.executable, "-c", READ, str(archive / "ledger.sqlite")]
    ended = subprocess.run(reader, cwd=ROOT, check=False, capture_output=True, text=True)
    archive.chmod(0o755)
    assert (ended.stdout, ended.stderr) == ("1\n", "")
    assert [path.name for path in archive.iterdir()] == ["ledger.sqlite"]


def test_a_writer_sees_what_a_killed_writer_committed(path: Path) -> None:
    script = (
        "import os, signal\n"
        "from pathlib import Path\n"
        "from pipeline.ledger import Kind, Ledger\n"
        "from tests.fakes import SUBMITTED, Attempt\n"
        f"ledger = Ledger(Path({str(path)!r}))\n"
        "ledger.append(Kind.ROLLOUT, Attempt('a', 1), 1, SUBMITTED)\n"
        "ledger._db.execute(\"INSERT INTO meta VALUES ('not', 'committed')\")\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=False)
    assert ended.returncode == -9
    with Ledger(path) as ledger:
        assert [row.value for row in ledger.rows()] == [SUBMITTED]
        assert ledger.read_meta("not") is None


FULL_DISK = """
import json, resource, sys
from pathlib import Path
from pipeline.gateway import Terms
from pipeline.ledger import Kind, Ledger
from pipeline.outcomes import UserError
from tests.fakes import SUBMITTED, Attempt
ledger = Ledger(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
done = 0
try:
    while done < 10_000:
        ledger.append(Kind.ROLLOUT, Attempt("a", done + 1), 1, SUBMITTED)
        done += 1
    message = "the disk never filled"
except UserError as error:
    message = str(error)
try:
    ledger.write_meta("digest", "x" * 300_000)
    meta = "written"
except UserError as error:
    meta = str(error)
print(json.dumps([done, message, meta]))
"""


def test_a_full_disk_stops_the_run_and_keeps_every_finished_row(path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    done, message, meta = json.loads(ended.stdout)
    assert done > 10
    for text in (message, meta):
        assert str(path) in text
        assert "free some space and run again" in text
    with Ledger(path) as ledger:
        assert len(list(ledger.rows())) == done
        ledger.append(Kind.ROLLOUT, Attempt("a", done + 1), 1, SUBMITTED)  # and goes on here


# One run directory, one experiment


def adopt(root: Path, plan: RunPlan) -> dict[str, Any]:
    """What `passone run` does before anything starts."""
    run = RunDir(root)
    root.mkdir(exist_ok=True)
    with Ledger(run.ledger) as ledger, open_lanes(None, plan, "none", Terms()) as lanes:
        parts = Parts(
            plan=plan,
            run=run,
            instances=[instance(id_) for id_ in plan.selection.ids],
            agent=AgentControl("gold"),
            sandboxes=Nowhere(),
            scorer=ImportedVerdicts([]),
            lanes=lanes,
            terms=Terms(),
            brake=Brake(),
            voice=Voice(quiet=True),
        )
        return adopt_plan(parts, ledger)


PLAN = make_plan("a", "b")


def test_the_same_plan_continues_its_run_however_it_is_carried_out(tmp_path: Path) -> None:
    first = adopt(tmp_path, PLAN)
    assert first == json.loads(RunDir(tmp_path).plan.read_text())
    again = replace(PLAN, name="another name", execution=Execution(agent_workers=7))
    assert adopt(tmp_path, again)["digest"] == first["digest"] == PLAN.digest


@pytest.mark.parametrize(
    ("other", "keys"),
    [
        ({"model": "openai/other"}, "model"),
        ({"limits": Limits(steps=3), "agent": "other"}, "agent, limits.steps"),
        ({"selection": replace(PLAN.selection, ids=("a",))}, "selection.ids"),
        ({"agent_options": {"config": "x"}}, "agent_options.config"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_another_plan_in_the_same_directory_is_refused_naming_the_keys_that_differ(
    tmp_path: Path, other: dict[str, Any], keys: str
) -> None:
    adopt(tmp_path, PLAN)
    before = RunDir(tmp_path).plan.read_bytes()
    with pytest.raises(UserError, match=rf"another experiment .* they differ in {keys}\. "):
        adopt(tmp_path, replace(PLAN, **other))
    assert RunDir(tmp_path).plan.read_bytes() == before


def test_attempts_may_grow_and_never_shrink(tmp_path: Path) -> None:
    adopt(tmp_path, PLAN)
    assert adopt(tmp_path, replace(PLAN, attempts=3))["attempts"] == 3
    with pytest.raises(UserError, match="has 3 attempts; attempts may grow, never shrink"):
        adopt(tmp_path, replace(PLAN, attempts=2))


def test_a_ledger_that_was_copied_from_another_run_is_refused(tmp_path: Path) -> None:
    adopt(tmp_path, PLAN)
    RunDir(tmp_path).plan.unlink()
    with pytest.raises(UserError, match=rf"belongs to another plan \({PLAN.digest}\)"):
        adopt(tmp_path, replace(PLAN, model="openai/other"))
    assert adopt(tmp_path, PLAN)["digest"] == PLAN.digest


# What rows mean


@pytest.mark.parametrize(
    ("rows", "judged", "over"),
    [
        ([], False, False),
        ([(ROLL, SUBMITTED)], False, False),
        ([(ROLL, WITHOUT_PATCH)], True, True),
        ([(ROLL, SUBMITTED), (SCORE, RESOLVED)], True, True),
        ([(ROLL, SUBMITTED), (SCORE, REJECTED)], True, True),
        ([(ROLL, fault())], True, False),
        ([(ROLL, SUBMITTED), (SCORE, fault())], True, False),
        ([(ROLL, fault()), (ROLL, SUBMITTED)], False, False),
        ([(ROLL, fault()), (ROLL, SUBMITTED), (SCORE, fault()), (SCORE, RESOLVED)], True, True),
        ([(ROLL, DIED)], True, False),
        ([(ROLL, DIED), (SETTLE, MODELS)], True, True),
        ([(ROLL, DIED), (SETTLE, MOVED)], True, False),
        ([(ROLL, DIED), (SETTLE, MODELS), (ROLL, SUBMITTED)], False, False),
    ],
)
def test_a_fault_ends_a_try_and_never_the_attempt(
    rows: list[tuple[Kind, Value]], judged: bool, over: bool
) -> None:
    entry = entry_of(*rows)
    assert (entry.judged, entry.over) == (judged, over)


def test_a_verdict_before_the_latest_rollout_is_of_another_submission() -> None:
    entry = entry_of((ROLL, SUBMITTED), (SCORE, UNRESOLVED), (ROLL, SUBMITTED))
    assert entry.verdict is None


def test_an_outcome_rests_on_the_latest_rollout_or_verdict() -> None:
    assert entry_of().basis is None
    assert entry_of((ROLL, fault())).basis == fault()
    assert entry_of((ROLL, SUBMITTED), (SCORE, RESOLVED), (SETTLE, MODELS)).basis == RESOLVED


def test_a_settlement_holds_until_something_happens_to_its_attempt() -> None:
    rows: list[tuple[Kind, Value]] = [(ROLL, DIED), (SETTLE, MOVED), (SETTLE, MODELS)]
    assert entry_of(*rows).settlement == MODELS
    assert entry_of(*rows, (ROLL, SUBMITTED)).settlement is None


ELSEWHERE = replace(RESOLVED, evidence=replace(RESOLVED.evidence, image_digest="sha256:other"))


@pytest.mark.parametrize(
    ("rows", "trust"),
    [
        ([(ROLL, SUBMITTED), (SCORE, REJECTED)], Trust.UNKNOWN),
        ([(ROLL, SUBMITTED), (SCORE, REJECTED), (GOLDEN, fault())], Trust.UNKNOWN),
        ([(ROLL, SUBMITTED), (SCORE, REJECTED), (GOLDEN, RESOLVED)], Trust.TRUSTED),
        ([(GOLDEN, RESOLVED), (ROLL, SUBMITTED), (SCORE, REJECTED)], Trust.UNKNOWN),
        ([(GOLDEN, RESOLVED), (ROLL, SUBMITTED), (SCORE, UNRESOLVED)], Trust.TRUSTED),
        ([(GOLDEN, RESOLVED), (ROLL, WITHOUT_PATCH)], Trust.TRUSTED),
        ([(GOLDEN, RESOLVED), (ROLL, DIED)], Trust.UNKNOWN),
        ([(GOLDEN, STUMBLE), (ROLL, SUBMITTED), (SCORE, RESOLVED)], Trust.BROKEN),
        ([(GOLDEN, RESOLVED), (GOLDEN, STUMBLE), (ROLL, SUBMITTED)], Trust.BROKEN),
        ([(ROLL, DIED), (GOLDEN, STUMBLE), (GOLDEN, RESOLVED)], Trust.TRUSTED),
        ([(ROLL, DIED), (GOLDEN, STUMBLE), (GOLDEN, fault())], Trust.BROKEN),
        # The image was made again in between: another place.
        ([(ROLL, SUBMITTED), (SCORE, UNRESOLVED), (GOLDEN, ELSEWHERE)], Trust.UNKNOWN),
        ([(GOLDEN, ELSEWHERE), (ROLL, SUBMITTED), (SCORE, UNRESOLVED)], Trust.UNKNOWN),
    ],
)
def test_what_gold_says_about_an_attempt(rows: list[tuple[Kind, Value]], trust: Trust) -> None:
    assert book_of(*rows).trust(A) is trust


@pytest.mark.parametrize(
    ("rows", "doubted"),
    [
        ([(ROLL, SUBMITTED), (SCORE, REJECTED)], False),
        ([(ROLL, SUBMITTED), (SCORE, REJECTED), (GOLDEN, STUMBLE)], False),
        ([(ROLL, SUBMITTED), (SCORE, REJECTED), (GOLDEN, STUMBLE), (GOLDEN, RESOLVED)], True),
        ([(ROLL, SUBMITTED), (SCORE, RESOLVED), (GOLDEN, STUMBLE), (GOLDEN, RESOLVED)], True),
        ([(GOLDEN, STUMBLE), (GOLDEN, RESOLVED), (ROLL, SUBMITTED), (SCORE, REJECTED)], False),
        ([(ROLL, WITHOUT_PATCH), (GOLDEN, STUMBLE), (GOLDEN, RESOLVED)], False),
        (
            [
                (ROLL, SUBMITTED),
                (SCORE, REJECTED),
                (GOLDEN, STUMBLE),
                (GOLDEN, RESOLVED),
                (SCORE, REJECTED),
            ],
            False,
        ),
    ],
)
def test_a_verdict_is_doubted_once_gold_stumbled_after_it_and_passes_again(
    rows: list[tuple[Kind, Value]], doubted: bool
) -> None:
    assert book_of(*rows).doubted(A) is doubted


def test_an_attempt_without_rows_is_pending() -> None:
    assert Book().conclude(A, has_control=True) is None
    assert book_of((ROLL, SUBMITTED)).conclude(A, has_control=True) is None


def test_a_row_of_a_control_belongs_to_its_instance() -> None:
    book = Book()
    book.add(Row(seq=1, kind=Kind.CONTROL, attempt=GOLD, try_number=1, value=RESOLVED))
    assert book.looks("a") == [(1, Controls(gold=(RESOLVED,)))]
    assert book.looks("b") == []
    assert not book.entries
