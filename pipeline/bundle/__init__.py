"""A run as evidence that travels: one file with a manifest of hashes, opened as a run again."""

from pipeline.bundle.archive import NAME, is_bundle, write
from pipeline.bundle.checks import (
    Check,
    compare_lines,
    compare_pairs,
    compare_tables,
    compare_trees,
    plain,
    same,
    shown,
)
from pipeline.bundle.contents import Contents, strangers
from pipeline.bundle.manifest import (
    DIGEST_CHARACTERS,
    ESTIMATES,
    HEADLINE,
    INSTANCES,
    NEEDED,
    Manifest,
    Member,
    Part,
    belongs,
    digest_of,
    part_of,
)
from pipeline.bundle.opening import looked_into, opened
from pipeline.bundle.unpacking import Unpacked, unpack

__all__ = [
    "DIGEST_CHARACTERS",
    "ESTIMATES",
    "HEADLINE",
    "INSTANCES",
    "NAME",
    "NEEDED",
    "Check",
    "Contents",
    "Manifest",
    "Member",
    "Part",
    "Unpacked",
    "belongs",
    "compare_lines",
    "compare_pairs",
    "compare_tables",
    "compare_trees",
    "digest_of",
    "is_bundle",
    "looked_into",
    "opened",
    "part_of",
    "plain",
    "same",
    "shown",
    "strangers",
    "unpack",
    "write",
]
