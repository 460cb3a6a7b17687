"""The house stays as drawn: imports run downwards only."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "pipeline"
FLOORS = (
    {"domain", "process", "stats", "wording", "brake"},  # ground: know nobody
    {"trust"},  # what controls say about a place
    {"outcomes", "plan", "recipe", "sites"},  # who is to blame; what is asked for, and where
    {"contracts", "config", "rundir", "votes"},  # words: what things are called
    {"gateway", "bill", "docker", "ledger", "verdicts", "executors", "sampler"},  # tools
    {"agents", "benchmarks", "runner", "scorer", "schedule", "doctor", "results"},  # parts
    {  # readings
        *("compare", "diagnose", "planner", "audit", "reconcile", "rollouts", "headline"),
        *("choice", "evidence", "progress"),
    },
    {"tables", "report", "bundle", "leaderboard"},  # faces
    {"cli"},  # the door: where names become objects
)
FLOOR = {name: level for level, names in enumerate(FLOORS) for name in names}
MODULES = [path for path in sorted(PACKAGE.rglob("*.py")) if "demo" not in path.parent.parts[-1:]]


def modules_imported(source: str, package: tuple[str, ...]) -> set[str]:
    """Dotted names below `pipeline` that a module imports, in any spelling."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            stem = ".".join((*base, *([node.module] if node.module else [])))
            found |= {stem} | {f"{stem}.{alias.name}" for alias in node.names}
    return {name for name in found if name.startswith("pipeline.")}


def rooms_imported(source: str, package: tuple[str, ...]) -> set[str]:
    return {name.split(".")[1] for name in modules_imported(source, package)}


def package_of(path: Path) -> tuple[str, ...]:
    return path.relative_to(PACKAGE.parent).with_suffix("").parts[:-1]


def upward(path: Path, source: str) -> set[str]:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    room = parts[1]
    return {
        other
        for other in rooms_imported(source, parts[:-1]) & FLOOR.keys() - {room}
        if FLOOR[other] >= FLOOR.get(room, len(FLOORS))
    }


def name_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def circles(graph: dict[str, set[str]]) -> set[str]:
    """Modules that can reach themselves."""

    def reachable(start: str) -> set[str]:
        seen: set[str] = set()
        todo = list(graph[start])
        while todo:
            name = todo.pop()
            if name not in seen:
                seen.add(name)
                todo += graph.get(name, ())
        return seen

    return {name for name in graph if name in reachable(name)}


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_module_imports_only_from_floors_below(path: Path) -> None:
    assert upward(path, path.read_text()) == set()


def test_every_room_stands_on_a_floor() -> None:
    rooms = {path.relative_to(PACKAGE).with_suffix("").parts[0] for path in MODULES}
    assert rooms - {"__init__"} <= FLOOR.keys()


@pytest.mark.parametrize(
    "smuggled",
    [
        "import pipeline.cli",
        "from pipeline import cli",
        "from pipeline.cli import app",
        "from . import cli",
    ],
)
def test_a_smuggled_upward_import_is_caught(smuggled: str) -> None:
    assert upward(PACKAGE / "outcomes.py", smuggled) == {"cli"}


def test_siblings_import_each_other_without_a_circle() -> None:
    names = {name_of(path): path for path in MODULES}
    graph = {
        name: modules_imported(path.read_text(), package_of(path)) & names.keys()
        for name, path in names.items()
        # A package's face gathers its own modules; the door hands itself to nobody.
        if path.name != "__init__.py"
    }
    assert circles(graph) == set()


def test_a_circle_is_caught() -> None:
    assert circles({"a": {"b"}, "b": {"a"}, "c": {"a"}}) == {"a", "b"}


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_module_fits_on_a_few_screens(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 300


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_function_fits_on_one_screen(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert (node.end_lineno or 0) - node.lineno < 60, node.name


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_module_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text()))


def test_only_one_module_imports_swebench() -> None:
    users = [
        name_of(path)
        for path in MODULES
        if "import swebench" in path.read_text() or "from swebench" in path.read_text()
    ]
    assert users == ["pipeline.benchmarks.grading"]
