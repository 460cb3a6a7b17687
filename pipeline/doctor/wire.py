"""Say in plain words why nobody answered, and what to do about it."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

import httpx

from pipeline.doctor.addresses import place_of, proxy_for
from pipeline.doctor.dialogue import Exchange, excerpt


def causes(error: BaseException) -> Iterator[BaseException]:
    """An error, and all that is behind it."""
    todo: list[BaseException | None] = [error]
    seen: set[int] = set()
    while todo:
        current = todo.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        todo += [current.__cause__, current.__context__]
        if isinstance(current, BaseExceptionGroup):
            todo += current.exceptions


def is_certificate(error: BaseException) -> bool:
    return isinstance(error, ssl.SSLCertVerificationError) or "CERTIFICATE_VERIFY" in str(error)


def why(said: Exchange, base: str, environ: Mapping[str, str]) -> tuple[str, str]:
    """(What happened, remedy) where a request brought no answer at all."""
    variable, proxy = proxy_for(base, environ)
    if proxy and isinstance(said.error, httpx.ConnectError | httpx.ProxyError):
        return (
            f"the proxy {place_of(proxy)} ({variable}) does not let it through: "
            f"{excerpt(str(said.error))}",
            f"mend or unset {variable}, or name the endpoint's host in NO_PROXY",
        )
    return unaided(said, base)


def unaided(said: Exchange, base: str) -> tuple[str, str]:
    """The same where no proxy is between."""
    assert said.error is not None
    place, url = place_of(base), urlsplit(base)
    behind = list(causes(said.error))
    text = excerpt(" ".join(str(error) for error in behind))
    if any(isinstance(error, socket.gaierror) for error in behind):
        return (
            f"no such host: {url.hostname} has no address (DNS)",
            "mend the host in model.base_url; or name the proxy that this network needs in "
            f"{url.scheme.upper()}_PROXY",
        )
    if any(is_certificate(error) for error in behind):
        return (
            f"{place}: its TLS certificate is not trusted here: {text}",
            "name your organisation's certificates in SSL_CERT_FILE; check the host's name",
        )
    if any(isinstance(error, ssl.SSLError) for error in behind) and url.scheme == "https":
        plain = base.replace("https://", "http://", 1)
        return (
            f"{place} does not speak TLS: {text}",
            f"if it serves plain http: --set model.base_url={plain}",
        )
    if any(isinstance(error, ConnectionRefusedError) for error in behind):
        return (
            f"{place} refuses the connection: nothing listens there",
            "start the server, or mend host and port in model.base_url",
        )
    return by_kind(said.error, base, text)


def by_kind(error: Exception, base: str, text: str) -> tuple[str, str]:
    place = place_of(base)
    if isinstance(error, httpx.ConnectTimeout):
        return (
            f"{place} did not take the connection in time",
            "check host, port, firewall and proxy",
        )
    if isinstance(error, httpx.TimeoutException):
        return (
            f"{place} gave no answer in time: {text}",
            "the server is overloaded or the model is still loading; try again",
        )
    if isinstance(error, httpx.ProxyError | ImportError) or "proxy" in text.lower():
        return (f"the proxy does not work: {text}", "mend or unset HTTP(S)_PROXY and ALL_PROXY")
    if isinstance(error, httpx.RemoteProtocolError | httpx.ReadError):
        remedy = "check the scheme and the port"
        if base.startswith("http://"):
            remedy = f"if it serves https: --set model.base_url={base.replace('http', 'https', 1)}"
        return f"{place} closed the connection without an answer", remedy
    return (
        f"{place} cannot be reached: {text or type(error).__name__}",
        "check host, port, network and proxy in model.base_url and the environment",
    )
