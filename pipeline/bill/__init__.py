"""Read what a gateway's owner says was used: any export, one form, UTC."""

from pipeline.bill.columns import Columns
from pipeline.bill.entries import Bill, Entry, read_bill
from pipeline.bill.presets import PRESETS, columns_of

__all__ = ["PRESETS", "Bill", "Columns", "Entry", "columns_of", "read_bill"]
