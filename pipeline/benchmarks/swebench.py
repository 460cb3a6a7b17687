"""Grade by swebench's own TestSpec and grading; only the container's life is ours."""

from __future__ import annotations

import codecs
import importlib.metadata
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swebench.harness.constants import FAIL_TO_PASS, LOG_TEST_OUTPUT, PASS_TO_PASS
from swebench.harness.grading import get_eval_report
from swebench.harness.run_evaluation import GIT_APPLY_CMDS
from swebench.harness.utils import make_test_spec
from swebench.types import TestSpec

from pipeline.contracts import Sandbox, Sandboxes
from pipeline.domain import (
    Attempt,
    Cause,
    Evidence,
    Finding,
    Instance,
    Patch,
    SandboxLimits,
    Submission,
    Tally,
    Verdict,
)
from pipeline.outcomes import InfraError
from pipeline.process import Completed

LOG = LOG_TEST_OUTPUT
PATCH_FILE = "/tmp/patch.diff"
EVAL_FILE = "/eval.sh"
PATCH_SECONDS = 300
GRADER = f"swebench {importlib.metadata.version('swebench')}"
RESET = ["/bin/bash", "-c", "git checkout -- . ; git clean -fd"]


def tallies(report: dict[str, Any]) -> tuple[Tally, Tally]:
    """FAIL_TO_PASS and PASS_TO_PASS as counted in an official report."""
    status = report.get("tests_status") or {}

    def tally(group: str) -> Tally:
        tests = status.get(group) or {}
        passed, failed = len(tests.get("success", ())), len(tests.get("failure", ()))
        return Tally(passed, passed + failed)

    return tally(FAIL_TO_PASS), tally(PASS_TO_PASS)


def grade(spec: TestSpec, log: Path, *, model_patch: str = "") -> dict[str, Any]:
    """swebench's own report on a log of its eval script.

    Raises:
        InfraError: swebench itself failed on it.
    """
    prediction = {"instance_id": spec.instance_id, "model_patch": model_patch}
    try:
        reports = get_eval_report(spec, prediction, str(log), include_tests_status=True)
    except Exception as error:
        text = f"swebench could not grade {log.name}: {type(error).__name__}: {error}"
        # The log holds what the patch printed: a parser that stumbles over it proves nothing.
        raise InfraError(Cause.GRADER, text, died=True) from error
    return dict(reports[spec.instance_id])


def finding_of(report: dict[str, Any]) -> Finding:
    """The one word of an official report whose patch was applied."""
    if report["resolved"]:
        return Finding.RESOLVED
    ran = report["patch_successfully_applied"]
    return Finding.UNRESOLVED if ran else Finding.TESTS_DID_NOT_RUN


