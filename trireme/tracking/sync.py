"""Bring a step's journal into MLflow."""

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from itertools import count, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import unquote, urlsplit

from trireme import progress
from trireme.errors import StepFailed
from trireme.files.whole_file import no_room, write_whole
from trireme.text.say import say
from trireme.tracking import environment, journal, unsent_metrics
from trireme.tracking.batch import NAME_LIMIT, Batch, accepted, log
from trireme.tracking.client import client, once, patiently
from trireme.tracking.store import reason_of

if TYPE_CHECKING:
    import numpy as np
    from mlflow import MlflowClient
    from mlflow.entities import Metric

TAG_LIMIT = 4000  # characters of a tag; MLflow takes 8,000, and cuts the rest

_ALONE = {"artifact", "unsent", "dataset", "model"}
"""Records that lead to calls of their own."""

READ = "metrics.read"
"""The tag of a training's run that names the metrics that its program has not logged itself; where
they are too many for one tag, those after it are called ``metrics.read.2`` and so on."""

PROGRESS = "progress"
"""The tag of a training's run that tells how far it is."""

DIGEST_LIMIT = 36  # characters of a dataset's digest that MLflow keeps
LINEAGE = (
    "git.commit",
    "git.url",
    "trainers.version",
    "dataset.fingerprint",
    "dataset.uri",
    "base_model.commit",
    "base_model.fingerprint",
    "base_model.license",
    "base_model.uri",
    "base_model.version",
    "image",
    "training.inputs",
)
"""Tags of a run that the version of the model gets, too."""


@dataclass(frozen=True)
class StepRun:
    """A step's MLflow run."""

    step_id: str
    pipeline_id: str

    @classmethod
    def from_environment(cls) -> Self:
        """Returns the run that MLFLOW_RUN_ID names, as Kubeflow Pipelines' plugin sets it."""
        step_id = os.environ["MLFLOW_RUN_ID"]
        # Kubeflow's plugin opens runs for conditions, loops and exit handlers, too.
        return cls(step_id, client.whole(client.get_run(step_id)).info.run_id)


def pipeline_run() -> str:
    """Returns the id of the whole pipeline's run, of which that of this step is a part."""
    return environment.announced_pipeline_run() or StepRun.from_environment().pipeline_id


def sync(
    workspace: Path, step: str, run: StepRun, resources: dict[str, float] | None = None
) -> None:
    """Brings what a step has recorded and MLflow does not have yet into MLflow.

    Args:
        resources: What the step has used, for who does not find that in its journal.
    """
    mark = journal.synced_path(workspace, step)
    done = _marked(mark)
    records = journal.read(workspace, step)
    new, kept_out, units = records[done:], None, dict[str, str]()
    batch = Batch()
    for number, record in enumerate(new, start=done + 1):
        if record.keys() & _ALONE:
            batch.send()  # first: a model gets the tags of its run
            write_whole(mark, str(number - 1))
            _send_files(record, run, workspace)
            write_whole(mark, str(number))
            continue
        if "points" in record:
            if kept_out is None:
                units = journal.units(records)
                kept_out = _logged_otherwise(run.step_id, records, units)
            points = journal.points_in(record, units)
            batch.add_points(run.step_id, (point for point in points if point[0] not in kept_out))
        else:
            _add(record, run, batch)
        if batch.is_full:
            batch.send()
            write_whole(mark, str(number))
    if now := progress.read(journal.progress_path(workspace, step)):
        batch.add(run.step_id, tags={PROGRESS: now.words})
    batch.add(run.step_id, metrics=resources)
    batch.send()
    if new:
        write_whole(mark, str(done + len(new)))


def _logged_otherwise(run_id: str, records: list[dict[str, Any]], names: Iterable[str]) -> set[str]:
    """Returns which metrics a step's run has, or gets, that are not those read of its program.

    The program has ended, so it has logged all that it logs itself.

    Args:
        told: Those that were read.
    """
    data = client.get_run(run_id).data
    read_before = _read_before(data.tags)
    others = data.metrics.keys() - read_before.keys()
    others |= {
        name
        for record in records
        for kind in ("metrics", "headline")
        for name in record.get(kind, {})
    }
    kept_out = {name for name in names if accepted(name) in others}
    # Told before they are there: else this would take them for the program's own another time.
    read = dict.fromkeys(accepted(name) for name in names if name not in kept_out)
    if read.keys() - read_before.keys():
        log(run_id, tags=_naming([*(read_before | read)]))
    return kept_out


def _read_before(tags: dict[str, str]) -> dict[str, None]:
    """Returns the names in the tags that ``_naming`` makes, in their order."""
    tags_there = takewhile(tags.__contains__, map(_tag, count(1)))
    return dict.fromkeys(name for tag in tags_there for name in tags[tag].split(", "))


