"""Tell what a look brought from what was only tried, by what came back."""

from __future__ import annotations

import re
from collections.abc import Callable

from pipeline.audit.signs import Hit, Sign

RETURNED = re.compile(r"<returncode>(-?\d+)</returncode>")
FRAME = re.compile(
    r"</?(?:output|output_head|output_tail|warning|elided_chars|returncode)>|"
    r"Your (?:last )?command ran successfully and did not produce any output\.?"
)
SHA = re.compile(r"\b[0-9a-f]{7,40}\b")
ABSENT = r"|{0}: (?:command )?not found|No module named '?{0}"
FAILURES: dict[str, str] = {
    "git": r"^(?:fatal|error): |^Already up to date",
    "curl": r"^curl: \(\d+\)|^404: Not Found|\"message\": ?\"(?:Not Found|API rate limit)",
    "wget": r"unable to resolve|failed: |ERROR \d{3}|ERROR: cannot",
    "pip": r"^ERROR: (?!Could not find a version)|^error: |Requirement already satisfied: ",
    "conda": r"HTTPError|PackagesNotFoundError|ConnectionFailed|All requested packages already",
    "apt-get": r"^E: ",
    "gh": r"gh auth login|error connecting|^gh: ",
    "python": r"^\w*(?:\.\w+)*(?:URLError|HTTPError|ConnectionError|Timeout|NotFoundError|gaierror"
    r"|ConnectError|ModuleNotFoundError|OSError|SSLError)\b|urlopen error|Max retries exceeded",
}
"""Of each program the line that ends a failed call, once a call."""
SUCCESS = re.compile(
    r"^(?:Successfully (?:installed|downloaded)|Saved |\s*(?:Downloading|Using cached) )",
    re.MULTILINE,
)
"""What pip says of a release that came, whatever else was there already."""
SAME = {"pip3": "pip", "uv": "pip", "pipx": "pip", "mamba": "conda", "apt": "apt-get"}
OTHERS = r"No such file or directory|Could not resolve|not found$|: cannot access|Permission denied"


def brought(hit: Hit, observation: str, calls: int, known: Callable[[str], bool]) -> bool:
    """Whether a look brought something, or cannot be seen to have failed.

    Args:
        calls: how many such looks by the same program the step holds: as many must fail.
        known: whether a commit is the base, or shown before by what leads to it.
    """
    codes = RETURNED.findall(observation)
    text = FRAME.sub("", RETURNED.sub("", observation)).strip()
    program = SAME.get(hit.program, hit.program)
    pattern = FAILURES.get(program, OTHERS) + ABSENT.format(re.escape(hit.program))
    failed = sum(1 for line in text.splitlines() if re.search(pattern, line)) >= calls
    if failed and not (program == "pip" and SUCCESS.search(text)):
        return False
    if not text:
        # It printed nothing: either that was all, or it went into a file.
        return hit.saves and not any(code != "0" for code in codes)
    if hit.sign is Sign.HISTORY and not hit.saves:
        shas = SHA.findall(text)
        return not shas or not all(known(sha) for sha in shas)
    return True
