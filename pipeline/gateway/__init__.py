"""Every model call passes through here: counted, recorded, and its faults read by structure."""

from pipeline.gateway.lanes import Lane
from pipeline.gateway.scripts import Script, load_scripts
from pipeline.gateway.server import Gateway
from pipeline.gateway.upstream import Upstream

__all__ = ["Gateway", "Lane", "Script", "Upstream", "load_scripts"]
