"""Say which of an agent's changes may steer the tests rather than solve the task.

What tests and agent share is the machine: its programs, its libraries, what shells and
interpreters read when they start, and what a test runner finds around the tests. A sign
convicts nobody: many tasks are about just such files.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from pathlib import PurePosixPath

from pipeline.docker.changes import Change, How, Surroundings

NAMED = 3
"""How many paths a reason names."""
RUNNERS = ("pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "exceptiongroup")
"""What pytest is made of."""
TOOLS = re.compile(r"python[\d.]*|pip[\d.]*|pytest|py\.test|uvx?|bats|tox|nox|coverage|curl|wget")
"""Programs with which tests are fetched and run."""
HERE = ("conftest.py", "pytest.ini", ".pytest.ini", "sitecustomize.py", "usercustomize.py")
"""What a test runner or an interpreter reads where tests are begun."""
ABOVE = (*HERE, "tox.ini", "setup.cfg", "pyproject.toml")
"""The same above the tests: their settings are looked for in all parents."""
STARTED = re.compile(r"(site|user)customize\.py|.*\.pth|.*\.egg-link|entry_points\.txt")
"""Files of an installation that every interpreter, or every run of pytest, acts upon."""
HOME = re.compile(
    r"/(root|home/[^/]+)/(\.(bash\w*|profile|zsh\w*|login|inputrc|pam_environment|netrc|gitconfig"
    r"|curlrc|wgetrc|pydistutils\.cfg|npmrc)|\.(pip|config/(pip|uv|git))/.+|\.local/bin/env)"
)
MACHINE = re.compile(
    r"/etc/(ld\.so\..+|profile|profile\.d/.+|bash\.bashrc|bashrc|environment|zsh/.+|gitconfig"
    r"|pip\.conf|curlrc|wgetrc|uv/.+|python[\d.]*/sitecustomize\.py)"
)
"""What shells, the loader and the tools of tests read when they start."""
BOOKS = re.compile(r"/var/lib/(dpkg|rpm)/.+|/lib/apk/db/.+")
"""What a package manager holds for installed: it has to go the way of the files."""
CACHED = re.compile(r"/__pycache__(/|$)|\.pyc$")
"""Compiled Python: tests have a place of their own for it."""
INSTALLED = re.compile(r"s?bin/.+|lib\w*/.+|libexec/.+|share/(perl|python|nodejs)[^/]*/.+|[^/]+")
"""Programs and what they are made of, below a prefix such as `/usr`; a whole folder, too."""
PACKAGE = re.compile(r"(?P<site>.*/(?:site|dist)-packages)/(?P<name>[^/]+)")
LIBRARY = re.compile(r"(/usr(/local)?)?/lib\w*(/[\w-]+-linux-\w+)?/[^/]+\.so[\d.]*")
LIBRARIES = (
    *("/lib", "/usr/lib", "/lib64", "/usr/lib64", "/usr/local/lib"),
    *(f"/usr/lib/{machine}-linux-gnu" for machine in ("x86_64", "aarch64")),
)
"""Where the loader looks; `/lib` is a link to `/usr/lib` today."""


def candidates(changes: Iterable[Change], around: Surroundings) -> list[Change]:
    """What may be a sign, so far as can be said without a look at the image.

    Beside it: what a package manager has written down, which is no sign by itself.
    """
    return [
        change
        for change in changes
        if BOOKS.fullmatch(change.path)
        or steers(change, around)
        or (change.how is How.ADDED and rivals(change.path, around))
    ]


def signs(
    found: Iterable[Change], around: Surroundings, had: Callable[[str], bool]
) -> list[Change]:
    """Those of the candidates that are signs, and what goes with them; none: nothing is.

    Args:
        had: whether the image has something at a path.
    """
    books, others = [], []
    for change in found:
        if BOOKS.fullmatch(change.path):
            books.append(change)
        elif steers(change, around) or shadows(change, around, had):
            others.append(change)
    return [*others, *books] if others else []


def named(found: Iterable[Change]) -> str:
    """The first of them, for a person to read."""
    paths = [change.path for change in found if not BOOKS.fullmatch(change.path)]
    more = f" and {len(paths) - NAMED} more" if len(paths) > NAMED else ""
    return f"{', '.join(paths[:NAMED])}{more}"


def steers(change: Change, around: Surroundings) -> bool:
    """Whether it is a sign by its place and its name alone."""
    path = PurePosixPath(change.path)
    if CACHED.search(change.path):
        return False
    if HOME.fullmatch(change.path) or MACHINE.fullmatch(change.path):
        return True
    folder = str(path.parent)
    if path.name in (ABOVE if folder == "/" else HERE) and folder in ("/", around.workdir):
        return True
    if folder in ("/", around.workdir) and imported_first(path):
        return True
    if change.how is not How.ADDED:
        return installed(change.path, around) or change.path.startswith("/etc/alternatives/")
    if STARTED.fullmatch(path.name) and (
        installed(change.path, around) or "-packages/" in change.path
    ):
        return True
    if TOOLS.fullmatch(path.name) and path.parent.name in ("bin", "sbin"):
        return True
    package = PACKAGE.fullmatch(change.path)
    return bool(package and release(package["name"]) in RUNNERS)


def installed(path: str, around: Surroundings) -> bool:
    """Whether it lies where the machine's programs and what they are made of do."""
    if around.workdir != "/" and path.startswith(f"{around.workdir}/"):
        return False
    parents = {str(PurePosixPath(folder).parent) for folder in around.path} | {"/usr", "/usr/local"}
    for prefix in sorted(parents, key=len, reverse=True):
        inside = path.removeprefix(prefix).lstrip("/")
        if path.startswith(prefix) and INSTALLED.fullmatch(inside):
            # Of the root itself only what is called so: all else lies there too.
            return prefix != "/" or bool(re.match(r"s?bin\b|lib\w*\b", inside))
    return path in ("/usr", "/bin", "/sbin", "/lib", "/lib64")


def imported_first(path: PurePosixPath) -> bool:
    """Whether it lies in the way of a module that a test runner needs."""
    module = path.suffix in ("", ".py") and path.stem
    return module in sys.stdlib_module_names or module in RUNNERS


def release(name: str) -> str:
    """`pytest` of `pytest`, `pytest.py`, `pytest-8.4.1.dist-info` and `pytest_cov`."""
    return re.split(r"[-_.]", name.lower().lstrip("_"))[0]


def shadows(change: Change, around: Surroundings, had: Callable[[str], bool]) -> bool:
    """Whether it was added, and the image has the like under the same name elsewhere."""
    return change.how is How.ADDED and any(had(path) for path in rivals(change.path, around))


def rivals(path: str, around: Surroundings) -> list[str]:
    """Where the image may have what this would be taken for."""
    place = PurePosixPath(path)
    folder, name = str(place.parent), place.name
    folders: Iterable[str] = ()
    if folder in around.path:
        folders = around.path
    elif LIBRARY.fullmatch(path):
        folders = LIBRARIES
    elif package := PACKAGE.fullmatch(path):
        version = re.search(r"/(python3[\d.]*)/", path)
        sites = ("site-packages", "dist-packages")
        local = [f"/usr/local/lib/{version[1]}/{site}" for site in sites] if version else []
        folders = ("/usr/lib/python3/dist-packages", *local)
        name = package["name"]
    return [f"{other}/{name}" for other in dict.fromkeys(folders) if other != folder]
