"""trireme/tracking/on_kubeflow.py: a step whose run Kubeflow's MLflow plugin does not open."""

import json

import mlflow
import pytest

from trireme.finish.finish import finish
from trireme.tracked_step import step
from trireme.tracking import environment, on_kubeflow

PARAMETERS = {"experiment": "mine", "workers": 2, "args": ["--a"], "model_factory": None}

# As the compiler of Kubeflow Pipelines 2.17 writes it, but for what nobody here reads.
WORKFLOW = {
    "metadata": {
        "name": "pytorch-training-x7k2p",
        "annotations": {"pipelines.kubeflow.org/run_name": "pytorch-training-20270101"},
    },
    "spec": {
        "templates": [
            {
                "name": "system-dag-driver",
                "container": {
                    "args": ["--type", "{{x}}", "--pipeline_name", "pytorch-training", "--run_id"]
                },
            },
            {"name": "system-container-impl", "container": {"command": ["x"]}},
            {
                "name": "entrypoint",
                "dag": {
                    "tasks": [
                        {
                            "name": "root-driver",
                            "arguments": {
                                "parameters": [
                                    {"name": "component", "value": "{}"},
                                    {
                                        "name": "runtime-config",
                                        "value": json.dumps({"parameterValues": PARAMETERS}),
                                    },
                                ]
                            },
                        },
                        {"name": "root"},
                    ]
                },
            },
        ]
    },
}


@pytest.fixture
def kubeflow(tmp_path, untracked, mlflow_store, monkeypatch):
    """A step's Secret and Workflow; returns a client."""
    (tmp_path / "mlflow.db").write_bytes(mlflow_store.read_bytes())
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    secret = tmp_path / "secret"
    (secret / "..2027_01_01").mkdir(parents=True)
    (secret / "MLFLOW_TRACKING_URI").write_text(f"{uri}\n")
    (secret / "MLFLOW_TRACKING_PASSWORD").write_text("hunter2")
    monkeypatch.setenv("_MLFLOW_SERVER_ARTIFACT_ROOT", str(tmp_path / "artifacts"))
    monkeypatch.setattr(on_kubeflow, "MOUNT", secret)
    monkeypatch.setattr(
        on_kubeflow, "describe_run", lambda pipeline: on_kubeflow.parse_workflow(WORKFLOW)
    )
    mlflow.set_tracking_uri(uri)
    return mlflow.MlflowClient(uri)


def run_step(name, workspace, work=lambda: None, **variables):
    """Runs a step as if it were a process of its own."""
    ours = (*environment.VARIABLES, "TRIREME_PIPELINE")
    with pytest.MonkeyPatch.context() as patch:
        for variable in (*ours, "MLFLOW_TRACKING_PASSWORD"):
            patch.setenv(variable, "")
            patch.delenv(variable)
        for variable, value in variables.items():
            patch.setenv(variable, value)
        with step(name, str(workspace)):
            work()


def test_where_the_plugin_is_off_the_steps_record_by_the_secret(kubeflow, tmp_path):
    run_step("checkout", tmp_path)
    page = tmp_path / "run.html"
    run_step("finish", tmp_path, lambda: finish("SUCCEEDED", "", "p", "run-1", "", tmp_path, page))
    found = kubeflow.search_runs([kubeflow.get_experiment_by_name("mine").experiment_id])
    (whole,) = [run for run in found if "mlflow.parentRunId" not in run.data.tags]
    assert (whole.info.run_name, whole.info.status) == ("pytorch-training-20270101", "FINISHED")
    assert whole.data.tags["pipeline"] == "pytorch-training"
    assert whole.data.params["workers"] == "2"
    assert {run.info.run_name for run in found if run is not whole} == {"checkout", "finish"}


@pytest.mark.parametrize("variable", ["KFP_MLFLOW_CONFIG", "MLFLOW_RUN_ID"])
def test_no_second_run_is_opened_beside_the_plugins(kubeflow, tmp_path, variable):
    own = kubeflow.create_run(kubeflow.create_experiment("plugins")).info.run_id
    given = {variable: own if variable == "MLFLOW_RUN_ID" else "{}"}
    run_step("checkout", tmp_path, **given)
    assert kubeflow.get_experiment_by_name("mine") is None
    assert len(kubeflow.search_runs([kubeflow.get_run(own).info.experiment_id])) == 1


def test_without_the_secret_nothing_is_recorded(kubeflow, tmp_path):
    (on_kubeflow.MOUNT / "MLFLOW_TRACKING_URI").unlink()
    run_step("checkout", tmp_path)
    assert kubeflow.get_experiment_by_name("mine") is None
