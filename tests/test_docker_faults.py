"""What breaks between us and the daemon is ours; what a command does to itself is not."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import struct
import subprocess
import tarfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import docker
import pytest

from pipeline.benchmarks import dataset
from pipeline.docker import DockerSandboxes, EmbeddedImages, Images, connect
from pipeline.docker.images import BUSY
from pipeline.docker.local import LocalSandbox
from pipeline.docker.sandbox import RUN_LABEL
from pipeline.docker.streaming import END_VARIABLE, ONE_STREAM, RECEIVED, Log, Sieve, frames
from pipeline.docker.watch import Watch
from pipeline.domain import Cause, Instance, SandboxLimits
from pipeline.outcomes import InfraError, UserError
from tests import relay as relays
from tests.registry import serving
from tests.relay import Act, Relay, relaying

LIMITS = SandboxLimits(memory_gb=0.5, pids=200, scoring_seconds=60)
ID = "passone__almanac-27"


@pytest.fixture(scope="session")
def client() -> Iterator[docker.DockerClient]:
    found = connect()
    EmbeddedImages(found).ensure_base()
    yield found
    found.close()


@pytest.fixture(scope="session")
def instance(client: docker.DockerClient) -> Instance:
    found = {item.id: item for item in dataset.load("demo").instances}[ID]
    EmbeddedImages(client)(found)
    return found


@pytest.fixture
def relay(client: docker.DockerClient) -> Iterator[Relay]:
    with relaying(client) as found:
        yield found


@pytest.fixture
def sandboxes(
    client: docker.DockerClient, relay: Relay, tmp_path: Path
) -> Iterator[DockerSandboxes]:
    """Through the relay; nothing may be left once it does no harm any more."""
    through, probe = relay.client(), relay.client(timeout_seconds=4)
    key = f"test-{tmp_path.name}"
    yield DockerSandboxes(through, Images(through), key, LIMITS, _probe=probe)
    DockerSandboxes(client, Images(client), key, LIMITS).reap()
    assert left(client, key) == []
    through.close()
    probe.close()


def left(client: docker.DockerClient, key: str) -> list[str]:
    found = client.api.containers(all=True, filters={"label": f"{RUN_LABEL}={key}"})
    return [str(container["Id"]) for container in found]


@contextlib.contextmanager
def meanwhile(deed: Callable[[], object], *, after_seconds: float = 1.0) -> Iterator[None]:
    def act() -> None:
        time.sleep(after_seconds)
        deed()

    thread = threading.Thread(target=act)
    thread.start()
    yield
    thread.join()


def fault_of(
    sandboxes: DockerSandboxes, instance: Instance, script: str, *, seconds: float = 30
) -> InfraError:
    with sandboxes.open(instance) as sandbox, pytest.raises(InfraError) as caught:
        sandbox.run(["bash", "-c", script], timeout_seconds=seconds)
    return caught.value


# What is written down.


@pytest.mark.parametrize("size", range(1, 12))
def test_a_secret_is_found_wherever_the_chunks_are_cut_and_nothing_else_is_lost(size: int) -> None:
    text = b"before se secre SECRET after, and more"
    sieve, out = Sieve(b"SECRET"), b""
    for start in range(0, len(text), size):
        out += sieve.sift(text[start : start + size])
    assert out + sieve.rest() == text.replace(b"SECRET", b"")
    assert sieve.seen


def test_without_the_secret_everything_comes_through_and_no_end_is_seen() -> None:
    sieve = Sieve(b"SECRET")
    assert sieve.sift(b"SEC") + sieve.sift(b"RE") + sieve.rest() == b"SECRE"
    assert not sieve.seen


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
@pytest.mark.parametrize("lines", [0, 9, 24, 25, 26, 100, 1000])
def test_a_log_keeps_both_ends_of_what_it_is_given(lines: int, size: int, tmp_path: Path) -> None:
    text = b"".join(b"%03d\n" % number for number in range(lines))
    with Log(tmp_path / "log", 100) as log:
        for start in range(0, len(text), size):
            log.write(text[start : start + size])
    kept = (tmp_path / "log").read_bytes()
    assert log.truncated == (len(text) > 100)
    if not log.truncated:
        assert kept == text
        return
    head, words, tail = kept.split(b"\n[passone left out ")[0], *kept.split(b" bytes here")
    count = int(words.rpartition(b" ")[2])
    tail = tail.partition(b"\n")[2]
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(head) + count + len(tail) == len(text)
    assert 80 < len(head) + len(tail) <= 100
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


# Between us and the daemon.


@pytest.mark.docker
def test_a_connection_that_is_cut_while_a_command_runs_is_ours(
    sandboxes: DockerSandboxes, instance: Instance, relay: Relay
) -> None:
    relay.rules[relays.EXEC_START] = relays.cut("NOW")
    error = fault_of(sandboxes, instance, "echo before; sleep 0.2; echo NOW; sleep 30")
    assert (error.cause, error.fault.died) == (Cause.SANDBOX, False)
    assert "connection to Docker was cut" in error.detail


@pytest.mark.docker
def test_a_command_that_writes_on_is_not_over_because_docker_cannot_pass_it_on(
    sandboxes: DockerSandboxes, instance: Instance, relay: Relay
) -> None:
    # Docker learns of it first, and we when it has had time to make up its mind.
    relay.rules[relays.EXEC_START] = relays.cut("NOW", later=1)
    error = fault_of(sandboxes, instance, "echo NOW; while sleep 0.05; do echo more; done")
    assert (error.cause, error.fault.died) == (Cause.SANDBOX, False)
    assert "connection to Docker was cut" in error.detail


@pytest.mark.docker
def test_an_output_whose_end_is_lost_is_no_result(
    sandboxes: DockerSandboxes, instance: Instance, relay: Relay
) -> None:
    relay.rules[relays.EXEC_START] = relays.swallow("NOW")
    error = fault_of(sandboxes, instance, "echo before; sleep 0.2; echo NOW; exit 3", seconds=3)
    assert "the end of the command's output never came" in error.detail
    # A command can bring that about by itself, so it has to be settled.
    assert error.fault.died


@pytest.mark.docker
def test_a_command_is_not_over_for_docker_before_its_whole_output_was_heard(
    client: docker.DockerClient, sandboxes: DockerSandboxes, instance: Instance
) -> None:
    # The daemon drops what it has not passed on two seconds after a command's end.
    with sandboxes.open(instance):
        (container,) = left(client, sandboxes.run_key)
        command = [*ONE_STREAM, "sh", "-c", "echo all of it; exit 3"]
        told = {END_VARIABLE: "NONCE"}
        exec_id = client.api.exec_create(container, command, stdin=True, environment=told)["Id"]
        stream: Any = client.api.exec_start(exec_id, socket=True)
        with stream, stream._sock as raw:
            heard = frames(raw)
            printed = b""
            while not printed.endswith(b"NONCE"):
                printed += next(heard)
            time.sleep(0.5)
            assert client.api.exec_inspect(exec_id)["Running"]
            raw.sendall(RECEIVED)
            assert not list(heard)
        state = client.api.exec_inspect(exec_id)
    assert (printed, state["ExitCode"]) == (b"all of it\nNONCE", 3)


@pytest.mark.docker
def test_output_that_comes_together_with_dockers_answer_is_heard(
    sandboxes: DockerSandboxes, instance: Instance, relay: Relay
) -> None:
    relay.rules[relays.EXEC_START] = relays.in_one_piece(1)
    with sandboxes.open(instance) as sandbox:
        done = sandbox.run(["sh", "-c", "echo all of it; exit 3"], timeout_seconds=20)
    assert (done.returncode, done.output, done.timed_out) == (3, "all of it\n", False)


@pytest.mark.docker
@pytest.mark.parametrize(
    "script", ["kill -TERM $PPID; sleep 1", "kill -9 $PPID; sleep 1", "kill -SEGV $PPID $$"]
)
def test_a_command_that_kills_the_shell_around_it_died_and_is_not_ours(
    script: str, sandboxes: DockerSandboxes, instance: Instance
) -> None:
    error = fault_of(sandboxes, instance, script)
    assert (error.cause, error.fault.died) == (Cause.SANDBOX, True)


@pytest.mark.docker
def test_nothing_of_the_shell_around_a_command_is_in_its_log_or_its_sight(
    sandboxes: DockerSandboxes, instance: Instance, tmp_path: Path
) -> None:
    script = "printf start; env | grep -ci passone_end; bash -c 'kill -9 $$'; no-such-word; exit 5"
    log = tmp_path / "log"
    with sandboxes.open(instance) as sandbox:
        done = sandbox.run(["bash", "-c", script], timeout_seconds=30, output=log)
        missing = sandbox.run(["no-such-program"], timeout_seconds=30)
    said = log.read_text().splitlines()
    assert said[0] == "start0"
    assert len(said) == 3
    assert "Killed" in said[1]
    assert said[2].endswith("no-such-word: command not found")
    assert done.returncode == 5
    assert missing.returncode == 127
    assert missing.output.endswith("no-such-program: not found\n")


@pytest.mark.docker
@pytest.mark.parametrize("noise", ["sleep 600", "while :; do echo noise; done"])
def test_a_process_that_outlives_a_command_and_keeps_its_output_open_is_not_waited_for(
    noise: str, sandboxes: DockerSandboxes, instance: Instance
) -> None:
    began = time.monotonic()
    with sandboxes.open(instance) as sandbox:
        script = f"({noise}) & echo over; exit 3"
        done = sandbox.run(["bash", "-c", script], timeout_seconds=20)
    assert done.returncode == 3
    assert not done.timed_out
    assert time.monotonic() - began < 10


OVERWRITES = """\
import os, time
with open("/proc/1/syscall") as file:
    at = int(file.read().split()[-1], 16)
