"""One container of an instance: apply a patch, run the official tests, and tests that must fail."""

from __future__ import annotations

import codecs
import hashlib
import mmap
import secrets
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

from pipeline.benchmarks import answers, canary
from pipeline.benchmarks.cases import Planted, written
from pipeline.benchmarks.originals import originals
from pipeline.benchmarks.scrutiny import Canary, Kind
from pipeline.benchmarks.signs import created
from pipeline.contracts import Sandbox
from pipeline.domain import Cause, Evidence, Finding, Patch, SandboxLimits, Verdict
from pipeline.outcomes import InfraError
from pipeline.process import Completed

TREE = "/testbed"
PATCH_FILE = "/tmp/patch.diff"
EVAL_FILE = "/eval.sh"
CANARY_FILE = "/canary.sh"
ARGUMENT_BYTES = 100_000
"""What Linux takes as one argument, and something to spare."""
MARKS = (b">>>>> Start Test Output", b">>>>> End Test Output")
CANARY_LOG = "canary_output.txt"
PATCH_SECONDS = 300
PREPARATION_SECONDS = 900
"""It installs what the evaluation script installs."""
RESET = ["/bin/bash", "-c", "git checkout -- . ; git clean -fd"]
PLANT: Mapping[Kind, Callable[..., Planted | None]] = {
    Kind.AT_START: partial(canary.plant, early=True),
    Kind.AT_END: canary.plant,
    Kind.OTHER_ANSWERS: answers.other_answers,
}
FORGET = f"""\
set -e
git config --global --add safe.directory {TREE}
git clone -q --bare --no-local --no-tags {TREE} /tmp/present.git
cd {TREE}
mv .git /tmp/past.git
mkdir .git
mv /tmp/present.git/* .git
cp /tmp/past.git/index .git/index
git rev-parse -q --verify HEAD || cp /tmp/past.git/HEAD .git/HEAD
git config core.bare false
mine=$(git symbolic-ref -q HEAD || true)
git for-each-ref --format='%(refname)' | grep -vxF "$mine" | xargs -r -n 1 git update-ref -d
git repack -q -a -d
rm -rf /tmp/past.git
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What a benchmark has written down about an instance, and how it reads a log."""

    script: str
    test_patch: str
    mattering: Sequence[str]
    """FAIL_TO_PASS."""
    log: str
    """The official name of its log."""
    apply_commands: Sequence[str]
    grade: Callable[[Path, Evidence, float], Verdict]
    """The verdict of a log, with our evidence and the seconds it took.

    Raises:
        InfraError: the grader failed on it.
    """
    statuses: Callable[[Path], Mapping[str, bool]]
    """Each of its tests that a log has, and whether it passed."""


