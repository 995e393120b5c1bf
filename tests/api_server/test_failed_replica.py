"""Which replica a failure is blamed on, where pods go that somebody deletes, or never come."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from player import manifests

from trireme.errors import JobFailed
from trireme.frameworks.kinds import RETRIES
from trireme.kubernetes import pods
from trireme.kubernetes.resources import PODS
from trireme.kubernetes.streams import Stop
from trireme.observers.base import Observers
from trireme.observers.incidents import EPISODE, SEEN, from_annotation
from trireme.observers.preflight.replica.said import MARK
from trireme.runner.cluster import follower, jobs, replicas, submission
from trireme.runner.cluster.follower import Follower, Limits
from trireme.runner.cluster.replicas import LINES_LATE

PEER = "RuntimeError: Connection closed by peer [10.0.0.1]:23456"


@pytest.fixture
def cluster(standing_in):
    """A real API server deletes pods that are on no node at once."""
    return standing_in


@pytest.fixture(autouse=True)
def quick_to_settle(monkeypatch):
    monkeypatch.setattr(follower, "DRAIN", 1.0)


@pytest.fixture
def up(launched, player, pytorch):
    """Launches a job and brings its pods up; returns the run, the job and the pods."""
    run = launched(pytorch)
    job = player.wait_for(pytorch)
    pods = [player.pod(job, "master"), player.pod(job, "worker")]
    for pod in pods:
        player.run(pod)
    run.says("running: 2 of 2 replicas run")
    return run, job, pods


def said(run, eventually, line):
    assert eventually(lambda: line in [text for _, text in run.lines])


@pytest.mark.parametrize("peer", [PEER, "ValueError: the other one is gone"])
def test_a_replica_whose_pod_was_deleted_is_the_cause(up, player, eventually, peer):
    run, job, (master, worker) = up
    player.logs.write(worker, "step 7")
    said(run, eventually, "step 7")  # before the new pod, whose log is the same one here
    player.end(worker)
    player.exit(worker, 143)
    player.remove(worker)
    player.run(player.pod(job, "worker"))  # the operator makes it anew, whatever the policy
    player.logs.write(master, peer)
    said(run, eventually, peer)
    player.exit(master, 1)
    player.condition(job, "Failed")
    error = run.end().error
    assert str(error) == "replica worker-0 was removed: its pod was deleted while it ran"
    assert error.detail == "[worker-0] step 7"


@pytest.mark.parametrize("is_told_in_time", [True, False])
def test_a_pod_that_is_being_deleted_ends_the_job(up, player, is_told_in_time):
    """As with training operator 1.9, which fails the job for it and deletes the others, at once."""
    run, job, (master, worker) = up
    player.logs.write(worker, "step 7")
    at = player.now()
    player.end(worker, at)
    player.condition(job, "Failed", message="PyTorchJob digits is failed because 1 Worker failed.")
    player.end(master, at)
    if is_told_in_time:
        player.exit(master, 1)
        player.exit(worker, 143)
    error = run.end().error
    assert str(error) == "replica worker-0 was removed: its pod was deleted while it ran"
    assert error.detail == "[worker-0] step 7"


def test_a_pod_that_is_deleted_because_another_failed_is_not(up, player):
    run, job, (master, worker) = up
    player.exit(worker, 3)
    player.end(master)
    player.exit(master, 143)
    player.condition(job, "Failed")
    assert str(run.end().error) == "replica worker-0 exited with status 3"


def test_the_exception_that_a_replica_has_failed_with_is_told(up, player, eventually):
    run, job, (_, worker) = up
    lines = ["Traceback (most recent call last):", '  File "train.py", line 3, in <module>']
    player.logs.write(worker, *lines, "KeyError: 'loss'")
    said(run, eventually, "KeyError: 'loss'")
    player.exit(worker, 1)
    player.condition(job, "Failed")
    assert str(run.end().error) == "replica worker-0 exited with status 1: KeyError: 'loss'"


def test_what_the_preflight_said_is_none_of_a_replicas_words(up, player, eventually):
    run, job, (master, worker) = up
    player.logs.write(worker, MARK + '{"skipped":"Broken pipe"}', "the cause")
    said(run, eventually, "the cause")
    player.exit(worker, 3)
    player.logs.write(master, "and this")
    player.exit(master, 1)
    player.condition(job, "Failed")
    error = run.end().error
    assert str(error) == "replica worker-0 exited with status 3"
    assert error.detail == "[worker-0] the cause"
    assert not any(MARK in line for _, line in run.lines)


def test_a_pod_that_was_deleted_long_before_is_not(up, player, pytorch):
    run, job, (master, worker) = up
    player.end(worker)
    player.exit(worker, 143)
    player.remove(worker)
    player.run(player.pod(job, "worker"))
    for _ in range(10):
        player.now()
    player.exit(master, 2)
    player.condition(job, "Failed")
    assert str(run.end().error) == "replica master-0 exited with status 2"


def test_a_failed_pod_that_is_deleted_afterwards_stays_the_cause(up, player, cluster):
    run, job, (master, worker) = up
    player.exit(worker, 3)
    player.exit(master, 1)
    # As the API server deletes a pod that is over: with no time to end.
    going = {"deletionTimestamp": player.now(), "deletionGracePeriodSeconds": 0}
    cluster.patch(PODS, worker, "team", {"metadata": going})
    player.remove(worker)
    player.condition(job, "Failed")
    assert str(run.end().error) == "replica worker-0 exited with status 3"


def test_retries_that_the_operator_does_not_count_are_counted(launched, player, pytorch, cluster):
    """Training operator 1.9 makes a new pod under ExitCode, of whose restarts there are none."""
    pytorch["metadata"]["annotations"] = {RETRIES: "2"}
    for role in pytorch["spec"]["pytorchReplicaSpecs"].values():
        role["restartPolicy"] = "ExitCode"
    run = launched(pytorch)
    job = player.wait_for(pytorch)
    player.run(player.pod(job, "master"))
    for _ in range(3):
        worker = player.pod(job, "worker")
        player.run(worker)
        run.says("running: 2 of 2 replicas run")
        player.exit(worker, 137)
        run.says("running: 1 of 2 replicas run")
        player.remove(worker)
        run.states.clear()
    player.pod(job, "worker")
    assert str(run.end().error) == "replica worker-0 was ended by SIGKILL, after 2 retries"
    assert jobs.list_jobs(cluster) == []


def test_replicas_that_die_together_are_one_retry(launched, player, pytorch, cluster):
    """Their containers are started again where they are, and each time both have died."""
    pytorch["spec"]["runPolicy"]["backoffLimit"] = 5
    pytorch["metadata"]["annotations"] = {RETRIES: "2"}
    run = launched(pytorch)
    job = player.wait_for(pytorch)
    pair = [player.pod(job, role, restart="OnFailure") for role in ("master", "worker")]
    for pod in pair:
        player.run(pod)
    run.says("running: 2 of 2 replicas run")
    for again in (player.restart, player.back_off):
        for _ in range(int(EPISODE)):
            player.now()
        for pod in pair:
            again(pod, 1)
    for _ in range(3 * int(LINES_LATE)):
        assert run.error is None
        time.sleep(0.5)
    for pod in pair:
        player.exit(pod, 1)
    assert "exited with status 1, after 2 retries" in str(run.end().error)
    assert jobs.list_jobs(cluster) == []


def test_who_notices_only_later_that_a_peer_had_gone_uses_no_retry(
    launched, player, pytorch, monkeypatch
):
    monkeypatch.setattr(replicas, "LINES_LATE", 0.2)
    pytorch["metadata"]["annotations"] = {RETRIES: "1"}
    run = launched(pytorch)
    job = player.wait_for(pytorch)
    pair = [player.pod(job, role, restart="OnFailure") for role in ("master", "worker")]
    for pod in pair:
        player.run(pod)
    run.says("running: 2 of 2 replicas run")
    player.logs.write(pair[1], PEER)
    player.restart(pair[0], 1)
    for _ in range(int(EPISODE)):
        player.now()
    player.restart(pair[1], 1)
    for _ in range(10):
        assert run.error is None
        time.sleep(0.2)
    for pod in pair:
        player.exit(pod, 0)
    player.condition(job, "Succeeded")
    assert run.end().error is None


def test_who_follows_a_job_next_knows_what_has_failed_before(player, pytorch, cluster, eventually):
    """Of a container's ends Kubernetes keeps the last one alone."""
    pytorch["spec"]["runPolicy"]["backoffLimit"] = 5
    pytorch["metadata"]["annotations"] = {RETRIES: "1"}
    submission.submit(cluster, pytorch)
    job = player.wait_for(pytorch)
    pair = [player.pod(job, role, restart="OnFailure") for role in ("master", "worker")]

    def follow(stop):
        found = submission.find(cluster, pytorch)
        return Follower(cluster, found, Limits(), Observers(), stop=stop).follow()

    def has_noted():
        noted = submission.find(cluster, pytorch)["metadata"]["annotations"].get(SEEN, "[]")
        return len(from_annotation(noted)) == 2

    for pod in pair:
        player.run(pod)
    with ThreadPoolExecutor(1) as other:
        first = other.submit(follow, stop := Stop())
        for pod in pair:
            player.restart(pod, 1)
        assert eventually(has_noted)
        stop.set()  # its pod is drained
        assert first.result() == {}
        for _ in range(int(EPISODE)):
            player.now()
        for pod in pair:
            player.back_off(pod, 1)
        with pytest.raises(JobFailed, match="exited with status 1, after 1 retry"):
            follow(Stop())


