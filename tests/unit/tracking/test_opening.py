"""trireme/tracking/runs.py: steps that open their MLflow runs themselves, as on Argo."""

import errno
import json
import os
import socket
import time
from contextlib import suppress
from unittest.mock import Mock

import mlflow
import pytest
import tracking_uri
from mlflow import MlflowClient

from trireme.errors import Cancelled, PodLost, StepFailed, TrackingUnavailable
from trireme.files import workspace
from trireme.finish.finish import finish
from trireme.runner.job_of_run import RunOfJob
from trireme.tracked_step import step
from trireme.tracking import abandoned_runs, environment, journal
from trireme.tracking import runs as tracked_runs

PARAMETERS = {
    "experiment": "mine",
    "code_url": r'"\"{\u007b"',
    "workers": "2",
    "share": "0.0",
    "force": "true",
    "args": '["--a"]',
}


@pytest.fixture
def argo(tmp_path, untracked, mlflow_store, monkeypatch):
    """The variables of a step on Argo; returns a client."""
    (tmp_path / "mlflow.db").write_bytes(mlflow_store.read_bytes())
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.setenv("_MLFLOW_SERVER_ARTIFACT_ROOT", str(tmp_path / "artifacts"))
    monkeypatch.setenv("TRIREME_PIPELINE", "pytorch-training")
    monkeypatch.setenv("TRIREME_RUN", "pytorch-training-x7k2p")
    monkeypatch.setenv("TRIREME_PARAMETERS", json.dumps(PARAMETERS))
    monkeypatch.setenv("TRIREME_TEXTS", "experiment code_url")
    mlflow.set_tracking_uri(uri)
    return mlflow.MlflowClient(uri)


def run_step(name, workspace, work=lambda: None):
    """Runs a step as if it were a process of its own."""
    with pytest.MonkeyPatch.context() as variables:
        # Whatever the step adds to the environment goes with it.
        for variable in ("MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_ID", "MLFLOW_EXPERIMENT_NAME"):
            variables.setenv(variable, "")
            variables.delenv(variable)
        with step(name, str(workspace)):
            work()


def runs(client):
    """The pipeline's run, and those of its steps by name."""
    found = client.search_runs([client.get_experiment_by_name("mine").experiment_id])
    (whole,) = [run for run in found if "mlflow.parentRunId" not in run.data.tags]
    steps = {run.info.run_name: run for run in found if run is not whole}
    for run in steps.values():
        assert run.data.tags["mlflow.parentRunId"] == whole.info.run_id
    return whole, steps


def test_the_first_step_opens_the_pipelines_run_and_each_its_own(argo, tmp_path):
    experiments = []

    def work():
        journal.log_tags({"git.commit": "abc"})
        experiments.append(environment.variables()["MLFLOW_EXPERIMENT_NAME"])

    run_step("checkout", tmp_path, work)
    assert experiments == ["mine"]
    with pytest.raises(SystemExit):

        def fail():
            raise StepFailed("too bad")

        run_step("train", tmp_path, fail)
    run_step("train", tmp_path, lambda: journal.log_metrics({"loss": 0.5}))  # tried again
    run_step(
        "finish",
        tmp_path,
        lambda: finish("SUCCEEDED", "", "p", "run-1", "", tmp_path, tmp_path / "run.html"),
    )
    whole, steps = runs(argo)
    assert whole.info.run_name == "pytorch-training-x7k2p"
    assert whole.info.status == "FINISHED"
    assert whole.data.params == {
        "experiment": "mine",
        "code_url": '"{{',
        "workers": "2",
        "share": "0.0",
        "force": "True",
        "args": "['--a']",
    }
    assert (whole.data.tags["pipeline"], whole.data.tags["git.commit"]) == (
        "pytorch-training",
        "abc",
    )
    assert set(steps) == {"checkout", "train", "finish"}
    assert {run.info.status for run in steps.values()} == {"FINISHED"}
    assert steps["train"].data.metrics == {"loss": 0.5}
    assert "error" not in {**steps["train"].data.tags, **whole.data.tags}


def test_a_trial_that_has_failed_is_so_in_mlflow_and_fails_no_run(argo, tmp_path):
    run_step(
        "trial-000", tmp_path, lambda: journal.log_error(StepFailed("too bad"), is_fatal=False)
    )
    run_step(
        "finish",
        tmp_path,
        lambda: finish("SUCCEEDED", "", "p", "run-1", "", tmp_path, tmp_path / "run.html"),
    )
    whole, steps = runs(argo)
    assert (whole.info.status, steps["trial-000"].info.status) == ("FINISHED", "FAILED")
    assert steps["trial-000"].data.tags["error"] == "too bad"
    assert "error" not in whole.data.tags