@dataclass(slots=True)
class OfficialBench:
    """See `pipeline.benchmarks.scrutiny.Bench`. Every method raises InfraError."""

    task: Task
    sandbox: Sandbox
    workdir: Path
    limits: SandboxLimits
    grader: str
    spent_seconds: float = 0.0
    """By the tests."""

    def apply(self, patch: Patch) -> bool:
        """The harness's sequence of apply commands, each on a tree that it resets."""
        content = patch.diff.encode("utf-8", "surrogateescape")
        (self.workdir / "patch.diff").write_bytes(content)
        self.sandbox.put(content, PATCH_FILE)
        said = []
        for number, command in enumerate(self.task.apply_commands):
            if number:
                self._run(RESET)
            done = self._run([*command.split(), PATCH_FILE])
            said.append(f"$ {command}\n{done.output}")
            if done.returncode == 0:
                return True
        # The chain can leave the patch applied although each command failed.
        check = self._run(["git", "apply", "--check", "--reverse", PATCH_FILE])
        (self.workdir / "apply.log").write_text("\n".join(said), encoding="utf-8")
        return check.returncode == 0

    def tests(self) -> Verdict:
        """The evaluation script, under the official grader."""
        return self._graded(self.task.script)

    def tests_alone(self, *, reworded: bool) -> Verdict:
        """See `pipeline.benchmarks.scrutiny.Bench`."""
        self._script(self._preparation(again=False), "preparation.txt", PREPARATION_SECONDS)
        for path in canary.files_of(self.task.test_patch) if reworded else ():
            mark = f"_{secrets.token_hex(8)}"
            other = written(partial(answers.other_words, mark=mark), self._content(path))
            if other is not None:
                self.sandbox.put(other, str(PurePosixPath(TREE, path)))
        # It may hold the test patch, for whoever wants to know the answers.
        self.sandbox.put(b"", CANARY_FILE)
        return self._graded(canary.execution(self.task.script))

    def _graded(self, script: str) -> Verdict:
        started = time.monotonic()
        (self.workdir / "eval.sh").write_text(script, encoding="utf-8")
        self.sandbox.put(script.encode(), EVAL_FILE)
        done = self._logged(["/bin/bash", EVAL_FILE], self.task.log, self.limits.scoring_seconds)
        self.spent_seconds = time.monotonic() - started
        log = self.workdir / self.task.log
        reasons = ("output over the size cap: its middle is left out",) if done.truncated else ()
        evidence = Evidence(
            exit_code=done.returncode, image_digest=self.sandbox.digest, reasons=reasons
        )
        if done.timed_out:
            with log.open("a", encoding="utf-8") as file:
                file.write(f"\n\nTimeout error: {self.limits.scoring_seconds} seconds exceeded.")
            return Verdict(
                finding=Finding.TESTS_TIMED_OUT,
                grader=self.grader,
                evidence=evidence,
                seconds=self.spent_seconds,
            )
        return self.task.grade(log, evidence, self.spent_seconds)

    def observed(self) -> Mapping[str, bool] | None:
        """Each test that the script ran, and whether it passed; None: its time was over."""
        self.sandbox.put(self.task.script.encode(), EVAL_FILE)
        done = self._logged(["/bin/bash", EVAL_FILE], self.task.log, self.limits.scoring_seconds)
        return None if done.timed_out else self.task.statuses(self.workdir / self.task.log)

    def early(self) -> Mapping[str, Planted | None] | None:
        """See `pipeline.benchmarks.scrutiny.Bench`."""
        contents = originals(self.task.test_patch, self._content)
        return None if contents is None else self._planted(Kind.AT_START, contents)

    def canary(
        self, kind: Kind, *, again: bool, ready: Mapping[str, Planted | None] | None = None
    ) -> Canary:
        """See `pipeline.benchmarks.scrutiny.Bench`.

        Args:
            ready: the files to run; None: they are made here, of what stands in the container.
        """
        task, files = self.task, None
        limit = PREPARATION_SECONDS if not again else 60 + 2 * self.spent_seconds
        try:
            if ready is None:
                self._script(self._preparation(again=again), "canary_preparation.txt", limit)
                contents = {path: self._content(path) for path in canary.files_of(task.test_patch)}
                files = {path: digest_of(content) for path, content in contents.items()}
                ready = self._planted(kind, contents)
            names = self._lay(ready)
            if not names:
                return Canary(immune=frozenset(), failed=0, files=files)
            self._script(canary.execution(task.script), CANARY_LOG, limit)
        except InfraError as error:
            # What the patch may have done itself must not excuse it: it fails to fail.
            if not error.fault.died:
                raise
            return Canary(immune=frozenset(), failed=0)
        statuses = task.statuses(self.workdir / CANARY_LOG)
        planted = {test: ok for test, ok in statuses.items() if canary.concerns(test, names)}
        return Canary(
            immune=frozenset(test for test, ok in planted.items() if ok),
            failed=sum(not ok for ok in planted.values()),
            files=files,
        )

    def files(self) -> Mapping[str, str]:
        """See `pipeline.benchmarks.scrutiny.Bench`."""
        self._script(self._preparation(again=True), "canary_preparation.txt", PREPARATION_SECONDS)
        paths = canary.files_of(self.task.test_patch)
        return {path: digest_of(self._content(path)) for path in paths}

    def restore(self, paths: Sequence[str]) -> None:
        """See `pipeline.benchmarks.scrutiny.Bench`."""
        for path in paths:
            if self._run(["git", "cat-file", "-e", f"HEAD:{path}"]).returncode == 0:
                self._run(["git", "checkout", "HEAD", "--", path])
                continue
            # A patch has named it: git goes nowhere outside the tree.
            self._run(["git", "rm", "-rqf", "--ignore-unmatch", "--", path])
            self._run(["git", "clean", "-fdxq", "--", path])

    def forget_history(self) -> None:
        """See `pipeline.benchmarks.scrutiny.Bench`."""
        done = self._run(["/bin/bash", "-c", FORGET])
        if done.returncode:
            said = done.output.strip().rpartition("\n")[2]
            text = f"later history could not be taken away: {said}"
            raise InfraError(Cause.SANDBOX, text, died=True)

    def _preparation(self, *, again: bool) -> str:
        script = canary.preparation(self.task.script, again=again)
        # What the test patch adds is still there: nothing reverts that.
        new = [str(PurePosixPath(TREE, path)) for path in sorted(created(self.task.test_patch))]
        return f"rm -f {shlex.join(new)}\n{script}" if new and again else script

    def _content(self, path: str) -> bytes | None:
        return self.sandbox.get(str(PurePosixPath(TREE, path)))

    def _planted(
        self, kind: Kind, contents: Mapping[str, bytes | None]
    ) -> Mapping[str, Planted | None]:
        """Files with tests that must fail; None for one in which none can be made to."""
        plant = partial(PLANT[kind], wanted=canary.words_of(self.task.mattering))
        return {path: written(plant, content) for path, content in contents.items()}

    def _lay(self, ready: Mapping[str, Planted | None]) -> set[str]:
        """Put them in place of the real ones; the names of their tests."""
        names: set[str] = set()
        for path, planted in ready.items():
            if planted is not None:
                self.sandbox.put(planted.source, str(PurePosixPath(TREE, path)))
                names |= planted.names
        return names

    def _script(self, script: str, log: str, seconds: float) -> None:
        """Run a script of ours; over its time, it has died."""
        command = ["/bin/bash", "-c", script]
        if len(script.encode()) > ARGUMENT_BYTES:
            self.sandbox.put(script.encode(), CANARY_FILE)
            command = ["/bin/bash", CANARY_FILE]
        done = self._logged(command, log, seconds)
        if done.timed_out:
            raise InfraError(Cause.SANDBOX, f"{log} took more than {seconds:.0f} s", died=True)

    def _logged(self, command: Sequence[str], log: str, seconds: float) -> Completed:
        raw = self.workdir / "output.raw"
        done = self.sandbox.run(command, timeout_seconds=seconds, output=raw)
        decode(raw, self.workdir / log)
        raw.unlink()
        return done

    def _run(self, command: list[str]) -> Completed:
        done = self.sandbox.run(command, timeout_seconds=PATCH_SECONDS)
        if done.timed_out:
            text = f"{' '.join(command[:3])} took more than {PATCH_SECONDS} s"
            raise InfraError(Cause.SANDBOX, text, died=True)
        return done


def starts_again(log: Path) -> bool:
    """Whether a log says twice that its tests start or end: its parser goes by one of them."""
    if not log.stat().st_size:
        return False
    with log.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        return any(0 <= text.find(mark) < text.rfind(mark) for mark in MARKS)


def digest_of(content: bytes | None) -> str:
    return "" if content is None else hashlib.sha256(content).hexdigest()


def decode(source: Path, target: Path) -> None:
    """Copy a log, replacing what is not UTF-8, in constant memory."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    with source.open("rb") as raw, target.open("w", encoding="utf-8", newline="") as text:
        while chunk := raw.read(1 << 20):
            text.write(decoder.decode(chunk))
        text.write(decoder.decode(b"", final=True))