with open("/proc/1/mem", "r+b", buffering=0) as memory:
    memory.seek(at)
    memory.write(bytes.fromhex("bf89000000b8e70000000f05"))
with open("/proc/1/fd/2", "w") as file:
    file.write("exec /usr/bin/tail: exec format error")
open("/dev/null", "a").close()
time.sleep(10)
"""
"""It has the first process exit with 137, as one does that was killed from outside."""


@pytest.mark.docker
def test_who_writes_over_the_first_process_has_not_been_killed_from_outside(
    sandboxes: DockerSandboxes, instance: Instance
) -> None:
    with sandboxes.open(instance) as sandbox, pytest.raises(InfraError) as caught:
        sandbox.run(["python3", "-c", OVERWRITES], timeout_seconds=30)
    assert "nobody told Docker" in caught.value.fault.detail
    assert caught.value.fault.died


@pytest.mark.docker
def test_in_whatever_words_docker_speaks_of_a_container_that_ended_itself(
    sandboxes: DockerSandboxes, instance: Instance, relay: Relay
) -> None:
    """Seen on a busy machine: what was asked while it ended came back as a fault of Docker's."""
    relay.rules[relays.EXEC_INSPECT] = relays.refuse(500, "ttrpc: closed: unknown")
    with sandboxes.open(instance) as sandbox, pytest.raises(InfraError) as caught:
        sandbox.run(["python3", "-c", OVERWRITES], timeout_seconds=30)
    assert "nobody told Docker" in caught.value.fault.detail
    assert caught.value.fault.died


