"""A job's whole life, on the stand-in and on a real API server."""

from threading import Thread

import pytest
from player import ROLES, STANDS_IN, Player, manifests

from trireme.errors import Cancelled, InputError, JobFailed
from trireme.frameworks import kind_of
from trireme.kubernetes.errors import Invalid, NotFound
from trireme.kubernetes.resources import PODS
from trireme.observers import timeline
from trireme.runner.cluster import follower, jobs, reasons, submission
from trireme.runner.failed_replica import TimeLimitReached


@pytest.fixture(autouse=True)
def quick_to_settle(monkeypatch):
    monkeypatch.setattr(follower, "DRAIN", 1.0)


def running(player, manifest):
    """Brings a job's two pods up; returns the job and their names."""
    job = player.wait_for(manifest)
    first, second = ROLES[job["kind"]]
    pods = [player.pod(job, first, 0), player.pod(job, second, 0 if first != second else 1)]
    for pod in pods:
        player.run(pod)
    player.condition(job, "Running")
    return job, pods


def names(job):
    first, second = ROLES[job["kind"]]
    return [f"{first}-0", f"{second}-{0 if first != second else 1}"]


def exists(cluster, job):
    try:
        cluster.get(kind_of(job), job["metadata"]["name"], cluster.namespace)
    except NotFound:
        return False
    return True


def test_a_job_succeeds(launched, player, manifest):
    run = launched(manifest)
    job, pods = running(player, manifest)
    run.says("running: 2 of 2 replicas run")
    for pod in pods:
        player.exit(pod, 0)
    player.condition(job, "Running", status="False")
    player.condition(job, "Complete" if job["kind"] == "TrainJob" else "Succeeded")
    run.end()
    assert run.error is None
    # Started at 10 and 20 s, with the condition's time between; ended at 40 and 50 s.
    assert run.seconds == {names(job)[0]: 30.0, names(job)[1]: 30.0}
    assert run.states[0].startswith("starting: 0 of 2 replicas run")


def test_a_failing_replica_is_named_and_the_record_stays(cluster, launched, player, manifest):
    run = launched(manifest)
    job, pods = running(player, manifest)
    run.says("running")
    player.exit(pods[1], 3)
    player.exit(pods[0], 1)
    player.condition(job, "Running", status="False")
    player.condition(job, "Failed", reason="PyTorchJobFailed", message="1 replica(s) failed")
    error = run.end().error
    assert type(error) is JobFailed
    assert str(error) == f"replica {names(job)[1]} exited with status 3"
    assert exists(cluster, job)


@pytest.mark.parametrize(
    ("ended", "words"),
    [
        ({"code": 137, "reason": "OOMKilled"}, "ran out of memory (OOMKilled; its limit is 4Gi)"),
        ({"code": 139}, "was ended by SIGSEGV"),
        (
            {"code": 128, "reason": "StartError", "message": "exec: no such file"},
            "could not be started: exec: no such file",
        ),
    ],
)
def test_how_a_replica_ended_is_said_in_words(launched, player, pytorch, ended, words):
    run = launched(pytorch)
    job = player.wait_for(pytorch)
    pod = player.pod(job, "master", memory="4Gi")
    player.run(pod)
    player.exit(pod, **ended)
    player.condition(job, "Failed")
    assert str(run.end().error) == f"replica master-0 {words}"


def test_an_evicted_replica_is_the_cause(launched, player, pytorch):
    run = launched(pytorch)
    job, (master, worker) = running(player, pytorch)
    run.says("running")
    # The kubelet ends the container first; the other one fails in the same second.
    at = player.now()
    player.exit(worker, 137, at=at)
    player.set(worker, reason="Evicted", message="The node was low on resource: memory.")
    player.remove(master)
    player.condition(job, "Failed")
    said = "replica worker-0 was evicted from its node: The node was low on resource: memory."
    assert str(run.end().error) == said


