"""Keep what was settled on this machine: a submission is graded once, gold once for each place.

Only what was settled in a trusted place is kept, and everything that could change it is in
its key: a new patch can never get an old verdict.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import tarfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

import platformdirs
import zstandard
from pydantic import TypeAdapter, ValidationError

from pipeline.domain import Attempt, Controls, Finding, Instance, Patch, SandboxLimits, Verdict
from pipeline.rundir import sweep, write_atomically

T = TypeVar("T")
CERTAIN = frozenset({Finding.RESOLVED, Finding.UNRESOLVED, Finding.PATCH_REJECTED})
"""What the same patch comes to again. A timeout or a death is a matter of the day."""
LOGS = ("eval.sh", "patch.diff", "test_output.txt", "report.json", "apply.log")
LOOK = "canary 2"
"""How a pass is looked at; what was kept under another way is looked at anew."""
LARGEST_LOG_BYTES = 64 * 1024 * 1024


def cache_dir() -> Path:
    """`PASSONE_CACHE`, else where this machine keeps caches."""
    return Path(os.environ.get("PASSONE_CACHE") or platformdirs.user_cache_dir("passone"))


def this_machine() -> str:
    """What tells this machine from others that share its cache directory."""
    try:
        return Path("/etc/machine-id").read_text(encoding="ascii").strip() or platform.node()
    except OSError:
        return platform.node()


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A verdict that was settled, and whose scoring it comes from."""

    verdict: Verdict
    run: str
    attempt: Attempt

    @property
    def origin(self) -> str:
        """For a person to look up."""
        return f"{self.run}, {self.attempt.instance_id} #{self.attempt.number}"


KEPT, CONTROLS = TypeAdapter(Kept), TypeAdapter(Controls)


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """Verdicts and controls, by row (its evaluation script too), image, grader and limits."""

    root: Path
    grader: str
    sandbox: str
    limits: SandboxLimits
    machine: str = ""

    def sweep(self) -> None:
        """Remove what a killed process left half written."""
        sweep(self.root / "controls", *(self.root / "verdicts").glob("??"))

    def key(self, instance: Instance, digest: str, **more: str) -> str:
        """The content of everything that decides what the tests say."""
        identity = {
            "row": dict(instance.row),
            "image": digest,
            "grader": self.grader,
            "sandbox": self.sandbox,
            "limits": asdict(self.limits),
            **more,
        }
        text = json.dumps(identity, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()

    def verdict_key(self, instance: Instance, digest: str, patch: Patch) -> str:
        content = patch.diff.encode("utf-8", "surrogateescape")
        return self.key(instance, digest, patch=hashlib.sha256(content).hexdigest(), looked=LOOK)

    def verdict(self, key: str) -> Kept | None:
        """The kept verdict on exactly this, if there is one that can be read."""
        kept = read(KEPT, self._verdict(key))
        whole = kept is not None and self._logs(key).exists()
        return kept if whole else None

    def keep_verdict(self, key: str, kept: Kept, logs: Path) -> None:
        """Keep a settled verdict with its logs; what is not certain is not kept."""
        if kept.verdict.finding not in CERTAIN or kept.verdict.evidence.tampered:
            return
        try:
            packed = pack(logs)
            if packed is not None:
                # The logs first: a verdict without them is none.
                write_atomically(self._logs(key), packed)
                write_atomically(self._verdict(key), KEPT.dump_json(kept))
        except OSError:
            # A cache that cannot be written costs time, never a result.
            return

    def unpack(self, key: str, target: Path) -> None:
        """Put the logs of a kept verdict where those of a scoring would be.

        Raises:
            OSError: they are gone, or cannot be written.
        """
        content = zstandard.ZstdDecompressor().stream_reader(
            io.BytesIO(self._logs(key).read_bytes())
        )
        with tarfile.open(fileobj=content, mode="r|") as tar:
            for member in tar:
                file = tar.extractfile(member)
                if file is not None and member.name in LOGS:
                    (target / member.name).write_bytes(file.read())

    def controls(self, instance: Instance, digest: str) -> Controls | None:
        """A kept look at exactly this place, if there is one that can be read."""
        return read(CONTROLS, self._controls(instance, digest)) if digest else None

    def keep_controls(self, instance: Instance, look: Controls, *, trusted: bool) -> None:
        """Keep a look that found a place in order; any other takes back what was kept of it."""
        if not look.image_digest:
            return
        path = self._controls(instance, look.image_digest)
        try:
            if not trusted:
                path.unlink(missing_ok=True)
                return
            earlier = read(CONTROLS, path)
            if earlier is None or len(earlier.gold) <= len(look.gold):
                write_atomically(path, CONTROLS.dump_json(look))
        except OSError:
            return

    def _controls(self, instance: Instance, digest: str) -> Path:
        key = self.key(instance, digest, machine=self.machine)
        return self.root / "controls" / f"{key}.json"

    def _verdict(self, key: str) -> Path:
        return self.root / "verdicts" / key[:2] / f"{key}.json"

    def _logs(self, key: str) -> Path:
        return self._verdict(key).with_suffix(".tar.zst")


def read(adapter: TypeAdapter[T], path: Path) -> T | None:
    """What stands in a file; None: nothing that this version can read."""
    try:
        return adapter.validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None


def pack(logs: Path) -> bytes | None:
    """The logs of a scoring in one piece; None: too large to be kept."""
    files = [logs / name for name in LOGS if (logs / name).is_file()]
    if sum(file.stat().st_size for file in files) > LARGEST_LOG_BYTES:
        return None
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for file in files:
            tar.add(file, arcname=file.name)
    return zstandard.ZstdCompressor().compress(buffer.getvalue())
