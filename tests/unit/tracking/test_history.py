"""The history of a training, from MLflow, as a table."""

import math

import pytest

from trireme.tracking import history

PARENT = "mlflow.parentRunId"


@pytest.fixture
def client(tmp_path, untracked, mlflow_store):
    """MLflow with a store of its own."""
    from mlflow import MlflowClient

    (tmp_path / "mlflow.db").write_bytes(mlflow_store.read_bytes())
    return MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")


def a_run(client, above="", name="", losses=()):
    """Makes a run, as of a step that trains where it has losses; returns its id."""
    made = client.create_run("0", tags={PARENT: above} if above else {}, run_name=name).info.run_id
    if losses:
        client.log_param(made, "world_size", 2)
    for step, loss in losses:
        client.log_metric(made, "loss", loss, step=step, timestamp=1000 + step)
    return made


def test_there_is_a_row_for_each_step_and_a_column_for_each_metric(client):
    whole = a_run(client)
    condition = a_run(client, whole, "condition-1")  # as Kubeflow's plugin has it
    trained = a_run(client, condition, "train", [(1, 0.9), (2, 0.5), (3, math.nan)])
    client.log_metric(trained, "val_loss", 0.7, step=2)
    client.log_metric(trained, "cpu_seconds", 12.5)  # of the step, and not of one of its own
    client.log_metric(trained, "loss", 0.4, step=2, timestamp=9000)  # after a restart
    client.log_metric(a_run(client, whole, "evaluate"), "score", 1.0, step=1)
    found = history.of(client, client.get_run(whole))
    assert (list(found.columns), found.index.name) == (["loss", "val_loss"], "step")
    assert found["loss"].tolist()[:2] == [0.9, 0.4] and math.isnan(found["loss"][3])
    assert found["val_loss"].dropna().to_dict() == {2: 0.7}


def test_of_several_trainings_each_has_its_rows(client):
    whole = a_run(client)
    for number in range(2):
        a_run(client, whole, f"trial-00{number}", [(1, 0.9 - number / 10)])
    found = history.of(client, client.get_run(whole))
    assert found["loss"].to_dict() == {("trial-000", 1): 0.9, ("trial-001", 1): 0.8}
    assert list(found.index.names) == ["trial", "step"]


def test_what_has_not_trained_yet_has_an_empty_table(client):
    whole = a_run(client)
    assert history.of(client, client.get_run(whole)).empty
    a_run(client, whole, "train", [(0, 1.0)])
    assert history.of(client, client.get_run(whole)).empty