def test_a_job_whose_replica_is_taken_away_is_made_anew(
    launched, player, pytorch, monkeypatch, eventually
):
    monkeypatch.setattr("trireme.runner.cluster.runner.LOST", 1)
    run = launched(pytorch)
    first, pods = running(player, pytorch)
    for pod in pods:
        player.exit(pod, 137)
        player.set(pod, reason="Evicted", message="low on memory")
    player.condition(first, "Failed")
    run.says("was evicted from its node: low on memory; it is made anew, and goes on from its last")
    uid = first["metadata"]["uid"]
    assert eventually(lambda: player.wait_for(pytorch)["metadata"]["uid"] != uid)
    second, pods = running(player, pytorch)
    for pod in pods:
        player.exit(pod, 0)
    player.condition(second, "Succeeded")
    ended = run.end()
    assert ended.error is None and sorted(ended.seconds) == ["master-0", "worker-0"]


def test_a_time_limit_is_named_also_where_pods_were_ended_for_it(launched, player, pytorch):
    pytorch["spec"]["runPolicy"]["activeDeadlineSeconds"] = 600
    run = launched(pytorch)
    job, pods = running(player, pytorch)
    run.says("running")
    for pod in pods:
        player.exit(pod, 143)
    message = "Job digits has failed because it was active longer than specified deadline"
    player.condition(job, "Failed", reason="PyTorchJobFailed", message=message)
    error = run.end().error
    assert isinstance(error, TimeLimitReached)
    assert str(error) == "the job ran into its time limit of 600 s"
    assert sorted(error.replica_seconds) == ["master-0", "worker-0"]
    assert all(seconds > 0 for seconds in error.replica_seconds.values())


def test_a_time_limit_is_named_where_the_pods_kept_it(launched, player, pytorch):
    pytorch["spec"]["runPolicy"]["activeDeadlineSeconds"] = 600
    run = launched(pytorch)
    job, (master, _) = running(player, pytorch)
    run.says("running")
    player.set(master, phase="Failed", reason="DeadlineExceeded", message="Pod was active on the")
    player.condition(job, "Failed", message="1 Master replica(s) failed")
    error = run.end().error
    assert isinstance(error, TimeLimitReached)
    assert str(error) == "the job ran into its time limit of 600 s"


def test_a_failure_without_pods_has_the_operators_words(launched, player, pytorch):
    run = launched(pytorch)
    player.condition(player.wait_for(pytorch), "Failed", message="the spec makes no sense")
    assert str(run.end().error) == "PyTorchJob digits failed: the spec makes no sense"


def test_the_failures_of_a_replica_that_has_recovered_are_not_the_cause(launched, player, pytorch):
    run = launched(pytorch)
    job = player.wait_for(pytorch)
    master, worker = player.pod(job, "master", restart="OnFailure"), player.pod(job, "worker")
    for pod in (master, worker):
        player.run(pod)
    player.condition(job, "Running")
    player.restart(master, 1)
    run.says("running: 2 of 2")
    player.exit(worker, 2)
    player.condition(job, "Failed")
    assert str(run.end().error) == "replica worker-0 exited with status 2"


def test_what_ran_before_a_restart_counts(launched, player, pytorch, tmp_path):
    run = launched(pytorch, timeline.Timeline(tmp_path / timeline.NAME))
    job = player.wait_for(pytorch)
    master = player.pod(job, "master", restart="OnFailure")
    player.run(master)  # at 10
    run.says("1 of 2 replicas run")
    player.restart(master, 1)  # it ends at 20 and starts anew at 30
    player.now()
    player.exit(master, 0)  # at 50
    player.condition(job, "Succeeded")
    assert run.end().seconds == {"master-0": 10.0 + 20.0}
    life = timeline.read(tmp_path / timeline.NAME)["master-0"]
    assert [
        (span.state, span.ended - span.began, span.failed)
        for span in life.spans
        if span.state in (timeline.RUNNING, timeline.RESTARTING)
    ] == [
        ("running", 10.0, "exited with status 1"),
        ("restarting", 10.0, ""),
        ("running", 20.0, ""),
    ]


def test_a_restarted_step_finds_its_job(cluster, launched, player, manifest):
    first = launched(manifest)
    job, pods = running(player, manifest)
    first.says("running")
    again = launched(manifest)
    again.says("running: 2 of 2")
    for pod in pods:
        player.exit(pod, 0)
    player.condition(job, "Complete" if job["kind"] == "TrainJob" else "Succeeded")
    assert first.end().error is None and again.end().error is None
    assert first.seconds == again.seconds
    late = launched(manifest).end()
    assert late.error is None and late.seconds == first.seconds
    assert player.wait_for(manifest)["metadata"]["uid"] == job["metadata"]["uid"]


