"""Write what a run has come to: summary, tables, and submissions in the official format."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipeline.domain import Instance
    from pipeline.ledger import Ledger
    from pipeline.results import Results
    from pipeline.rundir import RunDir


def conclude(
    run: RunDir, plan: Mapping[str, Any], ledger: Ledger, instances: Sequence[Instance]
) -> Results:
    """Write everything that can be made again from the ledger, and from what the agent left."""
    from pipeline import diagnose, tables
    from pipeline.cli.lanes import cut_off_usage
    from pipeline.leaderboard import predictions
    from pipeline.results import of_book
    from pipeline.results.frame import sheet_of

    results = of_book(plan, ledger.book(), cut_off=cut_off_usage(run))
    found = diagnose.diagnose(results, run, {item.id: item for item in instances})
    diagnose.keep(results, run, found)
    sheet = diagnose.marked(sheet_of(results), run)
    by_attempt = tables.table_of(sheet, tables.By.ATTEMPT)
    by_instance = tables.table_of(sheet, tables.By.INSTANCE)
    summary = json.dumps(results.summary(), indent=2, ensure_ascii=False) + "\n"
    run.write(run.report / "summary.json", summary)
    for name, table, kind in (
        ("attempts.csv", by_attempt, tables.Format.CSV),
        ("instances.csv", by_instance, tables.Format.CSV),
        ("attempts.parquet", by_attempt, tables.Format.PARQUET),
        ("instances.parquet", by_instance, tables.Format.PARQUET),
        ("table.md", by_instance, tables.Format.MD),
        ("table.tex", by_instance, tables.Format.LATEX),
    ):
        run.write(run.report / name, tables.render(table, kind))
    for number in range(1, max((row.attempt for row in results.rows), default=0) + 1):
        run.write(run.preds(number), predictions(results, number))
    return results
