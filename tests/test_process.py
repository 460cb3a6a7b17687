"""A child, and all that it started, ends when we say so."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Event, Timer

import pytest

from pipeline.process import TAIL_CHARACTERS, end_orphans, kill_group, run, tail

ROOT = Path(__file__).parent.parent


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "agent.log"


def alive(pid: int) -> bool:
    """Whether a process runs; one that is dead and not yet collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def gone(pid: int, *, within_seconds: float = 5.0) -> bool:
    deadline = time.monotonic() + within_seconds
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not alive(pid)


def pid_in(path: Path, *, within_seconds: float = 5.0) -> int:
    """The pid that a child writes down once it runs."""
    deadline = time.monotonic() + within_seconds
    while time.monotonic() < deadline:
        if path.exists() and path.read_text().endswith("\n"):
            return int(path.read_text())
        time.sleep(0.01)
    raise AssertionError(f"nothing was written to {path}")


def test_a_command_is_a_list_that_no_shell_reads(log: Path) -> None:
    done = run(["echo", "$HOME; exit 7"], output=log, timeout_seconds=20)
    assert (done.returncode, done.output, done.timed_out) == (0, "$HOME; exit 7\n", False)
    assert log.read_text() == done.output


def test_exit_status_and_both_streams_are_kept(log: Path) -> None:
    done = run(["sh", "-c", "echo out; echo err >&2; exit 3"], output=log, timeout_seconds=20)
    assert done.returncode == 3
    assert sorted(done.output.split()) == ["err", "out"]


def test_output_is_added_to_what_is_there(log: Path) -> None:
    for word in ("one", "two"):
        run(["echo", word], output=log, timeout_seconds=20)
    assert log.read_text() == "one\ntwo\n"


def test_a_child_sees_only_the_environment_that_it_is_given(log: Path, tmp_path: Path) -> None:
    done = run(["/usr/bin/env"], output=log, timeout_seconds=20, env={"ONLY": "this"}, cwd=tmp_path)
    ours = f"PASSONE_SCRATCH={log}"
    assert set(done.output.split()) <= {"ONLY=this", f"PWD={tmp_path}", ours}
    assert "ONLY=this" in done.output


def test_a_child_reads_nothing_from_our_terminal(log: Path) -> None:
    assert run(["cat"], output=log, timeout_seconds=20).returncode == 0


def test_a_program_that_is_not_there_is_an_error_or_a_status(log: Path) -> None:
    try:
        done = run(["/no/such/program"], output=log, timeout_seconds=20)
    except OSError:
        return
    # Through `setpriv`, which starts and then fails.
    assert done.returncode not in (0, None)
    assert "/no/such/program" in done.output


def test_output_that_is_not_utf8_is_decoded_with_replacement(log: Path) -> None:
    done = run(["printf", r"caf\351\n"], output=log, timeout_seconds=20)
    assert done.output == "caf\ufffd\n"
    assert log.read_bytes() == b"caf\xe9\n"


def test_only_the_end_of_a_long_log_is_held_in_memory(log: Path) -> None:
    log.write_bytes(b"x" * 10 * TAIL_CHARACTERS + "ü the end".encode())
    assert len(tail(log)) == TAIL_CHARACTERS
    assert tail(log).endswith("ü the end")
    assert tail(log, 3) == "end"
    assert tail(log.with_name("none")) == ""


