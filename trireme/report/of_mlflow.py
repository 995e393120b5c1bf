"""The picture of a run from what MLflow has recorded of it and its steps."""

import math
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from trireme.observers import timeline
from trireme.observers.advice import TAG as ADVICE
from trireme.observers.preflight import report as preflight
from trireme.pages import REPORT
from trireme.report import of_workspace
from trireme.report.picture import MODEL, Curve, Picture, StepPicture, numbers, state_of
from trireme.tracking import journal, store
from trireme.tracking.abandoned_runs import OF_A_PIPELINE
from trireme.tracking.client import PARENT, client

if TYPE_CHECKING:
    from mlflow.entities import Run

HISTORIES = 400  # metrics whose history MLflow is asked for


def find(name: str, created: float | None = None) -> "Run | None":
    """Returns the run of a pipeline, by name or id.

    Args:
        created: When it was made, in seconds since the epoch; of several runs of one name, that
            which began next to it is meant. Without, the latest.
    """
    ids = client.experiment_ids()
    quoted = name.replace("'", "")
    runs = [
        run
        for attribute in ("run_name", "run_id")
        for run in client.search_runs(ids, f"attributes.{attribute} = '{quoted}'")
        if OF_A_PIPELINE & run.data.tags.keys() and PARENT not in run.data.tags
    ]

    def distance(run: "Run") -> float:
        began = run.info.start_time / 1000
        return -began if created is None else abs(began - created)

    return min(runs, key=distance, default=None)


def describe(run: "Run", picture: Picture) -> None:
    """Adds what MLflow knows of a run to its picture."""
    picture.tags = run.data.tags | picture.tags
    picture.metrics = numbers(run.data.metrics) | picture.metrics
    picture.params = picture.params or run.data.params
    picture.links |= {store.called("MLflow", store.uri()): store.page_of(store.uri(), *_place(run))}
    picture.state = picture.state or state_of(run.info.status)
    picture.began = picture.began or run.info.start_time / 1000
    if picture.ended is None and run.info.end_time:
        picture.ended = run.info.end_time / 1000
    # Trainings first: they have the curves that a person wants to see.
    steps = sorted(_below(run), key=lambda step: "world_size" not in step.data.params)
    remaining = HISTORIES
    for step in steps:
        names = sorted(step.data.metrics)
        step_picture = _step(step)
        step_picture.curves = _curves(step.info.run_id, names[:remaining])
        picture.add([step_picture])
        remaining -= len(names[:remaining])
        if "world_size" not in step.data.params and _has_report(step):
            page = store.page_of(store.uri(), *_place(step)).removesuffix(store.TRAINING)
            picture.links |= {store.called(MODEL, store.uri()): f"{page}/artifacts/{REPORT}"}
    if sum(len(step.data.metrics) for step in steps) > HISTORIES:
        picture.notes.append(f"Only of {HISTORIES} metrics was the history read")


def _place(run: "Run") -> tuple[str, str]:
    return run.info.experiment_id, run.info.run_id


def _has_report(step: "Run") -> bool:
    """Tells whether a step has made the report on the model."""
    return any(artifact.path == REPORT for artifact in client.list_artifacts(step.info.run_id))


def _below(run: "Run") -> "Iterator[Run]":
    """Yields the runs of a run's steps, also those in the runs of loops, without those."""
    experiment, runs = run.info.experiment_id, [run]
    for step in runs:
        below = list(client.nested_in(step, [experiment]))
        runs += below
        if not below and step is not run:
            yield step


def _step(run: "Run") -> StepPicture:
    info, tags = run.info, run.data.tags
    has_ended = info.end_time and info.status != "RUNNING"  # of an attempt before, it may be
    step_picture = StepPicture(
        info.run_name or info.run_id,
        state=state_of(info.status),
        began=info.start_time / 1000,
        ended=info.end_time / 1000 if has_ended else None,
        error=tags.get("error", ""),
        last_lines=tags.get(journal.LAST_LINES, ""),
        advice=tags.get(ADVICE, ""),
        params=dict(run.data.params),
        metrics=numbers(run.data.metrics),
    )
    if "world_size" in run.data.params:
        with tempfile.TemporaryDirectory() as directory:
            _bring(info.run_id, Path(directory))
            of_workspace.describe_training(step_picture, Path(directory))
    return step_picture


def curves_of(step: "Run") -> dict[str, Curve]:
    """Returns the curves of what a step has logged."""
    return _curves(step.info.run_id, sorted(step.data.metrics)[:HISTORIES])


def _bring(run_id: str, folder: Path) -> None:
    """Brings what a training has left beside its replicas' logs."""
    present = {artifact.path: artifact.file_size or 0 for artifact in client.list_artifacts(run_id)}
    for name in (timeline.NAME, of_workspace.JOB, preflight.NAME):
        if name in present and present[name] <= of_workspace.SIZE_LIMIT:
            client.download_artifacts(run_id, name, str(folder))


def _curves(run_id: str, names: list[str]) -> dict[str, Curve]:
    """Returns the metrics that have more than one value."""
    curves = {}
    for name in names:
        # Of a step that was repeated after a restart the last value counts.
        points = sorted(
            client.get_metric_history(run_id, name), key=lambda point: (point.step, point.timestamp)
        )
        if len(points) < 2:
            continue
        by_step = {point.step: point.value for point in points}
        if len(by_step) > 1:
            curves[name] = Curve([float(step) for step in by_step], list(by_step.values()))
        else:
            began = points[0].timestamp
            seconds = [(point.timestamp - began) / 1000 for point in points]
            curves[name] = Curve(seconds, [point.value for point in points], "s")
    return {name: curve for name, curve in curves.items() if any(map(math.isfinite, curve.values))}
