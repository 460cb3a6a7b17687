"""What a scripted model says, to any agent: lines by step, and an endpoint that falters."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tests.faults.material import gold
from tests.loopback import Answer, Answering, Received, as_json, completes, runs

LOOK = runs("cat README.md", "I look around.")
EDIT = runs("echo '# edited' >> README.md", "I begin with the description.")
FIX = runs(f"git apply <<'EOF'\n{gold()}\nEOF", "I mend it.")
ENDS = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git add -A && git diff --cached"
SUBMIT = runs(ENDS, "I am done.")
"""As mini-swe-agent takes it; whoever submits in another way is told in its own."""
TAG = re.compile(r"\[fault ([\w-]+)\]")


@dataclass(frozen=True, slots=True)
class Asked:
    """One request of an agent's."""

    step: int
    """From 0: how often the model has answered so far."""
    again: int
    """How often the same was asked before."""
    heard: str
    """What its latest command printed."""


Talk: TypeAlias = Callable[[Asked], Answer]


def lines(*answers: Answer) -> Talk:
    """By step; the last one for ever."""
    return lambda asked: answers[min(asked.step, len(answers) - 1)]


def falters(answer: Answer, *, at: int, then: Talk) -> Talk:
    """From one step on, this for ever, whatever would have been said then."""
    return lambda asked: answer if asked.step >= at else then(asked)


def stumbles(answer: Answer, *, at: int, then: Talk, times: int = 1) -> Talk:
    """At one step, this a few times; and then what is said there."""

    def talk(asked: Asked) -> Answer:
        return answer if asked.step == at and asked.again < times else then(asked)

    return talk


SOLVES = lines(FIX, SUBMIT)


def text_of(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return " ".join(str(part.get("text", "")) for part in content)


@dataclass(slots=True)
class Stage:
    """Knows how far each conversation is; they are told apart by what was said in them."""

    talks: Mapping[str, Talk]
    """By the tag in the issue's text; an empty one for whoever has none."""
    submit: Answer = SUBMIT
    counts: dict[str, int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, request: Received, number: int) -> Answer:
        if not request.content:
            return as_json({"object": "list", "data": [{"id": "m-1", "object": "model"}]})
        messages = request.body["messages"]
        whole = json.dumps(messages)
        with self.lock:
            again = self.counts[whole] = self.counts.get(whole, -1) + 1
        found = TAG.search(" ".join(text_of(message) for message in messages))
        step = sum(1 for message in messages if message["role"] == "assistant")
        asked = Asked(step, again, text_of(messages[-1]))
        said = self.talks[found[1] if found else ""](asked)
        return self.submit if said is SUBMIT else said


def answering(talk: Talk) -> Answering:
    return Stage({"": talk}).answer


def completion(message: Mapping[str, Any], reason: str) -> Answer:
    """One whole completion with a message that no helper makes."""
    choice = {"index": 0, "finish_reason": reason, "message": {"role": "assistant", **message}}
    usage = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
    kind = {"id": "scripted", "object": "chat.completion", "created": 0, "model": "m-1"}
    return as_json({**kind, "choices": [choice], "usage": usage})


def odd_arguments(text: str) -> Answer:
    """A tool call whose arguments are this text."""
    call = {"id": "call_0", "type": "function", "function": {"name": "bash", "arguments": text}}
    return completion({"content": "Look.", "tool_calls": [call]}, "tool_calls")


CUT_SHORT = completion({"content": "I think that"}, "length")


def dear(command: str, dollars: float) -> Answer:
    """A command, and what the endpoint says that it cost."""
    usage = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12, "cost": dollars}
    return completes("On.", calls=[("bash", {"command": command})], usage=usage)
