"""Work without Docker: a confined tree on this machine, for the embedded benchmark only.

With bubblewrap the tree stands at /testbed and nothing else can be written; without
it, commands run in the tree itself and `/testbed` in scripts is rewritten.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from threading import Event

import pipeline
from pipeline.domain import Attempt, Cause, Fault, Instance
from pipeline.outcomes import InfraError, UserError
from pipeline.process import Completed, run
from pipeline.sites import LocalSite, Site

WORKDIR = "/testbed"
ENOUGH_BYTES = 1 << 30
"""Free before a command: what then takes it all may be the command."""
HIDDEN = {"proc", "dev", "tmp", "testbed", "sys", "run", "var"}
"""Below /var Docker mounts and unmounts its containers; a mount that goes while it is shown ends
bubblewrap, before the command has begun.
"""
EMPTY = ("/tmp", "/run", "/var")


def environment() -> dict[str, str]:
    """What a command in the tree sees: this Python first, nothing of the user's settings."""
    programs = Path(sys.executable).parent
    return {
        "PATH": f"{programs}:{os.environ.get('PATH', os.defpath)}",
        "HOME": "/tmp",
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
    }


@cache
def bubblewrap() -> str | None:
    """The program, if it is installed and this kernel lets it work."""
    program = shutil.which("bwrap")
    if program is None:
        return None
    trial = [program, "--unshare-pid", *machine(), "--proc", "/proc", "true"]
    done = subprocess.run(trial, capture_output=True, check=False, timeout=20)
    return program if done.returncode == 0 else None


def machine() -> list[str]:
    """Arguments that show what is at the top of this machine, read-only."""
    argv = ["--tmpfs", "/"]
    for entry in sorted(Path("/").iterdir()):
        if entry.name in HIDDEN:
            continue
        if entry.is_symlink():
            argv += ["--symlink", str(entry.readlink()), str(entry)]
        elif entry.is_dir():
            argv += ["--ro-bind-try", str(entry), str(entry)]
    return argv


def wrapper(
    tree: Path,
    writable: Sequence[Path] = (),
    files: dict[str, Path] | None = None,
    *,
    offline: bool = False,
) -> list[str]:
    """A bubblewrap command line that shows the machine read-only and the tree at /testbed."""
    program = bubblewrap()
    if program is None:
        return []
    argv = [program, "--die-with-parent", "--unshare-pid", *machine()]
    argv += ["--unshare-net"] if offline else []
    argv += [
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        *(word for at in EMPTY for word in ("--tmpfs", at)),
    ]
    # A virtual environment or checkout in one of these places must stay visible.
    package = Path(pipeline.__file__).parent.parent
    for needed in dict.fromkeys((Path(sys.prefix), Path(sys.base_prefix), package)):
        if any(needed.is_relative_to(place) for place in EMPTY):
            argv += ["--ro-bind", str(needed), str(needed)]
    for path in writable:
        argv += ["--bind", str(path), str(path)]
    argv += ["--bind", str(tree), WORKDIR]
    for target, source in (files or {}).items():
        argv += ["--ro-bind", str(source), target]
    return [*argv, "--chdir", WORKDIR, "--"]


