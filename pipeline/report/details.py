"""All that the page of one attempt shows, and what the attempts at one instance share."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from pipeline import diagnose
from pipeline.diagnose.trajectory import edits_in
from pipeline.domain import Attempt, Instance, Patch, Rollout, Step, Stop, Verdict
from pipeline.evidence import attempt_lines, control_lines, needs_evidence
from pipeline.ledger import Entry
from pipeline.outcomes import Blame
from pipeline.report.kept import kept_files
from pipeline.report.level import Level
from pipeline.report.logs import named_tests
from pipeline.report.texts import cut, lines_of, patch_text
from pipeline.report.tries import scoring_record, try_record
from pipeline.results import AttemptRow, Results, read_steps
from pipeline.rundir import RunDir

Record: TypeAlias = dict[str, Any]
TESTING = re.compile(
    r"\b(?:pytest|py\.test|unittest|nosetests?|tox|runtests\.py|bin/test|trial)\b"
    r"|\bmanage\.py\s+test\b|\bsetup\.py\s+test\b|\bmake\s+test\b|\bsympy\.test\("
)
SEARCHED = 10_000
"""Characters of an action that are looked through."""


@dataclass(slots=True, kw_only=True)
class Source:
    """One run, with all that is known beside its ledger."""

    run: RunDir
    results: Results
    instances: Mapping[str, Instance] = field(default_factory=dict)
    """Empty: the dataset is not at hand, and with it gold and the issues."""
    modes: dict[Attempt, Record] = field(default_factory=dict)
    """Diagnoses, as `pipeline.diagnose.record_of` has them."""
    signs: dict[Attempt, list[Record]] = field(default_factory=dict)
    """What an audit found."""
    tests: dict[str, dict[str, int]] = field(default_factory=dict)
    """By instance, the names of tests and their numbers."""

    def entry(self, attempt: Attempt) -> Entry:
        return self.results.book.entry(attempt)

    def diagnosed(self) -> dict[tuple[str, int, int], Record]:
        """By instance, attempt and the row that it rested on, as `diagnose.kept` has it."""
        rows = ((row, Attempt(row.instance_id, row.attempt)) for row in self.results.rows)
        return {
            (row.instance_id, row.attempt, row.basis): self.modes[attempt]
            for row, attempt in rows
            if attempt in self.modes
        }

    def names(self, instance_id: str, new: Iterable[str]) -> dict[str, int]:
        """Numbers for the names of an instance's tests; every name has one."""
        known = self.tests.setdefault(instance_id, {})
        for name in new:
            known.setdefault(name, len(known))
        return known


def source_of(
    run: RunDir,
    results: Results,
    instances: Mapping[str, Instance],
    before: Source | None = None,
) -> Source:
    """A run with its diagnosis, made where it was not kept, and with its audit if there is one.

    Args:
        before: the same run some time ago: what was diagnosed then stands.
    """
    source = Source(run=run, results=results, instances=instances)
    kept = {**(before.diagnosed() if before else {}), **diagnose.kept(run)}
    for row in results.rows:
        if row.blame != Blame.MODEL:
            continue
        attempt = Attempt(row.instance_id, row.attempt)
        if found := kept.get((row.instance_id, row.attempt, row.basis)):
            source.modes[attempt] = found
        elif instance := instances.get(row.instance_id):
            fresh = diagnose.diagnose_attempt(results, run, row, instance)
            source.modes[attempt] = diagnose.record_of(fresh)
    try:
        tree = json.loads((run.report / "audit.json").read_text(encoding="utf-8"))
        for sign in tree["signs"]:
            attempt = Attempt(sign["instance"], sign["attempt"])
            source.signs.setdefault(attempt, []).append(sign)
    except (OSError, ValueError, KeyError, TypeError):
        source.signs = {}
    return source


def instance_record(source: Source, instance_id: str) -> Record:
    """What the attempts at one instance share."""
    instance = source.instances.get(instance_id)
    row = instance.row if instance else {}
    return {
        "issue": cut(instance.prompt, head=20_000) if instance else "",
        "gold": patch_text(str(row.get("patch") or "")),
        "test_patch": patch_text(str(row.get("test_patch") or "")),
        "base": str(row.get("base_commit") or ""),
        "tests": list(source.tests.get(instance_id, ())),
        "controls": control_lines(source.results, instance_id),
        "grounds": source.results.grounds(instance_id),
    }


