"""Tracking on PostgreSQL: through MLflow's server, and straight into the database."""

import secrets
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import forking
import mlflow
import numpy as np
import onnx_models
import pytest
import yaml
from onnx import save
from tracking_server import TrackingServer

from trireme.errors import InputError, StepFailed, TriremeError
from trireme.files.home import TRACKER
from trireme.text.variables import expand
from trireme.tracking import batch, journal, lineage, registry, store
from trireme.tracking.pipeline_run import PipelineRun

postgresql = pytest.importorskip("postgresql", reason="needs psycopg2")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not postgresql.POSTGRES, reason="needs postgresql"),
]

MANIFESTS = Path(__file__).parents[2] / "manifests/base/tracking"
METRICS = 60
RECORDS = 20  # each takes a third of a second where the server asks for passwords
CONTENDERS = range(2, 12)  # versions, each of them thought better than version 1


@pytest.fixture(scope="module")
def database():
    with postgresql.postgresql() as server:
        yield server


class Deployed(TrackingServer):
    """The server with the command and the settings of manifests/, but for where things are."""

    def __init__(self, database, folder):
        super().__init__(database.uri, folder)
        (container,) = next(
            thing["spec"]["template"]["spec"]["containers"]
            for thing in yaml.safe_load_all((MANIFESTS / "mlflow.yaml").read_text())
            if thing["kind"] == "Deployment"
        )
        users = folder / "basic_auth.ini"
        users.write_text(self._moved((MANIFESTS / users.name).read_text(), database))
        password = secrets.token_hex(8)
        given = {
            "ARTIFACTS": str(folder / "artifacts"),
            "PGPASSWORD": database.password,
            "MLFLOW_AUTH_ADMIN_USERNAME": "admin",
            "MLFLOW_AUTH_ADMIN_PASSWORD": password,
            "MLFLOW_FLASK_SERVER_SECRET_KEY": secrets.token_hex(8),
        }
        written = {
            variable["name"]: self._moved(variable["value"], database)
            for variable in container["env"]
            if "value" in variable
        }
        written["MLFLOW_AUTH_CONFIG_PATH"] = str(users)
        self._environment |= written | given
        _, port = self.uri.rsplit(":", 1)
        here = {"--host=0.0.0.0": "--host=127.0.0.1", "--port=5000": f"--port={port}"}
        assert set(here) <= set(container["args"])
        arguments = [expand(here.get(word, word), given) for word in container["args"]]
        self._command = [sys.executable, "-m", *container["command"], *arguments]
        self.uri = self.uri.replace("//", f"//admin:{password}@")

    def _moved(self, text, database):
        return text.replace("mlflow@postgresql/mlflow", database.place)


