"""Keep what was said on every lane, so that it can be read, added up and played again.

A tape is JSON lines: a header that says whose it is, then one line for every
exchange with the endpoint, failed ones included. While its try lasts it is
`tape.jsonl`; once closed, `tape.jsonl.zst`. A killed process leaves the former,
perhaps with half a last line.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import zstandard

from pipeline.domain import Attempt, Cause, Fault, Stop, Usage
from pipeline.gateway.replies import CONVERSATION, Ending
from pipeline.gateway.streams import assembled
from pipeline.outcomes import UserError

VERSION = 1
BROKEN = (zstandard.ZstdError, RecursionError)
SUFFIX = ".zst"


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """Whose tape it is."""

    run: str
    plan: str
    """Digest of the plan."""
    instance_id: str
    attempt: int
    try_number: int
    model: str
    """As the server knows it."""
    where: str
    """The endpoint's base URL, or what stood in for it."""
    begun: str = ""
    """UTC, ISO 8601, as every time on a tape."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One request to the endpoint, and what came of it."""

    ordinal: int
    """Of the agent's request, from 1."""
    again: int = 0
    """How often that request had been sent before."""
    api: str = "chat/completions"
    request: Mapping[str, Any]
    """The body as it left us, whole."""
    asked: str = ""
    seconds: float = 0.0
    first_seconds: float | None = None
    """Until the first chunk of a stream."""
    status: int = 200
    """502 where the server gave none."""
    answer: Any = None
    """Parsed JSON, or text; of a stream, what its events add up to."""
    events: Sequence[str] | None = None
    """The data of every event of a stream; None: it was none."""
    ending: Ending = None
    usage: Usage | None = None
    """As the server counted it; no tokens where it did not say."""
    discarded: bool = False
    """The agent never saw it as an answer."""

    @property
    def conversation(self) -> list[Any]:
        value = self.request.get(CONVERSATION[self.api])
        return value if isinstance(value, list) else [value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tape:
    """A tape, read back."""

    path: Path
    header: Header
    exchanges: Sequence[Exchange]
    broken: str = ""
    """Where it is cut, if it is: its process was killed, or its file damaged."""

    @property
    def attempt(self) -> Attempt:
        return Attempt(self.header.instance_id, self.header.attempt)

    @property
    def usage(self) -> Usage:
        """Of all that the server counted, discarded replies included."""
        return sum((e.usage for e in self.exchanges if e.usage), Usage())


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def ending_to(ending: Ending) -> dict[str, Any] | None:
    if isinstance(ending, Fault):
        return {"cause": ending.cause, "detail": ending.detail, "final": ending.final}
    return None if ending is None else {"stop": ending}


def ending_from(tree: Mapping[str, Any] | None) -> Ending:
    if tree is None:
        return None
    if "stop" in tree:
        return Stop(tree["stop"])
    return Fault(
        cause=Cause(tree["cause"]), detail=tree["detail"], final=bool(tree.get("final", False))
    )


@dataclass(slots=True)
class Recorder:
    """Writes one tape; nothing is on disk before the first exchange."""

    path: Path
    header: Header
    _seen: list[Any] = field(default_factory=list)
    """The conversation of the latest request: a tape holds each of its messages once."""
    _closed: bool = False

    def write(self, exchange: Exchange) -> None:
        """Append one exchange, whole.

        Raises:
            OSError: there is no room, or no place.
        """
        key = CONVERSATION[exchange.api]
        request = dict(exchange.request)
        line: dict[str, Any] = {"request": request}
        messages = request.get(key)
        if isinstance(messages, list):
            del request[key]
            same = 0
            while same < min(len(messages), len(self._seen)) and messages[same] == self._seen[same]:
                same += 1
            line |= {"before": same, "conversation": messages[same:]}
        facts = {
            name: getattr(exchange, name)
            for name in ("ordinal", "again", "api", "asked", "seconds", "first_seconds", "status")
        }
        line = facts | line
        line["answer" if exchange.events is None else "events"] = (
            exchange.answer if exchange.events is None else list(exchange.events)
        )
        line |= {
            "ending": ending_to(exchange.ending),
            "usage": asdict(exchange.usage) if exchange.usage else None,
            "discarded": exchange.discarded,
        }
        place = self.packed if self._closed else self.path
        begun = place.exists() and place.stat().st_size > 0
        lines = [] if begun else [{"tape": VERSION} | asdict(self.header)]
        text = "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in [*lines, line])
        # JSON may hold half a surrogate pair; a reply that does is a reply all the same.
        content = text.encode("utf-8", "surrogatepass")
        if self._closed:
            # It came in just as its try was ended: one more frame of the packed tape.
            content = zstandard.ZstdCompressor(write_checksum=True).compress(content)
        with place.open("ab") as tape:
            tape.write(content)
        if isinstance(messages, list):
            self._seen = messages

    def close(self) -> None:
        """Pack the tape; the plain one goes once the packed one is whole."""
        self._closed = True
        if not self.path.exists():
            return
        partial = self.packed.with_name(self.packed.name + ".partial")
        with self.path.open("rb") as plain, partial.open("wb") as target:
            zstandard.ZstdCompressor(write_checksum=True).copy_stream(plain, target)
        partial.replace(self.packed)
        self.path.unlink()

    @property
    def packed(self) -> Path:
        return self.path.with_name(self.path.name + SUFFIX)


def lines_of(path: Path) -> Iterator[bytes]:
    """The lines of a plain or packed tape."""
    with path.open("rb") as file:
        if path.suffix != SUFFIX:
            yield from file
            return
        with zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True) as packed:
            yield from io.BufferedReader(packed)


