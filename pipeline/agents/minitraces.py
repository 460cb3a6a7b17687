"""What mini-swe-agent leaves: how it ended, in its own words, and what it did."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.agents.driving import last_words, status_in
from pipeline.domain import Cause, Departure, Patch, Step, Stop
from pipeline.outcomes import InfraError
from pipeline.process import Completed

TRAJECTORY = "trajectory.traj.json"
STATUSES = "exit_statuses.yaml"

STATUS: dict[str, Stop | Cause] = {
    "Submitted": Stop.SUBMITTED,
    # Steps and cost alike; cost is the gateway's to limit, so these are steps.
    "LimitsExceeded": Stop.STEP_LIMIT,
    "TimeExceeded": Stop.TIME_LIMIT,
    "RepeatedFormatError": Stop.MALFORMED,
    "ContextWindowExceededError": Stop.CONTEXT_LIMIT,
    "ContentPolicyViolationError": Stop.REFUSED,
    "UserInterruption": Cause.UNKNOWN,
    "InterruptAgentFlow": Cause.UNKNOWN,
    "FormatError": Cause.UNKNOWN,
    "AuthenticationError": Cause.CREDENTIALS,
    "PermissionDeniedError": Cause.CREDENTIALS,
    "NotFoundError": Cause.ENDPOINT,
    "BadRequestError": Cause.ENDPOINT,
    "UnsupportedParamsError": Cause.ENDPOINT,
    "APIError": Cause.ENDPOINT,
    "APIConnectionError": Cause.ENDPOINT,
    "APIResponseValidationError": Cause.ENDPOINT,
    "RateLimitError": Cause.ENDPOINT,
    "InternalServerError": Cause.ENDPOINT,
    "BadGatewayError": Cause.ENDPOINT,
    "ServiceUnavailableError": Cause.ENDPOINT,
    "Timeout": Cause.ENDPOINT,
    "CalledProcessError": Cause.SANDBOX,
    "TimeoutExpired": Cause.SANDBOX,
    "FileNotFoundError": Cause.SANDBOX,
}
"""Whatever is not here was never seen: Cause.UNKNOWN, loud, and not the model's."""


def read(trajectory: Path, instance_id: str, done: Completed | None = None) -> Departure:
    """How mini left, from the trajectory that it wrote.

    Raises:
        InfraError: there is none, or it is cut in half.
    """
    if done is not None and done.timed_out:
        # It checks its own clock between steps; this one hung past any grace.
        return Departure(
            exit_status="killed by passone: over time",
            meaning=Stop.TIME_LIMIT,
            steps=len(read_steps(trajectory)),
            killed=True,
        )
    last = last_words(done.output) if done else ""
    early = "" if trajectory.exists() else status_in(trajectory.parent / STATUSES, instance_id)
    meaning = STATUS.get(early, Cause.UNKNOWN)
    if early and isinstance(meaning, Cause):
        # Its environment never started: an empty patch in preds.json is all that it leaves else.
        # A reason of its own without a trajectory is a trajectory that was lost.
        return Departure(
            exit_status=early,
            meaning=meaning,
            detail=f"mini-swe-agent ended with {early} before it began: {last}",
        )
    try:
        tree = json.loads(trajectory.read_bytes())
        info = tree["info"]
        status, submission = str(info.get("exit_status") or ""), info.get("submission") or ""
        owner = tree.get("instance_id", instance_id)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        text = f"mini-swe-agent left no readable trajectory ({type(error).__name__}): {last}"
        raise InfraError(Cause.AGENT_CRASH, text) from None
    if owner != instance_id:
        text = f"mini-swe-agent's trajectory is of {owner}, not of {instance_id}"
        raise InfraError(Cause.AGENT_CRASH, text)
    said = str(info.get("exception_str") or last_message(tree))
    return Departure(
        exit_status=status,
        meaning=STATUS.get(status, Cause.UNKNOWN),
        submission=Patch.of(submission),
        detail=f"mini-swe-agent ended with {status or 'no exit status'}: {said}"[:600],
        steps=int(info.get("model_stats", {}).get("api_calls") or 0),
        worked_until=last_observation(tree),
    )


def last_message(tree: Mapping[str, Any]) -> str:
    """Its end, where it wrote down an exception only there."""
    last = (tree.get("messages") or [{}])[-1]
    return str((last.get("extra") or {}).get("exception_str") or "")


def last_observation(tree: Mapping[str, Any]) -> float | None:
    """When the latest command came back, in Unix time."""
    said = [(one.get("role"), one.get("extra") or {}) for one in tree.get("messages") or []]
    # With actions as text, what came back is told by the user.
    came = [extra for role, extra in said if role == "tool" or "returncode" in extra]
    times = [extra.get("timestamp") for extra in came]
    return max((time for time in times if isinstance(time, int | float)), default=None)


def read_steps(trajectory: Path) -> list[Step]:
    """Turns of a mini trajectory; empty where there is none to read."""
    try:
        messages = json.loads(trajectory.read_bytes())["messages"]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    steps: list[Step] = []
    for message in messages:
        content = message.get("content") or ""
        if message.get("role") == "assistant":
            actions = (message.get("extra") or {}).get("actions") or []
            action = "\n".join(str(item.get("command", "")) for item in actions)
            # A server that tells reasoning apart may leave the words beside the action empty.
            words = content if str(content).strip() else message.get("reasoning_content") or ""
            steps.append(Step(thought=str(words), action=action, observation=""))
        elif steps and message.get("role") in ("tool", "user"):
            last = steps[-1]
            text = f"{last.observation}\n{content}" if last.observation else str(content)
            steps[-1] = Step(thought=last.thought, action=last.action, observation=text)
    return steps