def _naming(names: list[str]) -> dict[str, str]:
    """Returns tags that name metrics, none of them longer than MLflow keeps whole."""
    tags = {_tag(1): names[0]}
    for name in names[1:]:
        last, more = _tag(len(tags)), f", {name}"
        if len(tags[last]) + len(more) > TAG_LIMIT:
            tags[_tag(len(tags) + 1)] = name
        else:
            tags[last] += more
    return tags


def _tag(number: int) -> str:
    return READ if number == 1 else f"{READ}.{number}"


def bring_progress(workspace: Path, step: str, run_id: str) -> None:
    """Brings how far a step's training is, if that can be done at once."""
    from mlflow import MlflowClient

    if now := progress.read(journal.progress_path(workspace, step)):
        with suppress(Exception):  # another time
            MlflowClient().set_tag(run_id, PROGRESS, now.words)


def is_whole(workspace: Path, step: str) -> bool:
    """Whether MLflow has all that a step has recorded."""
    return _marked(journal.synced_path(workspace, step)) >= len(journal.read(workspace, step))


def _marked(mark: Path) -> int:
    """Returns how much MLflow has, as a file tells."""
    return int(mark.read_text()) if mark.exists() else 0


def _add(record: dict[str, Any], run: StepRun, batch: Batch) -> None:
    """Adds a record to what is sent together."""
    at = int(record["time"] * 1000)
    run_ids = {run.step_id, run.pipeline_id}
    if "params" in record:
        batch.add(run.step_id, params=record["params"])
    elif "run_params" in record:
        # MLflow lets no parameter change, and the pipeline may have one that is called so.
        recorded = client.get_run(run.pipeline_id).data.params
        new = {name: value for name, value in record["run_params"].items() if name not in recorded}
        batch.add(run.pipeline_id, params=new)
    elif "metrics" in record:
        batch.add(run.step_id, metrics=record["metrics"], at=at)
    elif "headline" in record:
        for run_id in run_ids:
            batch.add(run_id, metrics=record["headline"], at=at)
    elif "total" in record:
        batch.add(run.pipeline_id, metrics=record["total"], at=at)
    elif "tags" in record:
        for run_id in run_ids:
            batch.add(run_id, tags=record["tags"])
    elif "error" in record:
        for run_id in run_ids if record["error"]["is_fatal"] else {run.step_id}:
            batch.add(run_id, tags={"error": record["error"]["message"]})
        if detail := record["error"]["detail"]:
            batch.add(run.step_id, tags={journal.LAST_LINES: detail[-TAG_LIMIT:]})


def _send_files(record: dict[str, Any], run: StepRun, workspace: Path) -> None:
    """Sends what a record names: files, a dataset, a model."""
    if "artifact" in record:
        _log_artifact(Path(record["artifact"]), record["folder"], run)
        if record["folder"] == journal.MODEL:
            log(run.pipeline_id, tags={journal.TRAINING: run.step_id})
    elif "unsent" in record:
        file = Path(record["unsent"])
        for metrics in unsent_metrics.batches(file):
            _log_metrics(file, run.step_id, metrics)
    elif "dataset" in record:
        for run_id in {run.step_id, run.pipeline_id}:
            _log_dataset(run_id, **record["dataset"])
    elif "model" in record:
        registered = _log_model(run, **record["model"])
        journal.registered_path(workspace).write_text(json.dumps(registered))


def _log_metrics(file: Path, run_id: str, metrics: list["Metric"]) -> None:
    """Sends what a program has left; of what it has written nothing stops the step's record."""
    from mlflow import MlflowClient

    try:
        patiently(lambda: MlflowClient().log_batch(run_id, metrics=metrics))
    except client.refusal as error:
        if no_room(error):
            raise
        say(f"warning: MLflow refuses metrics in {file}: {reason_of(error)}")


def _log_artifact(path: Path, folder: str, run: StepRun) -> None:
    if path.is_dir():
        client.log_artifacts(run.step_id, str(path), folder or None)
    elif path.is_file() and not (path.suffix == ".log" and _linked(path, folder, run)):
        client.log_artifact(run.step_id, str(path), folder or None)


def _linked(log: Path, folder: str, run: StepRun) -> bool:
    """Links a log, which may be large, to where artifacts are files of this machine."""
    # Nobody writes to it any more: another attempt has a file of its own.
    root = client.get_run(run.step_id).info.artifact_uri
    if root.startswith("file://"):
        root = unquote(urlsplit(root).path)
    if not root.startswith("/"):
        return False
    directory = Path(root, folder)
    partial = directory / f"{log.name}.partial"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        partial.unlink(missing_ok=True)
        partial.hardlink_to(log)
        partial.replace(directory / log.name)
        partial.unlink(missing_ok=True)  # where that is the same file already
    except OSError:  # as of another disk
        return False
    return True


