"""Replicas whose node dies under them: what is said of their jobs, and whom a failure is put on.

The node controller of Kubernetes 1.36 takes the condition Ready of a silent node's pods back,
without a reason, and has them deleted five minutes later, which only the node could confirm.
"""

import time

import pytest
from player import Player

from trireme.errors import InputError
from trireme.job.job import TrainingJob
from trireme.kubernetes import pods
from trireme.manifests import render
from trireme.runner.cluster import follower, jobs

READY = {"type": "Ready", "status": "True"}
MARKED = {"type": "Ready", "status": "False"}
WHY = "its node node-1 is NotReady"


@pytest.fixture(autouse=True)
def quick_to_settle(monkeypatch):
    monkeypatch.setattr(follower, "DRAIN", 1.0)


@pytest.fixture
def cluster(standing_in):
    """A real API server would have to have the node."""
    return standing_in


@pytest.fixture
def player(standing_in, container_logs):
    """Its pods are on a node."""
    return Player(standing_in, container_logs, "node-1")


@pytest.fixture
def up(launched, player, pytorch):
    """Launches a job and brings its pods up; returns the run, the job and the pods."""
    run = launched(pytorch)
    job = player.wait_for(pytorch)
    pods = [player.pod(job, "master"), player.pod(job, "worker")]
    for pod in pods:
        player.run(pod)
    player.condition(job, "Running")
    run.says("running: 2 of 2 replicas run")
    return run, job, pods


def replicas(player):
    rows = jobs.status(player.cluster, "digits").replicas
    return [(row.name, row.state, row.reason) for row in rows]


def test_a_replica_whose_node_is_lost_is_told(up, player, eventually):
    run, job, (_, worker) = up
    player.set(worker, conditions=[MARKED])
    run.says(f"running: 1 of 2 replicas run; worker-0: {WHY}")
    assert jobs.status(player.cluster, "digits").row.reason == f"worker-0: {WHY}"
    assert replicas(player) == [("master-0", "running", ""), ("worker-0", "unknown", WHY)]
    player.condition(job, "Restarting", message="1 Worker replica(s) failed.")
    run.says(f"restarting: 1 Worker replica(s) failed; worker-0: {WHY}")
    player.condition(job, "Restarting", status="False")
    given_up = player.get(worker)
    given_up["metadata"]["deletionTimestamp"] = player.now()
    assert pods.waiting_reason(given_up).endswith("if that is off: kubectl delete node node-1")
    player.set(worker, conditions=[READY])
    assert eventually(lambda: run.states[-1] == "running: 2 of 2 replicas run")
    player.condition(job, "Succeeded")
    assert run.end().error is None


def test_a_program_that_is_not_ready_is_on_no_lost_node(up, player):
    _, _, (_, worker) = up
    player.set(worker, conditions=[MARKED | {"reason": "ContainersNotReady"}])
    assert replicas(player) == [("master-0", "running", ""), ("worker-0", "running", "")]


def test_the_node_is_named_rather_than_who_waits_for_what_was_on_it(up, player):
    run, _, (master, worker) = up
    waiting = {"reason": "CrashLoopBackOff", "message": "back-off 40s"}
    player._container(master, "Running", {"waiting": waiting}, restartCount=2)
    run.says("running: 1 of 2 replicas run; master-0: CrashLoopBackOff: back-off 40s")
    player.set(worker, conditions=[MARKED])
    run.says(f"running: 0 of 2 replicas run; worker-0: {WHY}")
    assert jobs.status(player.cluster, "digits").row.reason == f"worker-0: {WHY}"


def test_what_a_job_uses_without_its_nodes_is_refused_with_the_reason(up, player):
    for pod in up[2]:
        player.set(pod, conditions=[MARKED])
    with pytest.raises(InputError) as caught:
        jobs.usage(player.cluster, "digits")
    assert str(caught.value) == f"job 'digits' does not run: master-0: {WHY}"
    for pod in up[2]:
        player.remove(pod)
    with pytest.raises(InputError) as caught:
        jobs.usage(player.cluster, "digits")
    assert str(caught.value) == "job 'digits' does not run: none of its replicas does"


