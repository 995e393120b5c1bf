"""Stacks of the Python processes of a replica."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from trireme.runner.local.usage import tree

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


def why_not() -> str:
    """Says why py-spy cannot tell where the processes of this user stand; empty where it can."""
    command = spy()
    if not command:
        return "py-spy, which tells what a program does, is not installed: pip install py-spy"
    return dump(command, os.getpid(), ANSWER_LIMIT)[1]


def dump(command: str, pid: int, limit: float, *options: str) -> tuple[str, str]:
    """Returns what py-spy tells of a process in so many seconds, or else why it does not."""
    words = [command, "dump", "--nonblocking", *options, "--pid", str(pid)]
    try:
        done = subprocess.run(words, capture_output=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return "", "py-spy does not answer"
    except OSError as error:
        return "", f"py-spy cannot be run: {error.strerror}"
    if done.returncode:
        return "", _reason(done.stderr.decode(errors="replace"))
    return done.stdout.decode(errors="replace"), ""


def is_python(pid: int) -> bool:
    """Tells whether a process runs Python."""
    try:
        return Path(f"/proc/{pid}/exe").readlink().name.startswith("python")
    except OSError:  # it has ended
        return False


def _stack(command: str, pid: int, limit: float) -> list[str]:
    if limit <= 0:
        return [f"(process {pid}: there is no time left to ask py-spy)"]
    text, problem = dump(command, pid, limit)
    if problem:
        return [f"(process {pid}: {problem})"]
    return [line for line in text.splitlines() if line.strip()]


def _reason(stderr: str) -> str:
    message = (stderr.strip().splitlines() or ["no reason given"])[0]
    # https://www.kernel.org/doc/html/latest/admin-guide/LSM/Yama.html
    hint = "; as another user than root it needs kernel.yama.ptrace_scope=0"
    return f"py-spy: {message}{hint if 'ermission' in message else ''}"
