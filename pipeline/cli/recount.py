"""Work every number of a bundle out again, from what it is made of: logs, tapes, rows, patches."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipeline.bundle import Check, Manifest
    from pipeline.domain import Instance
    from pipeline.ledger import Row
    from pipeline.results import Results
    from pipeline.rundir import RunDir

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
    from pipeline.bundle import Check, Part, compare_pairs, plain
    from pipeline.cli.lanes import cut_off_usage
    from pipeline.cli.planning import instances_of
    from pipeline.cli.regraded import verdict_checks
    from pipeline.domain import Usage
    from pipeline.outcomes import UserError
    from pipeline.results import load, read_plan

    plan = read_plan(run)
    yield held_plan(plan, manifest)
    tapes = manifest.has(Part.TAPES)
    cut_off = cut_off_usage(run) if tapes else Usage(**manifest.cut_off or {})
    results = load(run, cut_off=cut_off)
    pending = sum(row.outcome == "pending" for row in results.rows)
    yield compare_pairs("pending", [("MANIFEST.json pending", manifest.pending, pending)])
    kind = "instances, by their fingerprint"
    try:
        instances = {item.id: item for item in instances_of(plan, run)}
    except UserError as error:
        yield Check(kind=kind, of=1, differing=(plain(str(error)),))
        return
    yield Check(kind=kind, of=len(instances))
    if plan["has_control"]:
        yield from verdict_checks(run, results, instances, by_log=manifest.has(Part.LOGS))
    else:
        yield Check(kind="verdicts", of=0, note="imported: there are no logs to read")
    yield held_rows(run, results)
    yield held_outcomes(results)
    yield held_patches(run, results)
    if tapes and results.recorded:
        yield held_tapes(run, results)
    yield from table_checks(run, results, instances, manifest)


def held_plan(plan: Mapping[str, Any], manifest: Manifest) -> Check:
    """Its digest, and that what the digest covers is what the plan says."""
    from pipeline.bundle import compare_pairs

    identity = plan["identity"]
    text = json.dumps(identity, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    selection = plan["selection"]
    drawn = {"ids": sorted(selection["ids"]), "fingerprint": selection["fingerprint"]}
    parts = [(f"plan.json identity.{key}", identity[key], plan[key]) for key in identity]
    # Of imported verdicts the identity has the file's hash, and the tables a word.
    apart = ["selection"] if plan["has_control"] else ["selection", "grader"]
    parts = [part for part in parts if part[0].rpartition(".")[2] not in apart]
    return compare_pairs(
        "plan",
        [
            ("plan.json digest", plan["digest"], digest),
            ("plan.json identity.selection", identity["selection"], drawn),
            ("MANIFEST.json plan", manifest.plan, digest),
            ("MANIFEST.json run", manifest.run, plan["name"]),
            *parts,
        ],
    )


def held_rows(run: RunDir, results: Results) -> Check:
    """That no row was taken out of the ledger, and none stands outside of the plan."""
    from pipeline.bundle import compare_pairs
    from pipeline.domain import Attempt
    from pipeline.ledger import Ledger

    with Ledger(run.ledger, read_only=True) as ledger:
        [(count, last)] = ledger.ask("SELECT count(*), ifnull(max(seq), 0) FROM rows")
    grid = {Attempt(row.instance_id, row.attempt) for row in results.rows}
    outside = sorted(results.book.entries.keys() - grid)
    strange = [
        (f"ledger, {id_} #{number}", "rows", "no attempt of the plan") for id_, number in outside
    ]
    rows = ("ledger/rows.jsonl, its last number", last, count)
    return compare_pairs("rows of the ledger", [rows, *strange])


def held_outcomes(results: Results) -> Check:
    """What was settled, against what rollout, verdict and controls come to."""
    from pipeline.bundle import compare_pairs
    from pipeline.domain import Attempt

    pairs = []
    for row in results.rows:
        attempt = Attempt(row.instance_id, row.attempt)
        written = results.book.entry(attempt).settlement
        found = results.book.conclude(attempt, has_control=results.plan["has_control"])
        if written is not None:
            place = f"ledger, {row.instance_id} #{row.attempt}"
            pairs.append((place, told(written), told(found)))
    return compare_pairs("outcomes", pairs)


def told(settlement: Any) -> str:
    if settlement is None:
        return "pending"
    return ", ".join(f"{key} {value}" for key, value in asdict(settlement).items() if value)


def held_patches(run: RunDir, results: Results) -> Check:
    """Every saved patch against the submission in the ledger."""
    from pipeline.bundle import compare_pairs
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
    return compare_pairs("patches", pairs)


def hash_of(content: bytes) -> str:
    return f"sha256 {hashlib.sha256(content).hexdigest()[:12]}"


def held_tapes(run: RunDir, results: Results) -> Check:
    """What each try used, against what the server counted on its tape."""
    from pipeline.bundle import compare_pairs
    from pipeline.domain import Attempt, Fault, Rollout
    from pipeline.gateway.tapes import find_tape, read_tape

    pairs: list[tuple[str, Any, Any]] = []
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
    note = f"{without} have no tape" if without else ""
    return compare_pairs("requests, tokens and cost on tape", pairs, note)


def table_checks(
    run: RunDir, results: Results, instances: Mapping[str, Instance], manifest: Manifest
) -> Iterator[Check]:
    """Summary, tables, headline, submissions and diagnosis, made again."""
    from pipeline import bundle, diagnose
    from pipeline.cli.exports import estimates, headline, made_of

    known = manifest.has(bundle.Part.TRAJECTORIES)
    found = diagnose.diagnose(results, run, instances) if known else None
    made = dict(made_of(results, run, found))
    made[bundle.HEADLINE] = headline(results)
    made[bundle.ESTIMATES] = estimates(results)
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
