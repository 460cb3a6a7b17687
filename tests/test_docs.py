"""What the docs say is held against what the code does."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel
from typer.main import get_command

from pipeline import config
from pipeline.agents import command, minitraces, sweagent
from pipeline.cli import app, parts, planning
from pipeline.cli.demo import demo_recipe
from pipeline.domain import Cause, Stop, Usage
from pipeline.gateway.upstream import check_endpoint
from pipeline.ledger import Book
from pipeline.outcomes import RETRYABLE, Blame, Outcome, UserError, settle
from pipeline.recipe import Recipe
from pipeline.results import AttemptRow, Results
from pipeline.trust import Trust
from tests.loopback import by_step, completes, serve

ROOT = Path(__file__).parent.parent
ENGLISH, CHINESE = ROOT / "README.md", ROOT / "README.zh-CN.md"
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
CONFIGS = sorted(ROOT.glob("configs/*.yaml"))
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def blocks(path: Path, language: str | None = None) -> list[str]:
    """Fenced code blocks of a page."""
    found = FENCE.findall(path.read_text(encoding="utf-8"))
    return [text for kind, text in found if language in (None, kind)]


def prose(path: Path) -> str:
    return FENCE.sub("", path.read_text(encoding="utf-8"))


def headings(path: Path) -> list[tuple[int, str]]:
    found = re.findall(r"^(#+) (.+)$", prose(path), re.MULTILINE)
    return [(len(marks), text) for marks, text in found]


def anchors(path: Path) -> set[str]:
    """As GitHub makes them of headings."""
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for _, text in headings(path)}


def tables(path: Path) -> list[list[dict[str, str]]]:
    """Every table of a page, as rows by column."""
    found: list[list[dict[str, str]]] = []
    for text in re.findall(r"(?:^\|.*\|\n)+", prose(path), re.MULTILINE):
        lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
        found.append([dict(zip(lines[0], line, strict=True)) for line in lines[2:]])
    return found


def table(path: Path, *columns: str) -> list[dict[str, str]]:
    """The one table of a page that has these columns."""
    [found] = [rows for rows in tables(path) if set(columns) <= set(rows[0])]
    return found


def bare(cell: str) -> str:
    return cell.strip("`")


def codes(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


# Links and languages


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_every_relative_link_resolves(path: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(path)):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        page = (path.parent / file).resolve() if file else path
        assert page.is_file(), target
        assert not anchor or anchor in anchors(page), target


def test_both_readmes_have_the_same_structure() -> None:
    levels = [[level for level, _ in headings(path)] for path in (ENGLISH, CHINESE)]
    assert levels[0] == levels[1]
    shapes = [[(len(rows), len(rows[0])) for rows in tables(path)] for path in (ENGLISH, CHINESE)]
    assert shapes[0] == shapes[1]
    items = [len(re.findall(r"^(?:\*|\d\.) ", prose(path), re.M)) for path in (ENGLISH, CHINESE)]
    assert items[0] == items[1]


def test_both_readmes_have_the_same_code_and_links() -> None:
    assert blocks(ENGLISH) == blocks(CHINESE)
    links = [
        set(re.findall(r"\]\(([^)\s]+)\)", prose(path))) - {name_of(CHINESE), name_of(ENGLISH)}
        for path in (ENGLISH, CHINESE)
    ]
    assert links[0] == links[1]


def test_the_changelog_has_scores() -> None:
    assert (3, "Scores") in headings(ROOT / "CHANGELOG.md")


# Commands


def command_lines(path: Path) -> Iterator[list[str]]:
    for text in blocks(path, ""):
        for line in text.replace("\\\n", " ").splitlines():
            words = line.partition(" #")[0].split()
            if words and words[0] in ("passone", "make"):
                yield words


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_every_command_shown_exists(path: Path) -> None:
    group: Any = get_command(app)
    commands: dict[str, Any] = group.commands
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for program, name, *words in command_lines(path):
        if program == "make":
            assert re.search(rf"^{name}:", makefile, re.MULTILINE), name
            continue
        if name.startswith("-"):
            assert name in {option for part in group.params for option in part.opts}
            continue
        assert name in commands
        known = {option for part in commands[name].params for option in part.opts}
        assert {word for word in words if word.startswith("-")} <= known
        for word in words:
            if word.startswith("configs/"):
                assert (ROOT / word).is_file()


def test_the_readme_names_every_command() -> None:
    shown = {words[1] for words in command_lines(ENGLISH) if words[0] == "passone"}
    commands = set(get_command(app).commands)  # type: ignore[attr-defined]
    assert {name for name in shown if not name.startswith("-")} == commands


# Configuration


def leaves(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys of a model tree, with their defaults."""
    for key, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from leaves(kind, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", ... if field.is_required() else field.default


def as_written(default: object) -> str:
    """A default as the page has it."""
    if default is ...:
        return "required"
    special = {"None": "null", "": '""', "()": "[]"}
    return f"`{special.get(str(default), default)}`"


def test_every_config_key_is_documented_with_its_default() -> None:
    rows = table(ROOT / "docs/configuration.md", "key", "in the digest")
    documented = {bare(row["key"]): row["default"] for row in rows}
    assert documented == {key: as_written(value) for key, value in leaves(Recipe)}


OTHER: dict[str, Any] = {
    "name": "other",
    "agent.name": "gold",
    "agent.options": {"model": {"cost_tracking": "default"}},
    "model.name": "openai/other",
    "model.base_url": "http://127.0.0.1:1/v1",
    "model.key_variable": "OTHER_API_KEY",
    "model.replies": str(ROOT / "pyproject.toml"),
    "sampling.temperature": 1,
    "sampling.top_p": 0.5,
    "sampling.seed": 7,
    "sampling.max_tokens": 4096,
    "sampling.on_wire": "correct",
    "model.headers": {"X-Team": "a"},
    "model.prices": {"m": {"input": 1, "output": 2}},
    "limits.tokens": 1,
    "budget.cost_usd": 1,
    "budget.tokens": 1,
    "trust.repeats": 7,
    "trust.rescore_share": 1,
    "trust.empty_share": 1,
    "trust.infra_share": 1,
    "gateway.request_seconds": 1,
    "gateway.stall_seconds": 1,
    "gateway.requests": 1,
    "gateway.deadline_seconds": 1,
    "gateway.backoff_seconds": 1,
    "gateway.in_flight": 1,
    "gateway.requests_a_minute": 1,
    "gateway.tokens_a_minute": 1,
    "attempts": 3,
    "limits.steps": 1,
    "limits.seconds": 1,
    "limits.cost_usd": 1,
    "sandbox.kind": "docker",
    "sandbox.memory_gb": 3,
    "sandbox.pids": 1,
    "sandbox.disk_gb": 1,
    "sandbox.network": "off",
    "sandbox.scoring_seconds": 1,
    "sandbox.mirrors": ["mirror.invalid"],
    "execution.agent_workers": 9,
    "execution.scorer_workers": 9,
    "execution.tries": 9,
    "execution.backoff_seconds": 9,
}
"""For every key that has one, a value other than the demo's."""
DRAWN = {"selection.size": 4, "selection.seed": 1, "selection.strategy": "random"}
DEMO = demo_recipe(size=5, attempts=1, sandbox="auto")


def digest_of(tree: dict[str, Any]) -> str:
    recipe = config.parse(tree, "test", environ={})
    return planning.make_plan(recipe, planning.draw(recipe.selection)[0]).digest


def changed(key: str, value: Any) -> dict[str, Any]:
    tree: dict[str, Any] = yaml.safe_load(yaml.safe_dump(DEMO))
    config.override(tree, [f"{key}={yaml.safe_dump(value, default_flow_style=True)}"])
    return tree


@pytest.mark.parametrize(
    "row", table(ROOT / "docs/configuration.md", "key", "in the digest"), ids=lambda row: row["key"]
)
def test_the_digest_covers_what_the_docs_say(row: dict[str, str]) -> None:
    key, covered = bare(row["key"]), row["in the digest"]
    if covered == "as drawn":
        assert key.startswith("selection.")
        if key in DRAWN:
            assert digest_of(changed(key, DRAWN[key])) != digest_of(DEMO)
    elif key != "execution.executor":  # it has one value only
        moved = digest_of(changed(key, OTHER[key])) != digest_of(DEMO)
        assert covered == ("yes" if moved else "no")


def test_the_same_instances_by_another_recipe_are_the_same_experiment() -> None:
    recipe = config.parse(DEMO, "test", environ={})
    ids = list(planning.draw(recipe.selection)[0].ids)
    tree = DEMO | {"selection": {"dataset": "demo", "strategy": "ids", "ids": ids[::-1]}}
    assert digest_of(tree) == digest_of(DEMO)


# Shipped configs


@pytest.mark.parametrize("path", CONFIGS, ids=name_of)
def test_shipped_config_parses_and_teaches(path: Path) -> None:
    recipe = config.load(path)
    assert recipe.name == path.stem
    comments = [line for line in path.read_text().splitlines() if line.startswith("#")]
    assert len(comments) >= 5


@pytest.mark.parametrize("path", [path for path in CONFIGS if path.stem != "demo"], ids=name_of)
def test_shipped_config_is_refused_until_its_placeholders_are_filled(path: Path) -> None:
    with pytest.raises(UserError, match=r"model\.name is 'openai/YOUR_MODEL_ID'"):
        check_endpoint(config.load(path).model)
    with pytest.raises(UserError, match=r"model\.base_url is 'https://…/v1'"):
        check_endpoint(config.load(path, ["model.name=openai/x"]).model)


def test_verified_5_is_the_config_that_was_asked_for() -> None:
    tree = yaml.safe_load((ROOT / "configs/verified-5.yaml").read_text(encoding="utf-8"))
    assert tree == {
        "name": "verified-5",
        "selection": {
            "dataset": "verified",
            "split": "test",
            "strategy": "even",
            "size": 5,
            "seed": 0,
            "repos": [
                "django/django",
                "sympy/sympy",
                "scikit-learn/scikit-learn",
                "astropy/astropy",
                "matplotlib/matplotlib",
            ],
        },
        "agent": {"name": "sweagent", "options": {}},
        "model": {
            "name": "openai/YOUR_MODEL_ID",
            "base_url": "https://…/v1",
            "key_variable": "OPENAI_API_KEY",
        },
        "sampling": {"temperature": 0, "top_p": 1},
        "attempts": 1,
        "limits": {"steps": 75, "seconds": 3600, "cost_usd": 3},
        "sandbox": {"memory_gb": 8, "network": True, "mirrors": []},  # YAML 1.1 reads on as true
        "execution": {
            "executor": "threads",
            "agent_workers": 2,
            "scorer_workers": 2,
            "tries": 3,
        },
    }


def test_mini_5_draws_what_verified_5_draws() -> None:
    both = [config.load(ROOT / f"configs/{name}-5.yaml") for name in ("mini", "verified")]
    assert both[0].selection == both[1].selection


def test_demo_yaml_is_the_demo() -> None:
    recipe = config.load(ROOT / "configs/demo.yaml")
    assert recipe == config.parse(DEMO, "test", environ={})
    assert digest_of(yaml.safe_load((ROOT / "configs/demo.yaml").read_text())) == digest_of(DEMO)


# Outcomes

OUTCOMES = ROOT / "docs/outcomes.md"
COLUMNS = {trust.value: trust for trust in Trust}


def test_every_outcome_is_explained() -> None:
    explained = [bare(row["outcome"]) for row in table(OUTCOMES, "outcome", "it means")]
    assert explained == [outcome.value for outcome in Outcome]


def test_who_pays_is_what_settle_says() -> None:
    said = {
        (bare(row["outcome"]), column): row[column]
        for row in table(OUTCOMES, "outcome", *COLUMNS)
        for column in COLUMNS
    }
    assert said == {
        (outcome.value, column): settle(outcome, control)[1].value
        for outcome in Outcome
        for column, control in COLUMNS.items()
    }


@pytest.mark.parametrize(
    ("column", "statuses"),
    [("SWE-agent says", sweagent.STATUS), ("mini-swe-agent says", minitraces.STATUS)],
)
def test_every_stop_is_explained_with_the_statuses_that_mean_it(
    column: str, statuses: dict[str, Stop | Cause]
) -> None:
    rows = table(OUTCOMES, "stop", column)
    assert [bare(row["stop"]) for row in rows] == [stop.value for stop in Stop]
    for row in rows:
        meant = {name for name, meaning in statuses.items() if meaning == bare(row["stop"])}
        assert set(codes(row[column])) == meant


def test_every_cause_is_explained_with_whether_it_is_tried_again() -> None:
    said = {bare(row["cause"]): row["another try at once"] for row in table(OUTCOMES, "cause")}
    assert said == {cause.value: "yes" if RETRYABLE[cause] else "no" for cause in Cause}


def example_row(instance_id: str, number: int, cell: str) -> AttemptRow:
    """An attempt of the worked example; `resolved → infra` was moved by gold."""
    official, _, moved = cell.partition(" → ")
    outcome = Outcome(moved or official)
    graded = official in (Outcome.RESOLVED, Outcome.UNRESOLVED)
    return AttemptRow(
        instance_id=instance_id,
        repo="",
        attempt=number,
        outcome=outcome,
        blame=settle(outcome, Trust.TRUSTED)[1],
        cause="",
        official=official == Outcome.RESOLVED if graded else None,
        moved=bool(moved),
        trust="",
        patch=None,
        unknown_exit=False,
        stop="",
        tries=1,
        steps=0,
        usage=Usage(),
        seconds=0.0,
        fail_to_pass="",
        pass_to_pass="",
        detail="",
    )


def percent(value: float) -> str:
    return f"{100 * value:.1f}"


def test_the_worked_example_is_what_the_code_computes() -> None:
    *lines, means = table(OUTCOMES, "instance", "attempt 1", "vote")
    rows = [
        example_row(line["instance"], number, line[f"attempt {number}"])
        for line in lines
        for number in (1, 2, 3)
    ]
    results = Results(plan={}, rows=rows, book=Book())
    rates, majority = results.pass_at_1(), results.majority()
    for reading in ("official", "all", "valid", "high"):
        assert means[reading] == f"**{percent(rates[reading])} %**"
    assert [vote.ballot.value for vote in results.votes] == [line["vote"] for line in lines]
    text = " ".join(prose(OUTCOMES).split())
    low, high = (percent(bound) for bound in rates["all_ci95"])
    assert f"an interval of {low}–{high} %" in text
    low, high = (percent(bound) for bound in rates["valid_ci95"])
    assert f"{percent(rates['valid'])} % with {low}–{high} %" in text
    assert f"{percent(majority['rate'])} % of decided, range " in text
    assert f"range {percent(majority['low'])}–{percent(majority['high'])} %" in text
    open_blames = (Blame.INFRA, Blame.AMBIGUOUS)
    assert sum(row.blame in open_blames for row in rows) * 2 == len(rows)  # "half … broke"


# Agents

AGENTS = ROOT / "docs/agents.md"


def test_every_field_of_a_command_is_documented() -> None:
    said = [bare(row["field"]) for row in table(AGENTS, "field", "holds")]
    assert said == [f"{{{name}}}" for name in command.FIELDS]


def example_config(argv: Sequence[str] | None = None) -> dict[str, Any]:
    [text] = [text for text in blocks(AGENTS, "yaml") if text.startswith("name: my-agent")]
    tree: dict[str, Any] = yaml.safe_load(text)
    if argv is not None:
        tree["agent"]["options"]["argv"][: len(argv)] = argv
    return tree


@pytest.mark.parametrize("text", blocks(AGENTS, "yaml"))
def test_every_agent_shown_is_accepted(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    tree = {"name": "x", "selection": {"dataset": "demo"}} | yaml.safe_load(text)
    recipe = config.parse(tree, "docs")
    agent = parts.make_agent(recipe.agent.name, recipe.agent.options)
    if recipe.agent.name == "command":
        agent.preflight()


@pytest.mark.docker
def test_the_worked_example_of_a_command_resolves_an_instance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [source] = blocks(AGENTS, "python")
    program = tmp_path / "loop.py"
    program.write_text(source, encoding="utf-8")
    selection = {"dataset": "demo", "strategy": "ids", "ids": ["passone__ember-24"]}
    tree = example_config(["python3", str(program)]) | {"selection": selection}
    _, [instance] = planning.draw(config.parse(tree, "docs").selection)
    script = f"git apply - <<'END'\n{instance.row['patch']}END\n"
    monkeypatch.setenv("OPENAI_API_KEY", "a-real-looking-key")
    with serve(by_step(completes(script), completes("DONE"))) as server:
        tree["model"] = {"name": "openai/served", "base_url": server.base_url}
        path = tmp_path / "my-agent.yaml"
        path.write_text(yaml.safe_dump(tree), encoding="utf-8")
        with pytest.raises(SystemExit) as ended:
            app(["run", str(path), "--logs", str(tmp_path / "logs"), "--quiet"])
    assert ended.value.code == 0
    asked = [request.body for request in server.requests if request.content]
    assert {body["model"] for body in asked} == {"served"}
    assert {body["temperature"] for body in asked} == {0}
    keys = {request.headers["authorization"] for request in server.requests}
    assert keys == {"Bearer a-real-looking-key"}
    written = [file for file in (tmp_path / "logs").rglob("*") if file.is_file()]
    assert not [file for file in written if b"a-real-looking-key" in file.read_bytes()]
