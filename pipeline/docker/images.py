"""Have an image here: local first, else pulled over an ordered list of mirrors."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Event, Lock

import docker
import requests
from docker.errors import APIError, DockerException, ImageNotFound, NotFound

from pipeline.domain import Cause
from pipeline.outcomes import InfraError, UserError
from pipeline.wording import count

PULLS = 4
BACKOFF_SECONDS = 2.0
DISK_FULL = "no space left"
FOREIGN = "exec format error"
"""Of the kernel: a program for another kind of machine."""
BUSY = re.compile(
    r"toomanyrequests|too many requests|unexpected (http )?status.*\b(429|5\d\d)\b", re.IGNORECASE
)
"""What the daemon says of a registry that is there and has no answer just now."""
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


def cause_of(error: Exception, otherwise: Cause) -> Cause:
    """The daemon's own words; nothing that ran in a container is in them."""
    text = str(error).lower()
    if isinstance(error, ImageNotFound) or FOREIGN in text:
        return Cause.IMAGE
    return Cause.DISK if DISK_FULL in text else otherwise


def foreign(client: docker.DockerClient, image: str) -> str:
    """For which machine an image is, and which this is; empty where they are the same."""
    host = str(client.info().get("Architecture", ""))
    own = MACHINES.get(host, host)
    other = str(client.images.get(image).attrs.get("Architecture") or own)
    return "" if other == own else f"the image is for {other}, this machine is {own}"


def unfit(client: docker.DockerClient, image: str, words: str) -> InfraError:
    """What is wrong with a container that did not start, by what was said of it."""
    if FOREIGN not in words.lower():
        return InfraError(Cause.SANDBOX, "the container ended at once")
    machines = foreign(client, image) or "the image does not run on this machine"
    return InfraError(Cause.IMAGE, f"{machines}: {FOREIGN}")


def split_tag(reference: str) -> tuple[str, str]:
    """`host:5000/a/b:tag` as (`host:5000/a/b`, `tag`)."""
    name, colon, tag = reference.rpartition(":")
    if not colon or "/" in tag:
        return reference, "latest"
    return name, tag


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What the registries say of an image, before it is pulled."""

    said: str
    """By whoever does not offer it; empty: somebody does."""
    busy: bool
    """One of them could not say, which is no answer."""


@dataclass(slots=True)
class Images:
    """Images by reference, each fetched once whatever the number of workers."""

    client: docker.DockerClient
    mirrors: Sequence[str] = ()
    """Prefixes put before a reference, tried in order before the reference itself."""
    cancelled: Event = field(default_factory=Event)
    sleep: Callable[[float], object] | None = None
    """Between two rounds; by default a wait that cancelling ends."""
    _locks: dict[str, Lock] = field(default_factory=dict)
    _guard: Lock = field(default_factory=Lock)

    def local(self, reference: str) -> str | None:
        """The id of a local image, or None.

        Raises:
            InfraError: the daemon does not answer.
        """
        try:
            return str(self.client.images.get(reference).id)
        except ImageNotFound:
            return None
        except (DockerException, requests.RequestException) as error:
            raise InfraError(Cause.SANDBOX, f"Docker does not answer: {error}") from error

    def ensure(self, reference: str) -> str:
        """The id of the image, pulled if it is not here.

        Raises:
            InfraError: no source had it; the detail names each and what it said.
        """
        with self._guard:
            lock = self._locks.setdefault(reference, Lock())
        with lock:
            return self.local(reference) or self.pull(reference)

    def sources(self, reference: str) -> list[str]:
        return [*(f"{prefix.rstrip('/')}/{reference}" for prefix in self.mirrors), reference]

    def pull(self, reference: str) -> str:
        said: list[str] = []
        sources = self.sources(reference)
        for pull in range(PULLS):
            transient = False
            for source in list(sources):
                try:
                    return self._pull_from(source, reference)
                except NotFound as error:
                    said.append(f"{source}: {short(error)}")
                    sources.remove(source)
                except (DockerException, requests.RequestException) as error:
                    said.append(f"{source}: {short(error)}")
                    if cause_of(error, Cause.IMAGE) is Cause.DISK:
                        raise InfraError(Cause.DISK, f"pulling {source}: {error}") from error
                    transient = True
            if not transient or pull == PULLS - 1:
                break
            pause = self.sleep or self.cancelled.wait
            pause(BACKOFF_SECONDS * 2**pull * random.uniform(0.75, 1.25))
        unique = list(dict.fromkeys(said))
        raise InfraError(Cause.IMAGE, f"image {reference} is not here; " + "; ".join(unique))

    def _pull_from(self, source: str, reference: str) -> str:
        name, tag = split_tag(source)
        for event in self.client.api.pull(name, tag=tag, stream=True, decode=True):
            if self.cancelled.is_set():
                raise InfraError(Cause.IMAGE, "stopped while an image was pulled")
            if "error" in event:
                raise DockerException(event["error"])
        image = self.client.images.get(source)
        if source != reference:
            own_name, own_tag = split_tag(reference)
            image.tag(own_name, own_tag)
        return str(image.id)

    def offered(self, reference: str) -> Offer:
        """Whether a registry offers the image; nothing is pulled."""
        said, busy = [], False
        for source in self.sources(reference):
            try:
                self.client.images.get_registry_data(source)
            except (DockerException, requests.RequestException) as error:
                said.append(f"{source}: {short(error)}")
                busy = busy or bool(BUSY.search(str(error)))
            else:
                return Offer(said="", busy=False)
        return Offer(said="; ".join(said), busy=busy)


def short(error: Exception) -> str:
    """What the daemon said, on one line."""
    text = error.explanation if isinstance(error, APIError) and error.explanation else str(error)
    return " ".join(str(text).split())[:300]


def unoffered(images: Images, missing: Sequence[str], total: int) -> list[str]:
    """A warning about images that are not here, unless a registry offers one of them.

    Raises:
        UserError: all are missing, and every registry refuses them or is out of reach.
    """
    offers = []
    for reference in missing[:3]:
        offers.append(images.offered(reference))
        if not offers[-1].said:
            return []
    if not offers:
        return []
    said = offers[-1].said
    some = f"{len(missing)} of {total} images are not here"
    # Busy now is no reason to refuse a run that takes hours, and asks again.
    busy = next((offer.said for offer in offers if offer.busy), "")
    if busy:
        return [f"{some}, and a registry was too busy to say whether it has them ({busy})"]
    if len(missing) == total:
        raise UserError(
            f"no image of the {count(total, 'instance')} is here, and none can be pulled "
            f"({said}); load them with `docker load`, or name a mirror in sandbox.mirrors"
        )
    return [
        f"{some} and may not be pullable ({said}); their instances will end as infra, cause image"
    ]
