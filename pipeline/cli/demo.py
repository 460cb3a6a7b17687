"""`passone demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

EPILOG = """Examples:

  passone demo

  passone demo --size 10 --attempts 3"""


def demo_recipe(*, size: int, attempts: int, sandbox: str) -> dict[str, Any]:
    """The embedded default, as configs/demo.yaml has it."""
    name = "demo" if (size, attempts) == (5, 1) else f"demo-{size}x{attempts}"
    return {
        "name": name,
        "selection": {"dataset": "demo", "strategy": "even", "size": size, "seed": 0},
        "agent": {"name": "miniswe"},
        "model": {"name": "scripted", "replies": "demo"},
        "attempts": attempts,
        "limits": {"steps": 40, "seconds": 600, "cost_usd": 0},
        "sandbox": {"kind": sandbox, "memory_gb": 1, "pids": 512, "scoring_seconds": 300},
        "execution": {"backoff_seconds": 0.5},
    }


def demo(
    size: Annotated[int, typer.Option(min=1, max=10, help="Instances, of ten.")] = 5,
    attempts: Annotated[int, typer.Option(min=1, max=3, help="Attempts at each.")] = 1,
    sandbox: Annotated[str, typer.Option(help="auto, docker or local.")] = "auto",
    logs: Annotated[Path, typer.Option(help="Where runs are kept.")] = Path("logs"),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the result.")] = False,
) -> None:
    """Run the whole pipeline on the embedded benchmark: no key, no registry, Docker optional.

    The real mini-swe-agent and the real grader run; only the model's words are scripted.
    """
    from pipeline import config
    from pipeline.cli.run import run_recipe

    tree = demo_recipe(size=size, attempts=attempts, sandbox=sandbox)
    status = run_recipe(config.parse(tree, "passone demo"), logs=logs, quiet=quiet)
    raise typer.Exit(status)


def register(app: typer.Typer) -> None:
    app.command(epilog=EPILOG)(demo)
