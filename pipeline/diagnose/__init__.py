"""Say in which mode every attempt that is blamed on the model failed, by rules, with evidence."""

from pipeline.diagnose.case import Case, Evidence
from pipeline.diagnose.report import (
    Diagnosis,
    counts,
    diagnose,
    diagnose_attempt,
    differing,
    in_order,
    keep,
    kept,
    marked,
    modes_in,
    modes_of,
    record_of,
    report_of,
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
    "diagnose_attempt",
    "diagnosis",
    "differing",
    "in_order",
    "keep",
    "kept",
    "marked",
    "modes_in",
    "modes_of",
    "record_of",
    "report_of",
    "to_json",
    "to_text",
    "with_modes",
]
