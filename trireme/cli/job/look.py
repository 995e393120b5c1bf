"""Commands that show jobs: ``list``, ``status``, ``logs``, ``top``, ``tensorboard``."""

from contextlib import suppress
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trireme.cli import tensorboard
from trireme.cli.job.options import JobName
from trireme.cli.job.places import on_jobs, printer
from trireme.cli.output import Form, Output, line_by_line, show
from trireme.cli.waiting import For, Timeout, wait
from trireme.plain import plain
from trireme.terminal.tables import age, lines, table, watch

if TYPE_CHECKING:
    from trireme.answers.jobs import JobList, JobStatus, JobUse
    from trireme.observers.usage import Usage

STATES = ("running", "succeeded", "failed", "cancelled")
"""The states of jobs that can be waited for."""

PAUSE = 2.0  # seconds between two looks at what a job uses


@on_jobs
def list_jobs(answers: Any, place: Any, local: bool, output: Output = Form.TEXT) -> None:
    """List the jobs there are."""
    answer = answers.job_list(place)
    show(answer, output, _draw_list)
    if not answer.jobs and not local:
        from trireme.kubernetes import access

        access.check_namespace(place)
        typer.echo(f"no jobs in namespace {place.namespace}", err=True)


def _draw_list(answer: "JobList") -> None:
    rows = [
        [
            *(job.name, job.job_kind, job.state),
            job.replicas if job.running is None else f"{job.running}/{job.replicas}",
            *(age(job.created.timestamp()), job.reason),
        ]
        for job in answer.jobs
    ]
    table(["NAME", "KIND", "STATE", "REPLICAS", "AGE", "REASON"], rows)


@on_jobs
def status(
    answers: Any,
    place: Any,
    name: JobName,
    until: For = "",
    timeout: Timeout = None,
    output: Output = Form.TEXT,
) -> None:
    """Show a job, its replicas, and why they are so; with --for, when it is in a state."""
    now = answers.job_status(place, name)

    def look() -> tuple[str, bool]:
        nonlocal now
        now = answers.job_status(place, name)
        return now.state, now.has_ended

    reached = wait(look, until, timeout, STATES)
    show(now, output, _draw)
    raise typer.Exit(reached)


def _draw(answer: "JobStatus") -> None:
    is_here = answer.running is None
    how_far = (
        f"{answer.seconds:.0f} s" if is_here else f"{answer.running} of {answer.expected} running"
    )
    typer.echo(f"{answer.job_kind} {answer.name}: {answer.state}, {how_far}")
    if answer.reason:
        typer.echo(plain(answer.reason))
    if answer.progress:
        typer.echo(f"progress: {answer.progress.words}")
    if answer.goodput:
        typer.echo(f"goodput: {answer.goodput.words}")
    if is_here:
        typer.echo(
            f"replicas: {', '.join(replica.name for replica in answer.replicas) or 'none yet'}"
        )
        typer.echo(answer.directory)
        return
    table(
        ["REPLICA", "STATE", "RESTARTS", "NODE", "POD", "REASON"],
        [
            [row.name, row.state, row.restarts, row.node, row.pod, row.reason]
            for row in answer.replicas
        ],
    )
    table(
        ["CONDITION", "STATUS", "REASON", "MESSAGE"],
        [[row.type, row.status, row.reason, row.message] for row in answer.conditions],
    )
    table(
        ["TIME", "REASON", "EVENT"],
        [[row.time, row.reason, row.message] for row in answer.events],
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
    output: Output = Form.TEXT,
) -> None:
    """Show the output of a job's replicas, each line with its replica."""
    from trireme.answers.jobs import ReplicaLine

    written = line_by_line(output, lambda name, line: ReplicaLine(replica=name, line=line))
    lines = printer(needs_reader=True, written=written)
    with suppress(BrokenPipeError):
        jobs.logs(place, name, follow=follow, replica=replica, on_line=lines)


@on_jobs
def top(jobs: Any, place: Any, local: bool, name: JobName, output: Output = Form.TEXT) -> None:
    """Show what each replica of a running job uses; at a terminal, until Ctrl-C."""
    from trireme.process.signals import Interrupted, from_a_terminal, handled, interrupt

    def look() -> "JobUse":
        return _use(name, jobs.usage(place, name))

    if output is not Form.TEXT:
        show(look(), output)
        return
    try:
        with handled(interrupt, from_a_terminal()):
            watch(lambda: _lines(look(), "PID" if local else "NODE"), PAUSE)
    except Interrupted as interruption:  # the job goes on
        raise typer.Exit(128 + interruption.number) from None


def _use(name: str, replicas: "list[Usage]") -> "JobUse":
    from trireme.answers.answer import amounts
    from trireme.answers.jobs import JobUse, ReplicaUse

    return JobUse(
        name=name,
        replicas=[
            ReplicaUse(
                name=replica.name,
                state=replica.state,
                cpu=replica.cpu,
                memory=replica.memory,
                requests=amounts(replica.requests),
                limits=amounts(replica.limits),
                gpus=replica.gpus,
                gpu=replica.gpu,
                place=replica.place,
            )
            for replica in replicas
        ],
    )


def _lines(use: "JobUse", place: str) -> list[str]:
    """Returns the lines of a table of what replicas use, and of GPUs where there are any."""
    gpu_columns = ["GPUS"] if any(replica.gpus for replica in use.replicas) else []
    busy = ["GPU USE"] if any(replica.gpu for replica in use.replicas) else []
    rows = [
        [
            *(replica.name, replica.state),
            *("-" if replica.cpu is None else f"{replica.cpu:.2f}",),
            *(amount(asked_for, "cpu") for asked_for in (replica.requests, replica.limits)),
            *("-" if replica.memory is None else f"{replica.memory / 2**30:.2f}Gi",),
            *(amount(asked_for, "memory") for asked_for in (replica.requests, replica.limits)),
            *(replica.gpus for _ in gpu_columns),
            *(replica.gpu or "-" for _ in busy),
            replica.place or "-",
        ]
        for replica in use.replicas
    ]
    amounts = ["CPU", "REQUEST", "LIMIT", "MEMORY", "REQUEST", "LIMIT"]
    return lines(["REPLICA", "STATE", *amounts, *gpu_columns, *busy, place], rows)


def amount(amounts: dict[str, float], resource: str) -> str:
    """Returns what was asked for of a resource, as a person writes it."""
    from trireme.kubernetes.amounts import shown

    return shown(resource, Decimal(str(amounts[resource]))) if resource in amounts else "-"


@on_jobs
def open_tensorboard(jobs: Any, place: Any, name: JobName, port: tensorboard.Port = None) -> None:
    """Open TensorBoard with what a job's program has written for it."""
    tensorboard.show(f"job {name}", lambda folder: jobs.event_files(place, name, folder), port)
