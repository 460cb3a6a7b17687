"""Where else an endpoint may be meant to be, and under which id a model may be meant."""

from __future__ import annotations

import difflib
import ipaddress
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from pipeline.gateway.upstream import is_loopback

PASTED = (
    "/chat/completions",
    "/completions",
    "/chat",
    "/responses",
    "/models",
    "/messages",
    "/embeddings",
)
"""Ends of a URL that are a route of the API, and no part of its base."""
ELSEWHERE = ("/v1", "/api/v1", "/openai/v1", "")
"""Where on a host the API is mostly served."""
MOST_NAMES = 10
PROXY_VARIABLES = frozenset({"http_proxy", "https_proxy", "all_proxy", "no_proxy"})


def candidates(base: str) -> list[str]:
    """Other base URLs on the same host that may be meant, the likeliest first."""
    stem = base
    while any(stem.endswith(end) for end in PASTED):
        stem = next(stem.removesuffix(end) for end in PASTED if stem.endswith(end)).rstrip("/")
    root = stem
    while root.endswith("/v1"):
        root = root.removesuffix("/v1").rstrip("/")
    parts = urlsplit(base)
    origin = f"{parts.scheme}://{parts.netloc}"
    found = [stem, f"{root}/v1", root, *(f"{origin}{path}" for path in ELSEWHERE)]
    return [url for url in dict.fromkeys(found) if url != base]


def is_private(host: str) -> bool:
    """Whether a host is this machine or one beside it."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "." not in host or host.endswith((".local", ".internal", ".lan", ".test"))
    return address.is_private or address.is_loopback


def place_of(url: str) -> str:
    """Host and port; whatever else a URL holds may be a password."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return "a place that is none"
    host = f"[{host}]" if ":" in host else host
    return f"{host}:{port}" if port else host


def proxy_for(base: str, environ: Mapping[str, str]) -> tuple[str, str]:
    """(Variable, proxy) that a request to the base URL takes; empty: none.

    The gateway goes round any proxy where the endpoint is on this machine.
    """
    parts = urlsplit(base)
    written = {name.lower(): name for name in environ if environ[name].strip()}
    none_for = environ.get(written.get("no_proxy", ""), "")
    if is_loopback(base) or spared(parts.hostname or "", none_for):
        return "", ""
    for name in (f"{parts.scheme}_proxy", "all_proxy"):
        if name in written:
            return written[name], environ[written[name]]
    return "", ""


def spared(host: str, none_for: str) -> bool:
    """Whether NO_PROXY names a host, or a domain above it."""
    items = [item.strip().lstrip(".").lower() for item in none_for.split(",") if item.strip()]
    return any(item == "*" or host == item or host.endswith(f".{item}") for item in items)


def nearest(name: str, known: Sequence[str]) -> list[str]:
    """Known ids that may be meant; none where nothing is near."""
    by_case = {item.lower(): item for item in known}
    tail = name.rpartition("/")[2].lower()
    same = [item for item in known if item.rpartition("/")[2].lower() == tail and tail]
    near = difflib.get_close_matches(name.lower(), list(by_case), n=3, cutoff=0.5)
    return list(dict.fromkeys([*same[:3], *(by_case[item] for item in near)]))[:3]


def misnamed(name: str, server_id: str, listed: Sequence[str]) -> tuple[str, str]:
    """(What is wrong, the id as model.name should have it) where a prefix is at fault."""
    bare = server_id.rpartition("/")[2]
    if server_id.startswith("openai/") and server_id.removeprefix("openai/") in listed:
        return (
            "has one `openai/` too many (a single one names the protocol and is not sent)",
            f"openai/{server_id.removeprefix('openai/')}",
        )
    if name.startswith("openai/") and f"openai/{server_id}" in listed:
        return (
            "lacks the provider: the endpoint's own id begins with openai/, and the first "
            "`openai/` names the protocol and is not sent",
            f"openai/openai/{server_id}",
        )
    if "/" in server_id and bare in listed:
        return ("has a provider before it that the endpoint does not use", f"openai/{bare}")
    behind = [item for item in listed if item.rpartition("/")[2] == server_id]
    if behind:
        return ("lacks the provider before it", f"openai/{behind[0]}")
    return "", ""
