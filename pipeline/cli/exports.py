"""Write what a run has come to: summary, tables, and submissions in the official format."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipeline.diagnose import Diagnosis
    from pipeline.domain import Instance
    from pipeline.ledger import Ledger
    from pipeline.results import Results
    from pipeline.rundir import RunDir


def conclude(
    run: RunDir, plan: Mapping[str, Any], ledger: Ledger, instances: Sequence[Instance]
) -> Results:
    """Write everything that can be made again from the ledger, and from what the agent left."""
    from pipeline import diagnose
    from pipeline.cli.lanes import cut_off_usage
    from pipeline.results import of_book

    results = of_book(plan, ledger.book(), cut_off=cut_off_usage(run))
    found = diagnose.diagnose(results, run, {item.id: item for item in instances})
    for name, content in made_of(results, run, found, parquet=True):
        run.write(run.root / name, content)
    return results


def made_of(
    results: Results, run: RunDir, found: Sequence[Diagnosis] | None, *, parquet: bool = False
) -> Iterator[tuple[str, bytes]]:
    """Everything that can be made again: its place in the run, and its content.

    Args:
        found: why attempts failed; None: as it is kept, which then is not made again.
        parquet: the tables for machines, too; how they are packed is their library's matter.
    """
    from pipeline import diagnose, tables
    from pipeline.leaderboard import predictions
    from pipeline.results.frame import sheet_of

    if found is not None:
        yield "report/diagnosis.json", diagnose.to_text(results, found).encode()
    sheet = diagnose.marked(sheet_of(results), run, found)
    by_attempt = tables.table_of(sheet, tables.By.ATTEMPT)
    by_instance = tables.table_of(sheet, tables.By.INSTANCE)
    summary = json.dumps(results.summary(), indent=2, ensure_ascii=False) + "\n"
    yield "report/summary.json", summary.encode()
    for name, table, kind in (
        ("attempts.csv", by_attempt, tables.Format.CSV),
        ("instances.csv", by_instance, tables.Format.CSV),
        ("attempts.parquet", by_attempt, tables.Format.PARQUET),
        ("instances.parquet", by_instance, tables.Format.PARQUET),
        ("table.md", by_instance, tables.Format.MD),
        ("table.tex", by_instance, tables.Format.LATEX),
    ):
        if parquet or kind is not tables.Format.PARQUET:
            yield f"report/{name}", tables.render(table, kind)
    for number in range(1, max((row.attempt for row in results.rows), default=0) + 1):
        yield f"preds.{number}.jsonl", predictions(results, number).encode()


def headline(results: Results) -> bytes:
    """What `passone status` says first."""
    from pipeline.headline import lines_of

    return "".join(f"{line}\n" for line in lines_of(results)).encode("utf-8", "replace")


def estimates(results: Results) -> bytes:
    """`passone table --by estimate --format csv`: pass@k and the like."""
    from pipeline import tables
    from pipeline.results.frame import sheet_of

    table = tables.table_of(sheet_of(results), tables.By.ESTIMATE)
    return tables.render(table, tables.Format.CSV)
