"""Ask exported files for answers in a process that has no training code on its path."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from trireme.components.errors import StepFailed, exit_in_words
from trireme.components.export import answering
from trireme.components.packages.use import used

REASON_LIMIT = 300  # characters of what a framework says
LAST_LINES = 20  # of a process that has died

Reloaded = Callable[[Path], list[np.ndarray]]


@contextmanager
def isolated(module: str, batches: list[np.ndarray]) -> Iterator[Reloaded]:
    """Starts a process in which exported files are loaded back.

    It imports what it needs while the files are still being written. Python's isolated mode
    keeps the working directory, PYTHONPATH and a user's own packages out of its path; those that
    the run requires are in it.

    Yields:
        A function that returns what a file answers to each batch. It raises StepFailed, with
        one sentence, where the file cannot do that there.
    """
    with tempfile.TemporaryDirectory(prefix="trireme-") as folder:
        inputs, output = Path(folder, "inputs.npz"), Path(folder, "output")
        np.savez(inputs, *batches)
        command = [sys.executable, "-I", answering.__file__, module, str(inputs), *used()]
        with (
            output.open("wb") as errors,
            subprocess.Popen(
                command,
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            ) as process,
        ):
            assert process.stdin
            try:
                yield lambda file: _ask(process, file, Path(folder), output)
            finally:
                process.kill()  # it has nothing to finish
                with suppress(BrokenPipeError):  # of a request that it did not live to read
                    process.stdin.close()


def _ask(
    process: "subprocess.Popen[str]", file: Path, folder: Path, output: Path
) -> list[np.ndarray]:
    assert process.stdin and process.stdout
    answers = folder / "answers.npz"
    with suppress(BrokenPipeError):  # then there is no reply either
        print(json.dumps([str(file.resolve()), str(answers)]), file=process.stdin, flush=True)
    reply = process.stdout.readline()
    if not reply:
        how = exit_in_words(process.wait())
        last = output.read_text(errors="replace").splitlines()[-LAST_LINES:]
        raise StepFailed(f"the process that loads {file.name} back {how}", "\n".join(last))
    if reason := json.loads(reply):
        raise StepFailed(
            f"{file.name}, loaded back without the training code, does not work: "
            f"{' '.join(reason.split())[:REASON_LIMIT]}"
        )
    with np.load(answers) as arrays:
        return [arrays[name] for name in arrays.files]
