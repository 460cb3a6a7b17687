"""What a patch does to the tests that a repository has: those that everybody can see.

The evaluation script of an instance says how its tests are run. It runs here without the test
patch, and on other files: not those that the hidden tests are in because they are, but those
that stand nearest to what the patches change. Each file is first brought back to the base
commit, so that no patch is judged by tests of its own.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

from pipeline.benchmarks.bench import OfficialBench, Task
from pipeline.benchmarks.canary import START, files_of
from pipeline.benchmarks.grading import (
    APPLY_COMMANDS,
    GRADER,
    LOG,
    Spec,
    all_statuses_of,
    spec_of,
)
from pipeline.contracts import Sandbox, Sandboxes
from pipeline.domain import Cause, Evidence, Instance, Patch, SandboxLimits, Verdict
from pipeline.outcomes import InfraError

END = ": '>>>>> End Test Output'"
HEREDOC = re.compile(r"^git apply .*<<'(EOF_\w+)'\n.*?^\1\n", re.MULTILINE | re.DOTALL)
CHECKOUT = re.compile(r"^git checkout \w+ .*\n", re.MULTILINE)
TEST = re.compile(r"(test_.+|.+_tests?|tests)\.py")
MOST = 8
"""Files of tests: the nearest."""
LIST_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Visible:
    """Runs visible tests of instances in containers of their own."""

    sandboxes: Sandboxes
    limits: SandboxLimits

    def near(self, instance: Instance, changed: Collection[str], workdir: Path) -> tuple[str, ...]:
        """The test files at the base commit that stand nearest to some files.

        Empty where none does, or where the instance's script names no files.

        Raises:
            InfraError: no container, or one died.
        """
        if command_of(spec_of(instance), ("x",)) is None:
            return ()
        with self.sandboxes.open(instance) as sandbox:
            files = listed(sandbox, str(instance.row["base_commit"]), workdir / "files.txt")
        return nearest(files, changed)

    def shown(
        self, instance: Instance, tests: Sequence[str], patch: Patch | None, workdir: Path
    ) -> Mapping[str, bool] | None:
        """Each test that ran, and whether it passed; None: they came to no end.

        Raises:
            InfraError: no container, or swebench could not read the log; `died`: perhaps by the
                patch.
        """
        spec = spec_of(instance)
        script = script_of(spec, str(instance.row["base_commit"]), tests)
        task = Task(
            script=script,
            test_patch="",
            mattering=(),
            log=LOG,
            apply_commands=APPLY_COMMANDS,
            grade=unread,
            statuses=partial(all_statuses_of, spec),
        )
        with self.sandboxes.open(instance) as sandbox:
            bench = OfficialBench(task, sandbox, workdir, self.limits, GRADER)
            if patch is not None and not bench.apply(patch):
                return None
            return bench.observed()


def unread(log: Path, evidence: Evidence, seconds: float) -> Verdict:
    raise AssertionError("what is only looked at has no verdict")


def script_of(spec: Spec, base: str, tests: Sequence[str]) -> str:
    """The evaluation script without the test patch, on other files of tests.

    Raises:
        InfraError: it does not name its files in a way that is known.
    """
    command = command_of(spec, tests)
    if command is None:
        raise InfraError(Cause.INSTANCE, "its evaluation script does not name its test files")
    before = spec.eval_script.partition(START)[0]
    before = CHECKOUT.sub("", HEREDOC.sub("", before))
    reset = f"git checkout {base} -- {shlex.join(tests)}"
    return "\n".join([before.rstrip(), reset, START, command, END, ""])


def command_of(spec: Spec, tests: Sequence[str]) -> str | None:
    """The line that runs its tests, on others; None where it does not name files."""
    section = spec.eval_script.partition(START)[2].partition(END)[0]
    hidden = files_of(spec.eval_script)
    for named in NAMING:
        own = {named(path) for path in hidden}
        for line in section.splitlines():
            words = [word for word in line.split(" ") if word not in own]
            if len(words) < len(line.split(" ")):
                return " ".join([*words, *(shlex.quote(named(path)) for path in tests)])
    return None


def module_of(path: str) -> str:
    """`tests.test_forms` of `tests/test_forms.py`, as unittest wants it."""
    return path.removesuffix(".py").replace("/", ".")


def label_of(path: str) -> str:
    """`auth_tests.test_forms` of `tests/auth_tests/test_forms.py`, as Django's runner wants it."""
    return module_of(path.removeprefix("tests/"))


NAMING: tuple[Callable[[str], str], ...] = (str, module_of, label_of)
"""How a runner's command names files of tests."""


def listed(sandbox: Sandbox, base: str, output: Path) -> list[str]:
    """The files of the base commit. Raises InfraError: git cannot say, or the container died."""
    command = ["git", "ls-tree", "-r", "--name-only", "-z", base]
    done = sandbox.run(command, timeout_seconds=LIST_SECONDS, output=output)
    if done.returncode:
        said = done.output.strip().rpartition("\n")[2]
        raise InfraError(Cause.INSTANCE, f"its files cannot be listed: {said}")
    return [name for name in output.read_text(errors="replace").split("\0") if name]


def nearest(files: Iterable[str], changed: Collection[str], most: int = MOST) -> tuple[str, ...]:
    """Test files in the order of how near they stand to what is changed; far ones not at all."""
    paths = [PurePosixPath(path) for path in changed]
    sources = [path for path in paths if path.suffix == ".py" and not TEST.fullmatch(path.name)]
    ranked = []
    for name in files:
        path = PurePosixPath(name)
        if path.suffix != ".py" or not TEST.fullmatch(path.name):
            continue
        near = max((nearness(path, source) for source in sources), default=(0, 0))
        if near[0]:
            ranked.append((near, name))
    ranked.sort(key=lambda item: (-item[0][0], -item[0][1], item[1]))
    return tuple(sorted(name for _, name in ranked[:most]))


def nearness(test: PurePosixPath, source: PurePosixPath) -> tuple[int, int]:
    """How much a test's name or place says that it is of a source; 0: nothing.

    3: its name. 2: a folder of its own. 1: it stands in the folder of tests of the same package.
    """
    common = sum(1 for a, b in zip(test.parts, source.parts, strict=False) if a == b)
    stem = re.sub(r"^tests?_|_tests?$", "", test.stem)
    own = source.parent.name if source.stem == "__init__" else source.stem
    if stem == own:
        return 3, common
    if own in test.parent.name.split("_"):
        return 2, common
    beside = test.parent.name in ("tests", "test") and test.parent.parent == source.parent
    return (1, common) if beside and common else (0, 0)
