"""What happens to the network while tests run: most eval scripts begin with pip."""

from __future__ import annotations

import io
import ipaddress
import tarfile
import threading
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pip
from docker.errors import APIError, NotFound

from tests.faults import harness
from tests.faults.case import RESOLVED, Case, Peer, Right, Seen, infra
from tests.faults.material import Row, at_import, before_tests, daemon, gold, new_file, row, variant
from tests.faults.programs import Hunt
from tests.faults.scene import score
from tests.faults.scoring import Scored, slow

GROUP = "network"
S = Scored(group=GROUP)
OFF = "sandbox.network=off"
INSTANCE = infra("instance")
NEEDED = "passone-needed"
PACKAGES = "/usr/lib/python3/dist-packages"
NO_INDEX = "export PIP_INDEX_URL=https://index.invalid/simple"
NO_DNS = "echo nameserver 127.0.0.1 > /etc/resolv.conf"
REACHES_OUT = "import socket; socket.create_connection(('192.0.2.1', 80), timeout=2)"
INSTALLS_ITSELF = "python3 -m pip install -e ."
INSTALLS_WHAT_IT_NEEDS = (
    f"python3 -m pip install {NEEDED}\npython3 -c 'import {NEEDED.replace('-', '_')}' || exit 1"
)


def image_with_pip() -> str:
    """The undamaged image and the pip of this very Python, which is as good anywhere."""
    place = Path(pip.__file__).parent
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        tar.add(place, arcname="pip", filter=lambda i: None if "__pycache__" in i.name else i)
    return variant(
        "pip",
        f"mkdir -p {PACKAGES}; rm -f /usr/lib/python3*/EXTERNALLY-MANAGED; : pip {pip.__version__}",
        add={PACKAGES: buffer.getvalue()},
    )


def with_pip(*lines: str) -> Row:
    """A row whose eval script asks pip for something before its tests."""
    impatient = "export PIP_RETRIES=0 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore"
    return before_tests(row(image=image_with_pip()), "\n".join([impatient, *lines]))


def wheel() -> bytes:
    """A package that has nothing in it but its name."""
    name = NEEDED.replace("-", "_")
    metadata = f"Metadata-Version: 2.1\nName: {NEEDED}\nVersion: 1\n"
    kind = "Wheel-Version: 1.0\nGenerator: passone\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(f"{name}.py", "")
        archive.writestr(f"{name}-1.dist-info/METADATA", metadata)
        archive.writestr(f"{name}-1.dist-info/WHEEL", kind)
        archive.writestr(f"{name}-1.dist-info/RECORD", "")
    return buffer.getvalue()


@contextmanager
def package_index(*, statuses: tuple[int, ...] = (), silent: bool = False) -> Iterator[str]:
    """A package index that containers reach; yields the line that makes pip ask it.

    Args:
        statuses: for the next requests, 0 for a right answer; then it serves.
        silent: it takes connections and never answers.
    """
    left = list(statuses)
    name = f"{NEEDED.replace('-', '_')}-1-py3-none-any.whl"
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            return

        def do_GET(self) -> None:
            if silent:
                over.wait(300)
                return
            is_page = self.path.startswith("/simple/")
            status = left.pop(0) if left and is_page else 0
            page = f'<a href="/{name}">{name}</a>'.encode()
            content = b"" if status else page if is_page else wheel()
            self.send_response(status or 200)
            self.send_header("Content-Type", "text/html" if is_page else "application/zip")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    with daemon() as client:
        (settings,) = client.networks.get("bridge").attrs["IPAM"]["Config"]
    server = ThreadingHTTPServer(("0.0.0.0", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    address = settings.get("Gateway") or str(ipaddress.ip_network(settings["Subnet"])[1])
    try:
        yield (
            f"export PIP_INDEX_URL=http://{address}:{server.server_address[1]}/simple "
            f"PIP_TRUSTED_HOST={address}"
        )
    finally:
        over.set()
        server.shutdown()
        server.server_close()
        thread.join()


def indexed(
    name: str,
    right: Right,
    *settings: str,
    statuses: tuple[int, ...] = (),
    silent: bool = False,
    invocations: int = 1,
    patch: str = "",
    timeout: int = 60,
) -> Case:
    """Tests that need a package, and an index that serves it in its own way."""

    def ours(place: Path) -> Seen:
        with package_index(statuses=statuses, silent=silent) as line:
            of = with_pip(line, INSTALLS_WHAT_IT_NEEDS)
            return score(place, of, patch or gold(), *settings, invocations=invocations)

    def swebench(place: Path) -> Peer:
        with package_index(statuses=statuses, silent=silent) as line:
            of = with_pip(line, INSTALLS_WHAT_IT_NEEDS)
            return harness.grade(place, of, patch or gold(), right, broken=True, timeout=timeout)

    return Case(name=name, group=GROUP, right=right, ours=ours, peers={"swebench": swebench})


def cut_off(hunt: Hunt) -> None:
    """Take the network from a container whose tests run."""
    container = hunt.testing()
    with suppress(NotFound, APIError):
        hunt.client.networks.get("bridge").disconnect(container, force=True)
    time.sleep(0.1)


CASES: tuple[Case, ...] = (
    S.case("off, and the tests do not need it", RESOLVED, OFF, peer=False),
    S.case(
        "off, and the tests need it",
        INSTANCE,
        OFF,
        of=lambda: with_pip(INSTALLS_WHAT_IT_NEEDS),
        peer=False,
    ),
    S.case(
        "off, and the patch alone reaches for it",
        Right("tests_did_not_run"),
        OFF,
        patch=gold()
        + at_import(
            "import urllib.request; urllib.request.urlopen('http://192.0.2.1/', timeout=2)"
        ),
        peer=False,
    ),
    S.case(
        "DNS gone, and the tests need what pip would bring",
        INSTANCE,
        of=lambda: with_pip(NO_DNS, INSTALLS_WHAT_IT_NEEDS),
    ),
    S.case(
        "package index unreachable, and not needed",
        RESOLVED,
        of=lambda: with_pip(NO_INDEX, INSTALLS_ITSELF),
    ),
    S.case(
        "package index unreachable, and needed",
        INSTANCE,
        of=lambda: with_pip(NO_INDEX, INSTALLS_WHAT_IT_NEEDS),
    ),
    indexed("package index answers 503 for ever", INSTANCE, statuses=(503,) * 99),
    indexed("package index down for one scoring, back before gold", RESOLVED, statuses=(503,)),
    indexed(
        "package index down while gold is scored; the next run",
        RESOLVED,
        statuses=(0, 503),
        invocations=2,
        patch=gold() + new_file("note.txt", "by the model"),
    ),
    indexed(
        "package index fails now and then: gold fails, and passes at once",
        INSTANCE,
        statuses=(0, 503),
        # Gold itself would have been its own control.
        patch=gold() + new_file("note.txt", "by the model"),
    ),
    S.case(
        "a container cut off from its network while tests run that do not need it",
        RESOLVED,
        of=slow,
        strike=lambda: cut_off,
    ),
)
