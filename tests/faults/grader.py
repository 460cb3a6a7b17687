"""What the grader gets to read, and what a patch can be."""

from __future__ import annotations

import secrets
from pathlib import Path

from tests.faults import harness
from tests.faults.case import (
    NOTHING,
    REJECTED,
    RESOLVED,
    UNRESOLVED,
    Case,
    Peer,
    Right,
    Seen,
    infra,
)
from tests.faults.material import Row, at_import, during_tests, gold, row
from tests.faults.scene import score
from tests.faults.scoring import Scored

GROUP = "grader"
S = Scored(group=GROUP)
INSTANCE = infra("instance")
DID_NOT_RUN, DIED = Right("tests_did_not_run"), Right("died")
TIMED_OUT = Right("tests_timed_out")
MEGABYTE = 1 << 20
MOST_BYTES = 1200 * MEGABYTE
"""On our disk, at any moment: output as it came and as it was decoded, for two scorings."""


def prints(*lines: str) -> str:
    """Gold, which also prints something as its tests begin."""
    words = "; ".join(f"print({line!r}, flush=True)" for line in lines)
    return gold() + at_import(words)


def says(content: bytes) -> str:
    return gold() + at_import(f"import os; os.write(1, {content!r})")


FLOOD = """\
import os
line = b"x" * 1023 + b"\\n"
for _ in range(500 << 10):
    os.write(1, line)
"""
ENDLESS = FLOOD.replace("for _ in range(500 << 10)", "while True")
LATIN_1_FILE = "open('README.md', 'ab').write(b'caf\\xe9\\n')"
BINARY = "diff --git a/p.pyc b/p.pyc\nindex 0000000..1111111\nBinary files differ\n"
ELSEWHERE = "diff --git a/no.py b/no.py\n--- a/no.py\n+++ b/no.py\n@@ -1 +1 @@\n-a\n+b\n"
LONG_LINE = "print('x' * (20 << 20), flush=True)"
NO_DOCKER = "print('Cannot connect to the Docker daemon', flush=True); import os; os._exit(1)"
NO_MEMORY = "print('Killed\\nCannot allocate memory', flush=True); import os; os._exit(1)"
ESCAPES = b"\x00\x1b[2J\x1b]0;x\x07\r\n"
END = ">>>>> End Test Output"


def flooding(name: str, right: Right, code: str, *settings: str, timeout: int) -> Case:
    """Much output: a right outcome, in bounded time and on a bounded part of the disk."""
    patch = gold() + at_import(code)

    def ours(place: Path) -> Seen:
        seen = score(place, row(), patch, *settings, seconds=240)
        used = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
        wrong = f"{used // MEGABYTE} MB on disk" if used > MOST_BYTES else ""
        return Seen(
            answer=seen.answer, said=seen.said, wrong="; ".join(filter(None, [seen.wrong, wrong]))
        )

    def swebench(place: Path) -> Peer:
        return harness.grade(place, row(), patch, right, timeout=timeout)

    return Case(
        name=name, group=GROUP, right=right, ours=ours, peers={"swebench": swebench}, alone=True
    )


def ours_beside_an_empty_report(place: Path) -> Seen:
    """The run directory holds what an earlier process left half done."""
    of = row()
    path = place / "logs" / "fault" / "scoring" / str(of["instance_id"]) / "1" / "report.json"
    path.parent.mkdir(parents=True)
    path.touch()
    seen = score(place, of, gold())
    assert path.stat().st_size, "the report is still empty"
    return seen


def theirs_beside_an_empty_report(place: Path) -> Peer:
    run_id, of = f"f{secrets.token_hex(4)}", row()
    path = place / "logs/run_evaluation" / run_id / "m" / str(of["instance_id"]) / "report.json"
    path.parent.mkdir(parents=True)
    path.touch()
    report = harness.evaluate(place, of, gold(), run_id=run_id)
    return Peer(words=report.words, right=harness.judge(report, RESOLVED, broken=True))


def unparsed() -> Row:
    return row(log_parser="parse_log_pytest")


LOGS = (
    S.case("its parser finds nothing, in any log of the instance", INSTANCE, of=unparsed),
    S.case(
        "its parser finds nothing, as the patch ends the tests at once",
        DID_NOT_RUN,
        patch=gold() + at_import("import os; os._exit(0)"),
    ),
    S.case("it raises on what the patch prints", DIED, "execution.tries=2", patch=prints("FAIL:")),
    S.case(
        "it raises on what the instance prints",
        INSTANCE,
        of=lambda: during_tests(row(), "echo FAIL: >&2"),
    ),
    S.case("latin-1 in the log", RESOLVED, patch=says(b"caf\xe9\n")),
    S.case("latin-1 in `git diff`", RESOLVED, patch=gold() + at_import(LATIN_1_FILE)),
    S.case("gold prints the marker of the tests' end", RESOLVED, patch=prints(END)),
    S.case(
        "patch prints the harness's “Tests Errored”",
        DID_NOT_RUN,
        patch=prints(">>>>> Tests Errored"),
    ),
    S.case(
        "gold prints that the Docker daemon is gone",
        RESOLVED,
        patch=prints("Cannot connect to the Docker daemon at unix:///var/run/docker.sock"),
    ),
    S.case(
        "patch that runs no test prints that the Docker daemon is gone",
        DID_NOT_RUN,
        patch=gold() + at_import(NO_DOCKER),
    ),
    Case(
        name="an empty report.json of an earlier run",
        group=GROUP,
        right=RESOLVED,
        ours=ours_beside_an_empty_report,
        peers={"swebench": theirs_beside_an_empty_report},
    ),
    flooding("500 MB of output before the tests", RESOLVED, FLOOD, timeout=40),
    flooding(
        "output without end",
        TIMED_OUT,
        ENDLESS,
        "sandbox.scoring_seconds=10",
        timeout=10,
    ),
)

PATCHES = (
    S.case("patch with CRLF line ends", RESOLVED, patch=gold().replace("\n", "\r\n")),
    S.case("patch without a final newline", RESOLVED, patch=gold().rstrip("\n")),
    S.case("prose instead of a patch", REJECTED, patch="I would change the parser.\n"),
    S.case("patch cut in half", REJECTED, patch=gold()[: gold().index("-        day = date")]),
    S.case("binary hunk alone", UNRESOLVED, patch=BINARY),
    S.case("gold beside a .pyc hunk", RESOLVED, patch=gold() + BINARY),
    S.case("empty patch", NOTHING, patch=""),
    S.case("null instead of a patch", NOTHING, empty=True),
)

CASES: tuple[Case, ...] = (*LOGS, *PATCHES)
