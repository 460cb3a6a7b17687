"""A guard around every test: nothing is written outside tmp_path, no traffic leaves loopback."""

from __future__ import annotations

import ipaddress
import os
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.cli import main
from pipeline.docker import connect
from pipeline.outcomes import UserError
from tests.command import Passone, Said

SHARED = Path(__file__).parent.parent.parent / "shared" / "data"
GUARD: dict[str, Any] = {"on": False, "roots": ()}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


LONGEST = (
    *("test_demo", "test_endpoint_faults", "test_smoke", "test_terminal_attacks", "test_replays"),
    *("test_bundle", "test_terminal_scorer", "test_audit", "test_secrets", "test_report_page"),
    *("test_docker", "test_swebench", "test_faults", "test_attacks", "test_outage", "test_frame"),
)


"""Files, so that no process is left with one of them at the end."""


def is_loopback(host: object) -> bool:
    if host in ("localhost", "", b"localhost"):
        return True
    try:
        return ipaddress.ip_address(str(host)).is_loopback
    except ValueError:
        return False


def audit(event: str, arguments: tuple[Any, ...]) -> None:
    """Refuse what a test must not do. Audit hooks cannot be removed, so a switch turns this one."""
    if not GUARD["on"]:
        return
    if event == "open":
        path, mode, flags = arguments
        writes = isinstance(mode, str) and any(c in mode for c in "wax+")
        writes = writes or (mode is None and bool(flags & WRITING))
        if writes and isinstance(path, str | bytes) and not allowed(os.fsdecode(path)):
            raise PermissionError(f"a test wrote outside its tmp_path: {os.fsdecode(path)}")
    elif event == "socket.connect":
        peer, address = arguments
        if peer.family in (socket.AF_INET, socket.AF_INET6) and not is_loopback(address[0]):
            raise PermissionError(f"a test reached for {address[0]}, which is not loopback")


def allowed(path: str) -> bool:
    absolute = os.path.abspath(path)  # noqa: PTH100 - Path.resolve() would open files itself
    return absolute.startswith(("/dev/", "/proc/")) or absolute.startswith(GUARD["roots"])


sys.addaudithook(audit)


@pytest.fixture(autouse=True)
def guard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The machine's own caches stay as they are, and so does everything else."""
    monkeypatch.setenv("PASSONE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "huggingface"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE"):
        monkeypatch.delenv(name, raising=False)
    scratch = os.path.realpath(tempfile.gettempdir())
    caches = tuple(str(Path(__file__).parent.parent / n) for n in (".pytest_cache", ".hypothesis"))
    GUARD.update(on=True, roots=(str(tmp_path.parent.parent), scratch, *caches))
    yield
    GUARD["on"] = False


@pytest.fixture
def passone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Passone:
    """The command in this process, in an empty directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")

    def call(*argv: object) -> Said:
        monkeypatch.setattr(sys, "argv", ["passone", *map(str, argv)])
        capsys.readouterr()
        try:
            main()
            status = 0
        except SystemExit as leaving:
            status = leaving.code if isinstance(leaving.code, int) else int(bool(leaving.code))
        captured = capsys.readouterr()
        return Said(status, captured.out, captured.err)

    return call


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real data beside the checkout; a test that needs it is skipped without."""
    if not SHARED.is_dir():
        pytest.skip("../shared/data is absent: it comes with the workplace, not with the project")
    return SHARED


def daemon_problem() -> str:
    """Empty if a Docker daemon answers."""
    try:
        connect().close()
    except UserError as error:
        return str(error)
    return ""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    order = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path.stem, len(order)))
    needing = [item for item in items if item.get_closest_marker("docker")]
    problem = daemon_problem() if needing else ""
    if problem:
        for item in needing:
            item.add_marker(pytest.mark.skip(reason=f"no Docker daemon: {problem}"))
