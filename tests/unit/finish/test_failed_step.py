"""A step that fails on Kubeflow Pipelines ends its run, which has no exit handler there."""

import json
from types import SimpleNamespace

import pytest

from trireme import last_words
from trireme.errors import Cancelled, PodLost, StepFailed
from trireme.finish import finish as finishing
from trireme.kubernetes import connection, owner
from trireme.last_words import ENDS_RUN
from trireme.tracked_step import step
from trireme.tracking import journal

WHY = "the learning rate went to seed"


def pod(attempt=0, **strategy):
    """Returns the pod of a step as Kubeflow Pipelines makes it."""
    node = f"flow-1(0).root(0).train(0).executor({attempt})"
    template = {"name": "ARGO_TEMPLATE", "value": json.dumps({"retryStrategy": strategy})}
    return {
        "metadata": {
            "name": "flow-1-impl-1",
            "uid": "1",
            "labels": {"pipeline/runid": "run-1"},
            "annotations": {"workflows.argoproj.io/node-name": node},
        },
        "spec": {
            "initContainers": [{"name": "init", "env": [template]}],
            "containers": [{"name": "main"}],
        },
    }


@pytest.fixture
def on_kubeflow(server, monkeypatch, tmp_path):
    """A pod there, whose webhook is ``server``; its last words, and the jobs that are stopped."""
    said, stopped = tmp_path / "termination-log", []
    said.touch()
    monkeypatch.setattr(last_words, "TERMINATION_LOG", said)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv(ENDS_RUN, "retraining")
    for key in ("URL", "WHEN"):
        monkeypatch.delenv(f"TRIREME_WEBHOOK_{key}", raising=False)
    monkeypatch.setenv("TRIREME_WEBHOOK_URL", f"http://127.0.0.1:{server.server_port}/")
    monkeypatch.setattr(connection, "Cluster", lambda **_: SimpleNamespace(namespace="team"))
    as_kubeflow_has_it = pod(limit="2", retryPolicy="OnError")
    place = SimpleNamespace(pod=as_kubeflow_has_it, said=said, stopped=stopped)
    monkeypatch.setattr(owner, "this_pod", lambda *_: place.pod)
    monkeypatch.setattr(finishing, "_stop_jobs", stopped.append)
    server.answers = [200] * 4
    return place


def fail(workspace, error=None, name="train"):
    with pytest.raises(SystemExit) as ended, step(name, str(workspace)):
        raise error or StepFailed(WHY, "epoch 3\nloss nan")
    return ended.value.code


def test_its_record_is_closed_the_webhook_told_and_its_last_words_are_the_run_s(
    tmp_path, on_kubeflow, server, tracked
):
    client, whole, steps = tracked
    with journal.opened(tmp_path, "evaluate"):  # which MLflow was away for
        journal.log_headline({"held_out_accuracy": 0.9})
        journal.log_end("FINISHED")
    journal.run_path(tmp_path, "evaluate").write_text(steps[0])
    assert fail(tmp_path) == 1
    found = client.get_run(whole)
    assert found.info.status == "FAILED"
    assert (found.data.tags["error"], found.data.metrics) == (WHY, {"held_out_accuracy": 0.9})
    assert found.data.tags["mlflow.note.content"].startswith("**FAILED**")
    assert WHY in (tmp_path / "run.html").read_text()
    assert "run.html" in {one.path for one in client.list_artifacts(whole)}
    ((body, _),) = server.told
    assert (body["status"], body["pipeline"], body["run"]) == ("FAILED", "retraining", "run-1")
    assert body["reason"] == WHY
    left = last_words.read(on_kubeflow.said.read_text())
    assert (left.result, left.last_lines) == (WHY, "epoch 3\nloss nan")
    assert left.facts["Accuracy"] == "0.9000 on held-out samples"
    assert on_kubeflow.stopped == ["run-1"]