@pytest.mark.parametrize("is_plugins", [False, True], ids=["argo", "kubeflow"])
def test_each_trial_of_one_process_has_a_run_of_its_own(argo, tmp_path, monkeypatch, is_plugins):
    above = ""
    if is_plugins:  # whose run is that of the process
        whole = argo.create_run(argo.create_experiment("mine"), run_name="run-1")
        tags = {"mlflow.parentRunId": whole.info.run_id}
        above = argo.create_run(whole.info.experiment_id, tags=tags, run_name="trial").info.run_id
        monkeypatch.setenv("MLFLOW_RUN_ID", above)
        monkeypatch.setenv("MLFLOW_EXPERIMENT_ID", whole.info.experiment_id)
    names = ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_ID", "MLFLOW_RUN_ID")
    before = [os.environ.get(name) for name in names]
    for number in (1, 5):
        with step(f"trial-00{number}", str(tmp_path), is_one_of_many=True):
            journal.log_metrics({"loss": number})
            own = os.environ["MLFLOW_RUN_ID"]  # which its job's pods get
            assert own != above
        assert [os.environ.get(name) for name in names] == before
    found = argo.search_runs([argo.get_experiment_by_name("mine").experiment_id])
    by_name = {run.info.run_name: run for run in found}
    trials = [by_name[f"trial-00{number}"] for number in (1, 5)]
    assert [run.data.metrics["loss"] for run in trials] == [1, 5]
    assert {run.info.status for run in trials} == {"FINISHED"}
    (parent,) = {run.data.tags["mlflow.parentRunId"] for run in trials}
    assert parent == (above or by_name["pytorch-training-x7k2p"].info.run_id)


def test_a_program_has_the_experiments_name_where_kubeflow_leaves_it_out(
    argo, tmp_path, monkeypatch, capsys
):
    number = argo.create_experiment("mine")
    assert tracked_runs.variables_of_a_program().keys() == {"MLFLOW_TRACKING_URI"}
    monkeypatch.setenv("MLFLOW_RUN_ID", argo.create_run(number).info.run_id)
    monkeypatch.setenv("MLFLOW_EXPERIMENT_ID", number)
    assert RunOfJob.of_step(tmp_path, "", "").env["MLFLOW_EXPERIMENT_NAME"] == "mine"
    monkeypatch.setenv("MLFLOW_EXPERIMENT_ID", "1234")
    assert "MLFLOW_EXPERIMENT_NAME" not in tracked_runs.variables_of_a_program()
    assert "the program does not have MLFLOW_EXPERIMENT_NAME" in capsys.readouterr().err
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "theirs")
    assert tracked_runs.variables_of_a_program()["MLFLOW_EXPERIMENT_NAME"] == "theirs"


