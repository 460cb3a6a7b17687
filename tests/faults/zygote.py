"""A process that has a program's imports behind it, and forks one that runs it for each order.

    python -m tests.faults.zygote FD MODULE[,MODULE…] ROOM

What it forks is a process of its own: pid, session, group, directory, environment, stdio,
exit status, and the command that others see of it are those of the program's own start.
Two things are not: what is read from the environment at import was read in the zygote's,
and /proc/PID/environ shows the zygote's. `tests.faults.forks` knows who cannot have that.

Nothing but the standard library is imported here: what a program has is its own.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import pkgutil
import runpy
import signal
import socket
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

LARGEST_ORDER = 1 << 17
PR_SET_PDEATHSIG = 1
AGAIN = "jemalloc_bg_thd"
"""A thread of pyarrow's allocator, which sees to it that a fork has its own."""
Order: TypeAlias = Mapping[str, Any]
"""`argv` as one would start it, `cwd`, and the whole `env`."""


def serve(control: socket.socket) -> Order:
    """Fork for each order until nobody is left to give one; returns in what was forked.

    With an order come its stdin, stdout and stderr, and a socket that is told the pid and
    then the exit status, each on a line.
    """
    # Nobody waits for those who wait: the kernel is told to reap them.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    zygote = os.getpid()
    while True:
        text, fds, _, _ = socket.recv_fds(control, LARGEST_ORDER, 4)
        if not text:
            sys.exit()
        if os.fork() == 0:
            control.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            tether(zygote)
            return begin(json.loads(text), fds)
        for fd in fds:
            os.close(fd)


def begin(order: Order, fds: Sequence[int]) -> Order:
    """Fork the program and report on it; returns in the program."""
    *stdio, last = fds
    report = socket.socket(fileno=last)
    waiting = os.getpid()
    pid = os.fork()
    if pid == 0:
        report.close()
        tether(waiting)
        become(order, stdio)
        return order
    for fd in stdio:
        os.close(fd)
    report.sendall(f"{pid}\n".encode())
    _, status = os.waitpid(pid, 0)
    report.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def tether(parent: int) -> None:
    """Die with the one that forked us, as `pipeline.process.tethered` has it."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def become(order: Order, stdio: Sequence[int]) -> None:
    """All that the kernel and the interpreter would have set up at a start of its own."""
    os.setsid()
    for number, fd in enumerate(stdio):
        os.dup2(fd, number)
        os.close(fd)
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["env"])
    tempfile.tempdir = None
    show(order["argv"])


def show(argv: Sequence[str]) -> None:
    """Let /proc say this command: cases look for processes by it."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    # Of the fields that proc(5) counts from 1, the first two are not among these.
    start, end = int(fields[48 - 3]), int(fields[49 - 3])
    text = b"\0".join(os.fsencode(word) for word in argv)
    if len(text) >= end - start:
        raise ValueError(f"a command of {len(text)} bytes: there is room for {end - start}")
    ctypes.memset(start, 0, end - start)
    ctypes.memmove(start, text, len(text))


def run(argv: Sequence[str]) -> None:
    """What Python does with `python -c CODE …` or `python -m MODULE …`."""
    _, how, what, *arguments = argv
    sys.orig_argv[:] = argv
    if how == "-c":
        sys.argv[:], sys.path[0] = ["-c", *arguments], ""
        exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv[:], sys.path[0] = [what, *arguments], str(Path.cwd())
        # Its imports are done; it is run itself, and nobody has imported it before.
        sys.modules.pop(what, None)
        runpy.run_module(what, run_name="__main__", alter_sys=True)


def load(name: str) -> None:
    """Import a module; `package.*` is the package and whatever is in it."""
    package, all_of_it, _ = name.partition(".*")
    module = importlib.import_module(package)
    for found in pkgutil.walk_packages(module.__path__, f"{package}.") if all_of_it else ():
        importlib.import_module(found.name)


def strangers() -> list[str]:
    """Threads beside this one that a fork would not have."""
    own = str(os.getpid())
    tasks = [path for path in Path("/proc/self/task").iterdir() if path.name != own]
    return [name for path in tasks if (name := (path / "comm").read_text().strip()) != AGAIN]


def main() -> None:
    """What is run at the end ends as it does by itself: its own exit, its own last words."""
    control = socket.socket(fileno=int(sys.argv[1]))
    for name in sys.argv[2].split(","):
        load(name)
    if strangers():
        raise RuntimeError(f"threads do not outlive a fork: {', '.join(strangers())}")
    # What is here stays; a collection in the child would only copy its pages.
    gc.collect()
    gc.freeze()
    run(serve(control)["argv"])


if __name__ == "__main__":
    main()
