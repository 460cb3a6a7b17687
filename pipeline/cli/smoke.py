"""Let the installed agent do one small thing through the whole pipe, and show what it did."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.outcomes import UserError
from pipeline.wording import count

if TYPE_CHECKING:
    from rich.console import Console

    from pipeline.cli.desk import Desk
    from pipeline.contracts import Agent, Sandboxes
    from pipeline.doctor import Tryout
    from pipeline.domain import Fault, Instance, Rollout
    from pipeline.gateway.tapes import Exchange
    from pipeline.recipe import Recipe

TASK = """\
This is a check of the set-up; there is nothing to mend. Run this one command, by itself:

    echo {said} && ls -la

Change no file. When you have seen what it prints, submit at once{how}.
"""
BY_PATCH = ": an empty patch is right here"
MOST_SECONDS = 600
MOST_LINES = 15
MOST_CHARACTERS = 1500


def small(recipe: Recipe) -> Recipe:
    """The recipe with one attempt of a few steps, and little patience."""
    from pipeline.doctor.dialogue import REQUEST_SECONDS
    from pipeline.doctor.smoke import STEPS

    limits = recipe.limits.model_copy(
        update={
            "steps": min(recipe.limits.steps or STEPS, STEPS),
            "seconds": min(recipe.limits.seconds or MOST_SECONDS, MOST_SECONDS),
        }
    )
    gateway = recipe.gateway.model_copy(
        update={
            "request_seconds": min(recipe.gateway.request_seconds, REQUEST_SECONDS),
            "requests": min(recipe.gateway.requests, 2),
        }
    )
    return recipe.model_copy(
        update={"name": "smoke", "attempts": 1, "limits": limits, "gateway": gateway}
    )


@dataclass(slots=True)
class Workbench:
    """Where a small try is made, and what it leaves."""

    recipe: Recipe
    agent: Agent
    logs: Path
    keep: bool = False

    def try_out(self) -> Tryout:
        """One try at a task of one command, on the first instance.

        Raises:
            UserError: the agent, the sandbox, the dataset or the endpoint cannot be had.
        """
        from pipeline.cli import planning
        from pipeline.cli.desk import Desk
        from pipeline.doctor import Tryout
        from pipeline.doctor.smoke import SAID
        from pipeline.rollouts.conversation import Conversation, Unreadable, conversation_of

        recipe, agent = small(self.recipe), self.agent
        agent.preflight()
        selection, instances = planning.draw(recipe.selection)
        how = "" if selection.benchmark == "terminal" else BY_PATCH
        instance = replace(instances[0], prompt=TASK.format(said=SAID, how=how))
        plan = planning.make_plan(
            recipe, replace(selection, ids=(instance.id,)), asks_model=agent.asks_model
        )
        desk = Desk(recipe, plan, self.logs, quiet=True)
        value, workdir, place = roll(recipe, desk, agent, instance)
        exchanges = taped(workdir)
        said = Conversation()
        with contextlib.suppress(Unreadable):
            said = conversation_of(exchanges)
        return Tryout(
            instance_id=instance.id,
            image=instance.image,
            place=place,
            value=value,
            exchanges=exchanges,
            steps=list(agent.steps(workdir)) if workdir.exists() else [],
            history=said.history if said.replies else "",
            replies=said.replies,
            files=str(workdir) if workdir.exists() else "",
        )


@contextlib.contextmanager
def workbench(recipe: Recipe, agent: Agent) -> Iterator[Workbench]:
    """A directory of its own; removed, unless it is to be kept."""
    bench = Workbench(recipe, agent, Path(tempfile.mkdtemp(prefix="passone-smoke-")))
    try:
        yield bench
    finally:
        if not bench.keep:
            shutil.rmtree(bench.logs, ignore_errors=True)


def roll(
    recipe: Recipe, desk: Desk, agent: Agent, instance: Instance
) -> tuple[Rollout | Fault, Path, str]:
    """The first stage of a run, once; where the agent's files are, and in what it worked."""
    from pipeline.cli import parts
    from pipeline.cli.lanes import open_lanes
    from pipeline.domain import Attempt
    from pipeline.runner import Runner

    attempt = Attempt(instance.id, 1)
    source = parts.make_source(recipe, desk.plan, agent) if agent.asks_model else None
    sandboxes = parts.make_sandboxes(desk.place, [instance])
    parts.refuse_mismatch(agent, sandboxes)
    with (
        desk.run.held(),
        open_lanes(source, desk.plan, recipe.model.server_id, desk.terms) as lanes,
    ):
        try:
            sandboxes.preflight([instance])
            runner = Runner(
                plan=desk.plan,
                run=desk.run,
                instances={instance.id: instance},
                agent=agent,
                lanes=lanes,
                sandboxes=sandboxes,
                cancelled=desk.brake.hard,
            )
            value = runner.roll(attempt, 1)
            return value, desk.run.attempt(attempt, 1), sandboxes.name
        finally:
            clear(sandboxes)