@dataclass(slots=True)
class LocalSandbox:
    """One tree for one scoring."""

    root: Path
    digest: str
    cancelled: Event
    offline: bool = False
    files: dict[str, Path] = field(default_factory=dict)

    @property
    def tree(self) -> Path:
        return self.root / "testbed"

    alive: Sequence[str] = ()
    """Nothing is: `pipeline.process.run` ends whatever a command has started."""

    def get(self, source: str) -> bytes | None:
        """See `pipeline.contracts.Sandbox`."""
        path = self.root / source.lstrip("/")
        real = path.is_file() and path.resolve() == self.root.resolve() / source.lstrip("/")
        return path.read_bytes() if real else None

    def put(self, content: bytes, target: str) -> None:
        if target.startswith(f"{WORKDIR}/") and self.get(target) is not None:
            (self.root / target.lstrip("/")).write_bytes(content)
            return
        path = self.root / f"file-{len(self.files)}"
        if bubblewrap() is None and target.endswith(".sh"):
            content = content.replace(WORKDIR.encode(), str(self.tree).encode())
        path.write_bytes(content)
        self.files[target] = path

    def run(
        self, command: Sequence[str], *, timeout_seconds: float, output: Path | None = None
    ) -> Completed:
        """See `pipeline.contracts.Sandbox`.

        Raises:
            InfraError: the shell was killed, or the disk is full (`died` is set where the
                command may have done that), or it is missing.
        """
        log = output or self.root / "output"
        free = shutil.disk_usage(self.root).free
        wrapped = wrapper(self.tree, files=self.files, offline=self.offline)
        if not wrapped:
            command = [
                part if part not in self.files else str(self.files[part]) for part in command
            ]
        try:
            done = run(
                [*wrapped, *command],
                output=log,
                timeout_seconds=timeout_seconds,
                cwd=self.tree,
                env=environment(),
                cancelled=self.cancelled,
            )
        except OSError as error:
            raise InfraError(Cause.SANDBOX, f"{command[0]}: {error}") from error
        self._refuse_full(log, free)
        if done.returncode is not None and done.returncode < 0:
            detail = f"the tests were killed by signal {-done.returncode}"
            raise InfraError(Cause.SANDBOX, detail, died=True)
        return done

    def _refuse_full(self, log: Path, free: int) -> None:
        """Raises InfraError: where files cannot be written, a test's failure says nothing."""
        for place in (self.root, log.parent):
            disk = os.statvfs(place)
            # Root may use what is kept back for it.
            if disk.f_blocks and not (disk.f_bavail if os.geteuid() else disk.f_bfree):
                grown = log.stat().st_size + sum(
                    path.lstat().st_blocks * 512 for path in self.root.rglob("*")
                )
                # It had room, and took most of that itself: then gold has to say.
                died = free > ENOUGH_BYTES and grown > free // 2
                text = f"the disk of {place} is full; free some of it and run again"
                raise InfraError(Cause.DISK, text, died=died)


@dataclass(slots=True)
class LocalSandboxes:
    """Trees for one run, in a scratch directory that goes with it."""

    scratch: Path
    plant: Callable[[Instance, Path], None]
    cancelled: Event = field(default_factory=Event)
    name: str = "local"
    left: Sequence[str] = ()
    """See `pipeline.contracts.Sandboxes`: trees go with their scratch directory."""

    def preflight(self, instances: Sequence[Instance]) -> Sequence[str]:
        """Raises UserError: git is missing, or an instance needs a real image."""
        if shutil.which("git") is None:
            raise UserError("git is not installed; the local sandbox needs it")
        foreign = [item.id for item in instances if not item.image.startswith("passone/demo.")]
        if foreign:
            raise UserError(
                f"the local sandbox runs the embedded benchmark only, not {foreign[0]}; "
                "start Docker for real instances"
            )
        how = "confined by bubblewrap" if bubblewrap() else "not confined: bubblewrap is missing"
        return [f"local sandbox ({how}), for the embedded benchmark only"]

    @contextlib.contextmanager
    def _planted(self, instance: Instance) -> Iterator[Path]:
        self.scratch.mkdir(parents=True, exist_ok=True)
        root = Path(tempfile.mkdtemp(dir=self.scratch, prefix="tree-"))
        try:
            self.plant(instance, root / "testbed")
            yield root
        finally:
            shutil.rmtree(root, ignore_errors=True)

    def digest(self, instance: Instance) -> str:
        return f"local:{instance.row['base_commit']}"

    @contextlib.contextmanager
    def open(self, instance: Instance, *, offline: bool = False) -> Iterator[LocalSandbox]:
        with self._planted(instance) as root:
            yield LocalSandbox(root, self.digest(instance), self.cancelled, offline)

    @contextlib.contextmanager
    def site(self, instance: Instance, attempt: Attempt) -> Iterator[Site]:
        with self._planted(instance) as root:
            tree = root / "testbed"
            # The agent program writes its trajectory into the run's scratch directory.
            wrapped = wrapper(tree, writable=[self.scratch])
            directory = WORKDIR if wrapped else str(tree)
            yield LocalSite(tree=tree, directory=directory, wrapper=tuple(wrapped))

    def casualty(self, site: Site, *, until: float) -> Fault | None:
        return None

    @property
    def snapshots(self) -> Collection[str]:
        """None: what agents leave here is a patch."""
        return ()

    def discard(self, names: Collection[str]) -> None:
        return

    def reap(self) -> int:
        # The trees only: what the tries wrote beside them is not ours.
        for tree in self.scratch.glob("tree-*"):
            shutil.rmtree(tree, ignore_errors=True)
        return 0
