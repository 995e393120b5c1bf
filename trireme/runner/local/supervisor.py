"""Run a command as a container would: when it ends, or its parent does, nothing of it is left.

Used as a program, with nothing imported but the standard library so that it starts at once:

    python -S -I supervisor.py GRACE ENVIRONMENT COMMAND [ARGUMENT ...]

- ENVIRONMENT is the descriptor of a file with the command's variables, a NUL between them.
- Standard input is a pipe that the parent holds open and never writes to. When it closes, the
  parent is gone (also by ``kill -9``) and the command is stopped.
- Stopping, also on SIGTERM, SIGINT or SIGHUP, sends SIGTERM to the command, as a kubelet does to
  process 1, and to what it has left when it has ended; what still runs after GRACE seconds, or on
  SIGQUIT, is killed.
- When the command ends by itself, processes it left behind are killed, as the kernel does when
  process 1 of a container ends.
- The exit status is the command's, 128 + N when signal N ended it, 127 when it does not start.
"""

import contextlib
import os
import select
import signal
import sys
import time

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h
POLL = 0.05  # seconds between looks while the command is being stopped
MARK = "TRIREME_SUPERVISOR"  # the variable by which all that was started under it can be told


def main() -> int:
    """Runs the command line's command; returns the exit status."""
    grace, command = float(sys.argv[1]), sys.argv[3:]
    with open(int(sys.argv[2]), "rb") as file:
        variables = dict(entry.split(b"=", 1) for entry in file.read().split(b"\0") if entry)
    for number in map(int, os.listdir("/proc/self/fd")):
        if number > 2:
            with contextlib.suppress(OSError):  # the listing's own
                os.set_inheritable(number, False)  # a lock is not the command's
    try:
        status = supervise(grace)
    except BlockingIOError as error:  # this user may have no more processes
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        return 127
    if status is not None:
        return status
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python itself ignores these
        signal.signal(number, signal.SIG_DFL)
    variables[MARK.encode()] = os.environb[MARK.encode()]
    try:
        os.execvpe(command[0], command, variables)
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        os._exit(127)


def supervise(grace: float) -> int | None:
    """Forks, and supervises the child to its end; returns its exit status, and None in the child.

    The child has no signal handlers of its own.
    """
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    wake, waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(waker)
    caught_here = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
    for number in caught_here:
        signal.signal(number, lambda *_: None)
    started, starting = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        os.setpgrp()
        os.environ[MARK] = str(os.getppid())
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # if the supervisor itself is killed
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        signal.set_wakeup_fd(-1)
        for number in caught_here:
            signal.signal(number, signal.SIG_DFL)
        for file in (nothing, wake, waker, started, starting):
            os.close(file)
        return None
    os.close(starting)
    os.read(started, 1)  # ends when the child is in a process group that can be signalled

    status: int | None = None
    while status is None:
        ready, _, _ = select.select([0, wake], [], [])
        caught = os.read(wake, 4096) if wake in ready else b""
        if 0 in ready or set(caught) - {signal.SIGCHLD}:
            return _stop(child, 0.0 if signal.SIGQUIT in caught else grace, wake)
        status = _reap().get(child)
    _kill_descendants()
    return _exit_status(status)


def _stop(child: int, grace: float, wake: int) -> int:
    """Asks the command to end, waits for all of it, and kills what is left after the grace."""
    statuses = _reap()
    if child not in statuses:
        # Not the rest: a program that saves now needs what it has started, as to load data.
        _signal([child], signal.SIGTERM)
    deadline, rest_is_asked = time.monotonic() + grace, False
    while time.monotonic() < deadline and (left := _descendants()):
        if child in statuses and not rest_is_asked:
            _signal(left, signal.SIGTERM)
            rest_is_asked = True
        ready, _, _ = select.select([wake], [], [], POLL)
        if ready and signal.SIGQUIT in os.read(wake, 4096):
            break
        statuses |= _reap()
    _kill_descendants(statuses)
    return _exit_status(statuses.get(child, signal.SIGKILL))


def _signal(pids: list[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _kill_descendants(statuses: dict[int, int] | None = None) -> None:
    while descendants := _descendants():
        _signal(descendants, signal.SIGKILL)
        time.sleep(0.005)
        ended = _reap()
        if statuses is not None:
            statuses |= ended


def _reap() -> dict[int, int]:
    """Takes in every child that has ended; returns wait statuses by process id."""
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended[pid] = status


def _descendants() -> list[int]:
    """Returns the ids of all processes below this one that still run (from /proc/PID/stat)."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                state, parent = file.read().rpartition(b") ")[2].split()[:2]
        except OSError:
            continue  # it has ended meanwhile
        if state != b"Z" or int(parent) == os.getpid():
            children.setdefault(int(parent), []).append(int(name))
    pids, at = children.get(os.getpid(), []), 0
    while at < len(pids):
        pids += children.get(pids[at], [])
        at += 1
    return pids


def _exit_status(wait_status: int) -> int:
    code = os.waitstatus_to_exitcode(wait_status)
    return code if code >= 0 else 128 - code


def _prctl(option: int, value: int) -> None:
    """Changes something of this process, see https://man7.org/linux/man-pages/man2/prctl.2.html."""
    import ctypes

    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    sys.exit(main())
