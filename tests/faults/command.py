"""What the suites have in common at the command line: the options, and how a matrix is shown."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Protocol


class Sheet(Protocol):
    """What a suite has measured."""

    @property
    def seconds(self) -> float: ...
    @property
    def verdict(self) -> str: ...
    def text(self) -> str: ...
    def markdown(self) -> str: ...


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def options(name: str, purpose: str | None, *, workers: int) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m {name}", description=purpose)
    parser.add_argument("--only", action="append", default=[], metavar="SUBSTRING")
    parser.add_argument("--workers", type=int, default=workers)
    parser.add_argument("--no-peers", action="store_true", help="passone alone")
    parser.add_argument(
        "--write",
        type=Path,
        metavar="PATH",
        help="the matrix as Markdown; with --only, these rows of it",
    )
    return parser


def publish(sheet: Sheet, asked: argparse.Namespace, updated: Callable[[str], str]) -> None:
    """Print it, and write its page.

    Args:
        updated: a page with this in place of what it had on the same.
    """
    say(sheet.text())
    if asked.write:
        whole = not asked.only
        page = sheet.markdown() if whole else updated(asked.write.read_text(encoding="utf-8"))
        asked.write.write_text(page, "utf-8")
        say(f"written to {asked.write}")
    say(f"{sheet.seconds:.0f} s")
    say(sheet.verdict)