@pytest.mark.docker
def test_an_error_of_the_daemon_about_a_container_that_lives_is_ours(
    sandboxes: DockerSandboxes, instance: Instance, relay: Relay
) -> None:
    relay.rules[relays.EXEC_START] = relays.refuse(409)
    error = fault_of(sandboxes, instance, "true")
    assert (error.cause, error.fault.died) == (Cause.SANDBOX, False)
    assert error.detail == "Docker failed: injected"


@pytest.mark.docker
def test_a_daemon_that_hangs_at_the_exit_is_not_waited_for_long(
    sandboxes: DockerSandboxes, instance: Instance, relay: Relay
) -> None:
    relay.rules[relays.EXEC_INSPECT] = relays.hang
    began = time.monotonic()
    error = fault_of(sandboxes, instance, "true")
    assert (error.cause, error.fault.died) == (Cause.SANDBOX, False)
    assert time.monotonic() - began < 15


@pytest.mark.docker
def test_a_daemon_that_answers_late_when_the_time_is_over_was_frozen_or_the_patchs_victim(
    sandboxes: DockerSandboxes, instance: Instance, relay: Relay
) -> None:
    with sandboxes.open(instance) as sandbox:
        relay.rules[relays.INSPECT] = relays.late(3)
        with pytest.raises(InfraError) as caught:
            sandbox.run(["sleep", "30"], timeout_seconds=1)
    assert caught.value.fault.died  # gold tells
    assert "while Docker did not answer" in caught.value.detail


