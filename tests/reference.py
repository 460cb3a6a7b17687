"""`python -m tests.reference`: every command and option, from the program itself."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from typer.main import get_command

from pipeline.cli import app

PAGE = Path("docs/cli.md")
HEAD = """\
# Commands

Every command with all that it takes. `make reference` writes this page from the program itself;
nothing here is written by hand.

`passone COMMAND --help` says the same at the terminal, `passone --version` names the version, and
`passone --install-completion` teaches the shell to complete commands and options.

Exit status: 0 done · 1 a bug of ours · 2 you can mend it · 3 done, but something is infra,
unsettled or over a threshold · 130 interrupted.
"""


def commands() -> dict[str, Any]:
    """By name, in the order of `passone --help`."""
    return dict(get_command(app).commands)  # type: ignore[attr-defined]


def spelled(part: Any) -> str:
    """An argument or option as one types it."""
    if part.param_type_name == "argument":
        return f"`{part.name.upper()}`"
    # A table would be cut in two by FILE|ID.
    value = "" if part.is_flag else f" {part.metavar or part.name.upper()}".replace("|", " or ")
    spellings = [*part.opts, *part.secondary_opts]
    # The short one first, as --help has it.
    return ", ".join(
        f"`{one}{value}`" for one in sorted(spellings, key=lambda one: one[:2] == "--")
    )


def default_of(part: Any) -> str:
    """What holds where nobody says anything."""
    if part.required:
        return "required"
    if part.default is None or part.default is False or part.default == "":
        return ""
    return f"`{part.opts[0] if part.default is True else part.default}`"


def rows(command: Any) -> Iterator[str]:
    for part in sorted(command.params, key=lambda part: part.param_type_name):
        words = " ".join((part.help or "").split()).replace("|", "\\|")
        often = " May be repeated." if part.multiple or part.nargs == -1 else ""
        said = "" if "may be repeated" in words.lower() else often
        yield f"| {spelled(part)} | {default_of(part)} | {words}{said} |"


def section(name: str, command: Any) -> str:
    """One command: what it does, what it takes, its examples."""
    examples = [line.strip() for line in command.epilog.splitlines()[1:] if line.strip()]
    parts = [f"## {name}", command.help.strip()]
    parts.append("\n".join(["| | default | |", "|---|---|---|", *rows(command)]))
    parts.append("\n".join(["```", *examples, "```"]))
    return "\n\n".join(parts)


def page() -> str:
    """The whole page."""
    sections = [section(name, command) for name, command in commands().items()]
    return "\n\n".join([HEAD.rstrip(), *sections]) + "\n"


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.reference", description=__doc__)
    parser.add_argument("--write", type=Path, metavar="FILE", help=f"Usually {PAGE}.")
    where = parser.parse_args(arguments).write
    if where is None:
        sys.stdout.write(page())
    else:
        where.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
