"""Say in which mode every attempt that is blamed on the model failed, by rules, with evidence."""

from pipeline.diagnose.case import Case, Evidence
from pipeline.diagnose.report import (
    Diagnosis,
    counts,
    diagnose,
    differing,
    in_order,
    keep,
    marked,
    modes_in,
    modes_of,
    to_json,
    to_text,
    with_modes,
)
from pipeline.diagnose.rules import RULES, Mode, Rule, diagnosis

__all__ = [
    "RULES",
    "Case",
    "Diagnosis",
    "Evidence",
    "Mode",
    "Rule",
    "counts",
    "diagnose",
    "diagnosis",
    "differing",
    "in_order",
    "keep",
    "marked",
    "modes_in",
    "modes_of",
    "to_json",
    "to_text",
    "with_modes",
]
