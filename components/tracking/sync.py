"""Bring a step's journal into MLflow."""

import json
import posixpath
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from trireme.components.errors import StepFailed, TrackingRefused, TrackingUnavailable
from trireme.components.tracking import journal
from trireme.components.tracking.environment import SECRET
from trireme.components.tracking.store import reason_of

if TYPE_CHECKING:
    import numpy as np

PATIENCE = 120.0  # seconds that a tracking server may be away before we give up
HURRY = 10.0  # the same, when somebody waits for the process to end
PARAMETER_LIMIT = 6000  # characters of a parameter's value that MLflow keeps
BATCH = 100  # parameters or tags that MLflow takes at once

DIGEST_LIMIT = 36  # characters of a dataset's digest that MLflow keeps
NAME_LIMIT = 250  # characters of a name that MLflow takes
TRAINING = "training.run"
"""The tag of a pipeline's run that names the run of the step that holds the model."""

LINEAGE = (
    "git.commit",
    "git.url",
    "trainers.version",
    "dataset.fingerprint",
    "dataset.uri",
    "image",
    "training.inputs",
)
"""Tags of a run that the version of the model gets, too."""

_UNUSUAL = re.compile(r"[^\w\-. :/]")  # what MLflow does not accept in a name


@dataclass(frozen=True)
class Run:
    """A step's MLflow run."""

    step_id: str
    pipeline_id: str

    @classmethod
    def from_environment(cls) -> Self:
        """Returns the run that MLFLOW_RUN_ID names, as Kubeflow Pipelines' plugin sets it."""
        import os

        from mlflow import MlflowClient

        step_id = above = os.environ["MLFLOW_RUN_ID"]
        while above:  # Kubeflow's plugin opens runs for conditions, loops and exit handlers, too
            whole, run = above, patiently(partial(MlflowClient().get_run, above))
            above = run.data.tags.get("mlflow.parentRunId", "")
        return cls(step_id, whole)


_patience = PATIENCE


def hurry() -> None:
    """From now on gives up on a tracking server soon."""
    global _patience
    _patience = HURRY


def patiently(call: Callable[[], Any]) -> Any:
    """Calls MLflow until it answers."""
    started, pause = time.monotonic(), 0.5
    while True:
        try:
            return call()
        except Exception as error:
            if (status := _status(error)) in (401, 403):
                raise TrackingRefused(
                    f"the MLflow tracking server does not allow this ({status}); are its user and "
                    f"password, or token, in the Secret {SECRET} or the environment?"
                ) from None
            if not _is_away(error):
                raise
            if time.monotonic() + pause > started + _patience:
                raise TrackingUnavailable(
                    f"the MLflow tracking server does not answer: {reason_of(error)}"
                ) from None
        time.sleep(pause)
        pause = min(2 * pause, 10.0)


def _status(error: Exception) -> int:
    """Returns the status of the server's answer; 0 where it is not that."""
    from mlflow.exceptions import MlflowException
    from requests import HTTPError

    if isinstance(error, MlflowException):
        return int(error.get_http_status_code())
    if isinstance(error, HTTPError) and error.response is not None:
        return int(error.response.status_code)
    return 0


def _is_away(error: Exception) -> bool:
    """Tells 5xx and no answer at all, which are worth another try, from a refusal."""
    from requests import RequestException

    if status := _status(error):
        return status >= 500
    # A database as the store, where not even taking a call back succeeds; not every image has it.
    database = sys.modules.get("sqlalchemy.exc")
    if database and isinstance(error, database.OperationalError):
        return True
    return isinstance(error, RequestException | ConnectionError | TimeoutError)


def sync(workspace: Path, step: str, run: Run) -> None:
    """Brings what a step has recorded and MLflow does not have yet into MLflow."""
    mark = journal.synced_path(workspace, step)
    done = int(mark.read_text()) if mark.exists() else 0
    for number, record in enumerate(journal.read(workspace, step), start=1):
        if number > done:
            _apply(record, run, workspace)
            mark.write_text(str(number))


def _apply(record: dict[str, Any], run: Run, workspace: Path) -> None:
    at = int(record["time"] * 1000)
    both = {run.step_id, run.pipeline_id}
    if "params" in record:
        log(run.step_id, params=record["params"])
    elif "metrics" in record:
        log(run.step_id, metrics=record["metrics"], at=at)
    elif "headline" in record:
        for run_id in both:
            log(run_id, metrics=record["headline"], at=at)
    elif "total" in record:
        log(run.pipeline_id, metrics=record["total"], at=at)
    elif "tags" in record:
        for run_id in both:
            log(run_id, tags=record["tags"])
    elif "error" in record:
        for run_id in both if record["error"]["is_fatal"] else {run.step_id}:
            log(run_id, tags={"error": record["error"]["message"]})
    elif "artifact" in record:
        _log_artifact(Path(record["artifact"]), record["folder"], run)
        if record["folder"] == journal.MODEL:
            log(run.pipeline_id, tags={TRAINING: run.step_id})
    elif "dataset" in record:
        for run_id in both:
            _log_dataset(run_id, **record["dataset"])
    elif "model" in record:
        registered = _log_model(run, **record["model"])
        journal.registered_path(workspace).write_text(json.dumps(registered))


