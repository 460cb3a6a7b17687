"""A registry on loopback that serves a real image of an embedded instance, well or badly."""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import io
import json
import secrets
import shutil
import tarfile
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeAlias

from docker.errors import APIError

from tests.faults.material import alone, daemon, plain

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
CONFIG = "application/vnd.docker.container.image.v1+json"
LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"
ALWAYS = 1 << 30
OWN_BYTES = 1 << 18
"""Of the layer that no other image has: enough to break off half-way."""

Blob: TypeAlias = Path | bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Cargo:
    """One image as a registry has it."""

    blobs: Mapping[str, Blob]
    manifest: bytes
    own_layer: str
    """The digest of the layer that this image alone has: no daemon has it already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How a registry serves: what it is told to do to its next requests."""

    status: int = 0
    """What it refuses manifests with."""
    refusals: int = ALWAYS
    """How often, if there is a status."""
    seconds: float = 0.0
    """Before every answer."""
    spoilt: int = 0
    """How often the image's own layer comes with a changed byte."""
    cut: int = 0
    """How often it breaks off half-way."""


WELL = Manner()


def sha256(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


@cache
def saved() -> tuple[Mapping[str, Any], Mapping[str, Path]]:
    """The undamaged image as files: its config, and its layers by digest. Once a process."""
    root = Path(tempfile.mkdtemp(prefix="passone-mirror-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    archive = root / "image.tar"
    with daemon() as client, archive.open("wb") as file:
        file.writelines(client.images.get(plain()).save())
    with tarfile.open(archive) as tar:
        # The first releases of 3.11 have no filters.
        tar.extraction_filter = getattr(tarfile, "data_filter", lambda member, path: member)
        tar.extractall(root)
    archive.unlink()
    (manifest,) = json.loads((root / "manifest.json").read_text())
    config = json.loads((root / manifest["Config"]).read_text())
    paths = [root / name for name in manifest["Layers"]]
    return config, dict(zip(config["rootfs"]["diff_ids"], paths, strict=True))


def cargo(files: Mapping[str, bytes] | None = None, *, architecture: str = "") -> Cargo:
    """The undamaged image below a layer of its own, with files that are added to it."""
    with alone("mirror"):
        config, layers = saved()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        own = {"usr/share/passone.note": secrets.token_bytes(OWN_BYTES)}
        for name, content in (own | dict(files or {})).items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o755
            tar.addfile(info, io.BytesIO(content))
    own_layer = buffer.getvalue()
    digest = sha256(own_layer)
    rootfs = {"type": "layers", "diff_ids": [*config["rootfs"]["diff_ids"], digest]}
    changed = {**config, "rootfs": rootfs}
    changed["history"] = [*config.get("history", []), {"created_by": "note"}]
    changed["architecture"] = architecture or config["architecture"]
    packed = json.dumps(changed).encode()
    sizes = {**{name: path.stat().st_size for name, path in layers.items()}, digest: len(own_layer)}
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": {"mediaType": CONFIG, "size": len(packed), "digest": sha256(packed)},
        "layers": [{"mediaType": LAYER, "size": n, "digest": name} for name, n in sizes.items()],
    }
    blobs: dict[str, Blob] = {**layers, digest: own_layer, sha256(packed): packed}
    return Cargo(blobs=blobs, manifest=json.dumps(manifest).encode(), own_layer=digest)


@dataclass(slots=True)
class Mirror:
    """One registry, and what it has been asked."""

    cargo: Cargo
    manner: Manner
    port: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def prefix(self) -> str:
        return f"127.0.0.1:{self.port}"

    def still(self, name: str) -> bool:
        """Whether to do once more what `manner` counts."""
        with self.lock:
            left = int(getattr(self.manner, name))
            self.manner = replace(self.manner, **{name: max(left - 1, 0)})
        return left > 0


@contextmanager
def serving(of: Cargo, manner: Manner = WELL) -> Iterator[Mirror]:
    """A registry for the life of a `with` block."""
    mirror = Mirror(of, manner)

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            return

        def answer(self, status: int, content: bytes, kind: str = "application/json") -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            if status == 200 and kind == MANIFEST:
                self.send_header("Docker-Content-Digest", sha256(content))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        def do_GET(self) -> None:
            time.sleep(mirror.manner.seconds)
            if self.path == "/v2/":
                self.answer(200, b"{}")
            elif "/manifests/" in self.path:
                self.send_manifest()
            else:
                self.send_blob(self.path.rpartition("/")[2])

        do_HEAD = do_GET

        def send_manifest(self) -> None:
            status = mirror.manner.status
            if status and mirror.still("refusals"):
                code = {404: "MANIFEST_UNKNOWN", 429: "TOOMANYREQUESTS"}.get(status, "UNAVAILABLE")
                errors = {"errors": [{"code": code, "message": "refused"}]}
                self.answer(status, json.dumps(errors).encode())
            else:
                self.answer(200, mirror.cargo.manifest, MANIFEST)

        def send_blob(self, digest: str) -> None:
            blob = mirror.cargo.blobs.get(digest)
            if blob is None:
                self.answer(404, b"{}")
                return
            content = blob if isinstance(blob, bytes) else blob.read_bytes()
            own = digest == mirror.cargo.own_layer and self.command == "GET"
            if own and mirror.still("spoilt"):
                content = content[:-1] + bytes([content[-1] ^ 1])
            if own and mirror.still("cut"):
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content[: len(content) // 2])
                self.close_connection = True
                return
            self.answer(200, content, "application/octet-stream")

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    mirror.port = int(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield mirror
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def forget(words: str) -> None:
    """Remove the images whose names have such words."""
    with daemon() as client:
        for image in client.api.images():
            for tag in image.get("RepoTags") or ():
                if words in tag:
                    with contextlib.suppress(APIError):
                        client.api.remove_image(tag, force=True)
