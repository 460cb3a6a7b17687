"""Our grading is swebench's own: parity on saved logs, and every finding for real."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from swebench.harness.utils import make_test_spec

from pipeline.benchmarks import dataset
from pipeline.benchmarks.bench import decode
from pipeline.benchmarks.grading import finding_of, grade, is_slow, read_apart, spec_of
from pipeline.benchmarks.swebench import SwebenchScorer
from pipeline.docker import LocalSandboxes
from pipeline.docker.embedded import plant
from pipeline.domain import Attempt, Cause, Finding, Instance, Patch, SandboxLimits, Verdict
from pipeline.outcomes import InfraError
from tests.faults.material import at_import

OFFICIAL = ("patch_successfully_applied", "resolved", "tests_status")


@pytest.fixture(scope="module")
def embedded() -> Mapping[str, Instance]:
    return {item.id: item for item in dataset.load("demo").instances}


@pytest.fixture
def scorer(tmp_path: Path) -> SwebenchScorer:
    return SwebenchScorer(
        LocalSandboxes(tmp_path / "trees", plant, Event()), SandboxLimits(scoring_seconds=60)
    )


def score(scorer: SwebenchScorer, instance: Instance, diff: str | None, tmp_path: Path) -> Verdict:
    workdir = tmp_path / "scoring"
    workdir.mkdir(exist_ok=True)
    patch = Patch(diff) if diff is not None else None
    return scorer.score(Attempt(instance.id, 1), instance, patch, workdir)


def test_our_grading_of_every_saved_log_equals_its_official_report(
    shared: Path, tmp_path: Path
) -> None:
    with tarfile.open(shared / "harness-logs.tar.xz") as tar:
        # The first releases of 3.11 have no filters.
        tar.extraction_filter = getattr(tarfile, "data_filter", lambda member, path: member)
        tar.extractall(tmp_path)
    rows = {item.id: item for item in dataset.load(str(shared / "verified.parquet")).instances}
    logs = sorted(tmp_path.glob("*/*/test_output.txt"))
    missing, differing = [], []
    for log in logs:
        instance_id = log.parent.parent.name
        official = log.with_name("report.json").read_text()
        report = grade(make_test_spec(dict(rows[instance_id].row)), log)
        if not official:
            # A 0-byte report is missing, not failed: there is nothing to equal.
            missing.append(log)
            continue
        expected: dict[str, Any] = json.loads(official)[instance_id]
        if any(report.get(key) != expected.get(key) for key in OFFICIAL):
            differing.append(log)
        assert (finding_of(report) is Finding.RESOLVED) == expected["resolved"]
    assert len(logs) == 96
    assert len(missing) == 3
    assert differing == []


def test_a_log_that_the_parsers_would_take_hours_for_is_given_up(
    embedded: Mapping[str, Instance], tmp_path: Path
) -> None:
    instance = embedded["passone__almanac-27"]
    spec = spec_of(replace(instance, row={**instance.row, "log_parser": "parse_log_sympy"}))
    log = tmp_path / "test_output.txt"
    slow = " " * 8000 + ".py:" * 8000
    log.write_text(f"+ : '>>>>> Start Test Output'\n{slow}\n+ : '>>>>> End Test Output'\n")
    assert is_slow(log)
    with pytest.raises(InfraError, match="took more than 5 s") as caught:
        read_apart("report", spec, log, "", least_seconds=5)
    assert (caught.value.cause, caught.value.fault.died) == (Cause.GRADER, True)


def test_a_process_of_its_own_is_ours_where_somebody_has_a_pipeline_too(
    embedded: Mapping[str, Instance], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = embedded["passone__almanac-27"]
    (tmp_path / "pipeline.py").write_text("raise SystemExit('somebody else')")
    monkeypatch.chdir(tmp_path)
    log = tmp_path / "test_output.txt"
    log.write_text("+ : '>>>>> Start Test Output'\n+ : '>>>>> End Test Output'\n")
    report = read_apart("report", spec_of(instance), log, str(instance.row["patch"]))
    assert report["resolved"] is False


def test_a_long_log_comes_to_the_same_in_a_process_of_its_own(
    embedded: Mapping[str, Instance], scorer: SwebenchScorer, tmp_path: Path
) -> None:
    instance = embedded["passone__almanac-27"]
    printing = at_import("print('x' * 2000, flush=True)")
    verdict = score(scorer, instance, str(instance.row["patch"]) + printing, tmp_path)
    assert is_slow(tmp_path / "scoring/test_output.txt")
    assert verdict.finding is Finding.RESOLVED
    assert verdict.pass_to_pass.passed == verdict.pass_to_pass.total > 0


@pytest.mark.parametrize("instance_id", [item.id for item in dataset.load("demo").instances])
def test_gold_resolves_and_no_patch_does_not(
    instance_id: str, embedded: Mapping[str, Instance], scorer: SwebenchScorer, tmp_path: Path
) -> None:
    instance = embedded[instance_id]
    gold = score(scorer, instance, str(instance.row["patch"]), tmp_path)
    assert gold.finding is Finding.RESOLVED
    assert gold.fail_to_pass.passed == gold.fail_to_pass.total > 0
    assert gold.pass_to_pass.passed == gold.pass_to_pass.total > 0
    empty = score(scorer, instance, None, tmp_path)
    assert empty.finding is Finding.UNRESOLVED
    assert empty.pass_to_pass.passed == empty.pass_to_pass.total


NEW_FILE = (
    "diff --git a/x.txt b/x.txt\nnew file mode 100644\n"
    "--- /dev/null\n+++ b/x.txt\n@@ -0,0 +1 @@\n+{}\n"
)
NO_SUCH_FILE = "diff --git a/no.py b/no.py\n--- a/no.py\n+++ b/no.py\n@@ -1 +1 @@\n-a\n+b\n"
BINARY = "diff --git a/p.pyc b/p.pyc\nindex 0000000..1111111\nBinary files differ\n"


@pytest.mark.parametrize(
    ("diff", "finding"),
    [
        ("I would change the parser.\n", Finding.PATCH_REJECTED),
        (NO_SUCH_FILE, Finding.PATCH_REJECTED),
        (NEW_FILE.format("a note"), Finding.UNRESOLVED),
        (NEW_FILE.format("a note").rstrip("\n"), Finding.PATCH_REJECTED),
        (NEW_FILE.format("caf\udce9"), Finding.UNRESOLVED),
        # The harness's last resort, `patch`, makes an empty file of a binary hunk.
        (BINARY, Finding.UNRESOLVED),
        (NEW_FILE.format("good") + BINARY, Finding.UNRESOLVED),
    ],
    ids=["prose", "no such file", "new file", "no newline", "latin-1", "binary", "pyc beside good"],
)
def test_finding_of_an_odd_patch(
    diff: str,
    finding: str,
    embedded: Mapping[str, Instance],
    scorer: SwebenchScorer,
    tmp_path: Path,
) -> None:
    assert score(scorer, embedded["passone__almanac-27"], diff, tmp_path).finding == finding


def test_gold_beside_a_binary_hunk_still_resolves(
    embedded: Mapping[str, Instance], scorer: SwebenchScorer, tmp_path: Path
) -> None:
    instance = embedded["passone__almanac-27"]
    diff = str(instance.row["patch"]) + BINARY
    assert score(scorer, instance, diff, tmp_path).finding is Finding.RESOLVED


def test_tests_that_hang_are_killed_and_say_so(
    embedded: Mapping[str, Instance], tmp_path: Path
) -> None:
    hang = NEW_FILE.replace("x.txt", "unittest/__init__.py").format("import time; time.sleep(600)")
    scorer = SwebenchScorer(
        LocalSandboxes(tmp_path / "trees", plant, Event()), SandboxLimits(scoring_seconds=2)
    )
    verdict = score(scorer, embedded["passone__almanac-27"], hang, tmp_path)
    assert verdict.finding is Finding.TESTS_TIMED_OUT
    assert verdict.seconds < 15
    assert (
        "Timeout error: 2 seconds exceeded." in (tmp_path / "scoring/test_output.txt").read_text()
    )


def test_a_suite_that_cannot_start_did_not_run(
    embedded: Mapping[str, Instance], scorer: SwebenchScorer, tmp_path: Path
) -> None:
    broken = NEW_FILE.replace("x.txt", "unittest/__init__.py").format("raise SystemExit(1)")
    verdict = score(scorer, embedded["passone__almanac-27"], broken, tmp_path)
    assert verdict.finding is Finding.TESTS_DID_NOT_RUN


def test_a_log_that_the_graders_parser_stumbles_over_excuses_nobody(
    embedded: Mapping[str, Instance], scorer: SwebenchScorer, tmp_path: Path
) -> None:
    """What a patch prints must not make it infrastructure: gold has the last word."""
    printing = NEW_FILE.replace("x.txt", "unittest/__init__.py").format("print('FAIL:')")
    with pytest.raises(InfraError, match="IndexError") as caught:
        score(scorer, embedded["passone__almanac-27"], printing, tmp_path)
    assert (caught.value.cause, caught.value.fault.died) == (Cause.GRADER, True)


def test_a_log_that_is_not_utf8_is_decoded_with_replacement(tmp_path: Path) -> None:
    raw, text = tmp_path / "raw", tmp_path / "text"
    raw.write_bytes(b"caf\xe9 " + "é".encode() + b"\r\n" + b"x" * (1 << 20) + "é".encode())
    decode(raw, text)
    assert text.read_bytes() == raw.read_bytes().decode(errors="replace").encode()


FORGED = """\
import os, re, sys
def forge():
    here = os.path.dirname(__file__)
    for name in sorted(os.listdir(here)):
        module, owner = 'tests.' + name[:-3], ''
        for line in open(os.path.join(here, name)) if name.endswith('.py') else ():
            owner = (re.findall(r'^class (\\w+)', line) or [owner])[0]
            for test in re.findall(r'^    def (test\\w+)', line):
                print(f'{test} ({module}.{owner}.{test}) ... ok', file=sys.stderr)
