"""Commands that change jobs: ``exec``, ``scale``, ``cancel``, ``delete``."""

import os
import shlex
import sys
from typing import Annotated, Any

import typer

from trireme.cli.cluster import Context, Namespace, connect
from trireme.cli.job.options import JobName
from trireme.cli.job.places import on_jobs
from trireme.cli.target import Workspace
from trireme.errors import InputError


def exec_in_replica(
    name: JobName,
    replica: Annotated[str, typer.Argument(metavar="REPLICA", help="As in worker-0.")],
    command: Annotated[
        list[str], typer.Argument(metavar="-- COMMAND", help="What runs in its container.")
    ],
    namespace: Namespace = "",
    context: Context = "",
    workspace: Workspace = "",
) -> None:
    """Run a command in a running replica on a cluster, by kubectl; 'bash' opens a shell."""
    from trireme.kubernetes.kubectl import exec_in
    from trireme.runner.cluster import jobs

    cluster = connect(namespace, context)
    pod, container = jobs.running_replica(cluster, name, replica)
    words = exec_in(cluster, pod, container, command, "-it" if sys.stdin.isatty() else "-i")
    try:
        os.execvp(words[0], words)
    except FileNotFoundError:
        raise InputError(f"kubectl is not installed, which does it: {shlex.join(words)}") from None


def scale(
    name: JobName,
    workers: Annotated[int, typer.Argument(metavar="WORKERS", help="From elastic's min to max.")],
    namespace: Namespace = "",
    context: Context = "",
    workspace: Workspace = "",
) -> None:
    """Change the number of workers of an elastic job that runs on a cluster."""
    from trireme.runner.cluster import jobs

    jobs.scale(connect(namespace, context), name, workers)
    typer.echo(f"{name} gets {workers} workers")


@on_jobs
def cancel(jobs: Any, place: Any, name: JobName) -> None:
    """Stop a job and keep its record."""
    jobs.cancel(place, name)
    typer.echo(f"{name} cancelled")


@on_jobs
def delete(jobs: Any, place: Any, name: JobName) -> None:
    """Delete a job and its records; stop it first if it runs."""
    jobs.delete(place, name)
    typer.echo(f"{name} deleted")
