"""What can be wrong with an instance's image, and with where it comes from."""

from __future__ import annotations

import secrets
import struct
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from tests.faults import harness
from tests.faults.case import RESOLVED, UNRESOLVED, Case, Peer, Right, Seen, infra
from tests.faults.material import (
    OTHER,
    WRONG_FIX,
    Row,
    before_tests,
    daemon,
    gold,
    plain,
    row,
    variant,
)
from tests.faults.mirror import ALWAYS, WELL, Cargo, Manner, cargo, forget, serving
from tests.faults.programs import Hunt
from tests.faults.scene import score
from tests.faults.scoring import Scored

GROUP = "images"
S = Scored(group=GROUP)
NOBODY = "127.0.0.1:9"
"""Where no registry is: nobody listens on the discard port."""
ONE_TRY = "execution.tries=1"


def pulled(
    name: str,
    right: Right,
    *manners: Manner | None,
    load: Callable[[], Cargo] = cargo,
    beside: bool = False,
) -> Case:
    """An image that has to be pulled over mirrors, each with its manner; None: nobody is there.

    The official harness knows no mirrors: it is given the first one's address.
    """

    def ours(place: Path) -> Seen:
        word = f"passone/pulled-{secrets.token_hex(4)}"
        of = load()
        with ExitStack() as stack:
            stack.callback(forget, word)
            served = [stack.enter_context(serving(of, m)).prefix if m else NOBODY for m in manners]
            mirrors = ", ".join(f'"{prefix}"' for prefix in served)
            return score(
                place,
                row(image=f"registry.invalid/{word}:1"),
                gold(),
                f"sandbox.mirrors=[{mirrors}]",
                *([] if right == RESOLVED else [ONE_TRY]),
                beside=[(row(OTHER), gold(OTHER))] if beside else (),
            )

    def swebench(place: Path) -> Peer:
        word = f"passone/pulled-{secrets.token_hex(4)}"
        first = manners[0]
        with ExitStack() as stack:
            stack.callback(forget, word)
            prefix = stack.enter_context(serving(load(), first)).prefix if first else NOBODY
            of = row(image=f"{prefix}/{word}:1")
            return harness.grade(place, of, gold(), right, broken=True)

    return Case(name=name, group=GROUP, right=right, ours=ours, peers={"swebench": swebench})


def elf_for_arm() -> bytes:
    """The header of a program for another machine; the kernel reads no further."""
    ident = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)
    return ident + struct.pack("<HHIQQQIHHHHHH", 2, 0xB7, 1, 0, 64, 0, 0, 64, 56, 1, 64, 0, 0)


def foreign() -> Cargo:
    names = ("bash", "dash", "sh", "env", "git", "patch", "sleep", "tail", "python3")
    files = {f"usr/bin/{name}": elf_for_arm() for name in names}
    return cargo(files, architecture="arm64")


REFUSES_429, REFUSES_503 = Manner(status=429), Manner(status=503)
UNKNOWN = Manner(status=404)

PULLED = (
    pulled("image missing: no registry has it", infra("image"), UNKNOWN, beside=True),
    pulled("registry answers 404, the second mirror has it", RESOLVED, UNKNOWN, WELL),
    pulled("registry answers 429, the second mirror is fine", RESOLVED, REFUSES_429, WELL),
    pulled("registry answers 503, the second mirror is fine", RESOLVED, REFUSES_503, WELL),
    pulled("registry unreachable, the second mirror is fine", RESOLVED, None, WELL),
    pulled(
        "registry answers 429 at first, to a run of one instance",
        RESOLVED,
        Manner(status=429, refusals=3),
    ),
    pulled("registry answers 429 for ever", infra("image"), REFUSES_429, beside=True),
    pulled("registry is slow", RESOLVED, Manner(seconds=1.5)),
    pulled(
        "corrupt layer, the second mirror is fine",
        RESOLVED,
        Manner(spoilt=ALWAYS),
        WELL,
    ),
    pulled("corrupt layer for ever", infra("image"), Manner(spoilt=ALWAYS), beside=True),
    pulled("image for another architecture", infra("image"), WELL, load=foreign),
)


def damaged(name: str, script: str, *, changes: tuple[str, ...] = ()) -> Callable[[], Row]:
    return lambda: row(image=variant(name, script, changes=changes))


INSTANCE = infra("instance")
EMPTY_TREE = "find /testbed -mindepth 1 -maxdepth 1 ! -name .git -exec rm -rf {} +"
CONFLICT = "sed -i 's/days_in_month(year, month))/days_in_month(year, month))  # mine/'"
LEAK = """\
cd /testbed
git config user.email a@passone.invalid; git config user.name a
echo >> README.md; git commit -qam 'a later commit, which tells the fix'
git branch later; git reset -q --hard HEAD~1
"""

DAMAGED = (
    S.case(
        "unknown tag of an image that is here",
        infra("image"),
        ONE_TRY,
        of=lambda: row(image=row()["image"].replace(":1", ":none")),
        beside=[OTHER],
    ),
    S.case("no bash", INSTANCE, of=damaged("bash", "rm -f /bin/bash")),
    S.case("no test runner: exit 127", INSTANCE, of=damaged("python", "rm -f /usr/bin/python3*")),
    S.case(
        "a dependency of the tests is missing",
        INSTANCE,
        of=damaged("module", "rm -f $(python3 -c 'import calendar; print(calendar.__file__)')"),
    ),
    S.case(
        "empty working tree",
        INSTANCE,
        of=damaged("empty", f"{EMPTY_TREE}; rm -rf /testbed/.git"),
    ),
    S.case(
        "dirty working tree: an edit where the patch applies",
        RESOLVED,
        of=damaged("dirty", f"{CONFLICT} /testbed/almanac/holidays.py; cd /testbed; git diff"),
        broken=True,
    ),
    S.case(
        "dirty working tree: an edit that breaks the package",
        INSTANCE,
        of=damaged("broken", "echo 'raise SystemError' >> /testbed/almanac/months.py"),
    ),
    S.case("commits after the base commit", RESOLVED, of=damaged("later", LEAK)),
    S.case(
        "history removed: no .git",
        RESOLVED,
        of=damaged("nogit", "rm -rf /testbed/.git"),
        broken=True,
    ),
    S.case(
        "history truncated: half a pack",
        RESOLVED,
        of=damaged("pack", "cd /testbed/.git/objects; truncate -s 500 pack/*.pack"),
        broken=True,
    ),
)


def replaced(place: Path) -> Seen:
    """Somebody builds the image anew, right after the attempt's container was started."""
    reference = f"passone/fault.again-{secrets.token_hex(4)}:1"
    name, _, tag = reference.partition(":")

    def strike(hunt: Hunt) -> None:
        hunt.testing()
        container = hunt.client.containers.create(plain(), "true")
        container.commit(name, tag, changes=["LABEL passone.fault=again"])
        container.remove()

    with daemon() as client:
        client.images.get(plain()).tag(name, tag)
    try:
        of = before_tests(row(image=reference), "sleep 2")
        return score(place, of, WRONG_FIX, strike=strike, invocations=2)
    finally:
        forget(name)


REPLACED = Case(
    name="image replaced between an attempt and its gold; the next run",
    group=GROUP,
    right=UNRESOLVED,
    ours=replaced,
)

CASES: tuple[Case, ...] = (*PULLED, *DAMAGED, REPLACED)
