"""Write plan.json, or continue under the one that is there."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import platform
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pipeline import __version__
from pipeline.outcomes import UserError
from pipeline.plan import attempts_in_words, least_of
from pipeline.wording import between

if TYPE_CHECKING:
    from pipeline.cli.parts import Parts
    from pipeline.ledger import Ledger


def differences(old: Mapping[str, Any], new: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Dotted names of the keys in which two trees differ."""
    found: list[str] = []
    for key in sorted({*old, *new}):
        a, b = old.get(key), new.get(key)
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            found += differences(a, b, f"{prefix}{key}.")
        elif a != b:
            found.append(f"{prefix}{key}")
    return found


def adopt_plan(parts: Parts, ledger: Ledger) -> dict[str, Any]:
    """Write plan.json, or continue under the one that is there.

    Raises:
        UserError: the directory holds another experiment, or more attempts.
    """
    from pipeline.results import read_plan

    plan, run = parts.plan, parts.run
    identity = json.loads(json.dumps(plan.identity, default=str))
    if run.plan.exists():
        old = read_plan(run)
        if old.get("digest") != plan.digest:
            option = "--run …" if plan.agent == "predictions" else "--set name=…"
            keys = ", ".join(differences(old.get("identity", {}), identity)) or "its form"
            raise UserError(
                f"{run.root}: holds another experiment ({old.get('digest')}, this one is "
                f"{plan.digest}); they differ in {keys}. Give this one another name: {option}"
            )
        least, most = least_of(old), old["attempts"]
        if most > plan.attempts or least > plan.least:
            # Neither may the least: which of them enter pass@1 is not for outcomes to choose.
            raise UserError(
                f"{run.root}: has {between(least, most)} attempt{'s' if most > 1 else ''}; "
                f"attempts may grow, never shrink: --set {attempts_in_words(old)}"
            )
        if old.get("replayed", "") != parts.replayed:
            was = f"was replayed from {old['replayed']}" if old.get("replayed") else "is no replay"
            raise UserError(f"{run.root}: {was}; give this one another name: --set name=…")
    recorded = ledger.read_meta("digest")
    if recorded not in (None, plan.digest):
        raise UserError(f"{run.ledger}: belongs to another plan ({recorded}); move it away")
    ledger.write_meta("digest", plan.digest)
    content = asdict(plan) | {
        "digest": plan.digest,
        "identity": identity,
        "grader": parts.scorer.grader,
        "has_control": parts.scorer.has_control,
        "sandbox_kind": parts.sandboxes.name,
        "replayed": parts.replayed,
        "repos": {item.id: item.stratum for item in parts.instances},
        "versions": versions() | {f"agent {plan.agent}": parts.agent.version},
    }
    run.write(run.plan, json.dumps(content, indent=2, default=str) + "\n")
    return json.loads(json.dumps(content, default=str))  # type: ignore[no-any-return]


def versions() -> dict[str, str]:
    """Of everything that has a say in a result."""
    found = {"passone": __version__, "python": platform.python_version()}
    for name in ("swebench", "mini-swe-agent", "datasets", "docker"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found
