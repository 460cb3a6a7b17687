"""Put a page together: the headline as text, then what draws the rest, then the data.

Nothing of a model reaches the page as markup. What stands outside the packed data is escaped; what
is packed becomes text nodes only; and a Content-Security-Policy forbids every request and every
script but ours, which it names by its hash.
"""

from __future__ import annotations

import base64
import hashlib
import html
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from pipeline import __version__
from pipeline.report.comparison import comparison_record, names_of
from pipeline.report.details import Source
from pipeline.report.level import Level
from pipeline.report.packing import Filling, Room, packed, tag
from pipeline.report.runs import run_record
from pipeline.report.tries import COLUMNS
from pipeline.rundir import whole

SCRIPTS = (
    *("begin.js", "texts.js", "charts.js", "heat.js", "spread.js"),
    *("tries.js", "table.js", "overview.js"),
    *("diff.js", "graded.js", "attempt.js", "trajectory.js", "compare.js", "routes.js"),
)
"""In this order they are one script."""
LIVE = "live.js"
"""Before the last of them, in a page that is served."""
STYLES = ("look.css", "parts.css")
LONGEST_UNBROKEN = 60
"""Characters; a longer part of the first line would leave the line before it half empty."""
MOST_BYTES = 28_000_000
"""Of a report that does not ask for everything."""
NEEDED = "Chrome 80, Edge 80, Safari 16.4 or Firefox 113"


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a report has come to."""

    bytes: int
    attempts: int
    trajectories: int
    rows_only: int
    """Attempts of which only their row is inside, though they were tried."""
    refused: str
    """Why its runs are not compared; empty: they are, or there is one."""


def asset(names: Sequence[str]) -> str:
    place = files("pipeline.report") / "assets"
    return "\n".join((place / name).read_text(encoding="utf-8") for name in names)


def script(*, live: bool = False) -> str:
    """One scope, so that nothing of it can be reached from outside."""
    names = (*SCRIPTS[:-1], LIVE, SCRIPTS[-1]) if live else SCRIPTS
    return f"(() => {{\n'use strict';\n{asset(names)}\n}})();"


def hashed(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def policy(style: str, code: str, *, live: bool = False) -> str:
    """No request at all, or to its own server alone; our style and our script, and no other."""
    asking = "connect-src 'self'; " if live else ""
    return (
        f"default-src 'none'; style-src {hashed(style)}; script-src {hashed(code)}; {asking}"
        "base-uri 'none'; form-action 'none'"
    )


def isolated(text: str) -> str:
    """Text that is nothing but text, and turns nothing around it."""
    plain = text.encode("utf-8", "replace").decode("utf-8")
    # A number and its sign stay together.
    return f"<bdi>{html.escape(plain).replace(' %', '&nbsp;%')}</bdi>"


def part(text: str) -> str:
    """Of the first line; a short one is not broken, and the rate stands out."""
    kinds = ["short"] if len(text) < LONGEST_UNBROKEN else []
    kinds += ["rate"] if text.startswith("pass@1") else []
    return f'<span class="{" ".join(kinds)}">{isolated(text)}</span>'


def heading(record: Mapping[str, Any]) -> str:
    """A run's headline: it stands without any script."""
    going = f" (still going, pid {html.escape(record['going'])})" if record["going"] else ""
    first = " · ".join(map(part, record["first"]))
    lines = "".join(f"<li>{isolated(line)}</li>" for line in record["lines"])
    return (
        f'<section class="headline"><h1>{isolated(record["name"])}{going}</h1>'
        f'<p class="first">{first}</p><ul class="lines">{lines}</ul></section>'
    )


def top(records: Sequence[Mapping[str, Any]], code: str, style: str, version: str) -> str:
    title = html.escape(", ".join(str(record["name"]) for record in records))
    headings = "".join(map(heading, records))
    served = f' data-version="{html.escape(version)}"' if version else ""
    network = "It asks its own server, and nobody else." if version else "It needs no network."
    return f"""<!doctype html>
<html lang="en"{served}>
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy(style, code, live=bool(version))}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{title} · passone</title>
<style>{style}</style>
</head>
<body>
<a class="skip" href="#main">Skip to the content</a>
<header id="top"><span class="brand">passone</span><nav id="nav" aria-label="Report"></nav></header>
<main id="main" tabindex="-1">
<div id="headlines">{headings}</div>
<noscript><p class="notice">Without scripts only these lines can be shown.</p></noscript>
<p class="notice" id="cannot" hidden>This browser cannot unpack the rest of this page, which needs
{NEEDED}, or a later one. What stands above is all of the headline.</p>
<div id="app"></div>
</main>
<footer>Made by passone {html.escape(__version__)}. {network}
<span class="keyhint">Press <kbd>?</kbd> for its keys.</span></footer>
"""


def write_report(
    path: Path,
    sources: Sequence[Source],
    *,
    every: bool = False,
    most_bytes: int = MOST_BYTES,
    version: str = "",
    step: Callable[[], object] = lambda: None,
) -> Written:
    """Write one page of some runs.

    Args:
        every: all trajectories, however large that becomes; otherwise failures and split votes,
            up to `most_bytes`.
        version: of a page that is served, which asks for newer ones; empty: it asks nobody.
        step: called after each attempt, for who watches.

    Raises:
        OSError: it cannot be written.
    """
    names = names_of(sources)
    code, style = script(live=bool(version)), asset(STYLES)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=path.parent) as blocks:
        fillings = []
        for number, source in enumerate(sources):
            room = Room(most=None if every else most_bytes // len(sources))
            filling = Filling(source=source, number=number, room=room, every=every)
            for _ in filling.write(blocks):
                step()
            fillings.append(filling)
        records = [
            run_record(one.source, one.levels, name=name, driver=one.source.run.driver)
            | {"base": way_to(one.source.run.root, path.parent)}
            for one, name in zip(fillings, names, strict=True)
        ]
        index: dict[str, Any] = {"runs": records, "requests": COLUMNS, "every": every}
        if len(sources) > 1:
            index["comparison"] = comparison_record(sources)
        blocks.seek(0)
        with whole(path) as file:
            file.write(top(records, code, style, version).encode("utf-8"))
            # Before the blocks of attempts: it is drawn while those are still read.
            file.write(tag("index", packed(index)) + f"<script>{code}</script>\n".encode())
            shutil.copyfileobj(blocks, file, 1 << 20)
            file.write(b"</body>\n</html>\n")
            size = file.tell()
    return written(fillings, size, index)


def way_to(root: Path, place: Path) -> str:
    """From a report to the files of its run; empty: it is kept elsewhere, and may be sent away."""
    root, place = root.resolve(), place.resolve()
    return f"{os.path.relpath(root, place)}/" if place.is_relative_to(root) else ""


def written(fillings: Sequence[Filling], size: int, index: Mapping[str, Any]) -> Written:
    levels = [level for filling in fillings for level in filling.levels.values()]
    rows = [row for filling in fillings for row in filling.source.results.rows]
    return Written(
        bytes=size,
        attempts=len(rows),
        trajectories=levels.count(Level.WHOLE),
        rows_only=sum(row.tries > 0 for row in rows) - len(levels),
        refused=str(index.get("comparison", {}).get("refused", "")),
    )