def test_a_pod_that_has_a_successor_is_no_matter_of_its_job(player, launched, monkeypatch):
    """A TrainJob's pods are made anew beside those that are given up."""
    manifest = render(
        TrainingJob.create(name="digits", entrypoint="train.py", workers=1), "trainer"
    )
    run = launched(manifest)
    job = player.wait_for(manifest)
    first = player.pod(job, "worker", restart="OnFailure")
    player.run(first)
    player.set(first, conditions=[MARKED])

    def told():
        row = jobs.status(player.cluster, "digits").row
        return row.state, row.running, row.reason

    # Trainer counts none of its nodes as running.
    assert told() == ("running", 0, f"worker-0: {WHY}")
    player.logs.write(first, "epoch 1/4")
    assert not jobs.status(player.cluster, "digits").progress
    time.sleep(1)  # moments are whole seconds
    second = player.pod(job, "worker", suffix="-again", restart="OnFailure")
    player.run(second)
    assert told() == ("running", 1, "")
    assert replicas(player) == [("worker-0", "unknown", WHY), ("worker-0", "running", "")]
    player.logs.write(second, "epoch 2/4")
    now = jobs.status(player.cluster, "digits").progress
    assert now and now.share == 0.25
    monkeypatch.setattr(jobs.containers, "measured", lambda *about: {})
    assert [row.name for row in jobs.usage(player.cluster, "digits")] == ["worker-0"]
    assert jobs.running_replica(player.cluster, "digits", "worker-0")[0] == second
    run.states.clear()
    player.exit(second, 0)
    # A Job of Kubernetes 1.36 is over only when none of its pods ends any more.
    run.says(f"0 of 2 replicas run; worker-0: {WHY}")
    assert told() == ("running", 0, f"worker-0: {WHY}")
    (listed,) = jobs.list_jobs(player.cluster)
    assert (listed.state, listed.running, listed.reason) == told()
    player.condition(job, "Complete")
    assert run.end().error is None


def test_a_lost_replica_is_no_cause_by_what_it_has_survived(up, player, eventually):
    run, job, (master, worker) = up
    player.logs.write(worker, "ValueError: of long ago")
    assert eventually(lambda: run.lines)
    player.restart(worker, 1)
    run.says("running: 2 of 2 replicas run")
    player.set(worker, conditions=[MARKED])
    run.says(WHY)
    player.exit(master, 3)
    player.condition(job, "Failed")
    assert str(run.end().error) == "replica master-0 exited with status 3"


TAKEN = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "DeletionByTaintManager",
    "message": "deleting due to NoExecute taint",
}
DRAINED = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}


@pytest.mark.parametrize("restarts", [0, 1])
def test_the_node_that_was_lost_is_the_cause_of_what_waited_for_it(up, player, restarts):
    run, job, (master, worker) = up
    for _ in range(restarts):
        player.restart(worker, 1)  # which its next start has survived
    player.set(worker, conditions=[MARKED])
    run.says(WHY)
    player.set(worker, conditions=[MARKED, TAKEN | {"lastTransitionTime": player.now()}])
    player.end(worker)  # which only its node could confirm
    player.exit(master, 134)  # NCCL's watchdog, ten minutes after the last word of its peer
    player.condition(job, "Failed")
    assert str(run.end().error) == (
        "replica worker-0 was removed from its node (DeletionByTaintManager): "
        "deleting due to NoExecute taint"
    )


def test_what_a_pod_failed_with_is_kept_when_it_is_taken_later(up, player):
    _, _, (_, worker) = up
    player.restart(worker, 1)
    before = pods.failure(player.get(worker), "pytorch")
    assert before and before.words == "exited with status 1"
    at = player.now()
    player.set(worker, conditions=[MARKED, TAKEN | {"lastTransitionTime": at}])
    taken = pods.failure(player.get(worker), "pytorch")
    assert taken and taken.taken
    assert (taken.at, taken.start == before.start) == (pods.moment(at), False)


def test_a_replica_that_its_kubelet_evicts_is_the_cause(up, player):
    run, job, (master, worker) = up
    by_kubelet = DRAINED | {"reason": "TerminationByKubelet", "lastTransitionTime": player.now()}
    player.set(worker, conditions=[by_kubelet])  # it has its time to end, and is not deleted
    player.exit(master, 1)
    player.condition(job, "Failed")
    assert (
        str(run.end().error) == "replica worker-0 was removed from its node (TerminationByKubelet)"
    )


@pytest.mark.parametrize("status", [0, 143])
@pytest.mark.parametrize("fails", [True, False])
def test_a_replica_that_is_drained_is_the_cause(up, player, eventually, status, fails):
    run, job, (master, worker) = up
    at = player.now()
    player.set(worker, conditions=[DRAINED | {"lastTransitionTime": at}])
    player.end(worker, at)
    if fails:  # for want of the other one, which uses its time to save
        player.logs.write(master, "RuntimeError: Connection closed by peer [10.0.0.1]:23456")
        assert eventually(lambda: run.lines)
        player.exit(master, 1)
    else:  # training operator 1.9 takes one that is being deleted for one that has failed
        player.end(master, at)
    player.exit(worker, status)
    player.condition(job, "Failed")
    assert (
        str(run.end().error) == "replica worker-0 was removed from its node (EvictionByEvictionAPI)"
    )
