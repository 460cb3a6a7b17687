"""Work every number of a bundle out again, from what it is made of: logs, tapes, rows, patches."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from pipeline.bundle import Check, Manifest
    from pipeline.cli.regrade import Log
    from pipeline.domain import Instance, Verdict
    from pipeline.ledger import Row
    from pipeline.results import Results
    from pipeline.rundir import RunDir

Said: TypeAlias = "tuple[int, list[str], str]"
"""How many were held against each other, which differ, and what could not be."""
SUMMARY: Mapping[str, tuple[str, ...]] = {
    "counts": ("instances", "k", "attempts", "tries", "outcomes", "pending", "blame", "causes"),
    "votes": ("majority",),
    "pass@1, range and intervals": ("pass_at_1", "reward"),
    "requests, tokens and cost": ("usage",),
    "controls and doubts": ("controls", "doubts"),
}
"""What `report/summary.json` says, by kind; whatever else stands there is `the rest`."""
UNREADABLE = (
    *(LookupError, TypeError, ValueError, AttributeError, AssertionError, ArithmeticError),
    *(RecursionError, OSError),
)
"""What reading a file raises that somebody wrote to be read."""
USED = ("requests", "input_tokens", "cached_tokens", "output_tokens", "cost_usd")


def recount(run: RunDir, manifest: Manifest) -> list[Check]:
    """Every check but that of the bytes. What cannot even be read differs, too."""
    from pipeline.bundle import Check, plain
    from pipeline.outcomes import UserError

    checks: list[Check] = []
    try:
        for check in checked(run, manifest):
            checks.append(check)
    except (UserError, *UNREADABLE) as error:
        # Its hashes are right, so somebody wrote it so: no reason to fall over.
        what = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
        after = f"after {checks[-1].kind}" if checks else "from the start"
        said = f"cannot be recomputed, {after}: {what}".replace(f"{run.root}/", "")
        checks.append(Check(kind="the rest", of=1, differing=(plain(said),)))
    return checks


def checked(run: RunDir, manifest: Manifest) -> Iterator[Check]:
    from pipeline.bundle import Check, Part, plain
    from pipeline.cli.lanes import cut_off_usage
    from pipeline.cli.planning import instances_of
    from pipeline.domain import Usage
    from pipeline.outcomes import UserError
    from pipeline.results import load, read_plan

    def check(kind: str, said: Said) -> Check:
        of, differing, note = said
        return Check(kind=kind, of=of, differing=tuple(differing), note=note)

    plan = read_plan(run)
    yield check("plan", held_plan(plan, manifest))
    tapes = manifest.has(Part.TAPES)
    cut_off = cut_off_usage(run) if tapes else Usage(**manifest.cut_off or {})
    results = load(run, cut_off=cut_off)
    pending = sum(row.outcome == "pending" for row in results.rows)
    yield check("pending", held([("MANIFEST.json pending", manifest.pending, pending)]))
    try:
        instances = {item.id: item for item in instances_of(plan, run)}
    except UserError as error:
        yield check("instances, by their fingerprint", (1, [plain(str(error))], ""))
        return
    yield check("instances, by their fingerprint", (len(instances), [], ""))
    if plan["has_control"]:
        yield from verdict_checks(run, results, instances, manifest, check)
    yield check("outcomes", held_outcomes(results))
    yield check("patches", held_patches(run, results))
    if tapes and results.recorded:
        yield check("requests, tokens and cost on tape", held_tapes(run, results))
    yield from table_checks(run, results, instances, manifest)


def held(pairs: Sequence[tuple[str, Any, Any]], note: str = "") -> Said:
    """(place, what stands there, what was recomputed)."""
    from pipeline.bundle import plain, same

    wrong = [
        plain(f"{at}: says {one}, recomputed {two}") for at, one, two in pairs if not same(one, two)
    ]
    return len(pairs), wrong, note


def held_plan(plan: Mapping[str, Any], manifest: Manifest) -> Said:
    """Its digest, and that what the digest covers is what the plan says."""
    identity = plan["identity"]
    text = json.dumps(identity, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    selection = plan["selection"]
    drawn = {"ids": sorted(selection["ids"]), "fingerprint": selection["fingerprint"]}
    parts = [(f"plan.json identity.{key}", identity[key], plan[key]) for key in identity]
    # Of imported verdicts the identity has the file's hash, and the tables a word.
    apart = ["selection"] if plan["has_control"] else ["selection", "grader"]
    parts = [part for part in parts if part[0].rpartition(".")[2] not in apart]
    return held(
        [
            ("plan.json digest", plan["digest"], digest),
            ("plan.json identity.selection", identity["selection"], drawn),
            ("MANIFEST.json plan", manifest.plan, digest),
            ("MANIFEST.json run", manifest.run, plan["name"]),
            *parts,
        ]
    )


def verdict_checks(
    run: RunDir,
    results: Results,
    instances: Mapping[str, Instance],
    manifest: Manifest,
    check: Callable[[str, Said], Check],
) -> Iterator[Check]:
    """Findings and tallies, attempts' and controls', from what the tests left."""
    from pipeline.benchmarks.grading import GRADER
    from pipeline.bundle import Part
    from pipeline.cli.regrade import logs_of

    logs = list(logs_of(results.book, instances, run, empties=True))
    if results.plan["selection"].get("benchmark", "swebench") == "terminal":
        yield check("verdicts", held_rewards(logs))
        return
    graded = [regraded(log, by_log=manifest.has(Part.LOGS)) for log in logs]
    verdicts = [pair for pair, _ in graded if pair is not None]
    reports = [pair for _, pair in graded if pair is not None]
    without = len(logs) - len(verdicts)
    note = f"{without} have no log" if without else ""
    if not manifest.has(Part.LOGS):
        note = "by their reports alone: the logs were left out"
    elif results.plan["grader"] != GRADER:
        note = f"graded under {results.plan['grader']}, read under {GRADER}; {note}".rstrip("; ")
    yield check("verdicts", held(verdicts, note))
    if manifest.has(Part.LOGS):
        yield check("official reports", held(reports))


def words(verdict: Verdict) -> str:
    """Finding and counts, as they are compared."""
    one, two = verdict.fail_to_pass, verdict.pass_to_pass
    counts = f"{one.passed}/{one.total} and {two.passed}/{two.total}"
    reward = "" if verdict.reward is None else f", reward {verdict.reward:g}"
    return f"{verdict.finding.value}, tests {counts}{reward}"


Pair: TypeAlias = tuple[str, Any, Any]


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


def held_rewards(logs: Sequence[Log]) -> Said:
    """Of terminal tasks, by reward or parser."""
    from pipeline.benchmarks.terminal.saved import grade_again

    pairs, without = [], 0
    for log in logs:
        found = grade_again(log.instance, log.path.parent)
        if found is None:
            without += 1
            continue
        finding, reward, tally = found
        now = replace(log.verdict, finding=finding, reward=reward, fail_to_pass=tally)
        pairs.append((f"ledger, {log.name}", words(log.verdict), words(now)))
    return held(pairs, f"{without} left nothing to read" if without else "")


def held_outcomes(results: Results) -> Said:
    """What was settled, against what rollout, verdict and controls come to."""
    from pipeline.domain import Attempt

    pairs = []
    for row in results.rows:
        attempt = Attempt(row.instance_id, row.attempt)
        written = results.book.entry(attempt).settlement
        found = results.book.conclude(attempt, has_control=results.plan["has_control"])
        if written is not None:
            place = f"ledger, {row.instance_id} #{row.attempt}"
            pairs.append((place, told(written), told(found)))
    return held(pairs)


def told(settlement: Any) -> str:
    if settlement is None:
        return "pending"
    return ", ".join(f"{key} {value}" for key, value in asdict(settlement).items() if value)


def held_patches(run: RunDir, results: Results) -> Said:
    """Every saved patch against the submission in the ledger."""
    from pipeline.domain import Attempt, Patch, Rollout, Verdict

    pairs = []
    for row in results.rows:
        attempt = Attempt(row.instance_id, row.attempt)
        entry = results.book.entry(attempt)
        places = [(r.value, run.attempt(attempt, r.try_number)) for r in entry.rollouts]
        if isinstance(entry.verdict, Verdict) and entry.rollout is not None:
            places.append((entry.rollout, run.scoring(*attempt)))
        for value, place in places:
            path = place / "patch.diff"
            patch = value.submission if isinstance(value, Rollout) else None
            if isinstance(patch, Patch) and path.is_file():
                name = path.relative_to(run.root).as_posix()
                kept = patch.diff.encode("utf-8", "surrogateescape")
                pairs.append((name, hash_of(path.read_bytes()), hash_of(kept)))
    return held(pairs)


def hash_of(content: bytes) -> str:
    return f"sha256 {hashlib.sha256(content).hexdigest()[:12]}"


def held_tapes(run: RunDir, results: Results) -> Said:
    """What each try used, against what the server counted on its tape."""
    from pipeline.domain import Attempt, Fault, Rollout
    from pipeline.gateway.tapes import find_tape, read_tape

    pairs: list[Pair] = []
    without = 0

    def used(value: Any) -> str:
        return ", ".join(f"{name} {getattr(value, name)}" for name in USED)

    def hold(row: Row) -> bool:
        assert isinstance(row.value, Rollout | Fault)
        path = find_tape(run.attempt(row.attempt, row.try_number))
        if path is None:
            return row.value.usage.requests == 0
        usage = read_tape(path).usage
        place = f"ledger, {row.attempt.instance_id} #{row.attempt.number} try {row.try_number}"
        pairs.append((place, used(row.value.usage), used(usage)))
        return True

    for row in results.rows:
        entry = results.book.entry(Attempt(row.instance_id, row.attempt))
        without += sum(not hold(rollout) for rollout in entry.rollouts)
    return held(pairs, f"{without} have no tape" if without else "")


def table_checks(
    run: RunDir, results: Results, instances: Mapping[str, Instance], manifest: Manifest
) -> Iterator[Check]:
    """Summary, tables, headline, submissions and diagnosis, made again."""
    from pipeline import bundle, diagnose
    from pipeline.cli import bundle as making
    from pipeline.cli.exports import made_of

    known = manifest.has(bundle.Part.TRAJECTORIES)
    found = diagnose.diagnose(results, run, instances) if known else None
    made = dict(made_of(results, run, found))
    made[bundle.HEADLINE] = making.headline(results)
    made[bundle.ESTIMATES] = making.estimates(results)
    stands = {name: (run.root / name).read_bytes() for name in made if (run.root / name).is_file()}
    if gone := made.keys() - stands.keys():
        said = tuple(f"{name}: is not in the bundle" for name in sorted(gone))
        yield bundle.Check(kind="tables that there are", of=len(made), differing=said)
    yield from summary_checks(stands.pop("report/summary.json"), made["report/summary.json"])
    kinds = {"report/diagnosis.json": "diagnosis", bundle.ESTIMATES: "pass@k and other estimates"}
    for name in sorted(stands):
        kind = kinds.get(name, name.removeprefix("report/").removesuffix(".txt"))
        if name.endswith(".json"):
            ours, theirs = json.loads(stands[name]), json.loads(made[name])
            yield bundle.compare_trees(kind, name, ours, theirs)
        elif name.endswith(".csv"):
            yield bundle.compare_tables(kind, name, stands[name], made[name])
        else:
            yield bundle.compare_lines(kind, name, stands[name], made[name])
    if not known:
        note = "its trajectories were left out, so it was taken as it is"
        yield bundle.Check(kind="diagnosis", of=0, note=note)


def summary_checks(stands: bytes, found: bytes) -> Iterator[Check]:
    from pipeline.bundle import compare_trees

    ours, theirs = json.loads(stands), json.loads(found)
    rest = [key for key in (*ours, *theirs) if not any(key in keys for keys in SUMMARY.values())]
    for kind, keys in {**SUMMARY, "the rest of summary.json": tuple(dict.fromkeys(rest))}.items():
        one, two = ({key: tree[key] for key in keys if key in tree} for tree in (ours, theirs))
        yield compare_trees(kind, "summary.json", one, two)
