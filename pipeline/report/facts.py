"""What was asked of a run, in pairs of a name and a value: its plan, as a person reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pipeline.compare.plans import imported
from pipeline.report.details import Source

NOT_RECORDED = "not recorded: the predictions were made elsewhere"
WORDS = {
    "temperature": "temperature {}",
    "top_p": "top_p {}",
    "on_wire": "what differs on the wire: {}",
    "steps": "{} steps",
    "cost_usd": "${}",
    "tokens": "{} tokens",
    "seconds": "{} s",
    "memory_gb": "{} GB of memory",
    "disk_gb": "{} GB of disk",
    "pids": "{} processes",
    "network": "network {}",
    "scoring_seconds": "{} s for the tests",
}
"""A key that is not in here stands before its value."""


def facts_of(source: Source) -> list[list[str]]:
    """Names and values; what nobody knows is left out, or said to be unknown."""
    return [[name, value] for name, value in pairs(source) if value]


def pairs(source: Source) -> Iterator[tuple[str, str]]:
    plan = source.results.plan
    selection = plan["selection"]
    yield "plan", str(plan["digest"])
    yield "directory", str(source.run.root)
    yield "dataset", f"{selection.get('dataset', '')} {selection.get('revision') or ''}".strip()
    yield "fingerprint", str(selection.get("fingerprint", ""))[:12]
    yield "agent", str(plan["agent"])
    yield "model", str(plan["model"])
    yield "grader", str(plan["grader"])
    yield "replies", "scripted: no model was measured" if plan.get("replies") else ""
    yield "replayed from", str(plan.get("replayed") or "")
    if imported(plan):
        yield "sampling, limits", NOT_RECORDED
    else:
        yield "sampling", listed(plan.get("sampling") or {})
        yield "limits", limits(plan.get("limits") or {})
    if plan["has_control"]:
        kind = str(plan.get("sandbox_kind") or "")
        yield "sandbox", ", ".join(filter(None, (kind, listed(plan.get("sandbox") or {}))))
    versions = plan.get("versions") or {}
    yield "versions", ", ".join(f"{name} {version}" for name, version in versions.items())


def limits(values: Mapping[str, Any]) -> str:
    """Zero is no limit."""
    none = [name.removesuffix("_usd") for name, value in values.items() if not value]
    said = listed({name: value for name, value in values.items() if value}) or "none"
    return f"{said}; none on {' and '.join(none)}" if none and said != "none" else said


def listed(values: Mapping[str, Any]) -> str:
    return ", ".join(
        WORDS.get(name, f"{name} {{}}").format(shown(value))
        for name, value in values.items()
        if value is not None
    )


def shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
