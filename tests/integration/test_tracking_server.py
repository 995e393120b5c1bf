"""MLflow somewhere else, or already started by somebody else."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import mlflow
import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
TRAINER = REPOSITORY / "components" / "trainers" / "pytorch" / "classifier.py"

pytestmark = pytest.mark.slow


class Server:
    """A real MLflow tracking server that can go away and come back."""

    def __init__(self, store, artifacts):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.uri = f"http://127.0.0.1:{self.port}"
        self.command = [sys.executable, "-m", "mlflow", "server", "--workers", "1"]
        self.command += ["--host", "127.0.0.1", "--port", str(self.port)]
        self.command += ["--backend-store-uri", f"sqlite:///{store}"]
        self.command += ["--artifacts-destination", str(artifacts)]
        self.process = None

    def start(self):
        self.process = subprocess.Popen(
            self.command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline:
            try:
                urllib.request.urlopen(f"{self.uri}/health", timeout=2).close()
                return
            except OSError:
                time.sleep(0.2)
        raise AssertionError("the MLflow server did not start")

    def stop(self):
        if self.process and self.process.poll() is None:
            os.killpg(self.process.pid, 9)
            self.process.wait()


@pytest.fixture
def server(tmp_path, mlflow_store):
    store = tmp_path / "server.db"
    store.write_bytes(mlflow_store.read_bytes())
    server = Server(store, tmp_path / "artifacts")
    server.start()
    yield server
    server.stop()


def test_a_server_takes_everything(trireme, server):
    args = json.dumps(["--epochs", "2"])
    result = trireme.run(
        "run",
        "pytorch-training",
        *("-p", f"args={args}"),
        *("-p", "min_accuracy=0.5"),
        *("-p", "experiment=elsewhere"),
        MLFLOW_TRACKING_URI=server.uri,
    )
    assert result.returncode == 0, result.stderr
    client = mlflow.MlflowClient(server.uri)
    experiment = client.get_experiment_by_name("elsewhere")
    runs = client.search_runs([experiment.experiment_id])
    assert len(runs) == 6
    assert {run.info.status for run in runs} == {"FINISHED"}
    assert [model.name for model in client.search_registered_models()] == ["classifier"]
    assert trireme.client.search_experiments(filter_string="name = 'elsewhere'") == []


def test_no_metric_is_lost_while_the_server_is_away(server, tmp_path, trireme):
    client = mlflow.MlflowClient(server.uri)
    run_id = client.create_run("0").info.run_id
    subprocess.run(
        [
            sys.executable,
            "-c",
            "from pathlib import Path; from components.dataset.staging import "
            f"stage; stage('builtin://digits', Path({str(tmp_path / 'data')!r}))",
        ],
        check=True,
        cwd=REPOSITORY,
    )
    epochs = 40
    training = subprocess.Popen(
        [sys.executable, str(TRAINER), "--epochs", str(epochs)],
        env=trireme.environment
        | {
            "DATA_DIR": str(tmp_path / "data"),
            "CHECKPOINT_DIR": str(tmp_path / "checkpoints"),
            "MODEL_DIR": str(tmp_path / "model"),
            "OMP_NUM_THREADS": "1",
            "MLFLOW_TRACKING_URI": server.uri,
            "MLFLOW_RUN_ID": run_id,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    lines = []
    for line in training.stdout:
        lines.append(line)
        if line.startswith("epoch 8/"):
            server.stop()
        if line.startswith(f"epoch {epochs}/"):
            server.start()
    assert training.wait(timeout=180) == 0, "".join(lines)
    assert any("metrics wait" in line for line in lines)
    history = client.get_metric_history(run_id, "loss")
    assert [metric.step for metric in history] == list(range(1, epochs + 1))


def test_a_run_that_is_open_already_becomes_the_parent(trireme):
    experiment = trireme.client.create_experiment("theirs", (trireme.home / "theirs").as_uri())
    run_id = trireme.client.create_run(experiment, run_name="somebody else's").info.run_id
    args = json.dumps(["--epochs", "1"])
    result = trireme.run(
        "run", "pytorch-training", "-p", f"args={args}", "-p", "workers=0", MLFLOW_RUN_ID=run_id
    )
    assert result.returncode == 0, result.stderr
    (parent,) = trireme.parents()
    assert parent.info.run_id == run_id
    assert parent.info.run_name == "somebody else's"
    assert parent.info.status == "FINISHED"
    assert {"checkout", "dataset", "train", "evaluate"} <= set(trireme.nested(parent))
