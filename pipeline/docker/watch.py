"""See containers die as it happens: the daemon forgets old events, and clocks differ."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Event
from typing import Any

import docker
import requests
from docker.errors import DockerException

from pipeline.docker.images import short
from pipeline.domain import Cause, Fault
from pipeline.outcomes import InfraError

JOIN_SECONDS = 5.0
WEIGHS_SECONDS = 10.0
"""How often it is looked at what a container has written."""
EVENTS = ["die", "kill", "oom", "pause", "unpause"]
TELLS_SECONDS = 2.0
"""Within which the news of a death comes."""
HOLDS_SECONDS = 1.0
"""A stream that ends sooner is not asked for again: nobody could watch by it."""
BREAKS = (DockerException, requests.RequestException, OSError, ValueError, AttributeError)
"""What reading from a stream raises that was closed under us, or whose daemon went away."""


@dataclass(frozen=True, slots=True)
class Death:
    """One container's end, or that it was stopped short, by our own clock."""

    at: float
    how: str
    by_itself: bool
    """What ran in it may have done it: it took all the memory, or too much of the disk."""


class Watch:
    """Everything that carries a label, for the life of a `with` block.

    Args:
        most_bytes: what a container may write; one that writes more is killed. 0: no limit.

    Raises:
        InfraError: the daemon does not answer.
    """

    def __init__(self, client: docker.DockerClient, label: str, *, most_bytes: int = 0) -> None:
        self.deaths: list[Death] = []
        self.lost_at: float | None = None
        """When the daemon went away, with whatever happened after that."""
        self._client, self._label = client, label
        self._most_bytes = most_bytes
        self._oom: set[str] = set()
        self._asked: set[str] = set()
        """Containers that somebody has told the daemon to end."""
        self._dead: set[str] = set()
        self._gap = False
        """Whether events may have been missed."""
        self.heavy: dict[str, str] = {}
        """Containers that had to be killed for what they wrote, and how much that was."""
        self._paused: dict[str, float] = {}
        self._pauses: list[tuple[float, float]] = []
        self._leaving = Event()
        try:
            # Subscribed before anything is started, so nothing is missed.
            self._events = self._subscribe()
        except (DockerException, requests.RequestException) as error:
            raise InfraError(Cause.SANDBOX, f"Docker failed: {short(error)}") from error
        self._thread = threading.Thread(target=self._listen, name="watch", daemon=True)
        self._thread.start()
        if most_bytes:
            threading.Thread(target=self._weigh, name="weigh", daemon=True).start()

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *exc: object) -> None:
        self._leaving.set()
        self._close()
        self._thread.join(JOIN_SECONDS)

    def _subscribe(self) -> Any:
        filters = {"label": self._label, "event": EVENTS}
        return self._client.api.events(filters=filters, decode=True)

    def _close(self) -> None:
        with contextlib.suppress(DockerException, OSError, AttributeError):
            self._events.close()

    def _listen(self) -> None:
        while True:
            began = time.monotonic()
            with contextlib.suppress(*BREAKS):
                for event in self._events:
                    self._note(event)
            ended = time.time()
            if self._leaving.is_set():
                return
            self._gap = True
            # A relay ends a stream that is silent for long; a daemon that dies answers nothing.
            try:
                if time.monotonic() - began < HOLDS_SECONDS:
                    raise DockerException("it did not hold")
                self._events = self._subscribe()
            except BREAKS:
                self.lost_at = ended
                return
            if self._leaving.is_set():
                self._close()

    def _weigh(self) -> None:
        # Where a disk has no quotas, and few have, this is all that can be done.
        while not self._leaving.wait(WEIGHS_SECONDS):
            with contextlib.suppress(*BREAKS):
                for container in self._client.api.containers(
                    filters={"label": self._label}, size=True
                ):
                    written = container.get("SizeRw") or 0
                    if written > self._most_bytes:
                        most = f"{self._most_bytes / 1e9:g} GB"
                        self.heavy[container["Id"]] = f"wrote more than {most} to its disk"
                        self._client.api.kill(container["Id"])

    def _note(self, event: Mapping[str, Any]) -> None:
        actor, action, now = event["Actor"], event["Action"], time.time()
        match action:
            case "oom":
                self._oom.add(actor["ID"])
            case "kill":
                self._asked.add(actor["ID"])
            case "unpause":
                self._pauses.append((self._paused.pop(actor["ID"], now), now))
            case "pause":
                self._paused[actor["ID"]] = now
                self._mourn(actor["ID"], "was paused", now)
            case _:
                self._dead.add(actor["ID"])
                code = actor["Attributes"].get("exitCode", "")
                self._mourn(actor["ID"], f"died ({code})", now)

    def _mourn(self, container: str, how: str, now: float) -> None:
        if container in self._oom:
            how = "ran out of memory"
        how = self.heavy.get(container, how)
        itself = container in self._oom or container in self.heavy
        self.deaths.append(Death(now, how, itself))

    def unasked(self, container: str) -> bool:
        """Whether a container that has ended did so though nobody told the daemon to end it."""
        deadline = time.monotonic() + TELLS_SECONDS
        while container not in self._dead and not self._gap and time.monotonic() < deadline:
            time.sleep(0.05)
        return container in self._dead and container not in self._asked and not self._gap

    def paused_seconds(self, since: float) -> float:
        """For how long containers were paused after a moment, and went on."""
        return sum(max(end - max(begin, since), 0.0) for begin, end in list(self._pauses))

    def casualty(self, until: float) -> Fault | None:
        """The first death before a moment, as a fault; `died` where it may be its own doing."""
        early = [death for death in self.deaths if death.at < until]
        if early:
            text = f"the agent's container {early[0].how} while it worked"
            return Fault(cause=Cause.SANDBOX, detail=text, died=early[0].by_itself)
        if self.lost_at is not None and self.lost_at < until:
            text = "the Docker daemon went away while the agent worked"
            return Fault(cause=Cause.SANDBOX, detail=text)
        return None