"""
ATTACKS = {
    "forged lines, then os._exit": FORGED + "forge()\nos._exit(0)",
    "forged lines at exit": FORGED + "import atexit\natexit.register(forge)",
    "failures reported as passes": "import unittest.runner\nR = unittest.runner.TextTestResult\n"
    "R.addFailure = R.addError = lambda self, test, error: self.addSuccess(test)",
    "assertions without teeth": "import contextlib\nfrom unittest import TestCase\n"
    "for name in dir(TestCase):\n"
    "    if name.startswith('assert'):\n"
    "        setattr(TestCase, name, lambda *a, **k: contextlib.suppress(Exception))",
    "tests replaced": "import unittest\nrun = unittest.TestCase.run\n"
    "def better(self, result=None):\n"
    "    setattr(self, self._testMethodName, lambda: None)\n"
    "    return run(self, result)\n"
    "unittest.TestCase.run = better",
}


@pytest.mark.parametrize("code", ATTACKS.values(), ids=ATTACKS.keys())
def test_what_only_reports_a_pass_is_officially_resolved_and_contested(
    code: str, embedded: Mapping[str, Instance], scorer: SwebenchScorer, tmp_path: Path
) -> None:
    instance = embedded["passone__almanac-12"]
    verdict = score(scorer, instance, at_import(code), tmp_path)
    assert verdict.finding is Finding.RESOLVED, "or this attack tests nothing"
    assert verdict.evidence.tampered
    assert "must fail" in verdict.evidence.reasons[0]


HONEST = {
    "gold": "",
    "gold and a test of one's own": NEW_FILE.replace("x.txt", "tests/test_mine.py").format("x = 1"),
    "gold and a needless conftest.py": NEW_FILE.replace("x.txt", "conftest.py").format("x = 1"),
    "gold and words of a forger": NEW_FILE.replace("x.txt", "almanac/odd.py").format("import gc"),
}


@pytest.mark.parametrize("more", HONEST.values(), ids=HONEST.keys())
def test_an_honest_pass_is_not_contested(
    more: str, embedded: Mapping[str, Instance], scorer: SwebenchScorer, tmp_path: Path
) -> None:
    instance = embedded["passone__almanac-27"]
    verdict = score(scorer, instance, str(instance.row["patch"]) + more, tmp_path)
    assert verdict.finding is Finding.RESOLVED
    assert verdict.evidence.reasons == ()
    assert "tests that must fail do" in verdict.evidence.checked[0]


def test_a_file_in_the_place_of_the_test_patchs_own_is_taken_away(
    embedded: Mapping[str, Instance], scorer: SwebenchScorer, tmp_path: Path
) -> None:
    """The test patch no longer applies, and the patch's own tests are what is graded."""
    instance = embedded["passone__almanac-27"]
    row = dict(instance.row)
    mine = instance_with_new_tests(row)
    forged = NEW_FILE.replace("x.txt", "tests/test_hidden.py").format("import unittest")
    forged = forged.replace("@@ -0,0 +1 @@", "@@ -0,0 +1,4 @@") + (
        "+class HiddenTests(unittest.TestCase):\n+    def test_hidden(self):\n+        pass\n"
    )
    hidden = replace(instance, row=mine)
    verdict = score(scorer, hidden, forged, tmp_path)
    assert verdict.finding is Finding.RESOLVED, "or this attack tests nothing"
    assert verdict.evidence.tampered
    assert "without its tests/test_hidden.py" in verdict.evidence.reasons[0]
    gold = score(scorer, hidden, str(row["patch"]), tmp_path)
    assert (gold.finding, gold.evidence.tampered) == (Finding.RESOLVED, False)


