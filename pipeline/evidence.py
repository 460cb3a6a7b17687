"""Say what an outcome rests on where it is not simply what the tests said."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.domain import Attempt, Controls, Fault, Rollout, Verdict
from pipeline.ledger import Row
from pipeline.outcomes import Outcome, judge
from pipeline.results import AttemptRow, Results, tally_of
from pipeline.wording import count, shortened


def evidence_of(results: Results) -> list[str]:
    """A block of lines for every outcome that does not simply say what the tests said."""
    blocks: list[str] = []
    for instance_id in results.ids:
        rows = [row for row in results.at(instance_id) if needs_evidence(results, row)]
        for row in rows:
            blocks += attempt_lines(results, row)
        if rows:
            blocks += control_lines(results, instance_id)
    return blocks


def needs_evidence(results: Results, row: AttemptRow) -> bool:
    verdict = results.book.entry(Attempt(row.instance_id, row.attempt)).verdict
    contradicted = isinstance(verdict, Verdict) and verdict.evidence.contradicted
    return row.moved or contradicted or row.outcome in (Outcome.DIED, Outcome.CONTESTED)


def attempt_lines(results: Results, row: AttemptRow) -> list[str]:
    """What an attempt was judged as, what it counts as, and where its logs are."""
    attempt = Attempt(row.instance_id, row.attempt)
    entry = results.book.entry(attempt)
    rollout, verdict = entry.rollout, entry.verdict
    assert isinstance(rollout, Rollout | Fault)
    judged = judge(rollout, verdict)
    counts = f"{row.outcome} ({row.cause})" if row.cause else row.outcome
    turned = f"{judged} → {counts}" if row.moved else counts
    lines = [f"{row.instance_id} #{row.attempt}: {turned}, its place is {row.trust}"]
    if row.moved:
        lines.append(f"  {results.grounds(row.instance_id)}")
    for value in (rollout, verdict):
        if isinstance(value, Fault):
            lines.append(f"  {shortened(value.detail)}")
    if isinstance(verdict, Verdict):
        place = f"scoring/{row.instance_id}/{row.attempt}"
        lines.append(f"  submission: {verdict_words(verdict)}: {place}")
    return lines


def control_lines(results: Results, instance_id: str) -> list[str]:
    """Every look at an instance, oldest first."""
    lines = []
    for row in results.book.controls.get(instance_id, []):
        lines += [f"  {words}" for words in look_words(row)]
    return lines


def look_words(row: Row) -> Iterator[str]:
    value, number = row.value, row.try_number
    if isinstance(value, Fault):
        yield f"look {number} settled nothing, {value.cause}: {shortened(value.detail)}"
    if not isinstance(value, Controls):
        return
    place = f"scoring/{row.attempt.instance_id}"
    for index, verdict in enumerate(value.gold, start=1):
        label = f"gold-{number}" + (f".{index}" if index > 1 else "")
        yield scoring_words(label, verdict, place)
    for verdict in value.empty:
        yield scoring_words(f"empty-{number}", verdict, place)
    if value.idle_death:
        yield f"an idle container: {value.idle_death}"
    elif value.idled_seconds:
        yield f"an idle container lived for {value.idled_seconds:.0f} s"


def scoring_words(label: str, verdict: Verdict, place: str) -> str:
    # The logs of one that was kept are where it was scored.
    where = "" if verdict.evidence.origin else f": {place}/{label}"
    return f"{label}: {verdict_words(verdict)}{where}"


def verdict_words(verdict: Verdict) -> str:
    """Finding, counts, exit status and image."""
    said = [verdict.finding.value]
    for name, tally in (
        ("fail to pass", verdict.fail_to_pass),
        ("pass to pass", verdict.pass_to_pass),
    ):
        if tally.total:
            said.append(f"{name} {tally_of(tally)}")
    evidence = verdict.evidence
    if evidence.exit_code is not None:
        said.append(f"exit status {evidence.exit_code}")
    if evidence.image_digest:
        said.append(f"image {evidence.image_digest.removeprefix('sha256:')[:12]}")
    looked = [*evidence.reasons, *evidence.checked]
    return ", ".join([*said, *looked, f"{verdict.seconds:.0f} s"])


def closing(results: Results) -> str:
    """How many outcomes have something to say here."""
    rows = [row for row in results.rows if needs_evidence(results, row)]
    said = "moved, contested, contradicted or settled after a death"
    return f"{count(len(rows), 'outcome')} {said}"
