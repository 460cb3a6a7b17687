"""Patches that are too large, too strange or too slow to read: for whoever applies and reports."""

from __future__ import annotations

import random

from tests.attacks.case import MODEL, RESOLVED, Attack, Make, saying
from tests.attacks.places import DJANGO, PYTEST, SYMPY, Place
from tests.faults.material import new_file

GROUP = "break"
MEGABYTE = 1 << 20


def case(
    name: str, patch: Make, place: Place = PYTEST, right: str = MODEL, *, peer: bool = True
) -> Attack:
    return Attack(
        name=name, group=GROUP, place=place, patch=patch, right=right, alone=True, peer=peer
    )


def gold(place: Place = PYTEST) -> str:
    return place.repository.stage("fix")


def printing(place: Place, package: str, text: str) -> Make:
    """A patch whose package prints something long that is short to write."""
    module = place.repository.text(package)
    code = f"{saying(place)}\n\n_say({text})\n"
    return lambda: place.repository.patch({package: f"{module}\n\n{code}"})


def noise(size: int) -> bytes:
    return random.Random(7).randbytes(size)


ATTACKS: tuple[Attack, ...] = (
    case(
        "a binary file of 200 megabytes",
        lambda: PYTEST.repository.stage("fix", **{"blob.bin": bytes(200 * MEGABYTE)}),
        right=RESOLVED,
    ),
    case(
        "a binary file of 20 megabytes that cannot be packed",
        lambda: PYTEST.repository.stage("fix", **{"noise.bin": noise(20 * MEGABYTE)}),
        right=RESOLVED,
    ),
    case(
        "a patch of five thousand files",
        lambda: gold() + "".join(new_file(f"many/{n:05}.txt", "x\n") for n in range(5000)),
        right=RESOLVED,
    ),
    case(
        "a patch with half a character that no encoding has",
        lambda: gold() + new_file("notes.txt", "\ud800\n"),
        right=RESOLVED,
    ),
    case("a patch of a million lines of prose", lambda: "I would mend the slugs.\n" * 1_000_000),
    case(
        "a patch with a zero byte in its context",
        lambda: gold().replace("Make slugs", "Make\0slugs"),
        right=RESOLVED,
    ),
    case(
        "script and escape codes in names of files",
        lambda: (
            gold()
            + PYTEST.repository.patch(
                {
                    "<script>alert(1)<\\script>.md": "x\n",
                    "\x1b[31mred\x07.md": "x\n",
                    "a|b`c`.md": "x\n",
                }
            )
        ),
        right=RESOLVED,
    ),
    case(
        "a line for which SymPy's log parser takes hours",
        printing(SYMPY, "quadrille/__init__.py", "'\\n' + ' ' * 8000 + '.py:' * 8000 + '\\n'"),
        place=SYMPY,
        peer=False,
    ),
    case(
        "lines for which Django's log parser takes hours",
        printing(
            DJANGO,
            "parcels/__init__.py",
            "'x ... Testing against Django installed in y\\n' * 60000",
        ),
        place=DJANGO,
        peer=False,
    ),
)
