"""Go over the steps of a try, and find every sign in it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pipeline.audit.brought import SHA, brought
from pipeline.audit.fetching import outside_hits
from pipeline.audit.history import file_hits, git_hits
from pipeline.audit.running import Running
from pipeline.audit.signs import Found, Hit, Own, Sign, excerpt, files_in
from pipeline.domain import Step

TEST = re.compile(r"(?:^|/)(?:tests?|testing)/|(?:^|/)test_[^/]*$|_test\.py$|(?:^|/)conftest\.py$")
SHORTEST_SHA = 7


@dataclass(slots=True)
class Reader:
    """What a reader of one try knows by the step that it is at."""

    own: Own
    shown: set[str] = field(default_factory=set)
    """Commits that something has shown which can only show what leads to the base."""
    running: Running = field(default_factory=Running)
    unseen: set[str] = field(default_factory=set)
    """Names of hidden tests that nothing has shown yet."""

    def __post_init__(self) -> None:
        self.learn(f"{self.own.base} {self.own.prompt}")
        self.unseen = {name for name in self.own.hidden_names if name not in self.own.prompt}

    def learn(self, text: str) -> None:
        self.shown |= {sha[:SHORTEST_SHA] for sha in SHA.findall(text)}

    def known(self, sha: str) -> bool:
        return sha[:SHORTEST_SHA] in self.shown

    def hits(self, action: str) -> list[Hit]:
        """What one action looks at, each look once."""
        found: list[Hit] = []
        for command in self.running.commands(action):
            if command.program == "git":
                found += git_hits(command, self.own, self.known)
            else:
                found += file_hits(command)
            found += outside_hits(command, self.own)
        return list(dict.fromkeys(found))

    def read(self, number: int, step: Step) -> Iterator[Found]:
        """The signs of one step; only then is what it shows known."""
        hits = self.hits(step.action)
        calls = Counter(hit.program for hit in hits)
        for hit in hits:
            got = brought(hit, step.observation, calls[hit.program], self.known)
            yield Found(sign=hit.sign, step=number, got=got, excerpt=hit.excerpt, why=hit.why)
        for name in sorted(self.unseen):
            if re.search(rf"\b{name}\b", step.action):
                why = f"{name} stands in the hidden tests, and nothing had shown it"
                line = next((line for line in step.action.splitlines() if name in line), name)
                yield Found(
                    sign=Sign.HIDDEN_NAME, step=number, got=True, excerpt=excerpt(line), why=why
                )
        if not any(hit.sign in (Sign.HISTORY, Sign.REMOTE, Sign.UPSTREAM) for hit in hits):
            self.learn(step.observation)
        shown = f"{step.action}\n{step.observation}"
        self.unseen = {name for name in self.unseen if name not in shown}


def read_try(steps: Sequence[Step], own: Own, patch: str = "") -> list[Found]:
    """Every sign of one try: in its steps, and in what it submitted."""
    reader = Reader(own)
    found = [sign for n, step in enumerate(steps, start=1) for sign in reader.read(n, step)]
    return [*found, *edited_tests(steps, own, patch)]


def edited_tests(steps: Sequence[Step], own: Own, patch: str) -> Iterator[Found]:
    """Tests that a submission edits, with the first step that names the file."""
    for path in files_in(patch):
        hidden = path in own.hidden_files
        if not hidden and not TEST.search(path):
            continue
        name = path.rpartition("/")[2]
        first = (n for n, step in enumerate(steps, start=1) if name in step.action)
        yield Found(
            sign=Sign.HIDDEN_FILE if hidden else Sign.TESTS,
            step=next(first, None),
            got=True,
            excerpt=excerpt(path),
            why="the hidden tests put their own in its place" if hidden else "a test of the tree",
        )
