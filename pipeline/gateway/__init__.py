"""Every model call passes through here: counted, bounded, recorded, and played again."""

from pipeline.gateway.budgets import Purse, price_of
from pipeline.gateway.lanes import Lane, Patience, Terms
from pipeline.gateway.pressure import Pressure
from pipeline.gateway.replay import Replay
from pipeline.gateway.scripts import Script, load_scripts
from pipeline.gateway.server import Gateway
from pipeline.gateway.tapes import Header, Recorder, Tape, find_tape, read_tape
from pipeline.gateway.upstream import Upstream, check_endpoint, read_key

__all__ = [
    "Gateway",
    "Header",
    "Lane",
    "Patience",
    "Pressure",
    "Purse",
    "Recorder",
    "Replay",
    "Script",
    "Tape",
    "Terms",
    "Upstream",
    "check_endpoint",
    "find_tape",
    "load_scripts",
    "price_of",
    "read_key",
    "read_tape",
]
