"""Say what a bundle holds: every member with its size and hash; the manifest's own hash names it.

A member's name is its place in the run. Only what is known to belong to a run travels: nobody's
notes, no lock, no label of a machine.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Any

FORM = 1
DIGEST_CHARACTERS = 16
"""Of the manifest's sha256: what a paper quotes."""
INSTANCES = "instances.jsonl"
HEADLINE = "report/headline.txt"
ESTIMATES = "report/estimates.csv"
LEDGER = ("ledger/meta.jsonl", "ledger/rows.jsonl")
NEEDED = ("plan.json", INSTANCES, *LEDGER, "report/summary.json", HEADLINE, ESTIMATES)
"""Without these nothing can be recomputed."""
PLAIN = re.compile(
    r"README|plan\.json|instances\.jsonl|ledger/(?:meta|rows)\.jsonl|preds\.[1-9]\d*\.jsonl"
    r"|report/(?:summary\.json|diagnosis\.json|audit\.json|select\.json|attempts\.csv|instances\.csv"
    r"|estimates\.csv|headline\.txt|table\.md|table\.tex)"
)
TREES = ("attempts", "cut-off", "scoring")
STEPS = re.compile(r"trajectory\..+|steps\.jsonl")
BRIEF = ("patch.diff", "report.json", "reward.txt", "reward.json", "rewards.json", "eval.sh")
"""What says how a submission was graded, and is short."""


class Part(StrEnum):
    """What can be left out of a bundle."""

    TAPES = "tapes"
    TRAJECTORIES = "trajectories"
    LOGS = "logs"
    ARTIFACTS = "artifacts"
    """What was kept of a container; see `pipeline.docker.artifacts`."""


def part_of(name: str) -> Part | None:
    """Which part a member belongs to; None: it always travels."""
    top, _, rest = name.partition("/")
    file = rest.rpartition("/")[2]
    if top not in TREES:
        return None
    if top == "attempts" and "/artifacts/" in name:
        return Part.ARTIFACTS
    if top == "cut-off" or re.fullmatch(r"tape\.jsonl(?:\.zst)?", file):
        return Part.TAPES
    if top == "attempts" and STEPS.fullmatch(file):
        return Part.TRAJECTORIES
    return None if file in BRIEF else Part.LOGS


def belongs(name: str) -> bool:
    """Whether a path is one that a bundle may have, and stays below the run when unpacked."""
    parts = PurePosixPath(name).parts
    if not parts or "/".join(parts) != name or not name.isprintable():
        return False
    if any(part == ".." or len(part.encode()) > 255 for part in parts):
        return False
    return bool(PLAIN.fullmatch(name)) or (parts[0] in TREES and len(parts) > 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One file of a bundle."""

    name: str
    size: int
    """Bytes."""
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The first member of a bundle; it names all the others."""

    run: str
    plan: str
    """Digest of the plan."""
    passone: str
    """Which release made it."""
    pending: int
    """Attempts that had not been run; the headline says so too."""
    left_out: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By part: how many `files` and `bytes`."""
    cut_off: Mapping[str, Any] | None = None
    """What was used and came to no row, where the tapes that show it were left out."""
    members: Sequence[Member]
    """By name."""

    def to_bytes(self) -> bytes:
        tree = {"bundle": FORM} | asdict(self)
        return (json.dumps(tree, indent=1) + "\n").encode()

    @staticmethod
    def parse(content: bytes) -> Manifest:
        """Read it back.

        Raises:
            ValueError: it is no manifest of this form, or names what no bundle may hold.
        """
        tree = json.loads(content)
        if not isinstance(tree, dict) or tree.pop("bundle", None) != FORM:
            raise ValueError(f"it is not of form {FORM}, which this passone reads")
        try:
            members = [Member(**member) for member in tree.pop("members")]
            manifest = Manifest(members=members, **tree)
            check_head(manifest)
        except (LookupError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(str(error)) from None
        names = [member.name for member in members]
        for member in members:
            if not isinstance(member.name, str) or not belongs(member.name):
                raise ValueError(f"it names {member.name!r}, which no run has")
            if not isinstance(member.size, int) or member.size < 0:
                raise ValueError(f"{member.name}: its size is {member.size!r}")
        places = {str(parent) for name in names for parent in PurePosixPath(name).parents}
        if len(set(names)) < len(names) or places & set(names):
            raise ValueError("it names a place twice")
        return manifest

    @property
    def bytes(self) -> int:
        """Of all members, unpacked."""
        return sum(member.size for member in self.members)

    def has(self, part: Part) -> bool:
        return part.value not in self.left_out


def check_head(manifest: Manifest) -> None:
    """Raises ValueError: what it says of the run is not what it may say."""
    for text in (manifest.run, manifest.plan, manifest.passone):
        if not isinstance(text, str) or not text.isprintable():
            raise ValueError(f"it names {text!r}")
    counts: list[object] = [manifest.pending]
    for name, part in manifest.left_out.items():
        if part.keys() != {"files", "bytes"}:
            raise ValueError(f"left out: {name!r}")
        counts += [*part.values(), *([] if name in set(Part) else [None])]
    if not all(type(number) is int and number >= 0 for number in counts):
        raise ValueError(f"it counts {counts}")


def digest_of(manifest: bytes) -> str:
    """sha256 of a manifest, in hexadecimal; it covers every byte of every member."""
    return hashlib.sha256(manifest).hexdigest()
