"""Diagnose every attempt of a run that is blamed on the model; count, compare and keep it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd

from pipeline.diagnose.case import Case, Evidence
from pipeline.diagnose.patches import files_in
from pipeline.diagnose.rules import Mode, diagnosis, notes
from pipeline.domain import Attempt, Fault, Instance, Patch, Rollout, Snapshot, Tally, Verdict
from pipeline.ledger import Entry
from pipeline.outcomes import Blame, Outcome
from pipeline.results import AttemptRow, Results, read_steps
from pipeline.results.frame import Sheet
from pipeline.rundir import RunDir

Counts: TypeAlias = dict[str, Counter[str]]
"""Modes by a group's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Why one attempt that is blamed on the model failed."""

    instance_id: str
    attempt: int
    repo: str
    difficulty: str
    """As the dataset has it; empty: it has none."""
    mode: Mode
    evidence: Evidence
    files: tuple[str, ...]
    """That its patch touches."""
    gold: tuple[str, ...]
    notes: tuple[str, ...]
    """What else is known, or is not."""
    basis: int
    """Number of the ledger's row that the outcome rests on."""

    @property
    def text(self) -> str:
        return "; ".join([self.evidence.text, *self.notes])


def diagnose(results: Results, run: RunDir, instances: Mapping[str, Instance]) -> list[Diagnosis]:
    """Every attempt that is blamed on the model, in the order of the run.

    Raises:
        KeyError: one of their instances is not given.
    """
    return [
        diagnose_attempt(results, run, row, instances[row.instance_id])
        for row in results.rows
        if row.blame == Blame.MODEL
    ]


def diagnose_attempt(
    results: Results, run: RunDir, row: AttemptRow, instance: Instance
) -> Diagnosis:
    case = case_of(results, run, row, instance)
    mode, evidence = diagnosis(case)
    return Diagnosis(
        instance_id=row.instance_id,
        attempt=row.attempt,
        repo=row.repo,
        difficulty=instance.difficulty,
        mode=mode,
        evidence=evidence,
        files=case.files,
        gold=tuple(sorted(case.gold)),
        notes=tuple(notes(case)),
        basis=row.basis,
    )


def case_of(results: Results, run: RunDir, row: AttemptRow, instance: Instance) -> Case:
    """What the ledger, the run's files and the dataset's row say of one attempt."""
    attempt = Attempt(row.instance_id, row.attempt)
    entry = results.book.entry(attempt)
    rollout = entry.rollout
    done = rollout if isinstance(rollout, Rollout) else None
    submission = done.submission if done else None
    verdict = entry.verdict if isinstance(entry.verdict, Verdict) else None
    path = run.attempt(attempt, entry.rollouts[-1].try_number) / "steps.jsonl"
    steps = read_steps(path)
    cut = "its trajectory cannot be read" if path.exists() else "there is no trajectory"
    report = report_of(run.scoring(attempt.instance_id, attempt.number) / "report.json")
    fixed, kept = (verdict.fail_to_pass, verdict.pass_to_pass) if verdict else (Tally(), Tally())
    return Case(
        outcome=Outcome(row.outcome),
        stop=done.stop if done else None,
        patch=submission.diff if isinstance(submission, Patch) else "",
        gold=frozenset(files_in(str(instance.row.get("patch") or ""))),
        hidden=frozenset(files_in(str(instance.row.get("test_patch") or ""))),
        steps=steps,
        no_steps="" if steps else cut,
        fixed=fixed,
        kept=kept,
        unfixed=failing(report, "FAIL_TO_PASS", fixed),
        broken=failing(report, "PASS_TO_PASS", kept),
        doubts=verdict.evidence.reasons if verdict else (),
        death=death_of(entry),
        machine=isinstance(submission, Snapshot),
        reward=verdict.reward if verdict else None,
        scoring_seconds=int(results.plan.get("sandbox", {}).get("scoring_seconds", 0)),
    )


def death_of(entry: Entry) -> str:
    for value, when in ((entry.rollout, "while it worked"), (entry.verdict, "while it was scored")):
        if isinstance(value, Fault):
            return f"{when}: {value.detail}"
    return ""


