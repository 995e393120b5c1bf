"""Processes of this machine, by more than their ids."""

import atexit
import contextlib
import errno
import os
import resource  # noqa: F401  # which os.wait4 needs, also where no more files may be opened
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Protocol

from trireme.errors import InputError
from trireme.text.units import in_words

PROC = Path("/proc")


def cpus() -> int:
    """Returns how many CPUs this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Used(NamedTuple):
    """How a process ended, and what it and all below it used."""

    status: int
    cpu_seconds: float
    peak_memory_bytes: int


class Child(Protocol):
    """A process that this one has started, and its exit status once that is known."""

    pid: int
    returncode: Any


def reap(process: Child) -> Used:
    """Waits for a process."""
    try:
        _, wait_status, usage = os.wait4(process.pid, 0)
    except ChildProcessError:  # subprocess looks before it signals, and has seen that it ended
        if process.returncode is None:
            raise
        return Used(process.returncode, 0.0, 0)
    process.returncode = os.waitstatus_to_exitcode(wait_status)
    seconds = usage.ru_utime + usage.ru_stime
    return Used(process.returncode, seconds, usage.ru_maxrss * 1024)


def end_with(program: Callable[[], object]) -> NoReturn:
    """Runs a program in a process that was forked, which ends as an interpreter does.

    But files that the program has left open are not flushed.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    tempfile.tempdir = None  # which may be that of another environment
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()  # Python's own random numbers begin anew in a fork
    status = 1
    try:
        program()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if not isinstance(end.code, int | None):
            print(end.code, file=sys.stderr)
    except BaseException as error:
        status = 128 + signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
        sys.excepthook(type(error), error, error.__traceback__)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    # To take down all that is loaded would write to it, so that it had to be copied: 0.3 s.
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(status & 0xFF)


def oom_kills() -> int:
    """Returns how many processes of this machine the kernel has killed for lack of memory."""
    try:
        lines = Path("/proc/vmstat").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)


def lack_of_memory(kills: int, peak: float) -> str:
    """Returns what to add to how a process failed, where that may be for lack of memory.

    Args:
        kills: How many the kernel had killed for it before.
        peak: The most bytes that one of its processes had.
    """
    if oom_kills() == kills:
        return ""
    return (
        "; the kernel killed a process for lack of memory meanwhile, and its largest had "
        f"{in_words(peak)}"
    )


def limit_reached(error: BaseException) -> str:
    """Returns which limit of this user something has failed at; empty where it was none."""
    number = error.errno if isinstance(error, OSError) else None
    is_of_threads = isinstance(error, RuntimeError) and "can't start new thread" in str(error)
    # A pipe that takes no more for the moment tells how much it took.
    is_of_processes = number == errno.EAGAIN and not hasattr(error, "characters_written")
    if is_of_threads or is_of_processes:
        return "this user may have no more processes and threads; raise the limit, ulimit -u"
    if number in (errno.EMFILE, errno.ENFILE):
        return "no more files may be open at once; raise the limit, ulimit -n"
    return ""


def check_proc() -> None:
    """Refuses a machine on which no process can be told from another, nor followed to its end."""
    if not (PROC / "self").exists():
        raise InputError(
            f"{PROC} is not mounted here, by which processes are followed and ended; as root: "
            f"mount -t proc proc {PROC}"
        )


def born(pid: int) -> str:
    """Returns when a process started, empty when there is none: a pid may have a new user.

    It is field 22 of /proc/PID/stat (https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html).
    A zombie has ended: in a container process 1 may never wait for it.
    """
    try:
        state, *fields = (PROC / str(pid) / "stat").read_text().rpartition(") ")[2].split()
    except OSError:
        check_proc()
        return ""
    return "" if state == "Z" else fields[18]


def process_of(record: Mapping[str, Any], called: str) -> int:
    """Returns the id of the process that runs something, which a record of it names.

    Raises:
        InputError: That is in another container or on another machine; here it may be any other's.
    """
    if born(record["pid"]) != record["born"]:
        raise InputError(
            f"{called} runs in another container or on another machine, {record['host']}: "
            "do this there"
        )
    return int(record["pid"])
