"""Tell a look at commits that are not the base or before it from everyday git."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from pipeline.audit.shell import Command
from pipeline.audit.signs import READERS, Hit, Own, Sign, excerpt, version_of

WITH_VALUE = ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path")
LISTS = {"log", "rev-list", "shortlog", "whatchanged", "show-branch", "reflog", "grep"}
EVERYTHING = re.compile(
    r"--(?:all|branches|remotes|tags|reflog|walk-reflogs|not|alternate-refs)|-g"
    r"|--(?:branches|remotes|tags|glob)=.*"
)
REVISIONS = {
    *(
        "archive",
        "blame",
        "cat-file",
        "checkout",
        "cherry-pick",
        "diff",
        "difftool",
        "format-patch",
    ),
    *("grep", "log", "ls-tree", "merge", "range-diff", "rebase", "reset", "restore", "rev-list"),
    *("revert", "shortlog", "show", "switch", "whatchanged", "worktree", "diff-tree", "branch"),
}
SAVES = {"checkout", "cherry-pick", "merge", "rebase", "reset", "restore", "revert", "switch"}
SAVES |= {"worktree", "format-patch", "archive", "branch"}
QUIET = {"-q", "--quiet"}
LOOSE = {"fsck", "reflog", "unpack-objects", "verify-pack", "unpack-file"}
NAMES = {"for-each-ref", "show-ref", "ls-remote"}
SHA = re.compile(r"[0-9a-f]{7,40}")
ASIDE = re.compile(
    r"(?:^|\.\.)(?:refs/)?(?:remotes/)?(?:origin|upstream)(?:/|$)|^(?:FETCH|ORIG)_HEAD"
    r"|(?<!stash)@\{(?:\d+|u|upstream|push)\}|^refs/(?:remotes|tags|pull|stash)|^:/"
)
AHEAD = re.compile(r"^(?P<from>[^.]*)\.\.\.?(?P<to>(?!HEAD\b|@(?:$|~|\^)).+)$")
TAG = re.compile(r"v?\d+(?:[._]\d+)+(?:(?:a|b|rc|\.dev)\d*)?|(?:release|version)[-_/]?\d[\d._]*")
FILES = re.compile(
    r"(?:^|/)\.git/(?:packed-refs|ORIG_HEAD|FETCH_HEAD|logs|objects|refs/(?:remotes|tags|stash))"
)
VALUED = {"-S", "-G", "-L", "--grep", "--author", "--since", "--after", "--until", "--before"}


def git_hits(command: Command, own: Own, known: Callable[[str], bool]) -> Iterator[Hit]:
    """Signs in one git command.

    Args:
        known: whether a commit is the base, or has been shown by something that can only
            show what is before it.
    """
    words = arguments(command.words[1:])
    if not words:
        return
    sub, rest = words[0], words[1:]

    def hit(sign: Sign, why: str) -> Hit:
        # What a fetch brings, it says, unless it may not.
        hushed = sign is Sign.REMOTE and (command.hushed or bool(QUIET & set(rest)))
        saves = sub in SAVES or bool(command.target) or hushed
        return Hit(sign, "git", excerpt(str(command)), why, saves)

    if sub in ("fetch", "pull", "clone") or (sub, *rest[:1]) == ("remote", "update"):
        if brings_own(sub, rest, own):
            yield hit(Sign.REMOTE, f"git {sub} brings the repository as it is elsewhere")
    elif sub in NAMES or (sub == "remote" and rest[:1] in (["add"], ["set-url"], ["show"])):
        yield hit(Sign.LOOKED, "names of refs or remotes, and nothing behind them")
    elif sub == "branch" and {"-a", "-r", "--all", "--remotes", "-av", "-avv"} & set(rest):
        yield hit(Sign.LOOKED, "names of all branches")
    elif sub in LOOSE or (sub == "cat-file" and "--batch-all-objects" in rest):
        yield hit(Sign.HISTORY, f"git {sub} lists what no branch at the base leads to")
    elif sub in LISTS and any(EVERYTHING.fullmatch(word) for word in before_paths(rest)):
        yield hit(Sign.HISTORY, "asks for commits of every branch, not of the base alone")
    elif sub in REVISIONS:
        for revision in positional(rest)[sub == "grep" :]:
            if why := beyond(revision, own, known):
                yield hit(Sign.HISTORY, why)
                return


def arguments(words: Sequence[str]) -> list[str]:
    """What stands behind git's own options."""
    rest = list(words)
    while rest and rest[0].startswith("-"):
        del rest[: 2 if rest[0] in WITH_VALUE else 1]
    return rest


def before_paths(words: Sequence[str]) -> list[str]:
    kept = list(words)
    return kept[: kept.index("--")] if "--" in kept else kept


def positional(words: Sequence[str]) -> list[str]:
    """What may be a revision: no option, and no option's value."""
    found: list[str] = []
    before = ""
    for word in before_paths(words):
        if before not in VALUED and (not word.startswith("-") or word.startswith("--source=")):
            found.append(word)
        before = word
    return found


def brings_own(sub: str, rest: Sequence[str], own: Own) -> bool:
    """Whether what is fetched is this repository: another one, or a copy of the tree, is none."""
    places = [word for word in rest if "://" in word or re.match(r"[\w.-]+@[\w.-]+:", word)]
    if places:
        return any(own.name in place.lower() for place in places)
    return sub != "clone"


def beyond(revision: str, own: Own, known: Callable[[str], bool]) -> str:
    """Why a revision may lead beyond the base; empty: nothing says so."""
    revision = revision.removeprefix("--source=").lstrip("^")
    if ASIDE.search(revision):
        return f"{revision} is not the base"
    ahead = AHEAD.match(revision)
    if ahead and ahead["from"] in ("", "HEAD", "@", own.base) and not is_path(ahead["to"]):
        return f"{revision} asks for what comes after the base"
    for part in re.split(r"\.\.\.?", revision):
        name = re.split(r"[~^:@]", part)[0]
        if SHA.fullmatch(name) and not known(name):
            return f"nothing that leads to the base had shown {name}"
        if TAG.fullmatch(name) and own.is_newer(version_of(name)):
            return f"{name} is a later release than {'.'.join(map(str, own.version))}"
    return ""


def is_path(text: str) -> bool:
    """`../tests` is a place, not a range."""
    return text.startswith("/")


def file_hits(command: Command) -> Iterator[Hit]:
    """Looks into git's own files."""
    # That a file is there tells nothing.
    if command.program not in READERS - {"find", "ls"}:
        return
    for word in command.words[1:]:
        if FILES.search(word) and "*" not in word:
            why = "git's own files name commits that no branch leads to"
            yield Hit(Sign.HISTORY, command.program, excerpt(str(command)), why)
            return
