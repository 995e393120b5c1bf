"""A process that has loaded what steps of ours load, and forks each of them: loaded once, not anew.

``Warm`` starts it and asks it for steps. The program, ``python -m ... FD MODULE ...``, has one
thread, imports the modules, and then forks a supervisor for each request. That has a session,
environment and output of its own, and runs the step as ``supervised`` would run a command; it alone
reports how the step has ended, so that nothing depends on the process that it was forked from.
"""

import contextlib
import gc
import importlib
import json
import os
import resource
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from trireme.errors import exit_in_words
from trireme.process.processes import Used, end_with, lack_of_memory, oom_kills, reap
from trireme.runner.local.supervised import widen
from trireme.runner.local.supervisor import supervise

EXECUTOR = "kfp.dsl.executor_main"
SOURCE = 3  # where the step's function is in the command of kfp, a shell's that runs EXECUTOR
RUNTIME = "_KFP_RUNTIME"
"""The variable that kfp sets in the process of a step."""

LAST_LINES = 5  # of what has ended
READING = 5.0  # seconds for them to be read


def is_for(command: Sequence[str]) -> bool:
    """Tells whether a command is kfp's for a step that needs no packages of its own."""
    return list(command[:2]) == ["sh", "-ec"] and EXECUTOR in command[2]


class Forked:
    """A step that was asked for; it ends when this process does."""

    def __init__(self, stdin: int, stdout: int, report: int) -> None:
        self._stdin = os.fdopen(stdin, "wb", buffering=0)  # which a signal's handler may close
        self.stdout, self._report = os.fdopen(stdout, "rb"), os.fdopen(report)
        self.pid = 0  # of its supervisor, once that has begun
        widen(self.stdout)

    def begin(self) -> None:
        """Waits until it has begun, or raises ChildProcessError."""
        line = self._report.readline()
        if not line:
            raise ChildProcessError("the process that was to fork it has ended")
        self.pid = int(line)

    def terminate(self) -> None:
        """Asks it to end, and has it killed if it does not."""
        self._stdin.close()

    def reap(self) -> Used:
        """Waits for it."""
        if self._report.closed:
            raise ChildProcessError("it has been waited for")
        with self.stdout, self._report:
            lines = self._report.read().splitlines()
        self._stdin.close()
        # The first is its supervisor's id, where nobody has waited for it to begin.
        words = lines[-1].split() if lines else []
        if len(words) < 3:  # its supervisor was killed
            return Used(128 + signal.SIGKILL, 0.0, 0)
        return Used(int(words[0]), float(words[1]), int(words[2]))


class Warm:
    """The process that has loaded some modules."""

    def __init__(self, modules: Sequence[str], environment: dict[str, str]) -> None:
        self._kills = oom_kills()
        self._is_used = False
        self._channel, child_end = socket.socketpair()
        with child_end:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(child_end.fileno()), *modules],
                env=environment | {RUNTIME: "true"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,  # as steps have
                stderr=subprocess.STDOUT,
                pass_fds=[child_end.fileno()],
                start_new_session=True,
            )
        self._last: deque[bytes] = deque(maxlen=LAST_LINES)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def start(
        self,
        command: Sequence[str],
        grace: float,
        environment: dict[str, str],
        lock: int | None = None,
    ) -> Forked:
        """Has a step started, as ``supervised`` starts a command, once all is loaded.

        Raises:
            ChildProcessError: This has ended; the step has not begun.
        """
        (stdin, for_us), (out, stdout), (report, reported) = (os.pipe() for _ in range(3))
        step = Forked(for_us, out, report)
        self._is_used = True
        try:
            locks = [] if lock is None else [os.dup(lock)]
            self._ask([command, grace, environment], [stdin, stdout, reported, *locks])
            step.begin()
        except BaseException:
            step.terminate()
            step.reap()
            raise
        return step

    def _ask(self, request: Any, descriptors: list[int]) -> None:
        """Asks for a step, and closes the files that it is given."""
        try:
            with os.fdopen(os.memfd_create("request"), "w") as file:
                json.dump(request, file)
                file.flush()
                with contextlib.suppress(OSError):  # it has ended, and is perhaps closed
                    socket.send_fds(self._channel, [b"."], [*descriptors, file.fileno()])
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def kill(self) -> None:
        """Ends it at once, whatever it loads; steps go on."""
        if self._process.returncode is None:
            os.kill(self._process.pid, signal.SIGKILL)

    def end(self) -> tuple[str, str]:
        """Kills it, if it has not ended; returns its last lines, and how it has ended."""
        self.kill()
        used = reap(self._process)
        self._channel.close()
        self._reader.join(READING)
        last = b"".join(self._last).decode(errors="replace")
        memory = lack_of_memory(self._kills, used.peak_memory_bytes)
        return last, f"{exit_in_words(used.status)}{memory}"

    def close(self) -> None:
        """Has it end when its steps have; at once if there were none, for it may still load."""
        if not self._is_used:
            self.kill()
        self._channel.close()
        self._process.wait()

    def _read(self) -> None:
        assert self._process.stdout
        with self._process.stdout as printed:
            self._last.extend(printed)


def main(channel: socket.socket, modules: Sequence[str]) -> None:
    """Forks steps until the other end of the channel is closed."""
    for module in modules:
        with contextlib.suppress(Exception):  # of which the step that needs it tells
            importlib.import_module(module)
    gc.collect()
    gc.freeze()  # what is there is shared as long as nobody writes to it
    signal.signal(signal.SIGCHLD, lambda *_: _reap(os.WNOHANG))
    while True:
        data, descriptors, _, _ = socket.recv_fds(channel, 1, 5, socket.MSG_CMSG_CLOEXEC)
        if not data:
            _reap(0)  # so that who asks how much time all has taken gets that of steps, too
            os._exit(0)
        if os.fork() == 0:
            channel.close()
            end_with(partial(_run, _supervised(*descriptors)))
        for descriptor in descriptors:
            os.close(descriptor)


def _reap(options: int) -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, options)[0]:
            pass


def _supervised(stdin: int, stdout: int, report: int, *more: int) -> list[str]:
    """Becomes a step's supervisor; returns in the process of the step, with its command.

    Args:
        more: A lock that the supervisor is to have, if there is one, and the request.
    """
    *locks, request = more
    os.setsid()
    for number, descriptor in enumerate((stdin, stdout, stdout)):
        os.dup2(descriptor, number)
    with os.fdopen(request) as file:
        file.seek(0)
        command, grace, environment = json.load(file)
    os.close(stdin)
    os.close(stdout)
    os.environ.clear()
    os.environ.update(environment)
    os.write(report, f"{os.getpid()}\n".encode())
    status = supervise(grace)
    if status is not None:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        report_line = f"{status} {used.ru_utime + used.ru_stime} {used.ru_maxrss * 1024}\n"
        with contextlib.suppress(BrokenPipeError):  # nobody is left to read it
            os.write(report, report_line.encode())
        os._exit(status)
    for fd in (report, *locks):
        os.close(fd)
    return list(command)


def _run(command: Sequence[str]) -> None:
    """Does what the command does, in this process."""
    program = Path(tempfile.mkdtemp(), "ephemeral_component.py")
    program.write_text(command[SOURCE])
    os.environ[RUNTIME] = "true"
    sys.argv = ["", "--component_module_path", str(program), *command[SOURCE + 1 :]]
    runpy.run_module(EXECUTOR, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])), sys.argv[2:])
