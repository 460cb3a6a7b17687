"""What several patches of an instance do to its visible tests: run once, and kept."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from pipeline.outcomes import InfraError
from pipeline.wording import count

if TYPE_CHECKING:
    from pipeline.choice import Candidate, Shown
    from pipeline.cli.parts import Parts
    from pipeline.domain import Instance
    from pipeline.rundir import RunDir


@dataclass(frozen=True, slots=True)
class Seen:
    """What the visible tests of one instance say, or why they say nothing."""

    tests: tuple[str, ...] = ()
    base: Shown | None = None
    shown: Mapping[str, Shown | None] | None = None
    """By the normalised text of a patch."""
    why_not: str = ""


def look_at_all(
    run: Path, groups: Mapping[str, Sequence[Candidate]], *, quiet: bool
) -> dict[str, Seen]:
    """The visible tests under every patch, where there is more than one. ^C loses the latest.

    Raises:
        UserError: Docker does not answer, somebody drives the run, or its verdicts were imported.
    """
    from pipeline.cli.controls import of_run
    from pipeline.cli.drive import stoppable

    parts = of_run(run, (), quiet=quiet)
    several = [item for item in parts.instances if several_in(groups.get(item.id, ()))]
    seen: dict[str, Seen] = {}
    with parts.run.held(), stoppable(parts.brake, parts.voice):
        for warning in parts.sandboxes.preflight(several) if several else ():
            parts.voice.note(warning)
        parts.sandboxes.reap()
        try:
            with ThreadPoolExecutor(parts.plan.execution.scorer_workers) as pool:
                pending = {pool.submit(look, parts, x, groups[x.id]): x.id for x in several}
                while pending:
                    for future in wait(pending, 0.2, return_when=FIRST_COMPLETED).done:
                        instance_id = pending.pop(future)
                        if (found := future.result()) is not None:
                            seen[instance_id] = found
                            parts.voice.note(f"{instance_id}: {summary(found)}")
        finally:
            parts.sandboxes.reap()
            parts.voice.left(parts.sandboxes.left)
    if parts.brake.soft.is_set():
        raise typer.Exit(130)
    return seen


def several_in(group: Sequence[Candidate]) -> bool:
    return len({candidate.text for candidate in group}) > 1


def summary(seen: Seen) -> str:
    if seen.why_not:
        return f"only texts are compared: {seen.why_not}"
    assert seen.shown is not None
    patches, tests = count(len(seen.shown), "patch", "patches"), len(seen.base or ())
    return f"{patches} under {count(tests, 'visible test')} in {count(len(seen.tests), 'file')}"


def look(parts: Parts, instance: Instance, group: Sequence[Candidate]) -> Seen | None:
    """One instance's visible tests, with each different patch and without any; None: stopped."""
    from pipeline.benchmarks.visible import Visible
    from pipeline.choice import touched

    visible = Visible(parts.sandboxes, parts.plan.sandbox)
    patches = {candidate.text: candidate.diff for candidate in reversed(group)}
    changed = {path for diff in patches.values() for path in touched(diff)}
    try:
        if parts.brake.soft.is_set():
            return None
        digest = parts.sandboxes.digest(instance)
        tests = visible.near(instance, changed, place_of(parts.run, instance.id, "base"))
        if not tests:
            return Seen(why_not="no visible test stands near what the patches change")
        kept = {"tests": list(tests), "image": digest}
        base = shown_by(parts, instance, tests, None, "base", kept)
        if not any((base or {}).values()):
            return Seen(tests, why_not="no visible test passes without a patch")
        shown = dict[str, "Shown | None"]()
        for text, diff in patches.items():
            if parts.brake.soft.is_set():
                return None
            key = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:12]
            shown[text] = shown_by(parts, instance, tests, diff, key, kept)
    except InfraError as error:
        return None if parts.brake.soft.is_set() else Seen(why_not=error.detail)
    return Seen(tests, base, shown)


def shown_by(
    parts: Parts,
    instance: Instance,
    tests: Sequence[str],
    diff: str | None,
    label: str,
    kept: Mapping[str, Any],
) -> Shown | None:
    """What the tests say of one patch: as kept from before, or anew.

    Raises:
        InfraError: our side failed.
    """
    from pipeline.benchmarks.visible import Visible
    from pipeline.domain import Patch
    from pipeline.rundir import write_atomically

    place = place_of(parts.run, instance.id, label)
    file = place / "statuses.json"
    if file.exists():
        known = json.loads(file.read_text(encoding="utf-8"))
        if {key: known.get(key) for key in kept} == kept:
            shown: Shown | None = known["shown"]
            return shown
    patch = None if diff is None else Patch.of(diff)
    try:
        shown = Visible(parts.sandboxes, parts.plan.sandbox).shown(instance, tests, patch, place)
    except InfraError as error:
        # A patch that takes its container along has broken its tests.
        if patch is None or not error.fault.died:
            raise
        shown = None
    write_atomically(file, json.dumps({**kept, "shown": shown}))
    return shown


def place_of(run: RunDir, instance_id: str, label: str) -> Path:
    place = run.root / "select" / instance_id / label
    place.mkdir(parents=True, exist_ok=True)
    return place
