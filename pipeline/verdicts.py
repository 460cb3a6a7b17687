"""Keep what gold has passed on this machine, for every run that comes after.

Only passes are kept: a stumble is looked at again each time.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

import platformdirs
from pydantic import TypeAdapter, ValidationError

from pipeline.domain import Finding, Instance, SandboxLimits, Verdict
from pipeline.rundir import write_atomically

VERDICT = TypeAdapter(Verdict)


def cache_dir() -> Path:
    """`PASSONE_CACHE`, else where this machine keeps caches."""
    return Path(os.environ.get("PASSONE_CACHE") or platformdirs.user_cache_dir("passone"))


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldStore:
    """Passing gold verdicts, by row, image, grader, limits and kind of sandbox."""

    root: Path
    grader: str
    sandbox: str
    limits: SandboxLimits

    def path(self, instance: Instance, digest: str) -> Path:
        identity = {
            "row": dict(instance.row),
            "image": digest,
            "grader": self.grader,
            "sandbox": self.sandbox,
            "limits": asdict(self.limits),
        }
        text = json.dumps(identity, sort_keys=True, default=str)
        return self.root / "gold" / f"{hashlib.sha256(text.encode()).hexdigest()}.json"

    def find(self, instance: Instance, digest: str) -> Verdict | None:
        """The kept pass in exactly this place, if there is one that can be read."""
        if not digest:
            return None
        try:
            return VERDICT.validate_json(self.path(instance, digest).read_bytes())
        except (OSError, ValidationError):
            return None

    def keep(self, instance: Instance, verdict: Verdict) -> None:
        """Keep a pass; anything else, and a place without a name, is not kept."""
        digest = verdict.evidence.image_digest
        if verdict.finding is not Finding.RESOLVED or verdict.evidence.tampered or not digest:
            return
        try:
            write_atomically(self.path(instance, digest), VERDICT.dump_json(verdict))
        except OSError:
            # A cache that cannot be written costs time, never a result.
            return
