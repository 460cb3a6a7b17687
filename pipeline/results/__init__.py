"""Turn a run's ledger into rows, votes and a summary; what tables and notebooks import."""

from pipeline.results.rows import AttemptRow
from pipeline.results.run import Results, load, of_book, read_plan

__all__ = ["AttemptRow", "Results", "load", "of_book", "read_plan"]
