"""Packages of a run, looked at before it: what cannot be installed is refused then."""

from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trireme.code import credentials, snapshot
from trireme.credentials import secrets
from trireme.errors import TriremeError
from trireme.packages import requirements
from trireme.text.say import say

if TYPE_CHECKING:
    from trireme.kubernetes.connection import Cluster

PURPOSE = "requirements"
INDEX = ("UV_", "PIP_INDEX_URL")
"""How variables begin that lead a step to another package index."""


def check_here(framework: str, parameters: dict[str, Any]) -> None:
    """Refuses packages that do not go together, where all that says so is on this machine."""
    required, url = parameters["requirements"], parameters["code_url"]
    code = _code(parameters)
    if not _can_be_checked(required, code):
        return
    from trireme.packages.check import check

    secret = secrets.given(parameters["requirements_secret"], PURPOSE)
    opened_by = secrets.given(parameters["code_secret"], "code")
    with credentials.for_others(url, opened_by) as variables:
        check(required, code, framework, secret, variables)


def check_there(
    framework: str,
    parameters: dict[str, Any],
    variables: Collection[str],
    connect: "Callable[[], Cluster]",
) -> None:
    """Refuses likewise what the pods of a cluster could not install.

    What the package index of this machine lacks is refused only where the pods ask the same one.

    Args:
        variables: The names of those that steps have.
        connect: Returns the cluster, with the namespace of runs.
    """
    required, code = parameters["requirements"], _code(parameters)
    if not _can_be_checked(required, code):
        return
    from trireme.packages.check import check_for_pods
    from trireme.packages.uv import Unsatisfiable

    try:
        check_for_pods(required, code, framework)
    except Unsatisfiable as error:
        has_own = any(name.startswith(INDEX) for name in variables)
        if has_own or not _lacks(parameters["requirements_secret"], connect):
            say(f"warning: {error}; unless the index says otherwise that the run's pods ask")
            return
        raise


def _code(parameters: dict[str, Any]) -> Path | None:
    """Returns the folder of the code, if that is on this machine."""
    url = parameters["code_url"]
    if not snapshot.is_meant(url, parameters["code_revision"]):
        return None
    return Path(url, parameters["code_directory"]).expanduser().resolve()


def _can_be_checked(required: list[str], code: Path | None) -> bool:
    """Whether there is something to check, and all that says what it is, is here."""
    return bool(required) and (code is not None or not requirements.files(required))


def _lacks(secret: str, connect: "Callable[[], Cluster]") -> bool:
    """Whether the namespace of runs has no Secret with another index, as far as it says."""
    from trireme.kubernetes.resources import SECRETS

    if not secret:
        return True
    with suppress(TriremeError):
        cluster = connect()
        return cluster.find(SECRETS, secret, cluster.namespace) is None
    return False
