"""Write runs as one self-contained page that needs no network: something to look at."""

from pipeline.report.comparison import MOST_RUNS
from pipeline.report.details import Source, source_of
from pipeline.report.level import Level
from pipeline.report.page import Written, write_report

__all__ = ["MOST_RUNS", "Level", "Source", "Written", "source_of", "write_report"]
