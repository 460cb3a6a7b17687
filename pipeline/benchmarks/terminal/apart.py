"""Grade again what passed, where it may be the agent that has passed and not its work.

Two looks. Where an agent has changed what tests run with (`signs`), they run once more in a
container of what it left in which that is the image's again. And tests in Python run once
more so that they must fail: whatever still earns the same reward is not earned by them. Each
is held against the reference solution, which has to keep its reward, or lose it, in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from pipeline.benchmarks.canary import plant
from pipeline.benchmarks.terminal.signs import named
from pipeline.benchmarks.terminal.tasks import Verifier
from pipeline.docker.changes import Change
from pipeline.domain import Finding, Snapshot, Verdict
from pipeline.wording import count

TESTS = re.compile(r"(test_.+|.+_test|tests)\.py")
"""What pytest collects, and a usual name for the same."""
EACH = re.compile(rb"^\s*(?:async\s+)?def\s+(test\w*)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """In what one grading differs from the plain one."""

    without: Collection[Change] = ()
    """What is as the image has it again."""
    planted: Mapping[str, bytes] = field(default_factory=dict)
    """Tests in place of others, by the name of their file."""


@dataclass(frozen=True, slots=True)
class Apart:
    """The further looks at one submission."""

    grade: Callable[[Snapshot, Terms, str], Verdict]
    """By what differs, and a name for its logs."""
    bearing: Callable[[Snapshot], Collection[Change]]
    """The signs of a submission."""
    oracle: Callable[[], Snapshot | None]
    """What the reference solution leaves; None: there is none, or it comes to no end."""

    def believed(self, verdict: Verdict, snapshot: Snapshot, verifier: Verifier) -> Verdict:
        """The same verdict, if nothing speaks against it; else with what does.

        Raises:
            InfraError: no container, or one died.
        """
        if not verdict.reward:
            return verdict
        checked = []
        for look in (self._put_back, self._made_to_fail):
            against, said = look(verdict, snapshot, verifier)
            if against is not None:
                return doubted(verdict, against, said)
            checked += [said] if said else []
        evidence = replace(verdict.evidence, checked=(*verdict.evidence.checked, *checked))
        return replace(verdict, evidence=evidence)

    def _put_back(
        self, verdict: Verdict, snapshot: Snapshot, verifier: Verifier
    ) -> tuple[float | None, str]:
        """The smaller reward where it is the agent's changes that earn it; None: it is not."""
        found = self.bearing(snapshot)
        if not found:
            return None, ""
        terms, most = Terms(without=found), 0.0
        # Twice: tests may flicker.
        for label in ("apart-1", "apart-2"):
            most = max(most, self.grade(snapshot, terms, label).reward or 0.0)
            if most >= (verdict.reward or 0.0):
                return None, f"the same reward without its {named(found)}"
        if self._oracle_keeps(self.bearing):
            return most, f"reward {most:g} without its {named(found)}"
        return None, f"reward {most:g} without its {named(found)}, as with the reference solution"

    def _oracle_keeps(self, bearing: Callable[[Snapshot], Collection[Change]]) -> bool:
        """Whether the reference solution passes where its changes are put back as well."""
        gold = self.oracle()
        if gold is None:
            return False
        graded = self.grade(gold, Terms(without=bearing(gold)), "oracle-apart")
        return graded.finding is Finding.RESOLVED

    def _made_to_fail(
        self, verdict: Verdict, snapshot: Snapshot, verifier: Verifier
    ) -> tuple[float | None, str]:
        """0 where tests that must fail earn as much; None: they do not, or there are none."""
        planted = failing(verifier)
        if not planted:
            return None, ""
        terms = Terms(planted=planted)
        immune = (self.grade(snapshot, terms, "must-fail").reward or 0.0) >= (verdict.reward or 0.0)
        files = count(len(planted), "file")
        if not immune:
            return None, f"{files} of tests that must fail {'does' if len(planted) == 1 else 'do'}"
        gold = self.oracle()
        if gold is None or self.grade(gold, terms, "oracle-must-fail").reward:
            return None, f"the tests of {files} could not be made to fail"
        return 0.0, f"reward {verdict.reward:g} where all tests of {files} must fail"


def failing(verifier: Verifier) -> dict[str, bytes]:
    """The Python tests of a task, made to fail at their ends, by the names of their files."""
    found = {}
    for folder in verifier.folders:
        for path in sorted(folder.rglob("*.py")) if folder.is_dir() else ():
            if not TESTS.fullmatch(path.name):
                continue
            content = path.read_bytes()
            wanted = {name.decode() for name in EACH.findall(content)}
            if wanted and (made := plant(content, wanted)):
                found[path.name] = made.source
    return found


def doubted(verdict: Verdict, reward: float, why: str) -> Verdict:
    """Contested if it resolved; a fraction comes down to what can be believed of it."""
    evidence = replace(
        verdict.evidence,
        tampered=verdict.finding is Finding.RESOLVED,
        reasons=(*verdict.evidence.reasons, why),
    )
    kept = verdict.reward if verdict.finding is Finding.RESOLVED else reward
    return replace(verdict, evidence=evidence, reward=kept)