def test_a_failed_job_is_replaced(launched, player, manifest):
    run = launched(manifest)
    failed, _ = running(player, manifest)
    player.condition(failed, "Failed")
    assert isinstance(run.end().error, JobFailed)
    again = launched(manifest)
    again.says("starting: 0 of 2")
    job, pods = running(player, manifest)
    assert job["metadata"]["uid"] != failed["metadata"]["uid"]
    for pod in pods:
        player.exit(pod, 0)
    player.condition(job, "Complete" if job["kind"] == "TrainJob" else "Succeeded")
    assert again.end().error is None


@STANDS_IN
def test_a_train_job_is_made_when_no_pod_of_an_earlier_one_is_left(
    server, standing_in, container_logs, launched, eventually
):
    """The pods of a TrainJob belong to a batch Job, and outlive it by the time they get to end."""
    manifest = manifests()["TrainJob"]
    player = Player(standing_in, container_logs)
    earlier = submission.submit(standing_in, manifest)
    pod = player.pod(earlier | {"metadata": earlier["metadata"] | {"uid": "a Job's"}}, "node")
    gone = Thread(target=jobs.delete, args=(standing_in, "digits"))
    gone.start()
    assert eventually(lambda: not exists(standing_in, earlier))
    run = launched(manifest)

    def looks():
        return sum("jobset-name%3Ddigits" in path for _, path in server.requests)

    before = looks()
    assert eventually(lambda: looks() > before + 5)
    assert gone.is_alive() and not exists(standing_in, earlier)
    player.remove(pod)
    gone.join(20)
    assert not gone.is_alive()
    run.says("starting: 0 of 2")
    player.condition(player.wait_for(manifest), "Complete")
    assert run.end().error is None


@pytest.mark.parametrize("state", ["Running", "Succeeded"])
def test_another_job_of_the_name_is_left_alone(cluster, launched, player, pytorch, state):
    there = submission.submit(cluster, pytorch)
    player.condition(there, state)
    other = pytorch | {"spec": pytorch["spec"] | {"nprocPerNode": "2"}}
    error = launched(other).end().error
    assert type(error) is InputError
    assert str(error) == (
        f"name 'digits': a PyTorchJob of that name exists already ({state.lower()}) and is a "
        "different job; delete it first, or choose another name"
    )
    assert exists(cluster, there)


def test_a_name_that_a_job_of_another_kind_has_is_refused(cluster, launched, pytorch):
    submission.submit(cluster, manifests()["TFJob"])
    error = launched(pytorch).end().error
    assert type(error) is InputError
    said = "name 'digits': a TFJob of that name exists already; delete it first"
    assert str(error).startswith(said)
    assert not exists(cluster, pytorch)


def test_pods_of_another_job_of_the_name_are_not_its_own(cluster, launched, player, pytorch):
    run = launched(pytorch)
    job = player.wait_for(pytorch)
    other = manifests()["TFJob"]
    other = cluster.create(kind_of(other), other, cluster.namespace)
    pod = player.pod(other, "worker")
    player.run(pod)
    player.exit(pod, 1)
    player.run(player.pod(job, "master"))
    run.says("starting: 1 of 2 replicas run")
    player.exit("digits-master-0", 0)
    player.condition(job, "Succeeded")
    assert set(run.end().seconds) == {"master-0"}


def test_an_invalid_manifest_is_refused_with_the_servers_words(cluster, launched, pytorch):
    error = launched(pytorch | {"spec": {}}).end().error
    assert type(error) is Invalid and error.exit_status == 2
    assert "invalid" in str(error) and "spec" in str(error)
    assert not exists(cluster, pytorch)


def test_a_job_that_runs_into_a_limit_is_deleted(cluster, launched, player, pytorch):
    run = launched(pytorch, starting=0.5)
    job = player.wait_for(pytorch)
    player.pod(job, "master")
    error = run.end().error
    assert str(error).startswith("the job was starting for more than its limit of 0.5 s")
    jobs_of = kind_of(job)
    submission.wait_until_gone(cluster, job)
    assert not cluster.list(jobs_of, cluster.namespace)["items"]
    assert not cluster.list(PODS, cluster.namespace)["items"]


