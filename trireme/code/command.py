"""Run git: nothing of the repository is executed, nobody is asked, faults are tried again."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from trireme.code.credentials import Access
from trireme.code.failures import is_fault, reason
from trireme.errors import InputError, TriremeError
from trireme.text.say import say

TIME_LIMIT = 3600  # seconds that one git command may take; one that stalls ends long before
PAUSES = (1.0, 2.0, 4.0, 8.0)  # seconds between attempts

NO_ACCESS = Access((), {"GIT_ALLOW_PROTOCOL": ""})
"""For commands that reach no server."""

LOCAL_ACCESS = Access((), {"GIT_ALLOW_PROTOCOL": "file"})
"""For a repository that we have made ourselves."""

_OPTIONS = (
    *("core.hooksPath=/dev/null", "core.fsmonitor=false", "gc.auto=0", "maintenance.auto=false"),
    *("http.lowSpeedLimit=1000", "http.lowSpeedTime=60"),
    # What is below `at` was made by us; on a NAS it may seem to be somebody else's.
    "safe.directory=*",
)
_OF_ANOTHER_REPOSITORY = (
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_NAMESPACE"),
    *("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES"),
)
"""Variables that would make git read another repository than the one that is meant."""


def git(
    *arguments: str,
    at: Path | None = None,
    access: Access = NO_ACCESS,
    environment: Mapping[str, str] = MappingProxyType({}),
    stdin: str = "",
) -> subprocess.CompletedProcess[str]:
    """Runs git.

    Args:
        environment: Further variables.
        stdin: Its standard input.
    """
    command = ["git", *(part for option in _OPTIONS for part in ("-c", option)), *access.options]
    if at:
        command += ["-C", str(at)]
    try:
        ended = subprocess.run(
            [*command, *arguments],
            env=_environment(access) | dict(environment),
            input=stdin.encode(errors="surrogateescape"),
            capture_output=True,
            timeout=TIME_LIMIT,
        )
    except FileNotFoundError:
        raise InputError("git is not installed; install it and run again") from None
    except subprocess.TimeoutExpired:
        raise TriremeError(f"git {arguments[0]} did not finish within {TIME_LIMIT} s") from None
    # Not as text, in which Python makes a line's end of a carriage return in a name.
    printed = (stream.decode(errors="surrogateescape") for stream in (ended.stdout, ended.stderr))
    result = subprocess.CompletedProcess(ended.args, ended.returncode, *printed)
    if result.returncode < 0:
        how = signal.Signals(-result.returncode).name
        raise TriremeError(f"git {arguments[0]} was killed ({how})")
    for text in access.hidden:
        result.stderr = result.stderr.replace(text, "***")
    return result


def patiently(
    *arguments: str, at: Path | None = None, access: Access
) -> subprocess.CompletedProcess[str]:
    """Runs a git command that talks to a server, again as long as there are faults on the way."""
    for pause in PAUSES:
        result = git(*arguments, at=at, access=access)
        if result.returncode == 0 or not is_fault(result.stderr):
            return result
        say(f"warning: {reason(result.stderr)}; trying again in {pause:g} s")
        time.sleep(pause)
    return git(*arguments, at=at, access=access)


def must(action: str, result: subprocess.CompletedProcess[str]) -> str:
    """Returns what git printed."""
    if result.returncode != 0:
        kind = TriremeError if is_fault(result.stderr) else InputError
        raise kind(f"git could not {action}: {reason(result.stderr)}")
    return result.stdout


def _environment(access: Access) -> dict[str, str]:
    variables = {
        name: text for name, text in os.environ.items() if name not in _OF_ANOTHER_REPOSITORY
    }
    return variables | {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"} | access.environment
