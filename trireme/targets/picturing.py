"""The picture of a run of any target: what it tells, MLflow has recorded, and this machine has."""

import os
import time
from typing import TYPE_CHECKING, Any

from trireme.errors import InputError, TriremeError
from trireme.pages import REPORT
from trireme.pipeline import catalog
from trireme.report import of_mlflow, of_workspace
from trireme.report.picture import MODEL, Picture, StepPicture, commands, describe_given
from trireme.step_names import TRIAL, without_index
from trireme.tracking import store
from trireme.tracking.client import client, hurry

if TYPE_CHECKING:
    from trireme.targets.base import Run, Target


def picture(target: "Target[Any]", name: str) -> Picture:
    """Returns all that is known of a run: to where it runs, to MLflow, and to this machine."""
    try:
        run = target.find(name)
    except InputError:
        if target.is_here and (drawing := _of_mlflow_alone(name)):
            return drawing  # of another machine or a cluster, or pruned
        raise
    drawing = Picture(run.name, time.time(), run.state, run.created, message=run.message)
    if not drawing.is_under_way:
        drawing.ended = run.ended_at
        error = target.error(run)
        drawing.message = str(error) if error else ""
    pictures = [
        StepPicture(
            step.name,
            step.state,
            began=step.began or None,
            ended=step.began + step.seconds if step.began and step.has_ended else None,
            result=step.result,
        )
        for step in target.told(run)
    ]
    trials = [step for step in pictures if not target.is_here and _is_trial(step)]
    drawing.add(step for step in pictures if step not in trials)
    _add_mlflow(target, run, drawing)
    _add_trials(drawing, trials)
    if run.workspace and run.workspace.is_dir():
        tags, metrics = of_workspace.whole(run.workspace)
        drawing.tags, drawing.metrics = tags | drawing.tags, metrics | drawing.metrics
        drawing.add(of_workspace.read(run.workspace))
        if (file := run.workspace.resolve() / REPORT).exists():
            links = {what: url for what, url in drawing.links.items() if what.startswith("MLflow")}
            drawing.links = {MODEL: str(file)} | links
    if inputs := target.given(run):
        describe_given(drawing, *inputs)
    else:
        _add_defaults(drawing)
    drawing.commands = commands(
        drawing.name, drawing.state, drawing.tags, "" if target.is_here else target.name
    )
    return drawing


def _add_defaults(picture: Picture) -> None:
    """Adds the defaults of parameters that MLflow has told, as Python writes them."""
    if picture.params and picture.tags.get("pipeline") in catalog.PIPELINES:
        declared = catalog.load(picture.tags["pipeline"]).parameters
        picture.defaults = {name: str(parameter.default) for name, parameter in declared.items()}


def _is_trial(step: StepPicture) -> bool:
    return without_index(step.name) == TRIAL


def _add_trials(picture: Picture, steps: list[StepPicture]) -> None:
    """Adds what a cluster tells of the steps that make the trials, which MLflow has told of."""
    trials = [step for step in picture.steps.values() if _is_trial(step)]
    if len(trials) > len(steps):
        for step in steps:  # which has made several
            step.name = f"step {step.name}"
    for trial in trials:
        del picture.steps[trial.name]
    picture.add([*steps, *trials])


def _add_mlflow(target: "Target[Any]", run: "Run", picture: Picture) -> None:
    """Adds what MLflow has, or says why that is not in the picture."""
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


def _of_mlflow_alone(name: str) -> Picture | None:
    """Returns the picture of a run that only MLflow knows; None where it knows none."""
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
    _add_defaults(picture)
    if picture.state == "FINISHED":  # elsewhere, where it might be resumed, is not known
        picture.commands = commands(picture.name, picture.state, picture.tags)
    return picture
