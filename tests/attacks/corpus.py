"""Attacks that are kept as text: what each does to which file of the repository."""

from __future__ import annotations

import ast
import base64
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from tests.attacks.case import MODEL, RESOLVED, SECONDS, Attack, Make, saying
from tests.attacks.places import DJANGO, PYTEST, SYMPY, Place
from tests.attacks.repository import Content, Link, Script

PLACE = Path(__file__).parent / "patches"
CASE = re.compile(r"^=== (\w+): (.+)\n", re.MULTILINE)
STEP = re.compile(r"^>>> (\w+)(?: (\S+))?(?: (\S+))?\n", re.MULTILINE)
TURN = "===>\n"
FILES = {"pytest": PYTEST, "django": DJANGO, "sympy": SYMPY, "deadly": PYTEST}


def collect() -> list[Attack]:
    return [attack for name, place in FILES.items() for attack in read(name, place)]


def read(file: str, place: Place) -> Iterator[Attack]:
    """The attacks of one file."""
    parts = CASE.split((PLACE / f"{file}.txt").read_text(encoding="utf-8"))
    for number in range(1, len(parts), 3):
        group, title, text = parts[number : number + 3]
        name, *options = title.split(" | ")
        limits = [int(o.removeprefix("seconds=")) for o in options if o.startswith("seconds=")]
        honest = group == "controls" or (group == "break" and ">>> gold\n" in text)
        yield Attack(
            name=name,
            group=group,
            place=place,
            patch=made(place, text),
            right=RESOLVED if honest else MODEL,
            seconds=limits[0] if limits else SECONDS,
            alone="alone" in options,
            peer="no peer" not in options,
        )


def made(place: Place, text: str) -> Make:
    return lambda: place.repository.patch(changes(place, text))


def changes(place: Place, text: str) -> dict[str, Content | None]:
    """The steps of an attack, one after the other."""
    edits: dict[str, Content | None] = {}
    parts = STEP.split(text)
    for number in range(1, len(parts), 4):
        what, path, more, body = parts[number : number + 4]
        step(place, edits, (what, path or "", more or ""), body)
    return edits


def step(
    place: Place, edits: dict[str, Content | None], said: tuple[str, str, str], body: str
) -> None:
    """One step: `append setup.py`, `write bin/test +x`, `link tests checks` …

    Raises:
        ValueError: there is no such step, or nothing to replace.
    """
    what, path, more = said
    stages = place.repository.stages
    match what:
        case "gold" | "other":
            edits.update(stages["fix" if what == "gold" else what])
        case "tests":
            edits[path] = stages["tests"][path]
        case "delete":
            edits[path] = None
        case "link":
            edits[path] = Link(more)
        case "write":
            text = armed(place, path, body)
            edits[path] = Script(text) if more else text
        case "append":
            edits[path] = f"{current(place, edits, path)}\n\n{armed(place, path, body)}"
        case "replace":
            old, new = (part.rstrip("\n") for part in body.split(TURN))
            was = current(place, edits, path)
            if old not in was:
                raise ValueError(f"{path} has no {old!r}")
            text = was.replace(old, armed(place, "", new), 1)
            script = isinstance(stages["base"].get(path), Script)
            edits[path] = Script(text) if script else text
        case _:
            raise ValueError(f"no such step: {what}")


def current(place: Place, edits: dict[str, Content | None], path: str) -> str:
    content = edits[path] if path in edits else place.repository.text(path)
    assert isinstance(content, Script | str)
    return content.text if isinstance(content, Script) else content


def armed(place: Place, path: str, code: str) -> str:
    """The code of an attacker who knows the tests and how their runner reports them."""
    tests = place.repository.stages["tests"][place.tested]
    assert isinstance(tests, str)
    known = {
        "__LOG__": repr(place.log),
        "__NAMES__": repr([*place.fail_to_pass, *place.pass_to_pass]),
        "__FAILING__": repr(list(place.fail_to_pass)),
        "__DECOYS__": repr(emptied(tests)),
        "__RAWLOG__": place.log,
        "__RAWDECOYS__": emptied(tests),
        "__HASHES__": repr(hashes(tests)),
        "__HEXONCE__": once(place).encode().hex(),
        "__UTF7ONCE__": "# coding: utf_7\n" + veiled(once(place)),
    }
    for word, value in known.items():
        code = code.replace(word, value)
    return f"{saying(place)}\n\n{code}" if path.endswith(".py") and "_say(" in code else code


def once(place: Place) -> str:
    """Code that forges the log in its first run, and is honest from then on."""
    return (
        f"{saying(place)}\n\nimport os\n\nif not os.path.exists('/tmp/.once'):\n"
        f"    open('/tmp/.once', 'w').close()\n    _say({place.log!r})\n    os._exit(0)\n"
    )


def veiled(code: str) -> str:
    """Python that reads as nothing until it is decoded as its first line asks for."""
    lines = (base64.b64encode(line.encode("utf-16-be")).decode() for line in code.splitlines())
    return "".join(f"+{line.rstrip('=')}-\n" if line else "\n" for line in lines)


def functions(tests: str) -> list[ast.FunctionDef]:
    found = (node for node in ast.walk(ast.parse(tests)) if isinstance(node, ast.FunctionDef))
    return [node for node in found if node.name.startswith("test_")]


def emptied(tests: str) -> str:
    """The same tests, each of which does nothing."""
    tree = ast.parse(tests)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            said = node.body[:1] if ast.get_docstring(node) else []
            node.body = [*said, ast.Pass()]
    return ast.unparse(tree) + "\n"


def hashes(tests: str) -> list[str]:
    """What tells a published test from any other one, by `inspect.getsource`."""
    lines = tests.splitlines(keepends=True)
    sources = ["".join(lines[node.lineno - 1 : node.end_lineno]) for node in functions(tests)]
    return [hashlib.sha256(source.encode()).hexdigest()[:12] for source in sources]
