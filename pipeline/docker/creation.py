"""Create containers of a shape, not yet started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from http import HTTPStatus

from docker.api import APIClient

from pipeline.docker.shapes import IDLE, Shape


def create(api: APIClient, digest: str, labels: Mapping[str, str], shape: Shape) -> str:
    """The id of a new container, in which a volume hides what is where nothing may be.

    Where nothing is there is no volume either: a folder can be moved, its mount cannot.

    Raises:
        DockerException, requests.RequestException: the daemon failed.
    """
    made = _create(api, digest, labels, replace(shape, blank=()))
    taken = tuple(place for place in shape.blank if holds(api, made, place))
    if not taken:
        return made
    api.remove_container(made, force=True, v=True)
    return _create(api, digest, labels, replace(shape, blank=taken))


def holds(api: APIClient, container: str, place: str) -> bool:
    """Whether anything is in a place of a container, if only a link that leads nowhere."""
    answer = api.head(
        f"{api.base_url}/v{api.api_version}/containers/{container}/archive",
        params={"path": place},
        timeout=api.timeout,
    )
    # What the daemon stumbles over, such as a link to itself, is something.
    return bool(answer.status_code != HTTPStatus.NOT_FOUND)


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
