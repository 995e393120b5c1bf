"""Use the packages of a run in its steps and in the programs that they start."""

import os
import site
from pathlib import Path

AGAIN = "TRIREME_PACKAGES_OF"
"""The variable of a step that names the MLflow run whose packages it installs again."""

_used: list[str] = []


def link_of(workspace: Path) -> Path:
    """Returns the link in a run's workspace to its packages."""
    return workspace / "packages"


def folder(workspace: Path) -> str:
    """Returns the folder of a run's packages; empty where it has none."""
    link = link_of(workspace)
    return str(link.resolve()) if link.exists() else ""


def use(workspace: Path) -> None:
    """Makes a run's packages importable here, after Trireme's own, and in processes from here."""
    directory = folder(workspace)
    if directory and _used != [directory]:
        site.addsitedir(directory)
        _used[:] = [directory]
        _prepend("PATH", f"{directory}/bin")
        _prepend("PYTHONPATH", directory)


def used() -> list[str]:
    """Returns the folder that this process uses, if there is one, for a process that gets no more.

    Python's isolated mode ignores PYTHONPATH.
    """
    return list(_used)


def _prepend(variable: str, path: str) -> None:
    rest = os.environ.get(variable)
    os.environ[variable] = os.pathsep.join(filter(None, [path, rest]))
