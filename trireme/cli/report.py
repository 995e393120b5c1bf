"""A picture of a run: ``trireme report``."""

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trireme.cli.runs import RunName
from trireme.cli.target import on_target
from trireme.errors import InputError, TriremeError
from trireme.plain import as_file_name
from trireme.step_names import TRIAL, without_index
from trireme.targets.meant import meant

if TYPE_CHECKING:
    from trireme.report.picture import Picture, StepPicture
    from trireme.targets.base import Run, Target

Output = Annotated[
    Path | None,
    typer.Option(
        "-o", "--output", metavar="FILE", help="The page, or its folder; default: RUN.html here."
    ),
]


@on_target()
def report(target: "Target", run: RunName = "", output: Output = None) -> None:
    """Write a picture of a run, also of one that failed or is under way: a page of HTML."""
    from trireme.cli import pages
    from trireme.report import page

    picture = _picture(target, meant(target, run))
    picture.close()
    name = f"{as_file_name(picture.name, 'run')}.html"
    typer.echo(pages.write(page.render(picture), output or Path(name), name))


def _picture(target: "Target", name: str) -> "Picture":
    """Returns all that is known of a run: to where it runs, to MLflow, and to this machine."""
    from trireme.report import of_workspace
    from trireme.report.picture import Picture, StepPicture

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
    pictures = [
        StepPicture(
            step.name,
            step.state,
            began=step.began or None,
            ended=step.began + step.seconds if step.began and step.has_ended else None,
            result=step.result,
        )
        for step in target.told(found)
    ]
    trials = [step for step in pictures if not target.is_here and _is_trial(step)]
    picture.add(step for step in pictures if step not in trials)
    _add_mlflow(target, found, picture)
    _add_trials(picture, trials)
    if found.workspace and found.workspace.is_dir():
        tags, metrics = of_workspace.whole(found.workspace)
        picture.tags, picture.metrics = tags | picture.tags, metrics | picture.metrics
        picture.add(of_workspace.read(found.workspace))
    return picture


def _is_trial(step: "StepPicture") -> bool:
    return without_index(step.name) == TRIAL


def _add_trials(picture: "Picture", steps: "list[StepPicture]") -> None:
    """Adds what a cluster tells of the steps that make the trials, which MLflow has told of."""
    trials = [step for step in picture.steps.values() if _is_trial(step)]
    if len(trials) > len(steps):
        for step in steps:  # which has made several
            step.name = f"step {step.name}"
    for trial in trials:
        del picture.steps[trial.name]
    picture.add([*steps, *trials])


def _add_mlflow(target: "Target", run: "Run", picture: "Picture") -> None:
    """Adds what MLflow has, or says why that is not in the picture."""
    from trireme.report import of_mlflow
    from trireme.tracking import store
    from trireme.tracking.client import client, hurry

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
    from trireme.report import of_mlflow
    from trireme.report.picture import Picture
    from trireme.tracking import store
    from trireme.tracking.client import client, hurry

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
