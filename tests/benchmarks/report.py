"""How large `passone report` becomes, how long it takes to write, and how long to open.

`python -m tests.benchmarks.report [--attempts 10] [--instances 500] [--run DIR ...]`: instances
with so many attempts, each with a trajectory, a tape, a log and an official report of the size of
real ones; what is read in them is source code of this Python. Or runs that exist. Opened in a
Chromium on PATH: until the page is drawn, and until all of it is read.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from playwright.sync_api import sync_playwright

from pipeline.domain import Attempt, Patch, Rollout, Step, Usage, Verdict
from pipeline.gateway.tapes import Exchange, Header, Recorder
from pipeline.ledger import Ledger
from pipeline.rundir import RunDir
from tests.benchmarks import tables
from tests.benchmarks.tables import COMMAND, build, measured, say

FLAGS = ["--no-sandbox", "--disable-quic", "--disable-background-networking"]
DRAWN = """new Promise((done) => {
  const look = () => document.documentElement.dataset.ready
    ? requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now())))
    : setTimeout(look, 5);
  look();
})"""
ACTIONS = (
    "grep -rn 'def {}' src | head -20",
    "sed -n '1,80p' src/{}.py",
    "python -m pytest tests/test_{}.py -x -q",
    "sed -i 's/old/new/' src/{}.py",
)


def sources() -> str:
    """Some megabytes of code to read in."""
    place = Path(sysconfig.get_paths()["stdlib"])
    files = sorted(place.glob("*.py"))[:120]
    return "".join(path.read_text(encoding="utf-8", errors="replace") for path in files)


def steps(rng: random.Random, text: str, count: int) -> Iterator[Step]:
    """Observations of some two thousand characters, seldom of ten thousand, as mini's are."""
    for number in range(count):
        at = rng.randrange(len(text) - 20_000)
        length = min(10_000, int(rng.lognormvariate(7.4, 0.9)))
        words = text[at : at + rng.randrange(60, 400)]
        yield Step(
            thought=f"Step {number}. {' '.join(words.split())}",
            action=rng.choice(ACTIONS).format(f"part_{rng.randrange(99)}"),
            observation=text[at : at + length],
        )


def furnish(run: RunDir, attempts: list[tuple[Attempt, Rollout, Verdict | None]]) -> None:
    """The files of every attempt."""
    rng, text = random.Random(1), sources()
    names = [f"tests/test_all.py::test_number_{n}" for n in range(41)]
    for attempt, rollout, verdict in attempts:
        workdir = run.attempt(attempt, 1)
        workdir.mkdir(parents=True)
        lines = (json.dumps(asdict(step)) for step in steps(rng, text, rollout.steps))
        (workdir / "steps.jsonl").write_text("\n".join(lines), encoding="utf-8")
        header = Header(
            run="b",
            plan="p",
            instance_id=attempt.instance_id,
            attempt=attempt.number,
            try_number=1,
            model="m",
            where="w",
            begun="2026-01-01T00:00:00.000+00:00",
        )
        tape = Recorder(workdir / "tape.jsonl", header)
        for ordinal in range(1, rollout.steps + 1):
            usage = Usage(requests=1, input_tokens=4000, output_tokens=300, as_planned=1)
            asked = f"2026-01-01T00:{ordinal % 60:02}:00.000+00:00"
            request = {"temperature": 0, "top_p": 1, "messages": []}
            tape.write(Exchange(ordinal=ordinal, request=request, asked=asked, usage=usage))
        tape.close()
        if verdict is None:
            continue
        scoring = run.scoring(attempt.instance_id, attempt.number)
        scoring.mkdir(parents=True)
        whole = verdict.fail_to_pass.passed == 1
        log = "".join(
            f"{'PASSED' if n or whole else 'FAILED'} {n_}\n" for n, n_ in enumerate(names)
        )
        (scoring / "test_output.txt").write_text(text[:20_000] + log, encoding="utf-8")
        groups = {
            "FAIL_TO_PASS": {"success": names[:1] * whole, "failure": names[:1] * (not whole)},
            "PASS_TO_PASS": {"success": names[1:], "failure": []},
        }
        tree = {attempt.instance_id: {"tests_status": groups}}
        (scoring / "report.json").write_text(json.dumps(tree), encoding="utf-8")


def make(place: Path, attempts: int) -> RunDir:
    run = build(place, attempts)
    found = []
    with Ledger(run.ledger, read_only=True) as ledger:
        for attempt, entry in ledger.book().entries.items():
            rollout, verdict = entry.rollout, entry.verdict
            if isinstance(rollout, Rollout) and isinstance(rollout.submission, Patch):
                found.append((attempt, rollout, verdict if isinstance(verdict, Verdict) else None))
    furnish(run, found)
    return run


def look(path: Path) -> None:
    """Open it three times; the middle one counts."""
    program = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))))
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=FLAGS)
        found = []
        for _ in range(3):
            page = browser.new_context().new_page()
            began = time.monotonic()
            page.goto(path.resolve().as_uri(), wait_until="commit")
            drawn = page.evaluate(DRAWN)
            page.wait_for_load_state("load")
            found.append((float(drawn) / 1000, time.monotonic() - began))
            page.context.close()
        browser.close()
    drawn, read = (sorted(times)[1] for times in zip(*found, strict=True))
    say(f"  opened: drawn after {drawn:.2f} s, all of it read after {read:.2f} s")


def measure(run: RunDir, *options: str) -> None:
    target = run.root.parent / "report.html"
    argv = [sys.executable, "-c", COMMAND, "report", str(run.root), "-o", str(target), *options]
    took, cpu, memory = measured(argv)
    size = target.stat().st_size / 1e6
    kind = " ".join(options) or "default"
    say(
        f"  {kind}: {size:.1f} MB, written in {took:.1f} s "
        f"({cpu:.1f} s of processor, {memory:,.0f} MB)"
    )
    look(target)
    target.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--attempts", type=int, default=10)
    parser.add_argument("--instances", type=int, default=500)
    parser.add_argument("--run", type=Path, nargs="*", default=[])
    options = parser.parse_args()
    for path in options.run:
        say(f"{path}:")
        measure(RunDir(path))
    if options.run:
        return
    tables.INSTANCES = options.instances
    with tempfile.TemporaryDirectory(prefix="passone-bench-") as name:
        began = time.monotonic()
        run = make(Path(name) / "run", options.attempts)
        said = f"{options.instances} x {options.attempts}"
        say(f"{said}: made in {time.monotonic() - began:.0f} s")
        measure(run)
        measure(run, "--all")


if __name__ == "__main__":
    main()
