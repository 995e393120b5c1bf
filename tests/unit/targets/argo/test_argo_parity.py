"""A pipeline does on Argo what it does here: the steps are given the same, and leave the same."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import argo_pipelines
import pytest
import running_here
import yaml
from argo_expressions import evaluate
from argo_walker import Walker
from mlflow import MlflowClient

from trireme.graph import reading
from trireme.pipeline.pipeline import Pipeline
from trireme.targets.argo import compiling as argo_compiling
from trireme.targets.argo.templates import LOST
from trireme.targets.local import running as here
from trireme.terminal.console import Console

OnArgo = Callable[[Any], dict[str, Any]]

PARENT = "mlflow.parentRunId"
NAMES = {PARENT, "mlflow.runName"}
MEASURED = {"cpu_seconds", "duration_seconds", "peak_memory_bytes"}
"""What ``trireme run`` measures of its steps; on a cluster others do."""


def notes(workspace: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in (workspace / "notes").glob("*")}


def run_here(pipeline: Any, directory: Path) -> dict[str, bytes]:
    """Runs a pipeline here, whatever comes of it; returns what its steps have noted."""
    directory = directory / "here"
    directory.mkdir()
    running_here.run(reading.of_pipeline(pipeline), directory, at_once=1)
    return notes(directory / "workspace")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "phase"),
    [
        ("values", "Succeeded"),
        ("choices", "Succeeded"),
        ("loops", "Succeeded"),
        ("deeper", "Succeeded"),
        ("artifacts", "Succeeded"),
        ("failing", "Failed"),
        ("retried", "Succeeded"),
    ],
)
def test_steps_note_the_same(name: str, phase: str, on_argo: OnArgo, tmp_path: Path) -> None:
    pipeline = getattr(argo_pipelines, name)
    walker = Walker(on_argo(pipeline), tmp_path / "argo")
    assert walker.run().phase == phase
    assert notes(walker.workspace) == run_here(pipeline, tmp_path)


@pytest.mark.slow
def test_a_step_whose_pod_is_lost_is_tried_again_and_one_that_fails_is_not(
    on_argo: OnArgo, tmp_path: Path
) -> None:
    walker = Walker(on_argo(argo_pipelines.drained), tmp_path / "argo")
    assert walker.run().phase == "Failed"
    assert notes(walker.workspace) == {"done": b"done"}
    assert (walker.workspace / "tries").read_text() == "x"


@pytest.mark.parametrize(
    ("status", "code", "message", "is_lost"),
    [
        # What v4.1.2's controller says of a try, workflow/controller/operator.go.
        ("Error", "-1", "pod deleted", True),
        ("Error", "-1", "Pod failed before main container starts due to : ", True),
        ("Failed", "143", "main: Error (exit code 143)", True),
        ("Failed", "137", "The node was low on resource: memory. ", True),
        ("Failed", "-1", "Pod was terminated in response to imminent node shutdown.", True),
        ("Failed", "2", "main: Error (exit code 2): error: workers -1", False),
        ("Failed", "1", "main: Error (exit code 1)", False),
        ("Failed", "137", "main: OOMKilled (exit code 137)", False),
        ("Failed", "137", "Pod was active on the node longer than the specified deadline", False),
        ("Failed", "143", "Pod was active on the node longer than the specified deadline", False),
    ],
)
def test_what_is_no_failure_of_a_step(status: str, code: str, message: str, is_lost: bool) -> None:
    last = {"status": status, "exitCode": code, "message": message}
    assert evaluate(LOST, {"lastRetry": last}) is is_lost


def records(uri: str) -> dict[str, Any]:
    """Returns what MLflow has of a pipeline's run and its steps, but for times and places."""
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name("records")
    found = client.search_runs([experiment.experiment_id])
    (whole,) = [run for run in found if PARENT not in run.data.tags]
    assert {run.data.tags.get(PARENT) for run in found} == {None, whole.info.run_id}
    return {
        "" if run is whole else run.info.run_name: (
            run.info.status,
            run.data.params,
            {key: value for key, value in run.data.metrics.items() if key not in MEASURED},
            {
                key: value.replace(run.info.run_id, "RUN")  # MLflow's description links to the page
                for key, value in run.data.tags.items()
                if key not in NAMES
            },
            sorted(each.path for each in client.list_artifacts(run.info.run_id)),
        )
        for run in found
    }


@pytest.mark.slow
def test_mlflow_has_the_same_record(
    mlflow_store: Path, untracked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uris = []
    for place in ("here", "argo"):
        (tmp_path / f"{place}.db").write_bytes(mlflow_store.read_bytes())
        uris.append(f"sqlite:///{tmp_path / place}.db")
    graph = reading.of_pipeline(argo_pipelines.recorded)
    pipeline = Pipeline("recorded", graph, lambda *_: None, lambda _: None)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uris[0])
    name = pipeline.name_of_a_run()
    here.run(pipeline, pipeline.complete({}), name, Console(io.StringIO()))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uris[1])
    template = argo_compiling.compiled(pipeline, "trireme")
    walker = Walker(yaml.safe_load(template.to_yaml()), tmp_path / "walked")
    assert walker.run().phase == "Succeeded"
    assert records(uris[1]) == records(uris[0])
