"""Hold a bill against a run: what the agent says, what the gateway saw, what is asked for."""

from pipeline.reconcile.findings import STANDING, Finding, Kind, Standing
from pipeline.reconcile.ledgers import SLACK_SECONDS, Account, Reconciliation, reconcile

__all__ = [
    "SLACK_SECONDS",
    "STANDING",
    "Account",
    "Finding",
    "Kind",
    "Reconciliation",
    "Standing",
    "reconcile",
]