@pytest.fixture(scope="module")
def server(database, tmp_path_factory):
    """MLflow's server on the database."""
    server = TrackingServer(database.uri, tmp_path_factory.mktemp("artifacts"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def deployed(database, tmp_path):
    """MLflow's server as a cluster has it."""
    server = Deployed(database, tmp_path)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def tracking(server, untracked, tmp_path, monkeypatch):
    """Makes MLflow use a URI, by default the server's, and takes all back that it set."""
    for name in ("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "MLFLOW_HTTP_REQUEST_TIMEOUT"):
        monkeypatch.setenv(name, "1" if "RETRIES" in name else "30")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("_MLFLOW_SERVER_ARTIFACT_ROOT", str(tmp_path / "artifacts"))

    def use(uri):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
        mlflow.set_tracking_uri(uri)
        return mlflow.MlflowClient()

    use(server.uri)
    return use


@pytest.fixture
def client(tracking, server):
    return tracking(server.uri)


def join(barrier):
    global start
    start = barrier


def contend(uri, version):
    mlflow.set_tracking_uri(uri)
    assert registry.champion("contest") == "1"  # and MLflow has opened what it needs
    start.wait(120)
    try:
        registry.promote("contest", str(version), "1")
    except StepFailed as late:
        return str(late)
    return "champion"


def test_of_ten_that_beat_the_same_champion_at_the_same_moment_one_takes_its_place(
    client, server, database
):
    client.create_registered_model("contest")
    for _ in range(1 + len(CONTENDERS)):
        client.create_model_version("contest", "s3://nowhere/model")
    registry.promote("contest", "1", "")

    context = forking.context()
    barrier = context.Barrier(len(CONTENDERS))
    with ProcessPoolExecutor(len(CONTENDERS), context, join, (barrier,)) as contenders:
        uris = [server.uri, database.uri] * len(CONTENDERS)
        said = list(contenders.map(contend, uris, CONTENDERS))

    assert said.count("champion") == 1
    winner = str(CONTENDERS[said.index("champion")])
    assert registry.champion("contest") == winner
    late = f"it was compared with version 1, and the champion is version {winner} by now"
    assert sum(late in each for each in said) == len(CONTENDERS) - 1
    assert [model.name for model in client.search_registered_models()] == ["contest"]


@pytest.fixture
def model(tmp_path):
    """The smallest ONNX model there is, and a sample of what it answers."""
    save(onnx_models.of_one("Relu"), tmp_path / "model.onnx")
    inputs = np.array([[-1, 2], [3, -4]], dtype=np.float32)
    np.savez(tmp_path / "sample.npz", inputs=inputs, outputs=np.maximum(inputs, 0))
    return tmp_path / "model.onnx", tmp_path / "sample.npz"


def synced(workspace, step):
    """How many records of a step MLflow has."""
    mark = journal.synced_path(workspace, step)
    return int(mark.read_text() or 0) if mark.exists() else 0


@pytest.mark.parametrize("straight", [False, True], ids=["server", "database"])
def test_a_run_loses_nothing_while_the_database_is_away(
    tracking, server, database, untracked, tmp_path, eventually, model, straight, monkeypatch
):
    monkeypatch.setattr(batch, "METRICS", 1)
    client, name = tracking(database.uri if straight else server.uri), f"relu-{straight}"
    workspace, result = tmp_path / "workspace", tmp_path / "model"
    result.mkdir()
    (result / "model.pt").write_bytes(b"weights")
    run = PipelineRun("a run", "", name, {"seed": 7, "model_name": name}, untracked, workspace)

    told = run.step_started("train", tmp_path)
    with journal.opened(workspace, "train"):
        journal.log_params({"framework": "pytorch", "args": "x" * 20_000})
        journal.log_tags({"git.commit": "abc", "git.url": "u" * 20_000})
        for number in range(METRICS):
            journal.log_metrics({f"loss_{number}": number / 7})
        journal.log_dataset("dataset", "s3://bucket/" + 900 * "d", f"sha256:{64 * 'a'}", 2, 300)
        journal.log_artifact(result, "model")
    assert eventually(Path(told[TRACKER]).exists)
    run.step_ended("train", "FINISHED", workspace, {"cpu_seconds": 1.5})
    assert eventually(lambda: synced(workspace, "train") > METRICS // 4)
    database.stop()
    so_far = synced(workspace, "train")
    run.step_started("export", tmp_path)
    with journal.opened(workspace, "export"):
        journal.log_tags({"dataset.fingerprint": "sha256:12"})
        for _ in range(2):
            journal.log_model(model[0], name, model[1], tags={"weights": "7"})
    run.step_ended("export", "FINISHED", workspace, {"cpu_seconds": 2.5})
    time.sleep(1)
    assert synced(workspace, "train") <= so_far + 1 < METRICS
    database.start()
    run.close("FINISHED", {"duration_seconds": 2.5})

    found = lineage.read(run.run_id)
    training = client.get_run(found.training_id)
    metrics = {f"loss_{number}": pytest.approx(number / 7) for number in range(METRICS)}
    assert training.data.metrics == metrics | {"cpu_seconds": 1.5}
    assert training.data.params["args"] == "x" * batch.PARAMETER_LIMIT
    assert (training.info.status, client.get_run(run.run_id).info.status) == 2 * ("FINISHED",)
    assert (found.commit, found.fingerprint) == ("abc", "sha256:12")
    assert found.code.startswith("u" * 1000)
    cut = "x" * batch.PARAMETER_LIMIT  # as the training's run has it, as a sweep varies it
    assert found.params == {"seed": "7", "model_name": name, "args": cut}
    kept = lineage.download_model(found, tmp_path / "brought")
    assert (kept / "model.pt").read_bytes() == b"weights"

    registered = {"model": name, "version": "2", "alias": "challenger", "late": ""}
    assert journal.registered(workspace) == registered
    assert client.get_model_version(name, "2").tags["git.commit"] == "abc"
    assert [registry.promote(name, version) for version in ("1", "2")] == ["", "1"]
    assert registry.rollback(name) == ("2", "1")
    assert registry.champion(name) == "1"


def test_the_server_of_a_cluster_may_be_killed_in_the_middle_of_a_run(
    deployed, tracking, untracked, tmp_path, eventually, monkeypatch
):
    monkeypatch.setattr(batch, "METRICS", 1)
    client, workspace = tracking(deployed.uri), tmp_path / "workspace"
    run = PipelineRun("a run", "", "killed", {"seed": 7}, untracked, workspace)
    run.step_started("train", tmp_path)
    with journal.opened(workspace, "train"):
        for number in range(RECORDS):
            journal.log_metrics({f"loss_{number}": number / 7})
    run.step_ended("train", "FINISHED", workspace, {})
    assert eventually(lambda: synced(workspace, "train") > 1)
    deployed.stop()
    assert synced(workspace, "train") < RECORDS
    deployed.start()
    run.close("FINISHED", {})

    parent = client.get_run(run.run_id)
    nested = f"tags.mlflow.parentRunId = '{run.run_id}'"
    (training,) = client.search_runs([parent.info.experiment_id], nested)
    assert training.data.metrics == {f"loss_{number}": number / 7 for number in range(RECORDS)}
    assert (training.info.status, parent.info.status) == 2 * ("FINISHED",)


def test_a_database_is_looked_for_before_a_run(database):
    store.check_reachable(database.uri)
    wrong = database.uri.replace(database.password, "hunter2")
    with pytest.raises(InputError, match=f"{database.place.split('@')[1]}: .* failed") as caught:
        store.check_reachable(wrong)
    assert "start that server" not in str(caught.value) and "hunter2" not in str(caught.value)


def test_a_database_that_stays_away_is_named_without_its_password(tracking, database, monkeypatch):
    monkeypatch.setattr("trireme.tracking.client._patience", 0.0)
    tracking(database.uri)
    registry.champion("any")
    database.stop()
    try:
        with pytest.raises(TriremeError) as caught:
            registry.champion("any")
    finally:
        database.start()
    assert "does not answer" in str(caught.value)
    assert "\n" not in str(caught.value) and database.password not in str(caught.value)
