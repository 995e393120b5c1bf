"""What Kueue and gang schedulers say of the jobs that wait for them, as the stand-in has it.

What Kueue does and says is that of Kueue 0.19.2, as it was seen on a cluster.
"""

import pytest
from api_server import Fault

from trireme.frameworks import KINDS, kind_of
from trireme.frameworks.kinds import RETRIES
from trireme.kubernetes.resources import Resource
from trireme.runner.cluster import jobs, submission

WORKLOADS = Resource("kueue.x-k8s.io", "v1beta1", "workloads")
POD_GROUPS = Resource("scheduling.volcano.sh", "v1beta1", "podgroups")


@pytest.fixture
def cluster(standing_in):
    """The operators of these queues are on no cluster for tests."""
    return standing_in


NO_ROOM = (
    "couldn't assign flavors to pod set master: insufficient unused quota for cpu in flavor all"
)


def workload(job, message):
    reserved = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": message}
    owner = {"kind": job["kind"], "name": "digits", "uid": job["metadata"]["uid"]}
    return {
        "kind": "Workload",
        "metadata": {
            "name": "pytorchjob-digits-8f0fd",
            "labels": {"kueue.x-k8s.io/job-uid": job["metadata"]["uid"]},
            "ownerReferences": [owner],
        },
        "spec": {"active": True},
        "status": {"conditions": [reserved]},
    }


def suspend(cluster, is_so):
    """Has Kueue take a job's place from it, or give it one."""
    body = {"spec": {"runPolicy": {"suspend": is_so}}}
    cluster.patch(KINDS["PyTorchJob"], "digits", "team", body)


def test_what_kueue_says_is_said(cluster, server, launched, player, queued):
    server.plurals["workloads"] = "Workload"
    run = launched(queued)
    job = player.wait_for(queued)
    run.says("queued: it asks for queue gpus, but Kueue has not created a Workload for it")
    player.condition(job, "Suspended", message="PyTorchJob digits is suspended.")
    cluster.create(WORKLOADS, workload(job, NO_ROOM), "team")
    run.says(f"queued: waiting in queue gpus: {NO_ROOM}")
    assert jobs.list_jobs(cluster)[0].reason == f"waiting in queue gpus: {NO_ROOM}"
    assert jobs.status(cluster, "digits").row.reason == f"waiting in queue gpus: {NO_ROOM}"
    suspend(cluster, False)
    player.condition(job, "Suspended", status="False")
    run.says("starting: 0 of 2 replicas run")
    player.condition(job, "Succeeded")
    assert run.end().error is None


def test_a_list_of_many_that_wait_asks_for_their_workloads_once(cluster, server, queued):
    server.plurals["workloads"] = "Workload"
    for name in ("a", "b", "c"):
        queued["metadata"]["name"] = name
        job = submission.submit(cluster, queued)
        waits = workload(job, f"{name} waits")
        waits["metadata"]["name"] = f"pytorchjob-{name}"
        cluster.create(WORKLOADS, waits, "team")
        body = {"status": {"conditions": [{"type": "Suspended", "status": "True"}]}}
        cluster.patch(KINDS["PyTorchJob"], name, "team", body)
    before = len(server.requests)
    found = {row.name: row.reason for row in jobs.list_jobs(cluster)}
    assert found == {name: f"waiting in queue gpus: {name} waits" for name in ("a", "b", "c")}
    assert sum("/workloads" in path for _, path in server.requests[before:]) == 1


@pytest.mark.slow
def test_a_job_that_another_one_takes_the_place_of_goes_on_later(
    cluster, server, launched, player, queued
):
    server.plurals["workloads"] = "Workload"
    server.queued.add("pytorchjobs")
    queued["metadata"]["annotations"] = {RETRIES: "0"}
    run = launched(queued, starting=60)
    job = player.wait_for(queued)
    suspend(cluster, False)
    before = [player.pod(job, "master"), player.pod(job, "worker")]
    for pod in before:
        player.run(pod)
    run.says("running: 2 of 2 replicas run")
    cluster.create(WORKLOADS, workload(job, f"Preempted; {NO_ROOM}"), "team")
    suspend(cluster, True)
    player.condition(job, "Running", status="False")
    player.condition(job, "Suspended")
    for pod in before:
        player.end(pod)
        player.exit(pod, 143)
        player.remove(pod)
    run.says(f"queued: waiting in queue gpus: Preempted; {NO_ROOM}")
    run.states.clear()
    suspend(cluster, False)
    player.condition(job, "Suspended", status="False")
    for role in ("master", "worker"):
        player.run(player.pod(job, role))
    run.says("running: 2 of 2 replicas run")
    player.condition(job, "Succeeded")
    assert run.end().error is None


def test_a_cancelled_job_leaves_its_queue_before_it_is_suspended(cluster, server, player, queued):
    """Kueue lets a job run again that is suspended while it has its place, so this is first."""
    server.plurals["workloads"] = "Workload"
    job = submission.submit(cluster, queued)
    cluster.create(WORKLOADS, workload(job, ""), "team")
    before = len(server.requests)
    jobs.cancel(cluster, "digits")
    changed = [path.partition("?")[0] for verb, path in server.requests[before:] if verb == "PATCH"]
    assert [path.rpartition("/")[2] for path in changed] == ["pytorchjob-digits-8f0fd", "digits"]
    now = cluster.get(WORKLOADS, "pytorchjob-digits-8f0fd", "team")
    assert now["spec"]["active"] is False


def test_who_may_not_change_a_queue_still_cancels_a_job(cluster, server, queued, capsys):
    server.plurals["workloads"] = "Workload"
    job = submission.submit(cluster, queued)
    cluster.create(WORKLOADS, workload(job, ""), "team")
    server.faults.append(Fault("PATCH", "/workloads/", 1, 403, message="cannot patch workloads"))
    jobs.cancel(cluster, "digits")
    assert "may not take job digits out of its queue" in capsys.readouterr().err
    assert cluster.get(kind_of(job), "digits", "team")["spec"]["runPolicy"]["suspend"] is True


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


@pytest.mark.slow
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