OVER = [
    "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ",
    'Container pytorch exceeded its local ephemeral storage limit "1Gi". ',
    'Usage of EmptyDir volume "shm" exceeds the limit "64Mi". ',
]


@pytest.mark.parametrize("kind", ["PyTorchJob", "TrainJob"])
@pytest.mark.parametrize("message", OVER)
@pytest.mark.parametrize("is_removed", [True, False])
def test_a_replica_that_used_more_than_it_may_has_failed_and_is_not_made_anew(
    launched, player, cluster, monkeypatch, kind, message, is_removed
):
    monkeypatch.setattr("trireme.runner.cluster.runner.LOST", 1)
    manifest = manifests()[kind]
    run = launched(manifest)
    job = player.wait_for(manifest)
    places = [("master", 0), ("worker", 0)] if kind == "PyTorchJob" else [("node", 0), ("node", 1)]
    pair = [player.pod(job, role, index) for role, index in places]
    for pod in pair:
        player.run(pod)
    run.says("running")
    if not is_removed:  # else its kubelet tells of the pod before its container has ended
        player.exit(pair[1], 137)
    by_kubelet = {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}
    by_kubelet["lastTransitionTime"] = player.now()
    player.set(pair[1], reason="Evicted", message=message, conditions=[by_kubelet])
    player.exit(pair[0], 1)
    player.condition(job, "Failed")
    error = run.end().error
    assert type(error) is JobFailed
    said = "-0 was evicted" if kind == "PyTorchJob" else "-1 was evicted"
    assert f"{said} from its node: {message.strip()}" in str(error)
    assert player.wait_for(manifest)["metadata"]["uid"] == job["metadata"]["uid"]


