"""``trireme job advise``: what to change in a job, from a minute of it on this machine."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trireme.cli.job.description import described
from trireme.cli.job.look import amount
from trireme.cli.job.options import File
from trireme.cli.job.places import jobs_home
from trireme.cli.target import Env, SecretEnv, Workspace, variables
from trireme.errors import InputError, TriremeError
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
) -> None:
    """Run a job on this machine for a minute, measure it, end it, and say what to change."""
    from trireme.cost import prices
    from trireme.observers.advice import at_end, words
    from trireme.observers.advice.suggestions import suggestions
    from trireme.runner.local import jobs, stacks, usage
    from trireme.runner.local.looking import Enough, Look

    if why := stacks.why_not():
        raise InputError(f"nothing can be measured: {why}")
    given = described(file, workspace, here=True, connect=None, **variables(env, secret_env))
    job = given.model_copy(update={"name": f"{given.name}-advise"})
    manifest = jobs.check(jobs_home(), job)
    known = prices.read()
    look = Look(seconds, job.world_size)
    with jobs.make_directory(jobs_home(), job.name) as directory:
        try:
            # What replicas print is shown where the job fails.
            jobs.run(_apart(job, directory), directory, [look])
        except Enough:
            pass
        finally:
            shutil.rmtree(directory, ignore_errors=True)
    looking = look.looking
    if looking is None or looking.first_step is None:
        why = looking.problem if looking and looking.problem else "no step of a training was seen"
        raise TriremeError(f"nothing could be measured before the job ended: {why}")
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
    for line in words.about(measured):
        typer.echo(line)
    _show(measured)
    typer.echo(words.verdict(measured))
    for suggestion in suggestions(measured, known):
        typer.echo(f"- {suggestion}")


def _apart(job: "TrainingJob", directory: Path) -> "TrainingJob":
    """Returns a job that leaves alone what a training of it has left, and logs nothing of it."""
    places = {name: str(directory / name) for name in ("checkpoint_dir", "model_dir")}
    return job.model_copy(update=places | {"tracking": None, "metrics_port": None})


def _show(measured: "Measured") -> None:
    from trireme.observers.advice.frames import KINDS
    from trireme.observers.advice.measured import role_of

    def row(name: str, use: "Use") -> list[str]:
        asked = measured.asked[role_of(name)]
        shares = [f"{use.share(kind):.0%}" if use.looks else "-" for kind in KINDS]
        cpu = "-" if use.cpu is None else f"{use.cpu:.2f}"
        memory = "-" if use.memory is None else f"{use.memory / 2**30:.2f}Gi"
        requests = [amount(asked.requests, name) for name in ("cpu", "memory")]
        return [name, *shares, cpu, requests[0], memory, requests[1]]

    head = ["REPLICA", *(kind.upper() for kind in KINDS), "CPU", "REQUEST", "MEMORY", "REQUEST"]
    table(head, [row(name, use) for name, use in measured.replicas.items()])