def clear(sandboxes: Sandboxes) -> None:
    """Remove what was started and what was handed in: nobody grades it."""
    sandboxes.reap()
    # A daemon that is gone has been told of already.
    with contextlib.suppress(UserError):
        sandboxes.discard(set(sandboxes.snapshots))


def taped(workdir: Path) -> Sequence[Exchange]:
    """All that was said; nothing where nobody asked."""
    from pipeline.gateway.tapes import find_tape, read_tape

    path = find_tape(workdir)
    return read_tape(path).exchanges if path is not None else ()


def as_tried(tryout: Tryout, *, works: bool) -> dict[str, Any]:
    """What came of it, for a machine and for `show`."""
    from pipeline.domain import Fault

    value = tryout.value
    if isinstance(value, Fault):
        ended = f"{value.cause} fault: {value.detail}"
    else:
        ended = str(value.stop or value.exit_status)
    return {
        "instance": tryout.instance_id,
        "works": works,
        "ended": ended,
        "steps": [asdict(step) for step in tryout.steps],
        "seconds": round(value.seconds, 1),
        "usage": asdict(value.usage),
        "kept": "" if works else tryout.files,
    }


def show(tried: Mapping[str, Any], console: Console) -> None:
    """Thought, action and observation of each step, then how it ended."""
    from rich.markup import escape

    if tried["steps"]:
        console.print(f"what the agent did on {escape(tried['instance'])}", style="bold")
    for number, step in enumerate(tried["steps"], start=1):
        console.print(f"  step {number}", style="bold")
        for part in ("thought", "action", "observation"):
            lines = shortened(step[part]) or ["–"]
            console.print(f"    {part.ljust(11)}  {escape(lines[0])}")
            for line in lines[1:]:
                console.print(f"    {' ' * 11}  {escape(line)}")
    usage = tried["usage"]
    tokens = usage["input_tokens"] + usage["output_tokens"]
    colour, word = ("green", "works") if tried["works"] else ("red", "does not work")
    console.print(
        f"[{colour}]{word}[/]: {escape(shortened(tried['ended'])[0])}; "
        f"{count(len(tried['steps']), 'step')}, "
        f"{tried['seconds']} s, {count(usage['requests'], 'request')}, {tokens:,} tokens"
    )
    if tried["kept"]:
        console.print(f"what the agent left: {escape(tried['kept'])}")


def shortened(text: str) -> list[str]:
    """A few lines of a text, with nothing in them that a terminal would obey."""
    plain = "".join(c if c.isprintable() or c == "\n" else " " for c in text[:MOST_CHARACTERS])
    lines = plain.strip("\n").splitlines()
    cut = len(lines) > MOST_LINES or len(text) > MOST_CHARACTERS
    return [*lines[:MOST_LINES], *(["…"] if cut else [])]
