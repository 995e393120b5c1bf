"""What a run's last step does on a cluster: nothing of the run is left that still works."""

import copy
from types import SimpleNamespace

import pytest
from argo_runs import begun

from trireme.finish import finish as finishing
from trireme.finish import own_steps
from trireme.finish.finish import finish
from trireme.kubernetes import connection, owner
from trireme.kubernetes.errors import Forbidden
from trireme.kubernetes.resources import PODS
from trireme.runner.cluster import jobs, submission
from trireme.targets.argo import workflows
from trireme.tracking import journal


def test_jobs_of_the_run_that_still_work_are_deleted_and_no_others(
    cluster, monkeypatch, untracked, pytorch, player, tmp_path, capsys, eventually
):
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setattr(connection, "Cluster", lambda **_: cluster)
    for name in ("train-7", "train-7-003", "train-7-004", "train-70", "mine"):
        manifest = copy.deepcopy(pytorch)
        manifest["metadata"]["name"] = name
        job = submission.submit(cluster, manifest)
        if name == "train-7-004":
            player.condition(job, "Succeeded")
    finish("FAILED", "", "sweep", "7", "", tmp_path, tmp_path / "run.html")
    left = {"train-7-004", "train-70", "mine"}
    assert eventually(lambda: {row.name for row in jobs.list_jobs(cluster)} == left)
    assert [line.strip() for line in capsys.readouterr().out.splitlines()] == [
        "deleted the training job train-7, which still existed",
        "deleted the training job train-7-003, which still existed",
    ]


def test_a_step_that_may_not_delete_says_so_and_ends_the_run(
    monkeypatch, untracked, tmp_path, capsys
):
    def refuse():
        raise Forbidden("this service account may not list pytorchjobs")

    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setattr(connection, "Cluster", refuse)
    finish("SUCCEEDED", "", "sweep", "7", "", tmp_path, tmp_path / "run.html")
    assert "warning: this service account may not list" in capsys.readouterr().out


@pytest.fixture
def on_argo(argo, pytorch, monkeypatch, untracked):
    """A Workflow with the pod of its training step, and the job that this step has made."""
    run = begun(argo)
    workflow = argo.get(workflows.WORKFLOWS, run, argo.namespace)
    reference = {key: workflow[key] for key in ("apiVersion", "kind")} | {
        "name": run,
        "uid": workflow["metadata"]["uid"],
        "controller": True,
    }
    step = {"name": "step", "ownerReferences": [reference]}
    spec = {"containers": [{"name": "main", "image": "example.org/trireme"}]}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": step, "spec": spec}
    argo.create(PODS, body, argo.namespace)
    monkeypatch.setenv("POD_NAME", "step")
    monkeypatch.setenv("TRIREME_RUN", run)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setattr(connection, "Cluster", lambda **_: argo)
    pytorch["metadata"] |= {"name": "train-7", "ownerReferences": owner.owners(argo)}
    submission.submit(argo, pytorch)
    return workflows.find(argo, run)


@pytest.mark.parametrize(("stop", "status"), [(True, "KILLED"), (False, "FAILED")])
def test_a_run_that_is_stopped_on_argo_leaves_no_job_and_is_killed(
    argo, on_argo, monkeypatch, tmp_path, stop, status, eventually
):
    told = []
    monkeypatch.setenv("MLFLOW_RUN_ID", "run")
    monkeypatch.setattr(finishing, "_close_record", lambda _, status, step: told.append(status))
    if stop:
        workflows.cancel(argo, on_argo)
    finish("FAILED", "", "pytorch-training", "7", "", tmp_path, tmp_path / "run.html")
    assert told == [status]
    assert eventually(lambda: not jobs.list_jobs(argo))


