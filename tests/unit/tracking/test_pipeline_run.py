"""trireme/tracking/pipeline_run.py: a pipeline's run in MLflow, and those of its steps."""

import errno
import fcntl
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from trireme.errors import InputError, TriremeError
from trireme.files.home import TRACKER
from trireme.targets.local import running
from trireme.tracking import environment, journal, pipeline_run, store
from trireme.tracking.batch import PARAMETER_LIMIT
from trireme.tracking.pipeline_run import PipelineRun
from trireme.tracking.runs import Conclusion
from trireme.tracking.store import default_uri, use

SETS_EXPERIMENT = """
import os, mlflow
mlflow.set_experiment(os.environ["MLFLOW_EXPERIMENT_NAME"])
with mlflow.start_run():
    mlflow.log_metric("loss", 0.25)
"""
"""A program that does what ultralytics and others do."""


@pytest.fixture
def home(untracked):
    """A TRIREME_HOME, and MLflow's settings as they were, afterwards."""
    untracked.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        # Named here so that what the record sets for itself is taken back.
        for name in ("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "MLFLOW_HTTP_REQUEST_TIMEOUT"):
            patch.setenv(name, "1")
        patch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
        patch.setenv("_MLFLOW_SERVER_ARTIFACT_ROOT", str(untracked / "mlartifacts"))
        yield untracked


@pytest.mark.slow
def test_a_pipelines_run_and_its_steps_end_with_their_true_status(
    home, workspace, eventually, tmp_path, monkeypatch
):
    """In a store that is new: the other tests have one that is set up already."""
    from mlflow import MlflowClient

    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    record = PipelineRun(
        "a run", "", "a pipeline", {"seed": 7, "long": "x" * 9000}, home, workspace
    )
    ids = {}
    for step, status in (("train", "FINISHED"), ("evaluate", "FAILED")):
        file = Path(record.step_started(step, workspace)[TRACKER])
        with journal.opened(workspace, step):
            journal.log_headline({f"{step}_accuracy": 0.5})
        assert eventually(file.exists)
        variables = environment.announced(file)
        ids[step] = variables["MLFLOW_RUN_ID"]
        assert variables["MLFLOW_EXPERIMENT_NAME"] == "a pipeline"
        if step == "train":
            command = [sys.executable, "-c", SETS_EXPERIMENT]
            subprocess.run(command, env=os.environ | variables, check=True, timeout=120)
        record.step_ended(step, status, workspace, {"cpu_seconds": 1.5})
    record.close("FAILED", {"duration_seconds": 2.5})

    client = MlflowClient(default_uri(home))
    whole = client.get_run(record.run_id)
    assert (whole.info.status, whole.info.run_name) == ("FAILED", "a run")
    assert whole.data.params == {"seed": "7", "long": "x" * PARAMETER_LIMIT}
    assert whole.data.metrics == {
        "train_accuracy": 0.5,
        "evaluate_accuracy": 0.5,
        "duration_seconds": 2.5,
    }
    assert client.get_experiment(whole.info.experiment_id).name == "a pipeline"
    assert client.get_run(ids["train"]).data.metrics.pop("loss") == 0.25
    for step, status in (("train", "FINISHED"), ("evaluate", "FAILED")):
        found = client.get_run(ids[step])
        assert (found.info.status, found.info.run_name) == (status, step)
        assert found.data.tags["mlflow.parentRunId"] == record.run_id
        found.data.metrics.pop("loss", None)
        assert found.data.metrics == {f"{step}_accuracy": 0.5, "cpu_seconds": 1.5}
    assert (home / "mlartifacts").is_dir()
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("kind", ["foo", "postgres", "/tmp", "file", "x"])
def test_a_store_of_a_kind_that_there_is_none_of_is_refused(home, workspace, monkeypatch, kind):
    uri = kind if kind == "/tmp" else f"{kind}://me:hunter2@host/db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    for start in (use, lambda: PipelineRun("a run", "", "a pipeline", {}, home, workspace)):
        with pytest.raises(InputError, match=r"MLFLOW_TRACKING_URI .*: must be a server") as caught:
            start()
        assert "hunter2" not in str(caught.value)
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("password", ["", "me:hunter2@"])
@pytest.mark.parametrize("scheme", ["http", "postgresql+psycopg2"])
def test_a_server_that_is_not_there_is_refused_before_anything_starts(
    home, workspace, monkeypatch, scheme, password
):
    if scheme != "http":
        pytest.importorskip("psycopg2")
    with socket.socket() as bound_but_not_listening:
        bound_but_not_listening.bind(("127.0.0.1", 0))
        port = bound_but_not_listening.getsockname()[1]
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"{scheme}://{password}127.0.0.1:{port}")
        with pytest.raises(InputError, match="does not answer") as caught:
            PipelineRun("a run", "", "a pipeline", {}, home, workspace)
    assert f"{scheme}://127.0.0.1:{port}" in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert list(home.iterdir()) == []