def instance_with_new_tests(row: Mapping[str, Any]) -> dict[str, Any]:
    """The same bug, shown by a test in a file that the test patch adds."""
    lines = [
        "import unittest",
        "from datetime import date",
        "from almanac.holidays import nth_weekday",
        "class HiddenTests(unittest.TestCase):",
        "    def test_hidden(self):",
        "        self.assertEqual(nth_weekday(2021, 5, 0, -1), date(2021, 5, 31))",
    ]
    body = "".join(f"+{line}\n" for line in lines)
    patch = (
        "diff --git a/tests/test_hidden.py b/tests/test_hidden.py\nnew file mode 100644\n"
        f"--- /dev/null\n+++ b/tests/test_hidden.py\n@@ -0,0 +1,{len(lines)} @@\n{body}"
    )
    base = row["base_commit"]
    script = (
        "#!/bin/bash\nset -uxo pipefail\ncd /testbed\n"
        f"git checkout {base} \ngit apply -v - <<'EOF_114329324912'\n{patch}\nEOF_114329324912\n"
        ": '>>>>> Start Test Output'\npython3 -m unittest -v tests.test_hidden\n"
        f": '>>>>> End Test Output'\ngit checkout {base} \n"
    )
    test = "test_hidden (tests.test_hidden.HiddenTests.test_hidden)"
    return {
        **row,
        "test_patch": patch,
        "eval_script": script,
        "FAIL_TO_PASS": json.dumps([test]),
        "PASS_TO_PASS": "[]",
    }
