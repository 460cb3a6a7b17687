"""Performance and reliability, measured and printed; nothing is asserted here."""