def test_a_database_that_never_answers_is_given_up_soon(monkeypatch):
    pytest.importorskip("psycopg2")
    monkeypatch.setattr(store, "ANSWER_LIMIT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(InputError, match=f"127.0.0.1:{port}/db does not answer: timed out"):
            store.check_reachable(f"postgresql+psycopg2://me:hunter2@127.0.0.1:{port}/db")


@pytest.mark.parametrize(
    "uri, said",
    [
        ("postgresql+pg8000://me:hunter2@h/db", "its driver pg8000 is not installed: pip install"),
        ("postgresql+none://me:hunter2@h/db", "Can't load plugin"),
        ("postgresql+psycopg2://me:hunter2@h:port/db", "must be as in postgresql+psycopg2://"),
        ("postgresql+psycopg2://me:1@hunter2@h/db", "with %40 for an @ in the password"),
    ],
)
def test_a_database_that_cannot_be_connected_to_is_refused(monkeypatch, uri, said):
    pytest.importorskip("psycopg2")
    with pytest.raises(InputError) as caught:
        store.check_reachable(uri)
    assert said in str(caught.value) and "hunter2" not in str(caught.value)


@pytest.mark.parametrize("is_explained", [True, False])
def test_a_step_is_told_where_its_run_cannot_be_opened(
    home, workspace, tmp_path, monkeypatch, capsys, is_explained
):
    def fail(*arguments):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(PipelineRun, "_open", fail)
    if not is_explained:
        monkeypatch.setattr(pipeline_run, "reason_of", fail)
        monkeypatch.setattr(PipelineRun, "_open_step", fail)
    record = PipelineRun("a run", "", "a pipeline", {}, home, workspace)
    told = record.step_started("train", tmp_path)
    with pytest.raises(TriremeError, match="Could not determine home directory"):
        environment.announced(Path(told[TRACKER]))
    with pytest.raises((TriremeError, RuntimeError)):
        record.close("FINISHED", {})


def test_a_step_is_told_where_nothing_can_be_written(home, workspace, tmp_path, monkeypatch):
    def fail(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(PipelineRun, "_open", lambda *arguments: None)
    monkeypatch.setattr(PipelineRun, "_open_step", fail)
    monkeypatch.setattr(pipeline_run, "announce", fail)
    record = PipelineRun("a run", "", "a pipeline", {}, home, workspace)
    told = record.step_started("train", tmp_path)
    with pytest.raises(TriremeError, match="MLflow's run of this step cannot be written to"):
        environment.announced(Path(told[TRACKER]))
    with pytest.raises(TriremeError, match="no room is left"):
        record.close("FINISHED", {})


@pytest.mark.parametrize("name", ["mlflow.db", "mlflow.db-journal", "mlflow.lock", "unsent", ""])
def test_a_store_of_another_user_is_refused_before_a_run(home, workspace, monkeypatch, name):
    for file in ("mlflow.db", "mlflow.db-journal", "mlflow.lock"):
        (home / file).touch()
    (home / "unsent").mkdir()
    before = sorted(home.iterdir())
    monkeypatch.setattr(os, "access", lambda place, mode: Path(place) != home / name)
    for start in (
        lambda: PipelineRun("a run", "", "a pipeline", {}, home, workspace),
        lambda: running.prepare(None, {}, "a-run"),
    ):
        with pytest.raises(InputError, match=f"^{home / name}: user .* may not write"):
            start()
    assert sorted(home.iterdir()) == before


def test_where_a_file_system_keeps_no_locks_nothing_is_left_of_a_run(home, monkeypatch):
    def flock(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(InputError, match="its file system keeps no locks"):
        running.prepare(SimpleNamespace(at_once=0, graph=None), {}, "a-run")
    assert not [*(home / "runs").iterdir()]


def test_where_no_room_is_left_nothing_is_left_of_a_run(home, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(running.writing, "write", full)
    told = f"TRIREME_HOME {home}: cannot be written: No space left on device"
    with pytest.raises(InputError, match=told):
        running.prepare(SimpleNamespace(at_once=0, graph=None), {}, "a-run")
    assert not [*(home / "runs").iterdir()]
    (home / "runs" / "a-run").mkdir()
    (home / "runs" / "a-run" / "run.json").touch()
    with pytest.raises(InputError, match="File exists"):
        running.prepare(SimpleNamespace(at_once=0, graph=None), {}, "a-run")
    assert (home / "runs" / "a-run" / "run.json").exists()


@pytest.mark.parametrize(
    ("flag", "owner", "told"),
    [
        (os.ST_RDONLY, 0, "its file system is read-only, and MLflow's records are there; mount it"),
        (0, 0, "may not write to it, and MLflow's records are there; change its mode"),
        (0, 1, "may not write to what belongs to user .*; change its owner"),
    ],
)
def test_a_store_that_cannot_be_written_is_refused_with_its_cause(
    home, monkeypatch, flag, owner, told
):
    user = os.getuid() + owner
    monkeypatch.setattr(os, "getuid", lambda: user)
    monkeypatch.setattr(os, "access", lambda place, mode: False)
    monkeypatch.setattr(os, "statvfs", lambda place: SimpleNamespace(f_flag=flag))
    with pytest.raises(InputError, match=f"^{home}: .*{told}.* or set TRIREME_HOME to another"):
        store.check_writable(default_uri(home))


def test_a_database_of_another_user_is_refused_by_its_name(tmp_path, monkeypatch):
    file = tmp_path / "mlflow.db"
    file.touch()
    monkeypatch.setattr(os, "access", lambda place, mode: Path(place) != file)
    with pytest.raises(InputError, match=f"^{file}: .* set MLFLOW_TRACKING_URI to another place"):
        store.check_writable(f"sqlite:///{file}?timeout=5")
    store.check_reachable(f"sqlite:///{file}")  # it may be read


def test_a_user_without_a_home_directory_is_refused(home, monkeypatch):
    def fail():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", fail)
    with pytest.raises(InputError, match=r"^HOME: must be a directory"):
        store.check_reachable(default_uri(home))


@pytest.mark.slow
def test_what_came_of_a_run_is_with_its_record_and_no_fault_of_it_harms_the_run(
    home, workspace, tmp_path, mlflow_store
):
    from mlflow import MlflowClient

    def conclude(status, whole):
        assert whole.run_id == record.run_id
        return Conclusion(f"**{status}** · well done", "<p>a picture</p>")

    shutil.copy(mlflow_store, home)
    for told in (conclude, None, lambda status, whole: 1 / 0):
        record = PipelineRun("a run", "", "a pipeline", {}, home, tmp_path / str(told))
        record.close("FINISHED", {}, told)
        client = MlflowClient(default_uri(home))
        run = client.get_run(record.run_id)
        assert run.info.status == "FINISHED"
        note = run.data.tags.get("mlflow.note.content")
        assert note == ("**FINISHED** · well done" if told is conclude else None)
        names = [each.path for each in client.list_artifacts(record.run_id)]
        assert ("run.html" in names) == (told is conclude)


@pytest.mark.slow
def test_a_run_whose_model_could_not_be_recorded_has_failed(
    home, workspace, tmp_path, mlflow_store
):
    shutil.copy(mlflow_store, home)
    record = PipelineRun("a run", "", "pytorch-training", {"seed": 0}, home, workspace)
    record.step_started("export", tmp_path)
    with journal.opened(workspace, "export"):
        journal.log_model(tmp_path / "none.onnx", "digits", tmp_path / "none.npz", tags={})
    record.step_ended("export", "FINISHED", workspace, {"duration_seconds": 1.0})
    with pytest.raises(TriremeError, match="MLflow does not accept the run's record"):
        record.close("FINISHED", {"duration_seconds": 1.0})
    from mlflow import MlflowClient

    client = MlflowClient(default_uri(home))
    (experiment,) = client.search_experiments(filter_string="name = 'pytorch-training'")
    runs = client.search_runs([experiment.experiment_id])
    ended = {run.info.run_name: run.info.status for run in runs}
    assert ended == {"a run": "FAILED", "export": "FAILED"}
