"""How long `passone bundle` and `passone verify` take, and how much memory, over many attempts.

`python -m tests.benchmarks.bundles RUN [--times 50]`: RUN is a finished run of the embedded
benchmark, such as `passone demo --size 10 --attempts 3` leaves; its instances are multiplied, with
all that was written of them, so that 50 times make 500 instances. Copies pack better than life.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

from pipeline.benchmarks import dataset
from pipeline.ledger import Ledger
from pipeline.rundir import RunDir
from pipeline.sampler import fingerprint
from tests.benchmarks.tables import COMMAND, measured, say


def multiplied(run: RunDir, place: Path, times: int) -> RunDir:
    """A run of so many instances more."""
    made = RunDir(place / "run")
    plan = json.loads(run.plan.read_text(encoding="utf-8"))
    ids = plan["selection"]["ids"]
    rows = {item.id: item.row for item in dataset.load("demo").instances}
    names = {id_: [f"{id_}.{number}" for number in range(times)] for id_ in ids}
    fresh = [{**rows[id_], "instance_id": name} for id_ in ids for name in names[id_]]
    data = place / "rows.jsonl"
    data.write_text("".join(f"{json.dumps(row)}\n" for row in fresh), encoding="utf-8")
    selection = plan["selection"]
    selection["ids"] = [row["instance_id"] for row in fresh]
    selection["dataset"] = str(data)
    items = dataset.load(str(data)).instances
    selection["fingerprint"] = fingerprint(map(dataset.canonical, items))
    drawn = {"ids": sorted(selection["ids"]), "fingerprint": selection["fingerprint"]}
    plan["identity"]["selection"] = drawn
    text = json.dumps(plan["identity"], sort_keys=True)
    plan["digest"] = hashlib.sha256(text.encode()).hexdigest()[:12]
    plan["repos"] = {name: plan["repos"][id_] for id_ in ids for name in names[id_]}
    made.root.mkdir()
    made.plan.write_text(json.dumps(plan, indent=2), encoding="utf-8")
    for top in ("attempts", "scoring"):
        for id_ in ids:
            for name in names[id_]:
                shutil.copytree(run.root / top / id_, made.root / top / name)
                for path in (made.root / top / name).rglob("report.json"):
                    path.write_text(path.read_text().replace(f'"{id_}"', f'"{name}"'))
    with Ledger(run.ledger, read_only=True) as ledger, Ledger(made.ledger) as target:
        records = [json.loads(line) for line in ledger.dump("rows")]
        copies = [
            record | {"seq": seq * len(records) + place + 1, "instance": name}
            for place, record in enumerate(records)
            for seq, name in enumerate(names[record["instance"]])
        ]
        target.restore("rows", sorted(copies, key=lambda record: record["seq"]))
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--times", type=int, default=50)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="passone-bench-") as name:
        made = multiplied(RunDir(options.run), Path(name), options.times)
        files = [path for path in made.root.rglob("*") if path.is_file()]
        size = sum(path.stat().st_size for path in files) / 1e6
        say(f"{len(files):,} files, {size:,.0f} MB")
        bundle = Path(name) / "run.passone"
        os.environ["TMPDIR"] = name
        for argv in (
            ["bundle", str(made.root), "-o", str(bundle)],
            ["verify", str(bundle)],
            ["status", str(bundle)],
        ):
            took, cpu, memory = measured([sys.executable, "-c", COMMAND, *argv])
            say(f"  {argv[0]}: {took:.1f} s ({cpu:.1f} s of processor), {memory:,.0f} MB")
        say(f"  {bundle.stat().st_size / 1e6:,.1f} MB packed")


if __name__ == "__main__":
    main()
