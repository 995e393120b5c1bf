"""Where jobs are, here or on a cluster, and how their lines are shown."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from trireme.components.plain import plain
from trireme.pipelines.cli.cluster import connect
from trireme.pipelines.cli.job.options import refuse_a_place

if TYPE_CHECKING:
    from trireme.components.training.lines import LinePrinter


def jobs_home() -> Path:
    """Returns where the jobs of this machine are."""
    from trireme.components.home import home

    return home() / "jobs"


def jobs_of(local: bool, namespace: str, context: str, stays: bool = False) -> tuple[Any, Any]:
    """Returns the module that knows the jobs, here or on a cluster, and the place of the jobs."""
    if local:
        from trireme.components.training.local import jobs as here

        refuse_a_place(namespace, context)
        return here, jobs_home()
    from trireme.components.training.cluster import jobs as there

    return there, connect(namespace, context, stays)


def printer(needs_reader: bool = False) -> "LinePrinter":
    """Returns what prints the lines of replicas."""
    from trireme.components.training.lines import LinePrinter

    return LinePrinter(plain, needs_reader=needs_reader)
