"""Say before anything is paid for whether a run can work, and what to mend where it cannot."""

from pipeline.doctor.checks import Area, Check, State, read_areas
from pipeline.doctor.examine import examine, preflight, short_form, smoke_form, widest
from pipeline.doctor.tryout import Tryout
from pipeline.doctor.visit import Patient, Visit

__all__ = [
    "Area",
    "Check",
    "Patient",
    "State",
    "Tryout",
    "Visit",
    "examine",
    "preflight",
    "read_areas",
    "short_form",
    "smoke_form",
    "widest",
]