def _log_dataset(run_id: str, uri: str, fingerprint: str, context: str, **profile: int) -> None:
    """Logs a dataset as a run's input, as ``mlflow.log_input`` does for one in memory."""
    from mlflow.entities import Dataset, DatasetInput, InputTag
    from mlflow.utils.mlflow_tags import MLFLOW_DATASET_CONTEXT

    name = uri.rstrip("/").rpartition("/")[2] or uri
    dataset = Dataset(
        name=name[:NAME_LIMIT],
        digest=fingerprint.rpartition(":")[2][:DIGEST_LIMIT],
        source_type=uri.partition(":")[0] if "://" in uri else "local",
        source=json.dumps({"uri": uri}),
        profile=json.dumps(profile | {"fingerprint": fingerprint}),
    )
    used = [InputTag(MLFLOW_DATASET_CONTEXT, context)]
    client.log_inputs(run_id, datasets=[DatasetInput(dataset, used)])


def _log_model(
    run: StepRun, name: str, tags: dict[str, str], promote: bool, champion: str, **files: str
) -> dict[str, str]:
    """Logs a model and registers it, tagged with its lineage.

    Args:
        files: ``onnx`` and ``sample``, or ``files``; see ``journal.log_model``, ``log_package``.
    """
    import mlflow

    from trireme.tracking import registry

    pipeline_run = client.get_run(run.pipeline_id)
    # Without this MLflow puts the model's files below whatever folder we happen to be in.
    mlflow.set_experiment(experiment_id=pipeline_run.info.experiment_id)
    lineage = {key: value for key, value in pipeline_run.data.tags.items() if key in LINEAGE} | {
        key: f"{value:.6g}"
        for key, value in pipeline_run.data.metrics.items()
        if not key.startswith((journal.OF_TRAINING, journal.GOODPUT))
    }
    # On the pipeline's run, whose page then shows the model and its version.
    log_files = _log_package if "files" in files else _log_onnx
    uri = log_files(pipeline_run, **files)
    tags = tags | lineage | {"pipeline_run": run.pipeline_id}
    tags[registry.RUN_NAME] = pipeline_run.info.run_name

    def find(client: "MlflowClient") -> Any:
        versions = client.search_model_versions(f"run_id = '{run.pipeline_id}'")
        return next((version for version in versions if version.source == uri), None)

    registered = once(lambda _: mlflow.register_model(uri, name, tags=tags), find)
    version = str(registered.version)
    log(run.pipeline_id, tags={"model": name, "model.version": version})
    late = _take_part(run, name, version, champion) if promote else ""
    alias = registry.CHAMPION if promote and not late else registry.CHALLENGER
    if alias == registry.CHALLENGER:
        registry.challenge(name, version)
    return {"model": name, "version": version, "alias": alias, "late": late}


def _log_onnx(run: Any, onnx: str, sample: str) -> str:
    """Logs an ONNX model with its signature; returns its URI."""
    import importlib.metadata

    import mlflow.onnx
    import numpy as np
    from onnx import load

    def pinned(package: str) -> str:
        return f"{package}=={importlib.metadata.version(package)}"

    model = load(onnx)
    with np.load(sample) as arrays:
        inputs, outputs = arrays["inputs"], arrays["outputs"]
    logged = patiently(
        lambda: mlflow.onnx.log_model(
            model,
            name="model",
            run_id=run.info.run_id,
            signature=_signature(model.graph, inputs, outputs),
            input_example=inputs,
            # Listed, because finding them out means loading the model once more.
            pip_requirements=[pinned("mlflow"), pinned("onnxruntime"), pinned("numpy")],
            onnx_execution_providers=["CPUExecutionProvider"],
        )
    )
    return str(logged.model_uri)


def _log_package(run: Any, files: str) -> str:
    """Logs a directory as a model, as it is; returns its URI."""
    from mlflow.entities import LoggedModelOutput

    model = client.create_logged_model(
        run.info.experiment_id, name="model", source_run_id=run.info.run_id
    )
    client.log_model_artifacts(model.model_id, files)
    client.finalize_logged_model(model.model_id, "READY")
    client.log_outputs(run.info.run_id, [LoggedModelOutput(model.model_id, step=0)])
    return f"models:/{model.model_id}"


def _signature(graph: Any, inputs: "np.ndarray", outputs: "np.ndarray") -> Any:
    """Returns a signature in which every size is open that is in the model."""
    # MLflow would infer that samples alone may be of any number, and not that texts may be of any
    # length.
    from mlflow.models import ModelSignature
    from mlflow.types import Schema, TensorSpec

    def schema(array: "np.ndarray", value: Any) -> Any:
        sizes = [dimension.dim_value or -1 for dimension in value.type.tensor_type.shape.dim]
        shape = (-1, *(sizes if len(sizes) == array.ndim else array.shape)[1:])
        return Schema([TensorSpec(array.dtype, shape)])

    return ModelSignature(schema(inputs, graph.input[0]), schema(outputs, graph.output[0]))


def _take_part(run: StepRun, name: str, version: str, champion: str) -> str:
    """Makes a version the champion; says so if another was faster, and returns that sentence."""
    from trireme.tracking import registry

    try:
        registry.promote(name, version, champion)
    except StepFailed as late:
        log(run.pipeline_id, tags={"champion": str(late)})
        return str(late)
    return ""
