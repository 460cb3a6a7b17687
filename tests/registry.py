"""A container registry on loopback that serves one small image, or what it is told to."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
CONFIG = "application/vnd.docker.container.image.v1+json"
LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"


def sha256(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


@dataclass
class Registry:
    """What is served, and how often it is refused first."""

    port: int
    blobs: dict[str, bytes]
    manifest: bytes
    refusals: list[int] = field(default_factory=list)
    """Statuses for the next manifest requests; then the image."""
    asked: list[str] = field(default_factory=list)

    @property
    def prefix(self) -> str:
        return f"127.0.0.1:{self.port}"


def small_image(text: str) -> tuple[dict[str, bytes], bytes]:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        info = tarfile.TarInfo("note.txt")
        info.size = len(text)
        tar.addfile(info, io.BytesIO(text.encode()))
    layer = gzip.compress(buffer.getvalue(), mtime=0)
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {},
            "rootfs": {"type": "layers", "diff_ids": [sha256(buffer.getvalue())]},
        }
    ).encode()
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": {"mediaType": CONFIG, "size": len(config), "digest": sha256(config)},
            "layers": [{"mediaType": LAYER, "size": len(layer), "digest": sha256(layer)}],
        }
    ).encode()
    return {sha256(config): config, sha256(layer): layer}, manifest


@contextmanager
def serving(text: str = "hello") -> Iterator[Registry]:
    """A registry for the life of a `with` block."""
    blobs, manifest = small_image(text)

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            return

        def answer(self, status: int, content: bytes, kind: str = "application/json") -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Docker-Content-Digest", sha256(content))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        def do_GET(self) -> None:
            registry.asked.append(self.path)
            if self.path == "/v2/":
                self.answer(200, b"{}")
            elif "/manifests/" in self.path:
                if registry.refusals:
                    status = registry.refusals.pop(0)
                    code = {"errors": [{"code": "TOOMANYREQUESTS", "message": "slow down"}]}
                    self.answer(status, json.dumps(code).encode())
                else:
                    self.answer(200, registry.manifest, MANIFEST)
            else:
                digest = self.path.rpartition("/")[2]
                found = registry.blobs.get(digest)
                self.answer(200 if found else 404, found or b"{}", "application/octet-stream")

        do_HEAD = do_GET

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry = Registry(server.server_address[1], blobs, manifest)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
