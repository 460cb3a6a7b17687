"""Turn a run's ledger into rows, votes and a summary; what tables and notebooks import."""

from pipeline.results.rows import AttemptRow, tally_of
from pipeline.results.run import Results, load, of_book, read_plan

__all__ = ["AttemptRow", "Results", "load", "of_book", "read_plan", "tally_of"]