def attempt_record(source: Source, row: AttemptRow, level: Level) -> Record:
    """One attempt."""
    attempt = Attempt(row.instance_id, row.attempt)
    entry = source.entry(attempt)
    rollout, verdict = entry.rollout, entry.verdict
    submission = rollout.submission if isinstance(rollout, Rollout) else None
    record: Record = {
        "patch": patch_text(submission.diff) if isinstance(submission, Patch) else "",
        "snapshot": getattr(submission, "image", ""),
        "tries": [try_record(source.run, one) for one in entry.rollouts],
        "scorings": [scoring_record(one.value) for one in entry.verdicts],
        "evidence": [],
        "diagnosis": source.modes.get(attempt),
        "audit": source.signs.get(attempt, []),
        "drift": row.drift,
        "detail": cut(row.detail) if row.blame in (Blame.INFRA, Blame.AMBIGUOUS) else "",
        "kept": kept_files(source.run, attempt, entry),
    }
    if rollout is not None and needs_evidence(source.results, row):
        record["evidence"] = attempt_lines(source.results, row)
    if isinstance(verdict, Verdict):
        record["tests"] = tests_record(source, attempt)
        if record["tests"] is None:
            record |= bare_record(source.run.scoring(attempt.instance_id, attempt.number))
    if level is Level.WHOLE:
        record |= trajectory(source.run, attempt, entry)
    return record


def tests_record(source: Source, attempt: Attempt) -> Record | None:
    """Tests by name; None: no official report of this verdict was kept."""
    place = source.run.scoring(attempt.instance_id, attempt.number)
    report = diagnose.report_of(place / "report.json")
    if not report:
        return None
    new = [
        str(name)
        for group in ("FAIL_TO_PASS", "PASS_TO_PASS")
        for word in ("failure", "success")
        for name in (report.get(group) or {}).get(word) or ()
    ]
    names = source.names(attempt.instance_id, new)
    where = f"scoring/{attempt.instance_id}/{attempt.number}/test_output.txt"
    return named_tests(report, place / "test_output.txt", names) | {"log": where}


def bare_record(place: Path) -> Record:
    """Of tests without an official report: what they printed, and the numbers that they left.

    Returns:
        `output`: empty where no log was kept; `numbers`: by name.
    """
    printed = "\n".join(line for _, line in lines_of(place / "test_output.txt"))
    try:
        named = json.loads((place / "rewards.json").read_text(encoding="utf-8"))["named"]
        numbers = {str(name): float(number) for name, number in named.items()}
    except (OSError, ArithmeticError, ValueError, KeyError, TypeError, AttributeError):
        numbers = {}
    numbers = {name: number for name, number in numbers.items() if math.isfinite(number)}
    return {"output": cut(printed.strip(), head=1_500, tail=4_500), "numbers": numbers}


def trajectory(run: RunDir, attempt: Attempt, entry: Entry) -> Record:
    """The steps of the try that the outcome rests on, and the places in them to jump to.

    Texts that come again and again stand once, in `texts`; a step is three numbers and seconds.
    """
    if not entry.rollouts:
        return {"no_steps": "no try is over yet"}
    path = run.attempt(attempt, entry.rollouts[-1].try_number) / "steps.jsonl"
    steps = read_steps(path)
    if steps is None:
        there = path.exists()
        return {"no_steps": "its trajectory cannot be read" if there else "there is no trajectory"}
    texts: dict[str, int] = {}
    rows = [
        [*(texts.setdefault(text, len(texts)) for text in parts_of(step)), step.seconds]
        for step in steps
    ]
    rollout = entry.rollout
    submitted = isinstance(rollout, Rollout) and rollout.stop is Stop.SUBMITTED
    return {
        "texts": [cut(text) for text in texts],
        "steps": rows,
        "marks": {
            "edits": edits_in(steps),
            "tests": tests_in(steps),
            "submission": len(steps) if submitted else None,
        },
    }


def parts_of(step: Step) -> Sequence[str]:
    return (step.thought, step.action, step.observation)


def tests_in(steps: Sequence[Step]) -> list[int]:
    """Numbers of the steps that seem to run tests, from 1."""
    return [n for n, step in enumerate(steps, 1) if TESTING.search(step.action[:SEARCHED])]