def decode(source: Path, target: Path) -> None:
    """Copy a log, replacing what is not UTF-8, in constant memory."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    with source.open("rb") as raw, target.open("w", encoding="utf-8", newline="") as text:
        while chunk := raw.read(1 << 20):
            text.write(decoder.decode(chunk))
        text.write(decoder.decode(b"", final=True))


def read_log(instance: Instance, log: Path, submission: Submission | None) -> Verdict:
    """The verdict of a log that a scoring has left, under the installed swebench.

    Raises:
        InfraError: swebench itself failed on it.
    """
    patch = submission.diff if isinstance(submission, Patch) else ""
    report = grade(make_test_spec(dict(instance.row)), log, model_patch=patch)
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


@dataclass(slots=True)
class SwebenchScorer:
    """Applies a patch and runs an instance's official tests, as the harness does."""

    sandboxes: Sandboxes
    limits: SandboxLimits
    grader: str = GRADER
    has_control: bool = True

    def place(self, instance: Instance) -> str:
        """See `pipeline.contracts.Scorer`."""
        return self.sandboxes.digest(instance)

    def idle(self, instance: Instance, seconds: float) -> str:
        """See `pipeline.contracts.Scorer`."""
        with self.sandboxes.open(instance) as sandbox:
            try:
                sandbox.run(["sleep", f"{seconds:.1f}"], timeout_seconds=seconds + 60)
            except InfraError as error:
                death = error.detail
            else:
                return ""
        # The daemon still starts one: it was the container that went.
        with self.sandboxes.open(instance):
            return death

    def score(
        self, attempt: Attempt, instance: Instance, submission: Submission | None, workdir: Path
    ) -> Verdict:
        """See `pipeline.contracts.Scorer`.

        Raises:
            InfraError: no container, it died, or swebench could not grade.
        """
        assert submission is None or isinstance(submission, Patch)
        if instance.row.get("image_assets") not in (None, "", "{}", {}):
            raise InfraError(Cause.GRADER, "rows with binary image_assets are not supported")
        started = time.monotonic()
        spec = make_test_spec(dict(instance.row))
        (workdir / "eval.sh").write_text(spec.eval_script, encoding="utf-8")
        with self.sandboxes.open(instance) as sandbox:
            # The empty control's patch changes nothing: the tests run on the tree as it is.
            patch = Patch.of(submission.diff) if submission else None
            if patch is not None and not self._apply(sandbox, patch, workdir):
                return Verdict(
                    finding=Finding.PATCH_REJECTED,
                    grader=self.grader,
                    evidence=Evidence(image_digest=sandbox.digest),
                    seconds=time.monotonic() - started,
                )
            sandbox.put(spec.eval_script.encode(), EVAL_FILE)
            raw = workdir / "output.raw"
            done = sandbox.run(
                ["/bin/bash", EVAL_FILE], timeout_seconds=self.limits.scoring_seconds, output=raw
            )
            digest = sandbox.digest
        return self._read(spec, submission, done, workdir, digest, started)

    def _apply(self, sandbox: Sandbox, patch: Patch, workdir: Path) -> bool:
        """The harness's sequence of apply commands, each on a tree that it resets."""
        content = patch.diff.encode("utf-8", "surrogateescape")
        (workdir / "patch.diff").write_bytes(content)
        sandbox.put(content, PATCH_FILE)
        said = []
        for number, command in enumerate(GIT_APPLY_CMDS):
            if number:
                self._run(sandbox, RESET)
            done = self._run(sandbox, [*command.split(), PATCH_FILE])
            said.append(f"$ {command}\n{done.output}")
            if done.returncode == 0:
                return True
        # The chain can leave the patch applied although each command failed.
        check = self._run(sandbox, ["git", "apply", "--check", "--reverse", PATCH_FILE])
        (workdir / "apply.log").write_text("\n".join(said), encoding="utf-8")
        return check.returncode == 0

    def _run(self, sandbox: Sandbox, command: list[str]) -> Completed:
        done = sandbox.run(command, timeout_seconds=PATCH_SECONDS)
        if done.timed_out:
            text = f"{' '.join(command[:3])} took more than {PATCH_SECONDS} s"
            raise InfraError(Cause.SANDBOX, text, died=True)
        return done

    def _read(
        self,
        spec: TestSpec,
        submission: Patch | None,
        done: Completed,
        workdir: Path,
        digest: str,
        started: float,
    ) -> Verdict:
        log = workdir / LOG_TEST_OUTPUT
        decode(workdir / "output.raw", log)
        (workdir / "output.raw").unlink()
        reasons = ("output over the size cap: its middle is left out",) if done.truncated else ()
        evidence = Evidence(exit_code=done.returncode, image_digest=digest, reasons=reasons)
        if done.timed_out:
            with log.open("a", encoding="utf-8") as file:
                file.write(f"\n\nTimeout error: {self.limits.scoring_seconds} seconds exceeded.")
            return Verdict(
                finding=Finding.TESTS_TIMED_OUT,
                grader=self.grader,
                evidence=evidence,
                seconds=time.monotonic() - started,
            )
        report = grade(spec, log, model_patch=submission.diff if submission else "")
        (workdir / "report.json").write_text(json.dumps({spec.instance_id: report}, indent=2))
        return verdict_of(report, evidence, seconds=time.monotonic() - started)
