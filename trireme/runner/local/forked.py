"""Start one of our trainers as a fork of this process, which has loaded its framework.

That is loaded once then, and not by each process of each training. What is not ours, or has been
changed, has an interpreter of its own: what it sets before it loads the framework would come too
late here. So has what is started again, as this process has threads by then.
"""

import atexit
import contextlib
import logging
import os
import re
import shutil
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from trireme.code import builtin
from trireme.frameworks.base import Framework
from trireme.process.processes import end_with
from trireme.runner.local import usage
from trireme.runner.local.supervised import widen
from trireme.runner.local.supervisor import PR_SET_NAME, prctl, supervise

_READ_LATER = (
    r"(CODE|DATA|CHECKPOINT|MODEL|WARM_START|BASE_MODEL|TENSORBOARD_LOGGING)_DIR|SEED|TMPDIR|PATH|"
    r"(MLFLOW|TRIREME)_\w+|METRICS_PORT|NODE_RANK|USE_TF"
)
"""Variables that no framework reads when it is loaded."""

_THREADS, _PATH = "OMP_NUM_THREADS", "PYTHONPATH"
"""Variables that are read then; a fork follows them in another way, but for NumPy's threads."""


class Forked:
    """A program with a supervisor of its own, like the process that ``supervised`` returns."""

    def __init__(self, pid: int, stdin: int, stdout: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._stdin = os.fdopen(stdin, "wb", buffering=0)  # to be held open, see ``supervisor``
        self.stdout = os.fdopen(stdout, "rb")
        widen(self.stdout)

    def send_signal(self, number: int) -> None:
        """Signals its supervisor, unless that has been waited for."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Asks it to end, and has it killed if it does not."""
        # A signal would be lost that comes before its supervisor waits for one.
        self._stdin.close()


def is_for(
    framework: Framework, command: list[str], variables: Mapping[str, str], directory: str
) -> bool:
    """Tells whether a command is one of our trainers, and finds in a fork what it would find."""
    program = "".join(command[1:2])
    changed = {name for name, _ in os.environ.items() ^ variables.items()}
    read_later = "|".join([_READ_LATER, _THREADS, _PATH, framework.injected, framework.inherited])
    with contextlib.suppress(OSError):
        return bool(
            framework.is_forked
            and framework.module in sys.modules
            and command[:1] == ["python3"]
            and framework.has_trainer(program)
            # What another thread holds when it is forked would never be let go.
            and len([*Path("/proc/self/task").iterdir()]) == 1
            # A driver that this process has asked something does not work in its forks.
            and not usage.has_gpu()
            and all(re.fullmatch(read_later, name) for name in changed)
            and re.fullmatch(r"[1-9]\d*", variables.get(_THREADS, ""))
            and shutil.which("python3", path=variables.get("PATH"))
            == str(Path(sys.executable).with_name("python3"))
            # No packages of the run, which may be other ones than those that are loaded.
            and _places(variables) == [directory, *_places(os.environ)]
            and any(map(_is_library, sys.path))
            and builtin.is_all_of(Path(directory))
            and not any(
                file.stem in sys.modules for file in Path(directory, program).parent.iterdir()
            )
        )
    return False


def start(
    framework: Framework,
    command: list[str],
    variables: Mapping[str, str],
    directory: str,
    grace: float,
) -> Forked:
    """Starts what this is for, see ``supervised``."""
    (stdin, for_us), (out, stdout) = os.pipe(), os.pipe()
    sys.stdout.flush()  # what has been printed is not the fork's
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        try:
            os.environ.clear()
            os.environ.update(variables)
            _become_supervised(stdin, stdout, grace)
            os.chdir(directory)
            end_with(lambda: _run(framework, command[1:]))
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    os.close(stdin)
    os.close(stdout)
    return Forked(pid, for_us, out)


def _is_library(place: str) -> bool:
    """Tells whether a place of sys.path is where the standard library begins, there or not."""
    return place.endswith("python{}{}.zip".format(*sys.version_info))


def _places(variables: Mapping[str, str]) -> list[str]:
    return list(filter(None, variables.get(_PATH, "").split(os.pathsep)))


def _become_supervised(stdin: int, stdout: int, grace: float) -> None:
    """Becomes a supervisor, which ends here, and below it the process in which this returns."""
    os.setsid()
    for number, place in enumerate((stdin, stdout, stdout)):
        os.dup2(place, number)
    # Their numbers stay taken: what is closed late must not be what was opened since.
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in [int(file.name) for file in Path("/proc/self/fd").iterdir()]:
        if number > 2 and number != nothing:
            os.dup2(nothing, number, inheritable=False)
    # These put away what is another process's. Nor are what multiprocessing and weakref do at the
    # end done for the program, which our trainers have no need of.
    atexit._clear()
    status = supervise(grace)
    if status is not None:
        os._exit(status)


def _run(framework: Framework, words: list[str]) -> None:
    """Runs a Python program as ``python3`` does."""
    logging.root.handlers.clear()  # which kfp has set for the step
    logging.root.setLevel(logging.WARNING)
    framework.begin_anew(int(os.environ[_THREADS]))
    shown = [*map(_is_library, sys.path)].index(True)
    file = Path(words[0]).resolve()
    sys.path[:shown] = [str(file.parent), *_places(os.environ)]
    sys.argv = words
    prctl(PR_SET_NAME, file.name.encode())  # for who looks at processes
    main = sys.modules["__main__"] = ModuleType("__main__")
    main.__file__ = str(file)
    exec(compile(file.read_bytes(), file, "exec"), main.__dict__)