def test_a_time_limit_ends_the_child_and_its_children(log: Path, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    script = f"sleep 60 & echo $! > {pid_file}; wait"
    done = run(["sh", "-c", script], output=log, timeout_seconds=0.3)
    assert (done.returncode, done.timed_out) == (None, True)
    assert done.seconds < 10
    assert gone(pid_in(pid_file))


def test_a_cancellation_ends_the_child_and_is_no_time_limit(log: Path) -> None:
    cancelled = Event()
    timer = Timer(0.1, cancelled.set)
    timer.start()
    done = run(["sleep", "60"], output=log, timeout_seconds=60, cancelled=cancelled)
    timer.join()
    assert (done.returncode, done.timed_out) == (None, False)
    assert done.seconds < 10


def test_what_a_finished_child_left_behind_goes_too(log: Path, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    script = f"sleep 60 & echo $! > {pid_file}"
    assert run(["sh", "-c", script], output=log, timeout_seconds=20).returncode == 0
    assert gone(pid_in(pid_file))


def test_a_child_that_ignores_a_polite_request_is_killed(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    script = f"trap '' TERM; echo $$ > {pid_file}; while :; do sleep 0.05; done"
    with subprocess.Popen(["sh", "-c", script], start_new_session=True) as process:
        pid_in(pid_file)
        kill_group(process, grace_seconds=0.1)
    assert process.returncode == -signal.SIGKILL


def test_ending_what_has_ended_is_no_error() -> None:
    with subprocess.Popen(["true"], start_new_session=True) as process:
        process.wait()
        kill_group(process)
    assert process.returncode == 0


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv (util-linux) is not installed")
def test_a_child_dies_with_us_even_when_we_are_killed(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    script = (
        "from pathlib import Path\n"
        "from pipeline.process import run\n"
        f"run(['sh', '-c', 'echo $$ > {pid_file}; exec sleep 60'],"
        f" output=Path({str(tmp_path / 'log')!r}), timeout_seconds=60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], cwd=ROOT) as parent:
        child = pid_in(pid_file)
        os.kill(parent.pid, signal.SIGKILL)
    assert gone(child)


LINUX = pytest.mark.skipif(
    not Path("/proc/self/environ").exists(), reason="no /proc: this is not Linux"
)


@LINUX
def test_what_a_command_left_in_a_session_of_its_own_ends_with_it(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    stray = f"trap '' TERM HUP; echo $$ > {pid_file}; while :; do sleep 0.05; done"
    script = f"setsid sh -c {shlex.quote(stray)} & until [ -s {pid_file} ]; do sleep 0.02; done"
    done = run(["sh", "-c", script], output=tmp_path / "log", timeout_seconds=20)
    assert done.returncode == 0
    assert gone(pid_in(pid_file))


@LINUX
def test_a_variable_that_was_forgotten_is_not_in_proc_either() -> None:
    script = (
        "import os\n"
        "from pathlib import Path\n"
        "from pipeline.process import forget\n"
        "def shown(): return b'sk-planted' in Path('/proc/self/environ').read_bytes()\n"
        "before = shown()\n"
        "forget('OPENAI_API_KEY')\n"
        "print(before, shown(), os.environ.get('OPENAI_API_KEY'), os.environ['OTHER'])\n"
    )
    said = subprocess.check_output(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={**os.environ, "OPENAI_API_KEY": "sk-planted", "OTHER": "stays"},
        text=True,
    )
    assert said.split() == ["True", "False", "None", "stays"]


@LINUX
def test_what_a_killed_process_could_not_end_is_ended_by_the_next(tmp_path: Path) -> None:
    scratch, elsewhere = tmp_path / "run" / ".partial", tmp_path / "other" / ".partial"
    for place in (scratch, elsewhere):
        (place / "try").mkdir(parents=True)
    # A grandchild in a session of its own: no signal to a group reaches it.
    script = (
        "setsid sleep 60 >/dev/null 2>&1 & child=$!; "
        # Until it leads its own session, the end of its parent's group would end it too.
        'until [ "$(cut -d" " -f6 /proc/$child/stat)" = "$child" ]; do sleep 0.02; done; '
        "echo $child"
    )
    pids = []
    for place in (scratch, elsewhere):
        marked = {**os.environ, "PASSONE_SCRATCH": str(place / "try" / "log")}
        pids.append(int(subprocess.check_output(["sh", "-c", script], env=marked)))
    try:
        assert end_orphans(scratch) == 1
        for _ in range(100):
            if not Path(f"/proc/{pids[0]}").exists():
                break
            time.sleep(0.05)
        assert not Path(f"/proc/{pids[0]}/exe").exists()
        assert Path(f"/proc/{pids[1]}/exe").exists()
    finally:
        assert end_orphans(elsewhere) == 1
