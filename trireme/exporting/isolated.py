"""Ask exported files for answers in a process that has no training code on its path."""

import importlib
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

from trireme.cause import ended
from trireme.credentials import withheld
from trireme.errors import StepFailed
from trireme.exporting import answering
from trireme.exporting.answering import DESCRIPTION
from trireme.packages.use import used

REASON_LIMIT = 300  # characters of what a framework says
LAST_LINES = 20  # of a process that has died
LIMIT = 600.0  # seconds in which a model in its own form, any code, has to answer

STEP = "_KFP_RUNTIME"
"""The variable that kfp sets in the process of a step."""

Reloaded = Callable[[Path, list[np.ndarray]], list[np.ndarray]]


@contextmanager
def isolated(module: str, *, is_shared: bool = False) -> Iterator[Reloaded]:
    """Starts a process in which exported files are loaded back.

    It imports what it needs while the files are still being written. Python's isolated mode
    keeps the working directory, PYTHONPATH and a user's own packages out of its path; those that
    the run requires are in it.

    Args:
        module: What the process imports at its start.
        is_shared: The process may be a fork of this one, if this is a step's, which imports the
            module first: it has loaded nothing of a user yet and computed nothing, and the module
            survives a fork.

    Yields:
        A function that returns what a file answers to each batch. It raises StepFailed, with
        one sentence, where the file cannot do that there.
    """
    with tempfile.TemporaryDirectory(prefix="trireme-") as folder:
        output = Path(folder, "output")
        # A fork may wait for ever for what another thread held, or for threads that have computed.
        is_fork = is_shared and STEP in os.environ and threading.active_count() == 1
        with output.open("wb") as errors:
            process = (_Fork if is_fork else _Fresh)(module, folder, errors)
        try:
            yield lambda file, batches: _ask(process, file, batches, Path(folder))
        finally:
            process.kill()  # it has nothing to finish
            process.wait()
            with suppress(BrokenPipeError):  # of a request that it did not live to read
                process.requests.close()
            process.replies.close()


class _Fresh:
    """A process with an interpreter of its own."""

    def __init__(self, module: str, folder: str, errors: IO[bytes]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", answering.__file__, module, *used()],
            cwd=folder,
            env=withheld.environment(),  # a pickle may be in the file, which runs what it likes
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        assert self._process.stdin and self._process.stdout
        self.requests, self.replies = self._process.stdin, self._process.stdout
        self.kill, self.wait = self._process.kill, self._process.wait


class _Fork:
    """A fork of this process, once that has imported the module; its path is an isolated one."""

    def __init__(self, module: str, folder: str, errors: IO[bytes]) -> None:
        with suppress(Exception):  # the fork tries it again, and tells what is wrong
            importlib.import_module(module)
        search_path = subprocess.check_output(
            [sys.executable, "-I", "-c", "import json, sys; print(json.dumps(sys.path))"]
        )
        (read, requests), (replies, write) = os.pipe(), os.pipe()
        self.requests, self.replies = os.fdopen(requests, "w"), os.fdopen(replies)

        def become() -> None:
            for file in (self.requests, self.replies):
                file.close()
            for number, descriptor in enumerate((read, write, errors.fileno())):
                os.dup2(descriptor, number)
            sys.stdin = open(0, closefd=False)  # noqa: SIM115
            sys.path[:] = json.loads(search_path)
            os.chdir(folder)
            answering.main(module, *used())

        self._process: Any = multiprocessing.get_context("fork").Process(target=become)
        self._process.start()
        os.close(read)
        os.close(write)
        self.kill = self._process.kill

    def wait(self) -> int:
        """Returns the exit status once it has ended."""
        self._process.join()
        return int(self._process.exitcode)


def _ask(
    process: _Fresh | _Fork, file: Path, batches: list[np.ndarray], folder: Path
) -> list[np.ndarray]:
    inputs, answers = folder / "inputs.npz", folder / "answers.npz"
    np.savez(inputs, *batches)
    is_late = threading.Event()

    def give_up() -> None:
        is_late.set()
        process.kill()

    timer = threading.Timer(LIMIT, give_up)
    if file.name == DESCRIPTION:
        timer.start()
    with suppress(BrokenPipeError):  # then there is no reply either
        request = json.dumps([str(file.resolve()), str(inputs), str(answers)])
        print(request, file=process.requests, flush=True)
    reply = process.replies.readline()
    timer.cancel()
    if is_late.is_set():
        raise StepFailed(f"it has neither been loaded nor answered within {LIMIT:.0f} s")
    if not reply:
        last = (folder / "output").read_text(errors="replace").splitlines()[-LAST_LINES:]
        how = ended(process.wait(), last)
        raise StepFailed(f"the process that loads {file.name} back {how}", "\n".join(last))
    if reason := json.loads(reply):
        raise StepFailed(
            f"{file.name}, loaded back without the training code, does not work: "
            f"{' '.join(reason.split())[:REASON_LIMIT]}"
        )
    with np.load(answers) as arrays:
        return [arrays[name] for name in arrays.files]
