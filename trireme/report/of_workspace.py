"""The picture of a run from its folder on this machine: also of steps that are under way."""

import math
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from trireme.errors import TriremeError
from trireme.observers import goodput, timeline
from trireme.observers.advice import TAG as ADVICE
from trireme.observers.goodput import kept, ledger
from trireme.observers.preflight import report as preflight
from trireme.report.picture import Curve, Picture, StepPicture, numbers, requested_by
from trireme.text import yaml_text
from trireme.tracking import journal

JOB = "job.yaml"
"""The manifest of a training job, beside its replicas' logs."""

SIZE_LIMIT = 16 << 20  # bytes of a manifest that is read


def picture(name: str, workspace: Path, state: str) -> Picture:
    """Returns the picture of a run as its workspace knows it."""
    result = Picture(name, time.time(), state)
    result.tags, result.metrics = whole(workspace)
    result.add(read(workspace))
    return result


def read(workspace: Path) -> Iterator[StepPicture]:
    """Yields the steps that have recorded something."""
    for name in journal.steps(workspace):
        try:
            yield _step(workspace, name)
        except TriremeError:  # a journal that a power cut has damaged
            continue


def whole(workspace: Path) -> tuple[dict[str, str], dict[str, float]]:
    """Returns the tags and the metrics of the whole run."""
    tags: dict[str, str] = {}
    metrics: dict[str, float] = {}
    records: list[dict[str, Any]] = []
    for name in journal.steps(workspace):
        with suppress(TriremeError):  # a journal that a power cut has damaged
            records += journal.read(workspace, name)
    for record in sorted(records, key=lambda record: float(record["time"])):  # the last sum counts
        tags |= record.get("tags", {})
        metrics |= numbers(record.get("headline", {}) | record.get("total", {}))
    return tags, metrics


def describe_training(step: StepPicture, folder: Path, job: Path | None = None) -> None:
    """Adds what the folder of a training job's logs tells of its replicas.

    Args:
        job: Its manifest, where that is not beside them.
    """
    step.replicas = timeline.read(folder / timeline.NAME)
    if written := kept.read(folder / goodput.NAME):
        step.metrics |= ledger.metrics(written)
    step.requested = requested_by(manifest(job or folder / JOB))
    step.preflight = preflight.read(folder / preflight.NAME)


def _step(workspace: Path, name: str) -> StepPicture:
    step = StepPicture(name)
    step.began, step.ended = journal.span_of(workspace, name)
    folder = None
    for record in journal.read(workspace, name):
        step.params |= record.get("params", {})
        step.metrics |= numbers(record.get("metrics", {}) | record.get("headline", {}))
        step.advice = str(record.get("tags", {}).get(ADVICE, step.advice))
        step.result = record.get("summary", step.result)
        step.state = record.get("end", step.state)
        if "error" in record:
            step.error = str(record["error"].get("message", ""))
            step.last_lines = str(record["error"].get("detail", ""))
        if Path(record.get("artifact", "")).name == timeline.NAME:
            folder = Path(record["artifact"]).parent
    for called, (unit, values) in journal.curves(workspace, name).items():
        *_, last = values.values()
        step.metrics = numbers({called: last}) | step.metrics
        if len(values) > 1 and any(map(math.isfinite, values.values())):
            at = [float(step) for step in values]
            step.told[called] = Curve(at, [*values.values()], unit)
    if folder and folder.is_dir():
        describe_training(step, folder)
    return step


def manifest(file: Path) -> dict[str, Any]:
    """Returns the manifest in a file that a program can write to; empty where it is none."""
    try:
        if file.stat().st_size > SIZE_LIMIT:
            return {}
        first, _, second = file.read_text(errors="replace").partition("\n---\n")
        content = yaml_text.parse(second or first, str(file))
        if second and isinstance(content, dict):  # a TrainJob, after its runtime
            content["runtime"] = yaml_text.parse(first, str(file))
    except (OSError, TriremeError):
        return {}
    return content if isinstance(content, dict) else {}