def report_of(path: Path) -> Mapping[str, Any]:
    """The tests of a saved official report, by group; empty: there is none to read."""
    try:
        (report,) = json.loads(path.read_text(encoding="utf-8")).values()
        found = report["tests_status"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
    return found if isinstance(found, Mapping) else {}


def failing(report: Mapping[str, Any], group: str, tally: Tally) -> tuple[str, ...]:
    """Names of the tests that fail; none where the report is not of the verdict that counts."""
    tests = report.get(group)
    if not isinstance(tests, Mapping):
        return ()
    passed, failed = tests.get("success"), tests.get("failure")
    if not isinstance(passed, list) or not isinstance(failed, list):
        return ()
    same = Tally(len(passed), len(passed) + len(failed)) == tally
    return tuple(str(name) for name in failed) if same else ()


def counts(found: Iterable[Diagnosis]) -> dict[str, Counts]:
    """How often each mode came: in all, by repository and by difficulty."""
    tree: dict[str, Counts] = {"all": {}, "repo": {}, "difficulty": {}}
    for item in found:
        for by, group in (
            ("all", "all"),
            ("repo", item.repo),
            ("difficulty", item.difficulty or "unknown"),
        ):
            tree[by].setdefault(group, Counter())[item.mode.value] += 1
    return tree


DIFFICULTIES = ("<15 min fix", "15 min - 1 hour", "1-4 hours", ">4 hours")


def in_order(groups: Iterable[str]) -> list[str]:
    """Difficulties as they rise, anything else by its name."""
    known = {name: place for place, name in enumerate(DIFFICULTIES)}
    return sorted(groups, key=lambda group: (known.get(group, len(known)), group))


def modes_in(counters: Iterable[Mapping[str, int]]) -> list[str]:
    """The modes that came at all, in the order of the rules."""
    seen = {name for counter in counters for name, number in counter.items() if number}
    return [mode.value for mode in Mode if mode in seen]


def outlook(results: Results, found: Sequence[Diagnosis], instance_id: str) -> list[str]:
    """The modes of an instance's attempts; what has none says its outcome."""
    modes = modes_of(found)
    return [
        modes.get(Attempt(row.instance_id, row.attempt), row.outcome)
        for row in results.at(instance_id)
    ]


def differing(
    ours: tuple[Results, Sequence[Diagnosis]], theirs: tuple[Results, Sequence[Diagnosis]]
) -> list[tuple[str, list[str], list[str]]]:
    """Instances of both runs at which the modes differ, whatever the order of the attempts."""
    both = [id_ for id_ in ours[0].ids if id_ in set(theirs[0].ids)]
    pairs = [(id_, outlook(*ours, id_), outlook(*theirs, id_)) for id_ in both]
    known = {mode.value for mode in Mode}
    silent = {outcome.value for outcome in Outcome} - known | {"pending"}

    def modes(said: Sequence[str]) -> list[str]:
        return sorted("" if word in silent else word for word in said)

    return [(id_, one, other) for id_, one, other in pairs if modes(one) != modes(other)]


def record_of(item: Diagnosis) -> dict[str, Any]:
    """One attempt's, for a machine."""
    return {
        "instance": item.instance_id,
        "attempt": item.attempt,
        "repo": item.repo,
        "difficulty": item.difficulty,
        "mode": item.mode.value,
        "evidence": item.evidence.text,
        "notes": list(item.notes),
        "steps": list(item.evidence.steps),
        "files": list(item.files),
        "gold": list(item.gold),
        "tests": list(item.evidence.tests),
        "row": item.basis,
    }


def to_json(results: Results, found: Sequence[Diagnosis]) -> dict[str, Any]:
    """Everything that was found, for a machine and for the tables."""
    return {
        "run": results.name,
        "attempts": [record_of(item) for item in found],
        "counts": {
            by: {
                group: {mode: counter[mode] for mode in modes_in([counter])}
                for group, counter in ((group, groups[group]) for group in in_order(groups))
            }
            for by, groups in counts(found).items()
        },
    }


def keep(results: Results, run: RunDir, found: Sequence[Diagnosis]) -> None:
    """Where the tables look for it.

    Raises:
        UserError: the run cannot be written.
    """
    run.write(run.report / "diagnosis.json", to_text(results, found))


def to_text(results: Results, found: Sequence[Diagnosis]) -> str:
    """What is kept."""
    return json.dumps(to_json(results, found), indent=2) + "\n"


def modes_of(found: Iterable[Diagnosis]) -> dict[Attempt, str]:
    return {Attempt(item.instance_id, item.attempt): item.mode.value for item in found}


def kept(run: RunDir) -> dict[tuple[str, int, int], dict[str, Any]]:
    """What was kept, as `to_json` has it, by instance, attempt and the row that it rested on."""
    try:
        tree = json.loads((run.report / "diagnosis.json").read_text(encoding="utf-8"))
        return {
            (item["instance"], item["attempt"], item["row"]): item | {"mode": Mode(item["mode"])}
            for item in tree["attempts"]
        }
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def kept_modes(run: RunDir) -> dict[tuple[str, int, int], str]:
    return {key: item["mode"].value for key, item in kept(run).items()}


def with_modes(results: Results, run: RunDir) -> Results:
    """With the mode that was kept of each attempt, where its outcome still rests on that row."""
    modes = kept_modes(run)
    rows = [
        replace(row, diagnosis=modes.get((row.instance_id, row.attempt, row.basis), ""))
        if row.blame == Blame.MODEL
        else row
        for row in results.rows
    ]
    return replace(results, rows=rows)


def marked(sheet: Sheet, run: RunDir, found: Sequence[Diagnosis] | None = None) -> Sheet:
    """The same of a run that is read by the column.

    Args:
        found: what to mark it with; None: what was kept.
    """
    fresh = {(item.instance_id, item.attempt, item.basis): item.mode.value for item in found or ()}
    modes, frame = kept_modes(run) if found is None else fresh, sheet.frame
    models = frame["blame"] == Blame.MODEL.value
    keys = (frame.loc[models, name].tolist() for name in ("instance", "attempt", "basis"))
    some = pd.Series([modes.get(key, "") for key in zip(*keys, strict=True)], frame.index[models])
    words = pd.CategoricalDtype([*(mode.value for mode in Mode), ""])
    column = some.reindex(frame.index, fill_value="").astype(words)
    return replace(sheet, frame=frame.assign(diagnosis=column))
