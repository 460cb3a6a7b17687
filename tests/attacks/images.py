"""Images made on the spot: a base, the three runners from PyPI, and a repository in /testbed."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from pipeline.docker import EmbeddedImages
from pipeline.docker.embedded import BASE
from tests.attacks.repository import Repository, as_root
from tests.faults.material import SceneError, alone, built, daemon

RUNNERS = ("pip", "setuptools", "wheel", "pytest>=8,<9", "django>=5.2,<6", "sympy>=1.13,<1.15")
OLDEST_PYTHON = "3.11"
"""Of a base image. What is installed is pure Python, and does in any later one."""
DOWNLOAD_SECONDS = 150
PREFIX = "/opt/testbed"
INSTALL = f"""\
python3 -m venv --without-pip {PREFIX}
cd /opt/wheels
{PREFIX}/bin/python "$(echo pip-*.whl)/pip" install -q --no-index --find-links . \\
    $(ls /opt/wheels | sed 's/-.*//')
rm -rf /opt/wheels
# Debian has one of its own, which stands in the way of any other. Published images have none.
rm -f /usr/lib/python3*/sitecustomize.py /etc/python3*/sitecustomize.py
"""
CHECK_OUT = f"""\
git config --global --add safe.directory /testbed
cd /testbed
{PREFIX}/bin/python -m pip install -q --no-index --no-build-isolation --no-deps -e .
git status --short
"""


def wheels() -> Mapping[str, bytes]:
    """What the runners need, by this machine's own pip and its index."""
    ask = [sys.executable, "-m", "pip", "download", "-q", "--only-binary=:all:"]
    with tempfile.TemporaryDirectory(prefix="passone-wheels-") as scratch:
        place = ["--python-version", OLDEST_PYTHON, "-d", f"{scratch}/wheels"]
        done = subprocess.run(
            [*ask, *place, *RUNNERS],
            capture_output=True,
            text=True,
            check=False,
            timeout=DOWNLOAD_SECONDS,
        )
        if done.returncode:
            raise SceneError(f"the runners cannot be had: {done.stderr.strip()[-300:]}")
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            tar.add(Path(scratch) / "wheels", arcname="opt/wheels", filter=as_root)
    return {"/": buffer.getvalue()}


@cache
def image(repository: Repository) -> str:
    """The reference of the repository's image; made where it is not here."""
    with alone("attacks"), daemon() as client:
        EmbeddedImages(client).ensure_base()
        runners = "passone/attack.runners:1"
        base = str(client.images.get(f"{BASE}:1").id)
        built(client, runners, base, INSTALL, given=wheels, stamp=" ".join(RUNNERS))
        parent = str(client.images.get(runners).id)
        return built(
            client,
            f"passone/attack.{repository.name}:1",
            parent,
            CHECK_OUT,
            given=lambda: {"/": repository.archive()},
            stamp=repository.base_commit,
            changes=["ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore"],
        )


def run(reference: str, code: str) -> bytes:
    """What a few lines of Python print in an image, by its own interpreter."""
    with daemon() as client, contextlib.closing(client):
        return bytes(
            client.containers.run(
                reference, [f"{PREFIX}/bin/python", "-c", code], remove=True, network_disabled=True
            )
        )
