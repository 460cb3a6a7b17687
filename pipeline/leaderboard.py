"""Lay out one attempt number of a run as SWE-bench's leaderboard and its harness have it.

Layout: `evaluation/verified/<date>_<name>/` of github.com/SWE-bench/experiments (its README and
checklist.md); report: `make_run_report` of swebench 5.0.2, schema 2. Neither has a word for an
outage: what broke here stands among the errors or the incomplete, with its reason, and is never an
empty patch.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from pipeline.domain import Attempt, Patch, Rollout
from pipeline.headline import lines_of
from pipeline.outcomes import Blame, Outcome, UserError
from pipeline.results import AttemptRow, Results
from pipeline.rundir import RunDir, write_atomically

SCHEMA_VERSION = 2
GROUPS = (
    *("completed", "incomplete", "empty_patch", "submitted", "resolved", "unresolved"),
    *("infra_failure", "ambiguous_failure", "error"),
)
LOGS = ("eval.sh", "patch.diff", "report.json", "run_instance.log", "test_output.txt")
"""What the harness leaves of an instance; the fourth we do not write."""
METADATA = """\
# Fill in what passone cannot know: authors, report, site, logo, org, and whether model and system
# are open. Their checklist asks for a report of your own.
"""
README = """\
# {name}

{model}, agent {agent}, {dataset}: attempt {number} of {k} of a run of passone {version}.

{resolved} of {total} resolved. {empty} submitted nothing, {error} ended in an error, {incomplete}
are incomplete: nothing was submitted there, because something of ours broke or was not run. What
broke is no failure of the model, and counts as not resolved on a leaderboard all the same.{reasons}

The whole run:

{headline}

`all_preds.jsonl` has one line for each submission, `trajs/` the agent's own trajectories, `logs/`
what the official tests printed; there is no `run_instance.log`, since passone runs the containers
itself. `results/results.json` counts what passone stands by: a pass that cannot be believed
(`contested`), or whose place is broken, is not among the resolved.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filed:
    """Where one attempt stands in a report."""

    row: AttemptRow
    groups: tuple[str, ...]
    reason: str = ""


def filed(results: Results, number: int) -> Iterator[Filed]:
    """Each instance's place in a report on one attempt number.

    Raises:
        UserError: the run has no such attempt.
    """
    if not 1 <= number <= results.least:
        where = " at every instance" if results.stops_early else ""
        raise UserError(f"--attempt {number}: the run has attempts 1 to {results.least}{where}")
    for row in results.rows:
        if row.attempt == number:
            rollout = results.book.entry(Attempt(row.instance_id, number)).rollout
            groups, reason = place_of(row, submitted=isinstance(rollout, Rollout))
            yield Filed(row=row, groups=groups, reason=reason)


def place_of(row: AttemptRow, *, submitted: bool) -> tuple[tuple[str, ...], str]:
    """Groups of the official report, and why it is no plain finding."""
    reason = f"{row.outcome}: {row.cause}" if row.cause else row.outcome
    if row.moved:
        reason = f"{reason}: the place is {row.trust}, by its gold control"
    if not submitted:
        return ("incomplete",), reason
    if row.outcome == Outcome.NO_SUBMISSION:
        return ("submitted", "empty_patch"), ""
    if row.outcome == Outcome.RESOLVED:
        return ("submitted", "completed", "resolved"), ""
    doubt = ("ambiguous_failure",) if row.blame == Blame.AMBIGUOUS else ()
    if row.outcome in (Outcome.UNRESOLVED, Outcome.CONTESTED):
        plain = row.outcome == Outcome.UNRESOLVED and not doubt
        return ("submitted", "completed", "unresolved", *doubt), "" if plain else reason
    broken = ("infra_failure",) if row.outcome == Outcome.INFRA else doubt
    return ("submitted", "error", *broken), reason


def report(results: Results, number: int) -> dict[str, Any]:
    """The official report on one attempt number, of our outcomes.

    Raises:
        UserError: the run has no such attempt.
    """
    items = sorted(filed(results, number), key=lambda item: item.row.instance_id)
    ids = {
        group: [item.row.instance_id for item in items if group in item.groups] for group in GROUPS
    }
    tree: dict[str, Any] = {"total_instances": len(items)}
    order = ("submitted", "completed", "resolved", "unresolved", *GROUPS[6:8], "empty_patch")
    tree |= {f"{group}_instances": len(ids[group]) for group in (*order, "error")}
    tree |= {f"{group}_ids": ids[group] for group in GROUPS[:-1]}
    tree["failure_reasons"] = {item.row.instance_id: item.reason for item in items if item.reason}
    return tree | {"error_ids": ids["error"], "schema_version": SCHEMA_VERSION}


