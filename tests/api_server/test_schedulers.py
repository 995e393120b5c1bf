"""What Kueue and gang schedulers say of the jobs that wait for them, as the stand-in has it."""

import pytest

from trireme.components.kubernetes.resources import Resource
from trireme.components.training.cluster import jobs, submission
from trireme.components.training.frameworks import kind_of

WORKLOADS = Resource("kueue.x-k8s.io", "v1beta1", "workloads")
POD_GROUPS = Resource("scheduling.volcano.sh", "v1beta1", "podgroups")


@pytest.fixture
def cluster(standing_in):
    """The operators of these queues are on no cluster for tests."""
    return standing_in


def workload(job, message):
    reserved = {"type": "QuotaReserved", "status": "False", "message": message}
    owner = {"kind": job["kind"], "name": "digits", "uid": job["metadata"]["uid"]}
    return {
        "kind": "Workload",
        "metadata": {"name": "pytorchjob-digits", "ownerReferences": [owner]},
        "spec": {"active": True},
        "status": {"conditions": [reserved]},
    }


def test_what_kueue_says_is_said(cluster, server, launched, player, queued):
    server.plurals["workloads"] = "Workload"
    run = launched(queued)
    job = player.wait_for(queued)
    run.says("queued: it asks for queue gpus, but Kueue has not created a Workload for it")
    cluster.create(WORKLOADS, workload(job, "insufficient quota for gpu"), "team")
    run.says("queued: waiting in queue gpus: insufficient quota for gpu")
    cluster.patch(kind_of(job), "digits", "team", {"spec": {"runPolicy": {"suspend": False}}})
    run.says("starting: 0 of 2 replicas run")
    player.condition(job, "Succeeded")
    assert run.end().error is None


def test_a_cancelled_job_leaves_its_queue(cluster, server, player, queued):
    server.plurals["workloads"] = "Workload"
    job = submission.submit(cluster, queued)
    cluster.create(WORKLOADS, workload(job, ""), "team")
    jobs.cancel(cluster, "digits")
    now = cluster.get(WORKLOADS, "pytorchjob-digits", "team")
    assert now["spec"]["active"] is False


def test_what_a_gang_scheduler_says_is_said(cluster, server, launched, player, gang):
    server.plurals["podgroups"] = "PodGroup"
    run = launched(gang, queued=60)
    job = player.wait_for(gang)
    group = {
        "kind": "PodGroup",
        "metadata": {"name": "digits"},
        "spec": {"minMember": 2},
        "status": {
            "phase": "Pending",
            "conditions": [{"type": "Unschedulable", "status": "True", "message": "2/2 too big"}],
        },
    }
    cluster.create(POD_GROUPS, group, "team")
    run.says("queued: waiting for room for all its pods at once: 2/2 too big")
    player.condition(job, "Succeeded")
    assert run.end().error is None


def test_pods_that_were_made_without_their_gang_are_said_to_be(launched, player, gang):
    run = launched(gang)
    job = player.wait_for(gang)
    player.condition(job, "Created")
    player.run(player.pod(job, "master"))
    run.says("starting: 1 of 2 replicas run; it asks for gang scheduling, but no PodGroup has")
    player.run(player.pod(job, "worker"))
    run.says("running: 2 of 2 replicas run")
    player.condition(job, "Succeeded")
    assert run.end().error is None
