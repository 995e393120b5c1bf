"""``trireme explain``: what is known of a run or a job, put together."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trireme.cli.job.options import JobName
from trireme.cli.job.places import on_jobs
from trireme.cli.output import Form, Output, show
from trireme.cli.target import on_target

if TYPE_CHECKING:
    from trireme.answers.explanations import Explanation
    from trireme.targets.base import Target

Bundle = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Also write FILE, a .zip for whoever helps: this page, logs, manifest, versions; "
        "without passwords, tokens and keys.",
    ),
]


@on_target()
def explain(
    target: "Target",
    run: Annotated[
        str,
        typer.Argument(
            metavar="[RUN|JOB]",
            help="A run, as 'trireme status' takes it, or a job without a pipeline; default: the "
            "newest run.",
            show_default=False,
        ),
    ] = "",
    bundle: Bundle = None,
    output: Output = Form.TEXT,
) -> None:
    """Put together what is known: what it waits for, why it failed, what was tried, what to do."""
    from trireme.targets import explaining

    _check(bundle)
    explanation = explaining.explain(target, run)
    if bundle:  # before what a reader such as head may end
        explaining.write_bundle(target, explanation, bundle)
        typer.echo(f"{bundle} has all of it", err=True)
    show(explanation, output, _draw)


@on_jobs
def explain_job(
    place: Any, local: bool, name: JobName, bundle: Bundle = None, output: Output = Form.TEXT
) -> None:
    """Put together what is known: what it waits for, why it failed, what was tried, what to do."""
    from trireme.explaining import jobs

    _check(bundle)
    explanation = jobs.here(place, name) if local else jobs.there(place, name)
    if bundle:
        write = jobs.bundle_here if local else jobs.bundle_there
        write(explanation, place, bundle)
        typer.echo(f"{bundle} has all of it", err=True)
    show(explanation, output, _draw)


def _check(file: Path | None) -> None:
    from trireme.explaining import bundle

    if file:
        bundle.check(file)


def _draw(explanation: "Explanation") -> None:
    from trireme.explaining import words

    for line in words.lines(explanation):
        typer.echo(line)
