"""The border of the second stage: a verdict or a fault out, and gold that is kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event

import pytest

from pipeline.domain import (
    Attempt,
    Cause,
    Fault,
    Instance,
    Patch,
    SandboxLimits,
    Submission,
    Verdict,
)
from pipeline.outcomes import InfraError
from pipeline.rundir import RunDir
from pipeline.scorer import Scoring
from pipeline.verdicts import GoldStore
from tests.fakes import DIGEST, RESOLVED, UNRESOLVED

GOLD = Patch("diff --git a/gold b/gold\n")
OTHER = Patch("diff --git a/other b/other\n")
INSTANCE = Instance(id="a", stratum="a/repo", prompt="p", image="i", row={"patch": GOLD.diff})


@dataclass
class Graded:
    """A scorer that says what it is told to."""

    says: Verdict | Exception
    grader: str = "fake 1"
    has_control: bool = True
    asked: list[tuple[Attempt, Submission | None]] = field(default_factory=list)

    def score(
        self, attempt: Attempt, instance: Instance, submission: Submission | None, workdir: Path
    ) -> Verdict:
        self.asked.append((attempt, submission))
        (workdir / "test_output.txt").write_text("ran\n")
        if isinstance(self.says, Exception):
            raise self.says
        return self.says


@pytest.fixture
def stage(tmp_path: Path) -> Callable[..., Scoring]:
    def make(says: Verdict | Exception, *, cancelled: bool = False) -> Scoring:
        stop = Event()
        if cancelled:
            stop.set()
        return Scoring(
            run=RunDir(tmp_path / "run"),
            instances={"a": INSTANCE},
            scorer=Graded(says),
            gold_patch=lambda instance: GOLD,
            store=GoldStore(
                root=tmp_path / "cache", grader="fake 1", sandbox="docker", limits=SandboxLimits()
            ),
            cancelled=stop,
        )

    return make


def test_gold_that_passes_is_kept_for_this_image_and_says_so(
    stage: Callable[..., Scoring],
) -> None:
    assert stage(RESOLVED).gold("a") == RESOLVED
    kept = stage(RESOLVED).kept_gold("a", DIGEST)
    assert kept is not None
    assert kept.evidence.reasons == ("kept from an earlier scoring",)
    assert replace(kept, evidence=RESOLVED.evidence) == RESOLVED
    assert stage(RESOLVED).kept_gold("a", "sha256:another") is None


@pytest.mark.parametrize("says", [UNRESOLVED, InfraError(Cause.IMAGE, "gone")])
def test_gold_that_does_not_pass_is_not_kept(
    says: Verdict | Exception, stage: Callable[..., Scoring]
) -> None:
    stage(says).gold("a")
    assert stage(RESOLVED).kept_gold("a", DIGEST) is None


@pytest.mark.parametrize(("submission", "kept"), [(GOLD, True), (OTHER, False), (None, False)])
def test_a_submission_that_is_gold_counts_as_gold(
    submission: Patch | None, kept: bool, stage: Callable[..., Scoring]
) -> None:
    stage(RESOLVED).score(Attempt("a", 1), submission)
    assert (stage(RESOLVED).kept_gold("a", DIGEST) is not None) == kept


@pytest.mark.parametrize(
    ("error", "cause", "died"),
    [
        (InfraError(Cause.SANDBOX, "the container died", died=True), Cause.SANDBOX, True),
        (OSError(28, "No space left on device"), Cause.DISK, False),
        (KeyError("ours"), Cause.UNKNOWN, False),
    ],
)
def test_whatever_breaks_is_a_fault_and_its_logs_stay(
    error: Exception, cause: Cause, died: bool, stage: Callable[..., Scoring], tmp_path: Path
) -> None:
    value = stage(error).score(Attempt("a", 2), OTHER)
    assert isinstance(value, Fault)
    assert (value.cause, value.died) == (cause, died)
    assert (tmp_path / "run" / "scoring" / "a" / "2" / "test_output.txt").read_text() == "ran\n"


def test_a_scoring_that_we_cut_off_leaves_nothing_in_place(
    stage: Callable[..., Scoring], tmp_path: Path
) -> None:
    stage(RESOLVED, cancelled=True).score(Attempt("a", 1), OTHER)
    assert not (tmp_path / "run" / "scoring").exists()
