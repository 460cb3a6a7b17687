"""Search trajectories and images for looks at the answer: no outcome changes, a table may."""

from pipeline.audit.images import Image, look
from pipeline.audit.report import (
    Audited,
    Rates,
    State,
    audit,
    rates,
    read_states,
    sign_records,
    tainted_of,
    to_json,
    without_tainted,
)
from pipeline.audit.signs import KINDS, Found, Own, Sign

__all__ = [
    "KINDS",
    "Audited",
    "Found",
    "Image",
    "Own",
    "Rates",
    "Sign",
    "State",
    "audit",
    "look",
    "rates",
    "read_states",
    "sign_records",
    "tainted_of",
    "to_json",
    "without_tainted",
]
