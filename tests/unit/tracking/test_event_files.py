"""TensorBoard's event files: found, brought from replicas and from MLflow, kept by a training."""

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import mlflow
import pytest
import tracking_uri

from trireme.errors import TriremeError
from trireme.files import event_files as events
from trireme.files.kept_record import LAYOUT
from trireme.job.job import TrainingJob
from trireme.kubernetes.connection import Cluster
from trireme.runner import training_step
from trireme.runner.cluster.event_files import pull
from trireme.targets import registry
from trireme.tracking import event_files as artifacts
from trireme.tracking import journal

NAME = "events.out.tfevents.1700000000.host.1.0"
OLD = "events.out.tfevents.1600000000.host.1.0"

KUBECTL = """#!/bin/sh
# Runs here what kubectl would in a container.
echo "$@" > "$CALLED"
while [ "$1" != -- ]; do shift; done
shift
exec "$@"
"""


def write(directory, *files, content=b"1"):
    for file in files:
        path = directory / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def test_files_are_found_by_their_paths_from_their_directory(tmp_path):
    write(tmp_path / "code", f"runs/first/{NAME}", f"a/{OLD}", "a/train.py", f".git/{NAME}")
    write(tmp_path / "checkpoints", f"tensorboard/{NAME}")
    places = [tmp_path / "checkpoints", tmp_path / "code", tmp_path / "none"]
    found = events.found(places, since=1650000000)
    assert found == {
        Path("tensorboard", NAME): tmp_path / "checkpoints/tensorboard" / NAME,
        Path("runs/first", NAME): tmp_path / "code/runs/first" / NAME,
    }
    assert Path("a", OLD) in events.found(places)


def test_a_directory_in_another_counts_once_and_may_be_left_out(tmp_path):
    write(tmp_path / "code", f"model/{NAME}", f"jobs/other/{NAME}")
    found = events.found([tmp_path / "code/model", tmp_path / "code"], 0, [tmp_path / "code/jobs"])
    assert [*found] == [Path(NAME)]


def test_links_lead_to_them(tmp_path):
    write(tmp_path / "model", f"runs/{NAME}")
    for _ in range(2):
        events.link(tmp_path / "folder", [tmp_path / "model"], 0)
    place = tmp_path / "folder/runs" / NAME
    assert place.is_symlink() and place.read_bytes() == b"1"
    assert events.found([tmp_path / "folder"]) == {}  # the same once more


