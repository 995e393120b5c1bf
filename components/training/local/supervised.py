"""Start a process that leaves nothing behind."""

import subprocess
import sys
from pathlib import Path

from components.training.local import supervisor


def supervised(
    command: list[str], grace: float, environment: dict[str, str], directory: str | Path = "."
) -> subprocess.Popen[bytes]:
    """Starts a command under ``components.training.local.supervisor``.

    Args:
        command: Program and arguments.
        grace: Seconds between asking the command to end and killing it.
        environment: Its whole environment.
        directory: Its working directory.

    Returns:
        The supervisor's process: it ends with the command's exit status, its output is the
        command's, standard error included, and ending it ends all that the command started.
    """
    return subprocess.Popen(
        [sys.executable, "-S", "-I", supervisor.__file__, str(grace), *command],
        env=environment,
        cwd=directory,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
