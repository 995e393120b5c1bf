"""Places of jobs, here or on a cluster, and how their lines are shown."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trireme.cli.cluster import Context, Namespace, connect
from trireme.cli.job.options import Local, refuse_a_place
from trireme.cli.target import Workspace, declared
from trireme.plain import plain

if TYPE_CHECKING:
    from trireme.runner.lines import LinePrinter


def jobs_home() -> Path:
    """Returns where the jobs of this machine are."""
    from trireme.files.home import home

    return home() / "jobs"


def on_jobs(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options that say where its jobs are.

    It gets the module that knows them, here or on a cluster, as ``jobs``, and their place, which
    all functions of that take, as ``place``; also ``local``, if it takes that.
    """
    takes_local = "local" in inspect.signature(command).parameters

    def called(local: bool, namespace: str, context: str, workspace: str, **given: Any) -> None:
        if local:
            from trireme.runner.local import jobs as here

            refuse_a_place(namespace, context)
            given |= {"jobs": here, "place": jobs_home()}
        else:
            from trireme.runner.cluster import jobs as there

            stays = given.get("follow", False)  # who follows waits for a cluster that is away
            given |= {"jobs": there, "place": connect(namespace, context, stays)}
        command(**given, **({"local": local} if takes_local else {}))

    options = {
        "local": (Local, False),
        "namespace": (Namespace, ""),
        "context": (Context, ""),
        "workspace": (Workspace, ""),
    }
    return declared(called, command, ("jobs", "place", "local"), options)


def printer(needs_reader: bool = False) -> "LinePrinter":
    """Returns what prints the lines of replicas."""
    from trireme.runner.lines import LinePrinter

    return LinePrinter(plain, needs_reader=needs_reader)
