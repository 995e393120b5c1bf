"""Start a process that leaves nothing behind."""

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

from trireme.runner.local import supervisor

PIPE = 1 << 20  # bytes that a program may be ahead of who reads them; more need privileges
KILLING = 10.0  # seconds for processes to end that are killed; one that waits for a disk does not


def supervised(
    command: list[str],
    grace: float,
    environment: Mapping[str, str],
    directory: str | Path = ".",
    lock: int | None = None,
    inside: Callable[[list[str]], list[str]] = list,
) -> subprocess.Popen[bytes]:
    """Starts a command under a supervisor, whose end, output and exit status are the command's.

    Args:
        environment: The command's alone: a library that it preloads, or looks for elsewhere, is
            none for the supervisor.
        lock: The descriptor of a lock that the supervisor is to have, and not the command.
        inside: Makes of the supervisor's command one that runs it on another host.
    """
    with os.fdopen(os.memfd_create("environment"), "w+b") as file:
        file.write(b"\0".join(os.fsencode(f"{name}={environment[name]}") for name in environment))
        file.seek(0)
        arguments = [str(grace), str(file.fileno()), *command]
        process = subprocess.Popen(
            inside([sys.executable, "-S", "-I", supervisor.__file__, *arguments]),
            cwd=directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=[fd for fd in (file.fileno(), lock) if fd is not None],
            start_new_session=True,
        )
    assert process.stdout
    widen(process.stdout)
    return process


def widen(stream: IO[bytes]) -> None:
    """Lets a program be further ahead of who reads its pipe."""
    with contextlib.suppress(OSError):  # this user's pipes have as much as they may
        fcntl.fcntl(stream, fcntl.F_SETPIPE_SZ, PIPE)


def kill_leftovers(supervisor_pid: int) -> None:
    """Kills what a supervisor that was itself killed has left."""
    limit = time.monotonic() + KILLING
    while (left := _leftovers(supervisor_pid)) and time.monotonic() < limit:
        for pid in left:
            with contextlib.suppress(OSError):  # it has ended, or is another user's
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)


def _leftovers(supervisor_pid: int) -> list[int]:
    """Returns the ids of its session, and of what says that it was started under it."""
    # A launcher may start each of its workers in a session of its own.
    mark = f"{supervisor.MARK}={supervisor_pid}".encode()
    pids = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            # https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
            fields = (directory / "stat").read_bytes().rpartition(b") ")[2].split()
            is_left = int(fields[3]) == supervisor_pid or mark in (
                (directory / "environ").read_bytes().split(b"\0")
            )
        except OSError:
            continue  # it has ended meanwhile, or is somebody else's
        if is_left and fields[0] != b"Z":
            pids.append(int(directory.name))
    return pids