def test_each_phase_has_a_limit_of_its_own(launched, player, pytorch):
    pytorch["spec"]["runPolicy"]["suspend"] = True
    run = launched(pytorch, queued=0.3, starting=0.1)
    player.condition(player.wait_for(pytorch), "Suspended")
    said = "the job was queued for more than its limit of 0.3 s: it is suspended, and no queue"
    assert str(run.end().error).startswith(said)


def test_why_pods_do_not_run_is_said(launched, player, pytorch):
    run = launched(pytorch, starting=60)
    job = player.wait_for(pytorch)
    run.says("starting: 0 of 2 replicas run; its operator has not started to handle it")
    player.condition(job, "Created")
    player.event(job, "FailedCreatePod", "exceeded quota: gpus")
    run.says("FailedCreatePod: exceeded quota: gpus")
    master, worker = player.pod(job, "master"), player.pod(job, "worker")
    player.event(player.get(worker), "FailedMount", "no such claim")
    run.says("worker-0: FailedMount: no such claim")
    room = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    player.set(worker, conditions=[room | {"message": "0/5 nodes have a GPU"}])
    run.says("worker-0: Unschedulable: 0/5 nodes have a GPU")
    waiting = {"reason": "ImagePullBackOff", "message": "no such image"}
    player._container(master, "Pending", {"waiting": waiting})
    run.says("master-0: ImagePullBackOff: no such image")
    player.run(master)
    run.says("starting: 1 of 2 replicas run; worker-0: Unschedulable")
    player.set(worker, conditions=[])
    player.run(worker)
    run.says("running: 2 of 2 replicas run")
    jobs.delete(player.cluster, "digits")
    run.end()
    assert "running: 2 of 2 replicas run" in run.states


def test_a_reason_is_said_as_long_as_it_holds(launched, player, pytorch, monkeypatch):
    run = launched(pytorch)
    job = player.wait_for(pytorch)
    player.condition(job, "Created")
    # As training operator 1.9 records it, of every pod that is not scheduled at once.
    unschedulable = "Error pod digits-master-0 condition message: 0/1 nodes are available"
    player.event(job, "Unschedulable", unschedulable)
    run.says("starting: 0 of 2 replicas run; Unschedulable: Error pod")
    room = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "full"}
    master, worker = player.pod(job, "master"), player.pod(job, "worker")
    player.set(master, conditions=[room])
    run.says("starting: 0 of 2 replicas run; master-0: Unschedulable: full")
    monkeypatch.setattr(follower, "REASON_EVERY", 1000.0)  # one more look at most
    player.set(master, conditions=[])
    player.run(master)
    run.says("starting: 1 of 2 replicas run")
    assert [state for state in run.states if "1 of 2" in state] == ["starting: 1 of 2 replicas run"]
    player.run(worker)
    run.says("running: 2 of 2 replicas run")
    player.condition(job, "Succeeded")
    assert run.end().error is None


def test_an_event_of_the_job_that_another_followed_is_over(cluster, player, pytorch):
    job = submission.submit(cluster, pytorch)
    player.condition(job, "Created")
    job = player.wait_for(pytorch)

    def why():
        return reasons.why_not_running(cluster, job, {}, lacking=True).words

    player.event(job, "FailedCreatePod", "exceeded quota: gpus")
    assert why() == "FailedCreatePod: exceeded quota: gpus"
    player.event(job, "SuccessfulCreatePod", "Created pod: digits-master-0", kind="Normal")
    assert why() == ""


def test_a_pod_that_no_scheduler_has_taken_up_says_so(cluster, pytorch):
    """As of one that asks for a scheduler that is not there: Kubernetes says nothing of it."""
    job = submission.submit(cluster, pytorch)
    pod = {"metadata": {"uid": "x"}, "spec": {"schedulerName": "volcano"}, "status": {}}
    found = reasons.why_not_running(cluster, job, {"master-0": pod}, lacking=False)
    said = "volcano has not started to handle it; if that lasts, is it running?"
    assert found == (f"master-0: {said}", {"master-0"})
    scheduled = {"type": "PodScheduled", "status": "True"}
    pod["status"] = {"conditions": [scheduled]}
    assert reasons.why_not_running(cluster, job, {"master-0": pod}, lacking=False) == ("", set())


