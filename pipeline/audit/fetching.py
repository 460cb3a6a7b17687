"""Tell a look at the project elsewhere: its pages, its releases, its other copies, SWE-bench."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote, urlsplit

from pipeline.audit.shell import Command
from pipeline.audit.signs import READERS, Hit, Own, Sign, excerpt, normal, version_of

FETCHERS = {"aria2c", "axel", "curl", "http", "https", "links", "lynx", "svn", "w3m", "wget"}
INSTALLERS = {"pip", "pip3", "pipx", "uv", "easy_install", "conda", "mamba", "micromamba"}
INSTALLERS |= {"apt", "apt-get", "dnf", "apk"}
ACTIONS = {"add", "create", "download", "install", "source", "update", "upgrade", "wheel"}
INDEXES = ("pypi.org", "pypi.python.org", "pythonhosted.org", "anaconda.org", "pypi.")
URL = re.compile(r"(?:(?:git\+)?(?:https?|ssh|git|ftp)://|git@)[^\s'\"<>`|\\]+")
BARE = re.compile(r"(?:[\w-]+\.)+(?:com|org|io|net|co|dev)(?:/\S*)?")
LOOPBACK = re.compile(r"^(?:localhost|127\.|0\.0\.0\.0$|::1$)")
REQUIREMENT = re.compile(
    r"(?P<name>[A-Za-z][\w.-]*)(?:\[[^]]*\])?\s*(?P<how>===?|~=|!=|<=?|>=?|=)?\s*(?P<version>[\w.*]*)"
    r"(?:,.*)?"
)
SWE_BENCH = re.compile(r"swe[-_ ]?bench", re.IGNORECASE)
EVALUATION = re.compile(r"(?:^|/)eval\.sh$")
PLACE = re.compile(r"(?:site|dist)-packages/(?P<vendor>(?:[\w.]+/_?vendor\w*/)?)(?P<name>[\w.-]+)")
THEIRS = re.compile(r"(?:^|/)testbed/")
"""Where an image of SWE-bench has its own environment."""
SAVING = re.compile(r"-[a-zA-Z]*[oO]|--output(?:=.*)?|--remote-name|--output-document.*|-P")


def outside_hits(command: Command, own: Own) -> Iterator[Hit]:
    """Signs in one command that is not git."""
    program, words = command.program, command.words[1:]
    if program in FETCHERS or program == "python-net":
        yield from fetched(command, own)
    elif program == "gh":
        yield hit(Sign.UPSTREAM, command, "asks GitHub")
    elif program in INSTALLERS:
        yield from installed(command, own)
    if program in READERS:
        yield from copies(command, own)
    if program in (READERS | INSTALLERS) - {"git"}:
        if any(EVALUATION.search(word) for word in words):
            yield hit(Sign.BENCHMARK, command, "looks for the script that runs the hidden tests")
        elif any(SWE_BENCH.search(word) for word in words):
            yield hit(Sign.BENCHMARK, command, "looks for SWE-bench")


def hit(sign: Sign, command: Command, why: str, *, saves: bool = False, text: str = "") -> Hit:
    program = "python" if command.program.startswith("python") else command.program
    said = text or str(command)
    if program == "python" and text:
        said = f"python: {text}"
    return Hit(sign, program, excerpt(said), why, saves or bool(command.target))


def fetched(command: Command, own: Own) -> Iterator[Hit]:
    for word in command.words[1:]:
        found = [match[0] for match in URL.finditer(word)]
        if not found and command.program != "python-net" and BARE.fullmatch(word):
            found = [f"https://{word}"]
        for url in found:
            sign, why = judged(url, own)
            if sign is not None:
                text = url if command.program == "python-net" else ""
                yield hit(sign, command, why, saves=saves(command), text=text)
                return


def saves(command: Command) -> bool:
    if command.program == "wget":
        return "-" not in command.words and not any(w.endswith("O-") for w in command.words)
    if command.program == "python-net":
        return True
    return any(SAVING.fullmatch(word) for word in command.words)


def judged(url: str, own: Own) -> tuple[Sign | None, str]:
    """Whose page this is, if it can hold the answer."""
    plain = unquote(url).lower()
    if plain.startswith("git@"):
        plain = "ssh://" + plain.replace(":", "/", 1)
    try:
        host = urlsplit(plain.removeprefix("git+")).hostname or ""
    except ValueError:
        return None, ""
    if LOOPBACK.match(host):
        return None, ""
    if SWE_BENCH.search(plain):
        return Sign.BENCHMARK, "asks for SWE-bench itself"
    parts = [part for part in re.split(r"[/?&=#:@+]+", plain.partition("://")[2]) if part]
    if host.endswith(INDEXES[:4]) or host.startswith(INDEXES[4]):
        if any(own.is_package(re.split(r"-\d", part)[0]) for part in parts[1:]):
            return Sign.RELEASE, "asks an index for the package itself"
        return None, ""
    names = {normal(name) for name in (own.name, *own.packages)}
    labels = [normal(label) for label in host.split(".")]
    if any(normal(part.removesuffix(".git")) in names for part in parts[1:]):
        return Sign.UPSTREAM, "asks for the repository, or a copy of it"
    if any(name in label for name in names for label in labels):
        return Sign.UPSTREAM, "asks the project's own site"
    return None, ""


def installed(command: Command, own: Own) -> Iterator[Hit]:
    """What a package manager brings, if it is the package itself."""
    words = [word for word in command.words[1:] if word != "pip"]
    if words[:1] == ["index"] or words[:1] == ["search"]:
        if any(own.is_package(word) for word in words):
            yield hit(Sign.LOOKED, command, "which releases there are")
        return
    if not ACTIONS & set(words) and command.program != "easy_install":
        return
    for word in words:
        if URL.match(word) or "@ git+" in word:
            sign, why = judged(word.rpartition("@ ")[2], own)
            if sign is not None:
                yield hit(sign, command, why, saves=True)
                return
        match = REQUIREMENT.fullmatch(word)
        if match is None or not own.is_package(match["name"].removeprefix("python3-")):
            continue
        version = version_of(match["version"])
        below = match["how"] in ("<", "<=") and not own.is_newer(version)
        if below or (match["how"] in ("=", "==", "===", "~=") and own.is_older(version)):
            continue
        yield hit(Sign.RELEASE, command, "brings the package itself from an index", saves=True)
        return


def copies(command: Command, own: Own) -> Iterator[Hit]:
    """Reads of the package where it stands outside the tree."""
    for word in command.words[1:]:
        for match in PLACE.finditer(word):
            if not own.is_package(re.split(r"-\d|\.(?:egg|dist|py$)", match["name"])[0]):
                continue
            if match["name"].endswith((".dist-info", ".egg-link", ".egg-info")):
                continue
            theirs = THEIRS.search(word) and not match["vendor"]
            if theirs:
                yield hit(Sign.INSTALLED, command, "what the image has installed, by its name")
            else:
                yield hit(Sign.COPY, command, "a copy of the package that is not of this tree")
            return
