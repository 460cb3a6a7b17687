"""Remember what is over. A row means that a try is over; no row means do it again.

The table is append-only and nothing stores "running", so that a process killed
at any moment is continued by simply running again.
"""

from pipeline.ledger.book import Book, Entry
from pipeline.ledger.file import Ledger
from pipeline.ledger.rows import TYPES, Kind, Row, Value

__all__ = ["TYPES", "Book", "Entry", "Kind", "Ledger", "Row", "Value"]
