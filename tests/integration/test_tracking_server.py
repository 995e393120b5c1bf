"""MLflow somewhere else, or already started by somebody else."""

import shutil
from concurrent.futures import ThreadPoolExecutor

import mlflow
import pytest
import tracking_uri
from faulty_server import faulty
from tracking_server import TrackingServer

from trireme.tracking import client, probe, runs

pytestmark = pytest.mark.slow

DEADLINE = 240  # seconds
EPOCHS = 8


@pytest.fixture
def server(tmp_path, mlflow_store):
    store = tmp_path / "server.db"
    store.write_bytes(mlflow_store.read_bytes())
    server = TrackingServer(f"sqlite:///{store}", tmp_path / "artifacts")
    server.start()
    yield server
    server.stop()


def test_a_server_takes_everything_though_it_was_away_meanwhile(trireme, server, eventually):
    process = trireme.start(
        *("run", "pytorch-training", "-p", f'args=["--epochs", "{EPOCHS}"]'),
        *("-p", "workers=0", "-p", "min_accuracy=0.5", "-p", "experiment=elsewhere"),
        MLFLOW_TRACKING_URI=server.uri,
    )
    try:
        for line in process.stdout:
            if "epoch 3/" in line:
                server.stop()
            if f"epoch {EPOCHS}/" in line:
                break
        model = trireme.run_directory() / "workspace" / "model"
        assert eventually(model.exists)  # training waits for no server
        server.start()
        _, errors = process.communicate(timeout=DEADLINE)
        assert process.returncode == 0, errors
    finally:
        process.kill()
        process.communicate()

    client = mlflow.MlflowClient(server.uri)
    experiment = client.get_experiment_by_name("elsewhere")
    runs = {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}
    assert len(runs) == 7
    assert {run.info.status for run in runs.values()} == {"FINISHED"}
    history = client.get_metric_history(runs["train"].info.run_id, "loss")
    assert [metric.step for metric in history] == list(range(1, EPOCHS + 1))
    assert [model.name for model in client.search_registered_models()] == ["classifier"]
    assert trireme.client.search_experiments(filter_string="name = 'elsewhere'") == []


def test_what_a_server_lacks_of_a_run_is_brought_later(trireme, server, eventually, monkeypatch):
    monkeypatch.setattr(client, "_patience", 3.0)
    monkeypatch.setattr(client, "HURRY", 3.0)

    def stop_before_the_export():
        runs = trireme.home / "runs"
        log = "*/workspace/steps/export/output.log"
        assert eventually(lambda: [*runs.glob(log)], seconds=300)  # a busy machine takes minutes
        server.stop()

    given = ("-p", "workers=0", "-p", "min_accuracy=0.5", "-p", "experiment=elsewhere")
    at = {"MLFLOW_TRACKING_URI": server.uri}
    with ThreadPoolExecutor(1) as other:
        stopped = other.submit(stop_before_the_export)
        done = trireme.call("run", "pytorch-training", *given, **at)
        stopped.result()
    assert done.returncode == 1, done.stdout
    assert "'trireme sync', and the next run, bring what it lacks of this run" in done.stderr
    assert (trireme.run_directory() / "workspace" / "exported" / "model.onnx").is_file()
    waiting = trireme.call("sync", **at)
    assert (waiting.returncode, "does not answer" in waiting.stderr) == (1, True)

    server.start()
    elsewhere = trireme.call("sync", MLFLOW_TRACKING_URI=f"{server.uri}/")
    assert elsewhere.returncode == 1
    assert f"waits for MLflow at {server.uri}; set MLFLOW_TRACKING_URI to it" in elsewhere.stderr
    brought = trireme.call("list", **at)
    assert "is whole in MLflow now, as FINISHED" in brought.stderr
    assert "FINISHED" in trireme.call("status", trireme.run_directory().name, **at).stdout
    assert trireme.call("sync", **at).stdout == "MLflow has all runs\n"

    asked = mlflow.MlflowClient(server.uri)
    experiment = asked.get_experiment_by_name("elsewhere")
    runs = {run.info.run_name: run for run in asked.search_runs([experiment.experiment_id])}
    assert len(runs) == 7
    assert {run.info.status for run in runs.values()} == {"FINISHED"}
    assert all("error" not in run.data.tags for run in runs.values())
    assert runs["export"].data.metrics["duration_seconds"] > 0
    assert [model.name for model in asked.search_registered_models()] == ["classifier"]
    (version,) = asked.search_model_versions("name = 'classifier'")
    assert version.tags["git.commit"]


def test_a_run_is_made_once_though_the_answer_that_it_is_made_is_lost(server):
    before = tracking_uri.told()
    with faulty(server.uri, "cut 0", "cut 0") as (url, met):
        mlflow.set_tracking_uri(url)
        try:
            made = runs.create("0", "evaluate", {"mlflow.parentRunId": "above"})
        finally:
            mlflow.set_tracking_uri(before)
    assert met[:2] == ["cut 0"] * 2
    assert [run.info.run_id for run in mlflow.MlflowClient(server.uri).search_runs(["0"])] == [made]


def test_a_run_that_is_open_already_becomes_the_parent(trireme, repository):
    experiment = trireme.client.create_experiment("theirs", (trireme.home / "theirs").as_uri())
    run_id = trireme.client.create_run(experiment, run_name="somebody else's").info.run_id
    code = repository(train="print('there is no model')")
    result = trireme.call(
        *("run", "pytorch-training", "-p", f"code_url={code}", "-p", "entrypoint=train.py"),
        *("-p", "workers=0"),
        MLFLOW_RUN_ID=run_id,
    )
    assert result.returncode == 0, result.stderr
    (parent,) = trireme.parents()
    assert parent.info.run_id == run_id
    assert parent.info.run_name == "somebody else's"
    assert parent.info.status == "FINISHED"
    assert {"checkout", "dataset", "train", "evaluate"} <= set(trireme.nested(parent))


def probed(uri, capsys, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.setattr(client, "_patience", client.PATIENCE)  # the probe is in a hurry
    for name in (client.RETRIES, "MLFLOW_HTTP_REQUEST_TIMEOUT"):  # which the probe sets
        monkeypatch.setenv(name, "0" if name == client.RETRIES else "20")
    status = probe.main()
    return status, capsys.readouterr().out


def test_a_step_can_try_a_server_and_its_store(server, capsys, monkeypatch, tmp_path):
    mlflow.MlflowClient(server.uri).create_experiment("with files on the server")
    answers = f"MLflow at {server.uri} answers"
    expected = (0, f"{answers}, and its artifact store takes files\n")
    assert probed(server.uri, capsys, monkeypatch) == expected
    assert [it for it in (tmp_path / "artifacts").rglob("*") if it.is_file()] == []
    shutil.rmtree(tmp_path / "artifacts")
    (tmp_path / "artifacts").write_text("no directory")
    status, said = probed(server.uri, capsys, monkeypatch)
    assert (status, said.count("\n")) == (1, 1)
    assert said.startswith(f"{answers}, but its artifact store takes no file at mlflow-artifacts:/")
    server.stop()
    status, said = probed(server.uri, capsys, monkeypatch)
    assert (status, said.startswith(f"MLflow at {server.uri}: ")) == (1, True)
