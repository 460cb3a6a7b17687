"""What an endpoint can do to an attempt, before and after the agent has edited a file."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.faults.bare import bare
from tests.faults.case import (
    NOTHING,
    REFUSED,
    RESOLVED,
    STOPPED,
    Case,
    Right,
    Seen,
    Theirs,
    infra,
)
from tests.faults.driving import asking, drive, solve, swept
from tests.faults.material import gold
from tests.faults.talking import (
    CUT_SHORT,
    EDIT,
    FIX,
    SOLVES,
    SUBMIT,
    Talk,
    falters,
    lines,
    odd_arguments,
    stumbles,
)
from tests.loopback import Answer, as_json, completes, refuses, runs
from tests.tries import KEY

GROUP = "endpoint"
HANGS_SECONDS = 1.5
LONG = completes("A long answer " * 50)
HTML = Answer(content=b"<html>nginx</html>", headers={"content-type": "text/html"})
ENDPOINT, CREDENTIALS = infra("endpoint"), infra("credentials")
EDITS = lines(EDIT)


class Row(NamedTuple):
    """What comes back for ever, and what that is."""

    answer: Answer
    right: Right


ROWS: Mapping[str, Row] = {
    "401": Row(refuses(401, f"Incorrect API key provided: {KEY}"), CREDENTIALS),
    "402": Row(refuses(402, "Insufficient credits"), ENDPOINT),
    "403": Row(refuses(403, f"Project has no access ({KEY})"), CREDENTIALS),
    "404": Row(refuses(404, "No such model", "model_not_found"), ENDPOINT),
    "413 of a proxy": Row(Answer(status=413, content=b"<h1>Too large</h1>"), ENDPOINT),
    "400 for a parameter": Row(
        refuses(400, "'temperature' does not support 0", "unsupported_value"), ENDPOINT
    ),
    "429": Row(refuses(429, "Rate limit reached", "rate_limit_exceeded"), ENDPOINT),
    "429 for a spent quota": Row(
        refuses(429, "You exceeded your current quota", "insufficient_quota"), ENDPOINT
    ),
    "500": Row(refuses(500), ENDPOINT),
    "502 with a page": Row(Answer(status=502, content=b"<h1>Bad gateway</h1>"), ENDPOINT),
    "503": Row(refuses(503, f"The engine is overloaded ({KEY})"), ENDPOINT),
    "504": Row(refuses(504), ENDPOINT),
    "connection reset": Row(Answer(manner="reset"), ENDPOINT),
    "body cut off": Row(Answer(content=LONG.content, manner="cut"), ENDPOINT),
    "no answer": Row(Answer(content=LONG.content, seconds=8), ENDPOINT),
    "malformed JSON": Row(Answer(content=LONG.content[:100]), ENDPOINT),
    "a web page with 200": Row(HTML, ENDPOINT),
    "an error with 200": Row(
        as_json({"error": {"message": "upstream failed", "code": 502}}), ENDPOINT
    ),
    "200 without choices": Row(as_json({"id": "x", "object": "chat.completion"}), ENDPOINT),
    "200 with empty choices": Row(as_json({"choices": []}), ENDPOINT),
    "context is full": Row(
        refuses(400, "maximum context length is 8192 tokens", "context_length_exceeded"), NOTHING
    ),
    "context is full, in other words": Row(
        refuses(400, "Range of input length should be [1, 30720]; prompt is too long"), NOTHING
    ),
    "413 of the model's server": Row(refuses(413, "Request too large"), NOTHING),
    "policy refusal": Row(
        refuses(400, "rejected by our content policy", "content_policy_violation"), NOTHING
    ),
    "replies without an action": Row(completes("I would rather talk."), NOTHING),
    "replies without content": Row(completes(None), NOTHING),
    "an unknown tool": Row(completes("Call.", calls=[("teleport", {})]), NOTHING),
    "arguments that are no JSON": Row(odd_arguments('{"command": '), NOTHING),
    "replies cut at max_tokens": Row(CUT_SHORT, NOTHING),
}
"""After an edit each of them is met; mini-swe-agent hands in nothing at a limit."""
BEFORE = ("401", "404", "503", "connection reset", "200 with empty choices", "policy refusal")
"""Met by the very first request as well."""
RECOVERS: Mapping[str, Answer] = {
    "429 once, then fine": refuses(429, "Rate limit reached", "rate_limit_exceeded"),
    "500 once, then fine": refuses(500),
    "connection reset once, then fine": Answer(manner="reset"),
    "a web page once, then fine": HTML,
}


def slug(name: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in name).strip("-").lower()


def met(name: str, talk: Talk, right: Right) -> Case:
    """A fault that both agents can meet on their own."""

    def ours(place: Path) -> Seen:
        quick = () if "no answer" not in name else (f"gateway.request_seconds={HANGS_SECONDS}",)
        return solve(place, talk, *quick)

    return Case(name=name, group=GROUP, right=right, ours=ours, peers=bare(slug(name), talk, right))


def only_ours(
    name: str,
    right: Right,
    ours: Callable[[Path], Seen],
    peers: Mapping[str, Theirs] | None = None,
) -> Case:
    return Case(name=name, group=GROUP, right=right, ours=ours, peers=peers or {})


def from_request(first: int, answer: Answer, then: Talk) -> Talk:
    """Of all requests that come, one after the other, this from one on and for ever."""
    numbers = itertools.count()
    return lambda asked: answer if next(numbers) >= first else then(asked)


def for_a_while(answer: Answer, first: int, times: int, then: Talk) -> Talk:
    numbers = itertools.count()
    return lambda asked: answer if first <= next(numbers) < first + times else then(asked)


GOES_ON = completes("Go on.")
HANDS_IN = lines(GOES_ON, completes(f"PATCH {gold()}"))
ONE, TWO = "execution.agent_workers=1", "execution.agent_workers=2"


def revoked(place: Path) -> Seen:
    talk = from_request(3, refuses(401, f"Incorrect API key provided: {KEY}"), HANDS_IN)
    return solve(place, talk, ONE, agent=asking(), attempts=6)


def down_for_good(place: Path) -> Seen:
    talk = from_request(2, refuses(503, "busy"), HANDS_IN)
    patience = ("gateway.requests=6", "gateway.deadline_seconds=2")
    return solve(place, talk, TWO, *patience, agent=asking(), attempts=6)


def down_for_a_while(place: Path) -> Seen:
    talk = for_a_while(refuses(503, "busy"), 2, 5, HANDS_IN)
    return solve(place, talk, TWO, "gateway.requests=6", agent=asking(), attempts=2)


def spends_the_budget(place: Path) -> Seen:
    return solve(place, HANDS_IN, ONE, "budget.tokens=30", agent=asking(), attempts=3)


def waits_for_long(place: Path) -> Seen:
    """Without those four seconds it would have been done after two of five."""
    waits = refuses(429, "slow down", Retry_After="4")
    talk = stumbles(waits, at=1, then=lines(FIX, runs("sleep 2"), SUBMIT))
    return solve(place, talk, "limits.seconds=5")


def refused(place: Path, answer: Answer, base_url: str = "") -> Seen:
    """With the look at the endpoint that precedes a run."""
    with swept(place):
        ran = drive(place, lambda asked: answer, doctor=True, base_url=base_url)
        return ran.seen("an attempt was begun" if ran.attempt().exists() else "")


def key_in_a_reply(place: Path) -> Seen:
    echo = runs(f"echo {KEY} > found.txt; cat found.txt; rm found.txt", f"I know it: {KEY}")
    return solve(place, lines(echo, FIX, SUBMIT))


WITH_A_LINE = {"OPENAI_API_KEY": f"{KEY}\n"}
OURS = (
    only_ours("a dead key at the start", REFUSED, lambda p: refused(p, ROWS["401"].answer)),
    only_ours(
        "nobody listens at the start",
        REFUSED,
        lambda p: refused(p, GOES_ON, "http://127.0.0.1:9/v1"),
    ),
    only_ours(
        "nobody listens once it has begun",
        ENDPOINT,
        lambda p: solve(p, base_url="http://127.0.0.1:9/v1"),
    ),
    only_ours("the key is revoked mid-run", STOPPED, revoked),
    only_ours("503 for good mid-run", STOPPED, down_for_good),
    only_ours("the run's budget is spent", STOPPED, spends_the_budget),
    only_ours("its time went by waiting for a 429", ENDPOINT, waits_for_long),
    only_ours(
        "an agent that hands in half a patch after a 503",
        ENDPOINT,
        lambda p: solve(p, falters(refuses(503), at=1, then=lines(GOES_ON)), agent=asking()),
    ),
    only_ours(
        "an agent that hangs up while we ask again",
        ENDPOINT,
        lambda p: solve(
            p,
            falters(refuses(503), at=1, then=lines(GOES_ON)),
            "gateway.backoff_seconds=2",
            agent=asking(seconds=0.5),
        ),
    ),
    only_ours("the key comes back in a reply", RESOLVED, key_in_a_reply),
)

CASES: tuple[Case, ...] = (
    *(met(f"{name} at once", lines(ROWS[name].answer), ROWS[name].right) for name in BEFORE),
    *(
        met(f"{name} after an edit", falters(row.answer, at=1, then=EDITS), row.right)
        for name, row in ROWS.items()
    ),
    *(
        met(name, stumbles(answer, at=1, then=SOLVES), RESOLVED)
        for name, answer in RECOVERS.items()
    ),
    *OURS,
)