def read_tape(path: Path) -> Tape:
    """A tape, up to where it is whole.

    Raises:
        UserError: no such file, or its first line is no tape's.
    """
    exchanges: list[Exchange] = []
    seen: list[Any] = []
    broken = ""
    header: Header | None = None
    try:
        for raw in lines_of(path):
            line = json.loads(raw.decode("utf-8", "surrogatepass"))
            if header is None:
                header = header_of(line, path)
                continue
            request, api = line["request"], line["api"]
            if "conversation" in line:
                seen = [*seen[: line["before"]], *line["conversation"]]
                request[CONVERSATION[api]] = seen
            events = line.get("events")
            exchanges.append(
                Exchange(
                    ordinal=line["ordinal"],
                    again=line["again"],
                    api=api,
                    request=request,
                    asked=line["asked"],
                    seconds=line["seconds"],
                    first_seconds=line["first_seconds"],
                    status=line["status"],
                    answer=line.get("answer") if events is None else assembled(api, events),
                    events=events,
                    ending=ending_from(line["ending"]),
                    usage=Usage(**line["usage"]) if line["usage"] else None,
                    discarded=line["discarded"],
                )
            )
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (LookupError, TypeError, AttributeError, ValueError, *BROKEN) as error:
        if header is None:
            raise UserError(f"{path}: is no tape of passone ({error})") from None
        broken = f"cut after {len(exchanges)} exchanges: {type(error).__name__}: {error}"[:200]
    if header is None:
        what = "is cut before its first line" if path.suffix == SUFFIX else "is empty"
        raise UserError(f"{path}: {what}, and so no tape of passone")
    return Tape(path=path, header=header, exchanges=exchanges, broken=broken)


def header_of(line: object, path: Path) -> Header:
    if not isinstance(line, dict) or "tape" not in line:
        raise UserError(f"{path}: is no tape of passone: its first line is no header")
    if line["tape"] != VERSION:
        raise UserError(
            f"{path}: is a tape of form {line['tape']}, this passone reads {VERSION}; "
            "use the release that recorded it"
        )
    return Header(**{key: value for key, value in line.items() if key != "tape"})


def find_tape(directory: Path) -> Path | None:
    """The tape in a try's directory, packed or plain; None: nothing was said."""
    for name in ("tape.jsonl" + SUFFIX, "tape.jsonl"):
        if (directory / name).is_file():
            return directory / name
    return None