@pytest.mark.parametrize(("deadline", "status"), [(0, "KILLED"), (3600, "FINISHED")])
def test_a_run_that_kubeflow_stops_in_a_driver_is_killed(
    argo, on_argo, monkeypatch, tmp_path, deadline, status
):
    told = []
    monkeypatch.delenv("TRIREME_RUN")
    monkeypatch.setenv("MLFLOW_RUN_ID", "run")
    monkeypatch.setattr(finishing, "_close_record", lambda _, status, step: told.append(status))
    stop = {"spec": {"activeDeadlineSeconds": deadline}}
    argo.patch(workflows.WORKFLOWS, on_argo.name, argo.namespace, stop)
    with journal.opened(tmp_path, "dataset"):  # the last step that began
        journal.log_end("FINISHED")
    finish("RUNNING", "", "pytorch-training", "7", "", tmp_path, tmp_path / "run.html")
    assert told == [status]


def test_a_job_that_is_left_when_argo_terminates_goes_with_its_workflow(argo, on_argo, eventually):
    assert [row.name for row in jobs.list_jobs(argo)] == ["train-7"]
    uid = argo.get(workflows.WORKFLOWS, on_argo.name, argo.namespace)["metadata"]["uid"]
    argo.delete(workflows.WORKFLOWS, on_argo.name, argo.namespace, uid)
    assert eventually(lambda: not jobs.list_jobs(argo))


def test_a_last_step_that_may_not_ask_argo_says_so_and_ends_the_run(
    argo_standing_in, server, monkeypatch, untracked, tmp_path, capsys
):
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("TRIREME_RUN", "run")
    monkeypatch.setattr(connection, "Cluster", lambda **_: argo_standing_in)
    server.fail("GET", "/workflows/", code=403, message="cannot get workflows")
    finish("FAILED", "", "sweep", "7", "", tmp_path, tmp_path / "run.html")
    assert "warning: not allowed on the cluster: cannot get workflows" in capsys.readouterr().out


def test_a_step_that_was_evicted_costs_no_other_its_record(monkeypatch, tmp_path, capsys):
    def pod(step, **status):
        labels = {"workflows.argoproj.io/workflow": "run-1"}
        created = {"creationTimestamp": "2026-11-25T10:00:00Z"}
        annotations = {"workflows.argoproj.io/node-name": f"run-1.{step}"}
        metadata = {"name": step, "labels": labels, "annotations": annotations} | created
        return {"metadata": metadata, "spec": {"containers": [{"name": "main"}]}, "status": status}

    times = {"startedAt": "2026-11-25T10:00:01Z", "finishedAt": "2026-11-25T10:00:05Z"}
    ended = {"name": "main", "state": {"terminated": times | {"exitCode": 0}}}
    evicted = pod("clean", phase="Failed", reason="Evicted", message="low on memory")
    without_a_log = pod("dig", phase="Succeeded", containerStatuses=[ended])
    there = [evicted, without_a_log, pod("wash", phase="Succeeded", containerStatuses=[ended])]

    def log_tail(cluster, pod, *_, **__):
        if pod is without_a_log:
            raise Forbidden("this service account may not read logs")
        return []

    cluster = SimpleNamespace(namespace="team", items=lambda *_, **__: there)
    monkeypatch.setattr(own_steps, "Cluster", lambda **_: cluster)
    monkeypatch.setattr(owner, "this_pod", lambda _: there[0])
    monkeypatch.setattr(own_steps, "step_of", lambda pod: pod["metadata"]["name"])
    monkeypatch.setattr(own_steps, "log_tail", log_tail)
    own_steps.keep(tmp_path)
    assert journal.steps(tmp_path) == ["clean", "wash"]
    assert journal.end_of(tmp_path, "clean") == "FAILED"
    (error,) = (one["error"] for one in journal.read(tmp_path, "clean") if "error" in one)
    assert "low on memory" in error["message"]
    assert journal.end_of(tmp_path, "wash") == "FINISHED"
    assert "warning: step dig has no record: this service" in capsys.readouterr().err
