"""Turn a run's ledger into rows, votes and a summary; what tables and notebooks import."""

from pipeline.results.reading import load, of_book, read_plan
from pipeline.results.rows import AttemptRow, tally_of
from pipeline.results.run import Results
from pipeline.results.steps import read_steps

__all__ = ["AttemptRow", "Results", "load", "of_book", "read_plan", "read_steps", "tally_of"]