def predictions(results: Results, number: int) -> str:
    """Submissions of one attempt number in the official format; what broke is left out."""
    lines = []
    for instance_id in results.ids:
        rollout = results.book.entry(Attempt(instance_id, number)).rollout
        if isinstance(rollout, Rollout):
            patch = rollout.submission.diff if isinstance(rollout.submission, Patch) else ""
            line = {
                "instance_id": instance_id,
                "model_name_or_path": results.plan["model"],
                "model_patch": patch,
            }
            lines.append(json.dumps(line))
    return "".join(f"{line}\n" for line in lines)


def metadata(results: Results) -> str:
    """metadata.yaml: what we know is filled in."""
    tree = {
        "info": {
            "name": f"{results.plan['agent']} + {results.plan['model']}",
            **dict.fromkeys(("authors", "logo", "report", "site")),
        },
        "tags": {
            "checked": False,
            "model": [results.plan["model"]],
            "org": [],
            "os_model": None,
            "os_system": None,
            "system": {"attempts": "1"},
        },
    }
    return METADATA + yaml.safe_dump(tree, sort_keys=False, allow_unicode=True)


def readme(results: Results, number: int) -> str:
    found, plan = report(results, number), results.plan
    reasons = [f"* {id_}: {reason}" for id_, reason in found["failure_reasons"].items()]
    return README.format(
        name=results.name,
        model=plan["model"],
        agent=plan["agent"],
        dataset=plan["selection"]["dataset"],
        number=number,
        k=results.k,
        version=plan.get("versions", {}).get("passone", ""),
        resolved=found["resolved_instances"],
        total=found["total_instances"],
        empty=found["empty_patch_instances"],
        error=found["error_instances"],
        incomplete=len(found["incomplete_ids"]),
        reasons="\n\n" + "\n".join(reasons) if reasons else "",
        headline="\n".join(f"* {line}" for line in lines_of(results)),
    )


def outcome_files(results: Results, number: int) -> Iterator[tuple[str, str]]:
    """Names and contents of all that is made of the ledger alone."""
    found = report(results, number)
    resolved = set(found["resolved_ids"])
    lists = {
        "no_generation": found["empty_patch_ids"],
        "no_logs": sorted((*found["incomplete_ids"], *found["error_ids"])),
        "resolved": found["resolved_ids"],
    }
    repos: dict[str, dict[str, int]] = {}
    for row in results.rows:
        if row.attempt == number:
            counts = repos.setdefault(row.repo, {"resolved": 0, "total": 0})
            counts["total"] += 1
            counts["resolved"] += row.instance_id in resolved
    yield "all_preds.jsonl", predictions(results, number)
    yield "metadata.yaml", metadata(results)
    yield "README.md", readme(results, number)
    yield "results/results.json", json.dumps(lists, indent=2) + "\n"
    yield "results/resolved_by_repo.json", json.dumps(dict(sorted(repos.items())), indent=2) + "\n"
    yield "results/report.json", json.dumps(found, indent=4) + "\n"


def write_folder(results: Results, run: RunDir, number: int, target: Path) -> int:
    """Write a submission, whole or not at all.

    Returns:
        How many trajectories stand in it.

    Raises:
        UserError: the run has no such attempt, or the folder is there or cannot be written.
    """
    files = list(outcome_files(results, number))
    if target.exists():
        raise UserError(f"{target}: is there already; name another folder, or move it away")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as name:
            place = Path(name) / target.name
            for file, content in files:
                write_atomically(place / file, content)
            (place / "logs").mkdir()
            (place / "trajs").mkdir()
            for instance_id in results.ids:
                copy_of(results, run, Attempt(instance_id, number), place)
            found = len(list((place / "trajs").iterdir()))
            place.rename(target)
    except OSError as error:
        raise UserError(f"{target}: cannot be written: {error.strerror or error}") from None
    return found


def copy_of(results: Results, run: RunDir, attempt: Attempt, place: Path) -> None:
    """The trajectory of the try that an attempt rests on, and what its tests printed."""
    entry = results.book.entry(attempt)
    if not isinstance(entry.rollout, Rollout):
        return
    home = run.attempt(attempt, entry.rollouts[-1].try_number)
    for source in [*sorted(home.glob("trajectory.*")), home / "steps.jsonl"]:
        if source.is_file():
            ending = source.name.partition(".")[2]
            shutil.copyfile(source, place / "trajs" / f"{attempt.instance_id}.{ending}")
            break
    logs = run.scoring(attempt.instance_id, attempt.number)
    for source in (logs / name for name in LOGS):
        if source.is_file():
            (place / "logs" / attempt.instance_id).mkdir(exist_ok=True)
            shutil.copyfile(source, place / "logs" / attempt.instance_id / source.name)
