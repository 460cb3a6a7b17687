"""`passone doctor`: whether a run can work, before it costs anything."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.outcomes import UserError
from pipeline.wording import count

if TYPE_CHECKING:
    from rich.console import Console

    from pipeline.contracts import Agent
    from pipeline.doctor import Check, Patient, Visit
    from pipeline.doctor.dialogue import Exchange
    from pipeline.recipe import Recipe

EPILOG = """Examples:

  passone doctor configs/mini-5.yaml --only settings,endpoint

  passone doctor --write-config vllm -o my.yaml"""

TESTED = {"miniswe": "2.4.6", "sweagent": "1.1.0"}
MARKS = {"ok": "✓", "warn": "!", "fail": "✗", "skipped": "–"}
COLOURS = {"ok": "green", "warn": "yellow", "fail": "red", "skipped": "dim"}
TOOL_KEYS = {
    "miniswe": ("model.model_class", "textbased"),
    "sweagent": ("agent.tools.parse_function.type", "thought_action,action,json,xml,edit_format"),
}
"""The option of an agent that does away with tool calls, and values that do."""


def calls_tools(name: str, options: Mapping[str, Any]) -> bool:
    """Whether an agent works through tool calls alone, as its options or its config file say."""
    import yaml

    from pipeline.agents.driving import leaves

    if name not in TOOL_KEYS:
        return False
    key, without = TOOL_KEYS[name]
    found: dict[str, Any] = {}
    file = Path(str(options.get("config") or ""))
    if file.is_file():
        tree = yaml.safe_load(file.read_text(encoding="utf-8", errors="replace"))
        found = dict(leaves(tree)) if isinstance(tree, dict) else {}
    value = str((found | dict(leaves(options))).get(key, ""))
    if name == "miniswe":
        return without not in value
    return value not in without.split(",")


def patient_of(
    recipe: Recipe, agent: Agent, *, logs: Path, heard: list[Exchange] | None = None
) -> Patient:
    """What the doctor is told; what it hears is added to `heard`."""
    import os

    from pipeline.cli import planning
    from pipeline.doctor import Patient

    return Patient(
        recipe=recipe,
        agent=agent,
        environ=os.environ,
        draw=lambda say: planning.draw(recipe.selection, say=say)[1],
        logs=logs,
        calls_tools=calls_tools(agent.name, recipe.agent.options),
        heard=(heard if heard is not None else []).append,
        one_call_a_reply=agent.name == "sweagent",
        tested=TESTED.get(agent.name, ""),
        **of_tasks(recipe),
    )


def of_tasks(recipe: Recipe) -> dict[str, Any]:
    """What only terminal tasks can say of their images and sizes."""
    if recipe.selection.benchmark != "terminal":
        return {}
    from pipeline.benchmarks.terminal import places
    from pipeline.cli.planning import limits_of

    limits = limits_of(recipe)
    return {"built": places.is_built, "scant": lambda one: places.scant(one, limits)}


class Sheet:
    """Checks as they are done: a line each, its remedy below it."""

    def __init__(self, console: Console, width: int) -> None:
        self.console = console
        self.width = width
        self.area = ""
        self.waiting: list[str] = []
        """What could not be looked at, for want of something else."""

    def add(self, check: Check) -> None:
        if check.area != self.area:
            self.finish()
            self.area = check.area
            self.console.print(check.area, style="bold")
        if check.state == "skipped" and check.detail.startswith("needs "):
            self.waiting.append(check.name)
            return
        colour, mark = COLOURS[check.state], MARKS[check.state]
        head = f"  {mark} {check.name.ljust(self.width)}  "
        self.line(head, check.detail, f"[{colour}]{mark}[/]")
        if check.remedy:
            self.line(" " * (len(head) - 2) + "→ ", check.remedy, "")
        if check.raw:
            self.line(f"    {'it answered'.ljust(self.width)}  ", check.raw, "")

    def finish(self) -> None:
        """Say in one line what had to wait."""
        if self.waiting:
            head = f"  {MARKS['skipped']} {'not looked at'.ljust(self.width)}  "
            self.line(head, ", ".join(self.waiting), f"[dim]{MARKS['skipped']}[/]")
        self.waiting = []

    def line(self, head: str, text: str, mark: str) -> None:
        """One line; on a terminal as many as it takes, below each other."""
        from rich.markup import escape

        if self.console.is_terminal:
            indent = " " * len(head)
            text = textwrap.fill(
                text,
                max(self.console.width, len(head) + 30),
                initial_indent=indent,
                subsequent_indent=indent,
                break_long_words=False,
                break_on_hyphens=False,
            ).removeprefix(indent)
        shown = escape(head)
        if mark:
            plain = mark.partition("]")[2].partition("[")[0]
            shown = shown.replace(plain, mark, 1)
        self.console.print(f"{shown}{escape(text)}")


def verdict(checks: Sequence[Check], visit: Visit) -> str:
    """The last line."""
    counts = {state: sum(1 for check in checks if check.state == state) for state in MARKS}
    words = {"ok": "ok", "warn": "to look at", "fail": "to mend", "skipped": "skipped"}
    parts = [f"{count} {words[state]}" for state, count in counts.items() if count]
    spent = visit.spent
    cost = f", ${spent.cost_usd:.4f}" if spent.requests and spent.cost_usd is not None else ""
    asked = f"; {count(spent.requests or 0, 'completion')}, {spent.tokens:,} tokens{cost}"
    return ", ".join(parts) + (asked if spent.requests else "")


def as_json(checks: Iterable[Check], visit: Visit, **more: object) -> str:
    from dataclasses import asdict

    tree = {
        "config": visit.patient.recipe.name,
        "checks": [asdict(check) for check in checks],
        "spent": {"requests": visit.spent.requests, "tokens": visit.spent.tokens},
        **more,
    }
    return json.dumps(tree, indent=2, ensure_ascii=False)


def examine(recipe: Recipe, *, only: str, as_tree: bool, smoke: bool, logs: Path) -> int:
    """Look at a config; the exit status."""
    from pipeline.cli import parts
    from pipeline.cli.smoke import as_tried, show, workbench
    from pipeline.cli.voice import console
    from pipeline.doctor import Area, State, Visit, read_areas, smoke_form, widest
    from pipeline.doctor import examine as look

    if smoke and only:
        raise UserError("--smoke has its own areas; leave --only out")
    areas = read_areas(only) if only else frozenset(Area)
    agent = parts.make_agent(recipe.agent.name, recipe.agent.options)
    parts.check_benchmark(recipe.selection.benchmark, agent.name)
    checks, tried = [], {}
    with workbench(recipe, agent) as bench:
        patient = replace(patient_of(recipe, agent, logs=logs), try_out=bench.try_out)
        sheet = Sheet(console(), widest(patient))
        with Visit(patient=patient, short=smoke).held() as visit:
            for check in smoke_form(visit) if smoke else look(visit, areas):
                checks.append(check)
                if not as_tree:
                    sheet.add(check)
        sheet.finish()
        failed = any(check.state is State.FAIL for check in checks)
        if visit.tryout is not None:
            bench.keep = failed
            tried = as_tried(visit.tryout, works=not failed)
            if not as_tree:
                show(tried, sheet.console)
    if as_tree:
        more = {"exit": 2 if failed else 0} | ({"smoke": tried} if smoke else {})
        typer.echo(as_json(checks, visit, **more))
    elif not tried:
        sheet.console.print(verdict(checks, visit), style="bold")
    return 2 if failed else 0


def write(kind: str, output: Path | None, assignments: Sequence[str]) -> None:
    """Raises UserError: nobody knows this kind, or the file is there already."""
    from pipeline.doctor.templates import write_config
    from pipeline.rundir import write_atomically

    settings = {}
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not equals:
            raise UserError(
                f"--set {assignment!r}: expected KEY=VALUE, such as model.name=openai/x"
            )
        settings[key.strip()] = value.strip()
    text = write_config(kind, file=str(output or "my.yaml"), settings=settings)
    if output is None:
        typer.echo(text, nl=False)
        return
    if output.exists():
        raise UserError(f"{output}: is there already; name another file, or move it away")
    try:
        write_atomically(output, text)
    except OSError as error:
        raise UserError(f"{output}: cannot be written: {error.strerror or error}") from None
    typer.echo(f"{output}: written; look it over, then: passone doctor {output}")


def doctor(
    config: Annotated[
        Path | None, typer.Argument(help="A YAML file; configs/ holds commented ones.")
    ] = None,
    only: Annotated[
        str,
        typer.Option(
            metavar="AREA,…",
            help="settings, python, agent, dataset, docker, images, disk, endpoint.",
        ),
    ] = "",
    smoke: Annotated[
        bool, typer.Option("--smoke", help="Let the agent do one small thing, and show it.")
    ] = False,
    as_tree: Annotated[bool, typer.Option("--json", help="For a machine.")] = False,
    assignments: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a config key.")
    ] = None,
    write_config: Annotated[
        str,
        typer.Option(metavar="KIND", help="Write a config instead: gateway (no /v1), v1 or vllm."),
    ] = "",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to; without it, it is printed.")
    ] = None,
    logs: Annotated[Path, typer.Option(help="Where runs are kept.")] = Path("logs"),
) -> None:
    """Check a config, this machine and the endpoint, with a remedy for each thing that is wrong.

    Exit status 2 where a run cannot work (URL, key, model id, completion, tool call); else 0.
    """
    if write_config:
        write(write_config, output, assignments or ())
        return
    if config is None:
        raise UserError("name a config: passone doctor configs/mini-5.yaml")
    from pipeline import config as configs

    recipe = configs.load(config, assignments or ())
    raise typer.Exit(examine(recipe, only=only, as_tree=as_tree, smoke=smoke, logs=logs))


def register(app: typer.Typer) -> None:
    app.command(epilog=EPILOG)(doctor)
