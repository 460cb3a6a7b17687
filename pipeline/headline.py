"""Say what a run has come to in a few lines: a rate never stands alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from pipeline.outcomes import Outcome
from pipeline.results import Results
from pipeline.wording import between, count, shortened

Record: TypeAlias = dict[str, Any]


def percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f} %"


def span(bounds: Sequence[float] | None) -> str:
    return "–" if bounds is None else f"{100 * bounds[0]:.1f}–{100 * bounds[1]:.1f}"


def controls_line(summary: Record, *, imported: bool) -> str:
    """How far the place itself could be trusted."""
    if imported:
        return "controls: imported, no control"
    gold, empty = summary["controls"]["gold"], summary["controls"]["empty"]
    said = [f"gold {gold['passed']}/{gold['of']}" if gold["of"] else "gold –"]
    said.append(f"empty {empty['passed']}/{empty['of']}" if empty["of"] else "empty –")
    said.append(f"{summary['controls']['moved']} moved")
    return "controls: " + ", ".join(said)


def spending(summary: Record, failed: int, *, recorded: bool) -> str:
    """Requests, tokens and money; unknown is not zero."""
    if not recorded:
        return "usage not recorded"
    usage, resolved = summary["usage"], summary["outcomes"][Outcome.RESOLVED]
    cost = usage["cost_usd"]
    money = "$ unknown" if cost is None else f"${cost:.2f}"
    if cost and resolved:
        money += f" · ${cost / resolved:.2f}/resolved"
    again = f" (+ {failed} failed)" if failed else ""
    return (
        f"{count(usage['requests'], 'request')}{again} · {usage['input_tokens']:,} tokens in "
        f"({usage['cached_tokens']:,} cached), {usage['output_tokens']:,} out · {money}"
    )


def lines_of(results: Results) -> list[str]:
    """Never a bare number: n × k, the rate with its interval and range, and who was to blame."""
    summary = results.summary()
    rates, majority = summary["pass_at_1"], summary["majority"]
    outcomes, blame = summary["outcomes"], summary["blame"]
    start = f"partial ({summary['pending']} pending) · " if summary["pending"] else ""
    causes = ", ".join(f"{number} {cause}" for cause, number in summary["causes"].items())
    infra = f"{blame['infra']} infra" + (f" ({causes})" if causes else "")
    size = f"{size_of(results, summary)} · {outcomes['resolved']} resolved · "
    if outcomes["contested"]:
        size += f"{outcomes['contested']} contested · "
    rest = f"{blame['ambiguous']} ambiguous · {infra}"
    bounds = results.bounds() if summary["doubts"] else None
    if bounds is not None:
        # Whatever stands first is what somebody will quote.
        why = " and ".join(summary["doubts"])
        ends = f"{100 * bounds[0]:.1f} and {100 * bounds[1]:.1f} %"
        lines = [f"{start}pass@1 between {ends}, no single score: {why}", size + rest]
    else:
        lines = [
            f"{start}{size}"
            f"pass@1 {percent(rates['all'])} over all [{span(rates['all_ci95'])}] · "
            f"{percent(rates['valid'])} over valid [{span(rates['valid_ci95'])}] · "
            f"at most {percent(rates['high'])} · {rest}"
        ]
    if summary["k"] > 1:
        lines.append(
            f"majority of {summary['k']}: {majority['resolved']} resolved, "
            f"{majority['rejected']} rejected, {majority['undetermined']} undetermined · "
            f"{percent(majority['rate'])} of decided, range "
            f"{percent(majority['low'])}–{percent(majority['high'])}"
        )
        lines.append(votes_line(results))
    lines += stopping_lines(summary)
    lines += reward_lines(summary)
    tries = f"{count(summary['tries'], 'try', 'tries')}"
    lines.append(f"{tries} · {spending(summary, results.usage.failed, recorded=results.recorded)}")
    if results.cut_off.requests:
        lines.append(
            f"and {count(results.cut_off.requests, 'request')}, {results.cut_off.tokens:,} tokens "
            "that came to no row (tries that were stopped half-way, the look before a run)"
        )
    lines += wire_lines(results)
    imported = not results.plan["has_control"]
    lines.append(f"{controls_line(summary, imported=imported)} · grader {summary['grader']}")
    if results.unknown_exits:
        lines.append(
            f"exit unknown for {results.unknown_exits} of {summary['attempts']}: a fault may have "
            "left a submission empty or half done; 'at most' counts the empty ones as resolved"
        )
    return lines


def size_of(results: Results, summary: Record) -> str:
    """n × k, or how many attempts that came to where some are left out."""
    size = f"{summary['instances']} × {between(results.least, results.k)}"
    return f"{size} = {summary['attempts']}" if results.stops_early else size


def stopping_lines(summary: Record) -> list[str]:
    """What was saved where a vote was decided, and which attempts enter what."""
    found = summary.get("stopping")
    if not found:
        return []
    saved, most = found["saved"], found["at_most"]
    share = percent(saved / most if most else None)
    return [
        f"stopped where the vote was decided: {saved} of {count(most, 'attempt')} saved ({share}), "
        f"at {count(found['instances'], 'instance')} · pass@1 is of the first {found['min']} at "
        "each, the vote of all"
    ]


def reward_lines(summary: Record) -> list[str]:
    """Where a benchmark grades in fractions."""
    reward = summary.get("reward")
    if not reward:
        return []
    low, high = reward["ci95"]
    return [f"reward {reward['mean']:.3f} on average over valid [{low:.3f}–{high:.3f}]"]


def first_and_rest(results: Results) -> tuple[list[str], list[str]]:
    """The same lines, the first in parts: with all that says how far its rate can be believed."""
    first, *rest = lines_of(results)
    imported = not results.plan["has_control"]
    summary = results.summary()
    controls, proof = controls_line(summary, imported=imported), proof_lines(results)
    taken = [*reward_lines(summary), *proof]
    left = [line for line in rest if line not in taken and not line.startswith(controls)]
    proof = proof or ["no request was seen on the wire: the temperature is not proved"]
    return [*first.split(" · "), *reward_lines(summary), controls, *proof], left


def votes_line(results: Results) -> str:
    """How far the attempts at one instance agree, and what fewer of them would have come to."""
    votes = results.votes
    unanimous, split = sum(v.unanimous for v in votes), sum(v.split for v in votes)
    line = f"votes: {unanimous} unanimous, {split} split"
    if rest := len(votes) - unanimous - split:
        line += f", {rest} not whole (some attempts do not count)"
    for k, rate in results.expected_majorities().items():
        of = "" if rate.instances == len(votes) else f" (of {count(rate.instances, 'instance')})"
        line += f" · a majority of {k} of them: {percent(rate.value)} on average{of}"
    return line


def splits(results: Results) -> list[str]:
    """Instances whose attempts disagree, one line each, with every attempt."""
    outcomes: dict[str, list[str]] = {}
    for row in results.rows:
        outcomes.setdefault(row.instance_id, []).append(row.outcome)
    return [
        f"{vote.instance_id}: {vote.ballot}, {vote.resolved} of {vote.made} resolved: "
        f"{', '.join(outcomes[vote.instance_id])}"
        for vote in results.votes
        if vote.split
    ]


def wire_lines(results: Results) -> list[str]:
    """How long the endpoint was waited for, and whether it was asked as the plan says."""
    lines = []
    worked = sum(row.agent_seconds for row in results.rows)
    asked = sum(row.asked_seconds for row in results.rows)
    if asked and worked:
        share = percent(min(asked / worked, 1.0))
        lines.append(f"agents: {worked:,.0f} s, {share} of it waiting for the endpoint")
    return lines + proof_lines(results)


def proof_lines(results: Results) -> list[str]:
    """Whether the model was asked as the plan says, and whether it was asked at all."""
    lines = []
    sampling, usage = results.plan["sampling"], results.usage
    if usage.requests:
        said = f"temperature {sampling['temperature']:g}, top_p {sampling['top_p']:g}"
        lines.append(f"{said} on {usage.as_planned} of {count(usage.requests, 'request')}")
    if results.plan.get("replayed"):
        lines.append(
            f"replayed from {results.plan['replayed']}, no endpoint was asked: "
            f"{len(drifts(results))} of {count(len(results.rows), 'attempt')} drifted"
        )
    return lines


def contests(results: Results) -> list[str]:
    """Which passes cannot be believed, and why, one line each."""
    return [
        f"{row.instance_id} #{row.attempt}: {shortened(row.detail)}"
        for row in results.rows
        if row.outcome == Outcome.CONTESTED
    ]


def drifts(results: Results) -> list[str]:
    """Where a replay differed from what was recorded, one line an attempt."""
    return [f"{row.instance_id} #{row.attempt}: {row.drift}" for row in results.rows if row.drift]


def losses(results: Results) -> list[str]:
    """What broke, one line each: instance, attempt, cause and its own words."""
    lines = []
    for row in results.rows:
        if row.outcome == Outcome.INFRA and not row.moved:
            detail = shortened(row.detail)
            lines.append(f"{row.instance_id} #{row.attempt}: {row.cause}: {detail}")
        elif row.moved:
            grounds = results.grounds(row.instance_id) or "its place cannot be trusted"
            lines.append(f"{row.instance_id} #{row.attempt}: {row.trust}: {grounds}")
    return lines
