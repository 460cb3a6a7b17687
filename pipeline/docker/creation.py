"""Create containers of a shape, and start in them what their image starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from docker.api import APIClient

from pipeline.docker.shapes import IDLE, IDLES, Shape


def create(api: APIClient, digest: str, labels: Mapping[str, str], shape: Shape) -> str:
    """The id of a new container, in which a volume hides what is where nothing may be.

    Where nothing is there is no volume either: a folder can be moved, its mount cannot.

    Raises:
        DockerException, requests.RequestException: the daemon failed.
    """
    made = _create(api, digest, labels, replace(shape, blank=()))
    # What the daemon stumbles over, such as a link to itself, is something.
    absent = HTTPStatus.NOT_FOUND
    taken = tuple(place for place in shape.blank if status_of(api, made, place) != absent)
    if not taken:
        return made
    api.remove_container(made, force=True, v=True)
    return _create(api, digest, labels, replace(shape, blank=taken))


def status_of(api: APIClient, container: str, place: str) -> int:
    """The daemon's HTTP status for a place in a container: OK if it is there, a dead link too.

    Raises:
        requests.RequestException: no daemon.
    """
    url = f"{api.base_url}/v{api.api_version}/containers/{container}/archive"
    # The SDK has no call for it, and would fetch what is there (Engine API, HEAD archive).
    return int(api.head(url, params={"path": place}, timeout=api.timeout).status_code)


def wake(api: APIClient, container: str, config: Mapping[str, Any], command: Sequence[str]) -> None:
    """Start what an image starts, as its user; it is not waited for.

    Args:
        config: the image's.
        command: what its entrypoint is called with; empty: nothing is started.

    Raises:
        DockerException, requests.RequestException: there is no such program, or no daemon.
    """
    entrypoint = config.get("Entrypoint") or ()
    if not command or (not entrypoint and IDLES.fullmatch(" ".join(command))):
        return
    words, user = [*entrypoint, *command], config.get("User") or "root"
    made = api.exec_create(container, words, user=user, stdout=False, stderr=False)
    api.exec_start(made["Id"], detach=True)


def _create(api: APIClient, digest: str, labels: Mapping[str, str], shape: Shape) -> str:
    """The SDK's own way looks at the container too, and may fail at that."""
    made = api.create_container(
        digest,
        # An entrypoint of the image's own would stand in the way.
        entrypoint=IDLE.split(),
        user=shape.user or None,
        working_dir=shape.workdir or None,
        environment=dict(shape.variables),
        labels=dict(labels),
        host_config=api.create_host_config(**shape.host),
        network_disabled=shape.offline,
    )
    return str(made["Id"])
