"""trireme/explaining and targets/explaining: jobs and runs of a cluster that fail or wait."""

from argo_runs import begun

from trireme.explaining import jobs
from trireme.runner.cluster import submission
from trireme.targets import explaining, registry
from trireme.targets.argo import workflows


def test_a_job_that_failed_is_explained_with_node_and_events(cluster, player, pytorch):
    job = submission.submit(cluster, pytorch)
    master, worker = player.pod(job, "master"), player.pod(job, "worker")
    for pod in (master, worker):
        player.run(pod)
    player.exit(worker, 3)
    player.event(player.get(worker), "BackOff", "it will not stay up")
    player.condition(job, "Failed", message="1 Worker replica(s) failed")
    told = jobs.there(cluster, "digits")
    assert (told.of, told.state, told.where) == ("job", "failed", cluster.namespace)
    assert told.cause.sentence == "replica worker-0 exited with status 3"
    assert (told.cause.kind, told.cause.exit_status) == ("exit-status", 3)
    evidence = {each.what for each in told.evidence}
    assert {"condition", "event"} <= evidence
    assert told.next[-1].command.startswith("trireme job logs digits --namespace ")


def test_a_job_that_waits_says_for_what(cluster, player, pytorch):
    job = submission.submit(cluster, pytorch)
    waiting = {"reason": "ErrImagePull", "message": "no such image"}
    player._container(player.pod(job, "worker"), "Pending", {"waiting": waiting})
    told = jobs.there(cluster, "digits")
    assert told.cause is None and not told.has_ended
    assert told.waits[0].reason == "worker-0: ErrImagePull: no such image"
    assert told.summary.endswith("worker-0: ErrImagePull: no such image")


def test_a_run_on_argo_that_waits_says_for_what(argo, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    name = begun(argo)
    status = {"phase": "Pending", "message": "workflow is waiting for the semaphore gpus"}
    argo.patch(workflows.WORKFLOWS, name, argo.namespace, {"status": status})
    told = explaining.explain(registry.open("argo", {"namespace": argo.namespace}), name)
    assert told.cause is None and not told.has_ended
    assert [wait.reason for wait in told.waits] == [status["message"]]
    words = f"trireme logs {name} --target argo --namespace {argo.namespace}"
    assert told.next[-1].command == words


def test_a_run_on_argo_that_failed_is_explained(argo, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    name = begun(argo)
    target = registry.open("argo", {"namespace": argo.namespace})
    assert explaining.explain(target, name).cause is None
    status = {"phase": "Failed", "message": "child failed", "finishedAt": "2036-01-01T00:00:00Z"}
    argo.patch(workflows.WORKFLOWS, name, argo.namespace, {"status": status})
    told = explaining.explain(target, name)
    assert (told.of, told.state, told.where) == ("run", "FAILED", "argo")
    assert told.cause.sentence.startswith(f"run {name} failed")
    assert any("MLFLOW_TRACKING_URI is not set" in note for note in told.notes)
