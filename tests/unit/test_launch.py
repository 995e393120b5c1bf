"""The training step around the job: what is refused, what is kept."""

import textwrap
from pathlib import Path

import pytest

from components.errors import InputError, JobFailed
from components.tracking.environment import TRACKER
from components.training import launch, runner


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setattr(runner, "SETTLE", 0.5)
    (tmp_path / "code").mkdir()
    return tmp_path


@pytest.fixture
def train(workspace):
    """Trains with a program, as one process."""

    def train(program: str) -> launch.Trained:
        (workspace / "code" / "train.py").write_text(textwrap.dedent(program))
        job = launch.prepare(
            workspace,
            code=str(workspace / "code"),
            data=str(workspace / "data"),
            image="example.org/trainer:1",
            entrypoint="train.py",
            args=[],
            workers=0,
            processes_per_worker=1,
            seed=7,
            time_limit=0,
        )
        return launch.train(job, workspace)

    return train


def test_the_model_appears_when_the_program_has_succeeded(train, workspace):
    trained = train(
        """
        import os, pathlib
        model = pathlib.Path(os.environ["MODEL_DIR"])
        assert not model.with_name("model").exists()
        (model / "seed").write_text(os.environ["SEED"])
        pathlib.Path(os.environ["CHECKPOINT_DIR"], "last").touch()
        """
    )
    assert Path(trained.model, "seed").read_text() == "7"
    assert Path(trained.checkpoints, "last").exists()
    assert not (workspace / "model.partial").exists()


def test_a_failed_program_leaves_no_model_and_keeps_that_of_before(train, workspace):
    train("import os; open(os.environ['MODEL_DIR'] + '/good', 'w').close()")
    with pytest.raises(JobFailed):
        train("import os, sys; open(os.environ['MODEL_DIR'] + '/bad', 'w').close(); sys.exit(3)")
    assert [file.name for file in (workspace / "model").iterdir()] == ["good"]


def test_links_inside_the_model_still_lead_somewhere(train):
    trained = train(
        """
        import os, pathlib
        model = pathlib.Path(os.environ["MODEL_DIR"])
        (model / "epoch3.pt").write_text("weights")
        (model / "latest.pt").symlink_to(model / "epoch3.pt")
        (model / "relative.pt").symlink_to("epoch3.pt")
        (model / "nowhere.pt").symlink_to(model / "epoch4.pt")
        """
    )
    kept = {file.name: file.read_text() for file in Path(trained.model).iterdir()}
    assert kept == dict.fromkeys(("epoch3.pt", "latest.pt", "relative.pt"), "weights")


def test_in_a_cluster_training_is_refused_unless_somebody_runs_the_pipeline_there(
    train, workspace, monkeypatch
):
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    with pytest.raises(InputError, match="trains on one machine only"):
        train("")
    monkeypatch.setenv(TRACKER, str(workspace / "mlflow.json"))
    assert Path(train("").model).exists()


def test_a_program_that_is_not_there_is_refused(train, workspace):
    with pytest.raises(InputError, match=r"entrypoint 'train\.py' does not exist"):
        (workspace / "code").rename(workspace / "elsewhere")
        (workspace / "code").mkdir()
        launch.train(
            launch.prepare(
                workspace,
                code=str(workspace / "code"),
                data="data",
                image="i",
                entrypoint="train.py",
                args=[],
                workers=0,
                processes_per_worker=1,
                seed=0,
                time_limit=0,
            ),
            workspace,
        )
    assert not (workspace / "model.partial").exists()
