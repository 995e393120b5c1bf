"""Where the Python processes of a replica stand."""

import shutil
import subprocess
import sys
import time
from pathlib import Path

from trireme.components.training.local.usage import tree

MOST = 16  # processes of a replica that are looked at
ANSWER_LIMIT = 10.0  # seconds for each


def stacks(supervisor_pid: int, until: float) -> list[str]:
    """Returns the stacks of the Python processes under a supervisor, in lines to be shown.

    Args:
        until: The point of time, of the monotonic clock, by when they have to be known.
    """
    command = spy()
    if not command:
        return ["(py-spy, which tells where a program stands, is not installed)"]
    lines: list[str] = []
    for pid in [pid for pid in tree(supervisor_pid) if is_python(pid)][:MOST]:
        lines += _stack(command, pid, min(ANSWER_LIMIT, until - time.monotonic()))
    return lines


def spy() -> str | None:
    """Returns the command py-spy; ``None`` where it is not installed."""
    # https://github.com/benfred/py-spy
    beside = Path(sys.executable).with_name("py-spy")
    return str(beside) if beside.exists() else shutil.which("py-spy")


def is_python(pid: int) -> bool:
    """Tells whether a process runs Python."""
    try:
        return Path(f"/proc/{pid}/exe").readlink().name.startswith("python")
    except OSError:  # it has ended
        return False


def _stack(command: str, pid: int, limit: float) -> list[str]:
    if limit <= 0:
        return [f"(process {pid}: there is no time left to ask py-spy)"]
    try:
        done = subprocess.run(
            [command, "dump", "--nonblocking", "--pid", str(pid)],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit,
        )
    except subprocess.TimeoutExpired:
        return [f"(process {pid}: py-spy does not answer)"]
    except OSError as error:
        return [f"(process {pid}: py-spy cannot be run: {error.strerror})"]
    if done.returncode:
        return [f"(process {pid}: {reason(done.stderr)})"]
    return [line for line in done.stdout.splitlines() if line.strip()]


def reason(stderr: str) -> str:
    """Says why py-spy has failed, by what it has printed."""
    said = (stderr.strip().splitlines() or ["no reason given"])[0]
    # https://www.kernel.org/doc/html/latest/admin-guide/LSM/Yama.html
    hint = "; as another user than root it needs kernel.yama.ptrace_scope=0"
    return f"py-spy: {said}{hint if 'ermission' in said else ''}"