@pytest.mark.docker
def test_a_command_that_ended_in_time_did_so_although_the_news_is_late(
    sandboxes: DockerSandboxes, instance: Instance, relay: Relay
) -> None:
    def slowly(call: relays.Call) -> None:
        time.sleep(0.5)
        call.relay(b"NOW", drain=True)
        relays.hang(call)

    relay.rules[relays.EXEC_START] = slowly
    error = fault_of(sandboxes, instance, "sleep 0.3; echo NOW; exit 1", seconds=3)
    # Its output is not whole; but it did not run out of time.
    assert "the end of the command's output never came" in error.detail


@pytest.mark.docker
def test_a_container_that_was_paused_for_most_of_the_time_did_not_run_out_of_it(
    client: docker.DockerClient, sandboxes: DockerSandboxes, instance: Instance
) -> None:
    def pause() -> None:
        (container,) = left(client, sandboxes.run_key)
        client.api.pause(container)
        time.sleep(2.5)
        client.api.unpause(container)

    with meanwhile(pause, after_seconds=0.7):
        error = fault_of(sandboxes, instance, "sleep 30", seconds=5)
    assert (error.cause, error.fault.died) == (Cause.SANDBOX, False)
    assert "paused for" in error.detail


@pytest.mark.docker
def test_a_container_that_is_restarted_from_outside_is_ours(
    client: docker.DockerClient, sandboxes: DockerSandboxes, instance: Instance
) -> None:
    def restart() -> None:
        (container,) = left(client, sandboxes.run_key)
        client.api.restart(container, timeout=0)

    with meanwhile(restart):
        error = fault_of(sandboxes, instance, "sleep 30")
    assert (error.cause, error.fault.died) == (Cause.SANDBOX, False)
    assert "from outside" in error.detail


@pytest.mark.docker
@pytest.mark.parametrize(
    ("act", "cause"),
    [
        (relays.refuse(404, "No such image: sha256:0"), Cause.IMAGE),
        (relays.refuse(500, "write /x: no space left on device"), Cause.DISK),
        (relays.refuse(500), Cause.SANDBOX),
    ],
)
def test_a_container_that_cannot_be_made_names_its_cause(
    act: Act, cause: Cause, sandboxes: DockerSandboxes, instance: Instance, relay: Relay
) -> None:
    relay.rules[relays.CREATE] = act
    with pytest.raises(InfraError) as caught, sandboxes.open(instance):
        pytest.fail("it was made")
    assert caught.value.cause is cause


# What is left behind.


