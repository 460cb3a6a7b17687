"""The nouns of a terminal task: all that later stages need, whichever layout it was published in.

Paths of a `Task` are whole ones on this machine; places in a container are written as text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from pipeline.docker.artifacts import Artifact

GRADER = "terminal 2"
"""Raised whenever a verdict may come out otherwise than before."""
TESTS = "/tests"
"""Where the tests are put, once the agent has stopped."""
REWARDS = "/logs/verifier"
"""Where the current layout's tests leave their reward."""
ARTIFACTS = "/logs/artifacts"
"""What an agent leaves here is kept, whether its task asks for it or not."""
SOLUTION = {"current": "/solution", "older": "/oracle"}
"""Where the reference solution is put, by layout."""
LOGS = {
    "current": ("/logs/agent", REWARDS, ARTIFACTS),
    "older": ("/logs", "/agent-logs"),
}
"""Folders that are there for anybody to write to, by layout: its own program mounts them."""


class Layout(StrEnum):
    """Which of the public layouts a folder is in."""

    CURRENT = "current"
    """task.toml, instruction.md, environment/, tests/test.sh, solution/solve.sh."""
    OLDER = "older"
    """task.yaml, Dockerfile, docker-compose.yaml, run-tests.sh, tests/, solution.sh."""


MARK = {Layout.CURRENT: "task.toml", Layout.OLDER: "task.yaml"}
"""The file that a folder of this layout is known by."""


class Network(StrEnum):
    """What a container may reach, in the words of task.toml."""

    PUBLIC = "public"
    NONE = "no-network"
    ALLOWLIST = "allowlist"
    """Some hosts only: Docker cannot hold that, so such a task is skipped."""


class Parser(StrEnum):
    """How the older layout's test output becomes a verdict."""

    PYTEST = "pytest"
    SWEBENCH = "swebench"


class Strategy(StrEnum):
    """How the rewards of several chapters become one."""

    MEAN = "mean"
    FINAL = "final"


@dataclass(frozen=True, slots=True, kw_only=True)
class Healthcheck:
    """What has to succeed before the agent may start."""

    command: str
    interval_seconds: float = 5.0
    timeout_seconds: float = 30.0
    start_period_seconds: float = 0.0
    start_interval_seconds: float = 5.0
    retries: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The container that an agent works in, and its tests after it."""

    image: str = ""
    """A published one; empty: it has to be built."""
    context: Path | None = None
    """What it is built from; None: there is nothing to build."""
    dockerfile: Path | None = None
    build_arguments: Mapping[str, str] = field(default_factory=dict)
    build_seconds: float = 600.0
    uploads: Path | None = None
    """A folder whose files go into the working directory first; None: there is none."""
    workdir: str = ""
    """Empty: the image's own."""
    user: str = ""
    """Empty: the image's own, as everywhere here."""
    cpus: float | None = None
    """None: the task does not say, as in the two below."""
    memory_mb: int | None = None
    storage_mb: int | None = None
    network: Network = Network.PUBLIC
    variables: Mapping[str, str] = field(default_factory=dict)
    healthcheck: Healthcheck | None = None
    command: tuple[str, ...] = ()
    """What is started in it; empty: the image's entrypoint alone, if it has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTerms:
    """What a task lets an agent have."""

    seconds: float | None = None
    """None: the task sets no limit."""
    user: str = ""
    network: Network | None = None
    """None: as its environment has it, here and in a verifier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verifier:
    """What grades a container, after the agent has stopped."""

    folders: tuple[Path, ...]
    """Their contents go to `/tests`, one after the other; a later one's files win."""
    script: Path
    """The one to run; it lies in one of the folders, or beside them in the older layout."""
    command: tuple[str, ...]
    seconds: float = 600.0
    variables: Mapping[str, str] = field(default_factory=dict)
    user: str = ""
    network: Network | None = None
    parser: Parser | None = None
    """None: the tests leave a reward in `/logs/verifier`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """The reference solution: a control that should resolve the task."""

    script: Path
    folder: Path | None
    """What goes into the container beside the script; None: the script alone."""
    command: tuple[str, ...]
    seconds: float | None = None
    """None: no limit."""
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    """One of several instructions in a row, in one container. Its publisher calls it a step."""

    name: str
    instruction: str
    agent: AgentTerms
    verifier: Verifier
    solution: Solution | None
    uploads: Path | None
    """Its files go into the working directory first; a `setup.sh` among them is then run."""
    healthcheck: Healthcheck | None
    minimum: Mapping[str, float]
    """Rewards by name; with less than one of them, no further chapter is begun."""
    artifacts: tuple[Artifact, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One task, read whole."""

    id: str
    layout: Layout
    folder: Path
    fingerprint: str
    """sha256 of all its files, see `pipeline.benchmarks.terminal.contents`."""
    instruction: str
    """Empty where it has chapters."""
    category: str
    difficulty: str
    """As published; empty where nobody says."""
    tags: tuple[str, ...]
    environment: Environment
    agent: AgentTerms
    verifier: Verifier | None
    """None only where each chapter has its own."""
    solution: Solution | None
    """None: no control can be made of it."""
    artifacts: tuple[Artifact, ...] = ()
    chapters: tuple[Chapter, ...] = ()
    strategy: Strategy = Strategy.MEAN
    crlf: tuple[str, ...] = ()
    """Scripts with Windows line ends, below the folder: to be normalised when copied in."""
    unknown: tuple[str, ...] = ()
    """Keys that nobody here knows: public formats grow."""

    @property
    def prompt(self) -> str:
        """What an agent is asked first."""
        return self.chapters[0].instruction if self.chapters else self.instruction
