"""Places of jobs, here or on a cluster, and how their lines are shown."""

import inspect
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from trireme.cli.cluster import Context, Namespace, connect
from trireme.cli.job.options import Local, refuse_a_place
from trireme.cli.target import Workspace, declared
from trireme.files.home import jobs_home
from trireme.plain import plain

if TYPE_CHECKING:
    from trireme.runner.lines import LinePrinter


MODULES = ("jobs", "answers")
GIVEN = (*MODULES, "place", "local")
"""What ``on_jobs`` gives a command."""


def on_jobs(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options that say where its jobs are.

    It gets, of what it takes: the module that knows them, here or on a cluster, as ``jobs``, the
    module that makes answers of them as ``answers``, their place, which all functions of these
    take, as ``place``, and ``local``.
    """
    injected = inspect.signature(command).parameters.keys() & set(GIVEN)

    def called(local: bool, namespace: str, context: str, workspace: str, **arguments: Any) -> None:
        values: dict[str, Any] = {"local": local}
        if local:
            refuse_a_place(namespace, context)
            values["place"] = jobs_home()
        else:
            stays = arguments.get("follow", False)  # who follows waits for a cluster that is away
            values["place"] = connect(namespace, context, stays)
        for module in MODULES:
            if module in injected:
                folder = "local" if local else "cluster"
                values[module] = import_module(f"trireme.runner.{folder}.{module}")
        command(**arguments, **{name: values[name] for name in injected})

    options = {
        "local": (Local, False),
        "namespace": (Namespace, ""),
        "context": (Context, ""),
        "workspace": (Workspace, ""),
    }
    return declared(called, command, GIVEN, options)


def printer(
    needs_reader: bool = False, written: Callable[[str, str], str] | None = None
) -> "LinePrinter":
    """Returns what prints the lines of replicas; see ``LinePrinter``."""
    from trireme.runner.lines import LinePrinter

    return LinePrinter(plain, needs_reader=needs_reader, written=written)
