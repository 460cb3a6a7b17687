"""Terminal tasks in real containers: a run of one's own, with agents that are one script."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Event

import docker
import pytest

from pipeline.benchmarks.terminal.scorer import TerminalScorer
from pipeline.benchmarks.terminal.taskset import load
from pipeline.cli.place import Place
from pipeline.cli.terminal import make_machines
from pipeline.docker import DockerMachines, EmbeddedImages, connect
from pipeline.docker.embedded import TERMINAL_BASE
from pipeline.docker.sandbox import RUN_LABEL
from pipeline.domain import Attempt, Instance, SandboxLimits, Snapshot, Submission, Verdict
from pipeline.outcomes import UserError
from pipeline.rundir import RunDir
from pipeline.sites import MachineSite
from tests.terminal import current, older

LIMITS = SandboxLimits(memory_gb=0.5, disk_gb=2, pids=200)
DOCKERFILE = f"FROM {TERMINAL_BASE}:1\nWORKDIR /work\n"
TEST = '#!/bin/bash\n[ "$(cat /work/done)" = yes ]; echo $((1 - $?)) > /logs/verifier/reward.txt\n'
SOLUTION = "#!/bin/bash\necho yes > /work/done\n"


@pytest.fixture(scope="session")
def base() -> str:
    client = connect()
    try:
        EmbeddedImages(client, base=TERMINAL_BASE).ensure_base()
    except UserError as error:
        pytest.skip(str(error))
    finally:
        client.close()
    return TERMINAL_BASE


class Workshop:
    """Machines of one run, over the tasks of a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.run = RunDir(root / "run")
        self.run.root.mkdir()
        self.built: set[str] = set()
        machines = make_machines(
            Place(
                kind="auto",
                benchmark="terminal",
                limits=LIMITS,
                mirrors=(),
                run=self.run,
                cancelled=Event(),
                say=print,
            ),
            (),
        )
        assert isinstance(machines, DockerMachines)
        self.machines = machines
        self.scorer = TerminalScorer(machines, LIMITS)

    @property
    def client(self) -> docker.DockerClient:
        return self.machines.plain.client

    def task(
        self,
        name: str,
        test: str = TEST,
        toml: str = "",
        dockerfile: str = DOCKERFILE,
        solution: str | None = SOLUTION,
        more: Mapping[str, str] = {},
    ) -> Instance:
        files = {
            "environment/Dockerfile": dockerfile,
            "tests/test.sh": test,
            "solution/solve.sh": solution,
            **more,
        }
        current(self.root / "tasks" / name, toml, files)
        return self.drawn(name)

    def older(self, name: str, files: Mapping[str, str | bytes | None]) -> Instance:
        older(self.root / "tasks" / name, files=files)
        return self.drawn(name)

    def drawn(self, name: str) -> Instance:
        release = load(str(self.root / "tasks"))
        instance = next(release.whole(one) for one in release.instances if one.id == name)
        self.built.add(instance.image)
        return instance

    def score(self, instance: Instance, submission: Submission | None) -> Verdict:
        workdir = self.run.partial("score", instance.id)
        return self.scorer.score(Attempt(instance.id, 1), instance, submission, workdir)

    def left_by(self, instance: Instance, script: str, place: Path | None = None) -> Snapshot:
        """What an agent hands in that runs one script."""
        with self.machines.site(instance, Attempt(instance.id, 1)) as site:
            assert isinstance(site, MachineSite)
            container = self.client.containers.get(site.container)
            container.exec_run(["sh", "-c", script], workdir=site.workdir)
            return site.hand_in(place or self.run.partial("left", instance.id))


@pytest.fixture
def workshop(base: str, tmp_path: Path) -> Iterator[Workshop]:
    shop = Workshop(tmp_path)
    try:
        yield shop
    finally:
        shop.machines.reap()
        shop.machines.discard(shop.machines.snapshots)
        for image in shop.built:
            with contextlib.suppress(docker.errors.APIError):
                shop.client.images.remove(image, force=True)
        label = f"{RUN_LABEL}={shop.run.key}"
        assert shop.client.api.containers(all=True, filters={"label": label}) == []
        assert shop.client.api.images(filters={"label": label}) == []
        shop.client.close()
