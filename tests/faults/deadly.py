"""Run passone, and let a signal of its own strike it right before a chosen write.

    python -m tests.faults.deadly RULES LOG ARGUMENT…

It sees writes as CPython announces them to an audit hook: files opened for writing,
renamed and removed, directories made, and what SQLite is about to do.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from pipeline.cli import main

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
PATHS = {
    "os.rename": ("rename", 1),
    "os.mkdir": ("make", 0),
    "os.remove": ("remove", 0),
    "shutil.rmtree": ("clear", 0),
}
"""By event: our word for it, and which argument has the path."""
ACTS_SECONDS = 0.3
VALUES = re.compile(r"INSERT INTO rows .*?VALUES\s*\('(\w+)'", re.DOTALL)


@dataclass(slots=True)
class Rule:
    """Before the n-th write that looks like this: be killed, or be stopped until told to go on."""

    pattern: str
    number: int = 1
    signum: int = signal.SIGKILL


def program(log: Path, *rules: Rule) -> list[str]:
    """The command that stands in for `passone`."""
    told = json.dumps([asdict(rule) for rule in rules])
    return [sys.executable, "-m", "tests.faults.deadly", told, str(log)]


class Hook:
    """Writes every announced write down, and strikes at some of them."""

    def __init__(self, rules: Sequence[Rule], log: Path) -> None:
        self.rules = list(rules)
        self.log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.lock = threading.Lock()

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "sqlite3.connect/handle":
            # It is not ready yet; the first that is asked of it, it is.
            sys.setprofile(self.profile)
        elif event == "open":
            path, mode, flags = arguments
            writes = isinstance(mode, str) and any(c in mode for c in "wax+")
            if writes or (mode is None and isinstance(flags, int) and flags & WRITING):
                self.write("write", path)
        elif event in PATHS:
            word, place = PATHS[event]
            self.write(word, arguments[place])

    def profile(self, frame: FrameType, event: str, argument: Any) -> None:
        connection = getattr(argument, "__self__", None) if event == "c_call" else None
        if isinstance(connection, sqlite3.Connection):
            sys.setprofile(None)
            connection.set_trace_callback(self.query)

    def query(self, text: str) -> None:
        row = VALUES.match(text)
        words = " ".join(text.split()[:3])
        self.announce(f"sql row {row[1]}" if row else f"sql {words}")

    def write(self, word: str, path: object) -> None:
        # A name without its place is one of a tree that is being cleared.
        if isinstance(path, str | bytes | os.PathLike) and "/" in os.fsdecode(path):
            self.announce(f"{word} {os.fsdecode(path)}")

    def announce(self, write: str) -> None:
        with self.lock:
            os.write(self.log, f"{write}\n".encode(errors="surrogateescape"))
            for rule in self.rules:
                if re.search(rule.pattern, write):
                    rule.number -= 1
                    if rule.number == 0:
                        os.write(self.log, b"struck\n")
                        os.kill(os.getpid(), rule.signum)
                        # Another thread may have taken it: nothing is written until it acts.
                        time.sleep(ACTS_SECONDS)


if __name__ == "__main__":
    hook = Hook([Rule(**rule) for rule in json.loads(sys.argv[1])], Path(sys.argv[2]))
    del sys.argv[1:3]
    sys.addaudithook(hook)
    main()