def test_an_error_of_somebody_s_own_is_told_in_its_words(tmp_path, on_kubeflow, server, untracked):
    with pytest.raises(ZeroDivisionError), step("clean", str(tmp_path)):
        1 / 0  # noqa: B018
    ((body, _),) = server.told
    assert body["reason"] == "step clean failed: ZeroDivisionError: division by zero"


@pytest.mark.parametrize("error", [Cancelled("by a person"), PodLost()])
def test_what_is_cancelled_or_goes_on_in_another_pod_ends_nothing(
    tmp_path, on_kubeflow, server, untracked, error
):
    assert fail(tmp_path, error) == 143
    assert (server.told, on_kubeflow.stopped) == ([], [])


def test_a_step_that_succeeds_ends_nothing(tmp_path, on_kubeflow, server, untracked):
    with step("train", str(tmp_path)):
        journal.summarize("done")
    assert (server.told, on_kubeflow.said.read_text()) == ([], "done")


def test_a_try_that_is_made_again_ends_nothing(tmp_path, on_kubeflow, server, untracked):
    on_kubeflow.pod = pod(1, limit="2")
    fail(tmp_path)
    assert server.told == []
    on_kubeflow.pod = pod(2, limit="2")
    fail(tmp_path)
    assert len(server.told) == 1


def test_where_the_run_has_an_exit_handler_that_ends_it(
    tmp_path, on_kubeflow, server, untracked, monkeypatch
):
    monkeypatch.delenv(ENDS_RUN)
    fail(tmp_path)
    assert (server.told, on_kubeflow.said.read_text()) == ([], WHY)


def test_of_steps_that_fail_side_by_side_the_first_tells_the_webhook_and_again_if_resumed(
    tmp_path, on_kubeflow, server, untracked
):
    fail(tmp_path)
    fail(tmp_path, name="other")
    assert len(server.told) == 1
    fail(tmp_path)
    assert len(server.told) == 2


def test_what_runs_beside_it_keeps_its_job_and_its_open_record(
    tmp_path, on_kubeflow, server, tracked
):
    client, whole, steps = tracked
    with journal.opened(tmp_path, "trial-001"):
        journal.log_metrics({"loss": 0.5})
    journal.run_path(tmp_path, "trial-001").write_text(steps[0])
    fail(tmp_path)
    assert on_kubeflow.stopped == []
    assert client.get_run(steps[0]).info.status == "RUNNING"
    assert client.get_run(whole).info.status == "FAILED"


def test_a_pod_that_may_not_be_asked_for_says_so_and_ends_the_run(
    tmp_path, on_kubeflow, server, untracked, monkeypatch, capsys
):
    def refuse(*_):
        raise StepFailed("this service account may not get pods")

    monkeypatch.setattr(owner, "this_pod", refuse)
    fail(tmp_path)
    assert "warning: jobs of the run are not looked for: this service" in capsys.readouterr().err
    assert (len(server.told), on_kubeflow.stopped) == (1, [])


def test_a_fault_in_ending_the_run_does_not_hide_the_step_s_own_error(
    tmp_path, on_kubeflow, server, untracked, capsys
):
    on_kubeflow.pod["spec"]["initContainers"][0]["env"][0]["value"] = "{"
    assert fail(tmp_path) == 1
    errors = capsys.readouterr().err
    assert f"error: {WHY}" in errors
    assert "warning: the run is not ended by this step: JSONDecodeError: " in errors
    assert (server.told, on_kubeflow.said.read_text()) == ([], WHY)


@pytest.mark.parametrize(
    ("strategy", "attempt", "again"),
    [
        ({}, 0, True),  # Argo has no limit then
        ({"limit": "1"}, 0, True),
        ({"limit": "1", "retryPolicy": "Always"}, 1, False),
        ({"limit": "2", "retryPolicy": "OnError"}, 0, False),
        (
            {"limit": "2", "retryPolicy": "Always", "expression": "lastRetry.message != ''"},
            0,
            False,
        ),
    ],
)
def test_it_is_known_whether_argo_tries_a_failure_again(strategy, attempt, again):
    assert owner.tries_failures_again(pod(attempt, **strategy)) is again