def test_a_trial_without_a_run_of_its_own_does_not_take_that_of_all(
    argo, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("MLFLOW_RUN_ID", "of-all")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_ID", "0")
    monkeypatch.setattr(tracked_runs, "step_run", Mock(side_effect=TrackingUnavailable("away")))
    with step("trial-001", str(tmp_path), is_one_of_many=True):
        assert "MLFLOW_RUN_ID" not in os.environ
    assert os.environ["MLFLOW_RUN_ID"] == "of-all"
    assert not journal.run_path(tmp_path, "trial-001").exists()
    assert "warning: this step is not in MLflow" in capsys.readouterr().err


def test_a_step_whose_pod_is_taken_away_has_not_failed(argo, tmp_path):
    def is_taken_away():
        raise PodLost

    with pytest.raises(SystemExit) as ended:
        run_step("train", tmp_path, is_taken_away)
    assert ended.value.code == 143
    assert {run.info.status for run in runs(argo)[1].values()} == {"RUNNING"}
    run_step("train", tmp_path)
    (run,) = runs(argo)[1].values()
    assert run.info.status == "FINISHED"


def test_a_workspace_that_may_not_be_written_to_is_said_to_be_so(
    untracked, tmp_path, monkeypatch, capsys
):
    def refuse(**_):
        raise PermissionError  # as for a user that is not root

    monkeypatch.setattr(workspace.tempfile, "TemporaryFile", refuse)
    with pytest.raises(SystemExit) as ended, step("checkout", str(tmp_path)):
        raise AssertionError
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith(f"error: run workspace {tmp_path}: user ")
    assert said.count("\n") == 1 and "fsGroup" in said
    assert not list(tmp_path.iterdir())


def test_what_mlflow_was_away_for_is_recorded_in_the_end(argo, tmp_path, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        away = f"http://127.0.0.1:{closed.getsockname()[1]}"
    monkeypatch.setattr("trireme.tracking.client._patience", 0.1)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    uri = tracking_uri.told()
    mlflow.set_tracking_uri(away)
    run_step("checkout", tmp_path, lambda: journal.log_tags({"git.commit": "abc"}))
    over = 1000 * time.time()
    mlflow.set_tracking_uri(uri)
    run_step(
        "finish",
        tmp_path,
        lambda: finish("FAILED", "", "p", "run-1", "", tmp_path, tmp_path / "run.html"),
    )
    whole, steps = runs(argo)
    assert whole.info.status == "FAILED"
    late = steps["checkout"].info
    assert late.start_time <= late.end_time <= over <= steps["finish"].info.start_time
    assert whole.data.tags["git.commit"] == "abc"
    assert (steps["checkout"].info.status, steps["finish"].info.status) == ("FINISHED", "FINISHED")


def test_of_two_first_runs_one_makes_the_experiment(argo, tmp_path, monkeypatch):
    """Both have looked for it before one has made it."""
    looked = MlflowClient.get_experiment_by_name

    def late(client, name):
        monkeypatch.setattr(MlflowClient, "get_experiment_by_name", looked)
        argo.create_experiment(name)

    monkeypatch.setattr(MlflowClient, "get_experiment_by_name", late)
    run_step("checkout", tmp_path)
    whole, steps = runs(argo)
    assert steps["checkout"].info.status == "FINISHED"
    assert argo.get_experiment(whole.info.experiment_id).name == "mine"


def test_of_two_first_steps_one_opens_the_pipelines_run(argo, tmp_path, monkeypatch):
    open_pipeline = tracked_runs.open_pipeline

    def meanwhile(*arguments):
        # Another step that began with this one comes in between.
        monkeypatch.setattr(tracked_runs, "open_pipeline", open_pipeline)
        tracked_runs.pipeline_run(tmp_path)
        return open_pipeline(*arguments)

    monkeypatch.setattr(tracked_runs, "open_pipeline", meanwhile)
    run_step("checkout", tmp_path)
    whole, steps = runs(argo)
    assert whole.info.status == "RUNNING"
    assert set(steps) == {"checkout"}


def test_without_hard_links_the_pipelines_run_is_opened_as_well(argo, tmp_path, monkeypatch):
    """As on SMB."""

    def refuse(*_):
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr(tracked_runs.os, "link", refuse)
    run_step("checkout", tmp_path)
    run_step("train", tmp_path)
    assert set(runs(argo)[1]) == {"checkout", "train"}
    assert not [*tmp_path.glob("mlflow-run-*.json")]


def test_a_step_whose_run_somebody_has_deleted_has_done_its_work(argo, tmp_path, capsys):
    def delete():
        argo.delete_run(os.environ["MLFLOW_RUN_ID"])
        journal.log_metrics({"loss": 0.5})

    run_step("train", tmp_path, delete)
    said = capsys.readouterr().err
    assert "warning: the record of this step is not in MLflow: MLflow does not accept it: " in said
    assert said.count("\n") == 1

    def with_a_model():
        delete()
        journal.log_package(tmp_path, "model", tags={}, promote=True, champion="")

    with pytest.raises(SystemExit):
        run_step("export", tmp_path, with_a_model)
    said = capsys.readouterr().err
    assert "error: the model is not registered: MLflow does not accept it: " in said


def test_a_server_that_lets_nobody_in_is_one_warning_and_no_wait(
    argo, tmp_path, monkeypatch, capsys
):
    from mlflow.exceptions import MlflowException
    from mlflow.protos.databricks_pb2 import UNAUTHENTICATED

    def refuse(*_, **__):
        raise MlflowException("You are not authenticated", error_code=UNAUTHENTICATED)

    monkeypatch.setattr(mlflow.MlflowClient, "get_experiment_by_name", refuse)
    run_step("checkout", tmp_path)
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "warning: this step is not in MLflow: the MLflow tracking server does not" in said
    assert "(401)" in said and "trireme-mlflow" in said


def test_a_step_that_was_told_to_end_is_killed_in_mlflow_and_not_failed(argo, tmp_path):
    def be_cancelled():
        raise Cancelled("the job was cancelled")

    with pytest.raises(SystemExit) as ended:
        run_step("train", tmp_path, be_cancelled)
    assert ended.value.code == 143
    whole, steps = runs(argo)
    assert steps["train"].info.status == "KILLED"
    assert journal.end_of(tmp_path, "train") == "KILLED"
    assert whole.info.status == "KILLED"  # no last step comes where Kubeflow was told to cancel


def test_a_step_that_was_told_to_end_is_killed_in_the_runs_of_kubeflows_plugin(
    argo, tmp_path, monkeypatch
):
    monkeypatch.delenv("TRIREME_PIPELINE")
    experiment = argo.create_experiment("mine")
    whole = argo.create_run(experiment)
    tags = {"mlflow.parentRunId": whole.info.run_id}
    own = argo.create_run(experiment, tags=tags, run_name="train").info.run_id

    def stopped():
        raise Cancelled("told to end")

    for work, status in ((stopped, "KILLED"), (lambda: None, "RUNNING")):
        argo.update_run(own, status="RUNNING")
        with pytest.MonkeyPatch.context() as plugin, suppress(SystemExit):
            plugin.setenv("MLFLOW_RUN_ID", own)
            with step("train", str(tmp_path)):
                work()
        assert argo.get_run(own).info.status == status


def test_what_has_ended_without_a_last_step_is_ended_where_somebody_looks(argo, tmp_path, capsys):
    run_step("checkout", tmp_path)
    whole, _ = runs(argo)
    step = argo.create_run(whole.info.experiment_id, run_name="train")
    argo.set_tag(step.info.run_id, "mlflow.parentRunId", whole.info.run_id)
    name = whole.info.run_name
    abandoned_runs.end({name: "running", "another": "KILLED"})
    assert runs(argo)[0].info.status == "RUNNING"
    abandoned_runs.end({name: "KILLED"})
    whole, steps = runs(argo)
    states = {name: step.info.status for name, step in steps.items()}
    assert states == {"checkout": "FINISHED", "train": "KILLED"}
    assert whole.info.status == "KILLED"
    printed, said = capsys.readouterr()
    assert printed == ""
    assert said.endswith(f"{name} was still open in MLflow, and is now KILLED\n")
    abandoned_runs.end({name: "FAILED"})
    assert runs(argo)[0].info.status == "KILLED"


def test_what_kubeflows_plugin_leaves_open_is_ended_where_somebody_looks(argo, tmp_path):
    """As with that of 2.17.0, where a run was cancelled while it trained."""
    experiment = argo.create_experiment("mine")
    tags = {"kfp.pipeline_run_id": "7e0ef8f3"}
    ids = [argo.create_run(experiment, run_name="p-1", tags=tags).info.run_id]
    for name in ("exit-handler-1", "train"):
        above = {"mlflow.parentRunId": ids[-1]}
        ids.append(argo.create_run(experiment, run_name=name, tags=above).info.run_id)
    alone = argo.create_run(experiment, run_name="p-2").info.run_id  # of somebody else
    argo.set_terminated(ids[0], "FAILED")
    argo.set_terminated(ids[1], "FINISHED")
    abandoned_runs.end({"p-1": "KILLED", "p-2": "KILLED"})
    states = [argo.get_run(run_id).info.status for run_id in (*ids, alone)]
    assert states == ["KILLED", "FINISHED", "KILLED", "RUNNING"]


def test_a_run_whose_whole_is_deleted_does_not_keep_others_open(argo):
    experiment = argo.create_experiment("mine")
    ours = argo.create_run(experiment, run_name="p-1", tags={"pipeline": "p"}).info.run_id
    argo.create_run(experiment, run_name="child", tags={"mlflow.parentRunId": 32 * "0"})
    abandoned_runs.end({"p-1": "KILLED"})
    assert argo.get_run(ours).info.status == "KILLED"


def test_a_step_leaves_its_result_as_the_last_words_of_its_container(
    tmp_path, untracked, monkeypatch
):
    log = tmp_path / "termination-log"
    log.touch()
    monkeypatch.setattr("trireme.last_words.TERMINATION_LOG", log)
    with step("evaluate", str(tmp_path)):
        journal.summarize("not exported: too bad")
    assert log.read_text() == "not exported: too bad"
