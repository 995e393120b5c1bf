"""trireme.run(..., target="kfp"): a run on a cluster, followed from Python."""

import os
import signal

import pytest

import trireme as library
from trireme.errors import InputError, TriremeError

DONE = {"checkout": "SUCCEEDED", "dataset": "SUCCEEDED", "train": "SUCCEEDED"}


@pytest.fixture(autouse=True)
def hurried(monkeypatch, untracked):
    monkeypatch.setattr("trireme.targets.handle.RunHandle._pause", 0.01)


def test_a_run_is_started_and_followed(kubeflow):
    kubeflow.states = [("RUNNING", {"checkout": "RUNNING"}), ("SUCCEEDED", DONE)]
    run = library.run("pytorch-training", target="kfp", workers=3, env={"A": "b"})
    assert run.name == kubeflow.only_run()["display_name"]
    given = kubeflow.only_run()["runtime_config"]["parameters"]
    assert (given["workers"], given["job"]) == (3, {"env": {"A": "b"}})
    run.wait()
    assert run.status == "FINISHED"
    assert [step.state for step in run.steps] == ["FINISHED"] * 3
    with pytest.raises(InputError, match="set MLFLOW_TRACKING_URI to the server that has it"):
        _ = run.metrics


def test_wait_says_why_a_run_has_failed(kubeflow):
    kubeflow.states = [("FAILED", {"checkout": "FAILED"})]
    run = library.run("pytorch-training", target="kfp")
    with pytest.raises(TriremeError, match=f"run {run.name} failed at checkout"):
        run.wait()


def test_an_interrupt_leaves_a_run_on_a_cluster(kubeflow, capsys):
    kubeflow.states = [("RUNNING", {"checkout": "RUNNING"})]
    run = library.run("pytorch-training", target="kfp")
    # While it waits for an answer: anywhere else it may leave a library's lock held.
    kubeflow.on_look = lambda: os.kill(os.getpid(), signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        run.wait()
    assert run.status == "running"
    assert capsys.readouterr().err.endswith(
        f"{run.name} goes on; its method cancel() would end it\n"
    )
    run.cancel()
    assert kubeflow.only_run()["state"] != "RUNNING"


def test_options_of_a_target_are_keywords(kubeflow, monkeypatch):
    url = kubeflow.url
    monkeypatch.delenv("KF_PIPELINES_ENDPOINT")
    kubeflow.states = [("SUCCEEDED", DONE)]
    library.run("pytorch-training", target="kfp", endpoint=url).wait()
    with pytest.raises(InputError, match="has no parameter 'service_account'"):
        library.run("pytorch-training", target="kfp", endpoint=url, service_account="me")