def test_why_a_replica_that_has_run_does_not_is_said(launched, player, pytorch):
    run = launched(pytorch)
    job = player.wait_for(pytorch)
    pods = [player.pod(job, role, restart="OnFailure") for role in ("master", "worker")]
    for pod in pods:
        player.run(pod)
    run.says("running: 2 of 2 replicas run")
    player.restart(pods[1], 1)
    waiting = {"reason": "CrashLoopBackOff", "message": "back-off 40s"}
    player._container(pods[1], "Running", {"waiting": waiting}, restartCount=2)
    run.says("running: 1 of 2 replicas run; worker-0: CrashLoopBackOff: back-off 40s")
    player.condition(job, "Succeeded")
    assert run.end().error is None


def test_an_elastic_job_runs_with_fewer_replicas(launched, player, pytorch):
    pytorch["spec"]["elasticPolicy"] = {"minReplicas": 1, "maxReplicas": 2}
    run = launched(pytorch)
    job = player.wait_for(pytorch)
    pod = player.pod(job, "worker")
    player.run(pod)
    run.says("running: 1 of 2 replicas run")
    player.exit(pod, 0)
    player.condition(job, "Succeeded")
    assert run.end().error is None


@pytest.mark.parametrize("ending", ["Succeeded", "Failed"])
def test_pods_of_an_elastic_job_are_kept_until_its_logs_are_read(
    cluster, launched, player, pytorch, ending
):
    """Training operator 1.9 removes those that are just ending, and their logs with them."""
    spec = pytorch["spec"]
    spec["elasticPolicy"] = {"minReplicas": 1, "maxReplicas": 2}
    spec["runPolicy"]["cleanPodPolicy"] = "Running"
    run = launched(pytorch)
    job = player.wait_for(pytorch)
    pod = player.pod(job, "worker")
    player.run(pod)
    run.says("running: 1 of 2 replicas run")

    def policy():
        return player.wait_for(pytorch)["spec"]["runPolicy"]["cleanPodPolicy"]

    assert policy() == "None"
    player.exit(pod, 0)
    player.condition(job, ending)
    run.end()
    assert policy() == "Running"  # what still runs the operator removes now


@STANDS_IN
def test_an_elastic_job_that_may_not_be_changed_runs_all_the_same(
    server, standing_in, container_logs, launched, pytorch
):
    player = Player(standing_in, container_logs)
    pytorch["spec"] |= {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 2}}
    pytorch["spec"]["runPolicy"]["cleanPodPolicy"] = "Running"
    server.fail("PATCH", "/pytorchjobs/digits$", times=-1, code=403, message="no")
    run = launched(pytorch)
    run.says("starting")
    player.condition(player.wait_for(pytorch), "Succeeded")
    assert run.end().error is None


def test_a_job_that_is_deleted_meanwhile_has_failed(cluster, launched, player, manifest):
    run = launched(manifest)
    running(player, manifest)
    run.says("running")
    jobs.delete(cluster, "digits")
    assert str(run.end().error) == f"{manifest['kind']} digits was deleted while it ran"


def test_a_job_that_is_cancelled_meanwhile_is_cancelled(cluster, launched, player, manifest):
    run = launched(manifest)
    job, _ = running(player, manifest)
    run.says("running")
    jobs.cancel(cluster, "digits")
    error = run.end().error
    # Not 143: with that, Argo takes the step's pod for lost, and starts it and the job again.
    assert type(error) is Cancelled and error.exit_status == 1
    assert exists(cluster, job)  # the record


def test_a_cancelled_job_can_be_launched_again(cluster, launched, player, pytorch):
    cancelled = submission.submit(cluster, pytorch)
    jobs.cancel(cluster, "digits")
    run = launched(pytorch)
    run.says("starting")
    job = player.wait_for(pytorch)
    assert job["metadata"]["uid"] != cancelled["metadata"]["uid"]
    player.condition(job, "Succeeded")
    assert run.end().error is None


def test_owner_references_and_labels_reach_the_cluster(cluster, launched, player, pytorch):
    owner = submission.submit(cluster, pytorch | {"metadata": {"name": "workflow"}})
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": "workflow",
        "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": True,
    }
    pytorch["metadata"]["ownerReferences"] = [reference]
    run = launched(pytorch)
    job = player.wait_for(pytorch)
    assert job["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "trireme"
    run.says("starting")
    # Nothing outlives its run: the cluster deletes the job with its owner.
    jobs.delete(cluster, "workflow")
    assert str(run.end().error) == "PyTorchJob digits was deleted while it ran"
    assert not exists(cluster, job)
