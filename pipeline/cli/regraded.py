"""Work the verdicts of a run out again, from what its tests left."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from pipeline.bundle import Check
    from pipeline.cli.regrade import Log
    from pipeline.domain import Instance, Verdict
    from pipeline.results import Results
    from pipeline.rundir import RunDir

Pair: TypeAlias = tuple[str, Any, Any]
"""(place, what stands there, what was recomputed)."""


def verdict_checks(
    run: RunDir,
    results: Results,
    instances: Mapping[str, Instance],
    *,
    by_log: bool,
) -> Iterator[Check]:
    """Findings and tallies, attempts' and controls', from what the tests left.

    Args:
        by_log: the logs are there; else their official reports have to do.
    """
    from pipeline.benchmarks.grading import GRADER
    from pipeline.bundle import compare_pairs
    from pipeline.cli.regrade import logs_of

    logs = list(logs_of(results.book, instances, run, empties=True))
    if results.plan["selection"].get("benchmark", "swebench") == "terminal":
        yield held_rewards(logs)
        return
    graded = [regraded(log, by_log=by_log) for log in logs]
    verdicts = [pair for pair, _ in graded if pair is not None]
    reports = [pair for _, pair in graded if pair is not None]
    without = len(logs) - len(verdicts)
    note = f"{without} have no log" if without else ""
    if not by_log:
        note = "by their reports alone: the logs were left out"
    elif results.plan["grader"] != GRADER:
        note = f"graded under {results.plan['grader']}, read under {GRADER}; {note}".rstrip("; ")
    yield compare_pairs("verdicts", verdicts, note)
    if by_log:
        yield compare_pairs("official reports", reports)


def words(verdict: Verdict) -> str:
    """Finding and counts, as they are compared."""
    one, two = verdict.fail_to_pass, verdict.pass_to_pass
    counts = f"{one.passed}/{one.total} and {two.passed}/{two.total}"
    reward = "" if verdict.reward is None else f", reward {verdict.reward:g}"
    return f"{verdict.finding.value}, tests {counts}{reward}"


def regraded(log: Log, *, by_log: bool) -> tuple[Pair | None, Pair | None]:
    """A verdict, and its official report, each beside what the installed swebench makes of it."""
    from pipeline.benchmarks.grading import grade, spec_of, verdict_of
    from pipeline.domain import Evidence, Patch
    from pipeline.outcomes import InfraError

    saved = report_in(log.path.with_name("report.json"), log.instance.id)
    if by_log:
        if not log.path.is_file():
            return None, None
        patch = log.submission.diff if isinstance(log.submission, Patch) else ""
        try:
            report = grade(spec_of(log.instance), log.path, model_patch=patch)
        except InfraError as error:
            return (log.name, words(log.verdict), error.detail), None
    elif saved is None:
        return None, None
    else:
        report = saved
    now = words(verdict_of(report, Evidence()))
    place = f"scoring/{log.path.parent.parent.name}/{log.path.parent.name}/report.json"
    beside = None if saved is None else (place, *told_apart(saved, report))
    return (f"ledger, {log.name}", words(log.verdict), now), beside


def told_apart(saved: Any, report: Any) -> tuple[str, str]:
    """Two reports as far as they differ, in a line each."""
    from pipeline.bundle import compare_trees, shown

    differing = compare_trees("", "", saved, report).differing
    whole = "as a whole" if not differing else "otherwise: " + shown("; ".join(differing))
    return "as a whole", whole


def report_in(path: Path, instance_id: str) -> dict[str, Any] | None:
    """None: none was saved."""
    if not path.is_file():
        return None
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))[instance_id]
    return found


def held_rewards(logs: Sequence[Log]) -> Check:
    """Of terminal tasks, by reward or parser."""
    from pipeline.benchmarks.terminal.saved import grade_again
    from pipeline.bundle import compare_pairs

    pairs, without = [], 0
    for log in logs:
        found = grade_again(log.instance, log.path.parent)
        if found is None:
            without += 1
            continue
        finding, reward, tally = found
        now = replace(log.verdict, finding=finding, reward=reward, fail_to_pass=tally)
        pairs.append((f"ledger, {log.name}", words(log.verdict), words(now)))
    note = f"{without} left nothing to read" if without else ""
    return compare_pairs("verdicts", pairs, note)
