"""Every model call passes through here: counted, recorded, and its faults read by structure."""

from pipeline.gateway.lanes import Lane
from pipeline.gateway.scripts import Script, load_scripts
from pipeline.gateway.server import Gateway
from pipeline.gateway.upstream import Upstream, check_endpoint, read_key

__all__ = ["Gateway", "Lane", "Script", "Upstream", "check_endpoint", "load_scripts", "read_key"]
