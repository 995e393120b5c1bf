"""``trireme job advise``: what to change in a job, from a minute of it on this machine."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trireme.answers.answer import amounts
from trireme.answers.comparisons import JobAdvice, MeasuredReplica
from trireme.cli.job.description import described
from trireme.cli.job.look import amount
from trireme.cli.job.options import File
from trireme.cli.output import Form, Output, show
from trireme.cli.target import Env, SecretEnv, Workspace, variables
from trireme.errors import InputError, TriremeError
from trireme.files.home import jobs_home
from trireme.terminal.tables import table

if TYPE_CHECKING:
    from trireme.job.job import TrainingJob
    from trireme.observers.advice.measured import Measured, Use


def advise(
    file: File = None,
    seconds: Annotated[
        float, typer.Option(min=5, max=3600, help="How long to measure after the first step.")
    ] = 60,
    env: Env = None,
    secret_env: SecretEnv = None,
    workspace: Workspace = "",
    output: Output = Form.TEXT,
) -> None:
    """Run a job on this machine for a minute, measure it, end it, and say what to change."""
    from trireme.cost import prices
    from trireme.observers.advice import at_end, words
    from trireme.observers.advice.suggestions import suggestions
    from trireme.runner.local import jobs, stacks, usage
    from trireme.runner.local.looking import Enough, Look

    if reason := stacks.why_not():
        raise InputError(f"nothing can be measured: {reason}")
    base_job = described(file, workspace, here=True, connect=None, **variables(env, secret_env))
    job = base_job.model_copy(update={"name": f"{base_job.name}-advise"})
    manifest = jobs.check(jobs_home(), job)
    price_table = prices.read()
    observer = Look(seconds, job.world_size)
    with jobs.make_directory(jobs_home(), job.name) as directory:
        try:
            # What replicas print is shown where the job fails.
            jobs.run(_apart(job, directory), directory, [observer])
        except Enough:
            pass
        finally:
            shutil.rmtree(directory, ignore_errors=True)
    looking = observer.looking
    if looking is None or looking.first_step is None:
        reason = (
            looking.problem if looking and looking.problem else "no step of a training was seen"
        )
        raise TriremeError(f"nothing could be measured before the job ended: {reason}")
    about = at_end.about(job, manifest, has_gpu=usage.has_gpu(), cores=usage.cores())
    measured = replace(
        about,
        replicas=looking.uses(),
        idle=looking.idle,
        gpus=looking.gpus(),
        has_tf_data=looking.has_tf_data,
        by_gradients=looking.by_gradients,
        least=min(about.least, seconds / 2),
    )
    answer = JobAdvice(
        measured=list(words.about(measured)),
        replicas=[_answer(measured, name, use) for name, use in measured.replicas.items()],
        verdict=words.verdict(measured),
        suggestions=[str(suggestion) for suggestion in suggestions(measured, price_table)],
    )
    show(answer, output, _draw)


def _apart(job: "TrainingJob", directory: Path) -> "TrainingJob":
    """Returns a job that leaves alone what a training of it has left, and logs nothing of it."""
    directories = {name: str(directory / name) for name in ("checkpoint_dir", "model_dir")}
    return job.model_copy(update=directories | {"tracking": None, "metrics_port": None})


def _answer(measured: "Measured", name: str, use: "Use") -> MeasuredReplica:
    from trireme.observers.advice.frames import KINDS
    from trireme.observers.advice.measured import role_of

    return MeasuredReplica(
        name=name,
        shares={kind: use.share(kind) if use.looks else None for kind in KINDS},
        cpu=use.cpu,
        memory=use.memory,
        requests=amounts(measured.asked[role_of(name)].requests),
    )


def _draw(answer: JobAdvice) -> None:
    from trireme.observers.advice.frames import KINDS

    for line in answer.measured:
        typer.echo(line)
    head = ["REPLICA", *(kind.upper() for kind in KINDS), "CPU", "REQUEST", "MEMORY", "REQUEST"]
    table(head, map(_row, answer.replicas))
    typer.echo(answer.verdict)
    for suggestion in answer.suggestions:
        typer.echo(f"- {suggestion}")


def _row(replica: MeasuredReplica) -> list[str]:
    shares = ["-" if share is None else f"{share:.0%}" for share in replica.shares.values()]
    cpu = "-" if replica.cpu is None else f"{replica.cpu:.2f}"
    memory = "-" if replica.memory is None else f"{replica.memory / 2**30:.2f}Gi"
    requests = [amount(replica.requests, name) for name in ("cpu", "memory")]
    return [replica.name, *shares, cpu, requests[0], memory, requests[1]]
