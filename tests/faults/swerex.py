"""An image in which SWE-agent can work without a network."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from docker.errors import ImageNotFound

from tests.faults.material import alone, daemon, plain

SWEAGENT = os.environ.get("PASSONE_SWEAGENT", "")
MADE_LABEL = "passone.fault.swerex"
SWEREX = "/opt/swerex"
SERVER = f"""\
#!/usr/bin/env python3
import sys
sys.path.insert(0, "{SWEREX}")
from swerex.server import main
main()
"""
PIP = "#!/bin/sh\n# What its tools ask for is optional, and cannot be had without a network.\n"


def with_server() -> str:
    """An image that has what SWE-agent starts in it, as its own venv has it; built once."""
    reference = "passone/fault.swerex:1"
    parent = plain()
    with alone("swerex"), daemon() as client:
        made_of = str(client.images.get(parent).id)
        with contextlib.suppress(ImageNotFound):
            if client.images.get(reference).labels.get(MADE_LABEL) == made_of:
                return reference
        ask = ["python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        version = client.containers.run(parent, ask, remove=True, network_disabled=True)
        with tempfile.TemporaryDirectory(prefix="passone-swerex-") as name:
            content = packed(Path(name), version.decode().strip())
        container = client.containers.create(parent, ["true"])
        try:
            container.put_archive("/", content)
            changes = [f"LABEL {MADE_LABEL}={made_of}"]
            container.commit(*reference.split(":"), changes=changes)
        finally:
            container.remove(force=True)
    return reference


def packed(scratch: Path, version: str) -> bytes:
    """The server of SWE-agent's runtime for a Python of this version, as a tar."""
    python = Path(SWEAGENT).with_name("python")
    tell = "import importlib.metadata as m; print(m.version('swe-rex'))"
    release = subprocess.run([python, "-c", tell], capture_output=True, text=True, check=True)
    pip = [sys.executable, "-m", "pip", "install", "-q", "--only-binary=:all:"]
    place = ["--python-version", version, "--target", str(scratch / "lib")]
    wanted = f"swe-rex=={release.stdout.strip()}"
    subprocess.run([*pip, *place, wanted], capture_output=True, check=True, timeout=120)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        tar.add(scratch / "lib", arcname=SWEREX.lstrip("/"))
        for name, text in (("swerex-remote", SERVER), ("pip", PIP)):
            program = tarfile.TarInfo(f"usr/local/bin/{name}")
            program.mode, program.size = 0o755, len(text)
            tar.addfile(program, io.BytesIO(text.encode()))
    return buffer.getvalue()
