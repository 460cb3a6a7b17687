"""Read a log with swebench's own parsers and grading: the only place that imports swebench."""

from __future__ import annotations

import importlib.metadata
import json
import math
import resource
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeAlias

from swebench.harness.constants import FAIL_TO_PASS, LOG_TEST_OUTPUT, PASS_TO_PASS
from swebench.harness.grading import get_eval_report, get_logs_eval, test_passed
from swebench.harness.run_evaluation import GIT_APPLY_CMDS
from swebench.harness.utils import make_test_spec
from swebench.types import TestSpec

from pipeline.domain import (
    Cause,
    Evidence,
    Finding,
    Instance,
    Patch,
    Submission,
    Tally,
    Verdict,
)
from pipeline.outcomes import InfraError
from pipeline.process import run

Spec: TypeAlias = TestSpec
APPLY_COMMANDS = tuple(GIT_APPLY_CMDS)
LOG = LOG_TEST_OUTPUT
FAILED = "swebench could not grade"
LONG_LOG_BYTES = 512 * 1024
LONG_LINE_BYTES = 1000
"""Above either, a log is read in another process, which costs some seconds."""
READ_SECONDS = 10
"""Of processor, its start included: a machine that is busy makes no log a slow one."""
MOST_TIMES = 20
"""How much longer that may take by the clock."""
BYTES_A_SECOND = 1_000_000
GRADER = f"swebench {importlib.metadata.version('swebench')}"


def tallies(report: dict[str, Any]) -> tuple[Tally, Tally]:
    """FAIL_TO_PASS and PASS_TO_PASS as counted in an official report."""
    status = report.get("tests_status") or {}

    def tally(group: str) -> Tally:
        tests = status.get(group) or {}
        passed, failed = len(tests.get("success", ())), len(tests.get("failure", ()))
        return Tally(passed, passed + failed)

    return tally(FAIL_TO_PASS), tally(PASS_TO_PASS)


def spec_of(instance: Instance) -> Spec:
    """What swebench makes of a published row."""
    return make_test_spec(dict(instance.row))


def grade(spec: Spec, log: Path, *, model_patch: str = "") -> dict[str, Any]:
    """swebench's own report on a log of its eval script.

    Raises:
        InfraError: swebench itself failed on it.
    """
    report: dict[str, Any] = read("report", spec, log, model_patch)
    return report


def statuses_of(spec: Spec, log: Path) -> dict[str, bool]:
    """Each test of an instance that a log has, and whether it passed, by swebench's own parser.

    Raises:
        InfraError: swebench itself failed on it.
    """
    found: dict[str, bool] = read("statuses", spec, log, "")
    return found


def all_statuses_of(spec: Spec, log: Path) -> dict[str, bool]:
    """Every test that a log has, and whether it passed, by swebench's own parser.

    Raises:
        InfraError: swebench itself failed on it.
    """
    found: dict[str, bool] = read("all", spec, log, "")
    return found


def finding_of(report: dict[str, Any]) -> Finding:
    """The one word of an official report whose patch was applied."""
    if report["resolved"]:
        return Finding.RESOLVED
    ran = report["patch_successfully_applied"]
    return Finding.UNRESOLVED if ran else Finding.TESTS_DID_NOT_RUN


def read_log(instance: Instance, log: Path, submission: Submission | None) -> Verdict:
    """The verdict of a log that a scoring has left, under the installed swebench.

    Raises:
        InfraError: swebench itself failed on it.
    """
    patch = submission.diff if isinstance(submission, Patch) else ""
    report = grade(spec_of(instance), log, model_patch=patch)
    return verdict_of(report, Evidence())


def verdict_of(report: dict[str, Any], evidence: Evidence, *, seconds: float = 0.0) -> Verdict:
    """An official report, in our words."""
    fail_to_pass, pass_to_pass = tallies(report)
    return Verdict(
        finding=finding_of(report),
        grader=GRADER,
        fail_to_pass=fail_to_pass,
        pass_to_pass=pass_to_pass,
        evidence=evidence,
        seconds=seconds,
    )


def report_in(spec: Spec, log: Path, model_patch: str) -> dict[str, Any]:
    prediction = {"instance_id": spec.instance_id, "model_patch": model_patch}
    reports = get_eval_report(spec, prediction, str(log), include_tests_status=True)
    return dict(reports[spec.instance_id])


def statuses_in(spec: Spec, log: Path, model_patch: str) -> dict[str, bool]:
    found, _ = get_logs_eval(spec, str(log))
    present = (
        test
        for test in (*spec.FAIL_TO_PASS, *spec.PASS_TO_PASS)
        # Some ids are cut off in their parameters.
        if test in found or ("[" in test and any(key.startswith(test) for key in found))
    )
    return {test: test_passed(test, found) for test in present}


def all_statuses_in(spec: Spec, log: Path, model_patch: str) -> dict[str, bool]:
    found, _ = get_logs_eval(spec, str(log))
    return {test: test_passed(test, found) for test in found}


READINGS: Mapping[str, Callable[[Spec, Path, str], Any]] = {
    "report": report_in,
    "statuses": statuses_in,
    "all": all_statuses_in,
}


def read(what: str, spec: Spec, log: Path, model_patch: str) -> Any:
    """One of the readings of a log.

    Raises:
        InfraError: swebench failed on it, or took too long. The log holds what the patch
            printed, so that proves nothing: gold has the last word.
    """
    if is_slow(log):
        return read_apart(what, spec, log, model_patch)
    try:
        return READINGS[what](spec, log, model_patch)
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        raise InfraError(Cause.GRADER, f"{FAILED} {log.name}: {said}", died=True) from error


def is_slow(log: Path) -> bool:
    """Whether the parsers could take hours on it: some of them are quadratic, or worse."""
    if log.stat().st_size > LONG_LOG_BYTES:
        return True
    return any(len(line) > LONG_LINE_BYTES for line in log.read_bytes().splitlines())


def read_apart(
    what: str, spec: Spec, log: Path, model_patch: str, *, least_seconds: float = READ_SECONDS
) -> Any:
    """Read it in a process that can be ended: nothing ends a regular expression at work."""
    seconds = least_seconds + log.stat().st_size / BYTES_A_SECOND
    with tempfile.TemporaryDirectory(prefix="passone-") as name:
        order = {
            "what": what,
            "spec": asdict(spec),
            "log": str(log.absolute()),
            "model_patch": model_patch,
            "seconds": math.ceil(seconds),
        }
        Path(name, "order").write_text(json.dumps(order))
        # -P: where the user stands there may be a pipeline/ of their own.
        argv = [sys.executable, "-P", "-m", __name__, name]
        done = run(argv, output=Path(name, "said"), timeout_seconds=MOST_TIMES * seconds)
        if done.timed_out or done.returncode == -signal.SIGXCPU:
            text = f"swebench's parser took more than {seconds:.0f} s on {log.name}"
            raise InfraError(Cause.GRADER, text, died=True)
        if done.returncode:
            said = done.output.strip().rpartition("\n")[2]
            raise InfraError(Cause.GRADER, f"{FAILED} {log.name}: {said}", died=True)
        return json.loads(Path(name, "answer").read_text())


def main() -> None:
    """The process that can be ended."""
    place = Path(sys.argv[1])
    order = json.loads((place / "order").read_text())
    resource.setrlimit(resource.RLIMIT_CPU, (order["seconds"], order["seconds"] + 1))
    spec, log = TestSpec(**order["spec"]), Path(order["log"])
    answer = READINGS[order["what"]](spec, log, order["model_patch"])
    (place / "answer").write_text(json.dumps(answer))


if __name__ == "__main__":
    main()