def log(
    run_id: str,
    params: dict[str, Any] | None = None,
    metrics: dict[str, float] | None = None,
    tags: dict[str, str] | None = None,
    at: int | None = None,
) -> None:
    """Logs to an MLflow run in as few calls as it takes.

    Args:
        at: When, in milliseconds since 1970; now by default.
    """
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Param, RunTag

    at = at or int(time.time() * 1000)
    client = MlflowClient()
    entries: dict[str, list[Any]] = {
        "params": [
            Param(_name(name), str(value)[:PARAMETER_LIMIT])
            for name, value in (params or {}).items()
        ],
        "metrics": [Metric(_name(name), value, at, 0) for name, value in (metrics or {}).items()],
        "tags": [RunTag(_name(name), value) for name, value in (tags or {}).items()],
    }
    for kind, values in entries.items():
        for batch in _batches(values):
            patiently(partial(client.log_batch, run_id, **{kind: batch}))


def _name(text: str) -> str:
    """Returns a name as MLflow accepts it; slashes have to make a path that stays inside."""
    plain = _UNUSUAL.sub("_", text)[:NAME_LIMIT]
    return posixpath.normpath(plain).strip("/.") or "_"


def _batches(values: list[Any]) -> Iterator[list[Any]]:
    for start in range(0, len(values), BATCH):
        yield values[start : start + BATCH]


def _log_artifact(path: Path, folder: str, run: Run) -> None:
    from mlflow import MlflowClient

    client = MlflowClient()
    if path.is_dir():
        patiently(lambda: client.log_artifacts(run.step_id, str(path), folder or None))
    elif path.exists():
        patiently(lambda: client.log_artifact(run.step_id, str(path), folder or None))


def _log_dataset(run_id: str, uri: str, fingerprint: str, **profile: int) -> None:
    """Logs a dataset as a run's input, as ``mlflow.log_input`` does for one in memory."""
    from mlflow import MlflowClient
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
    training = [InputTag(MLFLOW_DATASET_CONTEXT, "training")]
    patiently(lambda: MlflowClient().log_inputs(run_id, datasets=[DatasetInput(dataset, training)]))


def _log_model(
    run: Run,
    onnx: str,
    name: str,
    sample: str,
    tags: dict[str, str],
    promote: bool,
    champion: str,
) -> dict[str, str]:
    """Logs an ONNX model with its signature and registers it, tagged with its lineage."""
    import importlib.metadata

    import mlflow.onnx
    import numpy as np
    from mlflow import MlflowClient
    from onnx import load

    from trireme.components.tracking import registry

    def pinned(package: str) -> str:
        return f"{package}=={importlib.metadata.version(package)}"

    model = load(onnx)
    with np.load(sample) as arrays:
        inputs, outputs = arrays["inputs"], arrays["outputs"]
    pipeline_run = patiently(lambda: MlflowClient().get_run(run.pipeline_id))
    # Without this MLflow puts the model's files below whatever folder we happen to be in.
    mlflow.set_experiment(experiment_id=pipeline_run.info.experiment_id)
    lineage = {key: value for key, value in pipeline_run.data.tags.items() if key in LINEAGE} | {
        key: f"{value:.6g}" for key, value in pipeline_run.data.metrics.items()
    }
    logged = patiently(
        lambda: mlflow.onnx.log_model(
            model,
            name="model",
            run_id=run.pipeline_id,  # whose page then shows the model and its version
            signature=_signature(model.graph, inputs, outputs),
            input_example=inputs,
            # Listed, because finding them out means loading the model once more.
            pip_requirements=[pinned("mlflow"), pinned("onnxruntime"), pinned("numpy")],
            onnx_execution_providers=["CPUExecutionProvider"],
        )
    )
    tags = tags | lineage | {"pipeline_run": run.pipeline_id}
    registered = patiently(lambda: mlflow.register_model(logged.model_uri, name, tags=tags))
    version = str(registered.version)
    log(run.pipeline_id, tags={"model": name, "model.version": version})
    late = _take_part(run, name, version, champion) if promote else ""
    alias = registry.CHAMPION if promote and not late else registry.CHALLENGER
    if alias == registry.CHALLENGER:
        registry.challenge(name, version)
    return {"model": name, "version": version, "alias": alias, "late": late}


def _signature(graph: Any, inputs: "np.ndarray", outputs: "np.ndarray") -> Any:
    """Returns a signature in which every size is open that is in the model.

    MLflow would infer that samples alone may be of any number, and not that texts may be of any
    length.
    """
    from mlflow.models import ModelSignature
    from mlflow.types import Schema, TensorSpec

    def schema(array: "np.ndarray", value: Any) -> Any:
        sizes = [dimension.dim_value or -1 for dimension in value.type.tensor_type.shape.dim]
        shape = (-1, *(sizes if len(sizes) == array.ndim else array.shape)[1:])
        return Schema([TensorSpec(array.dtype, shape)])

    return ModelSignature(schema(inputs, graph.input[0]), schema(outputs, graph.output[0]))


def _take_part(run: Run, name: str, version: str, champion: str) -> str:
    """Makes a version the champion; says so if another was faster, and returns that sentence."""
    from trireme.components.tracking import registry

    try:
        registry.promote(name, version, champion)
    except StepFailed as late:
        log(run.pipeline_id, tags={"champion": str(late)})
        return str(late)
    return ""
