"""Faults injected for real, each with the one right outcome: `make faults`."""
