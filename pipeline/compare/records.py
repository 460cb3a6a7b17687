"""A comparison as records, for tables and machines; a side is called by its letter there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, TypeAlias

from pipeline.compare import Comparison
from pipeline.compare.pairs import Told
from pipeline.compare.words import letter
from pipeline.votes import Ballot

Record: TypeAlias = dict[str, Any]


def by_instance(found: Comparison) -> list[Record]:
    """One record an instance."""
    repos = found.sides[0].repos
    records = []
    for id_ in found.ids:
        record: Record = {"instance": id_, "repo": repos.get(id_, "")}
        for place, side in enumerate(found.sides):
            cell, name = side.cells[id_], letter(place).lower()
            record |= {
                f"{name}_resolved": cell.resolved,
                f"{name}_counted": cell.counted,
                f"{name}_attempts": cell.attempts,
                f"{name}_vote": cell.ballot.value,
                f"{name}_uncounted": cell.why,
            }
        records.append(record | {"told": found.told(id_)} if found.pairs else record)
    return records


def by_pair(found: Comparison) -> list[Record]:
    """One record a pair: counts are integers, rates and p-values floats, what is unknown None."""
    return [
        {
            "first": pair.first,
            "second": pair.second,
            **{told.value.replace(" ", "_"): pair.size(told) for told in Told},
            "mcnemar_p": pair.mcnemar,
            "mcnemar_p_holm": pair.mcnemar_holm,
            "difference": pair.difference.mean if pair.difference else None,
            "difference_instances": pair.difference.instances if pair.difference else 0,
            "difference_se": pair.difference.error if pair.difference else None,
            "difference_low": pair.ci95[0] if pair.ci95 else None,
            "difference_high": pair.ci95[1] if pair.ci95 else None,
            "permutation_p": pair.permutation,
            "permutation_p_holm": pair.permutation_holm,
            "detectable": pair.detectable,
            "sentence": pair.sentence,
        }
        for pair in found.pairs
    ]


def by_side(found: Comparison) -> list[Record]:
    """One record a side: pass@1 is over valid."""
    records = []
    for place, side in enumerate(found.sides):
        rate, votes = side.rate(found.ids), [side.cells[id_].ballot for id_ in found.ids]
        cells = [side.cells[id_] for id_ in found.ids]
        records.append(
            {
                "side": letter(place),
                "name": side.name,
                "model": side.model,
                "instances": len(cells),
                "attempts": sum(cell.attempts for cell in cells),
                "counted": sum(cell.counted for cell in cells),
                "resolved": sum(cell.resolved for cell in cells),
                "pass_at_1": rate[0] if rate else None,
                "low": rate[1] if rate else None,
                "high": rate[2] if rate else None,
                **{f"votes_{ballot.value}": votes.count(ballot) for ballot in Ballot},
            }
        )
    return records


def to_json(found: Comparison) -> Mapping[str, Any]:
    """The whole, for a machine."""
    apart = (Told.ONLY_FIRST, Told.ONLY_SECOND, Told.OPEN)
    return {
        "title": found.title,
        "sides": by_side(found),
        "differences": [asdict(item) for item in found.differences],
        "confounds": found.confounds,
        "notes": list(found.notes),
        "pairs": [
            record
            | {f"{told.value.replace(' ', '_')}_ids": pair.ids(told) for told in apart}
            | {"unpaired_ids": list(pair.unpaired)}
            for record, pair in zip(by_pair(found), found.pairs, strict=True)
        ],
        "published": [asdict(item) | {"inside": item.inside} for item in found.beside],
        "instances": by_instance(found),
        "sentences": found.sentences,
    }