@pytest.mark.docker
def test_containers_that_cannot_be_looked_at_are_removed_all_the_same(
    client: docker.DockerClient, sandboxes: DockerSandboxes, instance: Instance, relay: Relay
) -> None:
    relay.rules[relays.INSPECT] = relays.refuse(500)
    with pytest.raises(InfraError, match="injected"), sandboxes.open(instance):
        pytest.fail("nobody can say whether it runs")
    assert left(client, sandboxes.run_key) == []
    for _ in range(2):
        labels = {RUN_LABEL: sandboxes.run_key}
        client.api.create_container(instance.image, ["true"], labels=labels)
    assert sandboxes.reap() == 2
    assert not sandboxes.left


@pytest.mark.docker
def test_what_cannot_be_removed_is_told_until_it_is_gone(
    client: docker.DockerClient, sandboxes: DockerSandboxes, instance: Instance, relay: Relay
) -> None:
    relay.rules[relays.REMOVE] = relays.refuse(500, "device busy")
    with sandboxes.open(instance):
        (container,) = left(client, sandboxes.run_key)
    assert sandboxes.reap() == 0
    assert sandboxes.left == (f"{container[:12]}: device busy",)
    relay.rules.clear()
    assert sandboxes.reap() == 1
    assert not sandboxes.left


@pytest.mark.docker
def test_an_image_that_is_made_for_a_run_does_not_pass_the_runs_label_on(
    client: docker.DockerClient, sandboxes: DockerSandboxes, instance: Instance
) -> None:
    own = replace(instance, image="passone/demo.test-labels:1")
    try:
        EmbeddedImages(client, labels={RUN_LABEL: sandboxes.run_key})(own)
        assert not client.images.get(own.image).labels.get(RUN_LABEL)
        stranger = client.api.create_container(own.image, ["true"])["Id"]
        try:
            assert sandboxes.reap() == 0
        finally:
            client.api.remove_container(stranger)
    finally:
        client.images.remove(own.image, force=True)


# Images.


@pytest.mark.parametrize(
    ("said", "busy"),
    [
        ("toomanyrequests: slow down", True),
        ("received unexpected HTTP status: 503 Service Unavailable", True),
        ("unexpected status from HEAD request to https://x/v2/: 429 Too Many Requests", True),
        ("manifest unknown", False),
        ("pull access denied for a/b, repository does not exist", False),
        ('Get "https://a.invalid/v2/": dial tcp: lookup a.invalid: no such host', False),
        ("unexpected status from HEAD request to https://x/v2/: 403 Forbidden", False),
    ],
)
def test_a_registry_that_is_busy_is_none_that_refuses(said: str, busy: bool) -> None:
    assert bool(BUSY.search(said)) is busy


@pytest.mark.docker
@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_registry_is_a_warning_where_not_one_image_is_here(
    status: int, client: docker.DockerClient
) -> None:
    ghost = Instance(id="a__b-1", stratum="a/b", prompt="", image="passone-test/ghost:1")
    with serving() as registry:
        registry.refusals += [status] * 10
        images = Images(client, [registry.prefix])
        sandboxes = DockerSandboxes(client, images, "test-busy", LIMITS)
        (warning,) = sandboxes.preflight([ghost])
    assert "1 of 1 images are not here, and a registry was too busy" in warning
    nobody = DockerSandboxes(client, Images(client, ["127.0.0.1:9"]), "test-busy", LIMITS)
    with pytest.raises(UserError, match="none can be pulled"):
        nobody.preflight([ghost])


def archive(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o755
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


@pytest.fixture
def for_arm(client: docker.DockerClient) -> Iterator[str]:
    """An image with one program, of which a kernel reads no more than its header."""
    ident = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)
    program = ident + struct.pack("<HHIQQQIHHHHHH", 2, 0xB7, 1, 0, 64, 0, 0, 64, 56, 1, 64, 0, 0)
    name = "passone-test/foreign:1"
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    layer = archive({"usr/bin/tail": program, "etc/passwd": b"root:x:0:0::/:/bin/sh\n"})
    rootfs = {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]}
    config = {"architecture": "arm64", "os": "linux", "config": {}, "rootfs": rootfs}
    client.images.load(
        archive(
            {
                "layer.tar": layer,
                "config.json": json.dumps(config).encode(),
                "manifest.json": json.dumps(manifest).encode(),
            }
        )
    )
    yield name
    client.images.remove(name, force=True)


