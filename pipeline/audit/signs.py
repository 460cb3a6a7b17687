"""The kinds of signs that an audit looks for, and which of them taint an attempt."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

MOST_CHARACTERS = 160


class Sign(StrEnum):
    """What was seen."""

    HISTORY = "git_history"
    REMOTE = "git_remote"
    UPSTREAM = "upstream_page"
    RELEASE = "other_release"
    COPY = "other_copy"
    BENCHMARK = "benchmark"
    INSTALLED = "installed_copy"
    LOOKED = "looked_around"
    HIDDEN_NAME = "hidden_test_name"
    HIDDEN_FILE = "hidden_test_file"
    TESTS = "tests_edited"


class Kind(NamedTuple):
    """What a sign means, and whether it taints an attempt where it brought something."""

    meaning: str
    taints: bool


KINDS: dict[Sign, Kind] = {
    Sign.HISTORY: Kind("commits beyond the base commit, in the tree's own git", True),
    Sign.REMOTE: Kind("the repository as it is today: fetch, pull, clone", True),
    Sign.UPSTREAM: Kind("a page, a patch or an API of the repository or its project", True),
    Sign.RELEASE: Kind("another release of the package, from an index", True),
    Sign.COPY: Kind("another copy of the package that is not of this tree", True),
    Sign.BENCHMARK: Kind("SWE-bench itself: its dataset, its evaluation script", True),
    Sign.INSTALLED: Kind("the copy that the image's own environment has installed", False),
    Sign.LOOKED: Kind("names alone: remote branches, versions on an index", False),
    Sign.HIDDEN_NAME: Kind("a hidden test's name before anything had shown it", False),
    Sign.HIDDEN_FILE: Kind("the submission edits a file that the hidden tests replace", False),
    Sign.TESTS: Kind("the submission edits other tests", False),
}


class Hit(NamedTuple):
    """A sign in one command, before anybody has asked what it brought."""

    sign: Sign
    program: str
    excerpt: str
    why: str
    saves: bool = False
    """What it brings goes into files: it may well print nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One sign in one try."""

    sign: Sign
    step: int | None
    """From 1, as in the trajectory; None: it stands in the submission alone."""
    got: bool
    """Whether it brought something, as far as its observation tells; else it was only tried."""
    excerpt: str
    why: str

    @property
    def taints(self) -> bool:
        return KINDS[self.sign].taints and self.got


READ_BY = """
ag awk bash bat cat cd cp cut diff edit edit_anthropic egrep fgrep file find find_file git
goto grep head less ln locate ls more mv nano nl od open perl pushd python python-net rg
rsync search_dir search_file sed sh sort source str_replace_editor strings tail tar tree
unzip vi view vim wc xxd zcat
"""
READERS = frozenset(READ_BY.split())
"""Programs, and tools of agents, that show or copy what a path names."""

IMPORTED_AS: dict[str, tuple[str, ...]] = {
    "scikit-learn": ("sklearn",),
    "pytest": ("_pytest",),
    "matplotlib": ("mpl_toolkits",),
}
"""Packages whose code stands under another name than their repository's."""
HIDDEN = re.compile(r"^\+\s*(?:async )?def (test\w{6,})", re.MULTILINE)
SHOWN = re.compile(r"^[ -]\s*(?:async )?def (test\w+)", re.MULTILINE)
EDITED = re.compile(r"^diff --git a/(.+?) b/(.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """What an instance's own things are called: only looks at these are peeks."""

    repo: str
    packages: frozenset[str]
    """Distribution and import names, lower case, with `-` for `_`."""
    base: str
    version: tuple[int, ...]
    """Of the release that the instance belongs to; empty: unknown."""
    hidden_names: frozenset[str] = frozenset()
    """Test functions that only the hidden tests have."""
    hidden_files: frozenset[str] = frozenset()
    prompt: str = field(default="", repr=False)

    @property
    def name(self) -> str:
        return self.repo.rpartition("/")[2].lower()

    @staticmethod
    def of(repo: str, row: Mapping[str, Any], prompt: str = "") -> Own:
        """By a published row."""
        name = repo.rpartition("/")[2].lower()
        tests = str(row.get("test_patch") or "")
        names = set(HIDDEN.findall(tests)) - set(SHOWN.findall(tests))
        return Own(
            repo=repo.lower(),
            packages=frozenset({name, *IMPORTED_AS.get(name, ())}),
            base=str(row.get("base_commit") or ""),
            version=version_of(str(row.get("version") or "")),
            hidden_names=frozenset(names),
            hidden_files=frozenset(files_in(tests)),
            prompt=prompt,
        )

    def is_package(self, name: str) -> bool:
        return normal(name) in {normal(package) for package in self.packages}

    def is_newer(self, version: tuple[int, ...]) -> bool:
        """Than this instance's release, by its first two numbers; what is unknown may be."""
        return not (version and self.version) or version[:2] > self.version[:2]

    def is_older(self, version: tuple[int, ...]) -> bool:
        return bool(version and self.version) and version[:2] < self.version[:2]


def normal(name: str) -> str:
    """As package indexes compare names. Source: PEP 503."""
    return re.sub(r"[-_.]+", "-", name).lower()


def version_of(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


def files_in(patch: str) -> list[str]:
    """Files that a patch touches, in order."""
    return list(dict.fromkeys(name for pair in EDITED.findall(patch) for name in pair))


def excerpt(text: str) -> str:
    """What fits into a line, with nothing in it that moves a cursor."""
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"
