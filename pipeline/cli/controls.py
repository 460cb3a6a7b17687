"""`passone controls`: can these instances be trusted here, before anything is spent on them?"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from pipeline.outcomes import InfraError, UserError
from pipeline.trust import Trust, trust_of

if TYPE_CHECKING:
    from pipeline.cli.parts import Parts
    from pipeline.domain import Controls, Fault, Instance
    from pipeline.ledger import Ledger
    from pipeline.scorer import Scoring

    Look: TypeAlias = Controls | Fault

EPILOG = """Examples:

  passone controls configs/verified-5.yaml

  passone controls logs/verified-5 --instance psf__requests-1724 --repeat 10"""


def controls(
    target: Annotated[Path, typer.Argument(help="A config, or a run directory.")],
    repeat: Annotated[int, typer.Option(min=1, max=100, help="Golds at each instance.")] = 1,
    only: Annotated[
        list[str] | None, typer.Option("--instance", metavar="ID", help="At these alone.")
    ] = None,
    assignments: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a config key.")
    ] = None,
    logs: Annotated[Path, typer.Option(help="Where runs are kept.")] = Path("logs"),
    as_json: Annotated[bool, typer.Option("--json", help="For a machine.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the result.")] = False,
) -> None:
    """Score gold, and where there is doubt the empty patch, at every instance.

    Of a config: ahead of its run, which then finds the passes kept. Of a run: its outcomes
    are settled anew, and the next `passone run` grades again what a broken place had moved.
    """
    begun = target.is_dir()
    parts = (
        of_run(target, assignments or (), quiet=quiet)
        if begun
        else of_config(target, assignments or (), logs, quiet=quiet)
    )
    chosen = choose(parts.instances, only)
    with parts.run.held(), opened(parts, begun=begun) as ledger:
        looks = look_at_all(parts, chosen, repeat, ledger)
        if ledger is not None:
            settle_anew(parts, ledger, looks)
    records = [record_of(item.id, looks[item.id]) for item in chosen if item.id in looks]
    if as_json:
        typer.echo(json.dumps(records, indent=2))
    else:
        parts.voice.controls(records)
    if len(records) < len(chosen):
        raise typer.Exit(130)
    raise typer.Exit(0 if all(record["trust"] == Trust.TRUSTED for record in records) else 3)


def of_config(path: Path, assignments: Sequence[str], logs: Path, *, quiet: bool) -> Parts:
    """What a config's run would score with; its logs go beside that run's."""
    from pipeline import config as configs
    from pipeline.cli import planning
    from pipeline.cli.desk import Desk
    from pipeline.cli.run import ENDPOINT

    recipe = configs.load(path, assignments, unneeded=ENDPOINT)
    selection, instances = planning.draw(recipe.selection)
    plan = planning.make_plan(recipe, selection, asks_model=False)
    desk = Desk(recipe, replace(plan, name=f"{plan.name}-controls"), logs, quiet=quiet)
    return desk.for_controls(instances)


def of_run(root: Path, assignments: Sequence[str], *, quiet: bool) -> Parts:
    """What a run has scored with, by its plan.json.

    Raises:
        UserError: no run is there, its verdicts were imported, or another plan is asked for.
    """
    from pipeline import config as configs
    from pipeline.cli import planning
    from pipeline.cli.desk import Desk
    from pipeline.plan import Selection
    from pipeline.recipe import Recipe
    from pipeline.results import read_plan
    from pipeline.rundir import RunDir

    content = read_plan(RunDir(root))
    if not content["has_control"]:
        raise UserError(f"{root}: its verdicts were imported; nobody can run their controls")
    tree: dict[str, Any] = {
        "name": root.resolve().name,
        "selection": content["selection"]["recipe"],
        "agent": {"name": "gold"},
        "attempts": content["attempts"],
        "sandbox": content["sandbox"] | {"kind": content["sandbox_kind"]},
        "execution": content["execution"],
        "trust": content.get("trust", {}),
    }
    configs.override(tree, assignments)
    recipe = configs.check(Recipe, tree, "passone controls")
    selection = Selection(**content["selection"] | {"ids": tuple(content["selection"]["ids"])})
    plan = planning.make_plan(recipe, selection, asks_model=False, grader=content["grader"])
    if asdict(plan.sandbox) != content["sandbox"] or plan.attempts != content["attempts"]:
        raise UserError(f"{root}: the limits of its sandbox are part of its plan and cannot vary")
    desk = Desk(recipe, plan, root.resolve().parent, quiet=quiet)
    return desk.for_controls(planning.instances_of(content))


def choose(instances: Sequence[Instance], only: Sequence[str] | None) -> list[Instance]:
    """Raises UserError: an id that is not among them."""
    known = {item.id: item for item in instances}
    strangers = [id_ for id_ in only or () if id_ not in known]
    if strangers:
        raise UserError(f"{strangers[0]}: is not in this selection of {', '.join(known)}")
    return [known[id_] for id_ in only] if only else list(instances)


@contextlib.contextmanager
def opened(parts: Parts, *, begun: bool) -> Iterator[Ledger | None]:
    """The ledger of a run, its places looked at and cleared; of a config there is none."""
    from pipeline.ledger import Ledger

    for warning in parts.sandboxes.preflight(parts.instances):
        parts.voice.note(warning)
    parts.sandboxes.reap()
    try:
        if begun:
            with Ledger(parts.run.ledger) as ledger:
                yield ledger
        else:
            yield None
    finally:
        parts.sandboxes.reap()
        parts.voice.left(parts.sandboxes.left)


def look_at_all(
    parts: Parts, instances: Sequence[Instance], repeat: int, ledger: Ledger | None
) -> dict[str, Look]:
    """A look at each instance, written down as it lands; ^C loses only what is under way."""
    from pipeline.cli.drive import make_scoring, stoppable
    from pipeline.contracts import Doubt
    from pipeline.domain import Attempt
    from pipeline.ledger import Kind

    scoring, brake, looks = make_scoring(parts), parts.brake, dict[str, "Look"]()
    workers = parts.plan.execution.scorer_workers
    rows = ledger.book().controls if ledger else {}
    numbers = {item.id: len(rows.get(item.id, ())) + 1 for item in instances}

    def look(instance: Instance) -> Look | None:
        if brake.soft.is_set():
            return None
        kept = ahead(scoring, instance, repeat) if ledger is None else None
        return kept or scoring.look(instance.id, numbers[instance.id], Doubt(golds=repeat))

    with stoppable(brake, parts.voice), ThreadPoolExecutor(workers) as pool:
        pending = {pool.submit(look, item): item.id for item in instances}
        while pending:
            for future in wait(pending, timeout=0.2, return_when=FIRST_COMPLETED).done:
                instance_id, value = pending.pop(future), future.result()
                if value is None or brake.hard.is_set():
                    continue
                if ledger is not None:
                    number = numbers[instance_id]
                    ledger.append(Kind.CONTROL, Attempt(instance_id, 0), number, value)
                looks[instance_id] = value
                parts.voice.looked(instance_id, value)
            if brake.hard.is_set():
                parts.sandboxes.reap()
    return looks


def ahead(scoring: Scoring, instance: Instance, repeat: int) -> Controls | None:
    """A kept look that is as close as the one that is asked for."""
    try:
        kept = scoring.kept_controls(instance.id, scoring.scorer.place(instance))
    except InfraError:
        return None
    return kept if kept is not None and len(kept.gold) >= repeat else None


def settle_anew(parts: Parts, ledger: Ledger, looks: Mapping[str, Look]) -> None:
    """Hold every outcome at these instances against what was seen, and write the tables again."""
    from pipeline.cli.exports import conclude
    from pipeline.domain import Attempt
    from pipeline.ledger import Kind
    from pipeline.results import read_plan

    book = ledger.book()
    doubted = 0
    for attempt in parts.plan.grid():
        if attempt.instance_id not in looks:
            continue
        entry: Any = book.entry(attempt)
        if book.doubted(attempt):
            doubted += 1
            continue
        settled = book.conclude(attempt, has_control=True)
        if settled is not None and settled != entry.settlement:
            number = len(entry.settlements) + 1
            ledger.append(Kind.SETTLEMENT, Attempt(*attempt), number, settled)
    conclude(parts.run, read_plan(parts.run), ledger, parts.instances)
    if doubted:
        parts.voice.note(f"{doubted} submissions are to be graded again: run the same config again")


def record_of(instance_id: str, look: Look) -> dict[str, Any]:
    """One instance, as the table and a machine get it."""
    from pipeline.benchmarks.reported import reported
    from pipeline.domain import Controls

    known = look if isinstance(look, Controls) else None
    verdicts = (*known.gold, *known.empty) if known else ()
    return {
        "instance": instance_id,
        "gold": f"{sum(v.passed for v in known.gold)}/{len(known.gold)}" if known else "–",
        "empty": f"{sum(v.passed for v in known.empty)}/{len(known.empty)}"
        if known and known.empty
        else "–",
        "trust": str(trust_of([known]) if known else Trust.UNKNOWN),
        "seconds": round(sum(verdict.seconds for verdict in verdicts), 1),
        "reported": reported([instance_id]).get(instance_id, ""),
    }


def register(app: typer.Typer) -> None:
    app.command(epilog=EPILOG)(controls)