@pytest.mark.docker
def test_an_image_for_another_machine_is_told_as_that(
    client: docker.DockerClient, for_arm: str
) -> None:
    foreign = Instance(id="a__b-1", stratum="a/b", prompt="", image=for_arm)
    sandboxes = DockerSandboxes(client, Images(client), "test-foreign", LIMITS)
    with pytest.raises(InfraError) as caught, sandboxes.open(foreign) as sandbox:
        sandbox.put(b"", "/tmp/patch")
    assert (caught.value.cause, caught.value.fault.died) == (Cause.IMAGE, False)
    assert "arm64" in caught.value.detail
    assert "exec format error" in caught.value.detail
    assert left(client, "test-foreign") == []


# Under an agent.


def until(told: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not told() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert told()


@pytest.mark.docker
def test_a_daemon_that_goes_away_under_an_agent_is_told(relay: Relay) -> None:
    with contextlib.closing(relay.client()) as through, Watch(through, "passone.none") as watch:
        assert watch.casualty(time.time()) is None
        before = time.time()
        relay.die()
        until(lambda: watch.casualty(time.time()) is not None)
        fault = watch.casualty(time.time())
        assert fault is not None
        assert (fault.cause, fault.died) == (Cause.SANDBOX, False)
        assert "the Docker daemon went away" in fault.detail
        # What the agent had done by then was done.
        assert watch.casualty(before) is None


@pytest.mark.docker
def test_a_stream_that_ends_while_the_daemon_lives_is_taken_up_again(
    client: docker.DockerClient, instance: Instance, relay: Relay
) -> None:
    labels = {RUN_LABEL: "test-watch"}
    container = client.api.create_container(instance.image, ["sleep", "60"], labels=labels)["Id"]
    try:
        client.api.start(container)
        label = f"{RUN_LABEL}=test-watch"
        with contextlib.closing(relay.client()) as through, Watch(through, label) as watch:
            time.sleep(1.2)
            before = len(relay.open)
            relay.cut_all()
            until(lambda: len(relay.open) > before)

            def seen() -> bool:
                client.api.pause(container)
                client.api.unpause(container)
                return bool(watch.deaths)

            # Whatever happens before it listens again goes unseen.
            until(seen)
            assert watch.lost_at is None
    finally:
        client.api.remove_container(container, force=True)


# Without Docker.


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a disk of its own")
@pytest.mark.parametrize("script", ["true", "cat /dev/zero > filler; true"])
def test_a_full_disk_is_ours_in_a_local_sandbox(script: str, tmp_path: Path) -> None:
    root = tmp_path / "disk"
    root.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(root)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no disk can be mounted here")
    try:
        (root / "testbed").mkdir()
        sandbox = LocalSandbox(root, "local:0", threading.Event())
        done = sandbox.run(["bash", "-c", "true"], timeout_seconds=20, output=tmp_path / "log")
        assert done.returncode == 0
        if script == "true":
            with contextlib.suppress(OSError), (root / "filler").open("wb", buffering=0) as file:
                while file.write(bytes(4096)):
                    continue
        with pytest.raises(InfraError, match="is full; free some") as caught:
            sandbox.run(["bash", "-c", script], timeout_seconds=20, output=tmp_path / "log")
        # It was too small whatever the command does.
        assert (caught.value.cause, caught.value.fault.died) == (Cause.DISK, False)
    finally:
        subprocess.run(["umount", "-l", str(root)], check=True)
