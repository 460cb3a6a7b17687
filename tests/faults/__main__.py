"""`python -m tests.faults`: bring about every fault, and show who says rightly what it was."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from queue import Empty, Queue
from typing import TypeVar

from tests.faults.bare import begin
from tests.faults.case import Case, Peer, Seen
from tests.faults.command import options, publish, say
from tests.faults.forks import NURSERY
from tests.faults.machine import absent_peers, docker_daemon, root_problem, versions
from tests.faults.matrix import MARKS, Matrix, Result
from tests.faults.page import updated
from tests.faults.programs import clean_environment

GROUPS = (
    "images",
    "daemon",
    "containers",
    "network",
    "agents",
    "endpoint",
    "grader",
    "us",
)
CASE_SECONDS = 420
"""A case ends by itself long before; one that does not is given up."""
T = TypeVar("T")


def collect(only: Sequence[str]) -> list[Case]:
    """Every case in the order of the groups; each name stands for one."""
    cases: list[Case] = []
    for group in GROUPS:
        cases += importlib.import_module(f"tests.faults.{group}").CASES
    doubled = [name for name, count in Counter(case.name for case in cases).items() if count > 1]
    assert not doubled, f"two faults of one name: {doubled}"
    wanted = [words.lower() for words in only]
    return [
        case
        for case in cases
        if not wanted or any(words in f"{case.group}: {case.name}".lower() for words in wanted)
    ]


def bring_about(scratch: Path, callable_: Callable[[Path], T]) -> T:
    """One measurement, in an empty directory that goes with it."""
    place = Path(tempfile.mkdtemp(dir=scratch))
    try:
        return callable_(place)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def last_line(error: BaseException) -> str:
    lines = f"{type(error).__name__}: {error}".strip().splitlines()
    return lines[-1][:300]


def measure(case: Case, peers: Sequence[str], scratch: Path) -> Result:
    """Ours, then the others on the same fault. Never raises."""
    began = time.monotonic()
    seen: Seen | None = None
    problem = ""
    try:
        seen = bring_about(scratch, case.ours)
    except Exception as error:  # noqa: BLE001 - whatever a case raises, it is not right
        problem = last_line(error)
    told: dict[str, Peer] = {}
    for name in peers:
        if name in case.peers:
            try:
                told[name] = bring_about(scratch, case.peers[name])
            except Exception as error:  # noqa: BLE001 - likewise
                say(f"{case.name}: {name}: {last_line(error)}")
                told[name] = Peer(words="could not be measured", right=None)
    seconds = time.monotonic() - began
    return Result(case=case, seen=seen, problem=problem, peers=told, seconds=seconds)


def unmet(case: Case, no_docker: str) -> str:
    """Why a case cannot run here; empty: it can."""
    if case.needs == "root" and root_problem():
        return f"not run: {root_problem()}"
    return f"not run: {no_docker}" if no_docker and case.needs == "docker" else ""


def run_all(
    cases: Sequence[Case], peers: Sequence[str], scratch: Path, *, workers: int, no_docker: str
) -> Iterator[Result]:
    """Results as they come: first the sociable cases beside each other, then two by two."""
    ready = []
    for case in cases:
        problem = unmet(case, no_docker)
        if problem:
            yield Result(case=case, problem=problem)
        else:
            ready.append(case)
    begin({name for case in ready for name in case.peers if name in peers})
    beside = mixed([case for case in ready if not case.alone])
    yield from run_pool(beside, peers, scratch, workers=workers)
    rest = [case for case in ready if case.alone]
    yield from run_pool(rest, peers, scratch, workers=min(workers, 2))


def mixed(cases: Sequence[Case]) -> list[Case]:
    """All groups side by side from first to last: some wait while others compute."""
    sizes = Counter(case.group for case in cases)
    number: Counter[str] = Counter()
    places = []
    for case in cases:
        number[case.group] += 1
        places.append(number[case.group] / sizes[case.group])
    return [case for _, case in sorted(zip(places, cases, strict=True), key=lambda pair: pair[0])]


def run_pool(
    cases: Sequence[Case], peers: Sequence[str], scratch: Path, *, workers: int
) -> Iterator[Result]:
    began: dict[str, float] = {}
    results: Queue[Result] = Queue()
    todo = deque(cases)

    def work() -> None:
        while todo:
            with contextlib.suppress(IndexError):
                case = todo.popleft()
                began[case.name] = time.monotonic()
                results.put(measure(case, peers, scratch))

    for _ in range(min(workers, len(cases))):
        # As daemons: a case that is given up holds nobody.
        threading.Thread(target=work, daemon=True).start()
    left = {case.name: case for case in cases}
    while left:
        with contextlib.suppress(Empty):
            result = results.get(timeout=1)
            if left.pop(result.case.name, None):
                yield result
        for name in [name for name in left if name in began]:
            if time.monotonic() - began[name] > CASE_SECONDS:
                yield Result(case=left.pop(name), problem=f"no end within {CASE_SECONDS} s")


def progress(result: Result) -> str:
    """One plain line: what it was, what we made of it, what the others did."""
    case = result.case
    parts = [f"{MARKS[result.right]} {case.group}: {case.name}", str(case.right)]
    if not result.right:
        parts.append(result.ours.removeprefix(f"{MARKS[False]} "))
    parts += [f"{name} {MARKS[peer.right]} {peer.words}" for name, peer in result.peers.items()]
    return " · ".join([*parts, f"{result.seconds:.0f} s"])


def arguments() -> argparse.Namespace:
    parser = options("tests.faults", __doc__, workers=4)
    parser.add_argument(
        "--afresh", action="store_true", help="fork no program: each does its own imports"
    )
    return parser.parse_args()


def main() -> int:
    """0: ours is right on all."""
    asked = arguments()
    cases = collect(asked.only)
    absent = absent_peers()
    peers = [name for name in ("swebench", "sweagent", "miniswe") if name not in absent]
    began = time.monotonic()
    results: list[Result] = []
    scratch = Path(tempfile.mkdtemp(prefix="passone-faults-"))
    try:
        with (
            docker_daemon(scratch) as no_docker,
            NURSERY.open(None if asked.afresh else scratch, clean_environment(scratch)),
        ):
            for result in run_all(
                cases,
                [] if asked.no_peers else peers,
                scratch,
                workers=asked.workers,
                no_docker=no_docker,
            ):
                results.append(result)
                say(f"[{len(results)}/{len(cases)}] {progress(result)}")
            found = versions()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    order = {case.name: number for number, case in enumerate(cases)}
    matrix = Matrix(
        results=sorted(results, key=lambda result: order[result.case.name]),
        absent=absent,
        versions=found,
        date=datetime.now(UTC).strftime("%Y-%m-%d"),
        seconds=time.monotonic() - began,
    )
    publish(matrix, asked, lambda page: updated(page, matrix))
    return 0 if matrix.right == len(cases) else 1


if __name__ == "__main__":
    # What is to be cleaned up at the end is cleaned up then, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
