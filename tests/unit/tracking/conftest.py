"""A workspace, and a real MLflow store with runs in it."""

import shutil

import pytest
import tracking_uri

from trireme.tracking.sync import StepRun


@pytest.fixture
def workspace(tmp_path):
    return tmp_path / "workspace"


@pytest.fixture(scope="module")
def store(tmp_path_factory, mlflow_store):
    """A client of an MLflow store in a SQLite file, and an experiment in it."""
    import mlflow

    directory = tmp_path_factory.mktemp("tracking")
    shutil.copy(mlflow_store, directory / "mlflow.db")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_ID", "MLFLOW_TRACKING_URI"):
            patch.delenv(name, raising=False)
        patch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
        # Where MLflow would put what nobody gave a place.
        (directory / "here").mkdir()
        patch.chdir(directory / "here")
        before = tracking_uri.told()
        mlflow.set_tracking_uri(f"sqlite:///{directory / 'mlflow.db'}")
        client = mlflow.MlflowClient()
        experiment = client.create_experiment("tests", (directory / "artifacts").as_uri())
        yield client, experiment, directory
        mlflow.set_tracking_uri(before)


@pytest.fixture
def client(store):
    return store[0]


@pytest.fixture
def run(store):
    """Two new MLflow runs, of a pipeline and of a step of it."""
    client, experiment, _ = store
    pipeline = client.create_run(experiment).info.run_id
    tags = {"mlflow.parentRunId": pipeline}
    return StepRun(client.create_run(experiment, tags=tags).info.run_id, pipeline)
