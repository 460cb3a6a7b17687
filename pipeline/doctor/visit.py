"""Who is looked at, and what has been found out so far."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.contracts import Agent
from pipeline.doctor.dialogue import Dialogue, Exchange
from pipeline.doctor.tryout import Tryout
from pipeline.domain import Instance, Usage
from pipeline.gateway import Upstream
from pipeline.recipe import Recipe

if TYPE_CHECKING:
    from docker import DockerClient

DAEMON_SECONDS = 30
TOOL = "bash"
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": TOOL,
            "description": "Execute a bash command",
            "parameters": {
                "type": "object",
                "properties": {
                    "command": {"type": "string", "description": "The bash command to execute"}
                },
                "required": ["command"],
            },
        },
    }
]
"""As mini-swe-agent and SWE-agent offer it."""
CALL = f"Call the tool {TOOL} with the command `echo passone-ok`. Write nothing else."


@dataclass(frozen=True, slots=True, kw_only=True)
class Patient:
    """What the door knows of a run that has not begun."""

    recipe: Recipe
    agent: Agent
    environ: Mapping[str, str]
    draw: Callable[[Callable[[str], None]], Sequence[Instance]]
    """Tells what should be known. Raises UserError: no dataset, or nothing to draw from it."""
    logs: Path = Path("logs")
    calls_tools: bool = True
    """The agent works through tool calls: without them it does nothing."""
    one_call_a_reply: bool = False
    """Several calls in one reply are an error to this agent."""
    heard: Callable[[Exchange], None] = lambda said: None
    """Told of every completion: somebody is billed for it."""
    tested: str = ""
    """The version of the agent's program that passone is tested with."""
    built: Callable[[Instance], bool] = lambda instance: False
    """Whether its image is made here, once it is needed."""
    scant: Callable[[Instance], str] = lambda instance: ""
    """A warning where it gets less than it asks for."""
    try_out: Callable[[], Tryout] | None = None
    """Lets the agent do one small thing. Raises UserError: it could not even begin."""

    @property
    def asks_endpoint(self) -> bool:
        return self.agent.asks_model and not self.recipe.model.replies

    @property
    def on_terminal(self) -> bool:
        """Its tasks are machines: nothing but a container will do."""
        return self.recipe.selection.benchmark == "terminal"


@dataclass(slots=True, kw_only=True)
class Visit:
    """One examination; what a check finds out stays here for those that need it."""

    patient: Patient
    short: bool = False
    """One completion and nothing else: before a run."""
    key: str = field(default="", repr=False)
    written_base: str = ""
    """As the config has it, tidied."""
    base: str = ""
    """Where somebody answers; empty: nobody does."""
    instances: Sequence[Instance] = ()
    daemon: Any = None
    """What Docker says of itself."""
    missing_images: Sequence[str] | None = None
    """None: nobody looked."""
    to_build: int = 0
    """Images that are made here, and are not yet."""
    tryout: Tryout | None = None
    """None: none was made."""
    sampling_refused: bool = False
    _client: DockerClient | None = None
    _dialogue: Dialogue | None = None

    @property
    def dialogue(self) -> Dialogue:
        """Begun once the key is known."""
        if self._dialogue is None:
            recipe = self.patient.recipe
            self._dialogue = Dialogue(
                self.key,
                headers=recipe.model.headers,
                in_flight=min(5, recipe.gateway.in_flight),
                heard=self.patient.heard,
            )
        return self._dialogue

    @property
    def client(self) -> DockerClient:
        """Raises UserError: no daemon answers."""
        if self._client is None:
            from pipeline.docker import connect  # noqa: PLC0415 - of use to some checks only

            self._client = connect(timeout_seconds=DAEMON_SECONDS)
        return self._client

    @property
    def embedded(self) -> bool:
        return all(item.image.startswith("passone/demo.") for item in self.instances)

    def question(self, text: str, **more: object) -> dict[str, Any]:
        recipe = self.patient.recipe
        messages = [{"role": "user", "content": text}]
        # In its short form it asks as the run will: there is no second question.
        plan = {"temperature": recipe.sampling.temperature, "top_p": recipe.sampling.top_p}
        return {
            "model": recipe.model.server_id,
            "messages": messages,
            **(plan if self.short else {}),
            **more,
        }

    def opening(self, base: str) -> Exchange:
        """The first completion; the short form has no second one, so it offers the tool."""
        if self.short and self.patient.calls_tools:
            return self.tool_call(base)
        return self.dialogue.ask(base, self.question("Reply with the one word: passone"))

    def tool_call(self, base: str, text: str = CALL) -> Exchange:
        return self.dialogue.ask(base, self.question(text, tools=TOOLS))

    def redacted(self, text: str) -> str:
        """Without any secret, whoever repeated it."""
        headers = self.patient.recipe.model.headers
        return Upstream("", self.key, headers=headers).redacted(text.encode()).decode()

    @property
    def spent(self) -> Usage:
        return self._dialogue.spent if self._dialogue is not None else Usage()

    @contextlib.contextmanager
    def held(self) -> Iterator[Visit]:
        """Close what was opened."""
        try:
            yield self
        finally:
            if self._dialogue is not None:
                self._dialogue.close()
            if self._client is not None:
                self._client.close()
