"""See containers die as it happens: the daemon forgets old events, and clocks differ."""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass

import docker
import requests
from docker.errors import DockerException

from pipeline.docker.images import short
from pipeline.domain import Cause, Fault
from pipeline.outcomes import InfraError

JOIN_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Death:
    """One container's end, or that it was stopped short, by our own clock."""

    at: float
    how: str
    out_of_memory: bool


class Watch:
    """Everything that carries a label, for the life of a `with` block.

    Raises:
        InfraError: the daemon does not answer.
    """

    def __init__(self, client: docker.DockerClient, label: str) -> None:
        self.deaths: list[Death] = []
        self._oom: set[str] = set()
        try:
            # Subscribed before anything is started, so nothing is missed.
            self._events = client.api.events(
                filters={"label": label, "event": ["die", "oom", "pause"]}, decode=True
            )
        except (DockerException, requests.RequestException) as error:
            raise InfraError(Cause.SANDBOX, f"Docker failed: {short(error)}") from error
        self._thread = threading.Thread(target=self._listen, name="watch", daemon=True)
        self._thread.start()

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *exc: object) -> None:
        with contextlib.suppress(DockerException, OSError, AttributeError):
            self._events.close()
        self._thread.join(JOIN_SECONDS)

    def _listen(self) -> None:
        # Closed under us, or a daemon that went away: then its death is told elsewhere.
        with contextlib.suppress(
            DockerException, requests.RequestException, OSError, ValueError, AttributeError
        ):
            for event in self._events:
                actor = event["Actor"]
                if event["Action"] == "oom":
                    self._oom.add(actor["ID"])
                else:
                    code = actor["Attributes"].get("exitCode", "")
                    code = "was paused" if event["Action"] == "pause" else f"died ({code})"
                    self.deaths.append(Death(time.time(), code, actor["ID"] in self._oom))

    def casualty(self, until: float) -> Fault | None:
        """The first death before a moment, as a fault; `died` where memory ran out."""
        early = [death for death in self.deaths if death.at < until]
        if not early:
            return None
        how = "ran out of memory" if early[0].out_of_memory else early[0].how
        return Fault(
            cause=Cause.SANDBOX,
            detail=f"the agent's container {how} while it worked",
            died=early[0].out_of_memory,
        )
