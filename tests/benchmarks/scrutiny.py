"""What it costs to look at a pass, beside the scoring itself.

`python -m tests.benchmarks.scrutiny [DATASET]`; without one, the embedded benchmark. Gold of
every instance is scored in turn as a control, which nobody looks at, and as an attempt.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

from pipeline.benchmarks import dataset
from pipeline.benchmarks.swebench import SwebenchScorer
from pipeline.docker import DockerSandboxes, EmbeddedImages, Images, connect
from pipeline.domain import Attempt, Finding, Instance, Patch, SandboxLimits


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def seconds(scorer: SwebenchScorer, instance: Instance, number: int) -> float:
    """Of one scoring of gold; number 0: as a control."""
    with tempfile.TemporaryDirectory(prefix="passone-bench-") as name:
        began = time.monotonic()
        gold = Patch(str(instance.row["patch"]))
        verdict = scorer.score(Attempt(instance.id, number), instance, gold, Path(name))
        took = time.monotonic() - began
    if verdict.finding is not Finding.RESOLVED or verdict.evidence.tampered:
        raise SystemExit(f"{instance.id}: gold is {verdict.finding}, {verdict.evidence.reasons}")
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset", nargs="?", default="demo")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    client = connect()
    limits = SandboxLimits(memory_gb=4)
    sandboxes = DockerSandboxes(client, Images(client), "bench", limits)
    if options.dataset == "demo":
        sandboxes.prepare = EmbeddedImages(client)
    without, looked, once = 0.0, 0.0, 0.0
    for instance in dataset.load(options.dataset).instances:
        scorer = SwebenchScorer(sandboxes, limits)
        seconds(scorer, instance, 0)  # Whatever is cold is warm after it.
        first = seconds(scorer, instance, 1)
        pairs = [
            (seconds(scorer, instance, 0), seconds(scorer, instance, 1))
            for _ in range(options.rounds)
        ]
        plain, look = (statistics.median(times) for times in zip(*pairs, strict=True))
        say(
            f"{instance.id}: {plain:.2f} s, looked at {look:.2f} s ({look / plain - 1:+.1%}); "
            f"the first time at an instance {first - look:+.2f} s"
        )
        without, looked, once = without + plain, looked + look, once + max(first - look, 0.0)
    say(f"all: {without:.1f} s, looked at {looked:.1f} s ({looked / without - 1:+.1%})")
    say(f"and once an instance {once:.1f} s ({once / without:+.1%})")


if __name__ == "__main__":
    main()