@pytest.mark.parametrize("message", OVER)
def test_one_that_used_more_than_it_may_uses_a_retry(launched, player, pytorch, message):
    pytorch["metadata"]["annotations"] = {RETRIES: "1"}
    for role in pytorch["spec"]["pytorchReplicaSpecs"].values():
        role["restartPolicy"] = "ExitCode"
    run = launched(pytorch)
    job = player.wait_for(pytorch)
    player.run(player.pod(job, "master"))
    for _ in range(2):
        worker = player.pod(job, "worker")
        player.run(worker)
        run.says("running: 2 of 2 replicas run")
        player.exit(worker, 137)
        player.set(worker, reason="Evicted", message=message)
        run.says("running: 1 of 2 replicas run")
        player.remove(worker)
        run.states.clear()
    player.pod(job, "worker")
    assert str(run.end().error).endswith(", after 1 retry")


def test_a_node_that_goes_is_no_retry(launched, player, pytorch, cluster):
    pytorch["spec"]["runPolicy"]["backoffLimit"] = 0
    for role in pytorch["spec"]["pytorchReplicaSpecs"].values():
        role["restartPolicy"] = "ExitCode"
    run = launched(pytorch)
    job = player.wait_for(pytorch)
    master, worker = player.pod(job, "master"), player.pod(job, "worker")
    player.run(master)
    player.run(worker)
    run.says("running: 2 of 2 replicas run")
    # https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions
    gone = {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}
    player.set(worker, conditions=[gone | {"lastTransitionTime": player.now()}])
    player.exit(worker, 143)
    run.says("running: 1 of 2 replicas run")
    player.remove(worker)
    run.states.clear()
    player.run(player.pod(job, "worker"))
    run.says("running: 2 of 2 replicas run")
    player.exit(worker, 0)
    player.exit(master, 0)
    player.condition(job, "Succeeded")
    assert run.end().error is None


def test_what_may_have_lacked_memory_is_told_its_limit():
    """containerd 2.3 may tell of the want of memory after the kubelet has asked how it ended."""
    limited = {"name": "pytorch", "resources": {"limits": {"memory": "1Gi"}}}
    pod = {"spec": {"containers": [limited]}}
    ended = {"exitCode": 137, "reason": "Error"}
    words = "was ended by SIGKILL, perhaps because it needs more memory than its limit of 1Gi"
    assert pods.exit_words(ended, pod, "pytorch") == words
    assert pods.exit_words(ended | {"exitCode": 143}, pod, "pytorch") == "was ended by SIGTERM"


def test_a_replica_whose_image_cannot_be_pulled_is_the_cause_and_not_who_waited_for_it(
    launched, player, pytorch
):
    run = launched(pytorch)
    job = player.wait_for(pytorch)
    master, worker = player.pod(job, "master"), player.pod(job, "worker")
    waiting = {"reason": "ErrImagePull", "message": "no such image"}
    player._container(master, "Pending", {"waiting": waiting})
    run.says("master-0: ErrImagePull: no such image")
    # It has tried for minutes to look the master up.
    ended = {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": player.now()}}
    init = [{"name": "init-pytorch", "state": ended}]
    player.set(worker, phase="Failed", initContainerStatuses=init)
    player.end(master)
    gone = {"exitCode": 137, "reason": "ContainerStatusUnknown", "finishedAt": player.now()}
    player._container(master, "Failed", {"terminated": gone})
    player.condition(job, "Failed")
    said = "replica master-0 did not start: ErrImagePull: no such image"
    assert str(run.end().error) == said
