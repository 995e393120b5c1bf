"""A picture of a run: ``trireme report``."""

import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trireme.components.errors import InputError, TriremeError
from trireme.pipelines.cli.runs import RunName
from trireme.pipelines.cli.target import on_target

if TYPE_CHECKING:
    from trireme.components.report.picture import Picture
    from trireme.pipelines.targets.base import Run, Target

_UNUSUAL = re.compile(r"[^\w.-]+")

Output = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="FILE", help="The page; default: RUN.html here."),
]


@on_target()
def report(target: "Target", run: RunName, output: Output = None) -> None:
    """Write a picture of a run, also of one that failed or is under way: a page of HTML."""
    from trireme.components.report import page
    from trireme.components.whole_file import write_whole

    picture = _picture(target, run)
    picture.close()
    file = output or Path(f"{_UNUSUAL.sub('-', picture.name).strip('.-') or 'run'}.html")
    try:
        write_whole(file, page.render(picture))
    except OSError as error:
        raise InputError(f"-o {file}: cannot be written: {error.strerror}") from None
    typer.echo(file)


def _picture(target: "Target", name: str) -> "Picture":
    """Returns all that is known of a run: to where it runs, to MLflow, and to this machine."""
    from trireme.components.report import of_workspace
    from trireme.components.report.picture import Picture, StepPicture

    try:
        found = target.find(name)
    except InputError:
        if target.is_here and (picture := _of_mlflow_alone(name)):
            return picture  # of another machine or a cluster, or pruned
        raise
    picture = Picture(found.name, time.time(), found.state, found.created, message=found.message)
    if not picture.is_under_way:
        picture.ended = found.ended_at
        error = target.error(found)
        picture.message = str(error) if error else ""
    steps = target.steps(found)
    results = target.results(found, steps)
    picture.add(
        StepPicture(
            step.name,
            step.state,
            began=step.began or None,
            ended=step.began + step.seconds if step.began and step.has_ended else None,
            result=results.get(step.name, ""),
        )
        for step in steps
    )
    _add_mlflow(target, found, picture)
    if found.workspace and found.workspace.is_dir():
        tags, metrics = of_workspace.whole(found.workspace)
        picture.tags, picture.metrics = tags | picture.tags, metrics | picture.metrics
        picture.add(of_workspace.read(found.workspace))
    return picture


def _add_mlflow(target: "Target", run: "Run", picture: "Picture") -> None:
    """Adds what MLflow has, or says why that is not in the picture."""
    from trireme.components.report import of_mlflow
    from trireme.components.tracking import store
    from trireme.components.tracking.client import client, hurry

    try:
        if not target.is_here and "MLFLOW_TRACKING_URI" not in os.environ:
            raise InputError("MLFLOW_TRACKING_URI is not set")
        store.use()
        hurry()
        try:
            if recorded := of_mlflow.find(run.name, run.created):
                of_mlflow.describe(recorded, picture)
        except client.refusal as error:
            raise TriremeError(store.reason_of(error)) from None
    except TriremeError as error:
        picture.notes.append(f"What MLflow has recorded is not in this picture: {error}")


def _of_mlflow_alone(name: str) -> "Picture | None":
    """Returns the picture of a run that only MLflow knows; None where it knows none."""
    from trireme.components.report import of_mlflow
    from trireme.components.report.picture import Picture
    from trireme.components.tracking import store
    from trireme.components.tracking.client import client, hurry

    try:
        store.use()
    except InputError:
        return None
    hurry()
    try:
        if not (recorded := of_mlflow.find(name)):
            return None
        picture = Picture(recorded.info.run_name or name, time.time())
        of_mlflow.describe(recorded, picture)
    except client.refusal as error:
        raise TriremeError(f"MLflow refuses: {store.reason_of(error)}") from None
    picture.message = recorded.data.tags.get("error", "")
    return picture
