"""Start a process that leaves nothing behind."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

from trireme.components.training.local import supervisor


def supervised(
    command: list[str], grace: float, environment: dict[str, str], directory: str | Path = "."
) -> subprocess.Popen[bytes]:
    """Starts a command under a supervisor, whose end, output and exit status are the command's."""
    return subprocess.Popen(
        [sys.executable, "-S", "-I", supervisor.__file__, str(grace), *command],
        env=environment,
        cwd=directory,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def kill_leftovers(supervisor_pid: int) -> None:
    """Kills what a supervisor that was itself killed has left, which is its session."""
    for pid in _seconds(supervisor_pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def cpu_seconds(supervisor_pid: int) -> float | None:
    """Returns the processor time of what runs under a supervisor; ``None`` where nothing does."""
    used = _seconds(supervisor_pid)
    used.pop(supervisor_pid, None)
    return sum(used.values()) if used else None


def _seconds(session: int) -> dict[int, float]:
    """Returns the processor seconds of each process of a session, by process id."""
    # https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
    tick = os.sysconf("SC_CLK_TCK")
    used = {}
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            fields = (directory / "stat").read_bytes().rpartition(b") ")[2].split()
        except OSError:
            continue  # it has ended meanwhile
        if int(fields[3]) == session:
            used[int(directory.name)] = (int(fields[11]) + int(fields[12])) / tick
    return used
