"""Commands that show jobs: ``list``, ``status``, ``logs``, ``top``, ``tensorboard``."""

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trireme.cli import tensorboard
from trireme.cli.job.options import JobName
from trireme.cli.job.places import on_jobs, printer
from trireme.plain import plain
from trireme.terminal.tables import age, lines, table, watch

if TYPE_CHECKING:
    from trireme.kubernetes.amounts import Amounts
    from trireme.observers.usage import Usage

PAUSE = 2.0  # seconds between two looks at what a job uses


@on_jobs
def list_jobs(jobs: Any, place: Any, local: bool) -> None:
    """List the jobs there are."""
    if local:
        rows = [
            [job.name, job.kind, job.state, len(job.replicas), age(job.started), job.reason]
            for job in jobs.all_jobs(place)
        ]
    else:
        rows = [
            [
                *(row.name, row.kind, row.state, f"{row.running}/{row.replicas}"),
                *(age(time.time() - row.age), row.reason),
            ]
            for row in jobs.list_jobs(place)
        ]
    table(["NAME", "KIND", "STATE", "REPLICAS", "AGE", "REASON"], rows)
    if not rows and not local:
        from trireme.kubernetes import access

        access.check_namespace(place)
        typer.echo(f"no jobs in namespace {place.namespace}", err=True)


@on_jobs
def status(jobs: Any, place: Any, local: bool, name: JobName) -> None:
    """Show a job, its replicas, and the reasons for their states."""
    if local:
        job = jobs.find(place, name)
        typer.echo(f"{job.kind} {job.name}: {job.state}, {job.seconds:.0f} s")
        if job.reason:
            typer.echo(plain(job.reason))
        if job.progress:
            typer.echo(f"progress: {job.progress}")
        typer.echo(f"replicas: {', '.join(job.replicas) or 'none yet'}")
        typer.echo(str(job.directory))
        return
    details = jobs.status(place, name)
    row = details.row
    typer.echo(f"{row.kind} {row.name}: {row.state}, {row.running} of {row.replicas} running")
    if row.reason:
        typer.echo(plain(row.reason))
    if details.progress:
        typer.echo(f"progress: {details.progress.words}")
    table(
        ["REPLICA", "STATE", "RESTARTS", "NODE", "POD", "REASON"],
        [
            [one.name, one.state, one.restarts, one.node, one.pod, one.reason]
            for one in details.replicas
        ],
    )
    table(
        ["CONDITION", "STATUS", "REASON", "MESSAGE"],
        [
            [one.get(key, "") for key in ("type", "status", "reason", "message")]
            for one in details.conditions
        ],
    )
    table(
        ["TIME", "REASON", "EVENT"],
        [[one["time"], one["reason"], one["message"]] for one in details.events],
    )


@on_jobs
def logs(
    jobs: Any,
    place: Any,
    name: JobName,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Follow until the job ends.")
    ] = False,
    replica: Annotated[str, typer.Option(help="Only this replica, such as worker-0.")] = "",
) -> None:
    """Show the output of a job's replicas, each line with its replica."""
    lines = printer(needs_reader=True)
    with suppress(BrokenPipeError):
        jobs.logs(place, name, follow=follow, replica=replica, on_line=lines)


@on_jobs
def top(jobs: Any, place: Any, local: bool, name: JobName) -> None:
    """Show what each replica of a running job uses; at a terminal, until Ctrl-C."""
    from trireme.process.signals import Interrupted, from_a_terminal, handled, interrupt

    try:
        with handled(interrupt, from_a_terminal()):
            watch(lambda: _used(jobs.usage(place, name), "PID" if local else "NODE"), PAUSE)
    except Interrupted as interruption:  # the job goes on
        raise typer.Exit(128 + interruption.number) from None


def _used(replicas: "list[Usage]", place: str) -> list[str]:
    """Returns the lines of a table of what replicas use, and of GPUs where there are any."""
    asked = ["GPUS"] if any(replica.gpus for replica in replicas) else []
    busy = ["GPU USE"] if any(replica.gpu for replica in replicas) else []
    rows = [
        [
            *(replica.name, replica.state),
            *("-" if replica.cpu is None else f"{replica.cpu:.2f}",),
            *(amount(asked_for, "cpu") for asked_for in (replica.requests, replica.limits)),
            *("-" if replica.memory is None else f"{replica.memory / 2**30:.2f}Gi",),
            *(amount(asked_for, "memory") for asked_for in (replica.requests, replica.limits)),
            *(replica.gpus for _ in asked),
            *(replica.gpu or "-" for _ in busy),
            replica.place or "-",
        ]
        for replica in replicas
    ]
    amounts = ["CPU", "REQUEST", "LIMIT", "MEMORY", "REQUEST", "LIMIT"]
    return lines(["REPLICA", "STATE", *amounts, *asked, *busy, place], rows)


def amount(amounts: "Amounts", resource: str) -> str:
    """Returns what was asked for of a resource, as a person writes it."""
    from trireme.kubernetes.amounts import shown

    return shown(resource, amounts[resource]) if resource in amounts else "-"


@on_jobs
def open_tensorboard(jobs: Any, place: Any, name: JobName, port: tensorboard.Port = None) -> None:
    """Open TensorBoard with what a job's program has written for it."""
    tensorboard.show(f"job {name}", lambda folder: jobs.event_files(place, name, folder), port)