@pytest.fixture
def replica(tmp_path, monkeypatch):
    """A stand-in for a replica, whose kubectl runs commands here; returns its directory."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "kubectl").write_text(KUBECTL)
    (programs / "kubectl").chmod(0o755)
    (programs / "python3").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("CALLED", str(tmp_path / "called"))
    (tmp_path / "folder").mkdir()
    for name in events.VARIABLES:
        monkeypatch.setenv(name, str(tmp_path / name))
    return tmp_path


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """A cluster that nothing is asked of but by kubectl."""
    file = tmp_path / "kubeconfig"
    context = {"cluster": "here", "user": "me", "namespace": "team"}
    settings = {
        "clusters": [{"name": "here", "cluster": {"server": "http://127.0.0.1:9"}}],
        "users": [{"name": "me", "user": {"token": "token"}}],
        "contexts": [{"name": "mine", "context": context}],
        "current-context": "mine",
    }
    file.write_text(json.dumps(settings))
    monkeypatch.setenv("KUBECONFIG", str(file))
    return Cluster(context="mine")


def test_what_a_replica_has_written_more_is_brought(replica, cluster):
    folder = replica / "folder"
    code = replica / "CODE_DIR"
    write(code, f"runs/{NAME}", f"runs/{OLD}", content=b"one\ntwo")
    pull(cluster, "digits-master-0", "pytorch", folder, 1650000000)
    assert [file.name for file in folder.rglob("events*")] == [NAME]
    open_already = (folder / "runs" / NAME).open("rb")
    assert open_already.read() == b"one\ntwo"
    with (code / "runs" / NAME).open("ab") as file:
        file.write(b" three")
    write(replica / "MODEL_DIR", NAME, content=b"")
    pull(cluster, "digits-master-0", "pytorch", folder, 1650000000)
    with open_already:
        assert open_already.read() == b" three"  # as TensorBoard reads on
    called = (replica / "called").read_text()
    wanted = "exec -i digits-master-0 -c pytorch --namespace team --context mine -- python3 -c "
    assert called.startswith(wanted)


def test_a_replica_writes_nothing_outside_of_the_folder(replica, cluster):
    folder = replica / "folder"
    said = [json.dumps({"file": f, "start": 0, "size": 1}) + "\\n1" for f in ("../a", "/tmp/a/b")]
    (replica / "bin/kubectl").write_text(f"#!/bin/sh\nprintf '{''.join(said)}'\n")
    pull(cluster, "digits-master-0", "pytorch", folder, 0)
    assert not any(folder.iterdir()) and not (replica / "a").exists()


def test_why_a_replica_cannot_be_read_is_said(replica, cluster, monkeypatch):
    (replica / "bin/kubectl").write_text("#!/bin/sh\necho 'cannot create pods/exec' >&2; exit 1\n")
    with pytest.raises(TriremeError) as caught:
        pull(cluster, "digits-master-0", "pytorch", replica, 0)
    assert str(caught.value) == (
        "the event files of digits-master-0 cannot be read: cannot create pods/exec"
    )
    (replica / "bin/kubectl").unlink()
    monkeypatch.setenv("PATH", str(replica / "bin"))
    with pytest.raises(TriremeError, match="kubectl is not installed"):
        pull(cluster, "digits-master-0", "pytorch", replica, 0)


def test_those_in_mlflow_are_brought_by_the_name_of_the_run(
    untracked, tmp_path, mlflow_store, monkeypatch
):
    store = tmp_path / "mlflow.db"
    store.write_bytes(mlflow_store.read_bytes())
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{store}")
    client = mlflow.MlflowClient(os.environ["MLFLOW_TRACKING_URI"])
    experiment = client.create_experiment("digits", str(tmp_path / "artifacts"))
    write(tmp_path, NAME)
    for run in ("mine", "other"):
        whole = client.create_run(experiment, run_name=run, tags={"pipeline": "digits"})
        for step in ("train", "export"):
            tags = {"mlflow.parentRunId": whole.info.run_id}
            of_step = client.create_run(experiment, run_name=step, tags=tags)
            if step == "train":
                client.log_artifact(of_step.info.run_id, tmp_path / NAME, f"tensorboard/{run}")
    before = tracking_uri.told()
    (tmp_path / "folder").mkdir()
    try:
        artifacts.download("mine", tmp_path / "folder")
    finally:
        mlflow.set_tracking_uri(before)
    assert [*events.found([tmp_path / "folder"])] == [Path("train/mine", NAME)]


def test_no_name_in_mlflow_leads_out_of_the_folder(tmp_path, monkeypatch):
    def bring(run_id, path, folder):
        write(Path(folder), f"{path}/{NAME}")

    monkeypatch.setattr(artifacts.client, "download_artifacts", bring, raising=False)
    folder = tmp_path / "above" / "folder"
    folder.mkdir(parents=True)
    names = [("../../evil", "1"), (str(tmp_path / "evil"), "/../../evil"), ("..", "../evil")]
    for name, run_id in names:
        artifacts._download(
            SimpleNamespace(info=SimpleNamespace(run_name=name, run_id=run_id)), folder
        )
    assert {*tmp_path.rglob("events.*")} == {*folder.rglob("events.*")}
    found = {file.parent.relative_to(folder) for file in folder.rglob("events.*")}
    assert len(found) == 3 and all(len(place.parts) == 1 for place in found)


@pytest.mark.parametrize(("status", "model"), [(0, "model"), (3, "model.partial")])
def test_a_training_keeps_them_however_it_ends(tmp_path, untracked, status, model):
    program = (
        "import os, pathlib, sys, time\n"
        "for name in ('MODEL_DIR', 'CODE_DIR', 'TENSORBOARD_LOGGING_DIR'):\n"
        "    inside = {'MODEL_DIR': '.', 'CODE_DIR': 'runs'}.get(name, 'logs')\n"
        "    folder = pathlib.Path(os.environ[name], inside)\n"
        "    folder.mkdir(parents=True, exist_ok=True)\n"
        "    (folder / f'events.out.tfevents.{int(time.time())}.h.{len(name)}').write_text('1')\n"
        f"sys.exit({status})\n"
    )
    code = tmp_path / "code"
    write(code, f"docs/{OLD}", "train.py", content=program.encode())
    job = TrainingJob.create(
        framework="custom",
        image="example.org/train",
        entrypoint="train.py",
        code_dir=str(code),
        data_dir=str(tmp_path / "data"),
        checkpoint_dir=str(tmp_path / "checkpoints"),
        model_dir=str(tmp_path / "model.partial"),
        workers=0,
    )
    with journal.opened(tmp_path, "train"):
        try:
            training_step.train(job, tmp_path)
        except TriremeError:
            assert status
    kept = {
        record["folder"]: Path(record["artifact"]).relative_to(tmp_path).parent
        for record in journal.read(tmp_path, "train")
        if record.get("folder", "").startswith(journal.EVENTS)
    }
    assert kept == {
        "tensorboard": Path(model),
        "tensorboard/runs": Path("code/runs"),
        "tensorboard/logs": Path("checkpoints/tensorboard/logs"),
    }


def test_a_run_here_has_those_of_its_trials_apart(untracked, tmp_path):
    directory = untracked / "runs" / "sweep-1"
    workspace = directory / "workspace"
    own = f"checkpoints/tensorboard/{NAME}"
    write(workspace, f"code/runs/{NAME}", f"trials/000/{own}", f"trials/001/{own}", f"data/{NAME}")
    record = {"layout": LAYOUT, "state": "FINISHED", "started": 1650000000, "cwd": "/"}
    write(directory, "run.json", content=json.dumps(record).encode())
    folder = tmp_path / "folder"
    folder.mkdir()
    assert registry.open("local", {}).event_files("sweep-1", folder) is False
    brought = {str(file.relative_to(folder).parent) for file in folder.rglob("events.*")}
    assert brought == {"runs", "000", "001"}
