"""Steps that only their image could run: podman or docker runs it, where there is one."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path

from trireme.errors import InputError
from trireme.text.variables import expand
from trireme.tracking import environment

ENGINES = ("podman", "docker")
PATIENCE = 20.0  # seconds for an answer


@cache
def engine() -> str:
    """Returns the command that runs containers here; empty where none can."""
    engines = filter(None, map(shutil.which, ENGINES))
    return next((candidate for candidate in engines if _works(candidate)), "")


def check(step: str, image: str) -> None:
    """Refuses a step that nothing here can run.

    Raises:
        InputError: There is neither podman nor docker, or it does not answer.
    """
    if not engine():
        raise InputError(
            f"step {step} runs a command of the image {image}, which needs podman or docker on "
            "this machine, and neither answers; --target kfp or --target argo run it on a cluster"
        )


def command(
    name: str,
    image: str,
    words: list[str],
    arguments: list[str],
    variables: Mapping[str, str],
    passed: Collection[str],
    folders: Collection[Path],
) -> list[str]:
    """Returns what runs a container as Kubernetes would, with this machine's network.

    Args:
        name: The container's name, by which ``remove`` finds it.
        words: What runs in place of the image's own program; none for that.
        arguments: Its arguments; none for the image's own, if words are none either.
        variables: Those of the step. They are no variables of podman or docker itself, whose PATH
            and HOME are this machine's, so they are in the list of processes.
        passed: The names of variables that it gets as they are here.
        folders: What it sees of this machine, at the same places.
    """
    line = [engine(), "run", "--rm", "--name", name, "--network", "host"]
    # Whoever runs this owns the folders, whatever user the image names.
    line += ["--user", f"{os.getuid()}:{os.getgid()}"]
    if os.getuid() and Path(engine()).name == "podman":
        line += ["--userns", "keep-id"]
    for folder in folders:
        line += ["--volume", f"{folder}:{folder}"]
    for variable in (
        *environment.VARIABLES,
        *sorted(passed),
    ):  # whose values are in no list of processes
        line += ["--env", variable]
    for variable, value in variables.items():
        line += ["--env", f"{variable}={value}"]
    values = {key: os.environ[key] for key in passed if key in os.environ} | dict(variables)
    words = [expand(word, values) for word in words]
    if words:
        line += ["--entrypoint", words[0]]
    return [*line, image, *words[1:], *(expand(word, values) for word in arguments)]


def remove(name: str) -> None:
    """Removes what is left of a container, if anything is."""
    at_once = ["--time", "0"] if Path(engine()).name == "podman" else []  # as docker does
    with contextlib.suppress(subprocess.TimeoutExpired):  # it hangs, and who waits is a person
        subprocess.run(
            [engine(), "rm", "--force", *at_once, name],
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )


def _works(command: str) -> bool:
    try:
        done = subprocess.run([command, "info"], capture_output=True, timeout=PATIENCE, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
